//! `dbtime latch`: who holds the server's internal locks, and transactions' locks, now.

use std::process::ExitCode;

use clap::Args;
use dbtime_collect::{Locks, Options};
use dbtime_report::{Filter, LatchOptions};

use crate::exit_code::NOTHING_RECORDED;
use crate::live::{self, Kept, Late, Length, Plan};
use crate::memory;
use crate::options::TableFormat;
use crate::options::time::parse_whole_seconds;
use crate::options::{LatchLayout, LiveRate, ShownTexts, TargetOptions, above_zero, each_once};
use crate::output::{self, say};
use crate::remains::mend;
use crate::signals::{Second, stop_on_signals};
use crate::usage::Usage;
use crate::who;

/// `dbtime latch`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo dbtime latch\n  sudo dbtime latch -d 30 --columns name,lock,query,where\n  \
    sudo dbtime latch --columns session,name,mode user=bob\n  \
    sudo dbtime latch --exact\n  sudo dbtime latch --all-locks --top 50\n\n\
    WHO is any of these words. Several pids, or values of one name, are alternatives; different names must all match:\n  \
    all, fg, bg                 all sessions; those that work for clients; the others\n  \
    4711  4711,4712             pids\n  \
    user=bob  database=shop  application=… client=… backend_type=…\n  \
    user='a b'  user=           a value with blanks; sessions without one, or for which it is not known\n  \
    wait=IO:WALSync  state=disk  query=-42"
)]
pub struct LatchArguments {
    /// Whose locks to show [default: everybody's]: see below
    #[arg(value_name = "WHO")]
    who: Vec<String>,
    /// How long to sample: seconds, or 30s, 1m
    #[arg(short = 'd', long = "duration", value_name = "TIME", default_value = "5", value_parser = parse_whole_seconds)]
    seconds: u32,
    /// Also count every get, wait and hold, with probes in the server's functions: a few microseconds each. Stops by itself
    /// if that takes more than a quarter of the host's CPUs
    #[arg(long, conflicts_with_all = ["process", "oracle"])]
    exact: bool,
    /// Longest duration that --exact allows
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = parse_whole_seconds, requires = "exact")]
    limit: u32,
    /// Whose
    #[command(flatten)]
    target: TargetOptions,
    /// How often
    #[command(flatten)]
    rate: LiveRate,
    /// What of statements
    #[command(flatten)]
    texts: ShownTexts,
    /// How it is shown
    #[command(flatten)]
    layout: LatchLayout,
    /// Show every heavyweight lock (pg_locks) that is seen [default: those that are waited for, or held for a second or longer]
    #[arg(long)]
    all_locks: bool,
    /// Locks and holders, or rows, to show [default: 10]
    #[arg(long, value_name = "N", value_parser = above_zero)]
    top: Option<usize>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: TableFormat,
}

/// Samples for some seconds, and shows who held which lock.
///
/// # Errors
/// An argument is not understood; recording cannot begin; the output cannot be written.
pub(super) fn run(arguments: &LatchArguments) -> anyhow::Result<ExitCode> {
    mend();
    let stop = stop_on_signals(Second::Ends)?;
    memory::give_back();
    let wanted = who::sessions(&arguments.who).map_err(Usage)?;
    each_once(&arguments.layout.columns).map_err(Usage)?;
    if arguments.exact && arguments.seconds > arguments.limit {
        return Err(Usage(format!(
            "--exact slows the server down, so it runs for {} s at most: use --limit {} to run longer",
            arguments.limit, arguments.seconds
        ))
        .into());
    }
    let target = arguments.target.target_of(&wanted.sessions).map_err(Usage)?;
    let plan = Plan {
        collect: Options {
            texts: arguments.texts.text.into(),
            standbys: Vec::new(),
            at_once: true,
            causes: false,
            lock_uses: arguments.exact,
            locks: match arguments.all_locks {
                true => Locks::All,
                false => Locks::ThatMatter,
            },
            ..Options::sampled(target, arguments.rate.rate_hz)
        },
        length: Length::Seconds(arguments.seconds),
        count: 1,
        kept: Kept {
            statements: true,
            counters: |_| true,
            late: Late::IsLeftOut,
        },
        levels: false,
        tells_progress: true,
    };
    let mut is_known = false;
    live::take(&plan, &stop, &mut |one| {
        let options = LatchOptions {
            filter: Filter {
                from_us: one.time.from_us,
                to_us: one.time.to_us,
                ..wanted.clone()
            },
            top: arguments.top.unwrap_or(LatchOptions::default().top),
            columns: arguments.layout.columns.clone(),
        };
        match dbtime_report::latches_and_uses(&one.source, one.lock_uses.as_ref(), &options) {
            Ok(report) => {
                is_known = report.meta.database.held_locks || report.locks.recorded;
                output::print_on(&match arguments.format {
                    TableFormat::Text => dbtime_report::text::render_latches(&report, output::width()),
                    TableFormat::Json => dbtime_report::json::render_latches(&report),
                })
            }
            Err(e) => {
                say(format_args!("dbtime: {e}"));
                Ok(true)
            }
        }
    })?;
    Ok(match is_known {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NOTHING_RECORDED),
    })
}
