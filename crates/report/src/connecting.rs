//! What it cost to start and end sessions: in the process that forks them, and in the sessions themselves.
//!
//! A client that connects waits for the postmaster to fork, and then for the new process to authenticate it and to fill its
//! caches. In the ledger, this time is spread over wait events, and the postmaster's part is background; here it is in one
//! place.

use std::collections::{BTreeMap, HashMap};

use dbtime_model::{BackendType, NO_STACK, StackId};
use serde::{Serialize, Serializer};

use crate::dimensions::Dimensions;
use crate::filter::Filter;
use crate::ledger::Section;
use crate::scan::{Activity, Period};
use crate::sums::{Sums, percent};

/// Phase of a session's life, as far as its stacks show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// From the fork to the message in which the client says who it is and what it wants.
    Start,
    /// Checking that the client may connect.
    Authentication,
    /// Opening the database: catalogue, caches, settings of the role.
    Catalogue,
    /// Ending: releasing what it held, freeing its memory.
    End,
}

impl Phase {
    /// Every phase, in the order of a session's life.
    pub const ALL: [Phase; 4] = [Phase::Start, Phase::Authentication, Phase::Catalogue, Phase::End];

    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Start => "start",
            Phase::Authentication => "authentication",
            Phase::Catalogue => "catalogue",
            Phase::End => "end",
        }
    }
}

/// See the module. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Connecting {
    /// Sessions of clients that began in the period.
    pub sessions: u64,
    /// CPU of the process that forks them: exact.
    pub postmaster_cpu_ns: u128,
    /// Its time in the run queue: exact.
    pub postmaster_run_queue_ns: u128,
    /// Of its CPU, inside of fork: sampled.
    pub fork_ns: u128,
    /// DB time of clients' sessions by phase: sampled.
    #[serde(serialize_with = "by_name")]
    pub phases: [u128; Phase::ALL.len()],
    /// All of it, in percent of DB time plus the postmaster's CPU and run-queue time; none when there is neither.
    pub percent: Option<f64>,
    /// DB time in the period.
    #[serde(skip)]
    pub db_time_ns: u128,
    /// DB time of clients' sessions without a stack: its phase is not known.
    #[serde(skip)]
    pub without_stack_ns: u128,
}

fn by_name<S: Serializer>(phases: &[u128; Phase::ALL.len()], to: S) -> Result<S::Ok, S::Error> {
    let phases = Phase::ALL.map(Phase::as_str).into_iter().zip(phases);
    phases.collect::<BTreeMap<_, _>>().serialize(to)
}

impl Connecting {
    /// DB time of a phase.
    pub fn phase_ns(&self, phase: Phase) -> u128 {
        self.phases[phase as usize]
    }
}

/// Adds rows up to a [`Connecting`].
#[derive(Default)]
pub(crate) struct ConnectingBuilder {
    postmaster: Sums,
    db_time_ns: u128,
    /// On-CPU time, by user and kernel stack.
    of_postmaster: HashMap<(StackId, StackId), u128>,
    /// DB time, likewise.
    of_clients: HashMap<(StackId, StackId), u128>,
}

impl ConnectingBuilder {
    pub(crate) fn add(&mut self, activity: &Activity<'_>) {
        let row = activity.row;
        let stacks = (row.user_stack, row.kernel_stack);
        let ns = u128::from(row.ns);
        if activity.session.backend_type.0 == BackendType::POSTMASTER {
            self.postmaster.take(activity);
            if row.state.is_on_cpu() {
                *self.of_postmaster.entry(stacks).or_default() += ns;
            }
        } else if activity.section == Section::DbTime {
            self.db_time_ns += ns;
            if is_client(&activity.session.backend_type) {
                *self.of_clients.entry(stacks).or_default() += ns;
            }
        }
    }

