//! What this host allows: the checks of a recording, and a recording of each server that is started and ended at once.
//!
//! ```text
//! host     the kernel, privileges, and other tracers
//! server   a database server, and what limits a recording of it
//! ```

mod host;
mod server;

use crate::postgres::Server;
use crate::{Collector, Ending, Options, Target};

/// The default of `dbtime record`.
const RATE_HZ: u32 = 99;

/// What a check has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All is well.
    Good,
    /// Recording works, but less is known.
    Less,
    /// Recording does not work.
    Missing,
}

/// The answer of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was checked.
    pub about: &'static str,
    /// The result.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it; None if nothing has to be done, or `found` says it.
    pub remedy: Option<String>,
}

impl Finding {
    fn new(about: &'static str, verdict: Verdict, found: impl Into<String>) -> Finding {
        Finding {
            about,
            verdict,
            found: found.into(),
            remedy: None,
        }
    }

    fn good(about: &'static str, found: impl Into<String>) -> Finding {
        Finding::new(about, Verdict::Good, found)
    }

    fn with_remedy(self, remedy: &str) -> Finding {
        Finding {
            remedy: Some(remedy.to_string()),
            ..self
        }
    }
}

/// A server running on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFindings {
    /// Product and version, as far as they are known.
    pub name: String,
    /// Its data directory.
    pub data_directory: String,
    /// Its first process.
    pub pid: u32,
    /// What was found.
    pub findings: Vec<Finding>,
}

impl ServerFindings {
    /// Whether it can be recorded.
    pub fn recording_works(&self) -> bool {
        works(&self.findings)
    }
}

fn works(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.verdict != Verdict::Missing)
}

/// What was found out about this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examination {
    /// Of the host.
    pub host: Vec<Finding>,
    /// Of every server that was found.
    pub servers: Vec<ServerFindings>,
}

impl Examination {
    /// Whether there is something that can be recorded: a server or, if none is running, a process.
    pub fn recording_works(&self) -> bool {
        let has_server = self.servers.is_empty() || self.servers.iter().any(ServerFindings::recording_works);
        works(&self.host) && has_server
    }
}

/// Examines this host and its servers.
pub fn examine() -> Examination {
    let mut host = host::findings();
    let is_allowed = works(&host);
    let postmasters = Server::postmasters();
    if postmasters.is_empty() {
        host.push(match is_allowed {
            true => Finding::good("servers", "no PostgreSQL server is running here")
                .with_remedy("'dbtime record --process PID' records any process"),
            false => Finding::new(
                "servers",
                Verdict::Less,
                "none is visible with these privileges: cannot tell whether a PostgreSQL server is running here",
            )
            .with_remedy("run 'dbtime doctor' as root"),
        });
        if is_allowed {
            // This process is as good as any.
            host.extend(trial(Target::AnyProcess(std::process::id())));
        }
    }
    let servers = postmasters
        .into_iter()
        .map(|pid| server::findings(pid, is_allowed))
        .collect();
    Examination { host, servers }
}

/// Starts a recording as `dbtime record` does, and ends it: what it had to do without, or why it failed.
fn trial(target: Target) -> Vec<Finding> {
    const ABOUT: &str = "recording";
    let options = Options::sampled(target, RATE_HZ);
    let begun = std::time::Instant::now();
    match Collector::start(&options, &Ending::default()) {
        Ok(mut collector) => {
            let seconds = begun.elapsed().as_secs_f64();
            let meta = collector.meta();
            let (database, meta) = (meta.database, meta.collector);
            let found = format!("works; started within {seconds:.1} s ({})", meta.engine);
            let mut findings = vec![Finding::good(ABOUT, found)];
            // Otherwise one of the reasons says so.
            if !database.statement_ids.is_empty() {
                findings.push(Finding::good(
                    "sessions",
                    "status entries can be read: statement, state, user, database and application of each session",
                ));
            }
            if database.held_locks {
                findings.push(Finding::good(
                    "LWLocks",
                    "the locks that each session holds can be read",
                ));
            }
            let less = meta.reasons.into_iter();
            findings.extend(less.map(|reason| Finding::new(ABOUT, Verdict::Less, reason)));
            findings
        }
        Err(e) => vec![Finding::new(ABOUT, Verdict::Missing, e.to_string())],
    }
}
