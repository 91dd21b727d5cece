//! `import_functions`: how fast traces of kernel functions are read, compared with `grep -c` and `wc -l` on the same file, as Markdown.
//!
//! All run in turn, as separate processes on one CPU. grep runs twice: the second one is the control. The input is a function_graph trace,
//! repeated, each time with times right after those before: once until it is large enough to be timed, and once much larger, to see that
//! memory does not grow. A benchmark asserts nothing about time.

#[path = "../child.rs"]
mod child;
#[path = "../turns.rs"]
mod turns;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Parser;
use dbtime::output::{say, to_stdout};

#[derive(Debug, Parser)]
struct Arguments {
    /// Text of function_graph with moments (option funcgraph-abstime) [default: two calls of the tests of the importer]
    file: Option<PathBuf>,
    /// Size of the file that is timed, MB
    #[arg(long, default_value_t = 200)]
    megabytes: u64,
    /// Size of the file that is read once for its memory, MB
    #[arg(long, default_value_t = 1_000)]
    large_megabytes: u64,
    /// Runs of each
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// CPU that all run on
    #[arg(long, default_value_t = 0)]
    cpu: usize,
}

/// From the last line of a repetition to the first one of the next.
const BETWEEN_US: u64 = 1_000;

fn main() -> ExitCode {
    match compare(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say(format_args!("import_functions: {e:#}"));
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &Arguments) -> Result<()> {
    let dbtime = child::dbtime()?;
    let of_tests =
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/import/tests/fixtures/kernel.fgraph");
    let source = arguments.file.clone().unwrap_or_else(of_tests);
    let text = std::fs::read_to_string(&source).with_context(|| source.display().to_string())?;
    let scratch = tempfile::tempdir()?;
    let file = scratch.path().join("made.fgraph");
    let lines = make(&file, &text, arguments.megabytes * 1_000_000)?;
    let command = |program: &Path, words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).arg(&file);
        command
    };
    let programs = [
        ("grep -c '{'", command(Path::new("grep"), &["-c", "{"])),
        (
            "grep -c '{' again (control)",
            command(Path::new("grep"), &["-c", "{"]),
        ),
        ("wc -l", command(Path::new("wc"), &["-l"])),
        ("**dbtime report**", command(&dbtime, &["report"])),
        (
            "**dbtime report --format json**",
            command(&dbtime, &["report", "--format", "json"]),
        ),
    ];
    let turns = turns::run(&programs, arguments.rounds, arguments.cpu)?;
    let megabytes = file.metadata()?.len() as f64 / 1e6;
    make(&file, &text, arguments.large_megabytes * 1_000_000)?;
    let (time, max_rss_bytes) = child::run(&programs[3].1, arguments.cpu)?;
    let large = file.metadata()?.len() as f64 / 1e6;
    let page = format!(
        "{} repeated: {megabytes:.0} MB, {lines} lines, CPU time, median of {} rounds in turn\n\n{}\n\
         {large:.0} MB of it, once: {:.0} MB/s, largest resident set {:.0} MB\n",
        source.file_name().unwrap_or_default().to_string_lossy(),
        arguments.rounds,
        turns.table(megabytes),
        large / time.as_secs_f64(),
        max_rss_bytes as f64 / 1e6
    );
    to_stdout(|out| out.write_all(page.as_bytes()))
}

/// Writes the text repeatedly until it is about this long; returns the number of lines.
fn make(path: &Path, text: &str, bytes: u64) -> Result<u64> {
    let moments = || text.lines().filter_map(moment).map(|(us, _)| us);
    let first = moments().min().context("no line begins with a moment")?;
    let span = moments().max().unwrap_or(first) - first + BETWEEN_US;
    let mut out = BufWriter::new(File::create(path)?);
    let (mut written, mut lines, mut later) = (0, 0, 0);
    while written < bytes {
        for line in text.lines() {
            let line = match moment(line) {
                Some((us, behind)) => {
                    let us = us + later;
                    format!("{:5}.{:06}{behind}\n", us / 1_000_000, us % 1_000_000)
                }
                None => format!("{line}\n"),
            };
            out.write_all(line.as_bytes())?;
            written += line.len() as u64;
            lines += 1;
        }
        later += span;
    }
    out.flush()?;
    Ok(lines)
}

/// `   20.949637 | …`: microseconds, and what follows them.
fn moment(line: &str) -> Option<(u64, &str)> {
    let (seconds, behind) = line.split_once('.')?;
    let (fraction, _) = behind.split_at_checked(6)?;
    let us = seconds.trim_start().parse::<u64>().ok()? * 1_000_000 + fraction.parse::<u64>().ok()?;
    Some((us, &behind[6..]))
}
