//! `dbtime snap`: against what the kernel says of the process, and against the client's clock. What is only counted is in `snap_counts`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dbtime::throwaway::Options;
use dbtime_tests::snapping::{Snapping, growth, line, session};
use dbtime_tests::{
    Session, assert_between, assert_close, distribution, needs_recording, number, schedstat, stolen,
};
use serde_json::Value;

/// How snapshots are taken.
const TIERS: [&[&str]; 4] = [&[], &["--exact"], &["--exact=calls"], &["--collector", "proc"]];

/// What /proc says of a process, by the names that it has there: of /proc/PID/status, io and stat.
pub(crate) fn counts(pid: u32) -> BTreeMap<String, f64> {
    let read =
        |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).expect("the process lives");
    let mut counts = BTreeMap::new();
    for file in ["status", "io"] {
        for line in read(file).lines() {
            let (name, value) = line.split_once(':').expect("a name");
            let is_counted = file == "io" || name.ends_with("ctxt_switches");
            if let (true, Ok(value)) = (is_counted, value.trim().parse()) {
                counts.insert(name.to_string(), value);
            }
        }
    }
    let stat = read("stat");
    let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
    let fields: Vec<f64> = fields
        .split(' ')
        .skip(1)
        .map_while(|field| field.trim().parse().ok())
        .collect();
    for (place, name) in [(10, "minor_faults"), (12, "major_faults")] {
        counts.insert(name.to_string(), fields[place - 4]);
    }
    let on_cpu = schedstat(pid).expect("the process lives").on_cpu;
    counts.insert("cpu".to_string(), on_cpu.as_nanos() as f64);
    counts
}

/// Memory of its own that a process has in RAM.
fn rss_anon_bytes(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .expect("a line");
    let kilobytes = line.trim().trim_end_matches("kB").trim();
    1024.0 * kilobytes.parse::<f64>().expect("a number")
}

/// Seconds of each nap of the work, and how many there are.
const NAP: f64 = 0.02;
const NAPS: u32 = 20;

/// Reads, writes, faults, switches. Gives back the seconds that its naps took by the client's clock.
pub(crate) fn work(session: &mut Session) -> f64 {
    session.run("DROP TABLE IF EXISTS snapped");
    session.run("CREATE TABLE snapped AS SELECT n, repeat('x', 500) t FROM generate_series(1, 5000) n");
    session.run("SELECT count(*) FROM snapped WHERE t LIKE '%y%'");
    let begin = Instant::now();
    for _ in 0..NAPS {
        session.run(&format!("SELECT pg_sleep({NAP})"));
    }
    let naps = begin.elapsed().as_secs_f64();
    session.run("CHECKPOINT");
    session.run("SELECT sum(length(t)) FROM snapped, generate_series(1, 20)");
    naps
}

