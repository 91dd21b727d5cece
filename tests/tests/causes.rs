//! Who was waited for: chains of sessions whose holds are known, against the server's own word for who blocks whom.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{
    Recorded, Recorder, Session, assert_close, causes, dbtime, distribution, every_version, needs_recording,
    number, pgbench, say, schedstat,
};
use serde_json::Value;

const CALLS: &str = "--exact=calls";

fn server() -> Cluster {
    distribution().start(Options::default().set("compute_query_id", "on"))
}

/// Seconds of a wait event by pid and kind of the cause.
fn by(report: &Value, wait: &str) -> BTreeMap<(u64, String), f64> {
    let mut seconds = BTreeMap::new();
    for of in report["causes"].as_array().expect("waits") {
        if of["wait"] == wait {
            for part in of["by"].as_array().expect("parts") {
                let key = (
                    part["pid"].as_u64().unwrap_or(0),
                    part["kind"].as_str().expect("a word").to_string(),
                );
                *seconds.entry(key).or_insert(0.0) += number(&part["ns"]) / 1e9;
            }
        }
    }
    seconds
}

/// Stacks of a flame graph and their nanoseconds.
fn folded(recorded: &Recorded, options: &[&str]) -> Vec<(String, f64)> {
    let path = recorded.path.to_str().expect("a plain path");
    let printed = dbtime(&[&["flame", path, "-o", "-"], options].concat()).expect_code(0);
    let of = |line: &str| {
        let (stack, ns) = line.rsplit_once(' ').expect("a stack and its time");
        (stack.to_string(), ns.parse().expect("a number"))
    };
    printed.stdout.lines().map(of).collect()
}

