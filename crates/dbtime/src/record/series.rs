//! One recording after the other, without a gap: each row belongs to the recording that its second lies in.
//!
//! Where recordings are cut, nothing is measured twice and nothing is left out: the collector goes on, and what comes late for the
//! earlier one is waited for. Each can be read alone: what its rows name and its own time has not described is copied from the
//! recording before.

use std::collections::HashSet;
use std::path::PathBuf;

use dbtime_collect::Collector;
use dbtime_model::output::{Directory, Owner};
use dbtime_model::recording::{CollectorMeta, Cost, Meta, Quality, Recording};
use dbtime_model::{Described, Rows, SessionId, SessionRow, StackRow, StatementRow};

use super::segments::Segments;
use super::{Outcome, Output, Plan, Progress};

/// How long rows may come late: time of a second is divided by the samples that follow, sessions that end are asked for their names.
/// What comes later still is written into the recording that goes on.
const LATE_US: i64 = 15_000_000;

/// See the module.
pub(super) struct Series {
    output: Output,
    owner: Option<Owner>,
    rotation: Option<Rotation>,
    current: Segments,
    /// How the recorder stood when it began.
    quality: Quality,
    cost: Cost,
    start_us: i64,
    /// Recordings that were made, and have something in them.
    last_complete: Option<Outcome>,
}

/// What is known of the recording before, and of where this one ends.
struct Rotation {
    every_us: i64,
    /// First second of the next recording.
    until_us: i64,
    /// It has been said that the next one cannot be begun.
    told: bool,
    before: Before,
    /// What the current recording describes, or could not find described.
    described: Described,
    /// Sessions that lived when it began: the recording before describes them. Others are still to name themselves.
    older: HashSet<SessionId>,
    /// What all of them have in common: see [`CollectorMeta::series`].
    series: String,
}

/// The recording before.
enum Before {
    None,
    /// Late rows may come.
    Open(Open),
    /// All of it is written; its segments are merged.
    Ending(Segments),
    /// It can be read.
    Complete(Directory),
}

struct Open {
    segments: Segments,
    meta: Meta,
    /// What it describes.
    described: Described,
    /// What its rows name and nobody has described yet.
    missing: Described,
}

