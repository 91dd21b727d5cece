//! `soak`: how much disk and memory a recording that runs for days takes, with an accelerated clock.
//!
//! The whole minutes of a recording are written again and again, with later times, as `dbtime record --resolution` writes them: the same
//! windows, the same writer, a segment a minute, merged into one file every hour. Sessions that began during the recording are different
//! ones each time, and all amounts change: those of a second grow or shrink by the same factor, so that what is about equal in a real
//! recording (the time that passed for each session, the parts of single samples) stays so. Stacks are those of the recording; the
//! additional ones that a day has are missing. Collecting itself is not included: its cost is in the `meta.json` of the recording.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use dbtime::output::{say, to_stdout};
use dbtime_model::recording::{Meta, Recording, RecordingWriter};
use dbtime_model::{Rows, SessionId, SessionRow, Table, Timed, Windows};

#[derive(Debug, Parser)]
struct Arguments {
    /// A recording of some minutes, of single seconds
    recording: PathBuf,
    /// Hours that it is made to last
    #[arg(long, default_value_t = 24)]
    hours: u32,
    /// Seconds of a window, as in `record --resolution`
    #[arg(long, default_value_t = 10)]
    resolution: u32,
    /// Directory to create for the recording that is made
    #[arg(short, long)]
    output: PathBuf,
}

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;

fn main() -> ExitCode {
    match soak(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say(format_args!("soak: {e:#}"));
            ExitCode::FAILURE
        }
    }
}

fn soak(arguments: &Arguments) -> Result<()> {
    let recording = Recording::open(&arguments.recording)?;
    let meta = recording.meta().clone();
    let begin = (meta.start_us / SECOND_US + 1) * SECOND_US;
    let length = (meta.end_us - begin) / MINUTE_US;
    if length == 0 {
        bail!("{}: less than a minute", arguments.recording.display());
    }
    let recorded = rows_of(&recording)?;
    let begun = begun_meanwhile(&recorded, &meta);
    let minutes_of_it: Vec<Rows> = (0..length)
        .map(|minute| within(&recorded, begin + minute * MINUTE_US))
        .collect();
    let mut writer = RecordingWriter::create(
        &arguments.output,
        Meta {
            segments: Default::default(),
            ..meta.clone()
        },
    )?;
    let mut windows = Windows::new(arguments.resolution, begin);
    let cpu_before = usage().0;
    let mut table = "| hours | MB | files | largest resident set, MB |\n|---:|---:|---:|---:|\n".to_string();
    let minutes = i64::from(arguments.hours) * 60;
    for number in 0..minutes {
        let minute = &minutes_of_it[usize::try_from(number % length)?];
        let mut rows = later(minute, number / length, length * MINUTE_US, &begun);
        if number == 0 {
            // What never changes.
            rows.sessions = recorded.sessions.clone();
            rows.stacks = recorded.stacks.clone();
            rows.statements = recorded.statements.clone();
        }
        let now = begin + (number + 1) * MINUTE_US;
        let mut rows = windows.pass(rows, now);
        if number + 1 == minutes {
            rows.append(windows.finish());
        }
        writer.meta().end_us = now;
        writer.write(&rows)?;
        if (number + 1) % 60 == 0 {
            writer.begin_compacting(false)?;
            writer.go_on_compacting(true)?;
        }
        if matches!(number + 1, 60 | 360 | 720) || number + 1 == minutes {
            let (bytes, files) = size(&arguments.output)?;
            table += &format!(
                "| {:.0} | {:.1} | {files} | {:.0} |\n",
                (number + 1) as f64 / 60.0,
                bytes as f64 / 1e6,
                usage().1 as f64 / 1e6
            );
        }
    }
    let cpu = usage().0.saturating_sub(cpu_before);
    writer.finish()?;
    let text = format!(
        "{table}\nSessions that began in the {length} minutes: {}. CPU of windows and writing: {:.2} % of a core of the time that is simulated.\n",
        begun.len(),
        cpu.as_secs_f64() * 100.0 / (minutes * 60) as f64
    );
    to_stdout(|out| out.write_all(text.as_bytes()))
}