    pub(crate) fn finish(
        self,
        period: Period,
        filter: &Filter,
        dimensions: &Dimensions,
    ) -> Option<Connecting> {
        let is_whole = filter.takes_all_sessions() && filter.chooses_no_time();
        let began = |us: i64| us >= period.from_us && us < period.to_us;
        let sessions = dimensions
            .sessions()
            .filter(|session| is_client(&session.backend_type) && began(session.started_us))
            .count() as u64;
        // This applies only where a process forks sessions.
        if !is_whole || sessions == 0 || self.postmaster.total_ns() == 0 {
            return None;
        }
        let mut phases = [0; Phase::ALL.len()];
        let mut without_stack_ns = 0;
        for ((user, kernel), ns) in self.of_clients {
            if (user, kernel) == (NO_STACK, NO_STACK) {
                without_stack_ns += ns;
            }
            if let Some(phase) = phase(&symbols(&user, dimensions), &symbols(&kernel, dimensions)) {
                phases[phase as usize] += ns;
            }
        }
        let is_fork = |(user, kernel): &(StackId, StackId)| {
            symbols(kernel, dimensions).iter().any(|symbol| is_clone(symbol))
                || symbols(user, dimensions)
                    .iter()
                    .any(|symbol| is_fork_of_library(symbol))
        };
        let (postmaster_cpu_ns, postmaster_run_queue_ns) =
            (self.postmaster.on_cpu_ns(), self.postmaster.run_queue_ns());
        let postmaster_ns = postmaster_cpu_ns + postmaster_run_queue_ns;
        Some(Connecting {
            sessions,
            postmaster_cpu_ns,
            fork_ns: self
                .of_postmaster
                .iter()
                .filter(|(stacks, _)| is_fork(stacks))
                .map(|(_, ns)| ns)
                .sum(),
            postmaster_run_queue_ns,
            phases,
            percent: percent(
                postmaster_ns + phases.iter().sum::<u128>(),
                postmaster_ns + self.db_time_ns,
            ),
            db_time_ns: self.db_time_ns,
            without_stack_ns,
        })
    }
}

/// A session that a client asked for; one that ended before its type was known nearly always is, too.
fn is_client(backend_type: &BackendType) -> bool {
    [BackendType::CLIENT, BackendType::UNKNOWN].contains(&backend_type.0.as_str())
}

fn symbols<'a>(id: &StackId, dimensions: &'a Dimensions) -> Vec<&'a str> {
    let frames = dimensions.stack(*id).unwrap_or_default();
    frames.iter().map(|frame| frame.symbol.as_str()).collect()
}

/// The system call that creates a process, under any of its names in the kernel.
fn is_clone(symbol: &str) -> bool {
    ["kernel_clone", "_do_fork"].contains(&symbol) || symbol.starts_with("__do_sys_clone")
}

/// The C library's `fork`, under any of its names, and PostgreSQL's wrapper around it.
fn is_fork_of_library(symbol: &str) -> bool {
    ["fork", "_Fork", "__libc_fork", "__fork", "fork_process"].contains(&symbol)
}

/// The phase of a session, by the functions on its stacks; none when it was doing its work, or when they do not tell. The
/// names are exported symbols of PostgreSQL 13 to 18: they are known in stripped executables, too.
fn phase(user: &[&str], kernel: &[&str]) -> Option<Phase> {
    let is_in = |names: &[&str]| user.iter().any(|symbol| names.contains(symbol));
    let ends = ["do_exit", "do_group_exit", "__x64_sys_exit_group"];
    if is_in(&["proc_exit", "shmem_exit"]) || kernel.iter().any(|symbol| ends.contains(symbol)) {
        return Some(Phase::End);
    }
    if is_in(&["ClientAuthentication", "PerformAuthentication"]) {
        return Some(Phase::Authentication);
    }
    if is_in(&["InitPostgres"]) {
        return Some(Phase::Catalogue);
    }
    // PostgresMain first sets up the process, then runs the session's main loop; the client's message is read before it, or
    // (since 17) in BackendMain.
    if is_in(&["PostgresMain"]) {
        return is_in(&["InitProcess", "BaseInit", "InitProcessPhase2"]).then_some(Phase::Start);
    }
    (is_in(&["PostmasterMain"]) || kernel.contains(&"ret_from_fork")).then_some(Phase::Start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_of_a_life() {
        let main = ["main", "PostmasterMain", "PostgresMain"];
        let with = |names: &[&'static str]| [&main[..], names].concat();
        for (user, kernel, expected) in [
            (with(&["exec_simple_query"]), vec![], None),
            (
                with(&["InitPostgres", "RelationCacheInitializePhase3"]),
                vec![],
                Some(Phase::Catalogue),
            ),
            (
                with(&["InitPostgres", "ClientAuthentication"]),
                vec![],
                Some(Phase::Authentication),
            ),
            (with(&["InitProcess"]), vec![], Some(Phase::Start)),
            (with(&["proc_exit", "shmem_exit"]), vec![], Some(Phase::End)),
            (with(&[]), vec!["do_syscall_64", "do_exit"], Some(Phase::End)),
            (
                vec!["main", "PostmasterMain", "fork_process"],
                vec![],
                Some(Phase::Start),
            ),
            (vec![], vec!["ret_from_fork"], Some(Phase::Start)),
            (vec![], vec![], None),
        ] {
            assert_eq!(phase(&user, &kernel), expected, "{user:?} {kernel:?}");
        }
    }
}
