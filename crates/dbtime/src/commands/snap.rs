//! `dbtime snap`: how much statistics, times and waits of sessions grow within some seconds, snapshot after snapshot.

use std::process::ExitCode;

use clap::Args;
use dbtime_collect::{Locks, Options};
use dbtime_report::{Filter, LineKind, Snapshot, SnapshotColumn, SnapshotOptions, snapshot_csv};

use super::SNAPSHOT_SESSIONS;
use crate::exit_code::NOTHING_RECORDED;
use crate::live::{self, Kept, Late, Length, Plan};
use crate::memory;
use crate::options::time::parse_whole_seconds;
use crate::options::{
    LiveRate, Precision, ServerStatistics, ShownTexts, SnapshotFormat, TargetOptions, above_zero, each_once,
};
use crate::output::{self, say};
use crate::remains::mend;
use crate::signals::{Second, stop_on_signals};
use crate::usage::Usage;
use crate::who;

/// `dbtime snap`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo dbtime snap 5 1 all\n  sudo dbtime snap 10 6 fg user=bob ash=query,wait\n  \
    sudo dbtime snap end 1 4711 --exact=calls\n  sudo dbtime snap 10 1 all --connect include=pg_stat_io\n\n\
    WHO is any of these words. Several pids, or values of one name, are alternatives; different names must all match:\n  \
    all, fg, bg                 all processes of the server; those that work for clients; the others\n  \
    4711  4711,4712             pids\n  \
    user=bob  database=shop  application=… client=… backend_type=…\n  \
    user='a b'  user=           a value with blanks; sessions without one, or for which it is not known\n  \
    wait=IO  state=disk  query=-42    only that time, without statistics\nAlso:\n  \
    gather=stw                  s statistics, t times, w waits, l LWLocks held, o locks of pg_locks held and awaited,\n  \
    \x20                           a all [default: stw]\n  \
    include=TEXT                only what has TEXT in its name\n  \
    ash=query,wait,state        average active sessions by these"
)]
pub struct SnapArguments {
    /// Length of a snapshot: seconds, or 30s, 1m; 'end' = until Ctrl-C
    #[arg(value_name = "SECONDS", value_parser = parse_length)]
    length: Length,
    /// How many snapshots, one after the other
    #[arg(value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Which sessions, and what of them: see below [default: all]
    #[arg(value_name = "WHO")]
    who: Vec<String>,
    /// Whose
    #[command(flatten)]
    target: TargetOptions,
    #[command(flatten)]
    precision: Precision,
    /// What the server counts
    #[command(flatten)]
    statistics: ServerStatistics,
    /// How often
    #[command(flatten)]
    rate: LiveRate,
    /// What of statements
    #[command(flatten)]
    texts: ShownTexts,
    /// How it is shown
    #[command(flatten)]
    layout: SnapLayout,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: SnapshotFormat,
}

/// How a snapshot is shown as text.
#[derive(Debug, Args)]
struct SnapLayout {
    /// Columns of a snapshot: delta, delta/s, hdelta, hdelta/s, %time, graph, waits, waits/s, average
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', default_values_t = SnapshotColumn::USUAL)]
    columns: Vec<SnapshotColumn>,
    /// Sessions of a snapshot to show: those with the most time
    #[arg(long, value_name = "N", value_parser = above_zero, default_value_t = SNAPSHOT_SESSIONS)]
    sessions: usize,
}

/// `10`, `30s`, `1m`: whole seconds; `end`.
fn parse_length(text: &str) -> Result<Length, String> {
    if text == "end" {
        return Ok(Length::UntilTheEnd);
    }
    parse_whole_seconds(text)
        .map(Length::Seconds)
        .map_err(|e| format!("{e}, or 'end'"))
}

/// Shows snapshots, as many as wanted or until the user stops it.
///
/// # Errors
/// An argument is not understood; recording cannot begin; the output cannot be written.
pub(super) fn run(arguments: &SnapArguments) -> anyhow::Result<ExitCode> {
    mend();
    // Before all else: until then, a shell's background job ignores Ctrl-C.
    let stop = stop_on_signals(Second::Ends)?;
    memory::give_back();
    if arguments.length == Length::UntilTheEnd && arguments.count > 1 {
        return Err(Usage("'end' takes only one snapshot".to_string()).into());
    }
    let wanted = who::parse(&arguments.who).map_err(Usage)?;
    each_once(&arguments.layout.columns).map_err(Usage)?;
    let target = arguments
        .target
        .target_of(&wanted.filter.sessions)
        .map_err(Usage)?;
    let plan = Plan {
        collect: Options {
            mechanism: arguments.precision.mechanism().map_err(Usage)?,
            tier: arguments.precision.tier(),
            texts: arguments.texts.text.into(),
            task_counts: true,
            connect: arguments.statistics.connect.clone(),
            standbys: Vec::new(),
            at_once: true,
            stacks: false,
            causes: false,
            locks: match wanted.gather.contains(&LineKind::Lock) {
                true => Locks::All,
                false => Locks::None,
            },
            ..Options::sampled(target, arguments.rate.rate_hz)
        },
        length: arguments.length,
        count: arguments.count,
        kept: Kept {
            statements: true,
            counters: dbtime_report::is_for_snapshot,
            late: Late::IsLeftOut,
        },
        levels: wanted.gather.contains(&LineKind::Stat) && wanted.filter.chooses_no_time(),
        tells_progress: true,
    };
    let mut is_empty = true;
    let mut is_first = true;
    live::take(&plan, &stop, &mut |one| {
        if arguments.format == SnapshotFormat::Csv && std::mem::take(&mut is_first) {
            output::print_on(&snapshot_csv::head())?;
        }
        let options = SnapshotOptions {
            filter: Filter {
                from_us: one.time.from_us,
                to_us: one.time.to_us,
                ..wanted.filter.clone()
            },
            most: (arguments.format == SnapshotFormat::Text).then_some(arguments.layout.sessions),
            ..wanted.clone()
        };
        match dbtime_report::snapshot(&one.source, &options) {
            Ok(snapshot) => {
                is_empty &= snapshot.sessions.is_empty();
                output::print_on(&rendered(&snapshot, arguments)?)
            }
            // The next one may have them.
            Err(e) => {
                say(format_args!("dbtime: {e}"));
                Ok(true)
            }
        }
    })?;
    Ok(match is_empty {
        true => ExitCode::from(NOTHING_RECORDED),
        false => ExitCode::SUCCESS,
    })
}

fn rendered(snapshot: &Snapshot, arguments: &SnapArguments) -> anyhow::Result<String> {
    let layout = &arguments.layout;
    Ok(match arguments.format {
        SnapshotFormat::Text => {
            dbtime_report::text::render_snapshot(snapshot, &layout.columns, output::width())
        }
        SnapshotFormat::Csv => snapshot_csv::render(snapshot)?,
        SnapshotFormat::Json => dbtime_report::json::render_snapshot(snapshot),
    })
}
