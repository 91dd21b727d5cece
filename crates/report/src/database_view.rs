//! What the database itself says, reconciled with what the operating system saw.
//!
//! A database adds CPU (`getrusage`) to the time inside its wait events and compares the sum with DB time. The two overlap,
//! because CPU burnt inside a wait event is in both, and they leave gaps, because nothing counts the time that a session
//! spends in the run queue or sleeping outside of any wait event. With
//!
//! ```text
//! cpu  = on CPU, all time of foreground sessions      wait = any state, inside wait events that are not idle
//! ```
//!
//! this holds to the nanosecond:
//!
//! ```text
//! DB time = cpu + wait
//!         − on CPU inside wait events             (counted twice)
//!         − on CPU inside idle waits              (CPU, but not DB time)
//!         + run queue inside idle waits           (a command has arrived: the database calls it idle)
//!         + run queue outside any wait event
//!         + blocked outside any wait event        (no instrumentation shows it)
//!         + state unknown outside any wait event
//!         + off CPU while the wait is unknown     (not sampled, not read)
//! ```

use std::cmp::Reverse;
use std::collections::HashMap;

use dbtime_model::recording::Meta;
use dbtime_model::{Wait, WaitKind};
use serde::Serialize;

use crate::explanation::{explain, missing_side};
use crate::fields;
use crate::group::Dimension;
use crate::ledger::Section;
use crate::scan::Activity;
use crate::sums::{FidelityMix, Sums, percent};
use crate::trace::has_trace;

/// The database's view of a recording, and what separates it from DB time. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DatabaseView {
    /// DB time: foreground sessions outside of idle waits, and in the run queue inside of them.
    pub db_time_ns: u128,
    /// CPU of the foreground sessions as `getrusage` counts it, inside idle waits too.
    pub cpu_ns: u128,
    /// Time inside wait events that are not idle, whatever the session did there.
    pub wait_ns: u128,
    /// CPU and waits in percent of DB time; none when there is no DB time.
    pub percent_of_db_time: Option<f64>,
    /// On CPU inside wait events that are not idle: in `cpu_ns` and in `wait_ns`.
    pub double_counted_ns: u128,
    /// On CPU inside idle waits: in `cpu_ns`, but not DB time.
    pub cpu_inside_idle_waits_ns: u128,
    /// In the run queue inside idle waits: in neither. The session was woken, usually because a command arrived, but has no
    /// CPU to run it: the client waits, while the database calls the session idle.
    pub run_queue_inside_idle_waits_ns: u128,
    /// In the run queue outside any wait event: in neither.
    pub run_queue_outside_waits_ns: u128,
    /// Blocked outside any wait event: in neither. No instrumentation of the database shows it.
    pub blocked_outside_waits_ns: u128,
    /// Outside any wait event, in a state that the source does not say: in neither.
    pub state_unknown_outside_waits_ns: u128,
    /// Not on a CPU, and the wait event is not known: in neither.
    pub wait_unknown_off_cpu_ns: u128,
    /// DB time for which the source does not say the state, inside wait events or not.
    #[serde(skip)]
    pub state_unknown_ns: u128,
    /// Both sides are known, what the database says and what the operating system saw: otherwise there is nothing to compare.
    #[serde(skip)]
    pub has_both_sides: bool,
    /// How DB time was measured.
    pub fidelity: Option<FidelityMix>,
    /// What the numbers mean, in two or three sentences; if there is nothing to compare, why.
    pub explanation: String,
    /// Wait events that are not idle, the one with the most CPU inside first.
    pub by_event: Vec<EventView>,
}

/// What the operating system saw inside one wait event. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventView {
    /// The wait event.
    #[serde(flatten, serialize_with = "fields::wait")]
    pub wait: Wait,
    /// All of its time.
    pub wait_ns: u128,
    /// Of that, on a CPU.
    pub cpu_inside_ns: u128,
    /// Of the time on a CPU, known to be in the kernel.
    pub kernel_inside_ns: u128,
    /// In the run queue.
    pub run_queue_inside_ns: u128,
    /// Blocked: what a wait event is supposed to be.
    pub blocked_inside_ns: u128,
    /// The source does not say.
    pub state_unknown_inside_ns: u128,
    /// How these were measured.
    pub fidelity: Option<FidelityMix>,
}

/// A step from the database's view to DB time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Start: CPU and waits added up, as the database does.
    CpuAndWaits,
    /// Subtracted: CPU inside wait events.
    DoubleCounted,
    /// Subtracted: CPU inside idle waits.
    CpuInsideIdleWaits,
    /// Added: run queue inside idle waits.
    RunQueueInsideIdleWaits,
    /// Added: run queue outside any wait event.
    RunQueueOutsideWaits,
    /// Added: blocked outside any wait event.
    BlockedOutsideWaits,
    /// Added: state not known, outside any wait event.
    StateUnknownOutsideWaits,
    /// Added: wait not known, off CPU.
    WaitUnknownOffCpu,
}

impl Step {
    /// True when the step is subtracted.
    pub fn is_taken_off(self) -> bool {
        matches!(self, Step::DoubleCounted | Step::CpuInsideIdleWaits)
    }
}

