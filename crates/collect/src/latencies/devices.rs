//! Names of block devices by the kernel's number.

use std::collections::HashMap;
use std::path::Path;

/// Bits of the minor number in the kernel's own `dev_t` (include/linux/kdev_t.h).
const MINOR_BITS: u32 = 20;

/// Major and minor number of a kernel `dev_t`.
pub(crate) fn major_minor(device: u32) -> (u32, u32) {
    (device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1))
}

/// Names that have been looked up.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    names: HashMap<u32, String>,
}

impl Devices {
    /// Name of a device as in /sys/block; `major:minor` when it has none, empty for no device.
    pub(crate) fn name(&mut self, device: u32) -> String {
        if device == 0 {
            return String::new();
        }
        let named = self.names.entry(device).or_insert_with(|| {
            let (major, minor) = major_minor(device);
            let number = format!("{major}:{minor}");
            let link = Path::new("/sys/dev/block").join(&number);
            std::fs::read_link(link)
                .ok()
                .and_then(|target| Some(target.file_name()?.to_string_lossy().into_owned()))
                .unwrap_or(number)
        });
        named.clone()
    }
}
