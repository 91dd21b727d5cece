//! What programs have in the kernel: BPF objects by their ids, probes, trace instances and settings.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use crate::diving::trace_settings;

/// Commands of bpf(2) that list ids (`enum bpf_cmd`), by what they list.
const LISTS: [(&str, libc::c_long); 4] = [
    ("program", 11),
    ("map", 12),
    ("type information", 23),
    ("link", 31),
];
/// Files that list probes which outlive their creators.
const PROBES: [&str; 2] = ["kprobe_events", "uprobe_events"];
/// The kernel frees some objects a moment after the last reference is gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// All of it at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelObjects {
    bpf: BTreeSet<(&'static str, u32)>,
    trace: Vec<(String, String)>,
}

impl KernelObjects {
    /// Reads them.
    ///
    /// # Panics
    /// When the kernel does not list them.
    #[track_caller]
    pub fn now() -> KernelObjects {
        let bpf = LISTS
            .iter()
            .flat_map(|&(what, command)| ids(command).into_iter().map(move |id| (what, id)))
            .collect();
        let probes = PROBES.iter().filter_map(|file| {
            let text = fs::read_to_string(format!("/sys/kernel/tracing/{file}")).ok()?;
            Some((file.to_string(), text))
        });
        let settings = trace_settings().into_iter();
        let trace = settings
            .map(|(path, value)| (path.display().to_string(), value))
            .chain(probes)
            .collect();
        KernelObjects { bpf, trace }
    }

    /// Programs that were not there then.
    pub fn programs_since(&self, then: &KernelObjects) -> usize {
        let new = self.bpf.difference(&then.bpf);
        new.filter(|(what, _)| *what == "program").count()
    }

    /// Waits until nothing is there that was not there then, and all settings are as they were.
    ///
    /// # Panics
    /// When that does not happen, with what is left.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let now = KernelObjects::now();
            let left: Vec<_> = now.bpf.difference(&self.bpf).collect();
            if left.is_empty() && now.trace == self.trace {
                return;
            }
            let changed: Vec<_> = now
                .trace
                .iter()
                .filter(|setting| !self.trace.contains(setting))
                .collect();
            assert!(
                Instant::now() < give_up,
                "left in the kernel: {left:?}; changed: {changed:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Ids that a command lists.
#[track_caller]
fn ids(command: libc::c_long) -> Vec<u32> {
    let mut ids = Vec::new();
    // `struct { start_id; next_id; open_flags }` of `union bpf_attr`.
    let mut attributes: [u32; 3] = [0; 3];
    loop {
        // SAFETY: the pointer is to live memory of the size given, which the call may write.
        let done = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                command,
                attributes.as_mut_ptr(),
                size_of_val(&attributes),
            )
        };
        if done < 0 {
            let error = io::Error::last_os_error();
            assert_eq!(
                error.raw_os_error(),
                Some(libc::ENOENT),
                "bpf({command}): {error}"
            );
            return ids;
        }
        ids.push(attributes[1]);
        attributes[0] = attributes[1];
    }
}
