//! Wrong arguments and failed writes are reported, and what there is to say is said once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dbtime_tests::{Outcome, dbtime, dbtime_binary, repository};
use tempfile::TempDir;

fn scratch() -> TempDir {
    TempDir::with_prefix("dbtime-test-").expect("a temporary directory")
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Of the tier that times no call.
fn recording() -> PathBuf {
    repository().join("tests/untimed/tests/unchanged/recordings/sampled.dbt")
}

/// A file of folded stacks.
fn folded(home: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = home.path().join(name);
    fs::write(&path, text).expect("a file");
    path
}

#[test]
fn help_that_cannot_be_written_is_a_failure() {
    for arguments in [
        &["--help"][..],
        &["help", "report"],
        &["flame", "-h"],
        &["--version"],
    ] {
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("it is there");
        let output = Command::new(dbtime_binary())
            .args(arguments)
            .stdout(full)
            .output();
        Outcome::from(output.expect("the command can be run"))
            .expect_code(1)
            .expect_stderr(&["dbtime: standard output: no space left"]);
        // A reader that goes away is no failure.
        let mut child = Command::new(dbtime_binary())
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command can be run");
        drop(child.stdout.take());
        let ended = Outcome::from(child.wait_with_output().expect("it ends")).expect_code(0);
        assert!(ended.stderr.is_empty(), "{ended:#?}");
        let help = dbtime(arguments).expect_code(0);
        assert!(!help.stdout.is_empty() && help.stderr.is_empty(), "{help:#?}");
    }
}

#[test]
fn what_would_show_nothing_or_something_twice_is_refused() {
    let recording = recording();
    let path = plain(&recording);
    let wrong: [(&[&str], &str); 9] = [
        (&["report", path, "--top", "0"], "above 0"),
        (&["report", path, "--top", "-3"], "above 0"),
        (&["diff", path, path, "--top", "0"], "above 0"),
        (&["sched", "--top", "0"], "above 0"),
        (&["latch", "--top", "0"], "above 0"),
        (&["snap", "1", "--sessions", "0"], "above 0"),
        (&["report", path, "--by", "wait,wait"], "'wait' is listed twice"),
        (
            &["report", path, "--latency", "--by", "name,name"],
            "'name' is listed twice",
        ),
        (
            &["flame", path, "--by", "query,wait,query", "-o", "-"],
            "'query' is listed twice",
        ),
    ];
    for (arguments, why) in wrong {
        let outcome = dbtime(arguments).expect_code(2).expect_stderr(&[why]);
        assert!(outcome.stdout.is_empty(), "{arguments:?}: {outcome:#?}");
    }
}

#[test]
fn that_there_is_nothing_is_said_once() {
    let home = scratch();
    let recording = recording();
    let path = plain(&recording);
    for (question, words) in [
        ("--io", "There are no reads"),
        ("--tail", "There are no client commands"),
        ("--latency", "There are no latencies"),
    ] {
        let text = dbtime(&["report", path, question]).expect_code(3);
        assert_eq!(text.stdout.matches(words).count(), 1, "{text:#?}");
        assert!(text.stderr.is_empty(), "{text:#?}");
        // Those who do not see the text are told.
        let output = home.path().join("answer");
        for options in [["--format", "json"], ["-o", plain(&output)]] {
            dbtime(&["report", path, question, options[0], options[1]])
                .expect_code(3)
                .expect_stderr(&[path, ": no "]);
        }
    }
}

#[test]
fn several_files_are_one_flame_graph_and_several_recordings_are_none() {
    let home = scratch();
    let [one, other] =
        [("one", "main;f 3\n"), ("other", "main;g 4\n")].map(|(name, text)| folded(&home, name, text));
    let both = dbtime(&["flame", plain(&one), plain(&other), "-o", "-"]).expect_code(0);
    for stack in ["main;f 3", "main;g 4"] {
        assert!(both.stdout.contains(stack), "{both:#?}");
    }
    let recording = recording();
    for second in [&recording, &one] {
        for command in ["report", "flame"] {
            dbtime(&[command, plain(&recording), plain(second)])
                .expect_code(2)
                .expect_stderr(&["sampled.dbt is a recording", "--compare"]);
        }
    }
}

#[test]
fn a_directory_of_traces_says_how_to_name_them() {
    let home = scratch();
    let trace = folded(&home, "a.trc", "main;f 3\n");
    let hint = format!("dbtime report {}/*.trc", home.path().display());
    for command in ["report", "flame", "html"] {
        dbtime(&[command, plain(home.path())])
            .expect_code(1)
            .expect_stderr(&["not a recording", "meta.json", &hint]);
    }
    dbtime(&["report", plain(home.path()), plain(&trace)])
        .expect_code(2)
        .expect_stderr(&["is a directory", &hint]);
}
