//! Recording: a collector, a recording or one after the other, and the loop between them.
//!
//! ```text
//! series    which recording a row belongs to: one ends and the next one begins
//! segments  one recording on its way to disk, by whoever makes it: an import too
//! sink      the thread that both are on, and what waits for it
//! measure   what can be watched of a recording while it is made
//! naming    what a recording is called that was given no name
//! standing  how a recording stands, once a second
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

/// What a killed recorder loses at most, in the first minutes ([`WHOLE_SECONDS`]).
const SEGMENT: Duration = Duration::from_secs(5);
/// The same afterwards: fewer files are written, and less is waited for the disk.
const LATER_SEGMENT: Duration = Duration::from_secs(60);
/// How long a server that has stopped is waited for: a restart takes no longer in most cases.
const SERVER_MAY_RETURN: Duration = Duration::from_secs(30);
/// How long one step waits for events.
const STEP: Duration = Duration::from_millis(50);

/// What to record, how long, and into what.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Of whom and how.
    pub collect: Options,
    /// For how long; none: until stopped.
    pub duration: Option<Duration>,
    /// Directory to create.
    pub output: Output,
    /// A new recording is begun so often, at multiples of it since the Unix epoch.
    pub rotate: Option<Duration>,
    /// What is told of each second ([`Progress::Watched`]).
    pub watch: Vec<Measure>,
    /// The condition that started it ([`dbtime_model::recording::CollectorMeta::flight`]).
    pub flight: String,
    /// Whom it belongs to in the end; none: who records.
    pub owner: Option<Owner>,
    /// Whether the process does nothing else: it then gives up the privileges that recording does not need once it has begun.
    pub alone: bool,
}

/// Where a recording is to be.
#[derive(Debug, Clone)]
pub enum Output {
    /// Under this name: see [`crate::output::new_place`].
    At(Place),
    /// In this directory, under a name made of the server and the time.
    In(Arc<Directory>),
}

impl Output {
    /// `number`: counts from 1, of those that would have the same name.
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
    /// The same, open: its name may lead elsewhere meanwhile.
    pub directory: Directory,
}

/// What the caller is told meanwhile.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Samples are being taken.
    Started {
        /// What of.
        meta: &'a Meta,
        /// Where the recording is.
        path: &'a Path,
    },
    /// Time since then.
    Elapsed(Duration),
    /// The same once a second, with what there is by now.
    Standing(Standing),
    /// A second is over.
    Watched(&'a Watched),
    /// A recording is whole, and the next one goes on.
    Complete {
        /// Where it is.
        path: &'a Path,
        /// Its size.
        bytes: u64,
    },
    /// Something remarkable.
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
    // From here on this thread takes what the kernel sends, and waits for nobody else.
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
        // What was told until then is in the recording before.
        if let Some(begun_us) = sink.tell(tell) {
            collector.describe_again(begun_us);
            notes_told = collector.notes().len();
        }
        let now_us = collector.now_us();
        let is_next_recording = next_recording_us.is_some_and(|next_us| now_us >= next_us);
        let writes = Instant::now() >= next_segment || is_next_recording || collector.has_much_to_take();
        if writes {
            // Not one for each that was missed while dbtime was stopped.
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
    // Whoever does not write any more has the first error; otherwise it is the one of these that came first.
    let was_writing = sink.is_writing();
    let finished = collector.finish().map_err(anyhow::Error::from);
    // What came in until an error is written all the same.
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
