//! Recording: a collector, one recording or a series of them, and the loop in between.
//!
//! ```text
//! series    which recording a row belongs to: one ends and the next one begins
//! segments  one recording on its way to disk, also for an import
//! sink      the thread that both run on, and what waits for it
//! measure   what can be watched while recording
//! naming    default names of recordings
//! standing  the state of a recording, once a second
//! ```

mod measure;
mod naming;
mod segments;
mod series;
mod sink;
mod standing;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dbtime_collect::{Collector, Ending, Options, Status, WHOLE_SECONDS};
use dbtime_model::output::{Directory, Owner, Place};
use dbtime_model::recording::Meta;

pub use measure::Measure;
pub(crate) use naming::plain_words;
#[cfg(test)]
pub(crate) use sink::tests::row_of;
pub(crate) use sink::{Ending as Finishing, Part, Sink};
pub use standing::{Standing, Watched};

use series::{Series, next_multiple};
use standing::Watch;

/// The most that a killed recorder loses in the first minutes ([`WHOLE_SECONDS`]).
const SEGMENT: Duration = Duration::from_secs(5);
/// The same afterwards: fewer files, and less waiting for the disk.
const LATER_SEGMENT: Duration = Duration::from_secs(60);
/// How long to wait for a server that has stopped: most restarts take no longer.
const SERVER_MAY_RETURN: Duration = Duration::from_secs(30);
/// How long one step waits for events.
const STEP: Duration = Duration::from_millis(50);

/// What to record, how long, and into what.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What to record, and how.
    pub collect: Options,
    /// For how long; none: until stopped.
    pub duration: Option<Duration>,
    /// Directory to create.
    pub output: Output,
    /// How often a new recording begins, at multiples of this since the Unix epoch.
    pub rotate: Option<Duration>,
    /// What is reported for each second ([`Progress::Watched`]).
    pub watch: Vec<Measure>,
    /// The condition that started it ([`dbtime_model::recording::CollectorMeta::flight`]).
    pub flight: String,
    /// Its owner in the end; none: whoever records.
    pub owner: Option<Owner>,
    /// Whether the process does nothing else: it then gives up the privileges that recording does not need once it has begun.
    pub alone: bool,
}

/// Where to put a recording.
#[derive(Debug, Clone)]
pub enum Output {
    /// Under this name: see [`crate::output::new_place`].
    At(Place),
    /// In this directory, under a name made of the server and the time.
    In(Arc<Directory>),
}

impl Output {
    /// `number`: counts, from 1, the recordings that would have the same name.
    fn place(&self, meta: &Meta, number: u32) -> Place {
        match self {
            Output::At(place) => place.clone(),
            Output::In(directory) => {
                Place::inside(Arc::clone(directory), naming::name(meta, number).as_ref())
            }
        }
    }
}

/// What has been recorded.
#[derive(Debug)]
pub struct Outcome {
    /// The recording's description.
    pub meta: Meta,
    /// Rows of activity; without any, nothing was recorded, and nothing is left.
    pub activity_rows: u64,
    /// Where the recording is.
    pub path: PathBuf,
    /// The same, opened: its name may lead elsewhere by now.
    pub directory: Directory,
}

