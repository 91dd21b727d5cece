//! Files of other tools become rows. One file per format; the contents decide which one it is, never the name.
//!
//! ```text
//! file ──open, decompress──▶ Lines ──Importer──▶ Import ──▶ Imported { meta, rows, files, problems }
//! ```
//!
//! Nothing in a file is fatal: what is not understood is counted, its first lines are kept, and reading goes on; what
//! was cut gives all up to the cut. Only a file that cannot be opened, is empty or is of no known format is an error.

mod bcc;
mod compression;
mod dtrace;
mod error;
mod event_names;
mod folded;
mod import;
mod lines;
mod options;
mod oracle_stacks;
pub mod oracle_trace;
mod perf_script;
mod samples;
mod short_stack;
mod text;
mod trace_file;

use std::io::Read;
use std::path::{Path, PathBuf};

pub use error::ImportError;
pub use event_names::{EventNames, EventNamesError};
pub use import::{Import, Imported, Nature};
pub use lines::{Line, Lines, MAX_LINE};
pub use options::{Options, parse_interval};
pub use trace_file::{TraceFile, UnknownLine};

/// A format.
pub trait Importer {
    /// What people call it.
    fn name(&self) -> &'static str;

    /// True when a file that begins with `head` is of this format.
    fn detect(&self, head: &[u8]) -> bool;

    /// Reads the file and adds what it says.
    ///
    /// # Errors
    /// The file is of this format, but nothing can be made of it.
    fn import(
        &self,
        lines: &mut Lines<Box<dyn Read>>,
        path: &Path,
        into: &mut Import,
    ) -> Result<(), ImportError>;
}

/// Every format there is. What many texts could be taken for comes last.
const IMPORTERS: [&dyn Importer; 7] = [
    &oracle_trace::OracleTrace,
    &oracle_stacks::OracleStacks,
    &short_stack::ShortStack,
    &bcc::Bcc,
    &perf_script::PerfScript,
    &dtrace::Dtrace,
    &folded::Folded,
];

/// Imports files, plain or compressed (gzip, bzip2, xz, lzma, zstd), as one.
///
/// # Errors
/// A file cannot be opened, is empty, is of no known format, or does not go with those before it.
pub fn import(paths: &[PathBuf]) -> Result<Imported, ImportError> {
    Options::default().import(paths)
}

/// Imports a stream as if it were a file of this name, without looking for compression.
///
/// # Errors
/// The stream is empty or of no known format.
pub fn import_stream(stream: Box<dyn Read>, name: &Path) -> Result<Imported, ImportError> {
    Options::default().import_stream(stream, name)
}

impl Options {
    /// As [`import`], with what the caller knows.
    ///
    /// # Errors
    /// See [`import`].
    pub fn import(&self, paths: &[PathBuf]) -> Result<Imported, ImportError> {
        let mut import = Import::new(self.clone());
        let mut engine = "";
        for path in paths {
            let source = compression::open(path).map_err(|e| ImportError::io(path, e))?;
            engine = import_one(source, path, &mut import)?;
        }
        Ok(import.finish(paths, engine))
    }

    /// As [`import_stream`], with what the caller knows.
    ///
    /// # Errors
    /// See [`import_stream`].
    pub fn import_stream(&self, stream: Box<dyn Read>, name: &Path) -> Result<Imported, ImportError> {
        let mut import = Import::new(self.clone());
        let engine = import_one(stream, name, &mut import)?;
        Ok(import.finish(&[name.to_path_buf()], engine))
    }
}

fn import_one(source: Box<dyn Read>, path: &Path, import: &mut Import) -> Result<&'static str, ImportError> {
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
    let before = import.take_nature();
    importer.import(&mut lines, path, import)?;
    let now = import.take_nature().unwrap_or_default();
    if before.is_some_and(|before| before != now) {
        return Err(ImportError::Mixed(path.to_path_buf()));
    }
    import.set_nature(now);
    if let Some(e) = lines.take_error() {
        import.problem(format!(
            "{}: {e}; the {} lines before were read",
            path.display(),
            lines.number()
        ));
    }
    Ok(importer.name())
}
