//! A block device of our own, on which nobody else does I/O: whatever is counted there comes from the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A loop device on a file in memory, where that is possible; detached when dropped.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    _home: TempDir,
}

/// What the kernel has counted of a disk since it was made (Documentation/block/stat.rst).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskStat {
    /// Requests: reads, writes, discards, flushes.
    pub requests: [u64; 4],
    /// Bytes: read, written, discarded.
    pub bytes: [u64; 3],
    /// Time from a request's allocation to its end, milliseconds: reads, writes.
    pub ticks_ms: [u64; 2],
}

impl LoopDevice {
    /// Makes one; `None`, with a loud message, where there are no loop devices.
    ///
    /// # Panics
    /// When there is no room for its file.
    pub fn new(megabytes: u64) -> Option<LoopDevice> {
        let memory = Path::new("/dev/shm");
        let home = if memory.is_dir() {
            TempDir::with_prefix_in("dbtime-test-", memory)
        } else {
            TempDir::with_prefix("dbtime-test-")
        }
        .expect("a temporary directory");
        let file = home.path().join("disk");
        // Written, so that no request meets a hole.
        fs::write(&file, vec![0x5a; megabytes as usize * 1024 * 1024]).expect("room for a disk");
        let output = Command::new("losetup")
            .args(["--find", "--show", "--partscan"])
            .arg(&file)
            .output()
            .expect("losetup can be run");
        if !output.status.success() {
            crate::skip(&format!(
                "no loop device: {}",
                String::from_utf8_lossy(&output.stderr)
            ));
            return None;
        }
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        Some(LoopDevice { path, _home: home })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("loopN")
    }

    /// Writes one of its settings in sysfs.
    pub fn set(&self, setting: &str, value: &str) {
        let path = format!("/sys/block/{}/queue/{setting}", self.name());
        fs::write(&path, value).unwrap_or_else(|e| panic!("{path}: {e}"));
    }

    /// Number of the device as the kernel's trace events show it.
    pub fn number(&self) -> u64 {
        let path = format!("/sys/block/{}/dev", self.name());
        let text = fs::read_to_string(path).expect("sysfs");
        let (major, minor) = text.trim().split_once(':').expect("major:minor");
        let number = |text: &str| text.parse::<u64>().expect("a number");
        number(major) << 20 | number(minor)
    }

    /// What the kernel has counted.
    pub fn stat(&self) -> DiskStat {
        let path = format!("/sys/block/{}/stat", self.name());
        let text = fs::read_to_string(path).expect("sysfs");
        let fields: Vec<u64> = text
            .split_ascii_whitespace()
            .map(|field| field.parse().expect("a number"))
            .collect();
        DiskStat {
            requests: [fields[0], fields[4], fields[11], fields[15]],
            bytes: [fields[2], fields[6], fields[13]].map(|sectors| sectors * 512),
            ticks_ms: [fields[3], fields[7]],
        }
    }
}

impl DiskStat {
    /// What was added since an earlier one.
    pub fn since(self, earlier: DiskStat) -> DiskStat {
        let less = |now: &mut u64, then: u64| *now -= then;
        let mut difference = self;
        difference
            .requests
            .iter_mut()
            .zip(earlier.requests)
            .for_each(|(n, t)| less(n, t));
        difference
            .bytes
            .iter_mut()
            .zip(earlier.bytes)
            .for_each(|(n, t)| less(n, t));
        difference
            .ticks_ms
            .iter_mut()
            .zip(earlier.ticks_ms)
            .for_each(|(n, t)| less(n, t));
        difference
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}
