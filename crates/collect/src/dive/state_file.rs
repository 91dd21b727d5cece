//! What a dive has changed in the kernel, kept in a file until it is undone: whatever ends a dive, even kill -9, the
//! next one finds there what to restore. A lock next to it lets only one dive at a time change anything.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::{CollectError, process};

/// Gone after a reboot, as the settings are.
const FOLDER: &str = "/run/dbtime";
const STATE: &str = "dive-state.json";
const LOCK: &str = "dive.lock";
/// A process that only restores what a killed dive has left holds the lock for less than this.
const PATIENCE: Duration = Duration::from_secs(2);

/// A process that can be distinguished from a later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    pub(super) pid: u32,
    /// Its start, in clock ticks since the boot (`/proc/PID/stat`, field 22).
    pub(super) started: u64,
}

impl Owner {
    /// The process that has this pid now. A zombie does not count.
    pub(super) fn of(pid: u32) -> Option<Owner> {
        let stat = fs::read(process::path(pid, "stat")).ok()?;
        if matches!(process::stat_field(&stat, 3)?, "Z" | "X") {
            return None;
        }
        let started = process::stat_field(&stat, 22)?.parse().ok()?;
        Some(Owner { pid, started })
    }

    pub(super) fn is_alive(self) -> bool {
        Owner::of(self.pid) == Some(self)
    }
}

/// A setting of the kernel, as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Setting {
    /// Its file.
    pub(super) path: PathBuf,
    /// What to write to restore it: entries of a list, or one value.
    pub(super) found: Vec<String>,
}

/// All that a dive has changed so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// The boot it applies to: a later one starts with fresh settings.
    boot: String,
    pub(super) owner: Owner,
    /// The private trace instance that was made.
    pub(super) instance: Option<PathBuf>,
    /// In the order in which they were changed.
    pub(super) settings: Vec<Setting>,
}

/// The file and the lock.
#[derive(Debug)]
pub(super) struct StateFile {
    folder: PathBuf,
    /// Held until it is closed, which the kernel does for a process that was killed.
    _lock: File,
}

impl StateFile {
    /// Takes the lock.
    ///
    /// # Errors
    /// Another dive holds it; or the folder cannot be used.
    pub(super) fn lock() -> Result<StateFile, CollectError> {
        let folder = PathBuf::from(FOLDER);
        let at = |path: &Path| {
            let path = path.to_path_buf();
            move |e| CollectError::io(&path, e)
        };
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(at(&folder)(e)),
            _ => {}
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).map_err(at(&folder))?;
        let path = folder.join(LOCK);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .map_err(at(&path))?;
        // SAFETY: the descriptor is open as long as `lock` lives; the call has no memory effects.
        let is_locked = || unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
        let until = Instant::now() + PATIENCE;
        while !is_locked() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        if !is_locked() {
            let mut pid = String::new();
            // Only for the message: it may not have been written yet.
            let _ = lock.read_to_string(&mut pid);
            return Err(CollectError::DiveRuns(pid.trim().parse().ok()));
        }
        lock.set_len(0)
            .and_then(|()| lock.write_all(std::process::id().to_string().as_bytes()))
            .map_err(at(&path))?;
        Ok(StateFile { folder, _lock: lock })
    }

    /// True when a dive has changed something and not undone it yet.
    pub(super) fn is_there() -> bool {
        Path::new(FOLDER).join(STATE).exists()
    }

    /// An empty state of this process and boot.
    ///
    /// # Errors
    /// /proc does not say what is needed.
    pub(super) fn fresh() -> Result<State, CollectError> {
        let pid = std::process::id();
        Ok(State {
            boot: boot()?,
            owner: Owner::of(pid).ok_or(CollectError::NoProcess(pid))?,
            instance: None,
            settings: Vec::new(),
        })
    }

    /// What an earlier dive has left changed, if anything. A state of an earlier boot is discarded.
    ///
    /// # Errors
    /// The file cannot be read, or is not what a dive writes; or its owner is alive.
    pub(super) fn left_over(&self) -> Result<Option<State>, CollectError> {
        let path = self.folder.join(STATE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(CollectError::io(&path, e)),
        };
        let state: State = serde_json::from_str(&text).map_err(|e| {
            CollectError::Kernel(format!(
                "{}: not the saved state of a dive ({e}): check the trace settings yourself, then remove the file",
                path.display()
            ))
        })?;
        if state.boot != boot()? {
            self.discard()?;
            return Ok(None);
        }
        if state.owner.is_alive() && state.owner.pid != std::process::id() {
            return Err(CollectError::DiveRuns(Some(state.owner.pid)));
        }
        Ok(Some(state))
    }

    /// Writes the state: to be called before what it describes is changed.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn save(&self, state: &State) -> Result<(), CollectError> {
        let path = self.folder.join(STATE);
        let new = self.folder.join(format!("{STATE}.new"));
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(serde_json::to_string(state)?.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|e| CollectError::io(&path, e))
    }

    /// Removes the state: everything is as it was found.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(super) fn discard(&self) -> Result<(), CollectError> {
        let path = self.folder.join(STATE);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(CollectError::io(&path, e)),
            _ => Ok(()),
        }
    }
}

fn boot() -> Result<String, CollectError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let id = fs::read_to_string(path).map_err(|e| CollectError::io(path, e))?;
    Ok(id.trim().to_string())
}
