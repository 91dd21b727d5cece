//! The load: pgbench, and the transactions it counts second by second.

use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use dbtime::throwaway::Cluster;
use tempfile::TempDir;

use crate::program::Program;
use crate::setup::Setup;

/// Longer than any run: pgbench is stopped from here.
const NO_LIMIT: &str = "--time=86400";
/// How long connecting may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Random single-row reads by prepared statement, with a report every second.
#[derive(Debug)]
pub(crate) struct Load {
    program: Program,
    /// End of the last report.
    end_s: f64,
}

/// One report of pgbench: from the one before to this.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Interval {
    start_s: f64,
    end_s: f64,
    transactions_per_s: f64,
}

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    /// Transactions.
    pub(crate) transactions: f64,
    /// In this time.
    pub(crate) seconds: f64,
    /// When it ended, seconds since the epoch.
    pub(crate) end_s: f64,
}

impl Measured {
    /// Both together.
    pub(crate) fn and(self, later: Measured) -> Measured {
        Measured {
            transactions: self.transactions + later.transactions,
            seconds: self.seconds + later.seconds,
            end_s: later.end_s,
        }
    }

    /// Throughput.
    pub(crate) fn transactions_per_s(self) -> f64 {
        self.transactions / self.seconds
    }
}

impl Load {
    /// Starts pgbench; returns after its first report.
    ///
    /// # Errors
    /// It does not run; or a signal came.
    pub(crate) fn start(cluster: &Cluster, setup: &Setup) -> Result<Load> {
        let clients = setup.arguments.clients;
        let threads = clients.min(2);
        let mut pgbench = cluster.client_program("pgbench")?;
        pgbench
            .args(["--select-only", "--protocol=prepared", "--no-vacuum", NO_LIMIT])
            .args(["--progress=1", "--progress-timestamp"])
            .arg(format!("--client={clients}"))
            .arg(format!("--jobs={threads}"))
            .arg("postgres");
        let mut program = Program::start(pgbench)?;
        let (end_s, _) = program.wait_for_line(&setup.stop, parse_report)?;
        Ok(Load { program, end_s })
    }

    /// Waits for whole reports that begin after a moment (seconds since the epoch), for this many seconds.
    ///
    /// # Errors
    /// pgbench has ended or reports nothing more; or a signal came.
    pub(crate) fn measure(&mut self, not_before_s: f64, seconds: u32, setup: &Setup) -> Result<Measured> {
        let mut sum = Measured {
            transactions: 0.0,
            seconds: 0.0,
            end_s: not_before_s,
        };
        let mut reports = 0;
        while reports < seconds {
            let interval = self.next_interval(setup)?;
            if interval.start_s >= not_before_s {
                let length = interval.end_s - interval.start_s;
                sum = sum.and(Measured {
                    transactions: interval.transactions_per_s * length,
                    seconds: length,
                    end_s: interval.end_s,
                });
                reports += 1;
            }
        }
        Ok(sum)
    }

    fn next_interval(&mut self, setup: &Setup) -> Result<Interval> {
        let (end_s, transactions_per_s) = self.program.wait_for_line(&setup.stop, parse_report)?;
        let start_s = std::mem::replace(&mut self.end_s, end_s);
        Ok(Interval {
            start_s,
            end_s,
            transactions_per_s,
        })
    }
}

/// Time and throughput of `progress: 1700000000.123 s, 23456.7 tps, lat 0.170 ms stddev 0.050, 0 failed`.
fn parse_report(line: &str) -> Option<(f64, f64)> {
    let (time, rest) = line.strip_prefix("progress: ")?.split_once(" s, ")?;
    let (throughput, _) = rest.split_once(" tps")?;
    Some((time.parse().ok()?, throughput.parse().ok()?))
}

/// Now, on the clock of the reports.
pub(crate) fn now_s() -> f64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_epoch.as_secs_f64()
}

/// Sessions that have run one statement each and do nothing more, held open by one process.
#[derive(Debug)]
pub(crate) struct IdleSessions {
    _program: Program,
    _script: TempDir,
}

impl IdleSessions {
    /// Opens them; returns when all are idle.
    ///
    /// # Errors
    /// They cannot be opened; or a signal came.
    pub(crate) fn open(cluster: &Cluster, number: u32, setup: &Setup) -> Result<IdleSessions> {
        let home = TempDir::with_prefix("dbtime-bench-")?;
        let script = home.path().join("idle.sql");
        fs::write(
            &script,
            "SELECT abalance FROM pgbench_accounts WHERE aid = 1;\n\\sleep 2000 s\n",
        )?;
        let mut pgbench = cluster.client_program("pgbench")?;
        pgbench
            .args(["--no-vacuum", NO_LIMIT, "--jobs=1"])
            .arg(format!("--client={number}"))
            .arg("--file")
            .arg(&script)
            .arg("postgres");
        let program = Program::start(pgbench)?;
        let give_up = Instant::now() + PATIENCE;
        let question =
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle' AND query LIKE 'SELECT abalance%'";
        loop {
            let idle: u32 = cluster.psql(question)?.parse()?;
            if idle >= number {
                break;
            }
            if Instant::now() > give_up {
                bail!(
                    "only {idle} of {number} sessions are there:\n{}",
                    cluster.log_tail()
                );
            }
            setup.stop.sleep(Duration::from_millis(200))?;
        }
        Ok(IdleSessions {
            _program: program,
            _script: home,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_all_versions_of_pgbench_are_understood() {
        let of_14 = "progress: 1700000000.123 s, 23456.7 tps, lat 0.170 ms stddev 0.050";
        let of_15 = "progress: 1700000000.123 s, 23456.7 tps, lat 0.170 ms stddev 0.050, 0 failed";
        for line in [of_14, of_15] {
            assert_eq!(parse_report(line), Some((1_700_000_000.123, 23_456.7)));
        }
        assert_eq!(parse_report("pgbench: error: connection refused"), None);
    }

    #[test]
    fn throughput_of_two_stretches_is_weighted_by_their_time() {
        let stretch = |transactions, seconds| Measured {
            transactions,
            seconds,
            end_s: 0.0,
        };
        let both = stretch(100.0, 1.0).and(stretch(500.0, 3.0));
        assert_eq!(both.transactions_per_s(), 150.0);
    }
}
