//! Files of other tools: as a recording on disk, or straight into a report.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, bail};
use dbtime_collect::Scratch;
use dbtime_import::{ImportError, Imported, Reading, lie_beside};
use dbtime_model::Rows;
use dbtime_model::output::{Directory, Place, caller_of_sudo};
use dbtime_model::recording::{Meta, RecordingWriter, SCHEMA_VERSION, remove_unfinished_import};
use dbtime_report::Source;

use crate::options::FileOptions;
use crate::output::{self, ProgressLine, say};
use crate::remains::mend_folders;
use crate::signals::{Second, stop_on_signals};
use crate::working;

/// Rows, and frames of stacks, that are kept in memory before they are written to disk (about 50 MB).
const ROWS_IN_MEMORY: usize = 200_000;

/// Rows of an import, on their way into a recording.
struct Store {
    output: Place,
    waiting: Rows,
    weight: usize,
    has_time: bool,
    writer: Option<RecordingWriter>,
}

impl Store {
    fn new(output: Place) -> Store {
        Store {
            output,
            waiting: Rows::default(),
            weight: 0,
            has_time: false,
            writer: None,
        }
    }

    fn take(&mut self, rows: Rows) -> io::Result<()> {
        self.has_time |= !rows.activity.is_empty() || !rows.counters.is_empty();
        self.weight += rows.weight();
        self.waiting.append(rows);
        if self.weight >= ROWS_IN_MEMORY {
            self.write().map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn write(&mut self) -> anyhow::Result<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            // What is said about the rows is known at the end; until then they cannot be read.
            none => none.insert(RecordingWriter::create_at(
                self.output.clone(),
                Meta {
                    schema: SCHEMA_VERSION.to_string(),
                    importing: true,
                    ..Meta::default()
                },
            )?),
        };
        writer.write(&self.waiting)?;
        self.waiting = Rows::default();
        self.weight = 0;
        Ok(())
    }

    /// Ends the recording; its directory, if there is one.
    fn finish(mut self, imported: &Imported) -> anyhow::Result<Option<Directory>> {
        if let Err(e) = self.write() {
            self.discard();
            return Err(e);
        }
        let Some(mut writer) = self.writer else {
            return Ok(None);
        };
        let directory = writer.directory()?;
        {
            let meta = writer.meta();
            let (segments, cost) = (std::mem::take(&mut meta.segments), std::mem::take(&mut meta.cost));
            *meta = imported.meta.clone();
            (meta.segments, meta.cost) = (segments, cost);
        }
        writer.finish()?;
        Ok(Some(directory))
    }

    /// Removes what was written so far: half an import is of no use.
    fn discard(self) {
        if let Some(writer) = self.writer
            && let Err(e) = writer.discard()
        {
            say(format_args!("note: {e}"));
        }
    }
}

/// What rows are needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Questions about single seconds too.
    Seconds,
    /// Sums over all that was read: there may be fewer rows.
    Sums,
}

/// Reads files until they end, or until Ctrl-C.
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
        // Small files are read before anyone could read this.
        if now.1 > 10 && shown != Some(now) {
            shown = Some(now);
            match reading.done < reading.total {
                true => line.show(&format!("{} of {} MB read", now.0, now.1)),
                // What is read is not counted yet.
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
    Ok(options.import(files, tell, |rows| store.take(rows))?)
}

/// What became of an import.
pub struct Outcome {
    /// What was imported.
    pub imported: Imported,
    /// Whether any time was in it. If not, nothing was written.
    pub has_time: bool,
}

/// Writes a recording of `files`. Nothing is created when they cannot be imported or hold no time.
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
    let mut store = Store::new(output::new_place(output)?);
    let imported = match read(files, about, Detail::Seconds, &mut store) {
        Ok(imported) => imported,
        Err(e) => {
            store.discard();
            return Err(e);
        }
    };
    let has_time = store.has_time;
    match has_time {
        true => {
            working::begin("writing");
            let finished = store.finish(&imported);
            working::end();
            if let Some(directory) = finished?
                && let Some(text) = output::give(&directory, caller_of_sudo())
            {
                say(format_args!("note: {text}"));
            }
        }
        false => store.discard(),
    }
    Ok(Outcome { imported, has_time })
}

/// Opens a recording by its directory, or imports files as one. Rows that are too many for memory lie in a folder that goes
/// when the source does.
///
/// # Errors
/// They are neither.
pub fn open(paths: &[PathBuf], about: &FileOptions, detail: Detail) -> anyhow::Result<Source> {
    // Whatever is no directory is read: a pipe as well.
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
        return Ok(Source::open(path)?);
    }
    mend_folders();
    let folder = Scratch::new(Scratch::IMPORT).context("no room for rows that do not fit into memory")?;
    let recording = folder.path().join("import.dbt");
    let mut store = Store::new(output::place(&recording)?);
    let imported = read(paths, about, detail, &mut store).context("not a recording")?;
    if store.writer.is_none() {
        return Ok(Source::memory(imported.meta, store.waiting));
    }
    store.finish(&imported)?;
    Ok(Source::open(&recording)?.keeping(folder))
}

/// True when there was a file, but nothing in it.
pub fn is_empty(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<ImportError>()
        .is_some_and(ImportError::is_empty)
}
