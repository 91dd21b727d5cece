//! Consecutive recordings without a gap: each row belongs to the recording that covers its second.
//!
//! At a cut nothing is measured twice and nothing is lost: the collector keeps running, and late rows of the earlier recording are waited
//! for. Each recording can be read alone: descriptions that its rows refer to, but that were made before its time, are copied from the
//! recording before, which therefore has to stay in place while this one is written.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use dbtime_model::output::{Directory, Owner};
use dbtime_model::recording::{CollectorMeta, Cost, Meta, Quality, Recording, RecordingError};
use dbtime_model::{CommentRow, Described, Rows, SessionRow, StackRow, StatementRow};

use super::segments::Segments;
use super::sink::{Part, Told};
use super::{Outcome, Output, Plan};

/// How late rows may come: the time of a second is split by the samples that follow it, and sessions that end are asked for their names.
/// Anything later goes into the current recording.
const LATE_US: i64 = 15_000_000;
/// How many recordings may share a name: recorders of other servers, or a clock that was set back, can produce the same.
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
    /// Earlier recordings, completely written: merging their segments takes a minute, because readers may still be using them.
    ending: VecDeque<Segments>,
    /// The recorder's quality and cost when the current recording began.
    quality: Quality,
    cost: Cost,
    start_us: i64,
    /// The last recording that has ended and is not empty.
    last_complete: Option<Outcome>,
}

/// What is known about earlier recordings, and about the end of this one.
struct Rotation {
    every_us: i64,
    /// Longest time that a row covers.
    window_us: i64,
    /// First second of the next recording.
    until_us: i64,
    /// End of the last second whose rows were written or are waiting to be.
    rows_until_us: i64,
    /// It has been reported that the next one cannot begin.
    told: bool,
    /// The previous recording, while late rows may come.
    before: Option<Open>,
    /// What the current recording describes.
    described: Described,
    /// The previous recording, as described when it ended.
    known: Option<Known>,
    /// What all of them have in common: see [`CollectorMeta::series`].
    series: String,
}

