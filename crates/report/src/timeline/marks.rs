//! What the server did for itself, and what the recorder noted: marks on a timeline.
//!
//! A checkpoint is running when the checkpointer reads, writes or flushes files other than the WAL, or waits between two writes: it
//! does so only in checkpoints (CheckpointerMain in src/backend/postmaster/checkpointer.c). Autovacuum work has a name that the
//! worker reports as its statement (autovac_report_activity in src/backend/postmaster/autovacuum.c). Both are known to the second (or
//! the window that a row stands for).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use dbtime_model::recording::Meta;
use dbtime_model::{BackendType, SessionId, Wait};

use crate::dimensions::Dimensions;
use crate::filter::SECOND_US;
use crate::scan::{Activity, Period};
use crate::statement_text::NOT_RECORDED;

/// With more, a picture is not readable any more.
const MOST_MARKS: usize = 5_000;

/// Kind of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MarkKind {
    /// A checkpoint, or a restartpoint of a standby.
    Checkpoint,
    /// An autovacuum worker worked on one table.
    Autovacuum,
    /// Something that the recorder noted: a moment, for example that of a restart.
    Note,
}

impl MarkKind {
    /// Every kind, in the order of pictures.
    pub const ALL: [MarkKind; 3] = [MarkKind::Checkpoint, MarkKind::Autovacuum, MarkKind::Note];

    /// Its letter, where there is room for only one.
    pub fn letter(self) -> char {
        match self {
            MarkKind::Checkpoint => 'c',
            MarkKind::Autovacuum => 'v',
            MarkKind::Note => '!',
        }
    }

    /// The word for it, in JSON too.
    pub fn as_str(self) -> &'static str {
        match self {
            MarkKind::Checkpoint => "checkpoint",
            MarkKind::Autovacuum => "autovacuum",
            MarkKind::Note => "note",
        }
    }
}

/// A mark on a timeline.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Begin, microseconds since the Unix epoch.
    pub from_us: i64,
    /// End, microseconds since the Unix epoch, exclusive; for a note its begin.
    pub to_us: i64,
    /// What it is.
    pub kind: MarkKind,
    /// What was done, or noted; empty for a checkpoint.
    pub text: String,
}

impl Mark {
    /// True when a part of it is in the period.
    pub fn is_in(&self, period: Period) -> bool {
        self.from_us < period.to_us && self.to_us.max(self.from_us.saturating_add(1)) > period.from_us
    }
}

/// Finds marks in rows of activity.
pub(crate) struct Marks {
    window_us: i64,
    /// Windows in which a checkpoint was running.
    checkpoints: BTreeSet<i64>,
    /// First and last window of each worker's statement.
    vacuums: BTreeMap<(SessionId, u64), (i64, i64)>,
}

impl Marks {
    pub(crate) fn new(meta: &Meta) -> Marks {
        Marks {
            window_us: i64::from(meta.collector.resolution_s.max(1)) * SECOND_US,
            checkpoints: BTreeSet::new(),
            vacuums: BTreeMap::new(),
        }
    }

    pub(crate) fn see(&mut self, activity: &Activity<'_>) {
        let row = activity.row;
        let window = row.time.div_euclid(self.window_us).saturating_mul(self.window_us);
        match activity.session.backend_type.0.as_str() {
            BackendType::CHECKPOINTER if is_of_a_checkpoint(activity.wait) => {
                self.checkpoints.insert(window);
            }
            BackendType::AUTOVACUUM_WORKER if row.statement != 0 => {
                let (first, last) = self
                    .vacuums
                    .entry((row.session, row.statement))
                    .or_insert((window, window));
                *first = (*first).min(window);
                *last = (*last).max(window);
            }
            _ => {}
        }
    }

    /// Those in the period, cut to it, in order of time; only the longest, if there are very many. And how many others there are.
    pub(crate) fn finish(self, meta: &Meta, period: Period, dimensions: &Dimensions) -> (Vec<Mark>, usize) {
        let mut marks: Vec<Mark> = Vec::new();
        for from_us in self.checkpoints {
            let to_us = from_us.saturating_add(self.window_us);
            match marks.last_mut() {
                Some(mark) if mark.to_us == from_us => mark.to_us = to_us,
                _ => marks.push(Mark {
                    from_us,
                    to_us,
                    kind: MarkKind::Checkpoint,
                    text: String::new(),
                }),
            }
        }
        for ((_, statement), (first, last)) in self.vacuums {
            let text = dimensions.statement(statement).unwrap_or(NOT_RECORDED);
            marks.push(Mark {
                from_us: first,
                to_us: last.saturating_add(self.window_us),
                kind: MarkKind::Autovacuum,
                text: text.strip_prefix("autovacuum: ").unwrap_or(text).to_string(),
            });
        }
        marks.extend(meta.notes.iter().map(|note| Mark {
            from_us: note.time_us,
            to_us: note.time_us,
            kind: MarkKind::Note,
            text: note.text.clone(),
        }));
        marks.retain(|mark| mark.is_in(period));
        for mark in &mut marks {
            mark.from_us = mark.from_us.max(period.from_us);
            mark.to_us = mark.to_us.min(period.to_us);
        }
        let others = marks.len().saturating_sub(MOST_MARKS);
        if others > 0 {
            marks.sort_unstable_by_key(|mark| Reverse(mark.to_us - mark.from_us));
            marks.truncate(MOST_MARKS);
        }
        marks.sort_unstable();
        (marks, others)
    }
}

/// True for a wait that the checkpointer has only in a checkpoint.
fn is_of_a_checkpoint(wait: &Wait) -> bool {
    match &*wait.class {
        // It also switches WAL files (archive_timeout).
        "IO" => !wait.event.starts_with("WAL"),
        "Timeout" => &*wait.event == "CheckpointWriteDelay",
        _ => false,
    }
}
