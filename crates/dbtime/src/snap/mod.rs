//! `dbtime snap`: how much statistics, times and waits of sessions grow in some seconds, snapshot after snapshot.
//!
//! ```text
//! who          which sessions, and what of them, as it is typed
//! windows      rows, added up by snapshot
//! ```

mod who;
mod windows;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dbtime_collect::{Collector, Ending, Options, Status};
use dbtime_report::{SnapshotOptions, Source, snapshot_csv};

use crate::arguments::{SnapArguments, SnapFormat, SnapLength};
use crate::exit_code::NOTHING_RECORDED;
use crate::memory;
use crate::output::{self, ProgressLine, say};
use crate::signals::{Second, stop_on_signals};
use crate::usage::Usage;
use windows::Windows;

const SECOND_US: i64 = 1_000_000;
/// How long one step waits for events.
const STEP: Duration = Duration::from_millis(50);
/// Rows of a second have come so long after its end, as a rule.
const USUALLY_LATE_US: i64 = 400_000;
/// Time of short sessions is divided so long after it passed, at most as a rule.
const LATEST_US: i64 = 3_000_000;

/// Shows snapshots, until there were as many as wanted or somebody wants no more.
///
/// # Errors
/// What is wanted cannot be understood; recording cannot begin; the output cannot be written.
pub fn run(arguments: &SnapArguments) -> anyhow::Result<ExitCode> {
    // First of all: whoever is started in the background has Ctrl-C ignored until then.
    let stop = stop_on_signals(Second::Ends)?;
    memory::give_back();
    let wanted = who::parse(&arguments.who).map_err(Usage)?;
    let options = Options {
        means: arguments.precision.means().map_err(Usage)?,
        tier: arguments.precision.tier(),
        texts: arguments.text.into(),
        task_counts: true,
        ..Options::sampled(arguments.target.target(), arguments.rate_hz)
    };
    let mut line = ProgressLine::new();
    line.show("attaching …");
    let mut collector = Collector::start(&options, &Ending::when(&stop))?;
    line.clear();
    collector.give_up_privileges(false)?;
    let meta = collector.meta();
    say(format_args!(
        "{} {} ({}), {}",
        meta.database.product, meta.database.version, meta.database.target, meta.collector.tier
    ));
    for reason in &meta.collector.reasons {
        say(format_args!("note: {reason}"));
    }
    if arguments.format == SnapFormat::Csv {
        output::print(&snapshot_csv::head())?;
    }
    let begin_us = next_second(now_us());
    let length_us = match arguments.length {
        SnapLength::Seconds(seconds) => i64::from(seconds) * SECOND_US,
        // None is that long.
        SnapLength::UntilTheEnd => i64::MAX / 2,
    };
    let mut run = Run {
        arguments,
        wanted,
        windows: Windows::new(begin_us, length_us),
        line,
        shown: 0,
        is_empty: true,
    };
    run.record(&mut collector, begin_us, length_us, &stop)?;
    Ok(match run.is_empty {
        true => ExitCode::from(NOTHING_RECORDED),
        false => ExitCode::SUCCESS,
    })
}

struct Run<'a> {
    arguments: &'a SnapArguments,
    wanted: SnapshotOptions,
    windows: Windows,
    line: ProgressLine,
    /// Snapshots that were shown.
    shown: u32,
    /// None of them had anything in it.
    is_empty: bool,
}

impl Run<'_> {
    fn record(
        &mut self,
        collector: &mut Collector,
        begin_us: i64,
        length_us: i64,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<()> {
        let count = i64::from(match self.arguments.length {
            SnapLength::Seconds(_) => self.arguments.count,
            SnapLength::UntilTheEnd => 1,
        });
        let mut end_us = begin_us.saturating_add(length_us.saturating_mul(count));
        self.windows.end_at(end_us);
        let mut noted = 0;
        let mut told_gone = None;
        loop {
            let status = collector.step(STEP)?;
            let now = now_us();
            // A second that has begun is waited for: times of parts of it are not known.
            if stop.load(Ordering::Relaxed) {
                end_us = end_us.min(next_second(now)).max(begin_us);
                self.windows.end_at(end_us);
            }
            if let Status::ServerGone(since) = status
                && told_gone.replace(since) != Some(since)
            {
                self.say("the server has stopped; it is waited for");
            }
            for note in collector.notes().get(noted..).unwrap_or_default() {
                self.line.clear();
                say(format_args!("note: {}", note.text));
            }
            noted = collector.notes().len();
            if !collector.rows().is_empty() || collector.has_much_to_take() {
                self.windows.add(collector.take_rows());
            }
            if status == Status::Ended || now >= end_us + USUALLY_LATE_US {
                if status == Status::Ended {
                    self.say("the session has ended");
                    end_us = end_us.min(next_second(now));
                    self.windows.end_at(end_us);
                }
                break;
            }
            while self.is_due(collector, now, length_us) {
                self.show(collector)?;
            }
            self.line.show(&format!(
                "snapshot {}: {} s",
                self.shown + 1,
                (now - self.windows.begin_us()).max(0) / SECOND_US
            ));
        }
        self.line.clear();
        collector.finish()?;
        self.windows.add(collector.take_rows());
        while self.windows.begin_us() < end_us {
            self.show(collector)?;
        }
        if let Some(late_ns) = self.windows.late_ns() {
            say(format_args!(
                "note: {:.3} s of short sessions could be divided only after their snapshot was shown, and are not in it",
                late_ns as f64 / 1e9
            ));
        }
        if self.windows.is_full() {
            say(format_args!(
                "note: there was more to tell apart than is kept; sessions that came last are not shown"
            ));
        }
        Ok(())
    }

    /// True when the rows of the next snapshot have come.
    fn is_due(&self, collector: &Collector, now: i64, length_us: i64) -> bool {
        let end_us = self.windows.begin_us().saturating_add(length_us);
        now >= end_us.saturating_add(USUALLY_LATE_US)
            && (collector.is_settled(end_us) || now >= end_us.saturating_add(LATEST_US))
    }

    /// Shows the next one.
    fn show(&mut self, collector: &mut Collector) -> anyhow::Result<()> {
        let live = collector.sessions().map(|(id, _)| id).collect();
        let (from_us, to_us, rows) = self.windows.next(&live);
        let source = Source::memory(collector.meta(), rows);
        let mut options = self.wanted.clone();
        options.filter.from_us = Some(from_us);
        options.filter.to_us = Some(to_us);
        self.shown += 1;
        self.line.clear();
        let snapshot = match dbtime_report::snapshot(&source, &options) {
            Ok(snapshot) => snapshot,
            Err(e) => {
                say(format_args!("snapshot {}: {e}", self.shown));
                return Ok(());
            }
        };
        self.is_empty &= snapshot.sessions.is_empty();
        let layout = &self.arguments.layout;
        output::print(&match self.arguments.format {
            SnapFormat::Text => dbtime_report::text::render_snapshot(
                &snapshot,
                &layout.columns,
                layout.sessions,
                output::width(),
            ),
            SnapFormat::Csv => snapshot_csv::render(&snapshot)?,
            SnapFormat::Json => dbtime_report::json::render_snapshot(&snapshot),
        })
    }

    fn say(&mut self, text: &str) {
        self.line.clear();
        say(format_args!("{text}"));
    }
}

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

fn next_second(us: i64) -> i64 {
    (us.div_euclid(SECOND_US) + 1) * SECOND_US
}
