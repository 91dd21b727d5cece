//! Where calibrations are kept: what observing costs on this host.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use dbtime_model::calibration::{Calibration, FORMAT};
use dbtime_model::output::{Directory, Place, Readers};

/// Where services keep their state.
const OF_THE_HOST: &str = "/var/lib";

/// Below one of the folders of [`folders`].
const FILE: &str = "dbtime/calibration.json";

/// Folders for state: the user's, if one is set, and the host's.
fn folders() -> Vec<PathBuf> {
    let named = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    // SAFETY: a plain call that cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let mut folders: Vec<PathBuf> = named("XDG_STATE_HOME").into_iter().collect();
    if !is_root {
        folders.extend(named("HOME").map(|home| home.join(".local/state")));
    }
    folders.push(OF_THE_HOST.into());
    folders
}

/// Where a calibration is written by default.
pub fn default_path() -> PathBuf {
    let folders = folders();
    folders
        .first()
        .map_or_else(|| OF_THE_HOST.into(), Clone::clone)
        .join(FILE)
}

/// The stored calibration of this host; none if no readable one exists.
pub fn kept() -> Option<Calibration> {
    folders().iter().find_map(|folder| read(&folder.join(FILE)).ok())
}

/// Reads a calibration.
///
/// # Errors
/// It cannot be read, or is not a calibration.
pub fn read(path: &Path) -> anyhow::Result<Calibration> {
    let name = || path.display().to_string();
    let text = fs::read(path).with_context(name)?;
    match serde_json::from_slice::<Calibration>(&text) {
        Ok(calibration) if calibration.format == FORMAT => Ok(calibration),
        _ => bail!("{}: no calibration; 'dbtime calibrate -o FILE' makes one", name()),
    }
}

/// Writes a calibration atomically and readable by all; creates the folder if necessary.
///
/// # Errors
/// It cannot be written.
pub fn write(calibration: &Calibration, path: &Path) -> anyhow::Result<()> {
    let write = || -> std::io::Result<()> {
        let folder = match path.parent() {
            Some(parent) if parent != Path::new("") => Directory::open_or_make(parent)?,
            _ => Directory::open(Path::new("."))?,
        };
        let name = path.file_name().ok_or(std::io::ErrorKind::InvalidInput)?;
        Place::inside(Arc::new(folder), name).write(Readers::Everyone, |out| {
            serde_json::to_writer_pretty(&mut *out, calibration)?;
            out.write_all(b"\n")
        })
    };
    write().with_context(|| path.display().to_string())
}
