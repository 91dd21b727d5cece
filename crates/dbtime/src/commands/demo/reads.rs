//! The load: random single-row reads by pgbench, and their rate.
//!
//! Not its built-in single-row `SELECT`: sending a statement and its result takes many times the CPU of reading a row,
//! and would hide what the demo is about.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::pause;
use crate::throwaway::Cluster;

/// Rows of `pgbench_accounts` for each unit of scale.
const ROWS_PER_SCALE: u32 = 100_000;
/// Rows that one statement looks up, one by one.
pub(super) const ROWS_PER_STATEMENT: u32 = 100;
/// The same rows are read in both runs.
const SEED: u32 = 1;
/// pgbench is stopped with the recording; failing that, it ends by itself.
const AT_MOST: Duration = Duration::from_secs(100);
const POLL: Duration = Duration::from_millis(20);

/// Makes the tables.
pub(super) fn initialise(cluster: &Cluster, scale: u32, stop: &AtomicBool) -> Result<()> {
    let mut command = cluster.client_program("pgbench")?;
    command
        .args(["--initialize", "--quiet"])
        .arg(format!("--scale={scale}"));
    let mut pgbench = Pgbench::start(command)?;
    while pgbench.ended()?.is_none() {
        pause(POLL, stop)?;
    }
    pgbench.expect_success()
}

/// Reads that go on until they are stopped.
pub(super) struct Reads(Pgbench);

impl Reads {
    /// By one client: its session and pgbench take turns, so that even two CPUs are not oversubscribed.
    pub(super) fn start(cluster: &Cluster, scale: u32) -> Result<Reads> {
        let mut command = cluster.client_program("pgbench")?;
        command
            .args(["--file=-", "--protocol=prepared", "--no-vacuum"])
            .args(["--client=1", "--progress=1", "--progress-timestamp"])
            .arg(format!("--random-seed={SEED}"))
            .arg(format!("--time={}", AT_MOST.as_secs()));
        let mut input = tempfile::tempfile().context("temporary file")?;
        input.write_all(script(scale).as_bytes())?;
        input.seek(SeekFrom::Start(0))?;
        command.stdin(input);
        Ok(Reads(Pgbench::start(command)?))
    }

    /// True if something is wrong with them; [`Reads::stop`] says what.
    pub(super) fn have_ended(&mut self) -> bool {
        !matches!(self.0.ended(), Ok(None))
    }

    pub(super) fn stop(mut self) -> Result<Rates> {
        if self.0.ended()?.is_some() {
            self.0.expect_success()?;
            bail!("pgbench ended before the recording");
        }
        self.0.kill();
        Ok(Rates::parse(&self.0.said()?))
    }
}

/// A statement that reads rows by key; a hash scatters the keys over the table in the same way in both runs.
fn script(scale: u32) -> String {
    let rows = scale * ROWS_PER_SCALE;
    format!(
        "\\set start random(1, {rows})\n\
         SELECT sum(abalance) FROM generate_series(1, {ROWS_PER_STATEMENT}) AS i \
         JOIN pgbench_accounts ON aid = 1 + (hashint4(i + :start) & 2147483647) % {rows};\n"
    )
}

/// pgbench, killed on drop.
struct Pgbench {
    child: Child,
    said: File,
}

impl Pgbench {
    fn start(mut command: Command) -> Result<Pgbench> {
        // A file never fills up, unlike a pipe that nobody reads.
        let said = tempfile::tempfile().context("temporary file")?;
        let child = command
            .arg("postgres")
            .stdout(Stdio::null())
            .stderr(said.try_clone()?)
            .spawn()
            .context("cannot run pgbench")?;
        Ok(Pgbench { child, said })
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("pgbench")
    }

    fn expect_success(&mut self) -> Result<()> {
        match self.ended()? {
            Some(status) if !status.success() => {
                bail!("pgbench failed ({status}):\n{}", self.said()?.trim_end())
            }
            _ => Ok(()),
        }
    }

    fn said(&mut self) -> Result<String> {
        let mut bytes = Vec::new();
        self.said.seek(SeekFrom::Start(0))?;
        self.said.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn kill(&mut self) {
        // Both do nothing if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Pgbench {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Transactions per second, second by second.
#[derive(Debug, PartialEq)]
pub(super) struct Rates(Vec<Rate>);

/// A line of progress, about the second before it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rate {
    /// Seconds since 1970.
    until: f64,
    transactions_per_second: f64,
}

impl Rates {
    /// Reads `progress: 1795262826.074 s, 29971.0 tps, lat 0.033 ms stddev 0.238, 0 failed`.
    fn parse(text: &str) -> Rates {
        let rate = |line: &str| -> Option<Rate> {
            let mut fields = line.strip_prefix("progress: ")?.split(", ");
            Some(Rate {
                until: fields.next()?.strip_suffix(" s")?.parse().ok()?,
                transactions_per_second: fields.next()?.strip_suffix(" tps")?.parse().ok()?,
            })
        };
        Rates(text.lines().filter_map(rate).collect())
    }

    /// Mean over the seconds that are entirely within this time (microseconds since 1970).
    pub(super) fn mean_between(&self, from_us: i64, to_us: i64) -> Option<f64> {
        let inside: Vec<f64> = self
            .0
            .iter()
            .filter(|rate| (rate.until - 1.0) * 1e6 >= from_us as f64 && rate.until * 1e6 <= to_us as f64)
            .map(|rate| rate.transactions_per_second)
            .collect();
        (!inside.is_empty()).then(|| inside.iter().sum::<f64>() / inside.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_the_mean_of_the_seconds_inside_the_recording() {
        let rates = Rates::parse(
            "pgbench: setting random seed to 1\n\
             progress: 100.500 s, 1.0 tps, lat 0.033 ms stddev 0.238\n\
             progress: 101.500 s, 10.0 tps, lat 0.033 ms stddev 0.238, 0 failed\n\
             progress: 102.500 s, 20.0 tps, lat 0.022 ms stddev 0.123, 0 failed\n\
             progress: 103.500 s, 4.0 tps, lat 0.022 ms stddev 0.123, 0 failed\n\
             progress: 104.5",
        );
        assert_eq!(rates.mean_between(100_400_000, 102_600_000), Some(15.0));
        assert_eq!(rates.mean_between(0, 1_000_000), None);
    }
}
