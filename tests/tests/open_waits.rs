//! Waits that go on when the recording ends, so that nobody has ended them: who has the lock, against `pg_blocking_pids`.

use std::collections::BTreeMap;
use std::time::Duration;

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{
    Recorded, Recorder, Session, assert_close, distribution, every_version, needs_recording, number, pgbench,
    say,
};
use serde_json::Value;

/// Nanoseconds of a wait event, by pid (0 = of no session) and kind of the cause.
fn causes(recorded: &Recorded, wait: &str) -> BTreeMap<(u64, String), f64> {
    let report = recorded.json(&["--causes", "--top", "1000"]);
    let mut sums = BTreeMap::new();
    for of in report["causes"].as_array().expect("waits") {
        let by = of["by"].as_array().expect("parts");
        let sum: f64 = by.iter().map(|part| number(&part["ns"])).sum();
        assert_close("parts of a wait, ns", sum, number(&of["ns"]), 1e-9, 1.0);
        for part in by.iter().filter(|_| of["wait"] == wait) {
            let kind = part["kind"].as_str().expect("a word").to_string();
            *sums.entry((part["pid"].as_u64().unwrap_or(0), kind)).or_default() += number(&part["ns"]);
        }
    }
    sums
}

/// For a statement's wait for locks: the share that was for the first of them in the report, and that one.
fn waited_for(recorded: &Recorded, event: &str, text: &str) -> (f64, Value) {
    let report = recorded.json(&["--causes", "--top", "1000"]);
    let waits = report["causes"].as_array().expect("waits");
    let is_meant = |of: &&Value| {
        let said = of["text"].as_str().unwrap_or_default();
        of["wait"] == format!("Lock:{event}") && said.to_lowercase().contains(&text.to_lowercase())
    };
    let wait = waits
        .iter()
        .find(is_meant)
        .unwrap_or_else(|| panic!("{text}: {report:#}"));
    let locks = wait["locks"].as_array().unwrap_or_else(|| panic!("{wait:#}"));
    let known: f64 = locks.iter().map(|lock| number(&lock["ns"])).sum();
    assert!(known <= number(&wait["ns"]), "{wait:#}");
    (number(&locks[0]["ns"]) / number(&wait["ns"]), locks[0].clone())
}

/// By whom the server says that a session is blocked; 0 = by a prepared transaction.
fn blocked_by(witness: &mut Session, pid: u32) -> Vec<u64> {
    let said = witness.ask(&format!(
        "SELECT array_to_string(ARRAY(SELECT unnest(pg_blocking_pids({pid})) ORDER BY 1), ' ')"
    ));
    said.split_whitespace()
        .map(|pid| pid.parse().expect("a pid"))
        .collect()
}

/// The share that a cause has of a wait event.
fn share(of: &BTreeMap<(u64, String), f64>, pid: u32, kind: &str) -> f64 {
    let all: f64 = of.values().sum();
    of.get(&(u64::from(pid), kind.to_string()))
        .copied()
        .unwrap_or(0.0)
        / all
}

#[test]
fn who_has_the_lock_is_named_in_every_version_though_nobody_ends_the_wait() {
    needs_recording!();
    for server in every_version() {
        let cluster = server.start(Options::default().set("max_prepared_transactions", "5"));
        scene(&cluster);
    }
}

