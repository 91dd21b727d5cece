//! Commands that change files are killed (SIGKILL) before each of their steps, one after the other: `compact`, `store put`, `store prune`,
//! `agent`. Whichever step it was, readers find everything once, and the next run does what is left.
//!
//! A step is a system call that fills, names or removes a file, makes a folder, or starts a process; strace kills on entry, before it has
//! done anything. It counts steps per thread: a command is killed by the first of its threads that gets to that number.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use dbtime_tests::{copy, dbtime, dbtime_binary, files, skip};
use serde_json::Value;
use tempfile::TempDir;

use super::store::made::{self, Made, START_S, as_json, plain, scratch};

const STEPS: &str = "write,pwrite64,writev,ftruncate,fallocate,fsync,fdatasync,link,linkat,rename,renameat,renameat2,\
    unlink,unlinkat,rmdir,mkdir,mkdirat,clone,clone3,vfork";
/// More than any of them takes. One that takes more is not killed at all steps.
const MOST_STEPS: u32 = 1_000;
const SOON: Duration = Duration::from_secs(60);

/// How a command ended that was to be killed at a step.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Killed,
    /// It has fewer steps.
    ByItself,
}

fn start(step: u32, all_threads: bool, arguments: &[&str]) -> Child {
    Command::new("strace")
        .args(["-qq", "-o", "/dev/null"])
        .args(all_threads.then_some("-f"))
        .args(["-e", &format!("trace={STEPS}")])
        .args(["-e", &format!("inject={STEPS}:signal=KILL:when={step}")])
        .arg(dbtime_binary())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("strace runs")
}

/// Kills a command at a step.
#[track_caller]
fn killed_at(step: u32, arguments: &[&str]) -> Ended {
    // strace ends as its tracee did.
    how(
        start(step, true, arguments).wait().expect("it ends"),
        &format!("step {step} of {arguments:?}"),
    )
}

/// Panics if it ended in any other way than these two.
#[track_caller]
fn how(status: ExitStatus, what: &str) -> Ended {
    if status.success() {
        return Ended::ByItself;
    }
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{what}: {status}");
    Ended::Killed
}

/// Runs `of` for each step, in so many threads, until there are no more; returns how many there were.
#[track_caller]
fn at_each_step(threads: u32, of: impl Fn(u32) -> Ended + Sync) -> u32 {
    let every = |first: u32| (first..MOST_STEPS).step_by(threads as usize);
    let beyond = |first: u32| every(first).find(|step| of(*step) == Ended::ByItself);
    std::thread::scope(|scope| {
        let all: Vec<_> = (1..=threads)
            .map(|first| scope.spawn(move || beyond(first)))
            .collect();
        let ends = all.into_iter().map(|one| one.join().expect("it does not panic"));
        let first = ends.flatten().min();
        first.unwrap_or_else(|| panic!("more than {MOST_STEPS} steps")) - 1
    })
}

fn can_kill() -> bool {
    let is_there = Command::new("strace")
        .arg("-V")
        .stdout(Stdio::null())
        .status()
        .is_ok();
    if !is_there {
        skip("strace is not there: run scripts/deps.sh test");
    }
    is_there
}

/// Files below a folder by their names in it, without those that are still being made, or to be removed.
fn files_in(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let strip =
        |(path, bytes): (PathBuf, Vec<u8>)| (path.strip_prefix(folder).expect("below").to_path_buf(), bytes);
    let hidden = |(path, _): &(PathBuf, Vec<u8>)| !plain(path).contains("/.dbtime-");
    files(folder).into_iter().filter(hidden).map(strip).collect()
}

/// What a report says of the time of a recording, and how many of its rows it could not read.
fn ledger(recording: &Path) -> Value {
    let mut report = as_json(&["report", plain(recording)]);
    serde_json::json!([report["ledger"].take(), report["quality"]["problems"].take()])
}

