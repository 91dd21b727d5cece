//! With a disk that hangs, or a pipe that nobody reads, nothing that the kernel sends is lost: the threads that write and show it are not
//! the one that takes it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options};
use dbtime_model::SwitchRow;
use dbtime_model::recording::Recording;
use dbtime_tests::{
    Books, HangingDisk, Recorded, Recorder, Session, dbtime_binary, distribution, needs_recording, pgbench,
    say,
};

/// How long it hangs.
const HANGS: Duration = Duration::from_secs(10);
/// Before it, and after it.
const AROUND: Duration = Duration::from_secs(7);
/// As beside the busiest servers: `neighbours`.
const MEMORY: u64 = 400 << 20;

/// A busy server. At full speed it would make 60,000 switches a second, and ten seconds of these do not fit into memory.
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
            "--rate=8000",
            "--time=600",
        ],
    );
    (cluster, load)
}

/// Options with which the recorder gets as much as possible.
const MUCH: [&str; 3] = ["-F", "999", "--exact=calls"];

/// Longest time for which the thread that takes events did not run, by the kernel's count of its switches, while something hangs: it
/// waits 50 ms for events at most.
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

/// Asserts that each whole second of a session that was there all the time sums to a second.
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

/// A pipe that is full: a writer waits until somebody reads.
fn full_pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: the call fills both, which are ours then.
    let (read, mut write) = unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    };
    let set = |flags: libc::c_int| {
        // SAFETY: a plain call on a descriptor of ours.
        assert_eq!(unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETFL, flags) }, 0);
    };
    set(libc::O_NONBLOCK);
    while (&write).write(&[b'\n'; 4096]).is_ok() {}
    set(0);
    write.flush().expect("a pipe has nothing to flush");
    (read, write)
}

/// A command that writes a recording; killed when dropped.
struct Writer(Child);

impl Writer {
    fn start(arguments: &[&str], path: &Path, stdout: Stdio, stderr: Stdio) -> Writer {
        let child = Command::new(dbtime_binary())
            .args(arguments)
            .arg("-o")
            .arg(path)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .expect("the command can be run");
        let writer = Writer(child);
        writer.wait_for(path, |_| true);
        writer
    }

    #[track_caller]
    fn wait_for(&self, path: &Path, is_there: impl Fn(&Recording) -> bool) {
        let give_up = Instant::now() + Duration::from_secs(60);
        while !Recording::open(path).is_ok_and(|recording| is_there(&recording)) {
            assert!(Instant::now() < give_up, "it does not get there");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it as Ctrl-C does; the recording is whole although nobody has read anything yet. Then somebody does.
    fn stop(mut self, path: &Path, mut unread: File) {
        // SAFETY: kill has no memory effects; the child is not reaped yet.
        unsafe { libc::kill(self.0.id().cast_signed(), libc::SIGINT) };
        self.wait_for(path, |recording| recording.meta().complete);
        let mut text = Vec::new();
        unread.read_to_end(&mut text).expect("it ends");
        let status = self.0.wait().expect("our child");
        assert!(
            status.success(),
            "{status}: {}",
            String::from_utf8_lossy(&text).trim()
        );
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Both do nothing when it has ended, as it has unless a test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_pipe_that_nobody_reads_costs_a_recording_nothing() {
    needs_recording!();
    let (cluster, load) = busy_server();
    let mut sleeper = Session::connect(&cluster);
    let pid = sleeper.pid();
    let asleep = std::thread::spawn(move || sleeper.run("SELECT pg_sleep(15)"));
    std::thread::sleep(Duration::from_secs(1));
    let home = tempfile::TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let path = home.path().join("x.dbt");
    let data_dir = cluster.data_dir().to_str().expect("a plain path");
    let (unread, stderr) = full_pipe();
    let arguments = [&["record", "--postgres", data_dir][..], &MUCH].concat();
    let writer = Writer::start(&arguments, &path, Stdio::null(), stderr.into());
    std::thread::sleep(Duration::from_secs(1));
    let standstill = longest_standstill(writer.0.id(), HANGS);
    writer.stop(&path, unread);
    drop(load);
    say(&format!("events were taken every {standstill:?} at least"));
    let recorded = Recorded::open(&path, String::new(), Some(home));
    assert_nothing_was_lost(&recorded);
    assert!(standstill < Duration::from_secs(1), "{standstill:?}");
    assert_no_second_is_missing(&recorded, pid, HANGS);
    asleep.join().expect("it has slept");
}

#[test]
fn neither_a_disk_that_hangs_nor_a_pipe_that_nobody_reads_costs_switches() {
    needs_recording!();
    let Some(disk) = HangingDisk::mount(192) else {
        return;
    };
    let (cluster, load) = busy_server();
    let path = disk.join("x.dbt");
    let data_dir = cluster.data_dir().to_str().expect("a plain path");
    let (unread, stdout) = full_pipe();
    let writer = Writer::start(
        &["sched", "--postgres", data_dir],
        &path,
        stdout.into(),
        Stdio::null(),
    );
    std::thread::sleep(AROUND);
    disk.freeze();
    let standstill = longest_standstill(writer.0.id(), HANGS);
    let books = Books::of(writer.0.id(), Path::new("/nowhere"));
    disk.thaw();
    std::thread::sleep(AROUND);
    writer.stop(&path, unread);
    drop(load);
    let recording = Recording::open(&path).expect("a recording");
    let meta = recording.meta();
    let scheduling = meta.scheduling.clone().expect("it is one of switches");
    say(&format!(
        "switches were taken every {standstill:?} at least, with {} MB of memory; {scheduling:?}",
        books.memory >> 20
    ));
    assert_eq!((scheduling.lost, meta.quality.rows_dropped), (0, 0));
    assert!(standstill < Duration::from_secs(1), "{standstill:?}");
    assert!(books.memory < MEMORY, "{} MB", books.memory >> 20);
    let mut seconds = BTreeMap::new();
    let problems = recording.read(|rows: Vec<SwitchRow>| {
        for row in rows {
            *seconds.entry(row.time_ns / 1_000_000_000).or_insert(0) += 1;
        }
    });
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(seconds.values().sum::<u64>(), scheduling.kept);
    // pgbench makes some in each.
    let (first, last) = (seconds.keys().next(), seconds.keys().next_back());
    let all = last.expect("there are some") - first.expect("there are some") + 1;
    assert_eq!(seconds.len() as i64, all, "{seconds:?}");
    assert!(
        all >= (AROUND + HANGS + AROUND).as_secs() as i64 - 1,
        "{seconds:?}"
    );
}
