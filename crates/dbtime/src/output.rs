//! Standard output, files and the terminal: where answers go.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;

/// Columns for text that goes to a file or a pipe.
const WIDTH_WITHOUT_TERMINAL: usize = 120;

/// Writes to standard output. A reader that has seen enough (`| head`) is no error.
///
/// # Errors
/// Standard output cannot be written.
pub fn to_stdout(fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    match fill(&mut out).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("standard output"),
    }
}

/// Writes a file that only its owner may read (stacks and SQL are production data), or standard output for `-`.
///
/// # Errors
/// The file cannot be written.
pub fn to_file(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    if path == Path::new("-") {
        return to_stdout(fill);
    }
    let write = || -> io::Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)?;
        let mut out = BufWriter::new(file);
        fill(&mut out)?;
        out.flush()
    };
    write().with_context(|| path.display().to_string())
}

/// Columns that text may use.
pub fn width() -> usize {
    if !io::stdout().is_terminal() {
        return WIDTH_WITHOUT_TERMINAL;
    }
    // SAFETY: winsize is plain integers, for which zero is a value; the call fills it.
    let (answered, size) = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (
            libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) == 0,
            size,
        )
    };
    if answered && size.ws_col > 0 {
        usize::from(size.ws_col)
    } else {
        80
    }
}

/// Prints to standard error. Nobody reading it is no reason to stop.
pub fn say(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// One line on standard error that is drawn anew; nothing when it is no terminal.
pub struct ProgressLine {
    drawn: bool,
}

impl ProgressLine {
    /// Nothing is drawn yet.
    pub fn new() -> ProgressLine {
        ProgressLine { drawn: false }
    }

    /// Shows this text in place of the one before.
    pub fn show(&mut self, text: &str) {
        if io::stderr().is_terminal() {
            self.drawn = true;
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
        }
    }

    /// Makes room for other output.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Default for ProgressLine {
    fn default() -> ProgressLine {
        ProgressLine::new()
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}