/// A recording that has ended, but for which late rows may come.
struct Open {
    segments: Segments,
    meta: Meta,
    /// What it describes.
    described: Described,
    /// What its rows refer to and nothing has described yet.
    missing: Described,
    /// The recording before it.
    known: Option<Known>,
    /// Nothing has arrived since the next one began.
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
    /// It cannot be created.
    pub(super) fn begin(plan: &Plan, mut meta: Meta) -> anyhow::Result<Series> {
        let rotation = plan
            .rotate
            .map(|every| Rotation::begin(every, plan.collect.resolution_s, meta.start_us));
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

    /// Begins a single recording, with none after it; `is_one_of_many`: if its name is taken, it gets another.
    ///
    /// # Errors
    /// It cannot be created.
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
            ending: VecDeque::new(),
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

    /// True while earlier recordings are being merged, which goes on whether rows come or not.
    pub(super) fn has_more_to_do(&self) -> bool {
        !self.ending.is_empty()
    }

    /// Writes what has arrived; first begins the next recording if it is time.
    ///
    /// # Errors
    /// Too much is waiting to be written.
    pub(super) fn take(&mut self, part: Part, tell: &mut dyn FnMut(Told)) -> anyhow::Result<()> {
        self.end_before(tell);
        let mut rows = self.sort_into_before(part.rows, part.now_us, tell)?;
        // Before rows are written: those of the next recording's time belong to it.
        if self.turn(&part.meta, part.now_us, tell) {
            rows = self.sort_into_before(rows, part.now_us, tell)?;
        }
        self.sort_in(rows);
        let meta = self.meta_of(part.meta, self.start_us);
        self.current.write(meta, tell)
    }

    /// Begins the next recording if it is time; returns whether it did. If it cannot begin, the current one goes on.
    fn turn(&mut self, meta: &Meta, now_us: i64, tell: &mut dyn FnMut(Told)) -> bool {
        let Some(rotation) = &mut self.rotation else {
            return false;
        };
        if now_us < rotation.until_us || rotation.before.is_some() {
            return false;
        }
        // If this is late, the current recording has rows from after its planned end: its end moves behind them.
        if rotation.rows_until_us > rotation.until_us {
            rotation.until_us = multiple_from(rotation.rows_until_us, rotation.window_us);
            if now_us < rotation.until_us {
                return false;
            }
        }
        let cut_us = rotation.until_us;
        // Nothing that was counted until now belongs to its time.
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
        ended.database = ended.database.between(self.start_us, cut_us);
        let Some(rotation) = &mut self.rotation else {
            return false;
        };
        let (next, directory) = match next {
            Ok(next) => next,
            Err(e) => {
                if !std::mem::replace(&mut rotation.told, true) {
                    let text = format!("cannot begin the next recording, so this one continues: {e}");
                    tell(Told::Note(text));
                }
                return false;
            }
        };
        let described = std::mem::take(&mut rotation.described);
        let known = Known {
            directory,
            described: described.clone(),
        };
        rotation.before = Some(Open {
            segments: std::mem::replace(&mut self.current, next),
            meta: ended,
            described,
            missing: Described::default(),
            known: rotation.known.replace(known),
            is_new: true,
        });
        rotation.told = false;
        rotation.until_us = next_multiple(now_us, rotation.every_us);
        self.quality = meta.quality.clone();
        self.cost = meta.cost.clone();
        self.start_us = cut_us;
        tell(Told::Turned(cut_us));
        true
    }

    /// Completes earlier recordings, one after the other, step by step.
    pub(super) fn end_before(&mut self, tell: &mut dyn FnMut(Told)) {
        if let Some(first) = self.ending.front_mut()
            && first.prepare_to_finish(tell)
            && let Some(segments) = self.ending.pop_front()
        {
            self.end_one(segments, tell);
        }
    }

    /// Ends one that is not the last: an error is reported, and the others go on.
    fn end_one(&mut self, segments: Segments, tell: &mut dyn FnMut(Told)) {
        match segments.finish(None, self.owner, tell) {
            Ok(outcome) if outcome.activity_rows > 0 => {
                tell(Told::complete(&outcome));
                self.last_complete = Some(outcome);
            }
            Ok(_) => {}
            Err(e) => tell(Told::Note(format!("{e:#}"))),
        }
    }

    /// Writes rows of the previous recording while it is open for them. Returns the rest: of the current one's time, or without a time.
    fn sort_into_before(
        &mut self,
        mut rows: Rows,
        now_us: i64,
        tell: &mut dyn FnMut(Told),
    ) -> anyhow::Result<Rows> {
        let Some(rotation) = &mut self.rotation else {
            return Ok(rows);
        };
        let Some(open) = &mut rotation.before else {
            return Ok(rows);
        };
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
        open.look_up_in(&self.current, &rotation.described);
        open.segments.write(open.meta.clone(), tell)?;
        if now_us >= self.start_us.saturating_add(LATE_US)
            && open.segments.is_written()
            && let Some(open) = rotation.before.take()
        {
            self.ending.push_back(open.segments);
        }
        let mut rows = timeless;
        rows.append(later);
        Ok(rows)
    }

    /// Queues rows for the current recording, with their descriptions.
    fn sort_in(&mut self, rows: Rows) {
        let Some(rotation) = &mut self.rotation else {
            self.current.pending.append(rows);
            return;
        };
        if let Some(last_us) = rows.last_second() {
            let until_us = last_us.saturating_add(rotation.length_of_row(last_us));
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
    }

    /// From what the collector reports about its whole run, the part that belongs to a recording begun at `start_us`.
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
            database: meta.database.between(start_us, i64::MAX),
            ..meta
        }
    }

