//! Everything that records is killed, at any moment: what was written can be read, and nothing stays in the kernel.
//!
//! Ten kills of each by default; `DBTIME_KILLS=200` for a long run (`DBTIME_SEED` for the same moments again).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{
    KernelObjects, Programs, Recorded, Recorder, Running, Session, assert_between, dbtime, dbtime_binary,
    distribution, instances, needs_recording, pgbench, say, wait_for_state,
};
use tempfile::TempDir;

/// Kills of each, unless `DBTIME_KILLS` says otherwise.
const KILLS: u32 = 10;
/// A killed recorder may lose the segment that is open.
const SEGMENT: Duration = Duration::from_secs(5);
/// How late a segment may be on a busy machine.
const LATE: Duration = Duration::from_secs(4);
/// How long a command may take to begin, and to end when it is told to.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is killed.
const COMMANDS: [(&str, &[&str]); 6] = [
    ("record", &["record"]),
    ("record --exact", &["record", "--exact", "--wakers"]),
    ("record --exact=calls", &["record", "--exact=calls"]),
    ("sched", &["sched", "--summary"]),
    ("iolat", &["iolat", "--format", "json", "0.2"]),
    (
        "dive",
        &[
            "dive",
            "--engine",
            "tracepoints",
            "--call",
            "nanosleep",
            "-d",
            "600",
        ],
    ),
];

/// When in its life.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    /// So long after it was started: it may still be loading its programs.
    AfterStart(Duration),
    /// So long after it said that it had begun.
    AfterBegin(Duration),
}

/// Numbers that seem random (xorshift), the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn moment(&mut self, round: u32) -> Moment {
        let ms = |ms| Duration::from_millis(ms);
        match round % 7 {
            // One segment is written by then, or is about to be.
            6 => Moment::AfterBegin(ms(4_500 + self.below(3_500))),
            1 | 4 => Moment::AfterBegin(ms(self.below(1_000))),
            _ => Moment::AfterStart(ms(self.below(2_000))),
        }
    }

    fn signal(&mut self) -> libc::c_int {
        [libc::SIGKILL, libc::SIGTERM, libc::SIGINT][self.below(3) as usize]
    }
}

/// Where the threads of a process are in the kernel.
fn kernel_stacks(pid: u32) -> String {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let file = |thread: &Path, name: &str| fs::read_to_string(thread.join(name)).unwrap_or_default();
    threads
        .map(|thread| thread.path())
        .map(|thread| format!("{}{}", file(&thread, "comm"), file(&thread, "stack")))
        .collect()
}

/// A command that is about to be killed.
struct Victim {
    name: &'static str,
    home: PathBuf,
    child: Child,
    started: Instant,
    begun: Option<Instant>,
    moment: Moment,
    signal: libc::c_int,
    killed: Option<(Instant, SystemTime)>,
    status: Option<ExitStatus>,
}

impl Victim {
    fn start(
        (name, arguments): (&'static str, &[&str]),
        target: &Target,
        home: PathBuf,
        moment: Moment,
        signal: libc::c_int,
    ) -> Victim {
        fs::create_dir(&home).expect("an own folder");
        let mut command = Command::new(dbtime_binary());
        command.args(arguments);
        match name {
            "iolat" => {}
            "dive" => {
                command.args(["-p", &target.program.pid().to_string()]);
            }
            _ => {
                command.arg("--postgres").arg(target.cluster.data_dir());
                command.arg("-o").arg(home.join("x.dbt"));
            }
        }
        let file = |name: &str| File::create(home.join(name)).expect("an own file");
        // Where the tests run in the background, Ctrl-C is ignored, and would not end a command that has not installed its handler yet.
        // SAFETY: signal is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let child = command
            .env("TMPDIR", &target.temporary)
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .expect("the command can be run");
        Victim {
            name,
            home,
            child,
            started: Instant::now(),
            begun: None,
            moment,
            signal,
            killed: None,
            status: None,
        }
    }

    fn said(&self) -> String {
        fs::read_to_string(self.home.join("stderr")).expect("an own file")
    }

    /// Looks after it. True when it has ended.
    fn step(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("our child");
        }
        if self.status.is_some() {
            assert!(
                self.killed.is_some(),
                "{self:#?} ended by itself: {}",
                self.said()
            );
            return true;
        }
        if self.begun.is_none() && self.has_begun() {
            self.begun = Some(Instant::now());
        }
        let due = match self.moment {
            Moment::AfterStart(after) => Some(self.started + after),
            Moment::AfterBegin(after) => self.begun.map(|begun| begun + after),
        };
        if self.killed.is_none() && due.is_some_and(|due| Instant::now() >= due) {
            self.killed = Some((Instant::now(), SystemTime::now()));
            // SAFETY: kill has no memory effects; the child is not reaped yet.
            unsafe { libc::kill(self.child.id().cast_signed(), self.signal) };
        }
        let since = self.killed.map_or(self.started, |(at, _)| at);
        assert!(
            since.elapsed() < PATIENCE,
            "{self:#?} does not begin, or end: {}\n{}",
            self.said(),
            kernel_stacks(self.child.id())
        );
        false
    }

