//! Mixes of short statements: the time of each lies between what the server says that its execution took and what its client waited.

use std::collections::BTreeMap;
use std::process::Command;

use dbtime::throwaway::{Cluster, Options, PORT, SUPERUSER};
use dbtime_tests::{Recorded, Recorder, assert_between, distribution, needs_recording, number, pgbench, say};

const CLIENTS: u64 = 4;
const TRANSACTIONS: u64 = 400;

fn server() -> Cluster {
    let options = Options::default()
        .set("shared_preload_libraries", "pg_stat_statements")
        .set("pg_stat_statements.track_planning", "on")
        .set("autovacuum", "off");
    let cluster = distribution().start(options);
    cluster
        .psql("CREATE EXTENSION pg_stat_statements")
        .expect("scripts/deps.sh installs a server that has it");
    cluster
}

/// What the server says of a statement.
struct Told {
    calls: u64,
    /// Planned and executed, seconds.
    seconds: f64,
    text: String,
}

fn told(cluster: &Cluster) -> BTreeMap<String, Told> {
    let answer = cluster.psql(
        "SELECT queryid, calls, (total_exec_time + total_plan_time) / 1000, regexp_replace(query, '\\s+', ' ', 'g') \
         FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'",
    );
    let answer = answer.expect("it is there");
    let rows = answer.lines().map(|line| {
        let mut columns = line.splitn(4, '\t');
        let mut next = || columns.next().expect("four columns");
        let id = next().to_string();
        let calls = next().parse().expect("a number");
        let seconds = next().parse().expect("a number");
        let text = next().to_string();
        (id, Told { calls, seconds, text })
    });
    rows.collect()
}

/// Commands of each statement, and seconds of them, by query id.
fn commands(recorded: &Recorded) -> BTreeMap<String, (u64, f64)> {
    let report = recorded.json(&["--tail", "--top", "100"]);
    let statements = report["statements"].as_array().expect("statements").iter();
    let known = statements.filter_map(|of| {
        let id = of["query"].as_str()?.to_string();
        Some((id, (of["count"].as_u64()?, number(&of["total_ns"]) / 1e9)))
    });
    known.collect()
}

/// Seconds that a client waited for a statement on average, of what pgbench prints of each.
fn waited(printed: &str, beginning: &str) -> f64 {
    let lines = printed.lines().filter_map(|line| {
        let (ms, rest) = line.trim_start().split_once(' ')?;
        // Failed ones are counted in between, from 15 on.
        let text = rest
            .trim_start()
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .trim_start();
        text.starts_with(beginning).then(|| ms.parse::<f64>().ok())?
    });
    let found: Vec<f64> = lines.collect();
    let [ms] = found[..] else {
        panic!("{beginning}: {printed}");
    };
    ms / 1e3
}

#[test]
fn time_of_each_of_pgbenchs_statements_lies_between_the_servers_and_the_clients() {
    needs_recording!();
    let cluster = server();
    pgbench::initialise(&cluster, 4);
    let exact = Recorder::server(&cluster, &["--exact=calls"]);
    cluster
        .psql("SELECT pg_stat_statements_reset()")
        .expect("it is there");
    let transactions = format!("--transactions={TRANSACTIONS}");
    let printed = pgbench::run(
        &cluster,
        &[
            "--no-vacuum",
            "--client=4",
            "--jobs=2",
            "--report-per-command",
            &transactions,
        ],
    );
    let recorded = exact.stop();
    let told = told(&cluster);
    let commands = commands(&recorded);
    let ledger = recorded.statements();
    for beginning in pgbench::STATEMENTS {
        let of_server = told.iter().find(|(_, told)| told.text.starts_with(beginning));
        let (id, of_server) = of_server.unwrap_or_else(|| panic!("{beginning}: the server has none"));
        assert_eq!(of_server.calls, CLIENTS * TRANSACTIONS, "{beginning}");
        let &(count, seconds) = commands
            .get(id)
            .unwrap_or_else(|| panic!("{beginning}: {commands:?}"));
        let of_ledger = ledger.get(id).map_or(0.0, |(seconds, _)| *seconds);
        let by_client = waited(&printed, beginning) * (CLIENTS * TRANSACTIONS) as f64;
        say(&format!(
            "{beginning}: {:.4} s executed, {seconds:.4} s of commands, {of_ledger:.4} s in the ledger, {by_client:.4} s waited for",
            of_server.seconds
        ));
        assert_eq!(count, CLIENTS * TRANSACTIONS, "{beginning}");
        // pgbench prints microseconds.
        let rounded = 0.5e-6 * count as f64;
        for (what, found) in [("commands", seconds), ("ledger", of_ledger)] {
            assert_between(
                &format!("{beginning}, {what}"),
                found,
                of_server.seconds,
                by_client,
                0.02,
                rounded,
            );
        }
    }
}

/// Runs an action of sysbench's mix of reads and writes; returns what it printed.
fn sysbench(cluster: &Cluster, action: &[&str]) -> String {
    let output = Command::new("sysbench")
        .arg("oltp_read_write")
        .args([
            "--db-driver=pgsql",
            "--pgsql-db=postgres",
            "--tables=1",
            "--table-size=20000",
        ])
        .arg(format!("--pgsql-host={}", cluster.socket_dir().display()))
        .arg(format!("--pgsql-port={PORT}"))
        .arg(format!("--pgsql-user={SUPERUSER}"))
        .args(action)
        .output()
        .expect("scripts/deps.sh test installs sysbench");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}");
    printed
}

#[test]
fn time_of_sysbenchs_statements_lies_between_the_servers_and_the_clients() {
    needs_recording!();
    let cluster = server();
    sysbench(&cluster, &["prepare"]);
    let exact = Recorder::server(&cluster, &["--exact=calls"]);
    cluster
        .psql("SELECT pg_stat_statements_reset()")
        .expect("it is there");
    let printed = sysbench(&cluster, &["--threads=2", "--events=300", "--time=0", "run"]);
    let recorded = exact.stop();
    let told = told(&cluster);
    let commands = commands(&recorded);
    let after = |name: &str| {
        let found = printed.lines().find_map(|line| line.trim().strip_prefix(name));
        let number = found.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        number.unwrap_or_else(|| panic!("{name} {printed}"))
    };
    // Both threads prepare each once, which is a command and no call. So is one that fails, as of two that wait for each other; its
    // transaction is done again.
    let more = 2 + after("ignored errors:") as u64;
    let (mut of_commands, mut of_server) = (0.0, 0.0);
    for (id, told) in told.iter().filter(|(_, told)| told.calls >= 300) {
        let &(count, seconds) = commands
            .get(id)
            .unwrap_or_else(|| panic!("{}: {commands:?}", told.text));
        say(&format!(
            "{count} commands of {} calls, {seconds:.4} s for {:.4} s executed: {}",
            told.calls, told.seconds, told.text
        ));
        assert!(
            (told.calls..=told.calls + more).contains(&count),
            "{}: {count}",
            told.text
        );
        assert!(told.seconds < seconds, "{}: {seconds}", told.text);
        of_commands += seconds;
        of_server += told.seconds;
    }
    let by_client = after("sum:") / 1e3;
    assert_between("commands, s", of_commands, of_server, by_client, 0.0, 0.0);
}
