//! `dbtime demo`: both recordings in under two minutes, and nothing left behind however it ends.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dbtime_tests::{Outcome, Report, SmallDisk, dbtime_binary, needs_recording, processes_in};
use tempfile::TempDir;

/// A demo that runs with a temporary directory of its own, so that what it leaves there can be seen.
struct Demo {
    child: Child,
    temporary: TempDir,
}

impl Demo {
    fn start(output: &Path) -> Demo {
        let temporary = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
        // The server's account has to be able to enter it.
        fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755))
            .expect("a directory of our own");
        let child = Command::new(dbtime_binary())
            .arg("demo")
            .arg("-o")
            .arg(output)
            .env("TMPDIR", temporary.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command can be run");
        Demo { child, temporary }
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: kill has no memory effects; the child is not reaped yet, so the pid is no other process's.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
    }

    /// Reads its standard error up to a line with this text.
    fn wait_for_line(&mut self, text: &str) {
        let stderr = self.child.stderr.as_mut().expect("standard error is a pipe");
        let mut said = String::new();
        for line in BufReader::with_capacity(1, stderr).lines().map_while(Result::ok) {
            said += &line;
            said.push('\n');
            if line.contains(text) {
                return;
            }
        }
        panic!("the demo ended without a line '{text}':\n{said}");
    }

    /// Waits for its end and asserts that it left nothing behind.
    #[track_caller]
    fn end_without_traces(self) -> Outcome {
        let Demo { mut child, temporary } = self;
        let mut stderr = child.stderr.take().expect("standard error is a pipe");
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            // If it cannot be read, it is only missing in a message.
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let output = child.wait_with_output().expect("it is our child");
        let outcome = Outcome {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: reader.join().expect("no panic"),
        };
        assert_eq!(
            processes_in(temporary.path()),
            Vec::<u32>::new(),
            "processes are left by {outcome:#?}"
        );
        let left: Vec<PathBuf> = fs::read_dir(temporary.path())
            .expect("it is ours")
            .flatten()
            .map(|entry| entry.path())
            .collect();
        assert_eq!(left, Vec::<PathBuf>::new(), "files are left by {outcome:#?}");
        outcome
    }
}

fn files(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == ending));
    files.sort();
    files
}

#[track_caller]
fn assert_is_svg(path: &Path) {
    let parsed = Command::new("python3")
        .args([
            "-c",
            "import sys, xml.etree.ElementTree as e; print(e.parse(sys.argv[1]).getroot().tag)",
        ])
        .arg(path)
        .output()
        .expect("python3 runs");
    let tag = String::from_utf8_lossy(&parsed.stdout);
    assert_eq!(
        tag.trim(),
        "{http://www.w3.org/2000/svg}svg",
        "{}",
        String::from_utf8_lossy(&parsed.stderr)
    );
}

#[test]
fn both_recordings_are_made_explained_and_kept_in_under_two_minutes() {
    needs_recording!();
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let output = home.path().join("out");
    let started = Instant::now();
    let outcome = Demo::start(&output).end_without_traces().expect_code(0);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(120), "it took {took:?}");

    let text = &outcome.stdout;
    for word in ["page cache", "device", "DataFileRead", "DB time"] {
        assert!(text.contains(word), "'{word}' is missing in:\n{text}");
    }
    let flames = files(&output, "svg");
    assert_eq!(flames.len(), 2, "{text}");
    for flame in &flames {
        assert_is_svg(flame);
        assert!(
            text.contains(flame.to_str().expect("a plain path")),
            "where is {flame:?}?\n{text}"
        );
    }
    let pages = files(&output, "html");
    assert_eq!(pages.len(), 1, "{text}");
    assert!(
        text.contains(pages[0].to_str().expect("a plain path")),
        "where is the page?\n{text}"
    );
    let page = fs::read_to_string(&pages[0]).expect("it is a page");
    assert!(page.contains("DataFileRead") || page.len() > 100_000, "{page}");
    let recordings = files(&output, "dbt");
    assert_eq!(recordings.len(), 2, "{text}");
    for recording in &recordings {
        let report = Report::of(recording, &[]);
        assert!(
            report
                .row("IO", "DataFileRead")
                .is_some_and(|row| row.total_ns > 0),
            "{report:#?}"
        );
    }
}

#[test]
fn an_output_that_exists_is_not_overwritten() {
    needs_recording!();
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    fs::write(home.path().join("mine"), "mine").expect("a file of our own");
    Demo::start(home.path())
        .end_without_traces()
        .expect_code(1)
        .expect_stderr(&["exists"]);
    assert_eq!(fs::read_dir(home.path()).expect("it is ours").count(), 1);
}

#[test]
fn ctrl_c_at_any_moment_leaves_nothing_behind() {
    needs_recording!();
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    for (number, moment) in ["server", "recording"].into_iter().enumerate() {
        let mut demo = Demo::start(&home.path().join(number.to_string()));
        demo.wait_for_line(moment);
        std::thread::sleep(Duration::from_millis(700));
        let told = Instant::now();
        demo.signal(libc::SIGINT);
        let outcome = demo.end_without_traces();
        assert_ne!(outcome.code, 0, "{outcome:#?}");
        assert!(
            told.elapsed() < Duration::from_secs(15),
            "it took {:?} to end",
            told.elapsed()
        );
    }
}

#[test]
fn a_demo_that_fails_leaves_nothing_behind() {
    needs_recording!();
    let disk = SmallDisk::mount(40);
    Demo::start(&disk.join("out"))
        .end_without_traces()
        .expect_code(1)
        .expect_stderr(&["space"]);
}

#[test]
fn the_server_of_a_killed_demo_ends_too() {
    needs_recording!();
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let mut demo = Demo::start(&home.path().join("out"));
    demo.wait_for_line("recording");
    assert!(
        !processes_in(demo.temporary.path()).is_empty(),
        "the server works in the temporary directory"
    );
    demo.signal(libc::SIGKILL);
    demo.child.wait().expect("it is our child");
    let give_up = Instant::now() + Duration::from_secs(15);
    loop {
        let left = processes_in(demo.temporary.path());
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < give_up, "{left:?} are still there");
        std::thread::sleep(Duration::from_millis(50));
    }
}