/// Who of these sessions waits for whom, as the server says it every few milliseconds: seconds by waiter and root.
fn watch(cluster: &Cluster, length: Duration) -> BTreeMap<(u64, u64), f64> {
    let mut witness = Session::connect(cluster);
    let mut seconds = BTreeMap::new();
    let (begin, mut last) = (Instant::now(), Instant::now());
    while begin.elapsed() < length {
        let said = witness.ask(
            "SELECT coalesce(string_agg(pid || ' ' || (pg_blocking_pids(pid))[1], ','), '') FROM pg_locks WHERE NOT granted",
        );
        let passed = last.elapsed().as_secs_f64();
        last = Instant::now();
        let edges: BTreeMap<u64, u64> = said
            .split(',')
            .filter_map(|edge| {
                let (waiter, holder) = edge.split_once(' ')?;
                Some((waiter.parse().ok()?, holder.parse().ok()?))
            })
            .collect();
        for &waiter in edges.keys() {
            let mut root = waiter;
            while let Some(&next) = edges.get(&root) {
                root = next;
            }
            *seconds.entry((waiter, root)).or_insert(0.0) += passed;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    seconds
}

#[test]
fn a_chain_of_sessions_leads_to_its_root_and_the_server_agrees() {
    needs_recording!();
    let cluster = server();
    let [mut a, mut b, mut c, mut d] = std::array::from_fn(|_| Session::connect(&cluster));
    a.run("CREATE TABLE t AS SELECT id, 0 AS n FROM generate_series(1, 4) id");
    let pids = [a.pid(), b.pid(), c.pid(), d.pid()].map(u64::from);
    let recorders = [&[][..], &[CALLS]].map(|tier| Recorder::server(&cluster, tier));
    let pause = || std::thread::sleep(Duration::from_millis(300));
    let begin = Instant::now();
    // A holds a row and thinks; B waits for it and holds another, and so on. The deadlock timer (1 s) cuts every wait.
    a.run("BEGIN; UPDATE t SET n = 1 WHERE id = 1");
    let witnessed = std::thread::scope(|scope| {
        let witness = scope.spawn(|| watch(&cluster, Duration::from_secs(4)));
        pause();
        scope.spawn(|| {
            b.run("BEGIN; UPDATE t SET n = 2 WHERE id = 2; UPDATE t SET n = 2 WHERE id = 1; COMMIT");
        });
        pause();
        scope.spawn(|| {
            c.run("BEGIN; UPDATE t SET n = 3 WHERE id = 3; UPDATE t SET n = 3 WHERE id = 2; COMMIT");
        });
        pause();
        scope.spawn(|| d.run("UPDATE t SET n = 4 WHERE id = 3"));
        std::thread::sleep((begin + Duration::from_millis(3_200)).saturating_duration_since(Instant::now()));
        a.run("COMMIT");
        witness.join().expect("it does not panic")
    });
    for recorder in recorders {
        let recorded = recorder.stop();
        let report = causes(&recorded);
        let found = by(&report, "Lock:transactionid");
        let all: f64 = found.values().sum();
        let root = found
            .get(&(pids[0], "client".to_string()))
            .copied()
            .unwrap_or(0.0);
        let by_server: f64 = witnessed
            .iter()
            .filter(|((_, root), _)| *root == pids[0])
            .map(|(_, s)| s)
            .sum();
        say(&format!(
            "{}: {root:.3} of {all:.3} s led to the client of A, {by_server:.3} s by pg_blocking_pids",
            recorded.meta.collector.tier
        ));
        // Three waits of 2.9, 2.6 and 2.3 s. Hardly anything else: those that end one after the other.
        assert!(root > 0.97 * all, "{found:?}\n{}", recorded.text(&["--causes"]));
        assert_close("led to A, s", root, by_server, 0.03, 0.0);
        // The witness looks at the list of locks all the time, and gets in their way for a moment.
        let of_rows = recorded.json(&["--causes", "--wait", "Lock:transactionid"]);
        let waited_for: BTreeMap<u64, u64> = of_rows["blockers"]
            .as_array()
            .expect("blockers")
            .iter()
            .map(|of| {
                (
                    of["pid"].as_u64().expect("a pid"),
                    of["waiters"].as_u64().expect("so many"),
                )
            })
            .collect();
        let expected = [(pids[0], 3), (pids[1], 2), (pids[2], 1)];
        assert_eq!(
            expected.map(|(pid, _)| waited_for.get(&pid).copied()),
            expected.map(|(_, waiters)| Some(waiters)),
            "{waited_for:?}\n{}",
            recorded.text(&["--causes"])
        );
    }
}

#[test]
fn what_the_holder_does_meanwhile_is_named_in_every_version() {
    needs_recording!();
    for server in every_version() {
        let cluster = server.start(Options::default().set("compute_query_id", "on"));
        let [mut holder, mut waiter] = std::array::from_fn(|_| Session::connect(&cluster));
        let holder_pid = holder.pid();
        let pid = u64::from(holder_pid);
        // Its language is a library: one that is loaded later has no table for unwinding for a moment.
        holder.run("DO $$ BEGIN END $$");
        let recorder = Recorder::server(&cluster, &[]);
        let mut waited = 0.0;
        let run_delay = || schedstat(holder_pid).expect("it lives").run_delay;
        let queued_before = run_delay();
        // Computes for a second, then sleeps for one, with the lock.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                holder.run(
                    "DO $$ DECLARE t timestamptz; x float; BEGIN
                       PERFORM pg_advisory_xact_lock(1); t := clock_timestamp();
                       WHILE clock_timestamp() < t + interval '1 s' LOOP x := sqrt(2); END LOOP;
                       PERFORM pg_sleep(1); END $$",
                );
            });
            std::thread::sleep(Duration::from_millis(200));
            let begin = Instant::now();
            waiter.run("SELECT pg_advisory_lock(1)");
            waited = begin.elapsed().as_secs_f64();
        });
        let queued = (run_delay() - queued_before).as_secs_f64();
        let recorded = recorder.stop();
        let report = causes(&recorded);
        let found = by(&report, "Lock:advisory");
        let of = |kind: &str| found.get(&(pid, kind.to_string())).copied().unwrap_or(0.0);
        say(&format!("{}: {found:?}", recorded.meta.database.version));
        let not_seen = recorded.stolen;
        let truth = waited - 1.0;
        assert_close("computes, s", of("session"), truth, 0.0, 0.05 * truth + not_seen);
        assert_close("sleeps, s", of("timer"), 1.0, 0.0, 0.04 + not_seen);
        // Where in the code it computes, above the stack of the one that waits for it; the picture is as wide as without it.
        let [with, without] = [&["--causes"][..], &[]].map(|options| folded(&recorded, options));
        let width = |stacks: &[(String, f64)]| stacks.iter().map(|(_, ns)| ns).sum::<f64>();
        assert_close("width, ns", width(&with), width(&without), 0.0, 0.5);
        let computes = |stack: &str| {
            let above = stack.split_once("[waited for];client backend: on a CPU;");
            stack.contains("ProcSleep")
                && above.is_some_and(|(_, above)| above.contains("plpgsql_inline_handler"))
        };
        let in_code: f64 = with
            .iter()
            .filter(|(stack, _)| computes(stack))
            .map(|(_, ns)| ns / 1e9)
            .sum();
        // In run queues it was as long as the kernel says. Of samples whose stack is broken the function is known, but not from
        // where it was called. A session that the sampler had pushed off its CPU, and that another CPU took meanwhile, has no
        // stack: how many these are the recording says. Most of them are the holder's, and of these most are of this time.
        let computed = waited - 1.0 - queued;
        let torn = recorded.json(&[])["quality"]["torn_stacks"].as_f64();
        let torn = torn.expect("a number") / f64::from(recorded.meta.collector.rate_hz);
        assert!(
            in_code > 0.9 * computed - torn - not_seen,
            "{in_code} s of {computed} s, {queued} s in run queues, {torn} s of samples without their stacks"
        );
    }
}