    /// Ends the last recording; `failed`: why its end is missing. Returns the outcome of the last one that is not empty.
    ///
    /// # Errors
    /// The end of one is missing.
    pub(super) fn finish(
        mut self,
        failed: Option<anyhow::Error>,
        tell: &mut dyn FnMut(Told),
    ) -> anyhow::Result<Outcome> {
        let open = self.rotation.take().and_then(|rotation| rotation.before);
        self.ending.extend(open.map(|open| open.segments));
        let last = self.ending.pop_back();
        while let Some(segments) = self.ending.pop_front() {
            self.end_one(segments, tell);
        }
        let before = last.map(|segments| segments.finish(None, self.owner, tell));
        // The failure that ended the recording came before that.
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
        // The last one is reported by whoever gets the outcome.
        if let (Some(before), true) = (&before, outcome.activity_rows > 0) {
            tell(Told::complete(before));
        }
        Ok(match before.or(self.last_complete) {
            Some(before) if outcome.activity_rows == 0 => before,
            _ => outcome,
        })
    }
}

impl Rotation {
    /// `resolution_s`: most seconds that a row covers.
    fn begin(every: Duration, resolution_s: u32, start_us: i64) -> Rotation {
        let every_us = i64::try_from(every.as_micros()).unwrap_or(i64::MAX);
        Rotation {
            every_us,
            window_us: i64::from(resolution_s.max(1)) * SECOND_US,
            until_us: next_multiple(start_us, every_us),
            rows_until_us: start_us,
            told: false,
            before: None,
            described: Described::default(),
            known: None,
            series: format!("{}-{start_us}", std::process::id()),
        }
    }

    /// The longest time that a row of this second covers: windows begin at multiples of their length, and at the start of a recording
    /// rows are of single seconds.
    fn length_of_row(&self, second_us: i64) -> i64 {
        match second_us.rem_euclid(self.window_us) {
            0 => self.window_us,
            _ => SECOND_US,
        }
    }
}

impl Open {
    /// Takes rows of its time and their descriptions: those that came along, or that are in the recording before it.
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

    /// Takes descriptions that went to the next recording: they came right after the cut, before their rows.
    fn look_up_in(&mut self, next: &Segments, described: &Described) {
        if self.missing.is_empty() {
            return;
        }
        let mut found = next.pending.descriptions_of(&self.missing);
        self.missing.subtract(&found.describes());
        found.append(look_up(next.directory(), described, &mut self.missing));
        self.described.add(found.describes());
        self.segments.pending.append(found);
    }

    /// Takes sessions, stacks and statements that were seen in its time, whether or not a row refers to them yet.
    fn describe(&mut self, seen: &Rows) {
        let mut new = seen.describes();
        new.subtract(&self.described);
        self.described.add(new.clone());
        self.segments.pending.append(seen.descriptions_of(&new));
    }
}

impl Known {
    /// See [`look_up`].
    fn look_up(&self, sought: &mut Described) -> Rows {
        look_up(&self.directory, &self.described, sought)
    }
}

