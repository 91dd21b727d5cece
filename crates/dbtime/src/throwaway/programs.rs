//! Finds the programs of an installed PostgreSQL.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The oldest major version whose wait events can be read.
const OLDEST: u32 = 14;
/// Where distributions put the programs, one folder per major version.
const INSTALLED: [(&str, &str); 2] = [("/usr/lib/postgresql", "bin"), ("/usr", "bin")];

/// Programs of one server, and client programs that go with it.
#[derive(Debug, Clone)]
pub struct Programs {
    server_dir: PathBuf,
    /// Searched for client programs after the server's own directory: some builds come without them.
    client_dirs: Vec<PathBuf>,
    major: u32,
}

impl Programs {
    /// The server in `given`, or the first found by `pg_config`, below `/usr/lib/postgresql` and
    /// `/usr/pgsql-*` (newest first), or in `PATH`.
    ///
    /// # Errors
    /// There is none, or none that is new enough.
    pub fn find(given: Option<&Path>) -> Result<Programs> {
        let installed = installed();
        let candidates = match given {
            Some(directory) => vec![directory.to_path_buf()],
            None => installed.clone(),
        };
        let mut too_old = None;
        for directory in &candidates {
            if !directory.join("postgres").is_file() || !directory.join("initdb").is_file() {
                continue;
            }
            let major = major_version(&directory.join("postgres"))?;
            if major >= OLDEST {
                return Ok(Programs {
                    server_dir: directory.clone(),
                    client_dirs: installed,
                    major,
                });
            }
            too_old = Some((directory, major));
        }
        match (too_old, given) {
            (Some((directory, major)), _) => bail!(
                "PostgreSQL in {} is version {major}; at least {OLDEST} is needed",
                directory.display()
            ),
            (None, Some(directory)) => bail!("no postgres and initdb in {}", directory.display()),
            (None, None) => bail!(
                "no PostgreSQL server found (pg_config, /usr/lib/postgresql/*/bin, /usr/pgsql-*/bin, PATH); install \
                 the package postgresql"
            ),
        }
    }

    /// Major version of the server.
    pub fn major(&self) -> u32 {
        self.major
    }

    /// Directory of the server's programs.
    pub fn server_dir(&self) -> &Path {
        &self.server_dir
    }

    pub(super) fn server(&self, name: &str) -> PathBuf {
        self.server_dir.join(name)
    }

    /// A client program.
    ///
    /// # Errors
    /// It is not installed.
    pub fn client(&self, name: &str) -> Result<PathBuf> {
        std::iter::once(&self.server_dir)
            .chain(&self.client_dirs)
            .map(|directory| directory.join(name))
            .find(|program| program.is_file())
            .with_context(|| {
                format!(
                    "{name} is neither in {} nor installed elsewhere; it comes with the client package of PostgreSQL \
                     (pgbench with its contrib package on some systems)",
                    self.server_dir.display()
                )
            })
    }
}

/// Directories that may hold the programs, best first.
fn installed() -> Vec<PathBuf> {
    let mut directories = Vec::new();
    if let Ok(output) = Command::new("pg_config").arg("--bindir").output() {
        directories.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    let mut versioned = Vec::new();
    for (root, bin) in INSTALLED {
        for entry in fs::read_dir(root).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let version = name.strip_prefix("pgsql-").unwrap_or(&name);
            if let Ok(major) = version.parse::<f32>() {
                versioned.push((major, entry.path().join(bin)));
            }
        }
    }
    versioned.sort_by(|a, b| b.0.total_cmp(&a.0));
    directories.extend(versioned.into_iter().map(|(_, directory)| directory));
    let path = std::env::var_os("PATH").unwrap_or_default();
    for directory in std::env::split_paths(&path) {
        // Links are resolved: the program finds its libraries and data files from its real location.
        match fs::canonicalize(directory.join("postgres")) {
            Ok(program) => directories.extend(program.parent().map(Path::to_path_buf)),
            Err(_) => directories.push(directory),
        }
    }
    directories.retain(|directory| directory.is_dir());
    directories
}

fn major_version(postgres: &Path) -> Result<u32> {
    let output = Command::new(postgres)
        .arg("--version")
        .output()
        .with_context(|| format!("cannot run {}", postgres.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)"; development versions say "19devel".
    text.split_whitespace()
        .find_map(|word| {
            let digits: String = word.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        })
        .with_context(|| format!("{} --version printed no version: {text}", postgres.display()))
}