#[test]
fn compaction_can_end_at_any_step() {
    if !can_kill() {
        return;
    }
    let home = scratch();
    let recording = made::record(&home, "segments.dbt", "db1", START_S, 3, true);
    let truth = ledger(&recording);
    let whole = home.path().join("whole.dbt");
    copy(&recording, &whole);
    dbtime(&["compact", plain(&whole)]).expect_code(0);
    assert!(
        files(&whole).len() < files(&recording).len(),
        "there is something to do"
    );
    let path = home.path().join("killed.dbt");
    let steps = at_each_step(1, |step| {
        let _ = fs::remove_dir_all(&path);
        copy(&recording, &path);
        let ended = killed_at(step, &["compact", plain(&path)]);
        assert_eq!(ledger(&path), truth, "killed at step {step}");
        dbtime(&["compact", plain(&path)]).expect_code(0);
        assert_eq!(ledger(&path), truth, "killed at step {step}, and compacted again");
        assert_eq!(
            names(&path),
            names(&whole),
            "killed at step {step}, and compacted again"
        );
        ended
    });
    assert!(steps > 10, "{steps} steps");
}

fn names(folder: &Path) -> Vec<PathBuf> {
    files_in(folder).into_iter().map(|(path, _)| path).collect()
}

#[test]
fn a_put_can_end_at_any_step() {
    if !can_kill() {
        return;
    }
    let home = scratch();
    let recording = made::record(&home, "db1.dbt", "db1", START_S, 2, true);
    let truth = as_json(&["report", plain(&recording)])["ledger"].take();
    let (whole, store) = (home.path().join("whole"), home.path().join("killed"));
    dbtime(&["store", "put", plain(&recording), plain(&whole)]).expect_code(0);
    let steps = at_each_step(1, |step| {
        let _ = fs::remove_dir_all(&store);
        let put = ["store", "put", plain(&recording), plain(&store)];
        let ended = killed_at(step, &put);
        // Whatever is there is there whole.
        let found = dbtime(&["report", plain(&store), "--host", "db1", "--format", "json"]);
        if found.code == 0 {
            let report: Value = serde_json::from_str(&found.stdout).expect("JSON");
            assert_eq!(report["ledger"], truth, "killed at step {step}");
        }
        dbtime(&put).expect_code(0);
        assert!(
            files_in(&store) == files_in(&whole),
            "killed at step {step}, and put again: the same objects with the same bytes"
        );
        ended
    });
    assert!(steps > 50, "{steps} steps");
}

#[test]
fn a_prune_can_end_at_any_step() {
    if !can_kill() {
        return;
    }
    let home = scratch();
    let made = Made::two_hosts(&home);
    let newer = made::record(&home, "newer.dbt", "db1", START_S + 48 * made::HOUR_S, 1, true);
    let full = made.put(&home);
    dbtime(&["store", "put", plain(&newer), plain(&full)]).expect_code(0);
    let prune = |store: &Path| {
        [
            "store",
            "prune",
            "--host",
            "db1",
            "--older-than",
            "12h",
            plain(store),
        ]
        .map(str::to_string)
    };
    let (whole, store) = (home.path().join("whole"), home.path().join("killed"));
    copy(&full, &whole);
    dbtime(&prune(&whole)).expect_code(0);
    assert!(
        files(&whole).len() < files(&full).len(),
        "there is something to do"
    );
    let [older, other] = made
        .recordings()
        .map(|(_, path)| as_json(&["report", plain(path)])["ledger"].take());
    let of_host =
        |host: &str, part: &[&str]| as_json(&[&["report", plain(&store), "--host", host], part].concat());
    let until = made::moment(START_S + 24 * made::HOUR_S);
    let steps = at_each_step(1, |step| {
        let _ = fs::remove_dir_all(&store);
        copy(&full, &store);
        let arguments = prune(&store);
        let ended = killed_at(step, &arguments.each_ref().map(String::as_str));
        // The old recording is there whole, or not at all; the others are.
        let found = dbtime(&[
            "report",
            plain(&store),
            "--host",
            "db1",
            "--to",
            &until,
            "--format",
            "json",
        ]);
        if found.code == 0 {
            let report: Value = serde_json::from_str(&found.stdout).expect("JSON");
            assert_eq!(report["ledger"], older, "killed at step {step}");
        }
        assert_eq!(of_host("db2", &[])["ledger"], other, "killed at step {step}");
        assert_eq!(
            of_host("db1", &["--from", &until])["ledger"],
            as_json(&["report", plain(&newer)])["ledger"],
            "killed at step {step}"
        );
        dbtime(&arguments).expect_code(0);
        assert!(
            files_in(&store) == files_in(&whole),
            "killed at step {step}, and pruned again"
        );
        ended
    });
    assert!(steps > 5, "{steps} steps");
}

