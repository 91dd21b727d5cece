//! What it cost that sessions began and ended.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::connecting::{Connecting, Phase};

#[derive(Serialize)]
pub(super) struct ConnectingJson {
    /// Sessions of clients that began in the period.
    sessions: u64,
    /// Exact.
    postmaster_cpu_ns: u128,
    /// Exact.
    postmaster_run_queue_ns: u128,
    /// Of the CPU of the postmaster, inside of fork: sampled.
    fork_ns: u128,
    /// DB time by phase of a session's life: sampled.
    phases: BTreeMap<&'static str, u128>,
    percent: Option<f64>,
}

impl From<&Connecting> for ConnectingJson {
    fn from(connecting: &Connecting) -> ConnectingJson {
        ConnectingJson {
            sessions: connecting.sessions,
            postmaster_cpu_ns: connecting.postmaster_cpu_ns,
            postmaster_run_queue_ns: connecting.postmaster_run_queue_ns,
            fork_ns: connecting.fork_ns,
            phases: Phase::ALL
                .into_iter()
                .map(|phase| (phase.as_str(), connecting.phase_ns(phase)))
                .collect(),
            percent: connecting.percent(),
        }
    }
}
