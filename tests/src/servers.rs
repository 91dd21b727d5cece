//! The PostgreSQL builds that the tests run: the distribution's, and those that scripts/postgres-builds.sh fetched.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use dbtime::throwaway::{Cluster, Options, Programs};
use tempfile::TempDir;

use crate::command::open_directory;
use crate::folder::copy_with_owners;
use crate::host::repository;
use crate::{empty_clusters, skip};

/// Majors that scripts/postgres-builds.sh fetches.
const MAJORS: [u32; 5] = [14, 15, 16, 17, 18];

/// A build of PostgreSQL.
#[derive(Debug)]
pub struct Server {
    /// For messages.
    pub name: String,
    /// Major version.
    pub major: u32,
    bin_dir: PathBuf,
    _copy: Option<TempDir>,
}

impl Server {
    /// Options for a cluster of this build.
    pub fn options(&self) -> Options {
        Options::default().bin_dir(&self.bin_dir)
    }

    /// A program of it.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }

    /// A copy of its files, under this name for messages. Only for builds that scripts/postgres-builds.sh fetched, which run from anywhere.
    ///
    /// # Panics
    /// When it cannot be copied.
    #[track_caller]
    pub(crate) fn copy(&self, name: &str) -> Server {
        let tree = self.bin_dir.parent().expect("programs lie in a tree");
        let copy = open_directory();
        copy_with_owners(tree, copy.path());
        Server {
            name: name.to_string(),
            major: self.major,
            bin_dir: copy.path().join(self.major.to_string()).join("bin"),
            _copy: Some(copy),
        }
    }

    /// A cluster of this build.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(&self, options: Options) -> Cluster {
        let mut options = options.bin_dir(&self.bin_dir);
        if options.copy_of.is_none() {
            let directory = empty_clusters::initialised(self, options.checksums);
            options = options.copy_of(&directory);
        }
        Cluster::start(&options).unwrap_or_else(|e| panic!("{}: {e:#}", self.name))
    }
}

/// The distribution's server: Debian builds it with frame pointers.
///
/// # Panics
/// When there is none.
pub fn distribution() -> Server {
    let programs = Programs::find(None).expect("the distribution's PostgreSQL is installed");
    Server {
        name: format!("PostgreSQL {} of the distribution", programs.major()),
        major: programs.major(),
        bin_dir: programs.server_dir().to_path_buf(),
        _copy: None,
    }
}

/// The builds without frame pointers, of these majors or of all. It says loudly which are missing.
///
/// # Panics
/// In CI, when one is missing.
pub fn builds(majors: &[u32]) -> Vec<Server> {
    let majors = if majors.is_empty() { &MAJORS } else { majors };
    majors.iter().filter_map(|&major| build(major)).collect()
}

/// One server of every major version: the distribution's, and a build without frame pointers of each other one. What a version lays out
/// in its memory does not depend on who built it.
pub fn every_version() -> Vec<Server> {
    let distribution = distribution();
    let others: Vec<u32> = MAJORS
        .into_iter()
        .filter(|major| *major != distribution.major)
        .collect();
    let mut servers = builds(&others);
    servers.push(distribution);
    servers
}

fn build(major: u32) -> Option<Server> {
    let tree = repository().join("target/postgres").join(major.to_string());
    if !tree.join("bin/postgres").is_file() {
        skip(&format!(
            "no build of PostgreSQL {major}: run scripts/postgres-builds.sh"
        ));
        return None;
    }
    // With a checkout below a private home directory, the server, which must not be root, could not read its programs.
    let is_open = tree.ancestors().all(open_to_all);
    let server = Server {
        name: format!("PostgreSQL {major} without frame pointers"),
        major,
        bin_dir: tree.join("bin"),
        _copy: None,
    };
    match is_open {
        true => Some(server),
        false => Some(server.copy(&server.name)),
    }
}

fn open_to_all(directory: &Path) -> bool {
    fs::metadata(directory).is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0)
}
