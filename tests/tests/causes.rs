//! Who was waited for: chains of sessions whose holds are known, against what the server itself says about who blocks whom.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{
    Recorder, Session, SlowDisk, Stopped, assert_close, causes, dbtime, distribution, every_version,
    needs_recording, number, pgbench, say, schedstat,
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

/// Which of these sessions waits for which, as the server says every few milliseconds: seconds by waiter and root.
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
        // What A executed last, by looks at the lock table: none falls into the first or the last moment of its pause.
        let said = report["causes"].as_array().expect("waits").iter();
        let parts = said.flat_map(|of| of["by"].as_array().expect("parts"));
        let last: f64 = parts
            .filter(|part| part["pid"] == pids[0] && part["text"] == "UPDATE t SET n = ? WHERE id = ?")
            .map(|part| number(&part["ns"]) / 1e9)
            .sum();
        assert!(
            last > 0.8 * root,
            "{last} of {root}: {}",
            recorded.text(&["--causes"])
        );
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
        // Its language is a library: if it is loaded later, it has no unwind table for a moment.
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
        let [with, without] = [&["--causes"][..], &[]].map(|options| recorded.flame(options));
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
        // In run queues it was as long as the kernel says. For samples whose stack is broken the function is known, but not its callers. A
        // session that the sampler pushed off its CPU, and that another CPU has taken since, has no stack: the recording says how many
        // these are. Most of them are the holder's, and most of those are of this time.
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
    // A session that sleeps in the kernel for the disk waits for the device; one that waits for a lock does not.
    let waits = report["causes"].as_array().expect("waits");
    let sync = by(&report, "IO:WALSync");
    let all: f64 = sync.values().sum();
    let device = sync.get(&(0, "device".to_string())).copied().unwrap_or(0.0);
    assert!(all > 0.1 && device > 0.9 * all, "{sync:?}");
    let followed = number(&report["followed_ns"]) / number(&report["blocked_ns"]);
    assert!(followed > 0.5, "{followed}");
    // A row for which another one stood in (docs/sampling.md) may have the end of its own wait: one sample in a minute, as measured.
    let (mut of_locks, mut invented) = (0.0, 0.0);
    for wait in waits
        .iter()
        .filter(|of| of["wait"].as_str().is_some_and(|of| of.starts_with("Lock:")))
    {
        for part in wait["by"].as_array().expect("parts") {
            of_locks += number(&part["ns"]);
            if !part["pid"].is_number() && part["kind"] != "unknown" {
                say(&part.to_string());
                invented += number(&part["ns"]);
            }
        }
    }
    assert!(
        of_locks > 1e9 && invented < 0.002 * of_locks,
        "{invented} of {of_locks}"
    );
}

#[test]
fn a_blocker_that_is_stopped_and_one_whose_commit_waits_for_a_slow_disk_are_named() {
    needs_recording!();
    // A flush is two requests.
    let Some(disk) = SlowDisk::mount(400, 6) else {
        return;
    };
    let options = Options {
        parent_dir: Some(disk.path()),
        ..Options::default()
    };
    let cluster = distribution().start(options.set("fsync", "on").set("autovacuum", "off"));
    let [mut holder, mut waiter] = std::array::from_fn(|_| Session::connect(&cluster));
    waiter.run("CREATE TABLE d AS SELECT 0 AS n");
    waiter.run("SET synchronous_commit = off");
    holder.run("SELECT pg_advisory_lock(1)");
    let pid = holder.pid();
    disk.slow_down(pid);
    let recorders = [&[][..], &[CALLS]].map(|tier| Recorder::server(&cluster, tier));
    let timed = |session: &mut Session, sql: &str| {
        let begin = Instant::now();
        session.run(sql);
        begin.elapsed().as_secs_f64()
    };
    let stopped = Stopped::stop(pid);
    let waited = std::thread::scope(|scope| {
        let waits = scope.spawn(|| timed(&mut waiter, "SELECT pg_advisory_lock(1)"));
        std::thread::sleep(Duration::from_millis(1_500));
        drop(stopped);
        holder.run("SELECT pg_advisory_unlock(1)");
        waits.join().expect("it does not panic")
    });
    // The row is locked until the commit is on the disk. Before that its holder thinks for a moment.
    let (mut thought, mut flushed, mut in_line) = (0.0, 0.0, 0.0);
    for _ in 0..5 {
        holder.run("BEGIN");
        holder.run("UPDATE d SET n = n + 1");
        std::thread::scope(|scope| {
            let begin = Instant::now();
            let waits = scope.spawn(|| timed(&mut waiter, "UPDATE d SET n = n + 1"));
            std::thread::sleep(Duration::from_millis(50));
            thought += begin.elapsed().as_secs_f64();
            flushed += timed(&mut holder, "COMMIT");
            in_line += waits.join().expect("it does not panic");
        });
    }
    for recorder in recorders {
        let recorded = recorder.stop();
        let report = causes(&recorded);
        let text = recorded.text(&["--causes"]);
        let of = |wait: &str, kind: &str| {
            let found = by(&report, wait);
            found
                .get(&(u64::from(pid), kind.to_string()))
                .copied()
                .unwrap_or(0.0)
        };
        let behind_stopped = of("Lock:advisory", "session");
        let [on_device, on_client] = ["device", "client"].map(|kind| of("Lock:transactionid", kind));
        say(&format!(
            "{}: {behind_stopped:.3} of {waited:.3} s behind who is stopped; {on_device:.3} of {flushed:.3} s behind the disk, {on_client:.3} of {thought:.3} s behind who thinks, {in_line:.3} s in line",
            recorded.meta.collector.tier
        ));
        let error = 0.1 + recorded.stolen;
        assert_close("who is stopped, s", behind_stopped, waited, 0.03, error);
        assert!(text.contains("stopped by a signal"), "{text}");
        // What is neither is a moment in a run queue, five times.
        assert_close("the disk, s", on_device, flushed, 0.1, error);
        assert_close("who thinks, s", on_client, thought, 0.1, error);
        assert!(text.contains("IO:WALSync, on a device"), "{text}");
    }
    drop((holder, waiter, cluster));
}

