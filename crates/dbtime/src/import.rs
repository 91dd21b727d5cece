//! Files of other tools: as a recording on disk, or straight into a report. Rows are written while the next ones are parsed.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, anyhow, bail};
use dbtime_collect::Scratch;
use dbtime_import::{ImportError, Imported, Reading, lie_beside};
use dbtime_model::Rows;
use dbtime_model::output::{Owner, Place, caller_of_sudo};
use dbtime_model::recording::{META_FILE, Meta, SCHEMA_VERSION, remove_unfinished_import};
use dbtime_report::{Source, shell_word};

use crate::folder;
use crate::inputs;
use crate::options::FileOptions;
use crate::output::{self, ProgressLine, say};
use crate::record::{Output, Part, Progress, Sink};
use crate::remains::mend_folders;
use crate::signals::{Second, stop_on_signals};
use crate::usage::Usage;
use crate::working;

/// Rows and stack frames kept in memory before they are written to disk (about 25 MB). As many again may be on their way there.
const ROWS_IN_MEMORY: usize = 100_000;

/// Rows of an import, on their way into a recording.
struct Store {
    output: Place,
    owner: Option<Owner>,
    waiting: Rows,
    weight: usize,
    has_time: bool,
    /// Present once there were too many rows for memory.
    sink: Option<Sink>,
}

impl Store {
    /// `owner`: see [`Sink::begin`].
    fn new(output: Place, owner: Option<Owner>) -> Store {
        Store {
            output,
            owner,
            waiting: Rows::default(),
            weight: 0,
            has_time: false,
            sink: None,
        }
    }

    fn take(&mut self, rows: Rows) -> io::Result<()> {
        self.has_time |= !rows.activity.is_empty() || !rows.counters.is_empty();
        self.weight += rows.weight();
        self.waiting.append(rows);
        if self.weight < ROWS_IN_MEMORY {
            return Ok(());
        }
        if self.sink.is_none() {
            self.sink = Some(self.begin().map_err(io::Error::other)?);
        }
        self.weight = 0;
        let part = part(std::mem::take(&mut self.waiting), unfinished());
        match self.sink.as_ref().is_some_and(|sink| sink.hand_over(part)) {
            true => Ok(()),
            // The writer says why.
            false => Err(io::Error::other("rows could not be written")),
        }
    }

    fn begin(&self) -> anyhow::Result<Sink> {
        Sink::begin(Output::At(self.output.clone()), self.owner, false, unfinished())
    }

    /// Ends the recording: `meta` says what is in it.
    fn finish(mut self, meta: Meta) -> anyhow::Result<()> {
        let sink = match self.sink.take() {
            Some(sink) => sink,
            None => self.begin()?,
        };
        // Its last rows complete it: at no moment can it be mistaken for one whose recorder was killed.
        sink.finish(part(self.waiting, meta), &mut tell).map(|_| ())
    }

    /// Removes what was written so far: half an import is of no use.
    ///
    /// # Errors
    /// Something could not be written before.
    fn discard(&mut self) -> anyhow::Result<()> {
        self.waiting = Rows::default();
        match self.sink.take() {
            Some(sink) => sink.give_up(&mut tell).map(|_| ()),
            None => Ok(()),
        }
    }
}

/// The rows' description is known only at the end; until then they cannot be read.
fn unfinished() -> Meta {
    Meta {
        schema: SCHEMA_VERSION.to_string(),
        importing: true,
        ..Meta::default()
    }
}

fn part(rows: Rows, meta: Meta) -> Part {
    Part {
        now_us: meta.end_us,
        meta,
        rows,
    }
}

fn tell(progress: Progress<'_>) {
    if let Progress::Note(text) = progress {
        say(format_args!("note: {text}"));
    }
}

/// What rows are needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Questions about single seconds, too.
    Seconds,
    /// Sums over everything that was read: fewer rows will do.
    Sums,
}

/// Refuses what is not a file of another tool, and what would count twice.
fn check(files: &[PathBuf]) -> anyhow::Result<()> {
    let mut seen: HashMap<(u64, u64), &Path> = HashMap::new();
    for path in files {
        let Ok(metadata) = path.metadata() else {
            continue;
        };
        if metadata.is_dir() {
            let word = shell_word(&path.display().to_string());
            let what = match path.join(META_FILE).metadata() {
                Ok(_) => format!("a recording, not a file of another tool: 'dbtime report {word}' shows it"),
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(ImportError::io(path, e).into());
                }
                Err(_) => "a directory: name the files in it".to_string(),
            };
            return Err(Usage(format!("{} is {what}", path.display())).into());
        }
        if metadata.is_file()
            && let Some(first) = seen.insert(inputs::identity(&metadata), path)
        {
            return Err(Usage(match first == path {
                true => format!("{} is given twice", path.display()),
                false => format!("{} and {} are the same file", first.display(), path.display()),
            })
            .into());
        }
    }
    Ok(())
}