/// What the caller is told on the way.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Samples are being taken.
    Started {
        /// What is being recorded.
        meta: &'a Meta,
        /// Where the recording is.
        path: &'a Path,
    },
    /// Time since then.
    Elapsed(Duration),
    /// The same once a second, with the state so far.
    Standing(Standing),
    /// A second is over.
    Watched(&'a Watched),
    /// A recording is complete, and the next one is running.
    Complete {
        /// Where it is.
        path: &'a Path,
        /// Its size.
        bytes: u64,
    },
    /// Something worth noting.
    Note(&'a str),
}

/// Records until the time is over, `stop` is set, or there is nothing left to record.
///
/// # Errors
/// Recording cannot begin, or the recording cannot be written. What was written before stays readable.
pub fn record(
    plan: &Plan,
    stop: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(Progress<'_>),
) -> anyhow::Result<Outcome> {
    let ending = Ending::when(stop);
    let mut collector = Collector::start(&plan.collect, &ending)?;
    let mut meta = collector.meta();
    meta.collector.flight = plan.flight.clone();
    let series = Series::begin(plan, meta.clone())?;
    if plan.alone {
        collector.give_up_privileges(plan.owner.is_some())?;
    }
    // From here on this thread takes what the kernel sends, and waits for nothing else.
    let mut sink = Sink::start(series)?;
    tell(Progress::Started {
        meta: &meta,
        path: &sink.path(),
    });

    let start = Instant::now();
    if let Some(at) = plan.duration.and_then(|duration| start.checked_add(duration)) {
        ending.set_time(at);
    }
    let mut next_segment = start + SEGMENT;
    let mut next_recording_us = plan.rotate.map(|every| first_after(meta.start_us, every));
    let mut notes_told = 0;
    let mut watch = Watch::new(meta.start_us, &plan.watch);
    let ended: anyhow::Result<()> = loop {
        let status = match collector.step(STEP) {
            Ok(status) => status,
            Err(e) => break Err(e.into()),
        };
        let elapsed = start.elapsed();
        tell(Progress::Elapsed(elapsed));
        if watch.is_due(elapsed) {
            let bytes = sink.bytes_written();
            tell(Progress::Standing(watch.look(&collector, elapsed, bytes)));
            for second in watch.take_watched() {
                tell(Progress::Watched(&second));
            }
        }
        for note in &collector.notes()[notes_told..] {
            tell(Progress::Note(&note.text));
        }
        notes_told = collector.notes().len();
        // Notes up to then are in the previous recording.
        if let Some(begun_us) = sink.tell(tell) {
            collector.describe_again(begun_us);
            notes_told = collector.notes().len();
        }
        let now_us = collector.now_us();
        let is_next_recording = next_recording_us.is_some_and(|next_us| now_us >= next_us);
        let writes = Instant::now() >= next_segment || is_next_recording || collector.has_much_to_take();
        if writes {
            // Not one for each that was missed while dbtime was suspended.
            next_segment = Instant::now()
                + match elapsed < WHOLE_SECONDS {
                    true => SEGMENT,
                    false => LATER_SEGMENT,
                };
            watch.rows_are_taken(&collector);
            if is_next_recording {
                next_recording_us = plan.rotate.map(|every| first_after(now_us, every));
            }
            sink.take(part(&mut collector), tell);
        }
        let time_is_over = plan.duration.is_some_and(|duration| elapsed >= duration);
        let nothing_left = match status {
            Status::Recording => false,
            Status::ServerGone(since) => since.elapsed() >= SERVER_MAY_RETURN,
            Status::Ended => true,
        };
        let is_over = time_is_over || nothing_left || stop.load(Ordering::Relaxed);
        if is_over || !sink.is_writing() {
            break Ok(());
        }
    };
    // A writer that has stopped has the first error; otherwise it is the earlier of these.
    let was_writing = sink.is_writing();
    let finished = collector.finish().map_err(anyhow::Error::from);
    // What arrived before an error is still written.
    let outcome = sink.finish(part(&mut collector), tell);
    let ended = match was_writing {
        true => ended.and(finished),
        false => ended,
    };
    match (ended, outcome) {
        (Err(first), Err(second)) => {
            tell(Progress::Note(&format!("{second:#}")));
            Err(first)
        }
        (ended, outcome) => ended.and(outcome),
    }
}

/// What has come since the last time.
fn part(collector: &mut Collector) -> Part {
    let rows = collector.take_rows();
    Part {
        rows,
        meta: collector.meta(),
        now_us: collector.now_us(),
    }
}

/// The first multiple of a time after a moment.
fn first_after(moment_us: i64, every: Duration) -> i64 {
    next_multiple(moment_us, i64::try_from(every.as_micros()).unwrap_or(i64::MAX))
}
