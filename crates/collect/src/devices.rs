//! Block devices by name and by number, as sysfs knows them.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::CollectError;

/// Bits of the minor number in the kernel's `dev_t` (`linux/kdev_t.h`).
const MINOR_BITS: u32 = 20;

/// Number of the disk with this name (`sda`, `/dev/sda`, `/dev/mapper/NAME`).
///
/// # Errors
/// There is no such device, or it has no requests of its own: the message says what to use instead.
pub(crate) fn by_name(name: &str) -> Result<u32, CollectError> {
    let wrong = |why: String| CollectError::Device {
        name: name.escape_debug().to_string(),
        why,
    };
    let device =
        number(name).ok_or_else(|| wrong(format!("no such block device; choose from {}", known())))?;
    let directory = directory(device);
    if directory.join("partition").exists() {
        let disk = disk_of_partition(&directory).unwrap_or_else(|| "the whole disk".to_string());
        return Err(wrong(format!(
            "a partition has no requests of its own; use {disk}"
        )));
    }
    if !has_requests(&directory) {
        let below = below(&directory);
        let instead = if below.is_empty() {
            format!("choose from {}", known())
        } else {
            format!("it is built on {}", below.join(", "))
        };
        return Err(wrong(format!(
            "the device passes its I/O on and has no requests of its own; {instead}"
        )));
    }
    Ok(device)
}

/// Name of a device; its number where sysfs has none.
pub(crate) fn name(device: u32) -> String {
    fs::canonicalize(directory(device))
        .ok()
        .and_then(|path| file_name(&path))
        .unwrap_or_else(|| numbers(device))
}

/// True if the I/O of the device becomes I/O of another one, where it is seen again: a loop device on a file, a device
/// mapper.
pub(crate) fn is_stacked(device: u32) -> bool {
    let directory = directory(device);
    directory.join("loop/backing_file").exists() || !below(&directory).is_empty()
}

fn number(name: &str) -> Option<u32> {
    if name.starts_with('/') {
        let metadata = fs::metadata(name).ok()?;
        if !metadata.file_type().is_block_device() {
            return None;
        }
        let device = metadata.rdev();
        return Some(libc::major(device) << MINOR_BITS | libc::minor(device));
    }
    // In sysfs `!` stands for the `/` of a name.
    let directory = Path::new("/sys/class/block").join(name.replace('/', "!"));
    let text = fs::read_to_string(directory.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some(major.parse::<u32>().ok()? << MINOR_BITS | minor.parse::<u32>().ok()?)
}

/// Major and minor number of a kernel `dev_t`.
pub(crate) fn major_minor(device: u32) -> (u32, u32) {
    (device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1))
}

fn numbers(device: u32) -> String {
    let (major, minor) = major_minor(device);
    format!("{major}:{minor}")
}

fn directory(device: u32) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}", numbers(device)))
}

/// Only devices with request queues have this; others (most of device mapper and md, zram) pass on what they get.
fn has_requests(directory: &Path) -> bool {
    directory.join("mq").exists()
}

fn below(directory: &Path) -> Vec<String> {
    entries(&directory.join("slaves"))
}

fn disk_of_partition(directory: &Path) -> Option<String> {
    file_name(fs::canonicalize(directory).ok()?.parent()?)
}

/// The disks that can be named, for a message.
fn known() -> String {
    let disks: Vec<String> = entries(Path::new("/sys/block"))
        .into_iter()
        .filter(|disk| has_requests(&Path::new("/sys/block").join(disk.replace('/', "!"))))
        .map(|disk| disk.escape_debug().to_string())
        .collect();
    if disks.is_empty() {
        "none".to_string()
    } else {
        disks.join(", ")
    }
}

fn entries(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| file_name(&entry.path()))
        .collect();
    names.sort();
    names
}

fn file_name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().replace('!', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_device_is_its_name() {
        assert_eq!(name(4095 << MINOR_BITS | 1_048_575), "4095:1048575");
        assert!(!is_stacked(4095 << MINOR_BITS | 1_048_575));
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_no_device() {
        for wrong in [
            "",
            ".",
            "..",
            "../../etc",
            "/etc/passwd",
            "/dev/null",
            "sd\u{1b}[2J",
        ] {
            let error = by_name(wrong).expect_err(wrong).to_string();
            assert!(error.contains("no such block device"), "{error}");
            assert!(!error.contains('\u{1b}'), "{error}");
        }
    }
}
