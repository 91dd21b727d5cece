//! Reads files in parallel and hands on their rows.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::time::Duration;

use dbtime_model::Rows;

use crate::import::Description;
use crate::inputs::Inputs;
use crate::oracle_trace::OracleTrace;
use crate::strace::Strace;
use crate::{IMPORTERS, Import, ImportError, Imported, Importer, Lines, Options};

/// Most batches of rows waiting to be taken: bounds memory if the consumer is slower.
const WAITING: usize = 4;

/// How often progress is reported.
const TOLD_EVERY: Duration = Duration::from_millis(200);

/// Progress of reading, in bytes of the files as they are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Bytes read.
    pub done: u64,
    /// Bytes of all files; `done` can exceed it if files grow.
    pub total: u64,
}

impl Options {
    /// Imports files (`-` is standard input), plain or compressed (gzip, bzip2, xz, lzma, zstd), or those inside of .zip archives, as one.
    /// Rows are handed to `take` as they come, those of one second of one file together or consecutively; sessions and statements come
    /// last. `tell` is given the progress a few times a second, and can stop the import.
    ///
    /// With several files, one that cannot be read or has no known format is reported as a problem, not an error.
    ///
    /// # Errors
    /// No file could be imported: the error is that of the first one. Rows could not be taken, or the import was stopped.
    pub fn import(
        &self,
        paths: &[PathBuf],
        mut tell: impl FnMut(Reading) -> io::Result<()>,
        mut take: impl FnMut(Rows) -> io::Result<()>,
    ) -> Result<Imported, ImportError> {
        let total = paths
            .iter()
            .filter_map(|path| path.metadata().ok())
            .map(|of| of.len());
        let total = total.fold(0, u64::saturating_add);
        let shared = Shared::default();
        let inputs = Inputs::of(paths, &shared);
        let threads = self.threads().min(inputs.all.len());
        let idle_cpus = self.threads().saturating_sub(threads);
        let next = AtomicUsize::new(0);
        let (to, from) = mpsc::sync_channel(WAITING);
        let mut seen = Seen::default();
        let done = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..threads)
                .map(|_| {
                    let to = to.clone();
                    let (inputs, shared, next) = (&inputs.all, &shared, &next);
                    scope.spawn(move || {
                        let mut done = Vec::new();
                        loop {
                            let at = next.fetch_add(1, Ordering::Relaxed);
                            let Some((order, input)) = inputs.get(at) else {
                                break;
                            };
                            done.push((*order, input.import(self, shared, to.clone(), idle_cpus)));
                        }
                        done
                    })
                })
                .collect();
            drop(to);
            let mut failed = None;
            loop {
                let rows = match from.recv_timeout(TOLD_EVERY) {
                    Ok(rows) => rows,
                    Err(RecvTimeoutError::Timeout) => Rows::default(),
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                // After a failure the threads are only waited for.
                if failed.is_none() {
                    seen.rows(&rows);
                    let done = shared.read.load(Ordering::Relaxed);
                    if let Err(e) = take(rows).and_then(|()| tell(Reading { done, total })) {
                        failed = Some(e);
                        shared.stop.store(true, Ordering::Relaxed);
                    }
                }
            }
            let mut done = Vec::new();
            for reader in readers {
                match reader.join() {
                    Ok(files) => done.extend(files),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            match failed {
                Some(e) => Err(ImportError::Output(e)),
                None => Ok(done),
            }
        })?;
        let done = done.into_iter().chain(inputs.failed).collect();
        together(done, inputs.problems, seen, take)
    }

