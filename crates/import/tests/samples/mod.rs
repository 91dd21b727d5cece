//! Real traces, if they are at hand, in the folder given by DBTIME_TRACES.

#![allow(dead_code, reason = "no test program uses all of it")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tells the person who runs the tests, whether they pass or not: what `eprintln` writes is shown for failures only.
pub(crate) fn say(text: &str) {
    // There is nobody to tell if standard error is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Files of the folder with these endings; says so loudly if there is no folder.
pub(crate) fn samples(endings: &[&str]) -> Vec<PathBuf> {
    match traces() {
        Some(folder) => files_in(&folder, endings),
        None => Vec::new(),
    }
}

/// The same for a folder next to it.
pub(crate) fn samples_beside(folder: &str, endings: &[&str]) -> Vec<PathBuf> {
    match traces() {
        Some(traces) => files_in(&traces.with_file_name("").join(folder), endings),
        None => Vec::new(),
    }
}

fn traces() -> Option<PathBuf> {
    let folder = std::env::var_os("DBTIME_TRACES").map(PathBuf::from);
    if folder.is_none() {
        say("SKIPPED: no real traces are tested; set DBTIME_TRACES to a folder of Oracle SQL traces");
    }
    folder
}

fn files_in(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            endings
                .iter()
                .any(|ending| path.to_string_lossy().ends_with(ending))
        })
        .collect();
    found.sort();
    assert!(!found.is_empty(), "{}: no traces", folder.display());
    found
}

/// What an awk script in this folder makes of a file; none, said loudly, if there is no awk.
pub(crate) fn by_awk(script: &str, path: &Path) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(script);
    let output = match Command::new("awk").arg("-f").arg(script).arg(path).output() {
        Ok(output) => output,
        Err(e) => {
            say(&format!("SKIPPED: awk: {e}: {} is not compared", path.display()));
            return None;
        }
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8(output.stdout).expect("text"))
}
