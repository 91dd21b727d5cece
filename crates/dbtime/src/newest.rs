//! Recordings that were not named: the newest in the current directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;

use crate::output::say;
use crate::usage::Usage;

/// The recording that was named, or else the newest here: then its name, and `what` it is used for, are printed.
///
/// # Errors
/// None was named, and there is none here.
pub fn or_named(named: Option<&Path>, what: &str) -> anyhow::Result<PathBuf> {
    match named {
        Some(path) => Ok(path.to_path_buf()),
        None => {
            let [newest] = newest::<1>(&[])?;
            say(format_args!(
                "{what} of {}, the newest recording here",
                newest.display()
            ));
            Ok(newest)
        }
    }
}

/// Good and bad of a comparison: what was not named is the newest here, and for good, if neither was named, the one before it.
///
/// # Errors
/// There are too few recordings here.
pub fn two_or_named(good: Option<&Path>, bad: Option<&Path>) -> anyhow::Result<[PathBuf; 2]> {
    let two = match (good, bad) {
        (Some(good), Some(bad)) => return Ok([good.to_path_buf(), bad.to_path_buf()]),
        (Some(good), None) => {
            let [newest] = newest::<1>(&[good])?;
            [good.to_path_buf(), newest]
        }
        (None, _) => {
            let [newest, before] = newest::<2>(&[])?;
            [before, newest]
        }
    };
    say(format_args!(
        "difference from {} (good) to {} (bad), the newest recording here",
        two[0].display(),
        two[1].display()
    ));
    Ok(two)
}

/// The newest recordings of the current directory, except `without`.
fn newest<const N: usize>(without: &[&Path]) -> anyhow::Result<[PathBuf; N]> {
    let mut found = recordings_in(Path::new(".")).context("the current directory")?;
    let is_left_out = |path: &Path| without.iter().any(|other| is_same(path, other));
    found.retain(|(_, path)| !is_left_out(path));
    found.sort();
    let mut newest = found.into_iter().rev().map(|(_, path)| path);
    let few = || {
        let what = match N + without.len() {
            1 => "no recording in the current directory: name one",
            _ => "fewer than two recordings in the current directory: name both",
        };
        Usage(what.to_string())
    };
    let mut taken: [PathBuf; N] = std::array::from_fn(|_| PathBuf::new());
    for place in &mut taken {
        *place = newest.next().ok_or_else(few)?;
    }
    Ok(taken)
}

/// Recordings in a directory, and when each was last written: directories that contain a recording's description, or are called `NAME.dbt`
/// (only root may look into those). A symbolic link is not one, whoever may have put it there.
fn recordings_in(directory: &Path) -> io::Result<Vec<(SystemTime, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = PathBuf::from(entry.file_name());
        // An entry that vanishes meanwhile is skipped.
        if (name.extension().is_some_and(|ending| ending == "dbt") || is_described(&entry.path()))
            && let Ok(metadata) = entry.metadata()
            && metadata.is_dir()
        {
            found.push((metadata.modified()?, name));
        }
    }
    Ok(found)
}

fn is_described(directory: &Path) -> bool {
    fs::symlink_metadata(directory.join("meta.json")).is_ok_and(|found| found.is_file())
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}