#[test]
fn an_agent_can_end_at_any_step() {
    if !can_kill() {
        return;
    }
    let home = scratch();
    let recording = made::record(&home, "db1.dbt", "db1", START_S, 1, true);
    let whole = home.path().join("whole");
    dbtime(&["store", "put", plain(&recording), plain(&whole)]).expect_code(0);
    let steps = at_each_step(4, |step| {
        let spool = Spool::new(&home, &recording);
        let ended = spool.run(step);
        // The next run does what is left.
        if ended == Ended::Killed {
            assert_eq!(spool.run(MOST_STEPS), Ended::ByItself, "after step {step}");
        }
        assert!(
            files_in(&spool.store()) == files_in(&whole),
            "killed at step {step}: the same objects with the same bytes"
        );
        assert_eq!(spool.recordings(), Vec::<PathBuf>::new(), "killed at step {step}");
        ended
    });
    assert!(steps > 20, "{steps} steps");
}

/// The spool of an agent that finds no server, with a recording that has ended.
struct Spool(TempDir);

impl Spool {
    fn new(home: &TempDir, recording: &Path) -> Spool {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        let spool = Spool(TempDir::new_in(home.path()).expect("a new folder"));
        let folder = spool.folder();
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.expect("a new folder");
        copy(recording, &folder.join("1.dbt"));
        let config = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(spool.config());
        let text = format!(
            "spool = {:?}\nstore = {:?}\nhost = 'db1'\nservers = ['/nonexistent']\n",
            spool.0.path().join("spool"),
            spool.store()
        );
        std::io::Write::write_all(&mut config.expect("a new file"), text.as_bytes()).expect("there is room");
        spool
    }

    fn config(&self) -> PathBuf {
        self.0.path().join("agent.toml")
    }

    fn store(&self) -> PathBuf {
        self.0.path().join("store")
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("spool/recordings/server")
    }

    /// Recordings that are there, whole or not.
    fn recordings(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder()).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }

    /// Runs an agent until it is killed at a step, or has nothing left to do. Its children are not traced, so only the agent ends them.
    fn run(&self, step: u32) -> Ended {
        let mut strace = start(step, false, &["agent", "--config", plain(&self.config())]);
        let give_up = Instant::now() + SOON;
        loop {
            if let Some(status) = strace.try_wait().expect("it is a child") {
                assert_eq!(how(status, &format!("step {step}")), Ended::Killed);
                return Ended::Killed;
            }
            let is_done = self.recordings().is_empty();
            assert!(
                is_done || Instant::now() < give_up,
                "step {step}: {:?}",
                self.recordings()
            );
            if is_done {
                end(strace.id());
                let status = strace.wait().expect("it ends");
                return how(status, &format!("step {step}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Ends what strace traces, and strace with it: strace itself ignores such signals.
fn end(strace: u32) {
    let children = fs::read_to_string(format!("/proc/{strace}/task/{strace}/children")).unwrap_or_default();
    for pid in children.split_whitespace() {
        let pid: libc::pid_t = pid.parse().expect("a pid");
        // SAFETY: kill has no memory effects; strace has not ended, so that the process is still its own.
        unsafe { libc::kill(pid, libc::SIGTERM) };
    }
}
