//! `import_stacks FILE…`: how fast `dbtime import` reads output of `perf script`, beside inferno-collapse-perf, as Markdown.
//!
//! Both read the same file, one after the other in turn, as processes of their own on one CPU. inferno is the library from
//! crates.io, called with the options of its command and one thread, and writes folded stacks to a file; dbtime
//! writes a recording. A benchmark asserts nothing about time.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.collapse_to {
        Some(output) => collapse(&arguments.files[0], output),
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

fn compare(arguments: &Arguments) -> Result<()> {
    let own = std::env::current_exe()?;
    let dbtime = own.parent().context("a program lies in a folder")?.join("dbtime");
    ensure!(dbtime.is_file(), "{} is not built", dbtime.display());
    let mut page = String::from(
        "| file | MB | inferno-collapse-perf, s | MB/s | dbtime import, s | MB/s | times as fast (median of pairs) | least | most |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for file in &arguments.files {
        let megabytes = std::fs::metadata(file)?.len() as f64 / 1e6;
        let mut times = [Vec::new(), Vec::new()];
        // The first pair warms the page cache.
        for round in 0..=arguments.rounds {
            let scratch = tempfile::tempdir()?;
            let mut inferno = Command::new(&own);
            inferno
                .arg(file)
                .arg("--collapse-to")
                .arg(scratch.path().join("folded"));
            let mut import = Command::new(&dbtime);
            import
                .arg("import")
                .arg(file)
                .arg("-o")
                .arg(scratch.path().join("r.dbt"));
            let mut pair = [inferno, import].map(Some);
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for which in order {
                let command = pair[which].take().context("each runs once")?;
                let time = run(command, arguments.cpu)?;
                if round > 0 {
                    times[which].push(time.as_secs_f64());
                }
            }
        }
        let mut ratios: Vec<f64> = times[0].iter().zip(&times[1]).map(|(a, b)| a / b).collect();
        let [inferno, import] = times.map(|mut times| median(&mut times));
        let ratio = median(&mut ratios);
        page += &format!(
            "| {} | {megabytes:.1} | {inferno:.3} | {:.0} | {import:.3} | {:.0} | **{ratio:.2}** | {:.2} | {:.2} |\n",
            file.file_name().unwrap_or_default().to_string_lossy(),
            megabytes / inferno,
            megabytes / import,
            ratios[0],
            ratios[ratios.len() - 1],
        );
    }
    to_stdout(|out| out.write_all(page.as_bytes()))
}

/// CPU time of a run on one CPU: on a machine with other work, elapsed time is that of the others too.
fn run(command: Command, cpu: usize) -> Result<Duration> {
    let mut pinned = Command::new("taskset");
    pinned
        .args(["--cpu-list", &cpu.to_string()])
        .arg(command.get_program())
        .args(command.get_args())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let before = children_cpu();
    let begin = Instant::now();
    let output = pinned.output().context("taskset")?;
    let elapsed = begin.elapsed();
    ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let cpu = children_cpu().saturating_sub(before);
    ensure!(cpu <= elapsed * 2, "more CPU than one CPU has");
    Ok(cpu)
}

/// CPU of all children that have ended.
fn children_cpu() -> Duration {
    // SAFETY: rusage is plain integers, for which zero is a value; the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let of = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// Sorts, and gives the middle value.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
