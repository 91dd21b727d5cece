//! `dbtime latch`: who holds the server's internal locks, now.

use std::process::ExitCode;

use dbtime_collect::Options;
use dbtime_report::{Filter, LatchOptions};

use crate::arguments::LatchArguments;
use crate::exit_code::NOTHING_RECORDED;
use crate::live::{self, Kept, Late, Length, Plan};
use crate::memory;
use crate::options::TableFormat;
use crate::output::{self, say};
use crate::signals::{Second, stop_on_signals};
use crate::usage::Usage;
use crate::who;

/// Looks for some seconds, and shows who held which lock meanwhile.
///
/// # Errors
/// What is wanted cannot be understood; recording cannot begin; the output cannot be written.
pub fn run(arguments: &LatchArguments) -> anyhow::Result<ExitCode> {
    let stop = stop_on_signals(Second::Ends)?;
    memory::give_back();
    let wanted = who::sessions(&arguments.who).map_err(Usage)?;
    let plan = Plan {
        collect: Options {
            texts: arguments.texts.text.into(),
            at_once: true,
            ..Options::sampled(arguments.target.target(), arguments.rate.rate_hz)
        },
        length: Length::Seconds(arguments.seconds),
        count: 1,
        kept: Kept {
            stacks: true,
            statements: true,
            late: Late::IsLeftOut,
        },
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
        match dbtime_report::latches(&one.source, &options) {
            Ok(report) => {
                is_known = report.meta.database.held_locks;
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
