//! A disk that hangs: a real file system on a device of its own, which can be told to accept no writes.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::LoopDevice;

/// An ext4 file system that can be frozen. Thawed and unmounted when dropped.
#[derive(Debug)]
pub struct HangingDisk {
    directory: TempDir,
    device: LoopDevice,
}

impl HangingDisk {
    /// Mounts it; `None`, with a loud message, where there are no loop devices.
    ///
    /// # Panics
    /// When no file system can be made on it.
    pub fn mount(megabytes: u64) -> Option<HangingDisk> {
        let device = LoopDevice::new(megabytes)?;
        let directory = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(device.path()));
        run(Command::new("mount").arg(device.path()).arg(directory.path()));
        Some(HangingDisk { directory, device })
    }

    /// From now on every write hangs, and no signal interrupts it.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn freeze(&self) {
        run(Command::new("fsfreeze")
            .arg("--freeze")
            .arg(self.directory.path()));
    }

    /// Lets the hanging writes go on.
    ///
    /// # Panics
    /// When it was not frozen.
    pub fn thaw(&self) {
        run(Command::new("fsfreeze")
            .arg("--unfreeze")
            .arg(self.directory.path()));
    }

    /// Its device, `MAJOR:MINOR`.
    pub fn device(&self) -> String {
        let path = format!("/sys/block/{}/dev", self.device.name());
        let text = std::fs::read_to_string(path).expect("sysfs");
        text.trim().to_string()
    }

    /// A path on it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for HangingDisk {
    fn drop(&mut self) {
        // Still frozen only if a test failed; with hanging writes it could never be unmounted.
        let _ = Command::new("fsfreeze")
            .arg("--unfreeze")
            .arg(self.directory.path())
            .output();
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.directory.path())
            .status();
    }
}

#[track_caller]
fn run(command: &mut Command) {
    let status = command
        .status()
        .unwrap_or_else(|e| panic!("{command:?}: {e}; scripts/deps.sh test installs it"));
    assert!(status.success(), "{command:?}: {status}");
}
