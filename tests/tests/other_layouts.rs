//! A server that keeps its query ids elsewhere than others do: they are found by its debug information, or asked of it and joined, or said
//! to be unknown; never read from where others have them.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options, SUPERUSER};
use dbtime_tests::{Moved, Recorded, Recorder, Session, assert_close, builds, needs_recording, say};

/// What sessions execute all the time, how they are called in a recording, and how many do.
const STATEMENTS: [(&str, &str, usize); 3] = [
    ("SELECT pg_sleep(600)", "select pg_sleep", 2),
    ("SELECT 'ZQ4711', pg_sleep(600), 2", "select ?", 1),
    // It is on a CPU, or in the run queue.
    (
        "SELECT count(*) FROM (SELECT generate_series(1, 2000000000)) t",
        "select count",
        1,
    ),
];
/// What the sessions' application calls itself.
const APPLICATION: &str = "other layouts";
/// Of a share.
const ERROR: f64 = 0.15;

/// Sessions that are busy until the server ends; returns their processes.
fn busy(cluster: &Cluster) -> Vec<u32> {
    let mut pids = Vec::new();
    for (statement, _, sessions) in STATEMENTS {
        for _ in 0..sessions {
            let mut session = Session::connect(cluster);
            session.run(&format!("SET application_name = '{APPLICATION}'"));
            pids.push(session.pid());
            // It ends with an error when its server does.
            thread::spawn(move || session.try_run(statement));
        }
    }
    pids
}

/// The ids of their statements, by the text as the server shows it; once all of them execute one.
fn ids(cluster: &Cluster, pids: &[u32]) -> BTreeMap<String, String> {
    let mut witness = Session::connect(cluster);
    let those = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let working =
        format!("pid IN ({those}) AND state = 'active' AND query_id <> 0 AND query NOT LIKE 'SET %'");
    let give_up = Instant::now() + Duration::from_secs(10);
    while witness.ask(&format!("SELECT count(*) FROM pg_stat_activity WHERE {working}"))
        != pids.len().to_string()
    {
        assert!(Instant::now() < give_up, "the sessions do not begin");
        thread::sleep(Duration::from_millis(20));
    }
    let id = |statement: &str| {
        let text = statement.replace('\'', "''");
        witness.ask(&format!(
            "SELECT DISTINCT query_id FROM pg_stat_activity WHERE {working} AND query = '{text}'"
        ))
    };
    let found: Vec<String> = STATEMENTS.map(|(statement, ..)| statement).map(id).into();
    let statements = STATEMENTS.iter().map(|(statement, ..)| statement.to_string());
    statements.zip(found).collect()
}

/// Each statement has the share of its sessions, and its text.
fn assert_shares(what: &str, recorded: &Recorded, ids: &BTreeMap<String, String>) {
    assert_eq!(recorded.meta.database.statement_ids, "query_id", "{what}");
    let found = recorded.statements();
    say(&format!("{what}: {found:#?}"));
    let all: f64 = found.values().map(|(seconds, _)| seconds).sum();
    let sessions: usize = STATEMENTS.iter().map(|(.., sessions)| sessions).sum();
    for (statement, begins, of_it) in STATEMENTS {
        let id = &ids[statement];
        let (seconds, text) = found
            .get(id)
            .unwrap_or_else(|| panic!("{what}: {statement} ({id}) is not in {found:#?}"));
        assert_close(
            &format!("{what}: share of {statement}"),
            seconds / all,
            of_it as f64 / sessions as f64,
            ERROR,
            0.0,
        );
        assert!(
            text.to_lowercase().starts_with(begins) && !text.contains("ZQ"),
            "{what}: {text}"
        );
    }
}

#[test]
fn what_lies_elsewhere_is_found_or_joined_or_unknown() {
    needs_recording!();
    let Some(build) = builds(&[16]).pop() else {
        return;
    };
    let moved = Moved::of(&build);
    let options = Options::default()
        .set("compute_query_id", "on")
        .set("max_parallel_workers_per_gather", "0")
        .set("jit", "off")
        .set("autovacuum", "off");
    let cluster = moved.server.start(options);
    let pids = busy(&cluster);
    let ids = ids(&cluster, &pids);

    let debug_file = moved.install_debug_file();
    let recorder = Recorder::server(&cluster, &[]);
    drop(debug_file);
    thread::sleep(Duration::from_millis(1_500));
    let recorded = recorder.stop();
    assert!(
        recorded.stderr.contains("debug information"),
        "{}",
        recorded.stderr
    );
    assert!(
        recorded.meta.database.entries_checked as usize >= pids.len(),
        "{:?}",
        recorded.meta.database
    );
    assert_shares("by debug information", &recorded, &ids);

    // Nobody says any longer where they are.
    let connect = format!("--connect=user={SUPERUSER}");
    let sampled = Recorder::server(&cluster, &[&connect]);
    let exact = Recorder::server(&cluster, &["--exact=calls", &connect]);
    let unknown = Recorder::server(&cluster, &[]);
    thread::sleep(Duration::from_millis(3_000));
    let unknown = unknown.stop();
    for (what, recorder) in [("joined, sampled", sampled), ("joined, exact", exact)] {
        let recorded = recorder.stop();
        assert!(
            recorded.stderr.contains("joined") && recorded.stderr.contains("pg_stat_activity"),
            "{what}: {}",
            recorded.stderr
        );
        let mut reasons = recorded.meta.collector.reasons.iter();
        assert!(reasons.any(|reason| reason.contains("joined")), "{what}");
        assert_shares(what, &recorded, &ids);
        for &pid in &pids {
            let session = recorded.session(pid);
            session.assert_conserved();
            assert_eq!(session.row.application, APPLICATION, "{what}");
        }
    }
    assert_eq!(unknown.meta.database.statement_ids, "");
    // Not even that there were some.
    assert!(unknown.json(&[])["statements"].is_null());
    for words in ["query ids are not recorded", "debug symbols", "--connect"] {
        assert!(unknown.stderr.contains(words), "{words}: {}", unknown.stderr);
    }
}
