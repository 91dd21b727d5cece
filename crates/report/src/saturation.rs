//! Sessions that stood in the run queue: whether the CPUs were saturated, and how long commands waited to be taken up.

use dbtime_model::recording::Meta;
use serde::Serialize;

use crate::ledger::Section;
use crate::number::seconds;
use crate::scan::Activity;
use crate::sums::{Sums, percent};

/// Less than this part of DB time, in percent, is not worth a line.
const WORTH_A_LINE: f64 = 5.0;

/// What sessions of clients waited for a CPU. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Saturation {
    /// CPUs of the host; 0 = not known.
    pub cpus: u32,
    /// On average at least one session for each CPU stood in the run queue. An idle CPU takes from there, so none was idle for
    /// long, unless sessions were kept from it (affinity, a limit of a control group).
    pub is_saturated: bool,
    /// In the run queue inside idle waits: a command had come, as a rule.
    pub after_command_ns: u128,
    /// In the run queue, inside idle waits or not.
    pub run_queue_ns: u128,
    /// How many of these sessions stood in the run queue, on average; none when no time passed.
    #[serde(rename = "run_queue_sessions")]
    pub sessions: Option<f64>,
    /// What is said of it in the first lines of a report; none when there is little to say.
    pub sentence: Option<String>,
}

fn sentence(after_command_ns: u128, sessions: Option<f64>, cpus: u32, is_saturated: bool) -> String {
    let what = match (is_saturated, cpus) {
        (true, 1) => "1 CPU saturated".to_string(),
        (true, cpus) => format!("{cpus} CPUs saturated"),
        (false, _) => "Short of CPU".to_string(),
    };
    let sessions = sessions.map_or_else(String::new, |sessions| {
        format!("; {sessions:.1} sessions in the run queue on average")
    });
    format!(
        "{what}: {} s waiting for a CPU after a command came{sessions}.",
        seconds(after_command_ns)
    )
}

/// Adds rows up to a [`Saturation`].
#[derive(Default)]
pub(crate) struct SaturationBuilder {
    after_command: Sums,
    others: Sums,
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

    pub(crate) fn finish(self, meta: &Meta, elapsed_ns: u128) -> Saturation {
        let after_command_ns = self.after_command.run_queue_ns();
        let run_queue_ns = after_command_ns + self.others.run_queue_ns();
        let sessions = (elapsed_ns > 0).then(|| run_queue_ns as f64 / elapsed_ns as f64);
        let cpus = meta.host.cpus;
        let db_time_ns = self.after_command.total_ns() + self.others.total_ns();
        let share = percent(after_command_ns, db_time_ns).unwrap_or(0.0);
        let is_saturated = cpus > 0 && sessions.is_some_and(|sessions| sessions >= f64::from(cpus));
        Saturation {
            cpus,
            is_saturated,
            after_command_ns,
            run_queue_ns,
            sessions,
            sentence: (share >= WORTH_A_LINE)
                .then(|| sentence(after_command_ns, sessions, cpus, is_saturated)),
        }
    }
}
