//! Real traces, where they are at hand. Their place is given by DBTIME_TRACES.

use std::io::Write;
use std::path::PathBuf;

/// Tells the person who runs the tests, whether they pass or not: what `eprintln` writes is shown for failures only.
pub(crate) fn say(text: &str) {
    // There is nobody to tell when standard error is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Files of the folder that end like this; says so loudly when there is no folder.
pub(crate) fn samples(endings: &[&str]) -> Vec<PathBuf> {
    let Some(folder) = std::env::var_os("DBTIME_TRACES").map(PathBuf::from) else {
        say("SKIPPED: no real traces are tested; set DBTIME_TRACES to a folder of Oracle SQL traces");
        return Vec::new();
    };
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
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