#[test]
fn a_deadlock_invents_nobody_and_a_blocker_that_is_terminated_is_named() {
    needs_recording!();
    let cluster = distribution().start(Options::default().set("deadlock_timeout", "2s"));
    let [mut one, mut other, mut holder, mut waiter, mut admin] =
        std::array::from_fn(|_| Session::connect(&cluster));
    admin.run("CREATE TABLE d AS SELECT id, 0 AS n FROM generate_series(1, 2) id");
    holder.run("SELECT pg_advisory_lock(1)");
    let pids = [&one, &other, &holder].map(|session| u64::from(session.pid()));
    let recorders = [&[][..], &[CALLS]].map(|tier| Recorder::server(&cluster, tier));
    for (id, session) in [(1, &mut one), (2, &mut other)] {
        session.run("BEGIN");
        session.run(&format!("UPDATE d SET n = 1 WHERE id = {id}"));
    }
    let timed = |session: &mut Session, sql: &str| {
        let begin = Instant::now();
        let fails = session.try_run(sql).is_err();
        (begin.elapsed().as_secs_f64(), fails)
    };
    // The first one waits for the second, which thinks for half a second, and then each for the other until the server ends one of them.
    let begin = Instant::now();
    let (thought, waits) = std::thread::scope(|scope| {
        let first = scope.spawn(|| timed(&mut one, "UPDATE d SET n = 2 WHERE id = 2"));
        std::thread::sleep(Duration::from_millis(500));
        let thought = begin.elapsed().as_secs_f64();
        let second = timed(&mut other, "UPDATE d SET n = 2 WHERE id = 1");
        (thought, [first.join().expect("it does not panic"), second])
    });
    let terminated = std::thread::scope(|scope| {
        let waits = scope.spawn(|| timed(&mut waiter, "SELECT pg_advisory_lock(1)"));
        std::thread::sleep(Duration::from_millis(1_500));
        admin.run(&format!("SELECT pg_terminate_backend({})", pids[2]));
        waits.join().expect("it does not panic").0
    });
    let failed = waits.iter().filter(|(_, fails)| *fails);
    assert_eq!(failed.count(), 1, "the server ends one of them");
    for recorder in recorders {
        let recorded = recorder.stop();
        let report = causes(&recorded);
        let text = recorded.text(&["--causes"]);
        let found = by(&report, "Lock:transactionid");
        let of = |pid: u64, kind: &str| found.get(&(pid, kind.to_string())).copied().unwrap_or(0.0);
        let all: f64 = found.values().sum();
        let truth = waits[0].0 + waits[1].0;
        let in_circle = of(pids[0], "unknown") + of(pids[1], "unknown");
        say(&format!(
            "{}: {in_circle:.3} of {all:.3} s in a circle, {:.3} s behind who thinks; {truth:.3} and {thought:.3} s by the clients",
            recorded.meta.collector.tier,
            of(pids[1], "client")
        ));
        let error = 0.15 + recorded.stolen;
        assert_close("waits for each other, s", all, truth, 0.02, error);
        assert_close("who thinks, s", of(pids[1], "client"), thought, 0.05, error);
        // All other time is in the circle, or led to nobody. What the two do before and after it is short.
        let nobody = of(0, "unknown");
        let at_work = of(pids[0], "session") + of(pids[1], "session");
        assert_close(
            "all of it, s",
            in_circle + nobody + at_work + of(pids[1], "client"),
            all,
            0.02,
            0.05,
        );
        assert!(in_circle > 0.9 * (truth - thought) - error - at_work, "{text}");
        assert!(
            at_work < error && text.contains("further on [not known]"),
            "{text}"
        );
        assert!(text.contains("each waited for the other: a deadlock"), "{text}");
        let found = by(&report, "Lock:advisory");
        let behind = found
            .get(&(pids[2], "client".to_string()))
            .copied()
            .unwrap_or(0.0);
        say(&format!(
            "{behind:.3} of {terminated:.3} s behind who is terminated"
        ));
        assert_close("who is terminated, s", behind, terminated, 0.02, error);
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
