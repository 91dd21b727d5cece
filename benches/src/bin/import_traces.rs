//! `import_traces`: how fast Oracle SQL traces are read, beside `grep -c WAIT` and `wc -l` on the same file, as Markdown.
//!
//! All run in turn, as processes of their own on one CPU. grep runs twice: the second one is the control. The trace is made
//! anew unless one is given: 1 GB of the lines of a busy session, most of them waits for reads. A benchmark asserts nothing
//! about time.

#[path = "../child.rs"]
mod child;
#[path = "../turns.rs"]
mod turns;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Parser;
use dbtime::output::{say, to_stdout};

#[derive(Debug, Parser)]
struct Arguments {
    /// A trace [default: one that is made]
    file: Option<PathBuf>,
    /// parsetrc.pl, if it is at hand: it is no part of this project
    #[arg(long)]
    parsetrc: Option<PathBuf>,
    /// Size of the trace that is made, MB
    #[arg(long, default_value_t = 1_000)]
    megabytes: u64,
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
    let dbtime = child::dbtime()?;
    let scratch = tempfile::tempdir()?;
    let file = match &arguments.file {
        Some(file) => file.clone(),
        None => {
            let file = scratch.path().join("made.trc");
            make(&file, arguments.megabytes * 1_000_000)?;
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
    let page = format!(
        "{megabytes:.0} MB, CPU time, median of {} rounds in turn\n\n{}",
        arguments.rounds,
        turns.table(megabytes)
    );
    to_stdout(|out| out.write_all(page.as_bytes()))
}

/// Writes a trace of about this size: executions of twenty statements, each with two hundred reads.
fn make(path: &Path, bytes: u64) -> Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(
        out,
        "Trace file made.trc\nOracle Database 19c Enterprise Edition Release 19.0.0.0.0 - Production\n\n\
         *** 2024-05-01T10:00:00.000000+00:00\n*** SESSION ID:(1.2) 2024-05-01T10:00:00.000000+00:00\n"
    )?;
    let mut random = fastrand::Rng::with_seed(10_046);
    let (mut written, mut tim) = (0, 1_000_000_000_000_u64);
    while written < bytes {
        let statement = random.u64(1..=20);
        let cursor = 139_623_166_535_000 + statement * 8;
        let mut text = format!(
            "PARSING IN CURSOR #{cursor} len=16 dep=0 uid=9 oct=3 lid=9 tim={tim} hv=1 ad='1' sqlid='made{statement:09}'\n\
             select {statement} from t\nEND OF STMT\nEXEC #{cursor}:c=20,e=25,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=7,tim={tim}\n"
        );
        let begin = tim;
        for block in 0..200 {
            let ela = 10_u64 << random.u32(0..11);
            tim += ela + random.u64(5..50);
            text += &format!(
                "WAIT #{cursor}: nam='db file sequential read' ela= {ela} file#=7 block#={block} blocks=1 obj#=82008 tim={tim}\n"
            );
        }
        tim += 20;
        text += &format!(
            "FETCH #{cursor}:c=9000,e={},p=200,cr=210,cu=0,mis=0,r=10,dep=0,og=1,plh=7,tim={tim}\n\
             WAIT #{cursor}: nam='SQL*Net message from client' ela= 300 driver id=1 #bytes=1 p3=0 obj#=82008 tim={}\n",
            tim - begin,
            tim + 320
        );
        tim += 330;
        out.write_all(text.as_bytes())?;
        written += text.len() as u64;
    }
    out.flush()?;
    Ok(())
}
