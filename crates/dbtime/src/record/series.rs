//! One recording after the other, without a gap: each row belongs to the recording that its second lies in.
//!
//! Where recordings are cut, nothing is measured twice and nothing is left out: the collector goes on, and what comes late for the
//! earlier one is waited for. Each can be read alone: what its rows name and its own time has not described is copied from the
//! recording before, which therefore has to stay where it is as long as this one is written.

use std::path::PathBuf;

use dbtime_model::output::{Directory, Owner};
use dbtime_model::recording::{CollectorMeta, Cost, Meta, Quality, Recording, RecordingError};
use dbtime_model::{CommentRow, Described, Rows, SessionRow, StackRow, StatementRow};

use super::segments::Segments;
use super::sink::{Part, Told};
use super::{Outcome, Output, Plan};

/// How long rows may come late: time of a second is divided by the samples that follow, sessions that end are asked for their names.
/// What comes later still is written into the recording that goes on.
const LATE_US: i64 = 15_000_000;
/// How often a name may be taken: recorders of other servers, and clocks that were set back, can have the same.
const MOST_NAMESAKES: u32 = 100;

const SECOND_US: i64 = 1_000_000;

/// See the module.
pub(super) struct Series {
    output: Output,
    owner: Option<Owner>,
    /// See [`CollectorMeta::flight`].
    flight: String,
    rotation: Option<Rotation>,
    current: Segments,
    /// How the recorder stood when it began.
    quality: Quality,
    cost: Cost,
    start_us: i64,
    /// The last recording that was ended and has something in it.
    last_complete: Option<Outcome>,
}

/// What is known of the recordings before, and of where this one ends.
struct Rotation {
    every_us: i64,
    /// A row stands for so much, at most.
    window_us: i64,
    /// First second of the next recording.
    until_us: i64,
    /// Behind the last second of which rows were written, or wait to be.
    rows_until_us: i64,
    /// It has been said that the next one cannot be begun.
    told: bool,
    before: Before,
    /// What the current recording describes.
    described: Described,
    /// The recording before, as far as it is ended.
    known: Option<Known>,
    /// What all of them have in common: see [`CollectorMeta::series`].
    series: String,
}

/// The recording before.
enum Before {
    None,
    /// Late rows may come.
    Open(Box<Open>),
    /// All of it is written; its segments are merged.
    Ending(Box<Segments>),
}

struct Open {
    segments: Segments,
    meta: Meta,
    /// What it describes.
    described: Described,
    /// What its rows name and nobody has described yet.
    missing: Described,
    /// The recording before it.
    known: Option<Known>,
    /// Nothing has come since the next one was begun.
    is_new: bool,
}