impl DatabaseView {
    /// CPU and waits added up.
    pub fn cpu_and_waits_ns(&self) -> u128 {
        self.cpu_ns + self.wait_ns
    }

    /// The steps from the database's view to DB time: added and subtracted, they give DB time exactly.
    pub fn steps(&self) -> [(Step, u128); 8] {
        [
            (Step::CpuAndWaits, self.cpu_and_waits_ns()),
            (Step::DoubleCounted, self.double_counted_ns),
            (Step::CpuInsideIdleWaits, self.cpu_inside_idle_waits_ns),
            (Step::RunQueueInsideIdleWaits, self.run_queue_inside_idle_waits_ns),
            (Step::RunQueueOutsideWaits, self.run_queue_outside_waits_ns),
            (Step::BlockedOutsideWaits, self.blocked_outside_waits_ns),
            (
                Step::StateUnknownOutsideWaits,
                self.state_unknown_outside_waits_ns,
            ),
            (Step::WaitUnknownOffCpu, self.wait_unknown_off_cpu_ns),
        ]
    }
}

/// Who reports the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// Nobody who knows of wait events.
    NoDatabase,
    /// dbtime, which observes both sides.
    Dbtime,
    /// Files of other tools.
    Files,
    /// The same, an SQL trace among them.
    Trace,
}

impl Who {
    pub(crate) fn of(meta: &Meta) -> Who {
        match meta.files.is_empty() {
            _ if Dimension::usual(meta) == Dimension::Program => Who::NoDatabase,
            true => Who::Dbtime,
            false if has_trace(meta) => Who::Trace,
            false => Who::Files,
        }
    }
}

/// Adds rows up to a [`DatabaseView`].
#[derive(Default)]
pub(crate) struct DatabaseViewBuilder {
    no_wait: Sums,
    unknown_wait: Sums,
    idle: Sums,
    /// Part of DB time, though the database calls it idle.
    without_cpu: Sums,
    events: HashMap<Wait, Sums>,
}

impl DatabaseViewBuilder {
    pub(crate) fn add(&mut self, activity: &Activity<'_>) {
        let Activity { wait, section, .. } = *activity;
        let sums = match (section, wait.kind()) {
            (Section::Background, _) => return,
            (Section::Idle, _) => &mut self.idle,
            (Section::DbTime, _) if wait.idle => &mut self.without_cpu,
            (Section::DbTime, WaitKind::None) => &mut self.no_wait,
            (Section::DbTime, WaitKind::Unknown) => &mut self.unknown_wait,
            (Section::DbTime, WaitKind::Event) => self.events.entry(wait.clone()).or_default(),
        };
        sums.take(activity);
    }

    pub(crate) fn finish(self, who: Who) -> DatabaseView {
        let mut inside = Sums::default();
        for sums in self.events.values() {
            inside.merge(sums);
        }
        let mut db_time = inside.clone();
        db_time.merge(&self.no_wait);
        db_time.merge(&self.unknown_wait);
        db_time.merge(&self.without_cpu);

        let mut by_event: Vec<EventView> = self
            .events
            .into_iter()
            .map(|(wait, sums)| EventView::new(wait, &sums))
            .collect();
        by_event.sort_unstable_by(|a, b| {
            Reverse((a.cpu_inside_ns, a.wait_ns))
                .cmp(&Reverse((b.cpu_inside_ns, b.wait_ns)))
                .then_with(|| a.wait.cmp(&b.wait))
        });
        let cpu_ns = db_time.on_cpu_ns() + self.idle.on_cpu_ns();
        let mut view = DatabaseView {
            db_time_ns: db_time.total_ns(),
            cpu_ns,
            wait_ns: inside.total_ns(),
            percent_of_db_time: percent(cpu_ns + inside.total_ns(), db_time.total_ns()),
            double_counted_ns: inside.on_cpu_ns(),
            cpu_inside_idle_waits_ns: self.idle.on_cpu_ns(),
            run_queue_inside_idle_waits_ns: self.without_cpu.run_queue_ns(),
            run_queue_outside_waits_ns: self.no_wait.run_queue_ns(),
            blocked_outside_waits_ns: self.no_wait.blocked_ns(),
            state_unknown_outside_waits_ns: self.no_wait.unknown_ns(),
            wait_unknown_off_cpu_ns: self.unknown_wait.total_ns() - self.unknown_wait.on_cpu_ns(),
            state_unknown_ns: db_time.unknown_ns(),
            has_both_sides: false,
            fidelity: db_time.fidelity(),
            by_event,
            explanation: String::new(),
        };
        let missing = missing_side(who, db_time.knows_states());
        view.has_both_sides = missing.is_none();
        view.explanation = missing.map_or_else(|| explain(&view), str::to_string);
        view
    }
}

impl EventView {
    fn new(wait: Wait, sums: &Sums) -> EventView {
        EventView {
            wait,
            wait_ns: sums.total_ns(),
            cpu_inside_ns: sums.on_cpu_ns(),
            kernel_inside_ns: sums.state_ns(dbtime_model::State::Kernel),
            run_queue_inside_ns: sums.run_queue_ns(),
            blocked_inside_ns: sums.blocked_ns(),
            state_unknown_inside_ns: sums.unknown_ns(),
            fidelity: sums.fidelity(),
        }
    }
}