impl Series {
    /// Begins the first recording.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn begin(plan: &Plan, mut meta: Meta) -> anyhow::Result<Series> {
        let rotation = plan.rotate.map(|every| {
            let every_us = i64::try_from(every.as_micros()).unwrap_or(i64::MAX);
            Rotation {
                every_us,
                until_us: next_multiple(meta.start_us, every_us),
                told: false,
                before: Before::None,
                described: Described::default(),
                older: HashSet::new(),
                series: format!("{}-{}", std::process::id(), meta.start_us),
            }
        });
        if let Some(rotation) = &rotation {
            meta.collector.series = rotation.series.clone();
        }
        Ok(Series {
            output: plan.output.clone(),
            owner: plan.owner,
            rotation,
            start_us: meta.start_us,
            current: Segments::begin(plan.output.place(&meta), meta)?,
            quality: Quality::default(),
            cost: Cost::default(),
            last_complete: None,
        })
    }

    /// Where the current recording was begun.
    pub(super) fn path(&self) -> PathBuf {
        self.current.path()
    }

    /// Of the current recording.
    pub(super) fn bytes_written(&mut self) -> u64 {
        self.current.meta().cost.bytes_written
    }

    /// Begins the next recording when it is time, and ends the one before. Where it cannot be begun the current one goes on.
    pub(super) fn turn(&mut self, collector: &mut Collector, tell: &mut dyn FnMut(Progress<'_>)) {
        let Some(rotation) = &mut self.rotation else {
            return;
        };
        if let Before::Ending(segments) = &mut rotation.before
            && segments.prepare_to_finish(tell)
            && let Before::Ending(segments) = std::mem::replace(&mut rotation.before, Before::None)
        {
            match segments.finish(None, self.owner, tell) {
                Ok(outcome) => {
                    if let Ok(directory) = outcome.directory.try_clone() {
                        rotation.before = Before::Complete(directory);
                    }
                    tell(Progress::Complete(&outcome));
                    self.last_complete = Some(outcome);
                }
                Err(e) => tell(Progress::Note(&format!("{e:#}"))),
            }
        }
        let now_us = collector.now_us();
        if now_us < rotation.until_us || !matches!(rotation.before, Before::None | Before::Complete(_)) {
            return;
        }
        let cut_us = rotation.until_us;
        let meta = collector.meta();
        // Of what was counted until now nothing is of its time.
        let begun = Meta {
            quality: Quality::default(),
            cost: Cost::default(),
            ..self.meta_of(meta.clone(), cut_us)
        };
        let next = match Segments::begin(self.output.place(&begun), begun) {
            Ok(next) => next,
            Err(e) => {
                let rotation = self.rotation.as_mut().expect("it was there");
                if !std::mem::replace(&mut rotation.told, true) {
                    let text = format!("the next recording cannot be begun, this one goes on: {e}");
                    tell(Progress::Note(&text));
                }
                return;
            }
        };
        let ended = Meta {
            end_us: cut_us,
            ..self.meta_of(meta.clone(), self.start_us)
        };
        self.quality = meta.quality;
        self.cost = meta.cost;
        self.start_us = cut_us;
        let segments = std::mem::replace(&mut self.current, next);
        let rotation = self.rotation.as_mut().expect("it was there");
        rotation.told = false;
        rotation.older = collector.ids().collect();
        rotation.until_us = next_multiple(now_us, rotation.every_us);
        rotation.before = Before::Open(Open {
            segments,
            meta: ended,
            described: std::mem::take(&mut rotation.described),
            missing: Described::default(),
        });
        collector.describe_again();
    }

    /// Writes what has come.
    ///
    /// # Errors
    /// Too much waits to be written.
    pub(super) fn write(
        &mut self,
        collector: &mut Collector,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> anyhow::Result<()> {
        let rows = collector.take_rows();
        let meta = self.meta_of(collector.meta(), self.start_us);
        self.sort_in(rows, collector.now_us(), tell)?;
        self.current.write(meta, tell)
    }

    /// Rows of the recording before are written, all others wait to be.
    fn sort_in(
        &mut self,
        mut rows: Rows,
        now_us: i64,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> anyhow::Result<()> {
        let Some(rotation) = &mut self.rotation else {
            self.current.pending.append(rows);
            return Ok(());
        };
        if let Before::Open(open) = &mut rotation.before {
            let later = rows.split_off_times(self.start_us);
            let timeless = Rows {
                sessions: std::mem::take(&mut rows.sessions),
                stacks: std::mem::take(&mut rows.stacks),
                statements: std::mem::take(&mut rows.statements),
                spans: std::mem::take(&mut rows.spans),
                switches: std::mem::take(&mut rows.switches),
                ..Rows::default()
            };
            open.take(rows, &timeless);
            open.segments.write(open.meta.clone(), tell)?;
            rows = timeless;
            rows.append(later);
            if now_us >= self.start_us.saturating_add(LATE_US)
                && let Before::Open(open) = std::mem::replace(&mut rotation.before, Before::None)
            {
                rotation.before = Before::Ending(open.segments);
            }
        }
        self.current.pending.append(rows);
        let mut missing = self.current.pending.refers_to();
        rotation.described.add(self.current.pending.describes());
        missing.subtract(&rotation.described);
        missing.sessions.retain(|id| rotation.older.contains(id));
        if let (Some(directory), false) = (rotation.before.directory(), missing.is_empty())
            && let Some(found) = descriptions(directory, &missing)
        {
            self.current.pending.append(found);
            // What is not there is not looked for again.
            rotation.described.add(missing);
        }
        Ok(())
    }

    /// Of what the collector says of all its time, what is of a recording that began then.
    fn meta_of(&self, meta: Meta, start_us: i64) -> Meta {
        let Some(rotation) = &self.rotation else {
            return meta;
        };
        let mut notes = meta.notes;
        notes.retain(|note| note.time_us >= start_us);
        Meta {
            start_us,
            collector: CollectorMeta {
                series: rotation.series.clone(),
                ..meta.collector
            },
            quality: meta.quality.since(&self.quality),
            cost: meta.cost.since(&self.cost),
            notes,
            ..meta
        }
    }

    /// Ends the last recording; `failed`: why its end is missing. The outcome is that of the last one that has something in it.
    ///
    /// # Errors
    /// The end of one is missing.
    pub(super) fn finish(
        self,
        failed: Option<anyhow::Error>,
        tell: &mut dyn FnMut(Progress<'_>),
    ) -> anyhow::Result<Outcome> {
        let mut last_complete = self.last_complete;
        let before = match self.rotation.map(|rotation| rotation.before) {
            Some(Before::Open(open)) => Some(open.segments),
            Some(Before::Ending(segments)) => Some(segments),
            Some(Before::None | Before::Complete(_)) | None => None,
        };
        let before = before.map(|segments| segments.finish(None, self.owner, tell));
        let outcome = self.current.finish(failed, self.owner, tell)?;
        if let Some(before) = before {
            let before = before?;
            tell(Progress::Complete(&before));
            last_complete = Some(before);
        }
        Ok(match last_complete {
            Some(before) if outcome.activity_rows == 0 => before,
            _ => outcome,
        })
    }
}

impl Before {
    /// Where it can be read.
    fn directory(&self) -> Option<&Directory> {
        match self {
            Before::None => None,
            Before::Open(open) => Some(open.segments.directory()),
            Before::Ending(segments) => Some(segments.directory()),
            Before::Complete(directory) => Some(directory),
        }
    }
}

impl Open {
    /// Takes rows of its time, and of what is described beside them what it lacks.
    fn take(&mut self, rows: Rows, beside: &Rows) {
        self.missing.add(rows.refers_to());
        self.missing.subtract(&self.described);
        let descriptions = beside.descriptions_of(&self.missing);
        self.described.add(descriptions.describes());
        self.missing.subtract(&self.described);
        self.segments.pending.append(rows);
        self.segments.pending.append(descriptions);
    }
}

/// What a recording says of these; none when it cannot be read now.
fn descriptions(directory: &Directory, wanted: &Described) -> Option<Rows> {
    let recording = Recording::inside(directory.try_clone().ok()?).ok()?;
    let mut found = Rows::default();
    // What cannot be read of it is missing here, too.
    if !wanted.sessions.is_empty() {
        recording.read::<SessionRow>(|rows| {
            let wanted = |row: &SessionRow| wanted.sessions.contains(&row.id);
            found.sessions.extend(rows.into_iter().filter(wanted));
        });
    }
    if !wanted.stacks.is_empty() {
        recording.read::<StackRow>(|rows| {
            let wanted = |row: &StackRow| wanted.stacks.contains(&row.id);
            found.stacks.extend(rows.into_iter().filter(wanted));
        });
    }
    if !wanted.statements.is_empty() {
        recording.read::<StatementRow>(|rows| {
            let wanted = |row: &StatementRow| wanted.statements.contains(&row.id);
            found.statements.extend(rows.into_iter().filter(wanted));
        });
    }
    Some(found)
}

/// The first multiple after a moment.
fn next_multiple(moment_us: i64, every_us: i64) -> i64 {
    moment_us
        .div_euclid(every_us)
        .saturating_add(1)
        .saturating_mul(every_us)
}
