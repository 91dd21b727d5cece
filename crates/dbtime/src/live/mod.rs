//! A running server, snapshot after snapshot: rows of some seconds in memory, for any question. Nothing is written.
//!
//! ```text
//! windows      rows, added up by snapshot
//! ```

mod windows;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dbtime_collect::{Collector, Ending, Options, SessionProcess, Status, levels};
use dbtime_model::counter::{self, task};
use dbtime_model::recording::Meta;
use dbtime_model::{CounterRow, LockUses, SessionId};
use dbtime_report::{Filter, Source};

use crate::output::{ProgressLine, say};
use windows::Windows;
pub use windows::{Kept, Late};

const SECOND_US: i64 = 1_000_000;
/// How long one step waits for events.
const STEP: Duration = Duration::from_millis(50);
/// How long after the end of a second its rows have usually arrived.
const USUALLY_LATE_US: i64 = 400_000;
/// Time of short sessions is usually divided within this time after it passed.
const LATEST_US: i64 = 3_000_000;
/// Most of a step that counts as waiting for late rows: steps are further apart only if dbtime is suspended or gets no CPU.
const LONGEST_STEP_US: i64 = 250_000;

/// How far ahead the probes that count are told when to begin.
const BEFORE_COUNTING_US: i64 = 20_000;

/// Most snapshots shown in a row, after a standstill, before events are taken again.
const AT_ONCE: u32 = 5;

/// How long a snapshot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Whole seconds.
    Seconds(u32),
    /// Until it is ended.
    UntilTheEnd,
}

/// What to take.
#[derive(Debug)]
pub struct Plan {
    /// How sessions are observed.
    pub collect: Options,
    /// Of a snapshot.
    pub length: Length,
    /// How many; there is only one if it has no end.
    pub count: u32,
    /// What is kept of the rows.
    pub kept: Kept,
    /// Also reports the memory of sessions that ran, as of the end of a snapshot.
    pub levels: bool,
    /// A line on the terminal shows the progress of the next one.
    pub tells_progress: bool,
}

/// A snapshot.
#[derive(Debug)]
pub struct Snapshot {
    /// Its rows.
    pub source: Source,
    /// Its time.
    pub time: Filter,
    /// Time not in any snapshot so far, nanoseconds.
    pub missing_ns: u128,
    /// The wait classes that the database can have, if known before they are seen.
    pub wait_classes: Vec<String>,
    /// Counts of internal locks, if every use of them is counted ([`Options::lock_uses`]): in the only snapshot.
    pub lock_uses: Option<LockUses>,
}

/// Shows a snapshot. False if nobody is looking any more.
pub type Show<'a> = dyn FnMut(&Snapshot) -> anyhow::Result<bool> + 'a;

/// Takes snapshots and has each of them shown, until there are as many as wanted or nobody is looking any more. They begin at a second of
/// the clock and follow each other without a gap; the last one may be shorter.
///
/// # Errors
/// Recording cannot begin; it fails; a snapshot cannot be shown.
pub fn take(plan: &Plan, stop: &Arc<AtomicBool>, show: &mut Show<'_>) -> anyhow::Result<()> {
    let mut line = ProgressLine::new();
    line.show("attaching …");
    let mut collector = Collector::start(&plan.collect, &Ending::when(stop))?;
    line.clear();
    // Threads started from now on do not have them either.
    collector.give_up_privileges(false)?;
    let meta = collector.meta();
    say(format_args!(
        "{} {} ({}), {}",
        meta.database.product, meta.database.version, meta.database.target, meta.collector.tier
    ));
    for reason in &meta.collector.reasons {
        say(format_args!("note: {reason}"));
    }
    let ahead_us = if plan.collect.lock_uses {
        BEFORE_COUNTING_US
    } else {
        0
    };
    let begin_us = next_second(collector.now_us() + ahead_us);
    let (length_us, count) = match plan.length {
        Length::Seconds(seconds) => (i64::from(seconds) * SECOND_US, plan.count),
        // Nobody waits that long.
        Length::UntilTheEnd => (i64::MAX / 2, 1),
    };
    let mut windows = Windows::new(begin_us, length_us, plan.kept, plan.collect.stacks, &meta);
    windows.end_at(begin_us.saturating_add(length_us.saturating_mul(count.into())));
    collector.count_lock_uses(begin_us, windows.end_us())?;
    let mut live = Live {
        collector,
        windows,
        line,
        levels: plan.levels,
        last_processes: None,
        tells_progress: plan.tells_progress,
        number: 1,
        waited_us: 0,
        begin_us,
        show,
    };
    live.record(stop)?;
    live.finish()
}

struct Live<'a> {
    collector: Collector,
    windows: Windows,
    levels: bool,
    /// The recorded sessions at the end of recording, once it has ended.
    last_processes: Option<HashMap<SessionId, SessionProcess>>,
    line: ProgressLine,
    tells_progress: bool,
    /// Number of the next snapshot.
    number: u32,
    /// How long dbtime, while running, has waited for the next one after its time was over.
    waited_us: i64,
    /// Begin of the first snapshot.
    begin_us: i64,
    show: &'a mut Show<'a>,
}

