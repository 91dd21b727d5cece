//! `dbtime record`: a collector, a recording, and the loop between them.
//!
//! ```text
//! command   what a person who typed it sees: progress, the ledger, a page
//! naming    what a recording is called that was given no name
//! standing  how a recording stands, once a second
//! ```

mod command;
mod naming;
mod standing;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use dbtime_collect::{Collector, Ending, Options, Status, WHOLE_SECONDS};
use dbtime_model::Rows;
use dbtime_model::output::{Directory, Owner, Place};
use dbtime_model::recording::{Meta, Note, RecordingError, RecordingWriter};

pub use command::run;
pub use standing::Standing;

use crate::output::give;
use standing::Watch;

/// What a killed recorder loses at most, in the first minutes ([`WHOLE_SECONDS`]).
const SEGMENT: Duration = Duration::from_secs(5);
/// The same afterwards: fewer files are written, and less is waited for the disk.
const LATER_SEGMENT: Duration = Duration::from_secs(60);
/// As often segments become one file of each table: 24 files a day.
const COMPACTION: Duration = Duration::from_secs(3_600);
/// How long a server that has stopped is waited for: a restart takes no longer in most cases.
const SERVER_MAY_RETURN: Duration = Duration::from_secs(30);
/// How long one step waits for events.
const STEP: Duration = Duration::from_millis(50);
/// Rows that may wait for a disk that is full before the recording is given up, and stacks among them, which are larger: some
/// 100 MB of each.
const ROWS_IN_MEMORY: usize = 500_000;
const STACKS_IN_MEMORY: usize = 8_000;

