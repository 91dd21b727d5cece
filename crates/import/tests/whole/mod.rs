//! All of an import at once.

#![allow(dead_code, reason = "no test program uses all of it")]

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use dbtime_import::{ImportError, Options};
use dbtime_model::Rows;
use dbtime_model::recording::{ImportedFile, Meta, SqlTrace};

/// What was imported, rows included.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) meta: Meta,
    pub(crate) rows: Rows,
    pub(crate) problems: Vec<String>,
}

impl Whole {
    /// The only file.
    pub(crate) fn file(&self) -> &ImportedFile {
        assert_eq!(self.meta.files.len(), 1);
        &self.meta.files[0]
    }

    /// What is known of the only trace.
    pub(crate) fn trace(&self) -> &SqlTrace {
        self.file().sql_trace.as_ref().expect("a trace")
    }
}

pub(crate) fn of_files(paths: &[PathBuf]) -> Result<Whole, ImportError> {
    of_files_with(&Options::default(), paths)
}

/// As [`of_files`], with options.
pub(crate) fn of_files_with(options: &Options, paths: &[PathBuf]) -> Result<Whole, ImportError> {
    let mut rows = Rows::default();
    let imported = options.import(
        paths,
        |_| Ok(()),
        |more| {
            rows.append(more);
            Ok(())
        },
    )?;
    Ok(Whole {
        meta: imported.meta,
        rows,
        problems: imported.problems,
    })
}

pub(crate) fn of_text(text: impl Into<Vec<u8>>) -> Result<Whole, ImportError> {
    of_text_with(&Options::default(), text)
}

/// As [`of_text`], with options.
pub(crate) fn of_text_with(options: &Options, text: impl Into<Vec<u8>>) -> Result<Whole, ImportError> {
    let mut rows = Rows::default();
    let stream: Box<dyn Read + Send> = Box::new(Cursor::new(text.into()));
    let imported = options.import_stream(stream, Path::new("text.trc"), |more| {
        rows.append(more);
        Ok(())
    })?;
    Ok(Whole {
        meta: imported.meta,
        rows,
        problems: imported.problems,
    })
}