fn rows_of(recording: &Recording) -> Result<Rows> {
    let mut rows = Rows::default();
    take(recording, &mut rows.activity)?;
    take(recording, &mut rows.counters)?;
    take(recording, &mut rows.latency)?;
    take(recording, &mut rows.sessions)?;
    take(recording, &mut rows.stacks)?;
    take(recording, &mut rows.statements)?;
    Ok(rows)
}

fn take<T: Table>(recording: &Recording, rows: &mut Vec<T>) -> Result<()> {
    let problems = recording.read(|batch| rows.extend(batch));
    match problems.first() {
        Some(problem) => bail!("{}", problem.0),
        None => Ok(()),
    }
}

/// Sessions that began during the recording.
fn begun_meanwhile(minute: &Rows, meta: &Meta) -> BTreeSet<SessionId> {
    let begun = minute
        .sessions
        .iter()
        .filter(|session| session.started >= meta.start_us);
    begun.map(|session| session.id).collect()
}

/// The rows of the minute that begins then.
fn within(recorded: &Rows, begin: i64) -> Rows {
    fn of<T: Timed + Clone>(rows: &[T], begin: i64) -> Vec<T> {
        let is_in = |row: &&T| (begin..begin + MINUTE_US).contains(&row.time());
        rows.iter().filter(is_in).cloned().collect()
    }
    let is_in = |session: &&SessionRow| (begin..begin + MINUTE_US).contains(&session.started);
    Rows {
        activity: of(&recorded.activity, begin),
        counters: of(&recorded.counters, begin),
        latency: of(&recorded.latency, begin),
        sessions: recorded.sessions.iter().filter(is_in).cloned().collect(),
        ..Rows::default()
    }
}

/// The minute, as repeated in this round.
fn later(minute: &Rows, round: i64, round_us: i64, begun: &BTreeSet<SessionId>) -> Rows {
    let mut rows = minute.clone();
    let us = round * round_us;
    let other = |session: &mut SessionId| {
        if begun.contains(session) {
            session.0 += round.unsigned_abs() << 32;
        }
    };
    for row in &mut rows.activity {
        row.ns = noisy(row.ns, row.time, round);
        row.time += us;
        other(&mut row.session);
    }
    for row in &mut rows.counters {
        row.value = noisy(row.value.unsigned_abs(), row.time, round).cast_signed();
        row.time += us;
        other(&mut row.session);
    }
    for row in &mut rows.latency {
        row.time += us;
        other(&mut row.session);
    }
    for row in &mut rows.sessions {
        row.started += us;
        other(&mut row.id);
    }
    rows
}

/// Up to an eighth more or less: no two real rounds are equal, and equal ones would take no space.
fn noisy(amount: u64, time: i64, round: i64) -> u64 {
    let seed = time.unsigned_abs().rotate_left(32) ^ round.unsigned_abs();
    let factor = 0.875 + 0.25 * fastrand::Rng::with_seed(seed).f64();
    (amount as f64 * factor) as u64
}

/// Bytes and files below a directory.
fn size(directory: &Path) -> Result<(u64, u64)> {
    let (mut bytes, mut files) = (0, 0);
    for entry in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_dir() {
            let below = size(&entry.path())?;
            bytes += below.0;
            files += below.1;
        } else {
            bytes += meta.len();
            files += 1;
        }
    }
    Ok((bytes, files))
}

/// CPU of this process so far, and the largest resident set that it had, bytes.
fn usage() -> (Duration, u64) {
    // SAFETY: all zeros is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writing; RUSAGE_SELF exists on every Linux.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let time =
        |of: libc::timeval| Duration::from_secs(of.tv_sec as u64) + Duration::from_micros(of.tv_usec as u64);
    (
        time(usage.ru_utime) + time(usage.ru_stime),
        usage.ru_maxrss as u64 * 1024,
    )
}
