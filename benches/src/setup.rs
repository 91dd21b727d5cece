//! What every part of the benchmark needs: the arguments, the program that is measured, a signal to stop.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::arguments::Arguments;
use crate::stop::Stop;

/// The benchmark as it was asked for.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The command line arguments.
    pub(crate) arguments: Arguments,
    /// Set by Ctrl-C.
    pub(crate) stop: Stop,
    /// The command that is measured.
    pub(crate) dbtime: PathBuf,
    /// What it says about its version.
    pub(crate) dbtime_version: String,
    /// perf's version; none when it is not installed.
    pub(crate) perf_version: Option<String>,
    /// Whether libbpf-tools' offcputime is installed.
    pub(crate) has_offcputime: bool,
    /// For the order of the observers and for the bootstrap.
    pub(crate) seed: u64,
}

impl Setup {
    /// Finds the programs.
    ///
    /// # Errors
    /// dbtime was not built.
    pub(crate) fn new(arguments: Arguments, stop: Stop) -> Result<Setup> {
        let dbtime = match &arguments.dbtime {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("dbtime"),
        };
        if !dbtime.is_file() {
            bail!(
                "{} is not there: run 'cargo build --release' first, or name a dbtime by --dbtime",
                dbtime.display()
            );
        }
        Ok(Setup {
            dbtime_version: version(&dbtime)?,
            perf_version: version(Path::new("perf")).ok(),
            has_offcputime: version(Path::new("offcputime")).is_ok(),
            seed: arguments.seed.unwrap_or_else(|| fastrand::u64(1..100_000)),
            dbtime,
            stop,
            arguments,
        })
    }
}

/// First line of what a program says to `--version`.
///
/// # Errors
/// It cannot be run.
pub(crate) fn version(program: &Path) -> Result<String> {
    let output = Command::new(program)
        .arg("--version")
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default().trim();
    if !output.status.success() || line.is_empty() {
        bail!("{} --version says nothing", program.display());
    }
    Ok(line.to_string())
}
