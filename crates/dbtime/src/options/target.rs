//! What to observe.

use std::path::PathBuf;

use clap::Args;
use dbtime_collect::{Target, postmaster_of};

/// What to observe.
#[derive(Debug, Args)]
pub struct TargetOptions {
    /// Only this session (a postmaster's pid: its whole server)
    #[arg(short, long, value_name = "PID", conflicts_with = "postgres")]
    pub pid: Option<u32>,
    /// The server on this data directory [default: the only one running]
    #[arg(long, value_name = "DATADIR")]
    pub postgres: Option<PathBuf>,
    /// Any process and its children (main threads only), without wait events
    #[arg(long, value_name = "PID", conflicts_with_all = ["pid", "postgres"])]
    pub process: Option<u32>,
    /// The sessions of an Oracle instance: MAP is the file made by the script of 'dbtime oracle-map'
    #[arg(long, value_name = "MAP", conflicts_with_all = ["pid", "postgres", "process"])]
    pub oracle: Option<PathBuf>,
}

impl TargetOptions {
    /// What to observe if only these sessions are of interest; none: all. If nothing else says which server is meant, it is theirs.
    ///
    /// # Errors
    /// They belong to several servers.
    pub fn target_of(&self, sessions: &[u32]) -> Result<Target, String> {
        let target = self.target();
        if target != Target::OnlyServer {
            return Ok(target);
        }
        let mut of = sessions
            .iter()
            .filter_map(|&pid| Some((pid, postmaster_of(pid)?)));
        let Some((first, postmaster)) = of.next() else {
            return Ok(target);
        };
        match of.find(|(_, other)| *other != postmaster) {
            Some((second, _)) => Err(format!(
                "{first} and {second} are sessions of two servers: only those of one can be observed at a time"
            )),
            None => Ok(Target::Process(postmaster)),
        }
    }

    /// What to record.
    pub fn target(&self) -> Target {
        if let Some(map) = &self.oracle {
            return Target::Oracle(map.clone());
        }
        match (self.pid, self.process, &self.postgres) {
            (Some(pid), ..) => Target::Process(pid),
            (None, Some(pid), _) => Target::AnyProcess(pid),
            (None, None, Some(directory)) => Target::Server(directory.clone()),
            (None, None, None) => Target::OnlyServer,
        }
    }
}
