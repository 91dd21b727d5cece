//! `dbtime snap`: how much statistics, times and waits of sessions grow in some seconds, snapshot after snapshot.

use std::process::ExitCode;

use dbtime_collect::Options;
use dbtime_report::{Filter, Snapshot, SnapshotOptions, snapshot_csv};

use crate::arguments::{SnapArguments, SnapFormat};
use crate::exit_code::NOTHING_RECORDED;
use crate::live::{self, Kept, Late, Length, Plan};
use crate::memory;
use crate::output::{self, say};
use crate::signals::{Second, stop_on_signals};
use crate::usage::Usage;
use crate::who;

/// Shows snapshots, until there were as many as wanted or somebody wants no more.
///
/// # Errors
/// What is wanted cannot be understood; recording cannot begin; the output cannot be written.
pub fn run(arguments: &SnapArguments) -> anyhow::Result<ExitCode> {
    // First of all: whoever is started in the background has Ctrl-C ignored until then.
    let stop = stop_on_signals(Second::Ends)?;
    memory::give_back();
    if arguments.length == Length::UntilTheEnd && arguments.count > 1 {
        return Err(Usage("'end' is one snapshot".to_string()).into());
    }
    let wanted = who::parse(&arguments.who).map_err(Usage)?;
    let plan = Plan {
        collect: Options {
            means: arguments.precision.means().map_err(Usage)?,
            tier: arguments.precision.tier(),
            texts: arguments.texts.text.into(),
            task_counts: true,
            at_once: true,
            ..Options::sampled(arguments.target.target(), arguments.rate.rate_hz)
        },
        length: arguments.length,
        count: arguments.count,
        kept: Kept {
            stacks: false,
            statements: true,
            late: Late::IsLeftOut,
        },
        tells_progress: true,
    };
    let mut is_empty = true;
    let mut is_first = true;
    live::take(&plan, &stop, &mut |one| {
        if arguments.format == SnapFormat::Csv && std::mem::take(&mut is_first) {
            output::print_on(&snapshot_csv::head())?;
        }
        let options = SnapshotOptions {
            filter: Filter {
                from_us: one.time.from_us,
                to_us: one.time.to_us,
                ..wanted.filter.clone()
            },
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
        SnapFormat::Text => {
            dbtime_report::text::render_snapshot(snapshot, &layout.columns, layout.sessions, output::width())
        }
        SnapFormat::Csv => snapshot_csv::render(snapshot)?,
        SnapFormat::Json => dbtime_report::json::render_snapshot(snapshot),
    })
}
