//! `import_stacks FILE…`: how fast `dbtime import` reads `perf script` output, compared with inferno-collapse-perf, as Markdown.
//!
//! All read the same file in turn, as separate processes on one CPU. inferno is the library from crates.io, called with the options of its
//! command and one thread, and writes folded stacks to a file; dbtime reads the file into rows, and in a separate run writes the recording
//! too. A benchmark asserts nothing about time.

#[path = "../child.rs"]
mod child;

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};
use clap::Parser;
use dbtime::output::{say, to_stdout};
use inferno::collapse::Collapse;
use inferno::collapse::perf::{Folder, Options};

#[derive(Debug, Parser)]
struct Arguments {
    /// Output of perf script
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Runs of each
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// CPU that all run on
    #[arg(long, default_value_t = 0)]
    cpu: usize,
    /// Be inferno-collapse-perf: what this program calls itself as
    #[arg(long, hide = true, value_name = "FILE")]
    collapse_to: Option<PathBuf>,
    /// Read the file into rows and forget them: what this program calls itself as
    #[arg(long, hide = true)]
    rows: bool,
}

/// What is compared, inferno first.
const RUNS: usize = 3;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.collapse_to {
        Some(output) => collapse(&arguments.files[0], output),
        None if arguments.rows => read(&arguments.files),
        None => compare(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say(format_args!("import_stacks: {e:#}"));
            ExitCode::FAILURE
        }
    }
}

fn collapse(file: &Path, output: &Path) -> Result<()> {
    let mut options = Options::default();
    options.nthreads = 1;
    let out = BufWriter::new(File::create(output)?);
    Folder::from(options).collapse_file(Some(file), out)?;
    Ok(())
}

fn read(files: &[PathBuf]) -> Result<()> {
    let mut rows = 0;
    dbtime_import::Options::default().import(
        files,
        |_| Ok(()),
        |more| {
            rows += more.activity.len();
            Ok(())
        },
    )?;
    ensure!(rows > 0, "no samples");
    Ok(())
}

fn compare(arguments: &Arguments) -> Result<()> {
    let own = std::env::current_exe()?;
    let dbtime = child::dbtime()?;
    let mut page = String::from(
        "| file | MB | inferno-collapse-perf, s | dbtime: rows, s | times as fast (range of pairs) | dbtime: recording, s | \
         times as fast |\n|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for file in &arguments.files {
        let megabytes = std::fs::metadata(file)?.len() as f64 / 1e6;
        let mut times = [const { Vec::new() }; RUNS];
        // The first round warms the page cache.
        for round in 0..=arguments.rounds {
            let scratch = tempfile::tempdir()?;
            for turn in 0..RUNS {
                let which = (turn + round) % RUNS;
                let mut command = Command::new(if which < 2 { &own } else { &dbtime });
                match which {
                    0 => command
                        .arg(file)
                        .arg("--collapse-to")
                        .arg(scratch.path().join("folded")),
                    1 => command.arg(file).arg("--rows"),
                    _ => command
                        .arg("import")
                        .arg(file)
                        .arg("-o")
                        .arg(scratch.path().join("r.dbt")),
                };
                let (time, _) = child::run(&command, arguments.cpu)?;
                if round > 0 {
                    times[which].push(time.as_secs_f64());
                }
            }
        }
        let ratios = |of: usize| -> Vec<f64> {
            let mut ratios: Vec<f64> = times[0].iter().zip(&times[of]).map(|(a, b)| a / b).collect();
            ratios.sort_by(f64::total_cmp);
            ratios
        };
        let (rows, recording) = (ratios(1), ratios(2));
        let seconds: Vec<f64> = times.into_iter().map(child::median).collect();
        page += &format!(
            "| {} | {megabytes:.1} | {:.3} | {:.3} | **{:.2}** ({:.2}–{:.2}) | {:.3} | **{:.2}** ({:.2}–{:.2}) |\n",
            file.file_name().unwrap_or_default().to_string_lossy(),
            seconds[0],
            seconds[1],
            rows[rows.len() / 2],
            rows[0],
            rows[rows.len() - 1],
            seconds[2],
            recording[recording.len() / 2],
            recording[0],
            recording[recording.len() - 1],
        );
    }
    to_stdout(|out| out.write_all(page.as_bytes()))
}
