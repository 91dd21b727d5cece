//! The commands: a file, or a folder, for each, with its arguments and what is done with them.
//!
//! A command that loads programs into the kernel, or changes a kernel setting, begins with [`crate::remains::mend`]; one that reads other
//! people's files, which can be crafted to need any amount of memory, with [`crate::memory::bound`].

mod agent;
mod calibrate;
mod compact;
mod completions;
mod demo;
mod diff;
mod dive;
mod doctor;
mod flame;
mod html;
mod import;
mod iolat;
mod latch;
mod man;
mod metrics;
mod oracle;
mod record;
mod report;
mod sched;
mod snap;
mod store;
mod top;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::output;

/// Sessions of a snapshot that are shown by default.
const SNAPSHOT_SESSIONS: usize = 10;

/// Shows where database time really goes.
///
/// For every session of a database it splits elapsed time by wait event and by what the operating system says the
/// process was doing (user code, kernel code, waiting for a CPU, blocked on disk, asleep), with kernel and user
/// stacks below. The parts add up to the elapsed time.
#[derive(Debug, Parser)]
#[command(
    name = "dbtime",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  sudo dbtime record -d 60   one minute of the only running server, then where its time went\n  dbtime report              the newest recording here, in full\n  sudo dbtime top            the same, live\n  sudo dbtime doctor         what works on this host, and how to fix the rest"
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Arguments {
    /// Parses the command line. Exits if it is invalid, or asks for nothing but help.
    ///
    /// # Errors
    /// Help cannot be written to standard output.
    pub fn of_command_line() -> anyhow::Result<Arguments> {
        // A negative number is a value, to be rejected as such, not an unknown option.
        let command = Arguments::command().mut_subcommands(|command| {
            command.mut_args(|argument| {
                let takes_values = argument.get_action().takes_values();
                argument.allow_negative_numbers(takes_values)
            })
        });
        let matches = command.try_get_matches();
        match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
            Ok(arguments) => Ok(arguments),
            Err(wrong) if wrong.use_stderr() => wrong.exit(),
            Err(help) => {
                // It knows where colours may be used; its own `exit` ignores a failed write.
                output::to_stdout(|_| help.print())?;
                std::process::exit(help.exit_code())
            }
        }
    }
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Record a running PostgreSQL server, one of its sessions, or an Oracle instance (needs root)
    Record(record::RecordArguments),
    /// Show where the time of a recording, or of a trace file, went
    Report(Box<report::ReportArguments>),
    /// Show second by second where the time of a running server goes (needs root), or replay a recording
    Top(top::TopArguments),
    /// Show how much the statistics, times and waits of sessions grow over a few seconds (needs root)
    Snap(snap::SnapArguments),
    /// Show who holds the server's internal locks (PostgreSQL: LWLocks), doing what and where in the code (needs root)
    Latch(latch::LatchArguments),
    /// Serve counters for Prometheus: where the time of a running server goes (needs root)
    Metrics(metrics::MetricsArguments),
    /// Draw a flame graph of a recording
    Flame(flame::FlameArguments),
    /// Turn a recording into one HTML page that any browser can open offline
    Html(html::HtmlArguments),
    /// Show what changed between two recordings, or two files of other tools
    Diff(diff::DiffArguments),
    /// Convert files of other tools into a recording
    Import(import::ImportArguments),
    /// Merge the many small files of a recording that has ended, or whose recorder was killed, into a few large ones
    Compact(compact::CompactArguments),
    /// Keep recordings of many hosts in one place, as plain Parquet in a directory or an object store
    Store(store::StoreArguments),
    /// Record every server of this host continuously, and upload the recordings to a store (needs root)
    Agent(agent::AgentArguments),
    /// Show the block I/O latency of the whole host, live (needs root)
    Iolat(iolat::IolatArguments),
    /// Show what a system call of a live process does inside the kernel (needs root)
    Dive(dive::DiveArguments),
    /// Show every context switch: wait, scheduling delay, run time, who ran instead, who woke it (needs root)
    Sched(sched::SchedArguments),
    /// Measure the cost of observation on this host: how long a call takes under each way of watching it
    Calibrate(calibrate::CalibrateArguments),
    /// Print the SQL*Plus script that makes the MAP of an Oracle instance for 'record --oracle'
    #[command(after_help = "Example: dbtime oracle-map > map.sql")]
    OracleMap,
    /// Print the SQL*Plus script that reads the statistics of Oracle sessions twice, for 'report' and 'import'
    #[command(
        after_help = "Example: dbtime oracle-snap > snap.sql; sqlplus -s / as sysdba @snap.sql all 10 > snap.csv; dbtime report snap.csv"
    )]
    OracleSnap,
    /// Print the SQL*Plus script that samples who holds the latches of an Oracle instance, for 'report' and 'import'
    #[command(
        after_help = "Example: dbtime oracle-latch > latch.sql; sqlplus -s / as sysdba @latch.sql all % 100000 10 > latch.csv; dbtime report latch.csv"
    )]
    OracleLatch,
    /// Check what works on this host, and say how to fix the rest (run it as root, like 'record')
    Doctor(doctor::DoctorArguments),
    /// Show what dbtime does, on a throw-away PostgreSQL server (needs root)
    Demo(demo::DemoArguments),
    /// Print the completion script for a shell
    Completions(completions::CompletionsArguments),
    /// Write the manual pages into a directory, as 'make install' does
    #[command(hide = true)]
    Man(man::ManArguments),
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    /// It failed: [`crate::exit_code::of`] gives the exit code.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Command::Record(arguments) => record::run(&arguments),
            Command::Report(arguments) => report::run(arguments),
            Command::Top(arguments) => top::run(&arguments),
            Command::Snap(arguments) => snap::run(&arguments),
            Command::Latch(arguments) => latch::run(&arguments),
            Command::Metrics(arguments) => metrics::run(&arguments),
            Command::Flame(arguments) => flame::run(&arguments),
            Command::Html(arguments) => html::run(&arguments),
            Command::Diff(arguments) => diff::run(&arguments),
            Command::Import(arguments) => import::run(&arguments),
            Command::Compact(arguments) => compact::run(&arguments),
            Command::Store(arguments) => store::run(&arguments),
            Command::Agent(arguments) => agent::run(&arguments),
            Command::Iolat(arguments) => iolat::run(&arguments),
            Command::Dive(arguments) => dive::run(&arguments),
            Command::Sched(arguments) => sched::run(&arguments),
            Command::Calibrate(arguments) => calibrate::run(&arguments),
            Command::OracleMap => oracle::print_map(),
            Command::OracleSnap => oracle::print_snap(),
            Command::OracleLatch => oracle::print_latch(),
            Command::Doctor(arguments) => doctor::run(&arguments),
            Command::Demo(arguments) => demo::run(&arguments),
            Command::Completions(arguments) => completions::run(&arguments),
            Command::Man(arguments) => man::run(&arguments),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        for command in Arguments::command().get_subcommands() {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let call = format!("dbtime {}", command.get_name());
            assert!(
                help.starts_with("Example") && help.contains(&call),
                "{call}: {help}"
            );
        }
    }
}
