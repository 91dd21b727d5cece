//! `dbtime record`: shows progress while it runs, and the ledger at the end; optionally makes a page.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use dbtime_collect::{Locks, Options};
use dbtime_model::output::{Directory, caller_of_sudo};
use dbtime_model::recording::Meta;
use dbtime_report::{Filter, Source, next_steps, shell_word};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::exit_code::NOTHING_RECORDED;
use crate::memory;
use crate::options::time::{parse_resolution, parse_rotation};
use crate::options::{Precision, ServerStatistics, StopAfter, TargetOptions, TextKind, any_rate};
use crate::output::{self, ProgressLine, say, sibling};
use crate::page;
use crate::record::{Measure, Outcome, Output, Plan, Progress, Standing, Watched, record};
use crate::remains::mend;
use crate::signals::{Second, stop_on_signals};
use crate::usage::Usage;
use clap::Args;

/// `dbtime record`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo dbtime record\n  sudo dbtime record -d 60 -o slow.dbt --html\n  sudo dbtime record --postgres /var/lib/postgresql/15/main --exact=calls -d 30"
)]
pub struct RecordArguments {
    #[command(flatten)]
    target: TargetOptions,
    /// Also record what receives and replays WAL on this standby of the server, on the same host: commits that wait for it are followed
    /// there; may be repeated
    #[arg(long, value_name = "DATADIR", conflicts_with_all = ["process", "oracle"])]
    standby: Vec<PathBuf>,
    /// For how long
    #[command(flatten)]
    stop: StopAfter,
    /// Samples per second and session
    #[arg(short = 'F', long = "frequency", value_name = "HZ", default_value_t = 99, value_parser = any_rate())]
    rate_hz: u32,
    #[command(flatten)]
    precision: Precision,
    /// With --exact, also record who ends each sleep ('report --causes' does not need it)
    #[arg(long, requires = "exact")]
    wakers: bool,
    /// With --oracle and --exact, also time Oracle's waits with probes in its functions, and record how long the database says they took
    #[arg(long, requires = "exact", requires = "oracle")]
    uprobes: bool,
    /// What is kept of the texts of statements
    #[arg(long, value_name = "WHAT", default_value = "normalized")]
    text: TextKind,
    /// Also count the switches, faults, calls and bytes of each session: 'dbtime report --snapshot' shows them
    #[arg(long)]
    statistics: bool,
    /// What the server counts
    #[command(flatten)]
    server: ServerStatistics,
    /// Length of a row after the first five minutes: 10s, 1m. For recordings that run for hours
    #[arg(long = "resolution", value_name = "TIME", default_value = "1s", value_parser = parse_resolution)]
    resolution_s: u32,
    /// Begin a new recording at every multiple of this time, UTC, without a gap: 20s to 1d (10m, 1h), of which a day is a multiple
    #[arg(long, value_name = "TIME", value_parser = parse_rotation, conflicts_with = "html")]
    rotate: Option<Duration>,
    /// Sample by visiting all tasks of the host, as on kernels before 6.2
    #[arg(long, hide = true)]
    task_iterator: bool,
    /// Print a line of JSON for each second: average sessions that were active, in the run queue, in a wait, in a statement. For the agent
    #[arg(long, hide = true, value_name = "MEASURE", requires = "rotate")]
    watch: Vec<Measure>,
    /// The condition for which the agent starts it
    #[arg(long, hide = true, value_name = "TEXT")]
    flight: Option<String>,
    /// Also write the page of 'dbtime html', next to the recording
    #[arg(long)]
    html: bool,
    /// Directory to create for the recording; with --rotate, for recordings named after server and time [default:
    /// named after the server and the time, in the current directory]
    #[arg(short, long, value_name = "NAME.dbt")]
    output: Option<PathBuf>,
}