/// What to record, how long, and into what.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Of whom and how.
    pub collect: Options,
    /// For how long; none: until stopped.
    pub duration: Option<Duration>,
    /// Directory to create.
    pub output: Output,
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
    fn place(&self, meta: &Meta) -> Place {
        match self {
            Output::At(place) => place.clone(),
            Output::In(directory) => Place::inside(Arc::clone(directory), naming::name(meta).as_ref()),
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
    let meta = collector.meta();
    let writer = RecordingWriter::create_at(plan.output.place(&meta), meta.clone())?;
    let (path, directory) = (writer.path(), writer.directory()?);
    let mut segments = Segments {
        writer,
        pending: Rows::default(),
        failed: None,
        notes: Vec::new(),
        activity_rows: 0,
        next_compaction: Instant::now() + COMPACTION,
        cannot_compact: false,
    };
    if plan.alone {
        collector.give_up_privileges(plan.owner.is_some())?;
    }
    tell(Progress::Started {
        meta: &meta,
        path: &path,
    });

    let start = Instant::now();
    if let Some(at) = plan.duration.and_then(|duration| start.checked_add(duration)) {
        ending.set_time(at);
    }
    let mut next_segment = start + SEGMENT;
    let mut notes_told = 0;
    let mut watch = Watch::new(meta.start_us);
    let ended = loop {
        let status = match collector.step(STEP) {
            Ok(status) => status,
            Err(e) => break Err(e.into()),
        };
        let elapsed = start.elapsed();
        tell(Progress::Elapsed(elapsed));
        if watch.is_due(elapsed) {
            let bytes = segments.writer.meta().cost.bytes_written;
            tell(Progress::Standing(watch.look(&collector, elapsed, bytes)));
        }
        if Instant::now() >= next_segment || collector.has_much_to_take() {
            // Not one for each that was missed while dbtime was stopped.
            next_segment = Instant::now()
                + match elapsed < WHOLE_SECONDS {
                    true => SEGMENT,
                    false => LATER_SEGMENT,
                };
            watch.rows_are_taken(&collector);
            if let Err(e) = segments.write(&mut collector, tell) {
                break Err(e);
            }
        }
        for note in &collector.notes()[notes_told..] {
            tell(Progress::Note(&note.text));
        }
        notes_told = collector.notes().len();
        let time_is_over = plan.duration.is_some_and(|duration| elapsed >= duration);
        let nothing_left = match status {
            Status::Recording => false,
            Status::ServerGone(since) => since.elapsed() >= SERVER_MAY_RETURN,
            Status::Ended => true,
        };
        if time_is_over || nothing_left || stop.load(Ordering::Relaxed) {
            break Ok(());
        }
    };
    // What came in until an error is written all the same.
    let last = collector
        .finish()
        .map_err(anyhow::Error::from)
        .and_then(|()| segments.write(&mut collector, tell));
    let outcome = segments.finish(last.err(), directory.try_clone()?, tell);
    // Also when it has ended early.
    if let Some(text) = give(&directory, plan.owner) {
        tell(Progress::Note(&text));
    }
    let outcome = outcome?;
    ended.map(|()| outcome)
}

/// Rows on their way to disk.
struct Segments {
    writer: RecordingWriter,
    pending: Rows,
    /// Why the last segment could not be written.
    failed: Option<RecordingError>,
    notes: Vec<Note>,
    activity_rows: u64,
    next_compaction: Instant,
    /// It has been told that segments cannot be merged.
    cannot_compact: bool,
}

impl Segments {
    /// Writes what has come. A segment that cannot be written is kept and tried again with the next one, within limits.
    fn write(&mut self, collector: &mut Collector, tell: &mut dyn FnMut(Progress<'_>)) -> anyhow::Result<()> {
        self.pending.append(collector.take_rows());
        let mut meta = collector.meta();
        meta.segments = self.writer.meta().segments.clone();
        meta.cost.bytes_written = self.writer.meta().cost.bytes_written;
        meta.notes.extend(self.notes.clone());
        meta.notes.sort_by_key(|note| note.time_us);
        let now = meta.end_us;
        *self.writer.meta() = meta;
        match self.write_pending() {
            Ok(()) => {
                self.failed = None;
                self.compact(false, now, tell);
                Ok(())
            }
            Err(e) if self.pending.len() < ROWS_IN_MEMORY && self.pending.stacks.len() < STACKS_IN_MEMORY => {
                if self.failed.is_none() {
                    let text = format!("a segment could not be written, it is tried again: {e}");
                    tell(Progress::Note(&text));
                    self.notes.push(Note { time_us: now, text });
                }
                self.failed = Some(e);
                Ok(())
            }
            Err(e) => Err(e).context("too many rows wait to be written, recording has ended"),
        }
    }

    /// Writes one segment; on a disk that is full, as many seconds as fit. The rest is kept.
    fn write_pending(&mut self) -> Result<(), RecordingError> {
        let Err(e) = self.write_segment() else {
            return Ok(());
        };
        if !e.is_full_disk() {
            return Err(e);
        }
        let mut later = Rows::default();
        while let Some(middle) = self.pending.middle() {
            let mut rest = self.pending.split_off(middle);
            rest.append(later);
            later = rest;
            while self.write_segment().is_ok() {
                self.pending = std::mem::take(&mut later);
                if self.pending.is_empty() {
                    return Ok(());
                }
            }
        }
        self.pending.append(later);
        Err(e)
    }

    fn write_segment(&mut self) -> Result<(), RecordingError> {
        self.writer.write(&self.pending)?;
        self.activity_rows += self.pending.activity.len() as u64;
        self.pending = Rows::default();
        Ok(())
    }

    /// Merges segments when it is time; at the end, all that are left. What cannot be merged stays as it is.
    fn compact(&mut self, at_end: bool, now_us: i64, tell: &mut dyn FnMut(Progress<'_>)) {
        let merged = self.writer.go_on_compacting(at_end).and_then(|()| {
            if at_end || Instant::now() >= self.next_compaction || self.writer.has_much_to_merge() {
                self.next_compaction = Instant::now() + COMPACTION;
                self.writer.begin_compacting(at_end)?;
            }
            self.writer.go_on_compacting(at_end)
        });
        if let (Err(e), false) = (merged, self.cannot_compact) {
            self.cannot_compact = true;
            let text = format!("segments cannot be merged, they stay as they are: {e}");
            tell(Progress::Note(&text));
            self.notes.push(Note {
                time_us: now_us,
                text,
            });
        }
    }

    /// Ends the recording; `failed`: why the end of it is missing. Nothing is left of one that has nothing in it.
    fn finish(
        mut self,
        failed: Option<anyhow::Error>,
        directory: Directory,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> anyhow::Result<Outcome> {
        let meta = self.writer.meta().clone();
        let path = self.writer.path();
        if let Some(now) = self.writer.moved() {
            let text = format!("{} was moved meanwhile, to {}", path.display(), now.display());
            tell(Progress::Note(&text));
        }
        let path = self.writer.moved().unwrap_or(path);
        let failed = failed.or(self.failed.take().map(|e| {
            let lost = self.pending.len();
            let last = meta.segments.last;
            anyhow::Error::from(e).context(match last {
                0 => format!("{}: {lost} rows are lost, nothing was recorded", path.display()),
                _ => format!(
                    "{}: {lost} rows are lost; it can be read up to segment {last}",
                    path.display()
                ),
            })
        }));
        if failed.is_none() {
            self.compact(true, meta.end_us, tell);
        }
        let is_empty = self.activity_rows == 0 && (failed.is_none() || meta.segments.last == 0);
        let ended = match (is_empty, &failed) {
            // It would only block the name.
            (true, _) => self.writer.discard(),
            (false, None) => self.writer.finish(),
            (false, Some(_)) => Ok(()),
        };
        match failed {
            Some(e) => Err(e),
            None => {
                ended?;
                Ok(Outcome {
                    meta,
                    activity_rows: self.activity_rows,
                    path,
                    directory,
                })
            }
        }
    }
}
