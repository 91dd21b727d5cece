//! What the next agent has to know: small files of JSON in the spool.

use std::ffi::OsStr;
use std::io::{ErrorKind, Read, Write};

use anyhow::{Context, bail};
use dbtime_model::output::Directory;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a file.
const LARGEST: u64 = 16 << 20;

/// None: nothing was written yet.
///
/// # Errors
/// It cannot be read or understood.
pub(super) fn read<T: DeserializeOwned>(home: &Directory, name: &OsStr) -> anyhow::Result<Option<T>> {
    let place = || home.path().join(name).display().to_string();
    let file = match home.open_file(name) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.with_context(place)?,
    };
    let mut text = Vec::new();
    file.take(LARGEST + 1)
        .read_to_end(&mut text)
        .with_context(place)?;
    if text.len() as u64 > LARGEST {
        bail!("{}: larger than {} MB", place(), LARGEST >> 20);
    }
    serde_json::from_slice(&text).with_context(place).map(Some)
}

/// Replaces it atomically.
///
/// # Errors
/// It cannot be written.
pub(super) fn write(home: &Directory, name: &OsStr, what: &impl Serialize) -> anyhow::Result<()> {
    let place = || home.path().join(name).display().to_string();
    let text = serde_json::to_vec(what).with_context(place)?;
    home.replace(name, |file| file.write_all(&text))
        .with_context(place)?;
    Ok(())
}
