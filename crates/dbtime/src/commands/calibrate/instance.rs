//! A private instance of tracefs: what is enabled in it affects nobody else, and it is removed with its owner.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use dbtime_collect::lock_folder;

use crate::output::say;

/// Where tracefs is, newest place first.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Prefix of our instances' names; the owner's pid follows, to distinguish them.
const PREFIX: &str = "dbtime-calibrate-";

/// Tracepoints of system calls and the scheduler.
const EVENTS: [&str; 4] = [
    "events/raw_syscalls/sys_enter/enable",
    "events/raw_syscalls/sys_exit/enable",
    "events/sched/sched_switch/enable",
    "events/sched/sched_wakeup/enable",
];

/// An instance. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Instance {
    path: PathBuf,
    /// Shows the next start that it is in use.
    _lock: File,
}

impl Instance {
    /// # Errors
    /// There is no tracefs, or it cannot be written.
    fn create() -> Result<Instance, String> {
        let instances = PLACES
            .iter()
            .map(|place| Path::new(place).join("instances"))
            .find(|path| path.is_dir())
            .ok_or_else(|| match readable() {
                true => "no tracefs at /sys/kernel/tracing".to_string(),
                false => "tracefs: permission denied".to_string(),
            })?;
        remove_abandoned(&instances);
        let path = instances.join(format!("{PREFIX}{}", std::process::id()));
        let failed = |e: io::Error| format!("{}: {e}", path.display());
        fs::create_dir(&path).map_err(failed)?;
        match lock_folder(&path).map_err(failed)? {
            Some(lock) => Ok(Instance { path, _lock: lock }),
            None => Err(format!("{}: in use by another process", path.display())),
        }
    }

    /// Tracepoints of one process.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn tracepoints(pid: u32) -> Result<Instance, String> {
        let instance = Instance::create()?;
        instance.write("set_event_pid", &pid.to_string())?;
        for event in EVENTS {
            instance.write(event, "1")?;
        }
        Ok(instance)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        fs::write(self.path.join(file), text).map_err(|e| format!("{file}: {e}"))
    }

    /// Number of entries written to its buffers, including those overwritten there.
    pub(super) fn entries(&self) -> u64 {
        let cpus = fs::read_dir(self.path.join("per_cpu"))
            .into_iter()
            .flatten()
            .flatten();
        cpus.filter_map(|cpu| fs::read_to_string(cpu.path().join("stats")).ok())
            .flat_map(|stats| {
                let number = |line: &str| -> Option<u64> {
                    let (name, value) = line.split_once(':')?;
                    matches!(name, "entries" | "overrun").then(|| value.trim().parse().ok())?
                };
                stats.lines().filter_map(number).collect::<Vec<_>>()
            })
            .sum()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // What cannot be disabled first goes with the directory.
        for event in EVENTS {
            let _ = self.write(event, "0");
        }
        let _ = fs::remove_dir(&self.path);
    }
}

fn readable() -> bool {
    let refused =
        |place: &&str| fs::read_dir(place).is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied);
    !PLACES.iter().any(refused)
}

/// Removes instances whose owner was killed before it could do so.
fn remove_abandoned(instances: &Path) {
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        if !name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        if let Ok(Some(lock)) = lock_folder(&path) {
            let shown = path.display().to_string();
            drop(Instance { path, _lock: lock });
            say(format_args!(
                "note: removed {shown}, left by a calibration that was killed"
            ));
        }
    }
}
