//! Real traces, where they are at hand. Their place is given by DBTIME_TRACES.

#![allow(dead_code, reason = "no test program uses all of it")]

use std::io::Write;
use std::path::{Path, PathBuf};

/// Tells the person who runs the tests, whether they pass or not: what `eprintln` writes is shown for failures only.
pub(crate) fn say(text: &str) {
    // There is nobody to tell when standard error is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Files of the folder that end like this; says so loudly when there is no folder.
pub(crate) fn samples(endings: &[&str]) -> Vec<PathBuf> {
    match traces() {
        Some(folder) => files_in(&folder, endings),
        None => Vec::new(),
    }
}

/// The same of a folder beside it.
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
