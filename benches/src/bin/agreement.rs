//! `agreement`: compares the sampled tier with the exact one, recorded at the same time, as Markdown on standard output.
//!
//! Loads differ in what their sessions wait for; each runs with few and many clients, on the given servers. Each wait event and state with
//! at least 1 % of DB time is a line: what both tiers say, the 95 % interval of the sampled number, and whether the two agree. Kernel
//! accounting makes the sums of each state group equal; what can differ is how samples split them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use dbtime::output::{say, to_stdout};
use dbtime::throwaway::page_cache::KeepOut;
use dbtime::throwaway::{Cluster, Options};
use dbtime_model::recording::Recording;
use dbtime_model::{ActivityRow, CounterRow, SessionId, SessionRow, State, Table, counter};
use tempfile::TempDir;

/// The share of DB time that a line needs.
const LEAST_SHARE: f64 = 0.01;
/// Differences up to this count as none, whatever the samples' interval is.
const TOLERANCE: f64 = 0.03;
/// Between the start of the load and that of the recorders, and after their end.
const MARGIN_S: u64 = 3;
const RATE_HZ: u32 = 99;
const SECOND_US: i64 = 1_000_000;

/// Compare the sampled tier with the exact one.
#[derive(Debug, Parser)]
#[command(name = "agreement", max_term_width = 100)]
struct Arguments {
    /// Length of each pair of recordings
    #[arg(short, long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..))]
    duration: u64,
    /// Clients
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,8,64")]
    clients: Vec<u32>,
    /// Only these loads
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_values_t = Load::ALL.map(|load| load.name().to_string()))]
    load: Vec<String>,
    /// Servers: directories of their programs; the installed one when none is given
    #[arg(long, value_name = "DIR")]
    bin_dir: Vec<PathBuf>,
    /// The dbtime to measure [default: the one built beside this program]
    #[arg(long, value_name = "FILE")]
    dbtime: Option<PathBuf>,
}

/// What the clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// TPC-B with synced commits: short waits for the disk, queues behind the log.
    TpcB,
    /// Reads and writes of several statements in a transaction, as sysbench's oltp_read_write.
    ReadWrite,
    /// Single rows from the page cache.
    CachedReads,
    /// Single rows from the disk.
    ColdReads,
    /// A table larger than the server's buffers, from the page cache; from 18 on I/O workers read it.
    Scans,
    /// All clients want the same row.
    Locks,
    /// Computing, with more clients than CPUs where there are enough.
    Computing,
}

impl Load {
    const ALL: [Load; 7] = [
        Load::TpcB,
        Load::ReadWrite,
        Load::CachedReads,
        Load::ColdReads,
        Load::Scans,
        Load::Locks,
        Load::Computing,
    ];

    fn name(self) -> &'static str {
        match self {
            Load::TpcB => "tpcb",
            Load::ReadWrite => "read-write",
            Load::CachedReads => "cached-reads",
            Load::ColdReads => "cold-reads",
            Load::Scans => "scans",
            Load::Locks => "locks",
            Load::Computing => "computing",
        }
    }

    /// The pgbench script, with variables as in pgbench's manual.
    fn script(self) -> &'static str {
        match self {
            Load::TpcB => {
                "\\set aid random(1, 100000 * :scale)\n\\set bid random(1, :scale)\n\\set tid random(1, 10 * :scale)\n\
                 \\set delta random(-5000, 5000)\nBEGIN;\n\
                 UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n\
                 SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n\
                 UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;\n\
                 UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;\n\
                 INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)\n\
                 VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);\nEND;\n"
            }
            Load::ReadWrite => {
                "\\set a random(1, 100000 * :scale - 100)\n\\set b random(1, 100000 * :scale)\n\
                 \\set c random(1, 100000 * :scale)\nBEGIN;\n\
                 SELECT abalance FROM pgbench_accounts WHERE aid = :a;\n\
                 SELECT abalance FROM pgbench_accounts WHERE aid = :b;\n\
                 SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :a AND :a + 99;\n\
                 SELECT DISTINCT filler FROM pgbench_accounts WHERE aid BETWEEN :a AND :a + 99 ORDER BY 1;\n\
                 UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :c;\n\
                 UPDATE pgbench_accounts SET filler = 'x' WHERE aid = :b;\nEND;\n"
            }
            Load::CachedReads | Load::ColdReads => {
                "\\set aid random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
            }
            Load::Scans => "SELECT count(filler) FROM pgbench_accounts;\n",
            Load::Locks => {
                "BEGIN;\nUPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;\n\
                 SELECT sum(abalance) FROM pgbench_accounts WHERE aid <= 2000;\nEND;\n"
            }
            Load::Computing => "SELECT count(*) FROM generate_series(1, 20000) AS n WHERE n % 7 = 3;\n",
        }
    }
}

