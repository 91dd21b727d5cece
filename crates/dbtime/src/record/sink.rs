//! Rows on their way to a writer thread: the thread that takes the kernel's events hands them over and goes on, whatever the disk does. A
//! thread that reads files waits for the disk, one batch behind it, and loses nothing.
//!
//! The queue of the former is bounded in bytes, because batches differ a thousandfold in size. Beyond that, the newest batch is dropped as
//! a whole: the queue has an order and descriptions, and taking something out of it would break both. Only facts are dropped. Descriptions
//! (sessions, stacks, statements) come once, and later rows refer to them: they go with the next batch that has room. What was dropped is
//! counted in the quality of the recording.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use dbtime_model::Rows;
use dbtime_model::output::Owner;
use dbtime_model::recording::{Meta, Note};

use super::series::Series;
use super::{Outcome, Output, Progress};
use crate::queue::{Next, Receiver, Refused, Sender, queue};

/// Bytes that may wait for the disk, including what is being written: some minutes of a busy server, and more than any one batch
/// ([`dbtime_collect::Collector::has_much_to_take`]).
const MOST_WAITING: usize = 128 << 20;
/// Bytes of descriptions kept of dropped rows, in addition.
const MOST_KEPT: usize = 32 << 20;
/// Most notes about times in which rows were dropped.
const MOST_NOTES: usize = 100;
/// How often earlier recordings are worked on while nothing comes.
const STEP: Duration = Duration::from_secs(1);

/// What is written at a time.
#[derive(Debug)]
pub(crate) struct Part {
    /// The collector's description as of these rows.
    pub(crate) meta: Meta,
    /// What has arrived since the last part.
    pub(crate) rows: Rows,
    /// The time of day by the clock of the recording.
    pub(crate) now_us: i64,
}

/// What the thread has to say.
#[derive(Debug)]
pub(super) enum Told {
    Note(String),
    Complete {
        path: PathBuf,
        bytes: u64,
    },
    /// The next recording was begun, at this moment.
    Turned(i64),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sink {
    parts: Sender<Part>,
    told: mpsc::Receiver<Told>,
    thread: JoinHandle<anyhow::Result<Outcome>>,
    path: PathBuf,
    bytes_written: Arc<AtomicU64>,
    dropped: Dropped,
}

/// A recording whose last rows are on their way to the disk.
#[derive(Debug)]
pub(crate) struct Ending {
    told: mpsc::Receiver<Told>,
    thread: JoinHandle<anyhow::Result<Outcome>>,
}

/// What found no room.
#[derive(Debug, Default)]
struct Dropped {
    rows: u64,
    ns: u64,
    /// Their descriptions.
    kept: Rows,
    /// The last batch was dropped.
    goes_on: bool,
    notes: Vec<Note>,
}

impl Sink {
    /// Begins one recording, and the thread that writes it; `is_one_of_many`: if its name is taken, it gets another.
    ///
    /// # Errors
    /// It cannot be created.
    pub(crate) fn begin(
        output: Output,
        owner: Option<Owner>,
        is_one_of_many: bool,
        meta: Meta,
    ) -> anyhow::Result<Sink> {
        Sink::start(Series::begin_alone(output, owner, is_one_of_many, meta)?)
    }

    /// Starts the thread, which has no more privileges than the caller has now.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(series: Series) -> anyhow::Result<Sink> {
        let path = series.path();
        let bytes_written = Arc::new(AtomicU64::new(0));
        let written = Arc::clone(&bytes_written);
        Sink::of(MOST_WAITING, path, bytes_written, move |parts, told| {
            write(series, parts, told, &written)
        })
    }

    fn of(
        most: usize,
        path: PathBuf,
        bytes_written: Arc<AtomicU64>,
        write: impl FnOnce(Receiver<Part>, &mpsc::Sender<Told>) -> anyhow::Result<Outcome> + Send + 'static,
    ) -> anyhow::Result<Sink> {
        let (parts, to_write) = queue(most);
        let (tell, told) = channel();
        let thread = std::thread::Builder::new()
            .name("dbtime-write".to_string())
            .spawn(move || write(to_write, &tell))
            .context("cannot start the writer thread")?;
        Ok(Sink {
            parts,
            told,
            thread,
            path,
            bytes_written,
            dropped: Dropped::default(),
        })
    }

    /// Where the first recording was begun.
    pub(crate) fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Bytes of the current recording that are on the disk.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// False when nothing can be written any more: [`Sink::finish`] says why.
    pub(crate) fn is_writing(&self) -> bool {
        self.parts.is_taken()
    }

