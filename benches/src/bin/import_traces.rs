//! `import_traces`: how fast Oracle SQL traces are read, compared with `grep -c WAIT` and `wc -l` on the same file, as Markdown.
//!
//! All run in turn, as separate processes on one CPU. grep runs twice: the second one is the control. The trace is generated unless one is
//! given. If there is Perl, the rules of parsetrc.pl in that language are a peer too; it takes so long that it runs once. A benchmark
//! asserts nothing about time.

#[path = "../child.rs"]
mod child;
#[path = "../made_trace.rs"]
mod made_trace;
#[path = "../turns.rs"]
mod turns;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Parser;
use dbtime::output::{say, to_stdout};
use made_trace::{Shape, make};

const PARSETRC_RULES: &str = include_str!("../parsetrc_rules.pl");

#[derive(Debug, Parser)]
struct Arguments {
    /// A trace [default: a generated one]
    file: Option<PathBuf>,
    /// parsetrc.pl, if you have it: it is not part of this project
    #[arg(long)]
    parsetrc: Option<PathBuf>,
    /// Size of the generated trace, MB
    #[arg(long, default_value_t = 1_000)]
    megabytes: u64,
    /// What the generated trace is full of
    #[arg(long, value_enum, default_value_t = Shape::Reads)]
    shape: Shape,
    /// Most statements in such a trace
    #[arg(long, default_value_t = 300_000)]
    statements: u64,
    /// Only generate the trace, here
    #[arg(long)]
    make: Option<PathBuf>,
    /// Runs of each
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// CPU that all run on
    #[arg(long, default_value_t = 0)]
    cpu: usize,
}

fn main() -> ExitCode {
    match compare(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say(format_args!("import_traces: {e:#}"));
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &Arguments) -> Result<()> {
    let make = |path: &Path| {
        make(
            path,
            arguments.shape,
            arguments.megabytes * 1_000_000,
            arguments.statements,
        )
    };
    if let Some(path) = &arguments.make {
        return make(path);
    }
    let dbtime = child::dbtime()?;
    let scratch = tempfile::tempdir()?;
    let file = match &arguments.file {
        Some(file) => file.clone(),
        None => {
            let file = scratch.path().join("made.trc");
            make(&file)?;
            file
        }
    };
    let command = |program: &Path, words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words).arg(&file);
        command
    };
    let mut programs = vec![
        ("grep -c WAIT", command(Path::new("grep"), &["-c", "WAIT"])),
        (
            "grep -c WAIT again (control)",
            command(Path::new("grep"), &["-c", "WAIT"]),
        ),
        ("wc -l", command(Path::new("wc"), &["-l"])),
        ("**dbtime report**", command(&dbtime, &["report"])),
        (
            "**dbtime report --format json**",
            command(&dbtime, &["report", "--format", "json"]),
        ),
    ];
    if let Some(parsetrc) = &arguments.parsetrc {
        programs.push(("parsetrc.pl", command(parsetrc, &[])));
    }
    let turns = turns::run(&programs, arguments.rounds, arguments.cpu)?;
    let megabytes = file.metadata()?.len() as f64 / 1e6;
    let mut page = format!(
        "{megabytes:.0} MB, CPU time, median of {} rounds in turn\n\n{}",
        arguments.rounds,
        turns.table(megabytes)
    );
    if Command::new("perl")
        .arg("-v")
        .output()
        .is_ok_and(|perl| perl.status.success())
    {
        let script = scratch.path().join("parsetrc_rules.pl");
        std::fs::write(&script, PARSETRC_RULES)?;
        let mut perl = Command::new("perl");
        perl.arg(&script).arg(&file);
        let programs = [
            ("dbtime report", command(&dbtime, &["report"])),
            ("rules of parsetrc.pl in Perl", perl),
        ];
        let turns = turns::run(&programs, 1, arguments.cpu)?;
        page += &format!("\nOnce:\n\n{}", turns.table(megabytes));
    }
    to_stdout(|out| out.write_all(page.as_bytes()))
}
