//! What somebody sees who has just installed the command: recording without any option, whose the result is, and views that are asked for
//! without a name.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{Outcome, Recorded, Session, children, copy_of_command, distribution, needs_recording};
use tempfile::TempDir;

/// The user who calls sudo.
const CALLER: u32 = 65534;

/// A folder of the caller's, with a copy of the command that he can run.
struct Home(TempDir);

impl Home {
    fn new() -> Home {
        let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
        copy_of_command(home.path());
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        chown(home.path(), Some(CALLER), Some(CALLER)).expect("tests run as root");
        Home(home)
    }

    /// The command in this folder, run by root as sudo does it.
    fn through_sudo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.0.path().join("dbtime"));
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env("SUDO_UID", CALLER.to_string())
            .env("SUDO_GID", CALLER.to_string())
            .stdin(Stdio::null());
        command
    }

    /// A recording of four seconds that has begun.
    fn record_through_sudo(&self, cluster: &Cluster, name: &str) -> Child {
        self.through_sudo(&["record", "--postgres", data_dir(cluster), "-d", "4", "-o", name])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command can be run")
    }

    fn sudo(&self, arguments: &[&str]) -> Outcome {
        let done = self.through_sudo(arguments).output();
        done.expect("the command can be run").into()
    }

    /// The same without sudo.
    fn run(&self, arguments: &[&str]) -> Outcome {
        let done = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(self.0.path().join("dbtime"))
            .args(arguments)
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .output();
        done.expect("setpriv can be run").into()
    }

    /// The same at a terminal, on which it writes everything.
    fn at_terminal(&self, command: &str) -> Outcome {
        let done = Command::new("script")
            .args(["--quiet", "--return", "--command", command, "/dev/null"])
            .current_dir(self.0.path())
            .env("SUDO_UID", CALLER.to_string())
            .env("SUDO_GID", CALLER.to_string())
            .stdin(Stdio::null())
            .output();
        done.expect("script can be run").into()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What is there with this ending.
    fn made(&self, ending: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).expect("it is there").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(ending)).collect()
    }

    /// A recording of a folded stack of this function, as old as that.
    fn import(&self, name: &str, function: &str, age: Duration) {
        let folded = self.path("x.folded");
        fs::write(&folded, format!("main;{function} 7\n")).expect("room");
        self.sudo(&["import", "x.folded", "-o", name]).expect_code(0);
        let recording = fs::File::open(self.path(name)).expect("it is there");
        recording
            .set_modified(SystemTime::now() - age)
            .expect("it is ours");
    }
}

fn data_dir(cluster: &Cluster) -> &str {
    cluster.data_dir().to_str().expect("a plain path")
}

#[track_caller]
fn assert_callers(path: &Path) {
    let metadata = fs::symlink_metadata(path).expect("it is there");
    assert_eq!(
        (metadata.uid(), metadata.gid()),
        (CALLER, CALLER),
        "{}",
        path.display()
    );
    assert_eq!(metadata.mode() & 0o077, 0, "{}", path.display());
    if metadata.is_dir() {
        for entry in fs::read_dir(path).expect("it is there") {
            assert_callers(&entry.expect("an entry").path());
        }
    }
}

#[test]
fn without_a_name_it_is_named_shown_and_given_to_who_called_sudo() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let mut session = Session::connect(&cluster);
    let worker = std::thread::spawn(move || session.run("SELECT pg_sleep(4)"));
    let home = Home::new();
    let recorded = home
        .sudo(&["record", "--postgres", data_dir(&cluster), "-d", "2", "--html"])
        .expect_code(0);
    worker.join().expect("no panic");
    let (recordings, pages) = (home.made(".dbt"), home.made(".html"));
    let ([recording], [page]) = (&recordings[..], &pages[..]) else {
        panic!("{recordings:?}, {pages:?}")
    };
    assert!(
        recording.starts_with("postgresql-") && recording.ends_with("Z.dbt"),
        "{recording}"
    );
    assert_eq!(page.strip_suffix(".html"), recording.strip_suffix(".dbt"));
    assert_callers(&home.path(recording));
    assert_callers(&home.path(page));
    // Standard output is the ledger, and nothing else; where things are goes to standard error.
    for words in [
        "DB time ",
        "Where DB time went",
        "Timeout:PgSleep",
        "CPU and waits add up to",
    ] {
        assert!(
            recorded.stdout.contains(words),
            "'{words}' is missing in {recorded:#?}"
        );
    }
    assert!(!recorded.stdout.contains("Quality"), "{recorded:#?}");
    let report = format!("dbtime report {recording}");
    let recorded = recorded.expect_stderr(&["recording PostgreSQL", recording, page, &report]);
    // Nothing is drawn where there is no terminal.
    assert!(!recorded.stderr.contains(['\r', '\x1b']), "{recorded:#?}");

    // The caller has all of it without sudo.
    let report = home
        .run(&["report"])
        .expect_code(0)
        .expect_stderr(&[recording, "newest"]);
    assert!(report.stdout.contains("Timeout:PgSleep"), "{report:#?}");
    home.run(&["compact", recording]).expect_code(0);
}

