//! `dbtime diff`: what changed between two recordings.

use std::path::Path;

use dbtime_report::diff_export::{self, Widths};
use dbtime_report::{Diff, json, text};

use crate::output;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// Folded stacks with both sides' times.
    Folded,
    /// A differential flame graph.
    Svg,
}

impl DiffFormat {
    /// By the ending of the output's name; text for standard output.
    ///
    /// # Errors
    /// No format has this ending; the message lists those there are.
    pub fn of(path: &Path) -> Result<DiffFormat, String> {
        let ending = path.extension().and_then(|ending| ending.to_str());
        match ending.map(str::to_ascii_lowercase).as_deref() {
            None if path == Path::new("-") => Ok(DiffFormat::Text),
            Some("txt") => Ok(DiffFormat::Text),
            Some("json") => Ok(DiffFormat::Json),
            Some("folded") => Ok(DiffFormat::Folded),
            Some("svg") => Ok(DiffFormat::Svg),
            _ => Err(format!(
                "{}: no output format has this ending; choose one of .txt, .json, .folded, .svg",
                path.display()
            )),
        }
    }
}

/// Writes the answer to a file, or to standard output for `-`.
///
/// # Errors
/// It cannot be written.
pub fn write(diff: &Diff, format: DiffFormat, widths: Widths, path: &Path) -> anyhow::Result<()> {
    match format {
        DiffFormat::Text => output::text_to_file(path, &text::render_diff(diff, output::width())),
        DiffFormat::Json => output::text_to_file(path, &json::render_diff(diff)),
        DiffFormat::Folded => output::to_file(path, |out| diff_export::write_folded(diff, out)),
        DiffFormat::Svg => output::to_file(path, |out| diff_export::write_svg(diff, widths, out)),
    }
}
