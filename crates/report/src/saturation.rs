//! Sessions in the run queue: whether the CPUs were saturated, and how long commands waited for a CPU.

use dbtime_model::CounterRow;
use dbtime_model::recording::Meta;
use serde::Serialize;

use crate::filter::Filter;
use crate::host_cpu::{HostCpu, HostCpuBuilder};
use crate::ledger::Section;
use crate::number::seconds;
use crate::scan::Activity;
use crate::sums::{Sums, percent};

/// Run-queue time that is worth a line, in percent of DB time: after a command came, or on a saturated host …
const WORTH_A_LINE: f64 = 5.0;
/// … and at any time, on one that is not.
const WORTH_A_LINE_UNSATURATED: f64 = 25.0;
/// In percent of run-queue time: less than this after a command came is not mentioned.
const WORTH_NAMING: f64 = 1.0;

/// How long sessions of clients waited for a CPU. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Saturation {
    /// CPUs of the host; 0 = not known.
    pub cpus: u32,
    /// On average at least one session per CPU was in the run queue. An idle CPU takes from there, so none was idle for long,
    /// unless sessions were kept off it (affinity, a limit of a control group).
    pub is_saturated: bool,
    /// In the run queue inside idle waits: usually a command had come.
    pub after_command_ns: u128,
    /// In the run queue, inside idle waits or not.
    pub run_queue_ns: u128,
    /// How many of these sessions were in the run queue, on average; none when no time passed.
    #[serde(rename = "run_queue_sessions")]
    pub sessions: Option<f64>,
    /// Who used the CPUs; none when that was not recorded.
    pub host_cpu: Option<HostCpu>,
    /// What the first lines of a report say about it; none when there is little to say.
    pub sentence: Option<String>,
}

impl Saturation {
    fn is_worth_a_line(&self, db_time_ns: u128) -> bool {
        let share = |ns| percent(ns, db_time_ns).unwrap_or(0.0);
        let least = match self.is_saturated {
            true => WORTH_A_LINE,
            false => WORTH_A_LINE_UNSATURATED,
        };
        share(self.after_command_ns) >= WORTH_A_LINE || share(self.run_queue_ns) >= least
    }

    fn sentence(&self) -> String {
        let what = match (self.is_saturated, self.cpus) {
            (true, 1) => "1 CPU saturated".to_string(),
            (true, cpus) => format!("{cpus} CPUs saturated"),
            (false, _) => "Short of CPU".to_string(),
        };
        let after_command = percent(self.after_command_ns, self.run_queue_ns).unwrap_or(0.0);
        let of_it = (after_command >= WORTH_NAMING).then(|| {
            format!(
                ", {} s of that after a command came",
                seconds(self.after_command_ns)
            )
        });
        let sessions = self
            .sessions
            .map(|sessions| format!("; {sessions:.1} were in the run queue on average"));
        let host = self.host_cpu.as_ref().map(|host| format!(" {}", host.sentence()));
        format!(
            "{what}: sessions waited {} s for a CPU{}{}.{}",
            seconds(self.run_queue_ns),
            of_it.unwrap_or_default(),
            sessions.unwrap_or_default(),
            host.unwrap_or_default()
        )
    }
}

/// Adds rows up to a [`Saturation`].
#[derive(Default)]
pub(crate) struct SaturationBuilder {
    after_command: Sums,
    others: Sums,
    host_cpu: HostCpuBuilder,
}

impl SaturationBuilder {
    pub(crate) fn add(&mut self, activity: &Activity<'_>) {
        if activity.section == Section::DbTime {
            match activity.wait.idle {
                true => self.after_command.take(activity),
                false => self.others.take(activity),
            }
        }
    }

    pub(crate) fn add_counter(&mut self, row: &CounterRow, filter: &Filter) {
        self.host_cpu.add_counter(row, filter);
    }

    pub(crate) fn finish(self, meta: &Meta, elapsed_ns: u128) -> Saturation {
        let after_command_ns = self.after_command.run_queue_ns();
        let run_queue_ns = after_command_ns + self.others.run_queue_ns();
        let sessions = (elapsed_ns > 0).then(|| run_queue_ns as f64 / elapsed_ns as f64);
        let cpus = meta.host.cpus;
        let db_time_ns = self.after_command.total_ns() + self.others.total_ns();
        let mut saturation = Saturation {
            cpus,
            is_saturated: cpus > 0 && sessions.is_some_and(|sessions| sessions >= f64::from(cpus)),
            after_command_ns,
            run_queue_ns,
            sessions,
            host_cpu: self.host_cpu.finish(),
            sentence: None,
        };
        saturation.sentence = saturation
            .is_worth_a_line(db_time_ns)
            .then(|| saturation.sentence());
        saturation
    }
}