/// A recording in which descriptions can be looked up.
struct Known {
    directory: Directory,
    described: Described,
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
                window_us: i64::from(plan.collect.resolution_s.max(1)) * SECOND_US,
                until_us: next_multiple(meta.start_us, every_us),
                rows_until_us: meta.start_us,
                told: false,
                before: Before::None,
                described: Described::default(),
                known: None,
                series: format!("{}-{}", std::process::id(), meta.start_us),
            }
        });
        if let Some(rotation) = &rotation {
            meta.collector.series = rotation.series.clone();
        }
        let current = begin_segments(&plan.output, meta.clone(), rotation.is_some())?;
        Ok(Series {
            flight: plan.flight.clone(),
            rotation,
            ..Series::of(plan.output.clone(), plan.owner, current, &meta)
        })
    }

    /// Begins one recording, which has no other after it; `is_one_of_many`: where its name is taken it gets another one.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn begin_alone(
        output: Output,
        owner: Option<Owner>,
        is_one_of_many: bool,
        meta: Meta,
    ) -> Result<Series, RecordingError> {
        let current = begin_segments(&output, meta.clone(), is_one_of_many)?;
        Ok(Series::of(output, owner, current, &meta))
    }

    fn of(output: Output, owner: Option<Owner>, current: Segments, meta: &Meta) -> Series {
        Series {
            output,
            owner,
            flight: String::new(),
            start_us: meta.start_us,
            current,
            rotation: None,
            quality: Quality::default(),
            cost: Cost::default(),
            last_complete: None,
        }
    }

    /// Where the current recording was begun.
    pub(super) fn path(&self) -> PathBuf {
        self.current.path()
    }

    /// Bytes of the current recording that are on the disk.
    pub(super) fn bytes_written(&mut self) -> u64 {
        self.current.meta().cost.bytes_written
    }

    /// True while the recording before is merged: that goes on whether rows come or not.
    pub(super) fn has_more_to_do(&self) -> bool {
        let before = self.rotation.as_ref().map(|rotation| &rotation.before);
        matches!(before, Some(Before::Ending(_)))
    }

    /// Writes what has come; begins the next recording before that when it is time.
    ///
    /// # Errors
    /// Too much waits to be written.
    pub(super) fn take(&mut self, part: Part, tell: &mut dyn FnMut(Told)) -> anyhow::Result<()> {
        self.end_before(tell);
        // Before rows are written: those of the next recording's time belong to it.
        self.turn(&part.meta, part.now_us, tell);
        let meta = self.meta_of(part.meta, self.start_us);
        self.sort_in(part.rows, part.now_us, tell)?;
        self.current.write(meta, tell)
    }

    /// Begins the next recording when it is time. Where it cannot be begun the current one goes on.
    fn turn(&mut self, meta: &Meta, now_us: i64, tell: &mut dyn FnMut(Told)) {
        let Some(rotation) = &mut self.rotation else {
            return;
        };
        if now_us < rotation.until_us || !matches!(rotation.before, Before::None) {
            return;
        }
        // Later than it should be, some rows of the time after are in the current recording, and its end lies behind them.
        if rotation.rows_until_us > rotation.until_us {
            rotation.until_us = multiple_from(rotation.rows_until_us, rotation.window_us);
            if now_us < rotation.until_us {
                return;
            }
        }
        let cut_us = rotation.until_us;
        // Of what was counted until now nothing is of its time.
        let begun = Meta {
            quality: Quality::default(),
            cost: Cost::default(),
            ..self.meta_of(meta.clone(), cut_us)
        };
        let next = begin_segments(&self.output, begun, true).and_then(|next| {
            let before = self.current.directory().try_clone();
            let before = before.map_err(|e| RecordingError::io(&self.current.path(), e))?;
            Ok((next, before))
        });
        let mut ended = self.meta_of(meta.clone(), self.start_us);
        ended.end_us = cut_us;
        ended.notes.retain(|note| note.time_us < cut_us);
        let Some(rotation) = &mut self.rotation else {
            return;
        };
        let (next, directory) = match next {
            Ok(next) => next,
            Err(e) => {
                if !std::mem::replace(&mut rotation.told, true) {
                    let text = format!("cannot begin the next recording, so this one continues: {e}");
                    tell(Told::Note(text));
                }
                return;
            }
        };
        let described = std::mem::take(&mut rotation.described);
        let known = Known {
            directory,
            described: described.clone(),
        };
        rotation.before = Before::Open(Box::new(Open {
            segments: std::mem::replace(&mut self.current, next),
            meta: ended,
            described,
            missing: Described::default(),
            known: rotation.known.replace(known),
            is_new: true,
        }));
        rotation.told = false;
        rotation.until_us = next_multiple(now_us, rotation.every_us);
        self.quality = meta.quality.clone();
        self.cost = meta.cost.clone();
        self.start_us = cut_us;
        tell(Told::Turned(cut_us));
    }

    /// Makes the recording before complete, step by step.
    pub(super) fn end_before(&mut self, tell: &mut dyn FnMut(Told)) {
        let Some(rotation) = &mut self.rotation else {
            return;
        };
        if let Before::Ending(segments) = &mut rotation.before
            && segments.prepare_to_finish(tell)
            && let Before::Ending(segments) = std::mem::replace(&mut rotation.before, Before::None)
        {
            match segments.finish(None, self.owner, tell) {
                Ok(outcome) => {
                    if outcome.activity_rows > 0 {
                        tell(Told::complete(&outcome));
                        self.last_complete = Some(outcome);
                    }
                }
                Err(e) => tell(Told::Note(format!("{e:#}"))),
            }
        }
    }

    /// Rows of the recording before are written, all others wait to be.
    fn sort_in(&mut self, mut rows: Rows, now_us: i64, tell: &mut dyn FnMut(Told)) -> anyhow::Result<()> {
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
                comments: std::mem::take(&mut rows.comments),
                spans: std::mem::take(&mut rows.spans),
                switches: std::mem::take(&mut rows.switches),
                ..Rows::default()
            };
            open.take(rows, &timeless);
            // Rows of its last seconds come later than what describes them.
            if std::mem::take(&mut open.is_new) {
                open.describe(&timeless);
            }
            open.segments.write(open.meta.clone(), tell)?;
            rows = timeless;
            rows.append(later);
            if now_us >= self.start_us.saturating_add(LATE_US)
                && open.segments.is_written()
                && let Before::Open(open) = std::mem::replace(&mut rotation.before, Before::None)
            {
                rotation.before = Before::Ending(Box::new(open.segments));
            }
        }
        if let Some(last_us) = rows.last_second() {
            let until_us = last_us.saturating_add(rotation.window_us);
            rotation.rows_until_us = rotation.rows_until_us.max(until_us);
        }
        self.current.pending.append(rows);
        let pending = &mut self.current.pending;
        rotation.described.add(pending.describes());
        let mut missing = pending.refers_to();
        missing.subtract(&rotation.described);
        if let Some(known) = &rotation.known {
            let found = known.look_up(&mut missing);
            rotation.described.add(found.describes());
            pending.append(found);
        }
        Ok(())
    }

    /// Of what the collector says of all its time, what is of a recording that began then.
    fn meta_of(&self, mut meta: Meta, start_us: i64) -> Meta {
        meta.collector.flight = self.flight.clone();
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
        tell: &mut dyn FnMut(Told),
    ) -> anyhow::Result<Outcome> {
        let before = match self.rotation.map(|rotation| rotation.before) {
            Some(Before::Open(open)) => Some(open.segments),
            Some(Before::Ending(segments)) => Some(*segments),
            Some(Before::None) | None => None,
        };
        let before = before.map(|segments| segments.finish(None, self.owner, tell));
        // What ended the recording came before that.
        let is_first = failed.is_some();
        let outcome = self.current.finish(failed, self.owner, tell);
        let (before, outcome) = match (before.transpose(), outcome) {
            (Err(first), Err(second)) if !is_first => {
                tell(Told::Note(format!("{second:#}")));
                return Err(first);
            }
            (before, outcome) => {
                let outcome = outcome.inspect_err(|_| {
                    if let Err(second) = &before {
                        tell(Told::Note(format!("{second:#}")));
                    }
                })?;
                (before?.filter(|before| before.activity_rows > 0), outcome)
            }
        };
        // The last one is told by who gets it.
        if let (Some(before), true) = (&before, outcome.activity_rows > 0) {
            tell(Told::complete(before));
        }
        Ok(match before.or(self.last_complete) {
            Some(before) if outcome.activity_rows == 0 => before,
            _ => outcome,
        })
    }
}

