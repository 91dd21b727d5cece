//! `dbtime calibrate`: what observation costs on this host.
//!
//! A process of ours makes calls and times each of them, while it is observed in one way after the other. Every way has its turn in every
//! round, so that drift of the host affects them all; the lowest median of each one's rounds counts, because noise only adds. Not
//! observing, measured twice in every round, shows which differences are meaningless.

mod child;
mod instance;
mod looks;
mod workload;

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::Args;
use dbtime_collect::Scratch;
use dbtime_model::calibration::{Calibration, Cell, Control, FORMAT, Look, look, workload as of};

use crate::calibration;
use crate::options::{AnswerFormat, TableFormat};
use crate::output::{self, ProgressLine, say};
use crate::remains::mend;
use crate::signals::{Second, stop_on_signals};
use child::Kept;
use workload::{Said, Turn};

/// `dbtime calibrate`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sudo dbtime calibrate\n  sudo dbtime calibrate --quick -o -")]
pub struct CalibrateArguments {
    /// Fewer rounds and calls: takes a few seconds, with more noise
    #[arg(long)]
    quick: bool,
    /// File to save the result in, - for standard output [default: dbtime/calibration.json in $XDG_STATE_HOME, for root in
    /// /var/lib]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// For whom
    #[command(flatten)]
    answer: AnswerFormat,
    /// Be the process that is watched, and read this file
    #[arg(long, value_name = "FILE", hide = true)]
    workload: Option<PathBuf>,
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Size {
    rounds: u32,
    /// Calls of each workload in a turn.
    calls: u32,
    /// No round begins later than this.
    last_begin: Duration,
}

const FULL: Size = Size {
    rounds: 5,
    calls: 1_000,
    last_begin: Duration::from_secs(27),
};

const QUICK: Size = Size {
    rounds: 2,
    calls: 300,
    last_begin: Duration::from_secs(5),
};

/// The process that is observed.
struct Worker {
    child: Kept,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Worker {
    fn start(file: &Path) -> anyhow::Result<Worker> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["calibrate", "--workload"])
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = Kept::start(&mut command).context("cannot start the workload process")?;
        match (child.child.stdin.take(), child.child.stdout.take()) {
            (Some(to), Some(from)) => Ok(Worker {
                child,
                to,
                from: BufReader::new(from),
            }),
            _ => bail!("the workload process has no pipes"),
        }
    }

    fn hear(&mut self) -> anyhow::Result<Said> {
        let line = child::line(&mut self.from).context("the workload process has ended")?;
        Ok(serde_json::from_str(&line)?)
    }

    fn turn(&mut self, workload: &str, calls: u32) -> anyhow::Result<Said> {
        writeln!(self.to, "{workload} {calls}").context("the workload process has ended")?;
        self.hear()
    }
}

/// Results of one way to observe.
#[derive(Debug, Default)]
struct Turns {
    refused: Option<String>,
    turns: BTreeMap<&'static str, Vec<Turn>>,
}