    /// Imports a stream as if it were a file of this name, without looking for compression.
    ///
    /// # Errors
    /// The stream is empty or of no known format. Rows could not be taken.
    pub fn import_stream(
        &self,
        stream: Box<dyn Read + Send>,
        name: &Path,
        mut take: impl FnMut(Rows) -> io::Result<()>,
    ) -> Result<Imported, ImportError> {
        let (to, from) = mpsc::sync_channel(WAITING);
        let mut seen = Seen::default();
        let (done, taken) = std::thread::scope(|scope| {
            let has_idle_cpu = self.threads() > 1;
            let reader = scope.spawn(move || import_one(self, stream, name, to, has_idle_cpu));
            let mut taken = Ok(());
            for rows in from {
                seen.rows(&rows);
                if taken.is_ok() {
                    taken = take(rows);
                }
            }
            match reader.join() {
                Ok(done) => (done, taken),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        });
        taken.map_err(ImportError::Output)?;
        together(vec![(0, done)], Vec::new(), seen, take)
    }
}

/// True if these files can be shown next to each other: one is an SQL trace, another one a trace of strace. Only looks at regular files:
/// what is read from a pipe is lost.
pub fn lie_beside(paths: &[PathBuf]) -> bool {
    let shared = Shared::default();
    let inputs = Inputs::of(paths, &shared);
    let formats: Vec<&str> = inputs
        .all
        .iter()
        .filter_map(|(_, input)| input.format())
        .collect();
    [OracleTrace.name(), Strace.name()]
        .iter()
        .all(|name| formats.contains(name))
}

/// What the threads share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    read: AtomicU64,
    stop: AtomicBool,
}

impl Shared {
    /// True if reading is to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// This many more bytes were read from files.
    pub(crate) fn has_read(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What the rows that were handed on say about the whole.
#[derive(Debug, Default)]
struct Seen {
    last_us: Option<i64>,
}

impl Seen {
    fn rows(&mut self, rows: &Rows) {
        let last = rows.activity.iter().map(|row| row.time).max();
        self.last_us = self.last_us.max(last);
    }
}

/// What became of one file.
pub(crate) type Done = Result<(Description, &'static str), ImportError>;

/// Imports what one file says. `has_idle_cpu`: another thread may help the one that reads lines.
pub(crate) fn import_one<'a>(
    options: &Options,
    source: Box<dyn Read + 'a>,
    path: &Path,
    to: SyncSender<Rows>,
    has_idle_cpu: bool,
) -> Done {
    let mut lines = Lines::new(source);
    let head = lines.head();
    if head.is_empty() {
        return Err(match lines.take_error() {
            Some(e) => ImportError::io(path, e),
            None => ImportError::Empty(path.to_path_buf()),
        });
    }
    let Some(importer) = IMPORTERS.iter().find(|importer| importer.detect(head)) else {
        let known: Vec<&str> = IMPORTERS.iter().map(|importer| importer.name()).collect();
        return Err(ImportError::UnknownFormat {
            path: path.to_path_buf(),
            known: known.join(", "),
        });
    };
    let mut import = Import::new(options, to).with_idle_cpu(has_idle_cpu);
    importer.import(&mut lines, path, &mut import)?;
    if let Some(e) = lines.take_error() {
        import.problem(format!(
            "{}: {e}; the {} lines before were read",
            path.display(),
            lines.number()
        ));
    }
    Ok((import.finish(importer.name()), importer.name()))
}

/// One result for all files, in their order.
fn together(
    mut done: Vec<(usize, Done)>,
    problems: Vec<String>,
    seen: Seen,
    mut take: impl FnMut(Rows) -> io::Result<()>,
) -> Result<Imported, ImportError> {
    done.sort_by_key(|(at, _)| *at);
    let mut description = Description::default();
    problems
        .into_iter()
        .for_each(|problem| description.problem(problem));
    let mut engines: Vec<&str> = Vec::new();
    let mut failed = None;
    for (_, done) in done {
        match done {
            Ok((of_file, _)) if !description.goes_with(&of_file) => {
                return Err(ImportError::Mixed(of_file.path()));
            }
            Ok((of_file, engine)) => {
                description.append(of_file);
                if !engines.contains(&engine) {
                    engines.push(engine);
                }
            }
            Err(e) => {
                description.problem(format!("{e}; skipped"));
                failed.get_or_insert(e);
            }
        }
    }
    if let (true, Some(e)) = (engines.is_empty(), failed) {
        return Err(e);
    }
    let rows = description.take_rows();
    let imported = description.finish(&rows.sessions, seen.last_us, &engines.join(", "));
    take(rows).map_err(ImportError::Output)?;
    Ok(imported)
}
