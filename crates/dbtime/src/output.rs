//! Standard output, files and the terminal: where answers go.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use dbtime_model::output::{Directory, Owner, Place, Readers};
use dbtime_model::recording::RecordingError;
use dbtime_report::{printable, printable_lines};
use rustix::termios::tcgetwinsize;

use crate::inputs;
use crate::printer::{Printer, Stream};
use crate::working;

/// Columns for text that goes to a file or a pipe.
const WIDTH_WITHOUT_TERMINAL: usize = 120;

/// Writes to standard output. A reader that stops early (`| head`) is not an error.
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

/// Writes a file that only its owner may read (stacks and SQL are production data), or standard output for `-`. For a name that is taken
/// see [`Place::write`]; descriptors passed by the caller (`/dev/stdout`, `/dev/fd/3`) are written to directly.
///
/// # Errors
/// The file cannot be written; a file that was there is unchanged.
pub fn to_file(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let written = match descriptor(path) {
        Some(libc::STDOUT_FILENO) => {
            working::end();
            return to_stdout(fill);
        }
        Some(number) => File::options()
            .append(true)
            .open(format!("/proc/self/fd/{number}"))
            .and_then(|file| {
                let mut out = BufWriter::new(file);
                fill(&mut out)?;
                out.flush()
            }),
        None => inputs::check(path)
            .and_then(|()| Place::of(path))
            .and_then(|place| place.write(Readers::Owner, fill)),
    };
    working::end();
    written.with_context(|| path.display().to_string())
}

/// The place of a new output. Whatever happens to the path later, the output ends up there.
///
/// # Errors
/// There is no such directory, or no file can be created in it.
pub fn place(path: &Path) -> anyhow::Result<Place> {
    Place::of(path).with_context(|| path.display().to_string())
}

/// Like [`place`], for an output that must not exist yet.
///
/// # Errors
/// As for [`place`], or the name is taken.
pub fn new_place(path: &Path) -> anyhow::Result<Place> {
    let place = place(path)?;
    match place.is_taken() {
        Ok(false) => Ok(place),
        Ok(true) => Err(RecordingError::Exists(path.to_path_buf()).into()),
        Err(e) => Err(e).with_context(|| path.display().to_string()),
    }
}

/// Hands an output to its owner. If that fails, it stays root's, and the message to print is returned.
pub fn give(directory: &Directory, owner: Option<Owner>) -> Option<String> {
    match directory.give(owner?) {
        Ok(()) => None,
        // It was empty and has been removed.
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => Some(format!(
            "{} still belongs to root: {e}",
            directory.path().display()
        )),
    }
}

/// The default name of what is made from a recording or a file, next to it: `slow.html` for `slow.dbt`.
///
/// # Errors
/// Standard input has no name.
pub fn sibling(path: &Path, ending: &str) -> Result<PathBuf, String> {
    if descriptor(path).is_some() || path == Path::new("/dev/stdin") {
        return Err("input from a pipe has no name: choose one for the output with -o".to_string());
    }
    // `slow.dbt/`, as a shell completes it, is the same name.
    let path: PathBuf = path.components().collect();
    match path.extension() {
        Some(old) if old == "dbt" => Ok(path.with_extension(ending)),
        _ => {
            let mut name = path.into_os_string();
            name.push(".");
            name.push(ending);
            Ok(name.into())
        }
    }
}

/// Which of our own descriptors a path refers to.
fn descriptor(path: &Path) -> Option<i32> {
    match path.to_str()? {
        "-" | "/dev/stdout" => Some(libc::STDOUT_FILENO),
        "/dev/stderr" => Some(libc::STDERR_FILENO),
        other => ["/dev/fd/", "/proc/self/fd/"]
            .iter()
            .find_map(|folder| other.strip_prefix(folder))?
            .parse()
            .ok(),
    }
}

/// Columns that text on standard output may use.
pub fn width() -> usize {
    width_of(&io::stdout()).unwrap_or(WIDTH_WITHOUT_TERMINAL)
}

/// Columns of a terminal; `None` if it is not one.
fn width_of(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    Some(match tcgetwinsize(stream) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => 80,
    })
}