impl Open {
    /// Takes rows of its time, and what describes them: of what is described beside them, or in the recording before it.
    fn take(&mut self, rows: Rows, beside: &Rows) {
        self.missing.add(rows.refers_to());
        self.missing.subtract(&self.described);
        let mut descriptions = beside.descriptions_of(&self.missing);
        self.missing.subtract(&descriptions.describes());
        if let Some(known) = &self.known {
            descriptions.append(known.look_up(&mut self.missing));
        }
        self.described.add(descriptions.describes());
        self.segments.pending.append(rows);
        self.segments.pending.append(descriptions);
    }

    /// Takes sessions, stacks and statements that were seen in its time, whether a row has named them by now or not.
    fn describe(&mut self, seen: &Rows) {
        let mut new = seen.describes();
        new.subtract(&self.described);
        self.described.add(new.clone());
        self.segments.pending.append(seen.descriptions_of(&new));
    }
}

impl Known {
    /// Takes out of what is sought what this recording describes, and says how. Nothing is sought twice.
    fn look_up(&self, sought: &mut Described) -> Rows {
        let mut wanted = sought.clone();
        wanted.keep(&self.described);
        sought.subtract(&wanted);
        let mut found = Rows::default();
        if wanted.is_empty() {
            return found;
        }
        let recording = self.directory.try_clone().map(Recording::inside);
        let Ok(Ok(recording)) = recording else {
            return found;
        };
        // What cannot be read of it is missing here, too.
        if !wanted.sessions.is_empty() {
            recording.read::<SessionRow>(|rows| {
                let is_wanted = |row: &SessionRow| wanted.sessions.contains(&row.id);
                found.sessions.extend(rows.into_iter().filter(is_wanted));
            });
        }
        if !wanted.stacks.is_empty() {
            recording.read::<StackRow>(|rows| {
                let is_wanted = |row: &StackRow| wanted.stacks.contains(&row.id);
                found.stacks.extend(rows.into_iter().filter(is_wanted));
            });
        }
        if !wanted.statements.is_empty() {
            recording.read::<StatementRow>(|rows| {
                let is_wanted = |row: &StatementRow| wanted.statements.contains(&row.id);
                found.statements.extend(rows.into_iter().filter(is_wanted));
            });
        }
        if !wanted.comments.is_empty() {
            recording.read::<CommentRow>(|rows| {
                let is_wanted = |row: &CommentRow| wanted.comments.contains(&row.id);
                found.comments.extend(rows.into_iter().filter(is_wanted));
            });
        }
        found
    }
}