/// How much time there was by wait event and state.
type Cells = BTreeMap<(String, &'static str), Cell>;

#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    ns: u64,
    samples: u64,
}

/// What one tier says about the seconds that both have.
struct Said {
    cells: Cells,
    torn: i64,
    off_cpu_samples: u64,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say(format_args!("agreement: {e:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let dbtime = match &arguments.dbtime {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("dbtime"),
    };
    let loads = arguments
        .load
        .iter()
        .map(|name| {
            let known = Load::ALL.into_iter().find(|load| load.name() == name);
            known.with_context(|| format!("there is no load '{name}'"))
        })
        .collect::<Result<Vec<_>>>()?;
    let servers = match &arguments.bin_dir[..] {
        [] => vec![None],
        given => given.iter().map(|directory| Some(directory.as_path())).collect(),
    };
    let mut lines = 0;
    let mut outside = 0;
    for bin_dir in servers {
        let mut options = Options::default()
            .set("fsync", "on")
            .set("shared_buffers", "32MB")
            .set("max_connections", "150")
            .set("autovacuum", "off")
            .set("max_parallel_workers_per_gather", "0");
        if let Some(given) = bin_dir {
            options = options.bin_dir(
                &given
                    .canonicalize()
                    .with_context(|| given.display().to_string())?,
            );
        }
        let cluster = Cluster::start(&options)?;
        pgbench(&cluster)?
            .args(["--initialize", "--quiet", "--scale=10", "postgres"])
            .status()?;
        cluster.psql("CHECKPOINT")?;
        let version = cluster.psql("SHOW server_version")?;
        for &load in &loads {
            for &clients in &arguments.clients {
                say(format_args!(
                    "PostgreSQL {version}: {}, {clients} clients",
                    load.name()
                ));
                let (sampled, exact) = record(&cluster, &dbtime, load, clients, arguments.duration)?;
                let (text, found) = table(&sampled, &exact);
                lines += found.lines;
                outside += found.outside;
                let title = format!(
                    "\n### PostgreSQL {version}, {}, {clients} clients\n\n{text}",
                    load.name()
                );
                to_stdout(|out| out.write_all(title.as_bytes()))?;
            }
        }
    }
    let sum = format!("\n{outside} of {lines} lines outside\n");
    to_stdout(|out| out.write_all(sum.as_bytes()))?;
    Ok(())
}

fn pgbench(cluster: &Cluster) -> Result<Command> {
    let mut command = cluster.client_program("pgbench")?;
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// Records with both tiers at once, under the load.
fn record(cluster: &Cluster, dbtime: &Path, load: Load, clients: u32, seconds: u64) -> Result<(Said, Said)> {
    let home = TempDir::with_prefix("dbtime-bench-")?;
    let script = home.path().join("load.sql");
    fs::write(&script, load.script())?;
    let _cold = match load {
        Load::ColdReads => Some(KeepOut::start(
            &cluster.relation_files("pgbench_accounts")?,
            Duration::from_millis(200),
        )?),
        _ => None,
    };
    let mut program = pgbench(cluster)?;
    program
        .args(["--no-vacuum", "--jobs=2"])
        .arg(format!("--client={clients}"))
        .arg(format!("--time={}", seconds + 2 * MARGIN_S))
        .arg("--define=scale=10")
        .arg("--file")
        .arg(&script)
        .arg("postgres");
    let mut running = program.spawn()?;
    std::thread::sleep(Duration::from_secs(MARGIN_S));
    let paths = ["sampled.dbt", "exact.dbt"].map(|name| home.path().join(name));
    let recorders = [
        recorder(dbtime, cluster, seconds, &paths[0], None)?,
        recorder(dbtime, cluster, seconds, &paths[1], Some("--exact=calls"))?,
    ];
    for mut recorder in recorders {
        if !recorder.wait()?.success() {
            bail!("dbtime record failed; try it by hand on a server of yours");
        }
    }
    running.wait()?;
    let [sampled, exact] = paths.map(|path| Recording::open(&path));
    let (sampled, exact) = (sampled?, exact?);
    // Whole seconds that both have, except the first and the last.
    let (of_one, of_other) = (seconds_of(&sampled), seconds_of(&exact));
    let first = of_one.0.max(of_other.0) + SECOND_US;
    let last = of_one.1.min(of_other.1) - SECOND_US;
    if first >= last {
        bail!("the recordings have no seconds in common");
    }
    Ok((said(&sampled, first, last), said(&exact, first, last)))
}

fn recorder(
    dbtime: &Path,
    cluster: &Cluster,
    seconds: u64,
    output: &Path,
    tier: Option<&str>,
) -> Result<Child> {
    Command::new(dbtime)
        .arg("record")
        .arg("--postgres")
        .arg(cluster.data_dir())
        .args(["-d", &seconds.to_string(), "-F", &RATE_HZ.to_string()])
        .args(tier)
        .arg("-o")
        .arg(output)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run {}", dbtime.display()))
}

fn rows<T: Table>(recording: &Recording) -> Vec<T> {
    let mut rows = Vec::new();
    recording.read(|mut more| rows.append(&mut more));
    rows
}

fn seconds_of(recording: &Recording) -> (i64, i64) {
    rows::<ActivityRow>(recording)
        .iter()
        .fold((i64::MAX, 0), |(first, last), row| {
            (first.min(row.time), last.max(row.time))
        })
}

/// What client sessions did, except waiting for their next command.
fn said(recording: &Recording, first: i64, last: i64) -> Said {
    let clients: Vec<SessionId> = rows::<SessionRow>(recording)
        .into_iter()
        .filter(|session| session.backend_type == "client backend")
        .map(|session| session.id)
        .collect();
    let mut said = Said {
        cells: Cells::new(),
        torn: rows::<CounterRow>(recording)
            .iter()
            .filter(|row| row.source == counter::DBTIME && row.name == counter::TORN)
            .map(|row| row.value)
            .sum(),
        off_cpu_samples: 0,
    };
    for row in rows::<ActivityRow>(recording) {
        if row.time < first || row.time > last || !clients.contains(&row.session) {
            continue;
        }
        let state = match row.state {
            State::User | State::Kernel | State::Cpu => "on CPU",
            other => other.as_str(),
        };
        if state != "on CPU" {
            said.off_cpu_samples += row.samples;
        }
        if row.idle && row.state != State::Runnable {
            continue;
        }
        let wait = match row.wait_class == row.wait_event {
            true => row.wait_class.to_string(),
            false => format!("{}:{}", row.wait_class, row.wait_event),
        };
        let cell = said.cells.entry((wait, state)).or_default();
        cell.ns += row.ns;
        cell.samples += row.samples;
    }
    said
}

#[derive(Debug, Default)]
struct Found {
    lines: u32,
    outside: u32,
}

fn table(sampled: &Said, exact: &Said) -> (String, Found) {
    let total: u64 = exact.cells.values().map(|cell| cell.ns).sum();
    let mut keys: Vec<_> = sampled.cells.keys().chain(exact.cells.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let of = |said: &Said, key| said.cells.get(key).copied().unwrap_or_default();
    keys.sort_by_key(|key| std::cmp::Reverse(of(exact, *key).ns));
    let mut found = Found::default();
    let mut text = "| wait event | state | sampled, s | ± 95 % | exact, s | difference | |\n|---|---|---:|---:|---:|---:|---|\n".to_string();
    for key in keys {
        let (cell, truth) = (of(sampled, key), of(exact, key));
        if (cell.ns.max(truth.ns) as f64) < LEAST_SHARE * total as f64 {
            continue;
        }
        let seconds = |ns: u64| ns as f64 / 1e9;
        let interval = 1.96 * seconds(cell.ns) / (cell.samples.max(1) as f64).sqrt();
        let difference = seconds(cell.ns) - seconds(truth.ns);
        let is_outside = difference.abs() > interval && difference.abs() > TOLERANCE * seconds(truth.ns);
        found.lines += 1;
        found.outside += u32::from(is_outside);
        let _ = writeln!(
            text,
            "| {} | {} | {:.3} | {:.3} | {:.3} | {:+.1} % | {} |",
            key.0,
            key.1,
            seconds(cell.ns),
            interval,
            seconds(truth.ns),
            100.0 * difference / seconds(truth.ns).max(1e-9),
            if is_outside { "outside" } else { "" },
        );
    }
    let _ = writeln!(
        text,
        "\n{} of {} lines outside; torn {} of {} samples off CPU",
        found.outside, found.lines, sampled.torn, sampled.off_cpu_samples
    );
    (text, found)
}