#[test]
fn at_a_terminal_it_tells_how_far_it_is() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let mut session = Session::connect(&cluster);
    let worker = std::thread::spawn(move || session.try_run("SELECT pg_sleep(60)"));
    let home = Home::new();
    let command = format!("./dbtime record --postgres {} -d 5 -o x.dbt", data_dir(&cluster));
    let shown = home.at_terminal(&command).expect_code(0);
    for words in [
        "attaching",
        "5 of 5 s   sessions 1 (",
        "samples ",
        " MB",
        "Where DB time went",
    ] {
        assert!(shown.stdout.contains(words), "'{words}' is missing in {shown:#?}");
    }
    let active = shown
        .stdout
        .rsplit_once("sessions 1 (")
        .and_then(|(_, rest)| rest.split_once(' '));
    let active: f64 = active
        .and_then(|(number, _)| number.parse().ok())
        .expect("a number");
    assert!((0.9..1.1).contains(&active), "one session sleeps: {active}");
    drop(cluster);
    let _ = worker.join();
}

/// A recording that is to be given away, in a folder whose owner is hostile: he moves it away and puts a link in its place.
#[test]
fn only_the_recording_is_given_away_whatever_has_its_name() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let home = Home::new();
    let roots = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    fs::write(roots.path().join("meta.json"), "precious").expect("room");
    let child = home.record_through_sudo(&cluster, "x.dbt");
    let recording = home.path("x.dbt");
    wait_for(&recording.join("activity"));
    assert_gives_away_only_chown(&child);
    fs::rename(&recording, home.path("away")).expect("its owner may");
    symlink(roots.path(), &recording).expect("its owner may");
    let outcome = Outcome::from(child.wait_with_output().expect("it ends")).expect_code(0);
    assert!(outcome.stdout.contains("DB time"), "{outcome:#?}");
    assert_callers(&home.path("away"));
    for path in [roots.path(), &roots.path().join("meta.json")] {
        assert_eq!(
            fs::metadata(path).expect("it is there").uid(),
            0,
            "{}",
            path.display()
        );
    }
    let recorded = Recorded::open(&home.path("away"), outcome.stderr, None);
    assert!(recorded.meta.complete);
}

/// What the recorder keeps for it is CAP_CHOWN, and the process that reads names has nothing at all.
fn assert_gives_away_only_chown(recorder: &Child) {
    /// CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_BPF, CAP_CHECKPOINT_RESTORE.
    const LEFT: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 19 | 1 << 39 | 1 << 40;
    let give_up = Instant::now() + Duration::from_secs(30);
    while effective(recorder.id()) & !LEFT != 0 {
        assert!(Instant::now() < give_up, "{:x}", effective(recorder.id()));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(effective(recorder.id()) & 1, 1, "it gives the recording away");
    for reader in children(recorder.id()) {
        assert_eq!(effective(reader), 0);
    }
}

fn effective(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    u64::from_str_radix(line.expect("a line").trim(), 16).expect("a number")
}

fn wait_for(path: &Path) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < give_up, "{} does not come", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_lock_that_is_waited_for_points_to_who_held_it() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let (mut holder, mut waiter) = (Session::connect(&cluster), Session::connect(&cluster));
    for sql in ["CREATE TABLE t ()", "BEGIN", "LOCK t"] {
        holder.run(sql);
    }
    let waiting = std::thread::spawn(move || waiter.try_run("SELECT * FROM t"));
    let home = Home::new();
    let recorder = home.record_through_sudo(&cluster, "it's.dbt");
    wait_for(&home.path("it's.dbt/activity"));
    // The chain follows the session that ends the wait.
    std::thread::sleep(Duration::from_secs(2));
    holder.run("COMMIT");
    waiting.join().expect("no panic").expect("it has the lock");
    let recorded = Outcome::from(recorder.wait_with_output().expect("it ends")).expect_code(0);
    let next = "Next: dbtime report --causes 'it'\\''s.dbt'";
    assert!(recorded.stdout.contains(next), "{recorded:#?}");
    let report = home.run(&["report"]).expect_code(0);
    assert!(report.stdout.contains(next), "{report:#?}");
    let causes = home.run(&["report", "--causes"]).expect_code(0);
    assert!(
        causes.stdout.contains("Next: dbtime report --latches --session "),
        "{causes:#?}"
    );
    // Nothing of it is said to programs, nor to users who chose a part.
    for options in [&["--format", "json"][..], &["--wait", "Lock"]] {
        let report = home.run(&[&["report"], options].concat()).expect_code(0);
        assert!(!report.stdout.contains("Next:"), "{report:#?}");
    }
}

