//! A page, and a real browser without a network that goes through it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dbtime_tests::{dbtime, repository, skip};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(super) fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// What drives a browser, and the browser.
pub(super) fn browser() -> Option<(PathBuf, PathBuf)> {
    let driver = repository().join("target/readers/playwright-core");
    if !driver.exists() {
        skip(&format!(
            "{} is not there: run scripts/readers.sh",
            driver.display()
        ));
        return None;
    }
    let chromium = PathBuf::from("/usr/bin/chromium");
    if !chromium.exists() {
        skip("Chromium is not there: run scripts/deps.sh test");
        return None;
    }
    Some((driver, chromium))
}

/// Takes these steps on a page, and returns what was seen; nothing but the page itself was asked for, and nothing went wrong.
pub(super) fn take(page: &Path, steps: &Value) -> Option<Vec<Value>> {
    run("page.js", page, steps)
}

/// The same for what is on paper, and for what a screen reader is told.
pub(super) fn take_in_other_media(page: &Path, steps: &Value) -> Option<Vec<Value>> {
    run("other_media.js", page, steps)
}

fn run(script: &str, page: &Path, steps: &Value) -> Option<Vec<Value>> {
    let (driver, chromium) = browser()?;
    let mut node = Command::new("timeout")
        .args(["180", "node"])
        .arg(repository().join("tests/readers").join(script))
        .args([&driver, &chromium])
        .arg(page)
        .arg(page.parent().expect("a folder"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node runs");
    let mut input = node.stdin.take().expect("a pipe");
    input
        .write_all(steps.to_string().as_bytes())
        .expect("it reads all of it");
    drop(input);
    let output = node.wait_with_output().expect("it ends");
    assert!(output.status.success(), "the browser went through all steps");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["troubles"], json!([]), "nothing goes wrong in the page");
    Some(found["sights"].as_array().expect("what was seen").clone())
}

pub(super) fn page_of(recording: &Path, arguments: &[&str]) -> PathBuf {
    let page = recording.with_extension("html");
    dbtime(&[&["html", plain(recording), "-o", plain(&page)], arguments].concat()).expect_code(0);
    page
}

pub(super) fn report(recording: &Path, arguments: &[&str]) -> Value {
    let outcome =
        dbtime(&[&["report", plain(recording), "--format", "json"], arguments].concat()).expect_code(0);
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

pub(super) fn scratch() -> TempDir {
    TempDir::with_prefix("dbtime-test-").expect("a temporary directory")
}

/// Keeps a picture for anybody who wants to look at it.
pub(super) fn keep(picture: &Path) {
    if let Some(folder) = std::env::var_os("DBTIME_PICTURES") {
        let name = picture.file_name().expect("a file");
        fs::copy(picture, Path::new(&folder).join(name)).expect("the folder is there");
    }
}
