//! What observes the server: nothing, dbtime or a peer, attached and detached as a user would.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use dbtime::throwaway::Cluster;
use tempfile::TempDir;

use crate::program::{Program, Usage, tie};
use crate::setup::Setup;

/// How long perf may take to open its events.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who observes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Observer {
    /// Nobody: the control. Differences between its phases are the noise of the host.
    Nobody,
    /// `dbtime record` of the whole server.
    Dbtime {
        /// Samples per second and session.
        rate_hz: u32,
        /// How exact.
        tier: Tier,
    },
    /// `perf record -g -a`: all CPUs, as dbtime's own timer is on all of them.
    Perf {
        /// Samples per second and CPU.
        rate_hz: u32,
    },
    /// libbpf-tools' `offcputime -u`: the stacks of every switch.
    OffCpuTime,
    /// `perf trace -s -a`: a summary of all system calls.
    PerfTrace,
}

/// Tiers of `dbtime record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Tier {
    /// Without `--exact`.
    Sampled,
    /// `--exact=switch`.
    Switch,
    /// `--exact=calls`.
    Calls,
}

impl Tier {
    fn argument(self) -> Option<&'static str> {
        match self {
            Tier::Sampled => None,
            Tier::Switch => Some("--exact=switch"),
            Tier::Calls => Some("--exact=calls"),
        }
    }
}

impl fmt::Display for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Observer::Nobody => f.write_str("nothing (control)"),
            Observer::Dbtime { rate_hz, tier } => {
                write!(f, "dbtime record -F {rate_hz}")?;
                tier.argument()
                    .map_or(Ok(()), |argument| write!(f, " {argument}"))
            }
            Observer::Perf { rate_hz } => write!(f, "perf record -g -a -F {rate_hz}"),
            Observer::OffCpuTime => f.write_str("offcputime -u"),
            Observer::PerfTrace => f.write_str("perf trace -s -a"),
        }
    }
}

/// An observer at work. Killed, and its files removed, when dropped.
#[derive(Debug)]
pub(crate) struct Attached {
    program: Option<Program>,
    files: Files,
    /// From its start until it said that it records.
    pub(crate) ready_after: Duration,
}

/// What an observer wrote, in a directory that is removed on drop.
#[derive(Debug)]
pub(crate) struct Files {
    home: TempDir,
}

impl Observer {
    /// Starts it; returns when it records.
    ///
    /// # Errors
    /// It does not start, with what it said; or a signal came.
    pub(crate) fn attach(self, cluster: &Cluster, setup: &Setup) -> Result<Attached> {
        let files = Files {
            home: TempDir::with_prefix("dbtime-bench-")?,
        };
        let start = Instant::now();
        let program = match self {
            Observer::Nobody => None,
            Observer::Dbtime { rate_hz, tier } => {
                let mut command = Command::new(&setup.dbtime);
                command
                    .arg("record")
                    .arg("--postgres")
                    .arg(cluster.data_dir())
                    .args(["-F", &rate_hz.to_string()])
                    .args(tier.argument())
                    .arg("-o")
                    .arg(files.output());
                tie(&mut command);
                let mut program = Program::start(command)?;
                program.wait_for_line(&setup.stop, |line| line.starts_with("recording ").then_some(()))?;
                Some(program)
            }
            Observer::Perf { rate_hz } => {
                let mut command = Command::new("perf");
                command
                    .args(["record", "-g", "-a", "-F", &rate_hz.to_string(), "-o"])
                    .arg(files.output());
                tie(&mut command);
                let program = Program::start(command)?;
                wait_for_descriptor(program.pid(), "anon_inode:[perf_event]", setup)?;
                Some(program)
            }
            Observer::OffCpuTime => {
                let mut command = Command::new("offcputime");
                command.arg("-u").stdout(fs::File::create(files.output())?);
                tie(&mut command);
                let program = Program::start(command)?;
                wait_for_descriptor(program.pid(), "anon_inode:bpf_link", setup)?;
                Some(program)
            }
            Observer::PerfTrace => {
                let mut command = Command::new("perf");
                command.args(["trace", "-s", "-a", "-o"]).arg(files.output());
                tie(&mut command);
                let program = Program::start(command)?;
                wait_for_descriptor(program.pid(), "anon_inode:[perf_event]", setup)?;
                Some(program)
            }
        };
        Ok(Attached {
            program,
            files,
            ready_after: start.elapsed(),
        })
    }
}

impl Attached {
    /// Process id of the observer.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.program.as_ref().map(Program::pid)
    }

    /// Ends it the way Ctrl-C does; returns when it has written everything.
    ///
    /// # Errors
    /// It failed, with what it said.
    pub(crate) fn detach(self) -> Result<(Option<Usage>, Files)> {
        let usage = match self.program {
            Some(program) => Some(program.end(libc::SIGINT)?),
            None => None,
        };
        Ok((usage, self.files))
    }
}

impl Files {
    /// File or directory that the observer was told to write.
    pub(crate) fn output(&self) -> PathBuf {
        self.home.path().join("observed.dbt")
    }

    /// Size of all of it.
    ///
    /// # Errors
    /// A directory cannot be read.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let mut sum = 0;
        let mut directories = vec![self.home.path().to_path_buf()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory)? {
                let entry = entry?;
                match entry.metadata()? {
                    meta if meta.is_dir() => directories.push(entry.path()),
                    meta => sum += meta.len(),
                }
            }
        }
        Ok(sum)
    }
}

/// The peers do not say when they begin; what they have opened shows it.
fn wait_for_descriptor(pid: u32, what: &str, setup: &Setup) -> Result<()> {
    let give_up = Instant::now() + PATIENCE;
    while Instant::now() < give_up {
        setup.stop.check()?;
        let files = fs::read_dir(format!("/proc/{pid}/fd"))?;
        let is_open = files
            .flatten()
            .any(|file| fs::read_link(file.path()).is_ok_and(|path| path.as_os_str() == what));
        if is_open {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    bail!("process {pid} has opened no {what} within {PATIENCE:?}")
}