    fn has_begun(&self) -> bool {
        let begins: &[&str] = &["recording ", "context switches of ", "tracing "];
        let said = self.said();
        let has_line = said
            .lines()
            .any(|line| begins.iter().any(|begin| line.starts_with(begin)));
        has_line
            || self.name == "iolat" && fs::metadata(self.home.join("stdout")).is_ok_and(|file| file.len() > 0)
    }

    /// Checks what it left behind.
    fn check(&self) {
        let status = self.status.expect("it has ended");
        match (self.signal, status.signal()) {
            (libc::SIGKILL, Some(libc::SIGKILL)) => {}
            // It was not yet listening.
            (told, Some(signal)) if told == signal && self.begun.is_none() => {}
            (libc::SIGTERM | libc::SIGINT, None) if matches!(status.code(), Some(0 | 3)) => {}
            _ => panic!("{self:#?}: {status:?}: {}", self.said()),
        }
        let recording = self.home.join("x.dbt");
        let has_begun = self.has_begun();
        if !matches!(self.name, "iolat" | "dive") {
            if has_begun {
                self.check_recording(&recording, status);
            } else if recording.join("meta.json").exists() {
                Recorded::open(&recording, self.said(), None);
            }
        }
    }

    fn check_recording(&self, path: &Path, status: ExitStatus) {
        if status.code() == Some(3) && !path.exists() {
            // It was told to end before there was anything to record.
            return;
        }
        let recorded = Recorded::open(path, self.said(), None);
        assert_eq!(recorded.problems, vec![], "{self:#?}");
        let is_finished = status.code().is_some();
        assert_eq!(recorded.meta.complete, is_finished, "{self:#?}: {}", self.said());
        let (_, killed) = self.killed.expect("it was killed");
        let killed = killed.duration_since(UNIX_EPOCH).expect("after 1970").as_micros() as i64;
        let missing_us = killed - recorded.meta.end_us;
        let may_miss = match is_finished {
            true => Duration::ZERO,
            false => SEGMENT + LATE,
        };
        assert!(
            missing_us <= may_miss.as_micros() as i64,
            "{self:#?}: {:.1} s before the signal are missing",
            missing_us as f64 / 1e6
        );
        let path = path.to_str().expect("a plain path");
        let report = dbtime(&["report", path]);
        assert!(matches!(report.code, 0 | 3), "{self:#?}: {report:#?}");
    }
}

impl std::fmt::Debug for Victim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} with signal {} {:?}", self.name, self.signal, self.moment)
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // Both do nothing when it has ended, as it has unless a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is recorded.
struct Target {
    cluster: Cluster,
    program: Running,
    temporary: PathBuf,
}

#[test]
fn killed_at_any_moment_nothing_stays_but_what_can_be_read() {
    needs_recording!();
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().expect("a number"))
    };
    let kills = number("DBTIME_KILLS").map_or(KILLS, |kills| kills as u32);
    let seed = number("DBTIME_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        now.as_micros() as u64 | 1
    });
    say(&format!("DBTIME_KILLS={kills} DBTIME_SEED={seed}"));
    let mut random = Random(seed);

    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let programs = Programs::default();
    let calls = programs.compile("cc", "calls.c", "calls", &[]);
    let target = Target {
        cluster: distribution().start(Options::default()),
        program: Running::start(&calls, &["nanosleep", "1000000000"]),
        temporary: home.path().join("temporary"),
    };
    fs::create_dir(&target.temporary).expect("an own folder");
    wait_for_state(target.program.pid(), 'T');
    target.program.go_on();
    pgbench::initialise(&target.cluster, 1);
    let _load = pgbench::Load::start(
        &target.cluster,
        &[
            "--select-only",
            "--no-vacuum",
            "--client=2",
            "--rate=200",
            "--time=100000",
        ],
    );
    let before = KernelObjects::now();
    for round in 0..kills {
        let mut victims: Vec<Victim> = COMMANDS
            .iter()
            .map(|&command| {
                let home = home
                    .path()
                    .join(format!("{round}-{}", command.0.replace(' ', "")));
                Victim::start(command, &target, home, random.moment(round), random.signal())
            })
            .collect();
        // All of them are looked after, whoever has ended.
        while victims
            .iter_mut()
            .filter_map(|victim| (!victim.step()).then_some(()))
            .count()
            > 0
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        victims.iter().for_each(Victim::check);
        check_restored(&target, &victims);
        before.assert_nothing_left();
        drop(victims);
        for folder in fs::read_dir(home.path()).expect("our own").flatten() {
            if folder.file_name() != "temporary" {
                fs::remove_dir_all(folder.path()).expect("our own");
            }
        }
    }
}