#[test]
fn what_grew_is_what_the_kernel_counts() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let mut worker = Session::connect(&cluster);
    work(&mut worker);
    worker.wait_until_idle();
    let pid = worker.pid();
    let who = pid.to_string();
    let earlier = counts(pid);
    // All of them look at the same work, which the kernel counts once.
    let snapping = std::thread::scope(|scope| {
        let begun = TIERS.map(|tier| {
            let arguments = [&["end", "1", who.as_str()], tier].concat();
            let cluster = &cluster;
            scope.spawn(move || Snapping::start(cluster, &arguments))
        });
        begun.map(|one| one.join().expect("it begins"))
    });
    let before = counts(pid);
    let begun = Instant::now();
    let stolen_before = stolen();
    let naps = work(&mut worker);
    worker.wait_until_idle();
    let elapsed = begun.elapsed().as_secs_f64();
    let stolen = stolen() - stolen_before;
    // Nothing is going on any more when the second ends.
    let after = counts(pid);
    std::thread::sleep(Duration::from_millis(1_200));
    for (tier, snapping) in TIERS.into_iter().zip(snapping) {
        // One after the other, each later than the one before.
        let snapshots = snapping.stop();
        let later = counts(pid);
        let [snapshot] = &snapshots[..] else {
            panic!("{tier:?}: one snapshot: {snapshots:?}");
        };
        let found = session(snapshot, pid).unwrap_or_else(|| panic!("{tier:?}: {snapshot:#}"));
        let truth = |name: &str| after[name] - before[name];
        for name in after.keys().filter(|name| *name != "cpu") {
            let told = growth(found, "STAT", name);
            // A signal may have come to the session before or after: it reads what the signal says.
            let most = later[name] - earlier[name];
            assert!(
                (truth(name)..=most).contains(&told),
                "{tier:?}: {name}: {told}, and {} to {most} by /proc",
                truth(name)
            );
        }
        for name in [
            "rchar",
            "syscr",
            "write_bytes",
            "minor_faults",
            "voluntary_ctxt_switches",
        ] {
            assert!(truth(name) > 0.0, "the work does some of each: {name}");
        }
        // Idle since: its memory is what it was.
        let level = line(found, "STAT", "rss_anon_bytes").unwrap_or_else(|| panic!("{tier:?}: {found:#}"));
        assert_eq!(level["level"], true, "{tier:?}: {level}");
        assert_close(
            &format!("{tier:?}: rss_anon_bytes"),
            number(&level["growth"]),
            rss_anon_bytes(pid),
            0.1,
            0.0,
        );
        let cpu = growth(found, "STAT", "utime") + growth(found, "STAT", "stime");
        assert_between(
            &format!("{tier:?}: CPU, ns"),
            cpu,
            truth("cpu"),
            later["cpu"] - earlier["cpu"],
            0.0,
            20_000.0,
        );
        // Also what no sample fell into is in its snapshot.
        let of_ledger = growth(found, "TIME", "DB CPU");
        let floor = match tier {
            // Between calls, time passes by the clock. What a hypervisor stole of it is made good when the session runs again, which it
            // does not here. The kernel gives stolen time in whole hundredths of a second.
            ["--exact=calls"] => 1e6 + stolen.as_nanos() as f64 + 10e6,
            _ => 1e6,
        };
        assert_close(&format!("{tier:?}: DB CPU, ns"), of_ledger, cpu, 0.01, floor);
        times_add_up(tier, found, elapsed);
        let preempted = later["nonvoluntary_ctxt_switches"] - earlier["nonvoluntary_ctxt_switches"];
        waits_are_counted(tier, found, naps, preempted);
    }
}

