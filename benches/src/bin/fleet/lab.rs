//! The recordings that a fleet is made of: a throw-away PostgreSQL under different loads, each recorded as an agent records.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use dbtime::output::ProgressLine;
use dbtime::throwaway::{Cluster, Options};

/// Scale of pgbench's tables: 15 MB each.
const SCALE: &str = "30";
/// Time that a load runs before it is recorded.
const WARM: Duration = Duration::from_secs(5);
/// Different statements of reports.
const REPORTS: usize = 128;

/// A name, and what pgbench is asked for: one program or several.
type Load = (&'static str, Vec<Vec<String>>);

/// A program that is ended when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Records each load, or one of them, for this many seconds; returns what was made.
///
/// # Errors
/// There is no PostgreSQL, no permission to record, or the directory exists.
pub(crate) fn record(directory: &Path, seconds: u32, only: Option<&str>) -> Result<String> {
    fs::create_dir(directory)?;
    let dbtime = std::env::current_exe()?.with_file_name("dbtime");
    ensure!(dbtime.is_file(), "{} is not built", dbtime.display());
    let mut line = ProgressLine::new();
    line.show("starting a server");
    // Less memory than data, and settings that give statements their ids.
    let options = Options::default()
        .set("shared_buffers", "64MB")
        .set("max_connections", "400")
        .set("compute_query_id", "on")
        .set("fsync", "on");
    let cluster = Cluster::start(&options)?;
    let mut initialise = cluster.client_program("pgbench")?;
    initialise.args(["--initialize", "--quiet", "--scale", SCALE, "postgres"]);
    ensure!(
        initialise
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?
            .success(),
        "pgbench --initialize"
    );
    let scripts = tempfile::tempdir()?;
    let loads = loads(scripts.path())?.into_iter();
    for (name, programs) in loads.filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        line.show(&format!("recording {name}"));
        let running = programs
            .iter()
            .map(|words| {
                let mut pgbench = cluster.client_program("pgbench")?;
                pgbench
                    .args(["--no-vacuum", "--time=86400"])
                    .args(words)
                    .arg("postgres");
                Ok(Running(
                    pgbench
                        .stdin(Stdio::null())
                        .stdout(Stdio::null())
                        .stderr(Stdio::null())
                        .spawn()?,
                ))
            })
            .collect::<Result<Vec<Running>>>()?;
        std::thread::sleep(WARM);
        let recorded = Command::new(&dbtime)
            .args(["record", "--duration", &seconds.to_string(), "--postgres"])
            .arg(cluster.data_dir())
            .arg("-o")
            .arg(directory.join(name).with_extension("dbt"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        ensure!(recorded.success(), "dbtime record: {recorded}");
        drop(running);
    }
    Ok(format!(
        "recorded {} loads in {}\n",
        fs::read_dir(directory)?.count(),
        directory.display()
    ))
}

/// Transactions of a bank by many sessions, reads that miss the buffers, queues for a row among hundreds of idle sessions, reports by a
/// hundred statements, and connections that are made for each transaction.
fn loads(scripts: &Path) -> Result<Vec<Load>> {
    let script = |name: &str, text: &str| -> Result<String> {
        let path = scripts.join(name);
        fs::write(&path, text)?;
        Ok(format!("--file={}", path.display()))
    };
    let queue = script(
        "queue.sql",
        "BEGIN;\nUPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;\n\\sleep 20 ms\nEND;\n\\sleep 50 ms\n",
    )?;
    let idle = script(
        "idle.sql",
        "SELECT abalance FROM pgbench_accounts WHERE aid = 1;\n\\sleep 2000 s\n",
    )?;
    let mut reports = vec!["--client=4".to_string(), "--rate=8".to_string()];
    for number in 0..REPORTS {
        reports.push(script(&format!("report{number}.sql"), &report(number))?);
    }
    let words = |of: &[&str]| of.iter().map(|word| (*word).to_string()).collect::<Vec<String>>();
    Ok(vec![
        (
            "bank",
            vec![words(&[
                "--client=40",
                "--jobs=2",
                "--rate=300",
                "--protocol=prepared",
            ])],
        ),
        (
            "reads",
            vec![words(&[
                "--client=6",
                "--jobs=2",
                "--rate=4000",
                "--select-only",
                "--protocol=prepared",
            ])],
        ),
        (
            "queue",
            vec![
                [words(&["--client=12"]), vec![queue]].concat(),
                [words(&["--client=200"]), vec![idle]].concat(),
            ],
        ),
        ("reports", vec![reports]),
        (
            "connections",
            vec![words(&["--client=4", "--rate=20", "--connect"])],
        ),
    ])
}

/// One of many statements: the bits of its number decide which columns, conditions and joins it has. Different constants and names alone
/// would not make a different statement.
fn report(number: usize) -> String {
    let pick = |of: &[&str], from: u32, between: &str| {
        let chosen = of.iter().zip(from..).filter(|(_, bit)| number >> bit & 1 == 1);
        chosen
            .map(|(text, _)| format!("{between}{text}"))
            .collect::<String>()
    };
    let columns = pick(
        &["sum(abalance)", "max(length(a.filler))", "stddev(abalance)"],
        0,
        ", ",
    );
    let join = pick(
        &[
            "JOIN pgbench_branches b USING (bid)",
            "LEFT JOIN pgbench_tellers t USING (bid)",
        ],
        3,
        " ",
    );
    let conditions = pick(&["abalance >= -100000", "aid % 3 <> 1"], 5, " AND ");
    format!(
        "SELECT bid, count(*){columns} FROM pgbench_accounts a{join} WHERE aid < 20000{conditions} GROUP BY bid ORDER BY 2;\n"
    )
}
