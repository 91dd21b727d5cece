//! Beside a disk that hangs, and a terminal that nobody reads, nothing that the kernel sends is lost: who writes and who shows is not
//! who takes it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{
    Books, HangingDisk, Recorded, Recorder, Session, distribution, needs_recording, pgbench, say,
};

/// How long nothing is taken.
const HANGS: Duration = Duration::from_secs(10);
/// Before it, and after it.
const AROUND: Duration = Duration::from_secs(7);
/// As beside the busiest servers: `neighbours`.
const MEMORY: u64 = 400 << 20;

/// A server that is busy.
fn busy_server() -> (Cluster, pgbench::Load) {
    let cluster = distribution().start(Options::default());
    pgbench::initialise(&cluster, 1);
    let load = pgbench::Load::start(
        &cluster,
        &[
            "--select-only",
            "--no-vacuum",
            "--client=4",
            "--jobs=1",
            "--time=600",
        ],
    );
    (cluster, load)
}

/// What is asked of the recorder: as much as can come.
const MUCH: [&str; 3] = ["-F", "999", "--exact=calls"];

/// Longest time that the thread that takes events did not run for, while something hangs. It waits 50 ms for events, and takes what has
/// come: where it is seen to have run twenty times a second at all, it has.
fn longest_standstill(pid: u32, time: Duration) -> Duration {
    let path = format!("/proc/{pid}/task/{pid}/status");
    let switches = || -> u64 {
        let status = std::fs::read_to_string(&path).expect("the recorder lives");
        let of = |line: &str| {
            line.rsplit('\t')
                .next()
                .and_then(|number| number.parse::<u64>().ok())
        };
        status
            .lines()
            .filter(|line| line.contains("ctxt_switches"))
            .filter_map(of)
            .sum()
    };
    let (until, mut longest) = (Instant::now() + time, Duration::ZERO);
    let (mut known, mut since) = (switches(), Instant::now());
    while Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
        let now = switches();
        longest = longest.max(since.elapsed());
        if now != known {
            (known, since) = (now, Instant::now());
        }
    }
    longest
}

/// Each whole second of a session that was there all the time has a second.
#[track_caller]
fn assert_no_second_is_missing(recorded: &Recorded, pid: u32, at_least: Duration) {
    let mut seconds = BTreeMap::new();
    for row in &recorded.session(pid).activity {
        *seconds.entry(row.time / 1_000_000).or_insert(0) += row.ns;
    }
    let whole = seconds.len().saturating_sub(2);
    assert!(
        whole as u64 >= at_least.as_secs() - 1,
        "{whole} seconds of {at_least:?}: {seconds:?}"
    );
    for (second, ns) in seconds.iter().skip(1).take(whole) {
        let time = *ns as f64 / 1e9;
        assert!(
            (0.95..1.05).contains(&time),
            "second {second} has {time} s: {seconds:?}"
        );
    }
}

#[track_caller]
fn assert_nothing_was_lost(recorded: &Recorded) {
    let quality = &recorded.meta.quality;
    assert!(
        recorded.meta.complete && recorded.problems.is_empty(),
        "{:?}",
        recorded.problems
    );
    assert_eq!(quality.lost, 0, "{quality:?}");
}

#[test]
fn a_disk_that_hangs_for_ten_seconds_costs_a_recording_nothing() {
    needs_recording!();
    let Some(disk) = HangingDisk::mount(192) else {
        return;
    };
    let (cluster, load) = busy_server();
    let mut sleeper = Session::connect(&cluster);
    let pid = sleeper.pid();
    let asleep = std::thread::spawn(move || sleeper.run("SELECT pg_sleep(28)"));
    std::thread::sleep(Duration::from_secs(1));
    let path = disk.join("x.dbt");
    let data_dir = cluster.data_dir().to_str().expect("a plain path");
    let recorder = Recorder::start_at(&path, &[&["--postgres", data_dir][..], &MUCH].concat());
    std::thread::sleep(AROUND);
    disk.freeze();
    let standstill = longest_standstill(recorder.pid(), HANGS);
    let books = Books::of(recorder.pid(), Path::new("/nowhere"));
    disk.thaw();
    std::thread::sleep(AROUND);
    let recorded = recorder.stop();
    drop(load);
    say(&format!(
        "events were taken every {standstill:?} at least, with {} MB of memory; {:?}",
        books.memory >> 20,
        recorded.meta.quality
    ));
    assert_nothing_was_lost(&recorded);
    assert!(standstill < Duration::from_secs(1), "{standstill:?}");
    assert!(books.memory < MEMORY, "{} MB", books.memory >> 20);
    assert_no_second_is_missing(&recorded, pid, AROUND + HANGS + AROUND);
    asleep.join().expect("it has slept");
}
