//! Importers, file by file: a single program, so that it is linked only once.

mod archives;
mod breakdown;
mod ftrace;
mod latchprof;
mod oracle_latch;
mod oracle_rules;
mod oracle_snap;
mod oracle_trace;
mod perf_sched;
mod samples;
mod snapper;
mod stacks;
mod strace;
mod whole;
