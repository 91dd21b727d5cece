//! What a command reads: a part of a store, a recording, or files of other tools.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use dbtime_collect::Scratch;
use dbtime_model::recording::BytesRead;
use dbtime_report::{Part, Source};
use dbtime_store::{Address, ReadSoFar, Store, StoreError};

use crate::folder;
use crate::import::{self, Detail};
use crate::options::{FileOptions, Selection};
use crate::output::{self, say};
use crate::page;
use crate::remains::mend_folders;
use crate::usage::Usage;
use crate::working;

/// Opens what was named: one recording, one store, or files that are read as one recording.
///
/// # Errors
/// It is none of these, or more than one of them.
pub fn open(
    paths: &[PathBuf],
    about: &FileOptions,
    detail: Detail,
    selection: &Selection,
) -> anyhow::Result<Source> {
    for path in paths {
        let address = match Address::recognise(path.as_os_str()) {
            Ok(Some(address)) => address,
            Ok(None) => continue,
            // Treated as a recording: opening it says what to do about the error.
            Err(e) if e.is_denied() && path.is_dir() && selection.host.is_empty() => continue,
            Err(e) => return Err(of_store(e)),
        };
        return match paths {
            [_] => open_store(address, selection),
            _ => Err(not_alone(&format!("{address} is a store")).into()),
        };
    }
    if paths.len() > 1
        && let Some(directory) = paths.iter().find(|path| path.is_dir())
    {
        let name = directory.display();
        let usage = match folder::command_for(directory) {
            Some(command) => Usage(format!("{name} is a directory: name the files in it: {command}")),
            None => not_alone(&format!("{name} is a recording")),
        };
        return Err(usage.into());
    }
    for (option, typed) in [("--host", &selection.host), ("--server", &selection.server)] {
        if let (Some(path), false) = (paths.first(), typed.is_empty()) {
            return Err(Usage(format!(
                "{option} is for stores, and {} is not one",
                path.display()
            ))
            .into());
        }
    }
    let source = import::open(paths, about, detail)?;
    working::begin("adding up");
    Ok(source)
}

/// Something that was named together with others, but can only be read alone.
fn not_alone(what: &str) -> Usage {
    Usage(format!(
        "{what}: nothing else can be read with it; 'dbtime report --compare' puts several side by side"
    ))
}

fn open_store(address: Address, selection: &Selection) -> anyhow::Result<Source> {
    let choice = address
        .choice
        .clone()
        .narrowed(
            &selection.host,
            &selection.server,
            selection.from.as_deref(),
            selection.to.as_deref(),
        )
        .map_err(of_store)?;
    let part = Part {
        from_us: choice.from_us,
        to_us: choice.to_us,
    };
    let copies = match address.is_remote() {
        true => {
            mend_folders();
            Some(Scratch::new(Scratch::STORE).context("cannot store copies of what is read")?)
        }
        false => None,
    };
    let (recording, read) = Store::open(&address)
        .and_then(|store| store.select(&choice, copies.as_ref().map(Scratch::path)))
        .map_err(of_store)?;
    let tells = TellsRead {
        store: address.to_string(),
        read,
        _copies: copies,
    };
    working::begin("adding up");
    Ok(Source::from(recording).of_part(part).keeping(tells))
}

/// The default name of what is made from an input: see [`output::sibling`].
///
/// # Errors
/// A pipe or a store has no place next to it.
pub fn sibling(path: &Path, ending: &str) -> anyhow::Result<PathBuf> {
    has_place(path)?;
    Ok(output::sibling(path, ending).map_err(Usage)?)
}

/// The default name of what is made from two inputs: see [`page::beside_two`].
///
/// # Errors
/// A pipe or a store has no place next to it.
pub fn beside_two(good: &Path, bad: &Path) -> anyhow::Result<PathBuf> {
    has_place(good)?;
    has_place(bad)?;
    Ok(page::beside_two(good, bad).map_err(Usage)?)
}

fn has_place(path: &Path) -> anyhow::Result<()> {
    match Address::recognise(path.as_os_str()).map_err(of_store)? {
        None => Ok(()),
        Some(_) => {
            Err(Usage("output from a store has no default name: choose one with -o".to_string()).into())
        }
    }
}

/// A store's error as a command's: a wrong address is wrong usage.
pub fn of_store(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Address(what) => Usage(what).into(),
        other => other.into(),
    }
}

/// True if the selection matches nothing in the store.
pub fn is_nothing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StoreError::Nothing { .. }))
}

/// Reports, on drop, how much of a store was read.
struct TellsRead {
    store: String,
    read: Arc<ReadSoFar>,
    /// Removed on drop.
    _copies: Option<Scratch>,
}

impl Drop for TellsRead {
    fn drop(&mut self) {
        let BytesRead { read, all } = self.read.bytes();
        say(format_args!(
            "{}: read {} of {} bytes of the selected recordings",
            self.store, read, all
        ));
    }
}