impl Live<'_> {
    /// Records until the last snapshot is over.
    fn record(&mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        let mut noted = 0;
        let mut gone = None;
        let mut before = self.collector.now_us();
        loop {
            let status = self.collector.step(STEP)?;
            let now = self.collector.now_us();
            self.waited_us += (now - std::mem::replace(&mut before, now)).clamp(0, LONGEST_STEP_US);
            // A second that has begun is completed: times of parts of it are not known.
            if stop.load(Ordering::Relaxed) || status == Status::Ended {
                self.windows.end_at(next_second(now));
            }
            // Counting has stopped.
            let uses = self.collector.lock_uses();
            if uses.is_some_and(|uses| uses.stopped.is_some()) {
                self.windows.end_at(next_second(now.max(self.begin_us)));
            }
            self.collector
                .count_lock_uses(self.begin_us, self.windows.end_us())?;
            let notes: Vec<String> = self
                .collector
                .notes()
                .iter()
                .skip(noted)
                .map(|note| note.text.clone())
                .collect();
            noted += notes.len();
            for note in notes {
                self.say(&format!("note: {note}"));
            }
            // One of the notes says that it has stopped.
            if let Status::ServerGone(since) = status
                && gone.replace(since) != Some(since)
            {
                self.say("waiting for the server to start");
            }
            if !self.collector.rows().is_empty() || self.collector.has_much_to_take() {
                self.windows.add(self.collector.take_rows());
            }
            if status == Status::Ended {
                self.say("the session has ended");
                return Ok(());
            }
            if now >= self.windows.end_us().saturating_add(USUALLY_LATE_US) {
                return Ok(());
            }
            for _ in 0..AT_ONCE {
                if !self.is_due(now) {
                    break;
                }
                self.show_next()?;
            }
            let seconds = (now - self.windows.begin_us()).max(0) / SECOND_US;
            if self.tells_progress {
                self.line.show(&format!("snapshot {}: {seconds} s", self.number));
            }
        }
    }

    /// Shows what is left, and says what is missing.
    fn finish(&mut self) -> anyhow::Result<()> {
        self.line.clear();
        // Afterwards there are none; the last snapshot has yet to be shown.
        self.last_processes = self.levels.then(|| self.collector.processes(|_| true));
        self.collector.finish()?;
        self.windows.add(self.collector.take_rows());
        while !self.windows.are_over() {
            self.show_next()?;
        }
        if let Some(late_ns) = self.windows.late_ns() {
            self.say(&format!(
                "note: {:.3} s of time, or its counts, arrived after its snapshot was shown, and are not in it",
                late_ns as f64 / 1e9
            ));
        }
        if self.windows.is_full() {
            self.say("note: there were more distinct entries than can be kept; times and counts of the last ones are missing");
        }
        Ok(())
    }

    /// True when the rows of the next snapshot have arrived, or have been waited for long enough.
    fn is_due(&mut self, now: i64) -> bool {
        let end_us = self.windows.next_end_us();
        if self.windows.are_over() || now < end_us.saturating_add(USUALLY_LATE_US) {
            self.waited_us = 0;
            return false;
        }
        if self.collector.is_settled(end_us) {
            self.waited_us = 0;
            return true;
        }
        // After a standstill the clock alone proves nothing.
        now >= end_us.saturating_add(LATEST_US) && self.waited_us >= LATEST_US - USUALLY_LATE_US
    }

    fn show_next(&mut self) -> anyhow::Result<()> {
        let (from_us, to_us, mut rows, described) = self.windows.next(self.collector.ids());
        if self.levels {
            // A session that did nothing has no other line, and is not read for this one.
            let ran = rows.counters.iter().filter(|row| has_run(row));
            let ran: HashSet<SessionId> = ran.map(|row| row.session).collect();
            let now = || self.collector.processes(|id| ran.contains(&id));
            let processes = self
                .last_processes
                .as_ref()
                .map_or_else(|| Cow::Owned(now()), Cow::Borrowed);
            rows.counters.extend(levels(&processes, &ran, from_us));
        }
        let meta = Meta {
            // This snapshot is complete.
            complete: true,
            ..self.collector.meta()
        };
        let snapshot = Snapshot {
            source: Source::described(meta, rows, described),
            time: Filter {
                from_us: Some(from_us),
                to_us: Some(to_us),
                ..Filter::default()
            },
            missing_ns: self.windows.missing_ns(),
            wait_classes: self.collector.wait_classes(),
            lock_uses: self.collector.lock_uses().cloned(),
        };
        self.number += 1;
        self.line.clear();
        if !(self.show)(&snapshot)? {
            let now = self.windows.begin_us();
            self.windows.end_at(now);
        }
        Ok(())
    }

    fn say(&mut self, text: &str) {
        self.line.clear();
        say(format_args!("{text}"));
    }
}

/// The kernel switched away from the session.
fn has_run(row: &CounterRow) -> bool {
    let switches = [task::VOLUNTARY_SWITCHES, task::INVOLUNTARY_SWITCHES];
    row.source == counter::KERNEL && switches.contains(&row.name.as_str())
}

fn next_second(us: i64) -> i64 {
    (us.div_euclid(SECOND_US) + 1) * SECOND_US
}
