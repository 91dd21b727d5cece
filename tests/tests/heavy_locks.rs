//! Heavyweight locks: against pg_locks, which another session reads at the same time, and against the clock of a holder.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{
    Recorder, Server, Session, assert_between, assert_close, builds, dbtime, distribution, every_version,
    needs_recording, number, say, stolen,
};
use serde_json::Value;

/// Seconds of a measurement: some twenty looks at the lock table.
const LOOKED: &str = "2";

/// Sessions queued behind each other, for every kind of lock that can be held for long.
struct Scene {
    cluster: Cluster,
    witness: Session,
    /// Holders, by their names here.
    holders: BTreeMap<&'static str, Session>,
    /// Pids of waiters.
    waiters: BTreeMap<&'static str, u32>,
    waiting: Vec<JoinHandle<()>>,
}

impl Scene {
    fn of(build: &Server) -> Scene {
        let options = Options::default()
            .set("autovacuum", "off")
            .set("max_prepared_transactions", "5")
            .set("compute_query_id", "on");
        let cluster = build.start(options);
        let mut witness = Session::connect(&cluster);
        witness.run(
            "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 9) i; \
             CREATE TABLE u (a int); CREATE TABLE v (a int); CREATE TABLE w (a int); CREATE TABLE x (a int); \
             CREATE TYPE mood AS ENUM ('good'); \
             DO $$ BEGIN FOR i IN 1..40 LOOP EXECUTE 'CREATE TABLE many' || i || ' (a int)'; END LOOP; END $$",
        );
        let many: String = (1..=40).map(|i| format!("SELECT FROM many{i};")).collect();
        let holds = [
            (
                "row",
                "BEGIN; UPDATE t SET n = 1 WHERE id = 1; SELECT pg_advisory_lock(42), pg_advisory_lock(-1, 2); \
                 SELECT FROM u; LOCK TABLE u IN SHARE MODE"
                    .to_string(),
            ),
            ("index", "BEGIN; INSERT INTO w VALUES (1)".to_string()),
            ("strong", "BEGIN; LOCK TABLE x IN ROW EXCLUSIVE MODE".to_string()),
            ("weak", "BEGIN; LOCK TABLE x IN ACCESS SHARE MODE".to_string()),
            ("type", "BEGIN; DROP TYPE mood".to_string()),
            ("many", format!("BEGIN; {many}")),
        ];
        let mut holders = BTreeMap::new();
        for (name, sql) in holds {
            let mut session = Session::connect(&cluster);
            session.run(&sql);
            holders.insert(name, session);
        }
        Session::connect(&cluster).run("BEGIN; LOCK TABLE v IN SHARE MODE; PREPARE TRANSACTION 'kept'");
        let mut scene = Scene {
            cluster,
            witness,
            holders,
            waiters: BTreeMap::new(),
            waiting: Vec::new(),
        };
        for (name, sql) in [
            ("transaction", "UPDATE t SET n = 2 WHERE id = 1"),
            ("tuple", "UPDATE t SET n = 3 WHERE id = 1"),
            ("advisory", "SELECT pg_advisory_lock(42)"),
            ("relation", "LOCK TABLE u IN ACCESS EXCLUSIVE MODE"),
            ("virtual", "CREATE INDEX CONCURRENTLY ON w (a)"),
            ("share", "LOCK TABLE x IN SHARE MODE"),
            ("prepared", "LOCK TABLE v IN EXCLUSIVE MODE"),
        ] {
            let mut session = Session::connect(&scene.cluster);
            scene.waiters.insert(name, session.pid());
            scene.waiting.push(std::thread::spawn(move || {
                // It also ends if a failing test stops the server.
                let sql = match sql.starts_with("LOCK") {
                    true => format!("BEGIN; {sql}; COMMIT"),
                    false => sql.to_string(),
                };
                let _ = session.try_run(&sql);
            }));
            // They queue in this order.
            let count = scene.waiting.len();
            let give_up = Instant::now() + Duration::from_secs(20);
            while scene
                .witness
                .ask("SELECT count(*) FROM pg_locks WHERE NOT granted")
                != count.to_string()
            {
                assert!(Instant::now() < give_up, "{name} does not wait");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        // The server looks for deadlocks once, after a second.
        std::thread::sleep(Duration::from_millis(1_200));
        scene
    }

    fn directory(&self) -> String {
        self.cluster
            .data_dir()
            .to_str()
            .expect("a plain path")
            .to_string()
    }

    /// What pg_locks shows of all but the one that asks: a line for each.
    fn by_server(&mut self) -> BTreeSet<String> {
        let said = self.witness.ask(
            "SELECT string_agg(concat_ws('|', coalesce(pid::text, ''), locktype, coalesce(database::text, ''), \
             coalesce(relation::text, ''), coalesce(page::text, ''), coalesce(tuple::text, ''), coalesce(virtualxid, ''), \
             coalesce(transactionid::text, ''), coalesce(classid::text, ''), coalesce(objid::text, ''), \
             coalesce(objsubid::text, ''), mode, granted::text, fastpath::text), E'\\n') \
             FROM pg_locks WHERE pid IS DISTINCT FROM pg_backend_pid()",
        );
        said.lines().map(str::to_string).collect()
    }

    /// Ends all of it.
    fn release(mut self) {
        self.witness.run("ROLLBACK PREPARED 'kept'");
        for session in self.holders.values_mut() {
            session.run("COMMIT");
            session.ask("SELECT count(pg_advisory_unlock_all()::text)");
        }
        for waiting in self.waiting {
            waiting.join().expect("it gets what it waits for");
        }
    }
}

/// What `dbtime latch` says of locks.
fn latch(arguments: &[&str]) -> Value {
    let outcome =
        dbtime(&[&["latch", "--format", "json", "--top", "1000"], arguments].concat()).expect_code(0);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    report["locks"].clone()
}

/// All locks, each with one request.
fn requests(report: &Value) -> Vec<(Value, Value)> {
    let locks = report["locks"].as_array().expect("locks").iter();
    let all = locks.flat_map(|lock| {
        let requests = lock["requests"].as_array().expect("requests").iter();
        requests.map(|request| (lock.clone(), request.clone()))
    });
    all.collect()
}

/// As [`Scene::by_server`] has it.
fn line(lock: &Value, request: &Value) -> String {
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let of_lock = [
        "type",
        "database",
        "relation",
        "page",
        "tuple",
        "virtualxid",
        "transactionid",
        "classid",
        "objid",
        "objsubid",
    ];
    let mut fields = vec![text(&request["pid"])];
    fields.extend(of_lock.iter().map(|field| text(&lock[*field])));
    fields.extend(["mode", "granted", "fast_path"].map(|field| text(&request[field])));
    fields.join("|")
}

/// Which modes conflict: the table in the documentation, 13.3.
fn conflict(one: &str, other: &str) -> bool {
    const MODES: [&str; 8] = [
        "AccessShareLock",
        "RowShareLock",
        "RowExclusiveLock",
        "ShareUpdateExclusiveLock",
        "ShareLock",
        "ShareRowExclusiveLock",
        "ExclusiveLock",
        "AccessExclusiveLock",
    ];
    const TABLE: [&str; 8] = [
        "       X", "      XX", "    XXXX", "   XXXXX", "  XX XXX", "  XXXXXX", " XXXXXXX", "XXXXXXXX",
    ];
    let place = |mode: &str| MODES.iter().position(|known| *known == mode).expect("a mode");
    TABLE[place(one)].as_bytes()[place(other)] == b'X'
}

#[test]
fn all_locks_are_those_of_pg_locks_in_every_version() {
    needs_recording!();
    for build in every_version() {
        let mut scene = Scene::of(&build);
        let (directory, name) = (scene.directory(), &build.name);
        let before = scene.by_server();
        let waited = |scene: &mut Scene, pid: u32| {
            let said = scene.witness.ask(&format!(
                "SELECT extract(epoch FROM clock_timestamp() - waitstart) FROM pg_locks WHERE pid = {pid} AND NOT granted"
            ));
            said.parse::<f64>().expect("seconds")
        };
        let pids: Vec<(&str, u32)> = scene.waiters.iter().map(|(name, pid)| (*name, *pid)).collect();
        let least: Vec<f64> = pids.iter().map(|(_, pid)| waited(&mut scene, *pid)).collect();
        let begin = Instant::now();
        let report = latch(&["-d", LOOKED, "--all-locks", "--postgres", &directory]);
        let (elapsed, looked) = (begin.elapsed().as_secs_f64(), number(&report["looked_ns"]) / 1e9);
        let most: Vec<f64> = pids.iter().map(|(_, pid)| waited(&mut scene, *pid)).collect();
        assert_eq!(before, scene.by_server(), "{name}: nothing moves");

        let all = requests(&report);
        let found: BTreeSet<String> = all.iter().map(|(lock, request)| line(lock, request)).collect();
        let kinds: BTreeSet<&str> = before.iter().filter_map(|line| line.split('|').nth(1)).collect();
        let fast = before
            .iter()
            .filter(|line| line.ends_with("|t") || line.ends_with("|true"))
            .count();
        say(&format!(
            "{name}: {} locks of {} in pg_locks, {fast} by the fast path, {} looks at {looked:.3} s, {} torn: {kinds:?}",
            found.len(),
            before.len(),
            report["looks"],
            report["torn"],
        ));
        assert_eq!(found, before, "{name}");
        assert!(fast > 10, "{name}: {fast} fast-path locks");
        for kind in [
            "relation",
            "tuple",
            "transactionid",
            "virtualxid",
            "advisory",
            "object",
        ] {
            assert!(kinds.contains(kind), "{name}: no {kind}");
        }
        assert_eq!(number(&report["not_read"]) + number(&report["without_room"]), 0.0);
        // Ten where a CPU is free; looks that find none are further apart.
        assert!(number(&report["looks"]) >= 3.0, "{report:#}");

        // Each was so at every look.
        for (lock, request) in &all {
            let torn = &report["torn"];
            assert_eq!(request["looks"], report["looks"], "{name}, {torn} torn: {lock:#}");
            assert_eq!(number(&request["ns"]) / 1e9, looked, "{name}: {lock:#}");
        }
        // Who waits, and for how long, by the server; who holds, by what was seen.
        for ((waiter, pid), (least, most)) in pids.iter().zip(least.iter().zip(&most)) {
            let of = |(_, request): &&(Value, Value)| request["pid"] == *pid && request["granted"] == false;
            let (lock, request) = all.iter().find(of).unwrap_or_else(|| panic!("{name}: {waiter}"));
            let longest = number(&request["longest_ns"]) / 1e9;
            assert_between(
                &format!("{name}: {waiter} waited, s"),
                longest,
                *least,
                *most,
                0.0,
                0.01,
            );
            let blocking = scene
                .witness
                .ask(&format!("SELECT pg_blocking_pids({pid})::text"));
            let blocking: BTreeSet<u64> = blocking
                .trim_matches(['{', '}'])
                .split(',')
                .map(|pid| pid.parse().expect("a pid"))
                .collect();
            let wanted = request["mode"].as_str().expect("a mode");
            let holders = lock["requests"]
                .as_array()
                .expect("requests")
                .iter()
                .filter(|other| {
                    other["granted"] == true && conflict(wanted, other["mode"].as_str().expect("a mode"))
                });
            let by: BTreeSet<u64> = holders
                .map(|holder| holder["pid"].as_u64().unwrap_or(0))
                .collect();
            assert_eq!(by, blocking, "{name}: {waiter}: {lock:#}");
            assert_eq!(lock["waiters"], 1, "{name}: {lock:#}");
            let held = number(&lock["longest_held_ns"]) / 1e9;
            assert!(
                held <= elapsed && held >= looked - 0.3,
                "{name}: {held} s of {elapsed} s"
            );
        }
        // Which transaction has the lock that no process has.
        let prepared = scene
            .witness
            .ask("SELECT transaction::text FROM pg_prepared_xacts");
        let prepared: u32 = prepared.parse().expect("an id");
        let of_none: Vec<&(Value, Value)> = all
            .iter()
            .filter(|(_, request)| request["pid"].is_null())
            .collect();
        assert!(!of_none.is_empty(), "{name}: {all:#?}");
        assert!(
            of_none.iter().all(|(_, request)| request["prepared"] == prepared),
            "{name}: {of_none:#?}"
        );
        // What they executed.
        let row = scene.holders["row"].pid();
        let (lock, request) = all
            .iter()
            .find(|(lock, request)| lock["type"] == "advisory" && request["pid"] == row)
            .expect("an advisory lock");
        assert_eq!(request["session_state"], "idle in transaction", "{lock:#}");
        assert!(
            request["text"].to_string().contains("LOCK TABLE u"),
            "{request:#}"
        );
        assert_eq!(lock["database_name"], "postgres");
        let (_, request) = all
            .iter()
            .find(|(_, request)| request["pid"] == scene.waiters["tuple"] && request["granted"] == false)
            .expect("a waiter");
        assert!(
            request["text"].to_string().contains("UPDATE t SET n"),
            "{request:#}"
        );
        scene.release();
    }
}

#[test]
fn what_matters_is_recorded_and_filters_choose_holders_and_waiters() {
    needs_recording!();
    let build = builds(&[18]).pop().unwrap_or_else(distribution);
    let mut scene = Scene::of(&build);
    let directory = scene.directory();
    let recorder = Recorder::server(&scene.cluster, &[]);
    let by_server = scene.by_server();
    std::thread::sleep(Duration::from_millis(2_500));
    let recorded = recorder.stop();
    let of = |arguments: &[&str]| recorded.json(&[&["--latches"], arguments].concat())["locks"].clone();
    let report = of(&[]);
    let found: BTreeSet<String> = requests(&report)
        .iter()
        .map(|(lock, request)| line(lock, request))
        .collect();
    assert!(found.is_subset(&by_server), "{:#?}", found.difference(&by_server));
    // What is missing are locks of transactions on themselves that nobody waits for.
    let waited = |own: &str| {
        let what = |line: &str| line.split('|').skip(1).take(10).collect::<Vec<_>>().join("|");
        by_server
            .iter()
            .any(|line| what(line) == what(own) && line.contains("|false|"))
    };
    for line in by_server.difference(&found) {
        let kind = line.split('|').nth(1).expect("a kind");
        assert!(
            matches!(kind, "transactionid" | "virtualxid") && !waited(line),
            "{line}"
        );
    }
    say(&format!("{} of {} locks matter", found.len(), by_server.len()));

    // A waiter's locks are its own.
    let waiter = scene.waiters["relation"];
    for report in [
        of(&["--session", &waiter.to_string()]),
        latch(&["-d", "1", "--postgres", &directory, &waiter.to_string()]),
    ] {
        let all = requests(&report);
        assert!(
            all.iter().all(|(_, request)| request["pid"] == waiter),
            "{all:#?}"
        );
        assert!(
            all.iter().any(|(_, request)| request["granted"] == false),
            "{all:#?}"
        );
    }
    let holder = scene.holders["row"].pid();
    let all = requests(&of(&["--session", &holder.to_string()]));
    // With a holder come those who wait for what it holds.
    let waiters = all
        .iter()
        .filter(|(_, request)| request["granted"] == false)
        .count();
    let are_its_own = all
        .iter()
        .all(|(_, request)| (request["pid"] == holder) == (request["granted"] == true));
    assert!(waiters > 0 && waiters < all.len() && are_its_own, "{all:#?}");
    let of_wait = requests(&of(&["--wait", "Lock:relation"]));
    let kinds: Vec<(&Value, &Value)> = of_wait
        .iter()
        .map(|(lock, of)| (&lock["type"], &of["granted"]))
        .collect();
    assert!(
        !kinds.is_empty()
            && kinds
                .iter()
                .all(|(kind, granted)| *kind == "relation" && *granted == false)
    );

    // If only one session is recorded, others that have what it wants are named all the same.
    let waiter = scene.waiters["share"];
    let alone = latch(&["-d", "1", "-p", &waiter.to_string()]);
    let strong = scene.holders["strong"].pid();
    let all = requests(&alone);
    let (_, request) = all
        .iter()
        .find(|(_, request)| request["pid"] == strong)
        .expect("the holder");
    assert_eq!(request["recorded"], false);
    assert!(
        all.iter()
            .any(|(_, request)| request["pid"] == waiter && request["recorded"] == true)
    );

    let text = dbtime(&["latch", "-d", "2", "--top", "30", "--postgres", &directory])
        .expect_code(0)
        .stdout;
    for expected in [
        "Heavyweight locks (pg_locks)",
        "samples of the server's lock table",
        "tuple (0,1) of",
        "advisory 42 in postgres",
        "(no process has it: pg_prepared_xacts)",
        "idle in transaction, last: ",
        // A narrow cell may break after it.
        "(fast",
        ">= ",
    ] {
        assert!(text.contains(expected), "no '{expected}' in\n{text}");
    }
    say(&text);
    scene.release();
}

/// The current time of day (UTC), seconds.
fn time_of_day() -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    now.as_secs_f64() % 86_400.0
}

/// The same of a moment in JSON, which is a whole second.
fn time_of_moment(moment: &Value) -> f64 {
    let text = moment.as_str().expect("a moment");
    let (_, time) = text.trim_end_matches('Z').split_once('T').expect("a time");
    time.split(':').fold(0.0, |sum, part| {
        60.0 * sum + part.parse::<f64>().expect("a number")
    })
}

/// What looks find of a lock that comes and goes: as much as its holder has by its own clock.
#[test]
fn the_time_that_a_lock_is_held_and_waited_for_is_that_of_clocks() {
    needs_recording!();
    let cluster = distribution().start(Options::default().set("autovacuum", "off"));
    let [mut holder, mut waiter] = std::array::from_fn(|_| Session::connect(&cluster));
    let directory = cluster.data_dir().to_str().expect("a plain path").to_string();
    let before = stolen();
    let arguments = [
        "latch",
        "-d",
        "6",
        "--all-locks",
        "--format",
        "json",
        "--postgres",
    ];
    let looks = std::thread::spawn(move || dbtime(&[&arguments[..], &[&directory]].concat()).expect_code(0));
    let (mut held, mut waited, mut pause) = (Vec::new(), Vec::new(), 0.0_f64);
    while !looks.is_finished() {
        pause = (pause + 0.618_034).fract();
        holder.run("SELECT pg_advisory_lock(7)");
        let from = time_of_day();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let from = time_of_day();
                waiter.run("SELECT pg_advisory_lock_shared(7)");
                let to = time_of_day();
                waiter.run("SELECT pg_advisory_unlock_shared(7)");
                (from, to)
            });
            std::thread::sleep(Duration::from_millis(200).mul_f64(0.5 + pause));
            holder.run("SELECT pg_advisory_unlock(7)");
            held.push((from, time_of_day()));
            waited.push(waits.join().expect("it gets it"));
        });
        std::thread::sleep(Duration::from_millis(150).mul_f64(0.5 + pause));
    }
    let report: Value = serde_json::from_str(&looks.join().expect("it ends").stdout).expect("JSON");
    let (begin, end) = (time_of_moment(&report["from"]), time_of_moment(&report["to"]));
    let within = |times: &[(f64, f64)]| -> f64 {
        let parts = times.iter().map(|(from, to)| to.min(end) - from.max(begin));
        parts.filter(|part| *part > 0.0).sum()
    };
    let (held, waited) = (within(&held), within(&waited));
    let looked = number(&report["locks"]["looked_ns"]) / 1e9;
    let lock = report["locks"]["locks"]
        .as_array()
        .expect("locks")
        .iter()
        .find(|lock| lock["type"] == "advisory")
        .unwrap_or_else(|| panic!("{report:#}"));
    let exclusive: f64 = lock["requests"]
        .as_array()
        .expect("requests")
        .iter()
        .filter(|request| request["mode"] == "ExclusiveLock")
        .map(|request| number(&request["ns"]) / 1e9)
        .sum();
    let found = number(&lock["waited_ns"]) / 1e9;
    say(&format!(
        "{looked:.3} s: held {exclusive:.3} s, by its own clock {held:.3} s; waited {found:.3} s, by its own clock {waited:.3} s"
    ));
    // It comes and goes some fifteen times, each met to within a look of a tenth of a second: a standard error of 0.2 s.
    let stolen = (stolen() - before).as_secs_f64();
    let error = 0.8 + stolen;
    assert_close("held, s", exclusive, held, 0.0, error);
    assert_close("waited, s", found, waited, 0.0, error);
    // No hold lasted longer than the longest one here, to within a look.
    let longest = number(&lock["longest_held_ns"]) / 1e9;
    assert!(longest < 0.85 + stolen, "{longest} s: {lock:#}");
}
