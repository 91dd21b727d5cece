//! Hosts that look different to the command: made with mount namespaces, gone with the process.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::{Outcome, dbtime_binary};

/// Runs the command after a shell script has changed the mounts, for this run only.
pub fn dbtime_after<A: AsRef<OsStr>>(mounts: &str, arguments: &[A]) -> Outcome {
    let scratch = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-ec"])
        .arg(format!("{mounts}\nexec \"$0\" \"$@\""))
        .arg(dbtime_binary())
        .args(arguments)
        .env("SCRATCH", scratch.path())
        .output()
        .expect("unshare can be run")
        .into()
}

/// Shell for [`dbtime_after`]: `/proc` shows no process but the reader's own.
pub const NO_PROCESSES: &str = r#"
    mkdir "$SCRATCH/proc"
    mount --rbind /proc "$SCRATCH/proc"
    mount -t tmpfs none /proc
    for file in "$SCRATCH"/proc/[!0-9]*; do ln -s "$file" /proc/; done"#;

/// Shell for [`dbtime_after`]: a kernel without type information.
pub const NO_BTF: &str = "mount -t tmpfs none /sys/kernel/btf";

/// A file system of a few kilobytes.
#[derive(Debug)]
pub struct SmallDisk {
    directory: TempDir,
}

impl SmallDisk {
    /// Mounts it.
    ///
    /// # Panics
    /// When that is not allowed.
    pub fn mount(kilobytes: u32) -> SmallDisk {
        let directory = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o"])
            .arg(format!("size={kilobytes}k"))
            .arg("dbtime-test")
            .arg(directory.path())
            .status();
        assert!(
            mounted.is_ok_and(|status| status.success()),
            "a tmpfs can be mounted"
        );
        SmallDisk { directory }
    }

    /// A path on it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Detached even when something is still open on it; the directory is then free to be removed.
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.directory.path())
            .status();
    }
}
