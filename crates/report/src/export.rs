//! Exports stacks to a file, whose extension chooses the format. One source file per format.

use std::io::{self, Write};
use std::path::Path;

use crate::firefox::Firefox;
use crate::flame::Folded;
use crate::folded::FoldedText;
use crate::group::Dimension;
use crate::otlp::Otlp;
use crate::perfetto::Perfetto;
use crate::pprof::Pprof;
use crate::speedscope::Speedscope;
use crate::svg::Svg;

/// One output format.
pub trait Exporter: Sync {
    /// Extensions of file names, the usual one first, without the dot.
    fn endings(&self) -> &'static [&'static str];

    /// Dimensions that the format always distinguishes: they come below the chosen levels.
    fn dimensions(&self) -> &'static [Dimension] {
        &[]
    }

    /// Whether it is a picture to look at, not input for another program.
    fn is_picture(&self) -> bool {
        false
    }

    /// Writes all stacks.
    ///
    /// # Errors
    /// What `out` returns.
    fn write(&self, folded: &Folded, out: &mut dyn Write) -> io::Result<()>;
}

const EXPORTERS: [&dyn Exporter; 7] = [&Svg, &FoldedText, &Pprof, &Speedscope, &Firefox, &Perfetto, &Otlp];

/// Why stacks were not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// No format has this extension.
    #[error("{path}: no output format has this extension; choose one of {}", endings())]
    Ending {
        /// The name as given.
        path: String,
    },
    /// There is no stack.
    #[error("no time to draw: the recording, or the selected part of it, is empty")]
    Empty,
    /// Writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Every extension there is, for messages and help: `.svg, .folded, .txt …`.
pub fn endings() -> String {
    let endings: Vec<String> = EXPORTERS
        .iter()
        .flat_map(|exporter| exporter.endings())
        .map(|ending| format!(".{ending}"))
        .collect();
    endings.join(", ")
}

/// The format for a file name; `-` (standard output) gets folded stacks.
///
/// # Errors
/// No format has the extension; the message lists those there are.
pub fn exporter(path: &Path) -> Result<&'static dyn Exporter, ExportError> {
    if path == Path::new("-") {
        return Ok(&FoldedText);
    }
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_ascii_lowercase();
    let has = |ending: &&str| {
        name.strip_suffix(*ending)
            .is_some_and(|stem| stem.len() > 1 && stem.ends_with('.'))
    };
    EXPORTERS
        .into_iter()
        .find(|exporter| exporter.endings().iter().any(has))
        .ok_or_else(|| ExportError::Ending {
            path: path.display().to_string(),
        })
}

/// Writes stacks to `out` in the format that `path` names; the caller opens the file.
///
/// # Errors
/// No format has the extension, there is no stack, or writing failed.
pub fn write(folded: &Folded, path: &Path, out: &mut dyn Write) -> Result<(), ExportError> {
    let exporter = exporter(path)?;
    if folded.stacks.is_empty() {
        return Err(ExportError::Empty);
    }
    Ok(exporter.write(folded, out)?)
}
