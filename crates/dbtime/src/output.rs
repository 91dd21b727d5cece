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

/// Writes a file that only its owner may read (stacks and SQL are production data), or standard output for `-`. How a name
/// that is taken is treated is told at [`Place::write`]; descriptors that the caller gave (`/dev/stdout`, `/dev/fd/3`) are
/// written as they are.
///
/// # Errors
/// The file cannot be written; one that was there is as it was.
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

/// Where a new output is to be. Whatever becomes of the path later, the output lands there.
///
/// # Errors
/// There is no such directory, or nothing is to be made in it.
pub fn place(path: &Path) -> anyhow::Result<Place> {
    Place::of(path).with_context(|| path.display().to_string())
}

/// As [`place`], for what must be new.
///
/// # Errors
/// The name is taken, too.
pub fn new_place(path: &Path) -> anyhow::Result<Place> {
    let place = place(path)?;
    match place.is_taken() {
        Ok(false) => Ok(place),
        Ok(true) => Err(RecordingError::Exists(path.to_path_buf()).into()),
        Err(e) => Err(e).with_context(|| path.display().to_string()),
    }
}

/// Gives what was made to whom it belongs. Where that cannot be it stays root's: the answer is what to say of it.
pub fn give(directory: &Directory, owner: Option<Owner>) -> Option<String> {
    match directory.give(owner?) {
        Ok(()) => None,
        // It is gone: there was nothing in it.
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => Some(format!(
            "{} still belongs to root: {e}",
            directory.path().display()
        )),
    }
}

/// The name beside a recording, or a file, of what is made of it: `slow.html` of `slow.dbt`.
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

/// The descriptor of our own that is meant by a name.
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

/// Columns of a terminal; none: it is none.
fn width_of(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    Some(match tcgetwinsize(stream) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => 80,
    })
}

/// Prints a line to standard error, made printable: there are names of others in it, which bring no lines of their own. On a terminal it
/// is broken at blanks. Nobody reading it is no reason to stop.
pub fn say(text: std::fmt::Arguments<'_>) {
    working::end();
    let text = text.to_string();
    let line = match width_of(&io::stderr()) {
        Some(width) => dbtime_report::text::paragraph(&text, width),
        None => printable(&text).into_owned() + "\n",
    };
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Tells what could not be read, where it is not the answer that does.
pub fn say_problems(problems: impl IntoIterator<Item = impl Display>) {
    for problem in problems {
        say(format_args!("dbtime: {problem}"));
    }
}

/// As [`say`], for what may have several lines, such as an error with what another program said: no further line can be taken for one of
/// dbtime's own.
pub fn say_lines(text: std::fmt::Arguments<'_>) {
    working::end();
    let _ = writeln!(io::stderr(), "{}", printable_lines(&marked(&text.to_string())));
}

fn marked(text: &str) -> String {
    text.replace('\n', "\n  | ")
}

/// Writes text for people, or JSON, to a file or to standard output: see [`to_file`]. All of it is printable, whatever names are in it.
///
/// # Errors
/// The file cannot be written.
pub fn text_to_file(path: &Path, text: &str) -> anyhow::Result<()> {
    to_file(path, |out| out.write_all(printable_lines(text).as_bytes()))
}

/// As [`text_to_file`], to standard output.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    to_stdout(|out| out.write_all(printable_lines(text).as_bytes()))
}

/// As [`print`], piece by piece: false when nobody reads any longer.
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

/// Bytes that may wait for who reads standard error.
const WAITING_TO_BE_SAID: usize = 64 << 10;
/// How long they are waited for in the end.
const READ_WITHIN: Duration = Duration::from_secs(1);

/// One line on standard error that is drawn anew; nothing when it is no terminal.
pub struct ProgressLine {
    drawn: bool,
    /// Waits for the terminal.
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

    /// From now on nothing here waits for the terminal, or for who reads the pipe: what cannot be said in time is not. Where there can be
    /// no thread that waits, all is as it was.
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

    /// As [`say`], in place of the line.
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
