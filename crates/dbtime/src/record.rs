//! `dbtime record`: a collector, a recording, and the loop between them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use dbtime_collect::{Collector, Options, Status};
use dbtime_model::Rows;
use dbtime_model::recording::{Meta, Note, RecordingError, RecordingWriter};

/// What a killed recorder loses at most.
const SEGMENT: Duration = Duration::from_secs(5);
/// How long a server that has stopped is waited for: a restart takes no longer in most cases.
const SERVER_MAY_RETURN: Duration = Duration::from_secs(30);
/// How long one step waits for events.
const STEP: Duration = Duration::from_millis(50);
/// Rows that may wait for a disk that is full before the recording is given up: some 100 MB.
const ROWS_IN_MEMORY: usize = 500_000;

/// What to record, how long, and into what.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Of whom and how.
    pub collect: Options,
    /// For how long; none: until stopped.
    pub duration: Option<Duration>,
    /// Directory to create.
    pub output: PathBuf,
}

/// What has been recorded.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The recording's description.
    pub meta: Meta,
    /// Rows of activity; without any, nothing was recorded.
    pub activity_rows: u64,
}

/// What the caller is told meanwhile.
#[derive(Debug)]
pub enum Progress<'a> {
    /// Samples are being taken.
    Started(&'a Meta),
    /// Time since then.
    Elapsed(Duration),
    /// Something remarkable.
    Note(&'a str),
}

/// Records until the time is over, `stop` is set, or there is nothing left to record.
///
/// # Errors
/// Recording cannot begin, or the recording cannot be written. What was written before stays readable.
pub fn record(plan: &Plan, stop: &AtomicBool, tell: &mut dyn FnMut(Progress<'_>)) -> anyhow::Result<Outcome> {
    // Before anything is attached: most people notice a wrong name soon, none after an hour.
    if plan.output.exists() {
        return Err(RecordingError::Exists(plan.output.clone()).into());
    }
    let mut collector = Collector::start(&plan.collect)?;
    let meta = collector.meta();
    let mut segments = Segments {
        writer: RecordingWriter::create(&plan.output, meta.clone())?,
        pending: Rows::default(),
        failed: None,
        notes: Vec::new(),
        activity_rows: 0,
    };
    tell(Progress::Started(&meta));

    let start = Instant::now();
    let mut next_segment = start + SEGMENT;
    let mut notes_told = 0;
    let ended = loop {
        let status = match collector.step(STEP) {
            Ok(status) => status,
            Err(e) => break Err(e.into()),
        };
        let elapsed = start.elapsed();
        tell(Progress::Elapsed(elapsed));
        if Instant::now() >= next_segment {
            next_segment += SEGMENT;
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
    collector.finish()?;
    segments.write(&mut collector, tell)?;
    let outcome = segments.finish(&plan.output)?;
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
        match self.writer.write(&self.pending) {
            Ok(()) => {
                self.activity_rows += self.pending.activity.len() as u64;
                self.pending = Rows::default();
                self.failed = None;
                Ok(())
            }
            Err(e) if self.pending.len() < ROWS_IN_MEMORY => {
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

    fn finish(mut self, output: &Path) -> anyhow::Result<Outcome> {
        if let Some(e) = self.failed {
            let lost = self.pending.len();
            let last = self.writer.meta().segments.last;
            return Err(e).with_context(|| {
                format!(
                    "{}: {lost} rows are lost; it can be read up to segment {last}",
                    output.display()
                )
            });
        }
        let meta = self.writer.meta().clone();
        self.writer.finish()?;
        Ok(Outcome {
            meta,
            activity_rows: self.activity_rows,
        })
    }
}
