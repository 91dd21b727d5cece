//! A server that runs: a collector, and the last seconds of its rows in memory. Nothing is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dbtime_collect::{Collector, Ending, Options, Status};
use dbtime_report::Recent;
use dbtime_report::tui::Colours;

use super::ScreenThread;
use super::feed::{Feed, Shared};
use crate::arguments::TopArguments;
use crate::output::ProgressLine;

/// Seconds that can be gone back to.
const KEPT_S: i64 = 300;
/// How long one step waits for events.
const STEP: Duration = Duration::from_millis(50);

pub(super) fn run(arguments: &TopArguments, colours: Colours, stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    let options = Options {
        means: arguments.collector.into(),
        texts: arguments.text.into(),
        ..Options::sampled(arguments.target.target(), arguments.rate_hz)
    };
    let mut line = ProgressLine::new();
    line.show("attaching …");
    let ending = Ending::when(stop);
    let mut collector = Collector::start(&options, &ending)?;
    drop(line);
    // Threads that are started from now on have no more of them.
    collector.give_up_privileges(false)?;
    let shared = Arc::new(Shared::new(Recent::new(collector.meta(), KEPT_S)));
    let feed = Feed::Live(Arc::clone(&shared));
    let screen = ScreenThread::start(feed, arguments.seconds, colours, stop)?;
    let recorded = record(&mut collector, &shared, || {
        screen.is_over() || stop.load(Ordering::Relaxed)
    });
    if recorded.is_err() {
        stop.store(true, Ordering::Relaxed);
    }
    let shown = screen.finish();
    recorded.and(shown)
}

/// Hands on rows as they come, until the end.
fn record(collector: &mut Collector, shared: &Shared, is_over: impl Fn() -> bool) -> anyhow::Result<()> {
    let mut has_ended = false;
    let mut noted = 0;
    let mut gone: Option<Instant> = None;
    while !is_over() {
        if has_ended {
            std::thread::sleep(STEP);
            continue;
        }
        let status = collector.step(STEP)?;
        if status == Status::Ended {
            has_ended = true;
            collector.finish()?;
            *shared.told() = Some("the session has ended".to_string());
        }
        if let Status::ServerGone(since) = status
            && gone != Some(since)
        {
            gone = Some(since);
            *shared.told() = Some("the server has stopped; it is waited for".to_string());
        } else if gone.is_some() && status == Status::Recording {
            gone = None;
            *shared.told() = None;
        }
        if let Some(note) = collector.notes().get(noted..).and_then(|notes| notes.last()) {
            *shared.told() = Some(note.text.clone());
            noted = collector.notes().len();
        }
        if !collector.rows().is_empty() || collector.has_much_to_take() {
            let rows = collector.take_rows();
            let meta = collector.meta();
            shared.recent().add(meta, rows);
        }
    }
    Ok(())
}