/// Reads files until they end, or until Ctrl-C. If they cannot be read, nothing that was written remains.
fn read(
    files: &[PathBuf],
    about: &FileOptions,
    detail: Detail,
    store: &mut Store,
) -> anyhow::Result<Imported> {
    let stop = stop_on_signals(Second::Ends)?;
    let mut line = ProgressLine::new();
    let mut shown = None;
    let tell = |reading: Reading| {
        const MB: u64 = 1_000_000;
        let now = (reading.done / MB, reading.total.max(reading.done) / MB);
        // Small files are read before anyone could read the line.
        if now.1 > 10 && shown != Some(now) {
            shown = Some(now);
            match reading.done < reading.total {
                true => line.show(&format!("{} of {} MB read", now.0, now.1)),
                // Everything is read, but not added up yet.
                false => {
                    line.clear();
                    working::begin("adding up what was read");
                }
            }
        }
        match stop.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(()),
        }
    };
    let options = dbtime_import::Options {
        keeps_spans: lie_beside(files),
        summed: detail == Detail::Sums,
        ..about.options()?
    };
    let read = options.import(files, tell, |rows| store.take(rows));
    line.clear();
    if read.is_err() {
        // A failure to write came first.
        store.discard()?;
    }
    Ok(read?)
}

/// The result of an import.
pub struct Outcome {
    /// What was imported.
    pub imported: Imported,
    /// Whether there was any time in it. If not, nothing was written.
    pub has_time: bool,
}

/// Writes a recording of `files`. Nothing is created if they cannot be imported or contain no time.
///
/// # Errors
/// No file can be imported, or the recording cannot be written.
pub fn import(files: &[PathBuf], about: &FileOptions, output: &Path) -> anyhow::Result<Outcome> {
    let place = output::place(output)?;
    if remove_unfinished_import(&place).with_context(|| output.display().to_string())? {
        say(format_args!(
            "note: {}: removed, left by an import that was killed",
            output.display()
        ));
    }
    check(files)?;
    let mut store = Store::new(output::new_place(output)?, caller_of_sudo());
    let imported = read(files, about, Detail::Seconds, &mut store)?;
    let has_time = store.has_time;
    match has_time {
        true => {
            working::begin("writing");
            let finished = store.finish(imported.meta.clone());
            working::end();
            finished?;
        }
        false => store.discard()?,
    }
    Ok(Outcome { imported, has_time })
}

/// Opens a recording by its directory, or imports files as one. Rows that do not fit in memory are in a folder that is removed with the
/// source.
///
/// # Errors
/// They are neither.
pub fn open(paths: &[PathBuf], about: &FileOptions, detail: Detail) -> anyhow::Result<Source> {
    // Anything that is not a directory is read, including a pipe.
    if let [path] = paths
        && path.is_dir()
    {
        if about.is_some() {
            bail!(
                "{}: a recording; --interval, --event-names and --event are for the files of other tools: give them to \
                 'dbtime import'",
                path.display()
            );
        }
        return Source::open(path).map_err(|e| match folder::command_for(path) {
            Some(command) => anyhow!("{e}; to read the files in it, name them: {command}"),
            None => e.into(),
        });
    }
    check(paths)?;
    for path in paths {
        // Of several, one that cannot be understood is reported, and the others are read. One that does not exist is a mistake in the
        // command.
        if let Err(e) = path.symlink_metadata()
            && path != Path::new("-")
        {
            return Err(ImportError::io(path, e).into());
        }
        inputs::note(path);
    }
    mend_folders();
    let folder = Scratch::new(Scratch::IMPORT).context("cannot store rows that do not fit into memory")?;
    let recording = folder.path().join("import.dbt");
    let mut store = Store::new(output::place(&recording)?, None);
    let imported = read(paths, about, detail, &mut store).context("not a recording")?;
    if store.sink.is_none() {
        return Ok(Source::memory(imported.meta, store.waiting));
    }
    store.finish(imported.meta)?;
    Ok(Source::open(&recording)?.keeping(folder))
}

