//! Every version decodes its wait events: the recording says what `pg_stat_activity` says.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{Recorded, Recorder, Server, Session, builds, distribution, needs_recording};

/// Statements that wait for ever, and for what.
const WAITERS: [(&str, &str); 6] = [
    ("SELECT pg_sleep(600)", "Timeout:PgSleep"),
    ("UPDATE t SET v = 2", "Lock:transactionid"),
    ("UPDATE t SET v = 3", "Lock:tuple"),
    ("SELECT pg_advisory_lock(1)", "Lock:advisory"),
    ("SELECT * FROM locked", "Lock:relation"),
    ("SELECT 1", "Client:ClientRead"),
];

/// One process as `pg_stat_activity` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Activity {
    backend_type: String,
    wait: String,
    user: String,
    database: String,
}

fn view(cluster: &Cluster) -> BTreeMap<u32, Activity> {
    let text = cluster
        .psql(
            "SELECT pid, backend_type, wait_event_type || ':' || wait_event, usename, datname
             FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
        )
        .expect("it answers");
    text.lines()
        .map(|line| {
            let mut fields = line.split('\t').map(str::to_string);
            let mut next = || fields.next().unwrap_or_default();
            let pid = next().parse().expect("a pid");
            let activity = Activity {
                backend_type: next(),
                wait: next(),
                user: next(),
                database: next(),
            };
            (pid, activity)
        })
        .collect()
}

fn wait_until_all_wait(cluster: &Cluster) {
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        let view = view(cluster);
        let waits = |wait: &str| view.values().any(|activity| activity.wait == wait);
        if WAITERS.iter().all(|(_, wait)| waits(wait)) {
            return;
        }
        assert!(Instant::now() < give_up, "not all of the waits came: {view:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn waits_decode(server: &Server) {
    let cluster = server.start(Options::default());
    cluster
        .psql("CREATE TABLE t AS SELECT 1 AS v; CREATE TABLE locked ()")
        .expect("tables can be made");
    let mut holder = Session::connect(&cluster);
    holder.run("BEGIN; UPDATE t SET v = 1; LOCK TABLE locked; SELECT pg_advisory_lock(1)");
    let mut waiters = Vec::new();
    for (sql, _) in WAITERS {
        let mut session = Session::connect(&cluster);
        waiters.push(std::thread::spawn(move || {
            // Ends with an error when the server is stopped; the idle one has nothing to wait for.
            let _ = session.try_run(sql);
            session
        }));
        // The second update must queue behind the first.
        std::thread::sleep(Duration::from_millis(50));
    }
    wait_until_all_wait(&cluster);

    let recorder = Recorder::server(&cluster, &[]);
    let before = view(&cluster);
    std::thread::sleep(Duration::from_millis(1500));
    let after = view(&cluster);
    let recorded = recorder.stop();
    drop(cluster);

    for (pid, activity) in before {
        // Background processes change their waits by themselves; only what stayed is known.
        if after.get(&pid) == Some(&activity) {
            recorded_as_seen(server, &recorded, pid, &activity);
        }
    }
}

#[track_caller]
fn recorded_as_seen(server: &Server, recorded: &Recorded, pid: u32, activity: &Activity) {
    let session = recorded.session(pid);
    let name = &server.name;
    assert_eq!(
        session.row.backend_type, activity.backend_type,
        "{name}: {:?}",
        session.row
    );
    // A background process connects as the bootstrap superuser, which its title does not say.
    if activity.backend_type == "client backend" {
        assert_eq!(session.row.user, activity.user, "{name}: {:?}", session.row);
    }
    assert_eq!(
        session.row.database, activity.database,
        "{name}: {:?}",
        session.row
    );
    let share = session.share_of_wait(&activity.wait);
    let ledger = session.ledger();
    if activity.backend_type == "client backend" {
        assert!(share >= 0.98, "{name}: {activity:?} but recorded\n{ledger}");
        // It may while it connects, and while it goes.
        assert!(
            session.torn <= 2,
            "{name}: a waiter does not tear: {activity:?}, {}",
            session.torn
        );
    } else {
        assert!(share > 0.0, "{name}: {activity:?} but recorded\n{ledger}");
    }
}

#[test]
fn of_the_distribution() {
    needs_recording!();
    waits_decode(&distribution());
}

fn of_major(major: u32) {
    needs_recording!();
    for server in builds(&[major]) {
        waits_decode(&server);
    }
}

#[test]
fn of_14() {
    of_major(14);
}

#[test]
fn of_15() {
    of_major(15);
}

#[test]
fn of_16() {
    of_major(16);
}

#[test]
fn of_17() {
    of_major(17);
}

#[test]
fn of_18() {
    of_major(18);
}
