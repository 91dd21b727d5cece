//! A disk that is slow for some processes: a real file system on a device of its own, which the kernel lets them write to only so often.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::HangingDisk;

/// Where the kernel's I/O controller is, in cgroups v1 and v2.
const FIRST: &str = "/sys/fs/cgroup/blkio";
const SECOND: &str = "/sys/fs/cgroup";
/// Disks that this process has had: tests that run beside each other have one each.
static MOUNTED: AtomicU32 = AtomicU32::new(0);
/// How long those that were slowed down may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module. Fast again when dropped.
#[derive(Debug)]
pub struct SlowDisk {
    group: PathBuf,
    /// The file that sets the limit, and its format.
    limit: (PathBuf, fn(&str, u32) -> String),
    disk: HangingDisk,
}

impl SlowDisk {
    /// Mounts it; `None`, with a loud message, where there is no such device or controller.
    ///
    /// # Panics
    /// When no file system can be made on it.
    pub fn mount(megabytes: u64, writes_per_second: u32) -> Option<SlowDisk> {
        let disk = HangingDisk::mount(megabytes)?;
        let device = disk.device();
        let disk_number = MOUNTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("dbtime-test-{}-{disk_number}", std::process::id());
        let first = Path::new(FIRST);
        let (group, file, limit): (PathBuf, &str, fn(&str, u32) -> String) = if first.is_dir() {
            let limit = |device: &str, writes| format!("{device} {writes}");
            (first.join(name), "blkio.throttle.write_iops_device", limit)
        } else {
            let root = Path::new(SECOND);
            // It may be enabled already, or not be available: then the limit cannot be set.
            let _ = fs::write(root.join("cgroup.subtree_control"), "+io");
            let limit = |device: &str, writes| format!("{device} wiops={writes}");
            (root.join(name), "io.max", limit)
        };
        let file = group.join(file);
        let made = fs::create_dir(&group).and_then(|()| fs::write(&file, limit(&device, writes_per_second)));
        match made {
            Ok(()) => Some(SlowDisk {
                group,
                limit: (file, limit),
                disk,
            }),
            Err(e) => {
                let _ = fs::remove_dir(&group);
                crate::skip(&format!("no limit of I/O in {}: {e}", group.display()));
                None
            }
        }
    }

    /// From now on it takes so many writes a second.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn limit(&self, writes_per_second: u32) {
        let (file, limit) = &self.limit;
        fs::write(file, limit(&self.disk.device(), writes_per_second)).expect("it is set already");
    }

    /// Makes it slow for this process.
    ///
    /// # Panics
    /// When that has ended.
    pub fn slow_down(&self, pid: u32) {
        fs::write(self.group.join("cgroup.procs"), pid.to_string()).expect("it lives");
    }

    /// From now on every write waits until it is on the disk.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn write_through(&self) {
        let status = Command::new("mount")
            .args(["-o", "remount,sync"])
            .arg(self.path())
            .status();
        assert!(status.is_ok_and(|status| status.success()), "it is mounted");
    }

    /// Its root.
    pub fn path(&self) -> PathBuf {
        self.disk.join("")
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        let give_up = Instant::now() + PATIENCE;
        // The group cannot be removed while one of them lives.
        while fs::remove_dir(&self.group).is_err() && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