/// Measures, stores the result, and shows it; or is the process that is observed.
///
/// # Errors
/// See [`measure`]; or the result cannot be stored.
pub(super) fn run(arguments: &CalibrateArguments) -> anyhow::Result<ExitCode> {
    if let Some(file) = &arguments.workload {
        workload::serve(file)?;
        return Ok(ExitCode::SUCCESS);
    }
    mend();
    let stop = stop_on_signals(Second::Ignored)?;
    let mut line = ProgressLine::new();
    let found = measure(arguments.quick, &stop, |what| line.show(what))?;
    drop(line);
    let path = arguments.output.clone().unwrap_or_else(calibration::default_path);
    let is_stdout = path == Path::new("-");
    if !is_stdout {
        calibration::write(&found, &path)?;
    }
    let text = match arguments.answer.format {
        TableFormat::Text if !is_stdout => dbtime_report::text::render_calibration(&found, output::width()),
        _ => dbtime_report::json::render_calibration(&found),
    };
    output::print(&text)?;
    if !is_stdout {
        say(format_args!("saved in {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures. `tell` is told what is being done.
///
/// # Errors
/// It was stopped, or the process to be observed cannot be started or ended early.
fn measure(quick: bool, stop: &AtomicBool, mut tell: impl FnMut(&str)) -> anyhow::Result<Calibration> {
    let size = if quick { QUICK } else { FULL };
    let folder = Scratch::new(Scratch::CALIBRATE)?;
    let file = folder.path().join("read");
    std::fs::write(&file, vec![0; workload::READ_BYTES])?;
    let mut worker = Worker::start(&file)?;
    let Said::Ready {
        clock_ns,
        resolution_ns,
        slack_ns,
    } = worker.hear()?
    else {
        bail!("the workload process did not report that it is ready");
    };
    let mut found: BTreeMap<&str, Turns> = looks::ALL.iter().map(|name| (*name, Turns::default())).collect();
    let begin = Instant::now();
    let mut rounds = 0;
    // At least two, or there is no spread between them.
    while rounds < 2 || rounds < size.rounds && begin.elapsed() < size.last_begin {
        rounds += 1;
        for name in looks::ALL {
            tell(&format!("round {rounds} of {}: {name}", size.rounds));
            let turns = found.entry(name).or_default();
            if turns.refused.is_none() {
                one_turn(name, &mut worker, size.calls, folder.path(), stop, turns)?;
            }
            if stop.load(Ordering::Relaxed) {
                bail!("stopped; nothing was saved");
            }
        }
    }
    let time_us = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as i64);
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let looks = looks::ALL
        .iter()
        .filter_map(|name| Some(of_look(name, found.remove(name)?)))
        .collect();
    let mut calibration = Calibration {
        format: FORMAT.to_string(),
        dbtime: env!("CARGO_PKG_VERSION").to_string(),
        host: dbtime_collect::host_description(),
        boot_id: boot_id.trim().to_string(),
        time_us,
        quick,
        rounds,
        calls: size.calls,
        clock_ns,
        clock_resolution_ns: resolution_ns,
        timer_slack_ns: slack_ns,
        controls: Vec::new(),
        looks,
    };
    calibration.controls = of::ALL
        .iter()
        .filter_map(|name| control(&calibration, name))
        .collect();
    compare(&mut calibration);
    Ok(calibration)
}

/// All workloads under one way to observe.
fn one_turn(
    name: &'static str,
    worker: &mut Worker,
    calls: u32,
    folder: &Path,
    stop: &AtomicBool,
    turns: &mut Turns,
) -> anyhow::Result<()> {
    let mut taken = Vec::new();
    for workloads in looks::at_once(name) {
        let looking = match looks::begin(name, workloads[0], worker.child.pid(), folder, stop) {
            Ok(looking) => looking,
            Err(why) => {
                turns.refused = Some(why);
                return Ok(());
            }
        };
        let mut made = 0;
        for workload in *workloads {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            // A workload that is refused is refused under every way: it has no cell.
            if let Said::Turn(turn) = worker.turn(workload, calls)? {
                made += u64::from(calls);
                taken.push((*workload, turn));
            }
        }
        // What did not observe costs nothing, so it must have seen the calls. Half of them will do, because buffers overflow.
        if let Some(seen) = looking.end()
            && seen < made / 2
        {
            turns.refused = Some(format!("it saw {seen} of {made} calls"));
            return Ok(());
        }
    }
    for (workload, turn) in taken {
        turns.turns.entry(workload).or_default().push(turn);
    }
    Ok(())
}

fn of_look(name: &str, turns: Turns) -> Look {
    let cells = of::ALL.iter().filter_map(|workload| {
        let turns = turns.turns.get(workload)?;
        let lowest = |value: fn(&Turn) -> u64| turns.iter().map(value).min();
        let median_ns = lowest(|turn| turn.median_ns)?;
        Some(Cell {
            workload: (*workload).to_string(),
            min_ns: lowest(|turn| turn.min_ns)?,
            median_ns,
            spread_ns: turns
                .iter()
                .map(|turn| turn.median_ns)
                .max()?
                .saturating_sub(median_ns),
            p99_ns: lowest(|turn| turn.p99_ns)?,
            mean_ns: lowest(|turn| turn.mean_ns)?,
            extra_ns: None,
        })
    });
    Look {
        name: name.to_string(),
        cells: if turns.refused.is_none() {
            cells.collect()
        } else {
            Vec::new()
        },
        refused: turns.refused,
    }
}

fn control(calibration: &Calibration, workload: &str) -> Option<Control> {
    let nothing = calibration.cell(look::NOTHING, workload)?;
    let again = calibration.cell(look::AGAIN, workload)?;
    let difference_ns = difference(again.median_ns, nothing.median_ns);
    let spread_ns = nothing.spread_ns.max(again.spread_ns);
    Some(Control {
        workload: workload.to_string(),
        difference_ns,
        spread_ns,
        is_within_spread: difference_ns.unsigned_abs() <= spread_ns,
        noise_ns: difference_ns.unsigned_abs().max(spread_ns),
    })
}

/// Fills in how much more each way to observe costs than nothing.
fn compare(calibration: &mut Calibration) {
    let nothing: Vec<(String, u64)> = calibration
        .looks
        .iter()
        .filter(|look| look.name == look::NOTHING)
        .flat_map(|look| &look.cells)
        .map(|cell| (cell.workload.clone(), cell.median_ns))
        .collect();
    for look in calibration
        .looks
        .iter_mut()
        .filter(|look| look.name != look::NOTHING)
    {
        for cell in &mut look.cells {
            let base = nothing.iter().find(|(workload, _)| *workload == cell.workload);
            cell.extra_ns = base.map(|(_, base)| difference(cell.median_ns, *base));
        }
    }
}

fn difference(more: u64, less: u64) -> i64 {
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    signed(more) - signed(less)
}