/// Records, and shows where the time went.
///
/// # Errors
/// Recording cannot begin, or the recording or the page cannot be written.
pub(super) fn run(arguments: &RecordArguments) -> anyhow::Result<ExitCode> {
    mend();
    // Before all else: until then, a shell's background job ignores Ctrl-C.
    let stop = stop_on_signals(Second::Ends)?;
    memory::give_back();
    let resolution = Duration::from_secs(arguments.resolution_s.into());
    if arguments
        .rotate
        .is_some_and(|rotate| !rotate.as_nanos().is_multiple_of(resolution.as_nanos()))
    {
        return Err(Usage("--rotate must be a multiple of --resolution".to_string()).into());
    }
    let plan = Plan {
        collect: Options {
            target: arguments.target.target(),
            rate_hz: arguments.rate_hz,
            mechanism: arguments.precision.mechanism().map_err(Usage)?,
            tier: arguments.precision.tier(),
            wakers: arguments.wakers,
            uprobes: arguments.uprobes,
            lock_uses: false,
            stacks: true,
            causes: true,
            texts: arguments.text.into(),
            standbys: arguments.standby.clone(),
            task_counts: arguments.statistics,
            locks: Locks::ThatMatter,
            connect: arguments.server.connect.clone(),
            at_once: false,
            resolution_s: arguments.resolution_s,
            task_iterator: arguments.task_iterator,
        },
        duration: arguments.stop.duration,
        // Before anything is attached: a wrong name should show now, not after an hour.
        output: match (&arguments.output, arguments.rotate) {
            (Some(path), None) => Output::At(output::new_place(path)?),
            (Some(path), Some(_)) => Output::In(Arc::new(directory(path)?)),
            (None, _) => Output::In(Arc::new(directory(Path::new("."))?)),
        },
        rotate: arguments.rotate,
        watch: arguments.watch.clone(),
        flight: arguments.flight.clone().unwrap_or_default(),
        owner: caller_of_sudo(),
        alone: true,
    };
    if !plan.watch.is_empty() {
        let stdout = std::io::stdout();
        fcntl_setfl(&stdout, fcntl_getfl(&stdout)? | OFlags::NONBLOCK)?;
    }
    let mut line = ProgressLine::new();
    line.show("attaching …");
    let outcome = record(&plan, &stop, &mut |progress| match progress {
        Progress::Started { meta, path } => {
            line.wait_for_nobody();
            say_what(&plan, meta, path, &mut line);
        }
        Progress::Elapsed(_) => {}
        Progress::Standing(standing) => line.show(&told(&standing, plan.duration)),
        Progress::Watched(second) => print_second(second),
        Progress::Complete { path, bytes } => say_complete(path, bytes, &mut line),
        Progress::Note(note) => line.say(format_args!("note: {note}")),
    })?;
    // Nobody waits for the ledger of one of many.
    let is_one_of_many = plan.rotate.is_some() || !plan.flight.is_empty();
    if is_one_of_many && outcome.activity_rows > 0 {
        say_complete(&outcome.path, outcome.meta.cost.bytes_written, &mut line);
    }
    drop(line);
    if outcome.activity_rows == 0 {
        say(format_args!(
            "dbtime: nothing was recorded, and {} was not created: no session lived long enough to be seen",
            outcome.path.display()
        ));
        return Ok(ExitCode::from(NOTHING_RECORDED));
    }
    if !is_one_of_many {
        show(outcome, arguments.html)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A directory for recordings that get default names; created if it does not exist.
fn directory(path: &Path) -> anyhow::Result<Directory> {
    Directory::open_or_make(path).with_context(|| path.display().to_string())
}

/// Reports one of many as complete.
fn say_complete(path: &Path, bytes: u64, line: &mut ProgressLine) {
    line.say(format_args!(
        "complete: {} ({:.1} MB)",
        path.display(),
        bytes as f64 / 1e6
    ));
}

/// Prints a line of JSON for whoever watches. If nobody reads, it is dropped: recording never waits.
fn print_second(second: &Watched) {
    if let Ok(mut line) = serde_json::to_string(second) {
        line.push('\n');
        // A pipe takes this little either completely or not at all.
        let _ = rustix::io::write(std::io::stdout(), line.as_bytes());
    }
}

/// Says what is recorded, and what it has to do without.
fn say_what(plan: &Plan, meta: &Meta, path: &Path, line: &mut ProgressLine) {
    let until = match plan.duration {
        Some(duration) => format!("for {} s", duration.as_secs_f64()),
        None => "until Ctrl-C".to_string(),
    };
    let into = match plan.output {
        Output::At(_) => String::new(),
        Output::In(_) => format!(", into {}", path.display()),
    };
    line.say(format_args!(
        "recording {} {} ({}) at {} Hz {until}{into}",
        meta.database.product, meta.database.version, meta.database.target, meta.collector.rate_hz
    ));
    for reason in &meta.collector.reasons {
        line.say(format_args!("note: {reason}"));
    }
}

/// The progress line.
fn told(standing: &Standing, duration: Option<Duration>) -> String {
    let elapsed = standing.elapsed.as_secs();
    let time = match duration {
        Some(duration) => format!("{elapsed} of {} s", duration.as_secs_f64()),
        None => format!("{elapsed} s"),
    };
    let active = standing
        .active
        .map_or_else(String::new, |active| format!(" ({active:.2} active on average)"));
    format!(
        "{time}   sessions {}{active}   samples {}   {:.1} MB",
        standing.sessions,
        standing.samples,
        standing.bytes as f64 / 1e6
    )
}

/// The ledger, optionally a page, and what to ask next. The recording is read where it was written, whatever its name refers to now.
fn show(outcome: Outcome, with_page: bool) -> anyhow::Result<()> {
    let Outcome { path, directory, .. } = outcome;
    let source = Source::inside(directory)?;
    let report = dbtime_report::report(&source, &dbtime_report::Options::default())?;
    let name = path.display().to_string();
    let width = output::width();
    let text = dbtime_report::text::render_summary(&report, width)
        + &dbtime_report::text::render_next_steps(&next_steps(&report), &[&name], width);
    output::print(&text)?;
    if with_page {
        let page = sibling(&path, "html").map_err(Usage)?;
        if page::write(&source, &Filter::default(), &page)? {
            page::say_where(&page);
        }
    }
    say(format_args!(
        "recorded {name}: see it with 'dbtime report {}'",
        shell_word(&name)
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_it_is() {
        let mut standing = Standing {
            elapsed: Duration::from_millis(12_020),
            sessions: 23,
            active: None,
            samples: 8123,
            bytes: 310_000,
        };
        assert_eq!(
            told(&standing, None),
            "12 s   sessions 23   samples 8123   0.3 MB"
        );
        standing.active = Some(1.8444);
        assert_eq!(
            told(&standing, Some(Duration::from_secs(60))),
            "12 of 60 s   sessions 23 (1.84 active on average)   samples 8123   0.3 MB"
        );
    }
}