    /// Hands over a part; what finds no room is dropped, and counted. Never waits.
    pub(crate) fn take(&mut self, mut part: Part, tell: &mut dyn FnMut(Progress<'_>)) {
        self.dropped.go_along(&mut part);
        let bytes = part.rows.bytes();
        match self.parts.offer(part, bytes) {
            Ok(()) => self.dropped.goes_on = false,
            Err(Refused::Full(part)) => self.dropped.add(part, tell),
            // The reason is reported at the end.
            Err(Refused::Gone(_)) => {}
        }
    }

    /// Hands over once everything before is written; nothing is dropped. False when nothing can be written any more: [`Sink::give_up`] says
    /// why.
    pub(crate) fn hand_over(&self, part: Part) -> bool {
        let bytes = part.rows.bytes();
        self.parts.hand_over(part, bytes).is_ok()
    }

    /// Passes on the thread's messages. Returns when the next recording began, if it did.
    pub(crate) fn tell(&mut self, tell: &mut dyn FnMut(Progress<'_>)) -> Option<i64> {
        let turned = self.told.try_iter().filter_map(|told| told.tell(tell));
        turned.last()
    }

    /// Hands over the last rows, and waits until all is written.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub(crate) fn finish(self, last: Part, tell: &mut dyn FnMut(Progress<'_>)) -> anyhow::Result<Outcome> {
        self.end(last).finish(tell)
    }

    /// Waits until what was handed over is written, and adds nothing: an import that is given up leaves nothing behind.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub(crate) fn give_up(self, tell: &mut dyn FnMut(Progress<'_>)) -> anyhow::Result<Outcome> {
        drop(self.parts);
        let ending = Ending {
            told: self.told,
            thread: self.thread,
        };
        ending.finish(tell)
    }

    /// Hands over the last rows.
    pub(crate) fn end(mut self, mut last: Part) -> Ending {
        self.dropped.go_along(&mut last);
        // If the thread does not take it any more, it says why at the end.
        let _ = self.parts.offer_last(last);
        Ending {
            told: self.told,
            thread: self.thread,
        }
    }
}

impl Ending {
    /// True when all is written, or nothing can be written any more.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until then.
    ///
    /// # Errors
    /// The first thing that went wrong.
    pub(crate) fn finish(self, tell: &mut dyn FnMut(Progress<'_>)) -> anyhow::Result<Outcome> {
        for told in &self.told {
            told.tell(tell);
        }
        match self.thread.join() {
            Ok(outcome) => outcome,
            Err(_) => bail!("the recording could not be written completely"),
        }
    }
}

impl Told {
    /// A recording is complete.
    pub(super) fn complete(outcome: &Outcome) -> Told {
        Told::Complete {
            path: outcome.path.clone(),
            bytes: outcome.meta.cost.bytes_written,
        }
    }

    fn tell(self, tell: &mut dyn FnMut(Progress<'_>)) -> Option<i64> {
        match self {
            Told::Note(text) => tell(Progress::Note(&text)),
            Told::Complete { path, bytes } => tell(Progress::Complete { path: &path, bytes }),
            Told::Turned(at_us) => return Some(at_us),
        }
        None
    }
}

impl Dropped {
    /// Adds what is known of the dropped rows to the next batch.
    fn go_along(&mut self, part: &mut Part) {
        let mut kept = std::mem::take(&mut self.kept);
        if !kept.is_empty() {
            kept.append(std::mem::take(&mut part.rows));
            part.rows = kept;
        }
        part.meta.quality.rows_dropped += self.rows;
        part.meta.quality.dropped_ns += self.ns;
        part.meta.notes.extend(self.notes.iter().cloned());
    }

