//! How sessions are observed: with what, and how exactly.

use clap::{Args, ValueEnum};
use dbtime_collect::{Mechanism, Tier};

/// What observes sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CollectorKind {
    /// BPF programs in the kernel
    Bpf,
    /// Reads of /proc and the memory of the processes, for old kernels: sampled only, with less detail
    Proc,
}

impl From<CollectorKind> for Mechanism {
    fn from(kind: CollectorKind) -> Mechanism {
        match kind {
            CollectorKind::Bpf => Mechanism::Bpf,
            CollectorKind::Proc => Mechanism::Proc,
        }
    }
}

/// Where `--exact` measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExactLevel {
    /// At context switches: blocked and run queue exact by wait event, CPU split by samples
    Switch,
    /// At system calls too: CPU exact by wait event, every call and every read timed
    Calls,
}

/// How sessions are observed.
#[derive(Debug, Args)]
pub struct Precision {
    /// Measure exact times instead of sampling them: at every context switch (switch), or at every system call too (calls)
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "switch")]
    pub exact: Option<ExactLevel>,
    /// How sessions are observed
    #[arg(long, value_name = "HOW", default_value = "bpf")]
    pub collector: CollectorKind,
}

impl Precision {
    /// How exact.
    pub fn tier(&self) -> Tier {
        match self.exact {
            None => Tier::Sampled,
            Some(ExactLevel::Switch) => Tier::Switch,
            Some(ExactLevel::Calls) => Tier::Calls,
        }
    }

    /// How sessions are observed.
    ///
    /// # Errors
    /// Exact times need programs in the kernel.
    pub fn mechanism(&self) -> Result<Mechanism, String> {
        match (self.collector, self.exact) {
            (CollectorKind::Proc, Some(_)) => {
                Err("--exact needs BPF programs in the kernel: leave out --collector proc".to_string())
            }
            (collector, _) => Ok(collector.into()),
        }
    }
}