/// States sum to DB time, which is that of the client.
fn times_add_up(tier: &[&str], found: &Value, elapsed: f64) {
    let lines = found["lines"].as_array().expect("lines");
    let of = |line: &&Value| {
        line["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("DB time, "))
    };
    let states: f64 = lines.iter().filter(of).map(|line| number(&line["growth"])).sum();
    let db_time = growth(found, "TIME", "DB time");
    assert_eq!(states, db_time, "{tier:?}: the states sum to DB time");
    // From one statement to the next the client takes its time. Where samples say in which of its 26 statements the session
    // was, each is of 10 ms, and their sum spreads by 9 ms (measured in 20 runs, standard deviation).
    let floor = match tier {
        ["--exact=calls"] => 0.02,
        _ => 0.05,
    };
    assert_close(
        &format!("{tier:?}: DB time, s"),
        db_time / 1e9,
        elapsed,
        0.03,
        floor,
    );
    let waits: f64 = lines
        .iter()
        .filter(|line| line["type"] == "WAIT")
        .map(|line| number(&line["growth"]))
        .sum();
    let elapsed_ns = number(&found["elapsed_ns"]);
    assert!(waits < elapsed_ns * 1.02, "{tier:?}: {waits} of {elapsed_ns}");
}

/// Where waits are events and not samples. A nap takes as long as was asked for, or longer; the client saw `naps` for all of them. In the
/// exact tier at switches each period off the CPU is one: a session that has been woken and loses the CPU before it leaves the wait event
/// has two.
fn waits_are_counted(tier: &[&str], found: &Value, naps: f64, preempted: f64) {
    let slept = line(found, "WAIT", "Timeout:PgSleep").unwrap_or_else(|| panic!("{tier:?}: {found:#}"));
    assert_between(
        &format!("{tier:?}: slept, s"),
        number(&slept["growth"]) / 1e9,
        NAP * f64::from(NAPS),
        naps,
        0.1,
        0.0,
    );
    match tier {
        ["--exact"] | ["--exact=calls"] => {
            let least = f64::from(NAPS);
            let most = match tier {
                ["--exact"] => least + preempted,
                _ => least,
            };
            let waits = number(&slept["waits"]);
            assert!(
                (least..=most).contains(&waits),
                "{tier:?}: {slept}, and {most} at most"
            );
            assert_between(
                &format!("{tier:?}: average, ms"),
                number(&slept["average_wait_ns"]) / 1e6,
                NAP * 1e3 * least / waits,
                naps * 1e3 / waits,
                0.1,
                0.0,
            );
        }
        _ => assert!(slept["waits"].is_null(), "samples do not count: {slept}"),
    }
}

#[test]
fn one_snapshot_follows_the_other_without_a_gap_and_who_is_chosen() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let mut sleeper = Session::connect(&cluster);
    let snapping = Snapping::start(&cluster, &["1", "4", "all", "ash=session,wait"]);
    sleeper.run("SELECT pg_sleep(4.2)");
    let snapshots = snapping.finish();
    assert_eq!(snapshots.len(), 4);
    for pair in snapshots.windows(2) {
        assert_eq!(pair[0]["to"], pair[1]["from"], "no gap");
    }
    for snapshot in &snapshots {
        assert_eq!(number(&snapshot["elapsed_ns"]), 1e9);
    }
    // It began to sleep in the first or second one, and slept until after the third.
    let middle = &snapshots[2];
    let slept = session(middle, sleeper.pid()).expect("the sleeper");
    // A second begins and ends with a pass of the sampler, which may come late.
    let slept_s = growth(slept, "TIME", "DB time") / 1e9;
    assert_close("slept, s", slept_s, 1.0, 0.05, 0.0);
    let pid = sleeper.pid().to_string();
    let active = middle["active"].as_array().expect("active sessions");
    let of_sleeper = |row: &&Value| row["group"][0] == pid.as_str() && row["section"] == "db_time";
    let by_wait: f64 = active
        .iter()
        .filter(of_sleeper)
        .map(|row| number(&row["ns"]))
        .sum();
    assert_eq!(by_wait, growth(slept, "TIME", "DB time"));
    let types = |who: &str| -> Vec<String> {
        let snapshots = Snapping::start(&cluster, &["2", "1", who]).finish();
        let sessions = snapshots[0]["sessions"].as_array().expect("sessions").iter();
        sessions
            .map(|one| one["backend_type"].as_str().unwrap_or("").to_string())
            .collect()
    };
    assert_eq!(types("fg"), ["client backend"]);
    let background = types("bg");
    assert!(
        background.len() > 2 && background.iter().all(|kind| kind != "client backend"),
        "{background:?}"
    );
    assert_eq!(types("wait=WalWriterMain"), ["walwriter"]);
}

#[test]
fn locks_of_the_lock_table_are_those_of_the_sessions_that_are_meant() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let mut holder = Session::connect(&cluster);
    holder.run("SELECT pg_advisory_lock(42)");
    let mut waiter = Session::connect(&cluster);
    let snapping = Snapping::start(&cluster, &["3", "1", "fg", "gather=o"]);
    let waiting = waiter.pid();
    let begun = Instant::now();
    let waits = std::thread::spawn(move || waiter.run("SELECT pg_advisory_lock(42)"));
    let snapshots = snapping.finish();
    let waited = begun.elapsed().as_secs_f64();
    let [snapshot] = &snapshots[..] else {
        panic!("one snapshot: {snapshots:?}");
    };
    let had = |pid: u32, how: &str| {
        let one = session(snapshot, pid).unwrap_or_else(|| panic!("{pid}: {snapshot:#}"));
        let lines = one["lines"].as_array().expect("lines").iter();
        assert!(lines.clone().all(|line| line["type"] == "LOCK"), "{one:#}");
        let of_it = lines.filter(|line| {
            let name = line["name"].as_str().unwrap_or_default();
            name.starts_with("advisory 42 in ") && name.ends_with(how)
        });
        of_it.map(|line| number(&line["growth"]) / 1e9).sum::<f64>()
    };
    // Some ten looks a second; the wait began when it was said that the snapshot had, and that may come late.
    assert_close("held, s", had(holder.pid(), " held"), 3.0, 0.0, 0.7);
    assert_close("awaited, s", had(waiting, " awaited"), waited - 0.4, 0.0, 0.8);
    holder.run("SELECT pg_advisory_unlock(42)");
    waits.join().expect("it gets the lock");
}