#[test]
fn what_is_not_named_is_the_newest_recording_here() {
    needs_recording!();
    let home = Home::new();
    for command in ["report", "flame", "html", "diff"] {
        home.run(&[command])
            .expect_code(2)
            .expect_stderr(&["current directory", "name"]);
    }
    home.import("old.dbt", "before", Duration::from_secs(7200));
    home.import("new.dbt", "after", Duration::from_secs(3600));
    // Not by a link, and not a file.
    symlink(home.path("old.dbt"), home.path("link.dbt")).expect("room");
    fs::write(home.path("file.dbt"), "").expect("room");
    let report = home
        .run(&["report", "--stacks"])
        .expect_code(0)
        .expect_stderr(&["new.dbt", "newest"]);
    assert!(report.stdout.contains("after"), "{report:#?}");
    let flame = home.run(&["flame"]).expect_code(0).expect_stderr(&["new.dbt"]);
    assert!(flame.stdout.contains("main;after"), "{flame:#?}");
    home.run(&["html"])
        .expect_code(0)
        .expect_stderr(&["new.dbt", "new.html"]);
    let diff = home
        .run(&["diff", "--force"])
        .expect_code(0)
        .expect_stderr(&["old.dbt (good)", "new.dbt (bad)"]);
    assert!(diff.stdout.contains("after"), "{diff:#?}");
    home.run(&["diff", "new.dbt", "--force"])
        .expect_code(0)
        .expect_stderr(&["new.dbt (good)", "old.dbt (bad)"]);

    // For one that belongs to root, it says what to do.
    chown(home.path("new.dbt"), Some(0), Some(0)).expect("tests run as root");
    for command in [
        &["report"][..],
        &["html"],
        &["html", "new.dbt", "-o", "x.html"],
        &["flame", "-o", "x.svg"],
        &["import", "new.dbt", "-o", "x.dbt"],
        &["compact", "new.dbt"],
    ] {
        home.run(command).expect_code(1).expect_stderr(&[
            "new.dbt",
            "permission denied",
            "sudo chown -R $USER new.dbt",
        ]);
    }
    for command in ["./dbtime flame new.dbt", "./dbtime top --replay new.dbt"] {
        let command = format!("setpriv --reuid {CALLER} --regid {CALLER} --clear-groups {command}");
        let shown = home.at_terminal(&command).expect_code(1).stdout;
        let words: Vec<&str> = shown.split_whitespace().collect();
        assert!(words.join(" ").contains("sudo chown -R $USER new.dbt"), "{shown}");
    }
    // Nobody is told to take ownership of a directory that may be anything.
    let root = home.run(&["report", "/root"]).expect_code(1);
    assert!(
        root.stderr.contains("with sudo") && !root.stderr.contains("chown"),
        "{root:#?}"
    );
    // A mistyped name gets a suggestion of what may have been meant.
    home.run(&["report", "odl.dbt"])
        .expect_code(1)
        .expect_stderr(&["odl.dbt: no such file", "Did you mean 'old.dbt'?"]);
}

#[test]
fn at_a_terminal_a_flame_graph_is_a_picture_beside_the_recording() {
    needs_recording!();
    let home = Home::new();
    home.import("x.dbt", "f", Duration::ZERO);
    let shown = home.at_terminal("./dbtime flame x.dbt").expect_code(0);
    assert!(shown.stdout.contains("wrote x.svg"), "{shown:#?}");
    assert!(
        fs::read_to_string(home.path("x.svg"))
            .expect("it is there")
            .contains("<svg")
    );
    assert_callers(&home.path("x.svg"));
    // Input from a pipe has no name that the output could take.
    let shown = home.at_terminal("cat x.folded | ./dbtime flame -").expect_code(2);
    assert!(
        shown.stdout.contains("choose one for the output with -o"),
        "{shown:#?}"
    );
    let piped = home.at_terminal("./dbtime flame x.dbt | cat").expect_code(0);
    assert!(
        piped.stdout.contains("main;f 7") || piped.stdout.contains(";main;f 7"),
        "{piped:#?}"
    );
}