/// True when there was a file, but nothing in it.
pub fn is_empty(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<ImportError>()
        .is_some_and(ImportError::is_empty)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use dbtime_model::ActivityRow;
    use dbtime_model::recording::{Recording, RecordingError};

    use super::*;
    use crate::record::row_of;

    /// Rows of two seconds, enough for one segment.
    fn rows(first_second: i64) -> Rows {
        let row = |n: usize| row_of(first_second + (n % 2) as i64);
        Rows {
            activity: (0..ROWS_IN_MEMORY).map(row).collect(),
            ..Rows::default()
        }
    }

    fn store(path: &Path) -> Store {
        Store::new(output::place(path).expect("a folder"), None)
    }

    #[test]
    fn what_would_count_twice_or_is_no_file_says_what_to_do() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), "a").expect("room");
        fs::write(path("b"), "b").expect("room");
        fs::hard_link(path("a"), path("same")).expect("a link");
        fs::create_dir(path("r.dbt")).expect("room");
        let said = |names: &[&str]| {
            let paths: Vec<PathBuf> = names.iter().map(|name| path(name)).collect();
            check(&paths).expect_err("wrong usage").to_string()
        };
        assert!(check(&[path("a"), path("b"), path("not there"), "-".into(), "-".into()]).is_ok());
        assert!(said(&["a", "b", "a"]).contains("is given twice"));
        assert!(said(&["a", "same"]).contains("are the same file"));
        assert!(said(&["a", "r.dbt"]).contains("is a directory: name the files in it"));
        fs::write(path("r.dbt").join(META_FILE), "{}").expect("room");
        assert!(said(&["r.dbt"]).contains("is a recording, not a file of another tool: 'dbtime report"));
    }

    fn whole() -> Meta {
        Meta {
            schema: SCHEMA_VERSION.to_string(),
            end_us: 6_000_000,
            complete: true,
            ..Meta::default()
        }
    }

    #[test]
    fn rows_of_many_segments_are_read_in_their_order_once_it_is_whole() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("many.dbt");
        let mut store = store(&path);
        for second in [4, 2, 0] {
            store.take(rows(second)).expect("it is taken");
        }
        let mut last = rows(8);
        last.activity.truncate(1);
        store.take(last).expect("it is taken");
        assert!(matches!(
            Recording::open(&path),
            Err(RecordingError::Importing(_))
        ));
        store.finish(whole()).expect("it is written");

        let recording = Recording::open(&path).expect("a recording");
        let meta = recording.meta();
        // As they came: nothing merged, nothing split.
        assert_eq!((meta.segments.last, meta.segments.merged.len()), (4, 0));
        assert_eq!((meta.complete, meta.end_us), (true, 6_000_000));
        assert!(meta.cost.bytes_written > 0);
        let mut seconds = Vec::new();
        recording.read(|rows: Vec<ActivityRow>| {
            seconds.extend(rows.iter().map(|row| row.time / 1_000_000));
        });
        let segment = |second: i64| [second, second + 1].repeat(ROWS_IN_MEMORY / 2);
        let expected = [segment(4), segment(2), segment(0), vec![8]].concat();
        assert!(seconds == expected, "{} rows", seconds.len());
    }

    #[test]
    fn nothing_is_left_of_files_that_cannot_be_read_to_their_end() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("half.dbt");
        let mut store = store(&path);
        for second in [0, 2] {
            store.take(rows(second)).expect("it is taken");
        }
        assert!(path.is_dir());
        store.discard().expect("all of it was written");
        assert!(!path.exists());
    }

    /// Files can no longer be created in a table's folder; a full disk has the same effect.
    #[test]
    fn what_cannot_be_written_is_named_ends_the_import_and_leaves_nothing() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("broken.dbt");
        let mut store = store(&path);
        store.sink = Some(store.begin().expect("a recording"));
        fs::remove_dir(path.join("activity")).expect("nothing is in it");
        // One is being written when the next one comes, which notices the failure.
        store.take(rows(0)).expect("it is handed over");
        let refused = store.take(rows(2)).expect_err("nobody writes");
        assert_eq!(refused.to_string(), "rows could not be written");
        let error = store.discard().expect_err("why");
        let named = path.join("activity").display().to_string();
        assert!(error.to_string().starts_with(&named), "{error}");
        assert!(!path.exists());
    }

    #[test]
    fn a_last_segment_that_cannot_be_written_leaves_nothing_either() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("broken.dbt");
        let mut store = store(&path);
        store.sink = Some(store.begin().expect("a recording"));
        fs::remove_dir(path.join("activity")).expect("nothing is in it");
        let mut few = rows(0);
        few.activity.truncate(1);
        store.take(few).expect("it waits");
        store.finish(whole()).expect_err("it has no folder");
        assert!(!path.exists());
    }

    #[test]
    fn a_name_that_is_taken_is_said() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("taken.dbt");
        let mut store = store(&path);
        fs::create_dir(&path).expect("it is new");
        let error = store.take(rows(0)).expect_err("it is taken");
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        store.discard().expect("nothing was written");
        assert!(path.is_dir());
    }
}