/// What a killed dive has left, the next one finds, removes, and names.
fn check_restored(target: &Target, victims: &[Victim]) {
    let left_folders = fs::read_dir(&target.temporary).expect("our own").count();
    let left_instances = instances();
    let dive = victims
        .iter()
        .find(|victim| victim.name == "dive")
        .expect("one of them");
    if dive.status.expect("it has ended").signal().is_none() {
        assert_eq!((left_folders, left_instances.len()), (0, 0), "left by {dive:#?}");
    }
    let restored = Command::new(dbtime_binary())
        .args(["dive", "--restore"])
        .env("TMPDIR", &target.temporary)
        .output()
        .expect("the command can be run");
    let said = String::from_utf8_lossy(&restored.stderr);
    assert!(restored.status.success(), "{said}");
    assert_eq!(
        fs::read_dir(&target.temporary).expect("our own").count(),
        0,
        "{said}"
    );
    assert_eq!(instances(), Vec::<String>::new(), "{said}");
    let is_told = said.contains("killed");
    assert_eq!(is_told, left_folders + left_instances.len() > 0, "{said}");
}

/// Stopped as a debugger or an administrator would, and let go on.
#[test]
fn a_recorder_that_stood_still_says_so_and_no_second_has_more_than_a_second() {
    needs_recording!();
    const STOOD_STILL: Duration = Duration::from_secs(5);
    let cluster = distribution().start(Options::default());
    let session = Session::connect(&cluster);
    // Both at the same time, neither is in the way of the other.
    let recorders = [&[][..], &["--exact"]].map(|tier| (tier, Recorder::server(&cluster, tier)));
    let signal = |signal| recorders.iter().for_each(|(_, recorder)| recorder.signal(signal));
    std::thread::sleep(Duration::from_millis(1_500));
    let begun = Instant::now();
    signal(libc::SIGSTOP);
    // On a busy host it goes on until its first thread has a CPU to stop on.
    recorders
        .iter()
        .for_each(|(_, recorder)| wait_for_state(recorder.pid(), 'T'));
    std::thread::sleep(STOOD_STILL);
    signal(libc::SIGCONT);
    std::thread::sleep(Duration::from_millis(2_500));
    // Until it has a CPU again it stands still, too.
    let longest = begun.elapsed();
    for (tier, recorder) in recorders {
        let recorded = recorder.stop();
        let note = recorded
            .meta
            .notes
            .iter()
            .find(|note| note.text.contains("did not run for "));
        let note = note.unwrap_or_else(|| panic!("{tier:?}: {:?}", recorded.meta.notes));
        let told = note
            .text
            .split("did not run for ")
            .nth(1)
            .expect("it says how long");
        let told: f64 = told
            .split(" s")
            .next()
            .expect("a number")
            .parse()
            .expect("of seconds");
        assert_between(
            "stood still, s",
            told,
            STOOD_STILL.as_secs_f64(),
            longest.as_secs_f64(),
            0.0,
            0.05,
        );
        // Broken at the width of the page.
        let shown: Vec<String> = recorded.text(&[]).split_whitespace().map(String::from).collect();
        assert!(
            shown.join(" ").contains(&note.text),
            "the report does not show it"
        );
        let time = recorded.session(session.pid());
        time.assert_conserved();
        let mut seconds = BTreeMap::new();
        for row in &time.activity {
            *seconds.entry(row.time).or_insert(0u64) += row.ns;
        }
        assert!(seconds.len() >= 8, "{tier:?}: {seconds:?}");
        assert!(
            seconds.values().all(|ns| *ns < 1_200_000_000),
            "{tier:?}: {seconds:?}"
        );
    }
}

/// What `nohup dbtime record … &` and the end of its terminal do.
#[test]
fn a_hangup_that_is_to_be_ignored_ends_nothing() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let path = home.path().join("x.dbt");
    let mut command = Command::new("nohup");
    command
        .arg(dbtime_binary())
        .arg("record")
        .arg("--postgres")
        .arg(cluster.data_dir());
    let mut recorder = command
        .args(["-d", "3", "-o"])
        .arg(&path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nohup can be run");
    let give_up = Instant::now() + PATIENCE;
    while !path.join("meta.json").exists() {
        assert!(Instant::now() < give_up, "it does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    // SAFETY: kill has no memory effects; nohup has become the recorder, which is not reaped yet.
    unsafe { libc::kill(recorder.id().cast_signed(), libc::SIGHUP) };
    let status = recorder.wait().expect("our child");
    assert_eq!(status.code(), Some(0));
    let recorded = Recorded::open(&path, String::new(), None);
    let seconds = (recorded.meta.end_us - recorded.meta.start_us) as f64 / 1e6;
    assert!(seconds > 2.9, "it ended after {seconds} s");
}
