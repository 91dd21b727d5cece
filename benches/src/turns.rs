//! Programs that read the same file, run in turn as processes of their own on one CPU, and the table of their speeds.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::Result;

use crate::child;

/// CPU time and memory of some programs.
#[derive(Debug)]
pub(crate) struct Turns {
    names: Vec<String>,
    /// Seconds, by program and round.
    times: Vec<Vec<f64>>,
    /// Largest resident set of each, bytes.
    memory: Vec<u64>,
}

/// Runs each program once in every round, starting with a different one each time; the first round warms the page cache
/// and does not count.
///
/// # Errors
/// A program cannot be run, or fails.
pub(crate) fn run(programs: &[(&str, Command)], rounds: usize, cpu: usize) -> Result<Turns> {
    let mut turns = Turns {
        names: programs.iter().map(|(name, _)| (*name).to_string()).collect(),
        times: vec![Vec::new(); programs.len()],
        memory: vec![0; programs.len()],
    };
    for round in 0..=rounds {
        for turn in 0..programs.len() {
            let which = (turn + round) % programs.len();
            let (time, max_rss_bytes) = child::run(&programs[which].1, cpu)?;
            turns.memory[which] = turns.memory[which].max(max_rss_bytes);
            if round > 0 {
                turns.times[which].push(time.as_secs_f64());
            }
        }
    }
    Ok(turns)
}

impl Turns {
    /// Medians, and each program's speed as a part of the first one's, round by round: median, least and most.
    pub(crate) fn table(&self, megabytes: f64) -> String {
        let first = &self.names[0];
        let mut page = format!(
            "| | s | MB/s | speed of {first} (range) | largest resident set, MB |\n|---|---:|---:|---:|---:|\n"
        );
        for ((name, times), memory) in self.names.iter().zip(&self.times).zip(&self.memory) {
            let mut ratios: Vec<f64> = self.times[0].iter().zip(times).map(|(a, b)| a / b).collect();
            ratios.sort_by(f64::total_cmp);
            let seconds = child::median(times.clone());
            let _ = writeln!(
                page,
                "| {name} | {seconds:.3} | {:.0} | {:.3} ({:.3}–{:.3}) | {:.0} |",
                megabytes / seconds,
                child::median(ratios.clone()),
                ratios.first().copied().unwrap_or(f64::NAN),
                ratios.last().copied().unwrap_or(f64::NAN),
                *memory as f64 / 1e6
            );
        }
        page
    }
}