    fn add(&mut self, part: Part, tell: &mut dyn FnMut(Progress<'_>)) {
        let mut rows = part.rows;
        let mut kept = Rows {
            sessions: std::mem::take(&mut rows.sessions),
            stacks: std::mem::take(&mut rows.stacks),
            statements: std::mem::take(&mut rows.statements),
            comments: std::mem::take(&mut rows.comments),
            ..Rows::default()
        };
        if kept.bytes() > MOST_KEPT {
            rows.append(std::mem::take(&mut kept));
        }
        self.kept = kept;
        self.rows += rows.len() as u64;
        self.ns += rows.activity.iter().map(|row| row.ns).sum::<u64>();
        if std::mem::replace(&mut self.goes_on, true) {
            return;
        }
        let text =
            "rows come faster than the disk can write them: those that do not fit in memory are dropped";
        tell(Progress::Note(text));
        if self.notes.len() < MOST_NOTES {
            self.notes.push(Note {
                time_us: part.now_us,
                text: text.to_string(),
            });
        }
    }
}

/// What the thread does.
fn write(
    mut series: Series,
    mut parts: Receiver<Part>,
    told: &mpsc::Sender<Told>,
    bytes_written: &AtomicU64,
) -> anyhow::Result<Outcome> {
    // If nobody listens any more, the caller has given up.
    let mut tell = |what| {
        let _ = told.send(what);
    };
    let mut failed = None;
    loop {
        let longest = series.has_more_to_do().then_some(STEP);
        match parts.next(longest) {
            Next::Item(part) => {
                if let Err(e) = series.take(part, &mut tell) {
                    failed = Some(e);
                    break;
                }
                bytes_written.store(series.bytes_written(), Ordering::Relaxed);
            }
            Next::Nothing => series.end_before(&mut tell),
            Next::End => break,
        }
    }
    // Nothing more is accepted.
    drop(parts);
    series.finish(failed, &mut tell)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::Sender as Plain;

    use dbtime_model::{ActivityRow, Fidelity, NO_STACK, SessionId, SessionRow, SessionState, State};

    use super::*;

    /// A row in this second; nothing else about it matters.
    pub(crate) fn row_of(second: i64) -> ActivityRow {
        ActivityRow {
            time: second * 1_000_000,
            session: SessionId(1),
            statement: 0,
            plan: 0,
            wait_class: "".into(),
            wait_event: "".into(),
            idle: false,
            state: State::User,
            session_state: SessionState::default(),
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            comment: 0,
            ns: 10,
            count: 0,
            samples: 1,
            fidelity: Fidelity::Exact,
            pooled: false,
        }
    }

    fn part(second: i64, rows: usize) -> Part {
        Part {
            meta: Meta::default(),
            rows: Rows {
                activity: vec![row_of(second); rows],
                sessions: vec![SessionRow {
                    id: SessionId(second.unsigned_abs()),
                    ..SessionRow::default()
                }],
                ..Rows::default()
            },
            now_us: second * 1_000_000,
        }
    }

    /// A sink whose thread writes nothing until it may, and passes on what it got.
    fn hangs(until: Arc<Mutex<()>>, got: Plain<Part>) -> Sink {
        let bytes = part(0, 100).rows.bytes();
        Sink::of(bytes * 2, PathBuf::new(), Arc::default(), move |mut parts, _| {
            drop(until.lock());
            while let Next::Item(part) = parts.next(None) {
                got.send(part).expect("the test waits for it");
            }
            bail!("it was no recording")
        })
        .expect("a thread")
    }

    #[test]
    fn what_finds_no_room_is_dropped_and_counted_and_what_describes_the_rest_is_not() {
        let may_write = Arc::new(Mutex::new(()));
        let hanging = may_write.lock().expect("it is new");
        let (send, got) = channel();
        let mut sink = hangs(Arc::clone(&may_write), send);
        let mut notes = Vec::new();
        let mut tell = |progress: Progress<'_>| {
            if let Progress::Note(text) = progress {
                notes.push(text.to_string());
            }
        };
        // There is room for two; three more have none, and none of the calls waits.
        for second in 1..=5 {
            sink.take(part(second, 100), &mut tell);
        }
        drop(hanging);
        let error = sink.finish(part(6, 100), &mut tell).expect_err("it was none");
        assert_eq!(error.to_string(), "it was no recording");
        let got: Vec<Part> = got.iter().collect();
        let seconds: Vec<i64> = got
            .iter()
            .map(|part| part.rows.activity[0].time / 1_000_000)
            .collect();
        assert_eq!(seconds, [1, 2, 6]);
        let sessions = got.iter().flat_map(|part| &part.rows.sessions);
        let sessions: Vec<u64> = sessions.map(|row| row.id.0).collect();
        assert_eq!(sessions, [1, 2, 3, 4, 5, 6]);
        let last = &got[2].meta;
        assert_eq!((last.quality.rows_dropped, last.quality.dropped_ns), (300, 3_000));
        assert_eq!(got[1].meta.quality.rows_dropped, 0);
        // Once, however long it goes on.
        assert_eq!((notes.len(), last.notes.len()), (1, 1));
        assert_eq!(last.notes[0].time_us, 3_000_000);
    }
}