/// Every way in which somebody can have what a session waits for.
fn scene(cluster: &Cluster) {
    let mut witness = Session::connect(cluster);
    for sql in [
        "CREATE TABLE read (n int)",
        "CREATE TABLE shared (n int)",
        "CREATE TABLE prepared AS SELECT 0 AS n",
        "BEGIN; UPDATE prepared SET n = 1; PREPARE TRANSACTION 'forgotten'",
        // Names of relations are those of the last checkpoint.
        "CHECKPOINT",
    ] {
        for sql in sql.split("; ") {
            witness.run(sql);
        }
    }
    let [mut reader, mut one, mut other] = std::array::from_fn(|_| Session::connect(cluster));
    let holders = [&reader, &one, &other].map(Session::pid);
    reader.run("BEGIN; SELECT count(*) FROM read");
    for holder in [&mut one, &mut other] {
        holder.run("BEGIN; LOCK TABLE shared IN SHARE MODE");
    }
    let recorder = Recorder::server(cluster, &[]);
    // The table is only read, but whoever comes after the ALTER waits for it.
    let statements = [
        "ALTER TABLE read ADD m int",
        "SELECT count(*) FROM read",
        "SELECT count(*) FROM read",
        "INSERT INTO shared VALUES (1)",
        "UPDATE prepared SET n = 2",
    ];
    let mut sessions = statements.map(|_| Session::connect(cluster));
    let waiting = sessions.each_ref().map(Session::pid);
    let (recorded, said) = std::thread::scope(|scope| {
        for (session, sql) in sessions.iter_mut().zip(statements) {
            let pid = session.pid();
            scope.spawn(move || session.run(sql));
            while blocked_by(&mut witness, pid).is_empty() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        // Long enough for the deadlock timer to cut every wait.
        std::thread::sleep(Duration::from_millis(2_500));
        let said = waiting.map(|pid| blocked_by(&mut witness, pid));
        let recorded = recorder.stop();
        witness.run("ROLLBACK PREPARED 'forgotten'");
        for session in [&mut reader, &mut one, &mut other] {
            session.run("COMMIT");
        }
        (recorded, said)
    });
    let version = &recorded.meta.database.version;
    say(&format!("{version}: {said:?}"));
    let [reader, one, other] = holders.map(u64::from);
    let alter = u64::from(waiting[0]);
    let mut both = vec![one, other];
    both.sort_unstable();
    assert_eq!(
        said,
        [vec![reader], vec![alter], vec![alter], both, vec![0]],
        "the server itself"
    );

    let found = causes(&recorded, "Lock:relation");
    say(&format!("{found:?}"));
    let printed = recorded.text(&["--causes"]);
    // Three of four wait for the session that has read and now thinks, one for the two that share the lock, which have equal parts of its
    // time. They begin one after the other, as soon as the server can say so.
    let parts = holders.map(|pid| share(&found, pid, "client"));
    assert!(parts.iter().sum::<f64>() > 0.98, "{found:?}\n{printed}");
    assert_close("the reader", parts[0], 0.75, 0.07, 0.0);
    assert_close("who shares a lock", parts[1], parts[2], 0.03, 0.0);
    let found = causes(&recorded, "Lock:transactionid");
    assert!(share(&found, 0, "prepared") > 0.98, "{found:?}\n{printed}");
    assert!(printed.contains("a prepared transaction"), "{printed}");
    // Which relations, by the names that they were given here, and the row whose transaction nobody ends.
    for (wait, text, lock, row) in [
        (
            "relation",
            "ALTER TABLE read",
            "relation public.read in postgres",
            None,
        ),
        ("relation", "count", "relation public.read in postgres", None),
        (
            "relation",
            "INSERT INTO shared",
            "relation public.shared in postgres",
            None,
        ),
        (
            "transactionid",
            "UPDATE prepared",
            "transactionid ",
            Some("public.prepared"),
        ),
    ] {
        let (share, found) = waited_for(&recorded, wait, text);
        say(&format!("{text}: {found} {share:.3}"));
        let name = found["name"].as_str().expect("a name");
        // Looks are some tenths of a second apart where CPUs are busy.
        assert!(
            name.starts_with(lock) && share > 0.7,
            "{text}: {found}\n{printed}"
        );
        assert!(printed.contains(&format!("for {name}: ")), "{name}: {printed}");
        assert_eq!(found["row"]["relation_name"].as_str(), row, "{text}: {found}");
    }
    // Two waited for the ALTER, and three for the reader behind it.
    let report = recorded.json(&["--causes"]);
    let waiters = |pid: u64| {
        let blockers = report["blockers"].as_array().expect("blockers");
        let of = blockers.iter().find(|of| of["pid"] == pid);
        of.map_or(0.0, |of| number(&of["waiters"]))
    };
    assert_eq!((waiters(alter), waiters(reader)), (2.0, 3.0), "{printed}");

    // At a moment when all of them wait, each stands under the one that the server names.
    let seconds = number(&report["elapsed_ns"]) / 1e9 - 1.2;
    let at = recorded.json(&["--at", &format!("{seconds:.1}")]);
    let mut under = BTreeMap::new();
    // How much was not followed is checked above.
    let trees = at["chains"].as_array().expect("trees").iter();
    for chain in trees.filter(|chain| chain["kind"] != "unknown") {
        let root = chain["session"]["pid"].as_u64().unwrap_or(0);
        edges(chain["behind"].as_array().expect("waiters"), root, &mut under);
    }
    for (pid, said) in waiting.iter().zip(&said) {
        assert_eq!(
            under.get(&u64::from(*pid)),
            Some(said),
            "{under:?}\n{}",
            recorded.text(&["--chain"])
        );
    }
}

/// Under whom each session stands in a tree.
fn edges(behind: &[Value], of: u64, under: &mut BTreeMap<u64, Vec<u64>>) {
    for one in behind {
        let pid = one["pid"].as_u64().expect("a pid");
        let above = under.entry(pid).or_default();
        above.push(of);
        above.sort_unstable();
        above.dedup();
        edges(one["behind"].as_array().expect("waiters"), pid, under);
    }
}

#[test]
fn a_wait_that_the_server_ends_itself_was_for_who_had_the_lock() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let [mut holder, mut waiter] = std::array::from_fn(|_| Session::connect(&cluster));
    holder.run("SELECT pg_advisory_lock(1)");
    waiter.run("SET lock_timeout = '2500ms'");
    for tier in [&[][..], &["--exact=calls"]] {
        let recorder = Recorder::server(&cluster, tier);
        waiter
            .try_run("SELECT pg_advisory_lock(1)")
            .expect_err("it times out");
        let recorded = recorder.stop();
        let found = causes(&recorded, "Lock:advisory");
        assert!(
            share(&found, holder.pid(), "client") > 0.98,
            "{tier:?}: {found:?}"
        );
        let (share, lock) = waited_for(&recorded, "advisory", "pg_advisory_lock");
        assert_eq!(lock["name"], "advisory 1 in postgres", "{lock}");
        assert!(share > 0.7, "{tier:?}: {share} {lock}");
    }
}

#[test]
fn hundreds_that_wait_for_one_row_all_wait_for_its_holder() {
    needs_recording!();
    let cluster = distribution().start(Options::default().set("max_connections", "350"));
    pgbench::initialise(&cluster, 1);
    let mut holder = Session::connect(&cluster);
    holder.run("BEGIN; UPDATE pgbench_branches SET bbalance = 0");
    let load = pgbench::Load::start(
        &cluster,
        &["--no-vacuum", "--client=300", "--jobs=2", "--time=600"],
    );
    while holder
        .ask("SELECT count(*) FROM pg_locks WHERE NOT granted")
        .parse()
        != Ok(300)
    {
        std::thread::sleep(Duration::from_millis(100));
    }
    let recorded = Recorder::server(&cluster, &["-d", "5"]).finish();
    for wait in ["Lock:tuple", "Lock:transactionid"] {
        let found = causes(&recorded, wait);
        assert!(share(&found, holder.pid(), "client") > 0.97, "{wait}: {found:?}");
    }
    let cpu = recorded.meta.cost.cpu_ns as f64 / 1e9;
    say(&format!("300 wait for one: {cpu:.2} s of CPU"));
    holder.run("ROLLBACK");
    drop(load);
}