/// Prints a line to standard error. It is made printable: names from outside must not add lines of their own. On a terminal it is wrapped
/// at blanks. A missing reader is no reason to stop.
pub fn say(text: std::fmt::Arguments<'_>) {
    working::end();
    let text = text.to_string();
    let line = match width_of(&io::stderr()) {
        Some(width) => dbtime_report::text::paragraph(&text, width),
        None => printable(&text).into_owned() + "\n",
    };
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Reports what could not be read, where the answer itself does not.
pub fn say_problems(problems: impl IntoIterator<Item = impl Display>) {
    for problem in problems {
        say(format_args!("dbtime: {problem}"));
    }
}

/// Like [`say`], for text that may have several lines, such as an error with another program's output: no further line can be mistaken for
/// one of dbtime's own.
pub fn say_lines(text: std::fmt::Arguments<'_>) {
    working::end();
    let _ = writeln!(io::stderr(), "{}", printable_lines(&marked(&text.to_string())));
}

fn marked(text: &str) -> String {
    text.replace('\n', "\n  | ")
}

/// Writes text for people, or JSON, to a file or to standard output: see [`to_file`]. It is made printable, whatever names it contains.
///
/// # Errors
/// The file cannot be written.
pub fn text_to_file(path: &Path, text: &str) -> anyhow::Result<()> {
    to_file(path, |out| out.write_all(printable_lines(text).as_bytes()))
}

/// Like [`text_to_file`], to standard output.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    to_stdout(|out| out.write_all(printable_lines(text).as_bytes()))
}

/// Like [`print`], piece by piece; false once the reader is gone.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_on(text: &str) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    let written = out.write_all(printable_lines(text).as_bytes());
    match written.and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        other => other.context("standard output").map(|()| true),
    }
}

/// Most bytes that may wait for the reader of standard error.
const WAITING_TO_BE_SAID: usize = 64 << 10;
/// How long to wait for the reader at the end.
const READ_WITHIN: Duration = Duration::from_secs(1);

/// A line on standard error that is redrawn in place; not shown if that is not a terminal.
pub struct ProgressLine {
    drawn: bool,
    /// Waits for the terminal on our behalf.
    printer: Option<Printer>,
}

impl ProgressLine {
    /// Nothing is drawn yet.
    pub fn new() -> ProgressLine {
        ProgressLine {
            drawn: false,
            printer: None,
        }
    }

    /// From now on nothing here waits for the terminal or for the pipe's reader: what cannot be written in time is dropped. If the thread
    /// that does the waiting cannot be started, nothing changes.
    pub fn wait_for_nobody(&mut self) {
        self.printer = Printer::start(Stream::Error, WAITING_TO_BE_SAID).ok();
    }

    /// Shows this text in place of the one before.
    pub fn show(&mut self, text: &str) {
        working::end();
        if io::stderr().is_terminal() {
            self.drawn = true;
            self.write(format!("\r\x1b[K{}", printable(text)));
        }
    }

    /// Makes room for other output.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            self.write("\r\x1b[K".to_string());
        }
    }

    /// Like [`say`], replacing the line.
    pub fn say(&mut self, text: std::fmt::Arguments<'_>) {
        self.clear();
        self.write(format!("{}\n", printable(&text.to_string())));
    }

    fn write(&mut self, text: String) {
        match &mut self.printer {
            Some(printer) => printer.print(text),
            None => {
                let _ = io::stderr().write_all(text.as_bytes());
            }
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
        if let Some(printer) = self.printer.take() {
            printer.finish_within(READ_WITHIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_of_a_recording_lies_beside_it() {
        for (recording, page) in [
            ("slow.dbt", "slow.html"),
            ("/data/slow.dbt/", "/data/slow.html"),
            ("db_ora_7.trc.gz", "db_ora_7.trc.gz.html"),
        ] {
            assert_eq!(sibling(Path::new(recording), "html"), Ok(PathBuf::from(page)));
        }
        for pipe in ["-", "/dev/stdin", "/dev/fd/3"] {
            assert!(sibling(Path::new(pipe), "html").is_err(), "{pipe}");
        }
    }

    #[test]
    fn further_lines_are_marked() {
        assert_eq!(
            marked("initdb failed:\none\ndbtime: two"),
            "initdb failed:\n  | one\n  | dbtime: two"
        );
    }
}