#[test]
fn waits_for_a_device_lead_to_it_and_nothing_is_invented() {
    needs_recording!();
    let cluster = distribution().start(
        Options::default()
            .set("compute_query_id", "on")
            .set("fsync", "on")
            .set("synchronous_commit", "on"),
    );
    pgbench::initialise(&cluster, 1);
    let load = pgbench::Load::start(&cluster, &["--no-vacuum", "--client=8", "--jobs=2", "--time=60"]);
    let recorder = Recorder::server(&cluster, &["-d", "6"]);
    let recorded = recorder.finish();
    drop(load);
    let report = causes(&recorded);
    say(&recorded.text(&["--causes", "--top", "4"]));
    // Who sleeps in the kernel for the disk waits for the device; who waits for a lock does not.
    let waits = report["causes"].as_array().expect("waits");
    let sync = by(&report, "IO:WALSync");
    let all: f64 = sync.values().sum();
    let device = sync.get(&(0, "device".to_string())).copied().unwrap_or(0.0);
    assert!(all > 0.1 && device > 0.9 * all, "{sync:?}");
    let followed = number(&report["followed_ns"]) / number(&report["blocked_ns"]);
    assert!(followed > 0.5, "{followed}");
    for wait in waits
        .iter()
        .filter(|of| of["wait"].as_str().is_some_and(|of| of.starts_with("Lock:")))
    {
        for part in wait["by"].as_array().expect("parts") {
            assert!(part["pid"].is_number() || part["kind"] == "unknown", "{part}");
        }
    }
}

#[test]
fn what_was_not_recorded_is_said() {
    needs_recording!();
    let cluster = server();
    let [mut holder, mut waiter] = std::array::from_fn(|_| Session::connect(&cluster));
    holder.run("SELECT pg_advisory_lock(1)");
    let recorder = Recorder::server(&cluster, &["--collector", "proc"]);
    std::thread::scope(|scope| {
        scope.spawn(|| waiter.run("SELECT pg_advisory_lock(1)"));
        std::thread::sleep(Duration::from_secs(1));
        holder.run("SELECT pg_advisory_unlock(1)");
    });
    let recorded = recorder.stop();
    let printed = recorded.text(&["--causes"]);
    assert!(printed.contains("does not say who was waited for"), "{printed}");
    let path = recorded.path.to_str().expect("a plain path");
    let wrong = dbtime(&["report", path, "--causes", "--tail"]).expect_code(2);
    assert!(wrong.stderr.contains("--tail"), "{wrong:?}");
}
