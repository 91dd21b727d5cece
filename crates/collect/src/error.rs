//! Why something could not be recorded: what, where, and what to do about it.

use std::path::{Path, PathBuf};

/// Every message names the process, file or kernel feature and a remedy.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// No running server found.
    #[error(
        "no running PostgreSQL server found on this host: start one, or name its data directory with --postgres DATADIR"
    )]
    NoServer,
    /// More than one server runs and none was chosen.
    #[error("several PostgreSQL servers are running, choose one:\n{}", .0.join("\n"))]
    SeveralServers(Vec<String>),
    /// The data directory has no running server.
    #[error(
        "{directory}: no PostgreSQL server is running on this data directory{}",
        match running[..] {
            [] => String::new(),
            _ => format!("; these are running:\n{}", running.join("\n")),
        }
    )]
    NoServerOn {
        /// The directory; it may not exist.
        directory: PathBuf,
        /// How to name those that run.
        running: Vec<String>,
    },
    /// The server there is not a standby of the recorded one.
    #[error(
        "--standby {0}: this is the recorded server itself, or one of another major version: give the data directory of one of its standbys"
    )]
    NoStandby(PathBuf),
    /// Standbys can be given only for a whole PostgreSQL server.
    #[error(
        "--standby works only when a whole PostgreSQL server is recorded, not a single session or another program"
    )]
    NoStandbyOf,
    /// The process does not exist.
    #[error("pid {0}: no such process")]
    NoProcess(u32),
    /// A thread was given instead of a process.
    #[error("pid {pid} is a thread of process {process}: use {process}")]
    Thread {
        /// Thread asked for.
        pid: u32,
        /// Its process.
        process: u32,
    },
    /// The block device does not exist, or there is nothing to see on it.
    #[error("device {name}: {why}")]
    Device {
        /// Name asked for.
        name: String,
        /// What is wrong with it, and what to use instead.
        why: String,
    },
    /// The process is not a backend.
    #[error(
        "pid {pid}: {why}; give the pid of a PostgreSQL server process, or --postgres DATADIR for the whole server"
    )]
    NotBackend {
        /// Process asked for.
        pid: u32,
        /// What it is instead.
        why: String,
    },
    /// The server is too old to show its wait events in memory.
    #[error(
        "PostgreSQL {version} (pid {pid}): dbtime reads the wait event from memory, which needs PostgreSQL 14 or newer"
    )]
    TooOld {
        /// Postmaster.
        pid: u32,
        /// Its version.
        version: String,
    },
    /// The executable does not export what is read.
    #[error("{executable}: {what}")]
    Executable {
        /// Executable of the server.
        executable: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The recorder lacks privileges.
    #[error("dbtime needs more privileges: run it as root, or give it {}", .0.join(", "))]
    Privilege(Vec<&'static str>),
    /// The kernel lacks something.
    #[error("{0}")]
    Kernel(String),
    /// The server cannot be queried.
    #[error("--connect: the server's statistics cannot be read: {0}")]
    Statistics(String),
    /// The MAP of an Oracle instance has nothing to record.
    #[error(
        "{path}: no session can be recorded; make the MAP with the script of 'dbtime oracle-map'{problems}"
    )]
    Map {
        /// File.
        path: PathBuf,
        /// What is wrong with it, a line each.
        problems: String,
    },
    /// There is no system call of this name.
    #[error("this architecture has no system call '{name}'{}", proposal(.alike))]
    Call {
        /// Name asked for, printable.
        name: String,
        /// Similar names.
        alike: Vec<&'static str>,
    },
    /// Only one dive at a time may change the kernel's trace.
    #[error("another 'dbtime dive' is running{}: wait until it has ended", .0.map_or(String::new(), |pid| format!(" (pid {pid})")))]
    DiveRuns(Option<u32>),
    /// No engine for dives works here.
    #[error("no engine can trace system calls here:\n{}", .0.join("\n"))]
    NoDiveEngine(Vec<String>),
    /// A file could not be read.
    #[error("{path}: {error}")]
    Io {
        /// File.
        path: PathBuf,
        /// What the operating system said.
        error: std::io::Error,
    },
}

fn proposal(names: &[&str]) -> String {
    match names {
        [] => "; section 2 of the manual lists them".to_string(),
        names => format!(": did you mean {}?", names.join(", ")),
    }
}

impl CollectError {
    pub(crate) fn io(path: &Path, error: std::io::Error) -> CollectError {
        CollectError::Io {
            path: path.to_path_buf(),
            error,
        }
    }
}