/// Removes from `sought` what the recording in this directory describes, and returns the descriptions. Nothing is looked up twice.
fn look_up(directory: &Directory, described: &Described, sought: &mut Described) -> Rows {
    let mut wanted = sought.clone();
    wanted.keep(described);
    sought.subtract(&wanted);
    let mut found = Rows::default();
    if wanted.is_empty() {
        return found;
    }
    let recording = directory.try_clone().map(Recording::inside);
    let Ok(Ok(recording)) = recording else {
        return found;
    };
    // What cannot be read from it is missing here, too.
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

/// Creates a recording; nobody chose the name of one of many, so it gets another if that is taken.
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

/// The first multiple at or after a moment.
fn multiple_from(moment_us: i64, every_us: i64) -> i64 {
    let over = moment_us.rem_euclid(every_us);
    match over {
        0 => moment_us,
        _ => moment_us.saturating_add(every_us - over),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use dbtime_model::output::Place;
    use dbtime_model::recording::SCHEMA_VERSION;
    use dbtime_model::{ActivityRow, Fidelity, LatencyRow, NO_STACK, SessionId, SessionState, State};
    use dbtime_store::{Address, Choice, PutOptions, Store};

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
        // Session 3 is not described yet; its description comes later, beside that of a session without rows here.
        open.take(rows(3), &Rows::default());
        open.take(Rows::default(), &sessions(&[3, 4]));
        open.take(rows(1), &sessions(&[1]));
        assert_eq!(described(&open.segments.pending), [SessionId(1), SessionId(3)]);
    }

    /// One row per second, of a statement that is described once, and again when a recording begins.
    fn seconds(from_s: i64, until_s: i64, described: &[u64]) -> Rows {
        let activity = (from_s..until_s).map(|second| ActivityRow {
            time: second * SECOND_US,
            session: SessionId::RECORDER,
            statement: 7,
            plan: 0,
            wait_class: "IO".into(),
            wait_event: "WALSync".into(),
            idle: false,
            state: State::Disk,
            session_state: SessionState::Active,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            comment: 0,
            ns: 1_000_000_000,
            count: 0,
            samples: 99,
            fidelity: Fidelity::Sampled,
            pooled: false,
        });
        let statements = described.iter().map(|&id| StatementRow {
            id,
            text: "SELECT ?".to_string(),
            ..StatementRow::default()
        });
        Rows {
            activity: activity.collect(),
            statements: statements.collect(),
            ..Rows::default()
        }
    }

    /// A series that began at this second in this folder, where each recording lasts 20 s.
    fn series(home: &Path, from_s: i64) -> Series {
        let meta = Meta {
            start_us: from_s * SECOND_US,
            ..meta()
        };
        let output = Output::In(Arc::new(Directory::open(home).expect("it is there")));
        let current = begin_segments(&output, meta.clone(), true).expect("a new recording");
        Series {
            rotation: Some(Rotation::begin(Duration::from_secs(20), 1, meta.start_us)),
            ..Series::of(output, None, current, &meta)
        }
    }

    fn take(series: &mut Series, now_s: i64, rows: Rows) -> bool {
        let mut turned = false;
        let part = Part {
            meta: meta(),
            rows,
            now_us: now_s * SECOND_US,
        };
        let taken = series.take(part, &mut |told| turned |= matches!(told, Told::Turned(_)));
        taken.expect("it is written");
        turned
    }

    /// Seconds and described statements of each recording, sorted by name.
    fn read_all(home: &Path) -> Vec<(Vec<i64>, Vec<u64>)> {
        let entries = std::fs::read_dir(home).expect("a folder");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("it is there").path()).collect();
        paths.sort();
        let recordings = paths
            .iter()
            .map(|path| Recording::open(path).expect("a recording"));
        recordings
            .map(|recording| {
                let (mut seconds, mut statements) = (Vec::new(), Vec::new());
                recording.read(|rows: Vec<ActivityRow>| {
                    seconds.extend(rows.iter().map(|row| row.time / SECOND_US));
                });
                recording.read(|rows: Vec<StatementRow>| statements.extend(rows.iter().map(|row| row.id)));
                seconds.sort_unstable();
                (seconds, statements)
            })
            .collect()
    }

    /// Puts all recordings of a folder into a store, and returns the seconds that it has rows of.
    fn seconds_in_store(folder: &Path, store: &Path) -> Vec<i64> {
        let address = Address::to_put(store.as_os_str()).expect("an address");
        let options = PutOptions {
            host: Some("db1".to_string()),
            ..PutOptions::default()
        };
        let entries = std::fs::read_dir(folder).expect("a folder");
        for path in entries.map(|entry| entry.expect("it is there").path()) {
            let recording = Recording::open(&path).expect("a recording");
            let opened = Store::open_or_make(&address).expect("a store");
            opened.put(&recording, "it", &options).expect("it is put");
        }
        let opened = Store::open(&address).expect("a store");
        let (recording, _) = opened.select(&Choice::default(), None).expect("recordings");
        let mut seconds = Vec::new();
        let problems = recording.read(|rows: Vec<ActivityRow>| {
            seconds.extend(rows.iter().map(|row| row.time / SECOND_US));
        });
        assert_eq!(problems, []);
        seconds.sort_unstable();
        seconds
    }

    /// What a killed recorder left is put as it is; what goes on is put again. A step is what is written at a time: after a kill at a
    /// system call within it, the recording reads as before it (`recording::killed` of the model).
    #[test]
    fn put_after_any_step_of_rotation_and_merging_a_store_has_each_second_once() {
        let home = tempfile::tempdir().expect("a folder");
        let (folder, store) = (home.path().join("series"), home.path().join("store"));
        std::fs::create_dir(&folder).expect("a new folder");
        let mut series = series(&folder, 10);
        for now_s in (15..=65).step_by(5) {
            let described: &[u64] = if now_s == 15 { &[7] } else { &[] };
            take(&mut series, now_s, seconds(now_s - 5, now_s, described));
            // Put by an agent after its recorder was killed here; and over what was put before.
            let alone = home.path().join(format!("{now_s}"));
            for store in [&alone, &store] {
                let found = seconds_in_store(&folder, store);
                assert_eq!(
                    found,
                    Vec::from_iter(10..now_s),
                    "at {now_s} in {}",
                    store.display()
                );
            }
        }
        series.finish(None, &mut |_| {}).expect("all are written");
        assert_eq!(seconds_in_store(&folder, &store), Vec::from_iter(10..65));
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("it is there").path();
            dbtime_model::recording::compact(&path).expect("it can be merged");
        }
        assert_eq!(seconds_in_store(&folder, &store), Vec::from_iter(10..65));
    }

    /// Merging the segments of one takes longer than the next one lasts.
    #[test]
    fn the_next_one_begins_in_time_while_those_before_are_merged() {
        let home = tempfile::tempdir().expect("a folder");
        let mut series = series(home.path(), 10);
        for now_s in (15..=95).step_by(5) {
            let described: &[u64] = if now_s == 15 { &[7] } else { &[] };
            let turned = take(&mut series, now_s, seconds(now_s - 5, now_s, described));
            assert_eq!(turned, now_s % 20 == 0, "at {now_s}");
        }
        let outcome = series.finish(None, &mut |_| {}).expect("all are written");
        assert_eq!(outcome.activity_rows, 15);
        let expected: Vec<_> = [10..20, 20..40, 40..60, 60..80, 80..95]
            .into_iter()
            .map(|seconds| (seconds.collect(), vec![7]))
            .collect();
        assert_eq!(read_all(home.path()), expected);
    }

    /// Windows of ten seconds begin only after some minutes: until then, rows are of single seconds.
    #[test]
    fn the_next_one_begins_in_time_while_rows_are_still_of_single_seconds() {
        let home = tempfile::tempdir().expect("a folder");
        let mut series = series(home.path(), 10);
        series.rotation = Some(Rotation::begin(Duration::from_secs(20), 10, 10 * SECOND_US));
        for now_s in 11..=45 {
            let turned = take(&mut series, now_s, seconds(now_s - 1, now_s, &[]));
            assert_eq!(turned, now_s % 20 == 0, "at {now_s}");
        }
        series.finish(None, &mut |_| {}).expect("all are written");
        let seconds: Vec<Vec<i64>> = read_all(home.path())
            .into_iter()
            .map(|(seconds, _)| seconds)
            .collect();
        assert_eq!(
            seconds,
            [10..20, 20..40, 40..45].map(|seconds| seconds.collect::<Vec<i64>>())
        );
    }

    #[test]
    fn a_late_row_finds_what_the_next_recording_described_before_it_came() {
        let home = tempfile::tempdir().expect("a folder");
        let mut series = series(home.path(), 10);
        take(&mut series, 15, seconds(10, 15, &[7]));
        assert!(take(&mut series, 20, seconds(15, 19, &[])));
        take(&mut series, 21, seconds(20, 21, &[8]));
        let mut late = seconds(19, 20, &[]);
        late.activity[0].statement = 8;
        take(&mut series, 22, late);
        series.finish(None, &mut |_| {}).expect("all are written");
        let all = read_all(home.path());
        assert_eq!(all[0], ((10..20).collect(), vec![7, 8]));
        assert_eq!(all[1].0, [20]);
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