/// Makes a recording; of one of many the name is not chosen by anybody, so it gets another one where that is taken.
fn begin_segments(output: &Output, meta: Meta, is_one_of_many: bool) -> Result<Segments, RecordingError> {
    let mut number = 1;
    loop {
        match Segments::begin(output.place(&meta, number), meta.clone()) {
            Err(RecordingError::Exists(_)) if is_one_of_many && number < MOST_NAMESAKES => number += 1,
            other => return other,
        }
    }
}

/// The first multiple after a moment.
pub(super) fn next_multiple(moment_us: i64, every_us: i64) -> i64 {
    multiple_from(moment_us.saturating_add(1), every_us)
}

/// The first multiple that is not before a moment.
fn multiple_from(moment_us: i64, every_us: i64) -> i64 {
    let over = moment_us.rem_euclid(every_us);
    match over {
        0 => moment_us,
        _ => moment_us.saturating_add(every_us - over),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dbtime_model::output::Place;
    use dbtime_model::recording::SCHEMA_VERSION;
    use dbtime_model::{LatencyRow, SessionId};

    use super::*;

    fn meta() -> Meta {
        Meta {
            schema: SCHEMA_VERSION.to_string(),
            ..Meta::default()
        }
    }

    fn segments(home: &Directory, name: &str) -> Segments {
        let home = Arc::new(home.try_clone().expect("it is open"));
        Segments::begin(Place::inside(home, name.as_ref()), meta()).expect("a new recording")
    }

    fn described(rows: &Rows) -> Vec<SessionId> {
        rows.sessions.iter().map(|row| row.id).collect()
    }

    /// Rows of long windows come after the end of their recording: what lives longer was described before it began.
    #[test]
    fn late_rows_find_what_describes_them_beside_them_or_in_the_recording_before() {
        let home = tempfile::tempdir().expect("a folder");
        let home = Directory::open(home.path()).expect("it is there");
        let sessions = |ids: &[u64]| Rows {
            sessions: ids
                .iter()
                .map(|&id| SessionRow {
                    id: SessionId(id),
                    ..SessionRow::default()
                })
                .collect(),
            ..Rows::default()
        };
        let mut first = segments(&home, "first.dbt");
        first.pending = sessions(&[1, 2]);
        let known = Known {
            directory: first.directory().try_clone().expect("it is open"),
            described: first.pending.describes(),
        };
        first.write(meta(), &mut |_| {}).expect("it is written");
        let mut open = Open {
            segments: segments(&home, "second.dbt"),
            meta: meta(),
            described: Described::default(),
            missing: Described::default(),
            known: Some(known),
            is_new: false,
        };
        let rows = |id| Rows {
            latency: vec![LatencyRow {
                session: SessionId(id),
                ..LatencyRow::default()
            }],
            ..Rows::default()
        };
        open.take(rows(1), &Rows::default());
        assert_eq!(described(&open.segments.pending), [SessionId(1)]);
        // Nobody has named it; it names itself later, beside others of which nothing is there.
        open.take(rows(3), &Rows::default());
        open.take(Rows::default(), &sessions(&[3, 4]));
        open.take(rows(1), &sessions(&[1]));
        assert_eq!(described(&open.segments.pending), [SessionId(1), SessionId(3)]);
    }

    #[test]
    fn recordings_begin_at_multiples() {
        assert_eq!(multiple_from(20, 10), 20);
        assert_eq!(multiple_from(21, 10), 30);
        assert_eq!(next_multiple(20, 10), 30);
        assert_eq!(next_multiple(29, 10), 30);
        assert_eq!(multiple_from(-1, 10), 0);
    }
}
