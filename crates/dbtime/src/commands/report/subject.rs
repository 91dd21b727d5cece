//! What a question is asked of, and where the answer goes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dbtime_report::{Filter, NextStep, Source};

use crate::exit_code::NOTHING_RECORDED;
use crate::import::Detail;
use crate::options::{FileOptions, Selection, TableFormat};
use crate::output::{self, say};
use crate::reading;

/// See the module.
#[derive(Debug)]
pub(super) struct Subject {
    /// Not empty, unless recordings are compared.
    pub(super) recordings: Vec<PathBuf>,
    pub(super) about: FileOptions,
    pub(super) selection: Selection,
    pub(super) output: PathBuf,
}

impl Subject {
    /// Opens the recording that was named, or files as one, with as much detail as the question needs.
    pub(super) fn open(&self, needed: Detail) -> anyhow::Result<Source> {
        self.read(&self.recordings, needed)
    }

    /// Opens one of several recordings.
    pub(super) fn open_one(&self, path: &PathBuf, needed: Detail) -> anyhow::Result<Source> {
        self.read(std::slice::from_ref(path), needed)
    }

    fn read(&self, paths: &[PathBuf], needed: Detail) -> anyhow::Result<Source> {
        let is_cut = self.selection.from.is_some() || self.selection.to.is_some();
        let detail = if is_cut { Detail::Seconds } else { needed };
        reading::open(paths, &self.about, detail, &self.selection)
    }

    /// The filter for the selected rows.
    pub(super) fn filter(&self, source: &Source) -> anyhow::Result<Filter> {
        self.selection.filter(source)
    }

    /// Its name, if there is a single one.
    pub(super) fn name(&self) -> std::path::Display<'_> {
        self.recordings
            .first()
            .map_or(Path::new(""), PathBuf::as_path)
            .display()
    }

    /// Writes an answer, and says so if it is empty.
    pub(super) fn answer(&self, text: &str, is_something: bool, nothing: &str) -> anyhow::Result<ExitCode> {
        output::text_to_file(&self.output, text)?;
        self.answered(is_something, nothing)
    }

    /// The same for tables that say themselves that they are empty: it is said again only to users who do not see them.
    pub(super) fn answer_in(
        &self,
        format: TableFormat,
        text: &str,
        is_something: bool,
        nothing: &str,
    ) -> anyhow::Result<ExitCode> {
        output::text_to_file(&self.output, text)?;
        let is_seen = format == TableFormat::Text && self.output == Path::new("-");
        match is_seen && !is_something {
            true => Ok(ExitCode::from(NOTHING_RECORDED)),
            false => self.answered(is_something, nothing),
        }
    }

    /// Says so if an answer that has been written is empty.
    pub(super) fn answered(&self, is_something: bool, nothing: &str) -> anyhow::Result<ExitCode> {
        if is_something {
            return Ok(ExitCode::SUCCESS);
        }
        let paths: Vec<String> = self
            .recordings
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        say(format_args!("dbtime: {}: {nothing}", paths.join(" ")));
        Ok(ExitCode::from(NOTHING_RECORDED))
    }

    /// The next steps to suggest.
    pub(super) fn next(&self, steps: &[NextStep]) -> String {
        dbtime_report::text::render_next_steps(steps, &[&self.name().to_string()], output::width())
    }
}
