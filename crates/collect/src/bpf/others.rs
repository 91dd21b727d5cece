//! Who else had a CPU when the timer fired: bpf/others.bpf.h.

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapHandle};

/// See the module.
pub(super) struct Others {
    samples: MapHandle,
}

impl Others {
    pub(super) fn new(samples: MapHandle) -> Others {
        Others { samples }
    }

    /// Samples since the last call, by process name.
    pub(super) fn take(&self) -> Vec<(String, u64)> {
        let mut taken: BTreeMap<String, u64> = BTreeMap::new();
        let names: Vec<Vec<u8>> = self.samples.keys().collect();
        for name in names {
            let samples = self.samples.lookup_and_delete(&name).ok().flatten();
            let samples = samples.and_then(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?)));
            *taken.entry(one_of_its_kind(&name)).or_default() += samples.unwrap_or(0);
        }
        taken.into_iter().collect()
    }
}

/// `kworker` for `kworker/3:1H`: for per-CPU kernel threads, the part of the name that they have in common.
fn one_of_its_kind(comm: &[u8]) -> String {
    let length = comm.iter().position(|&byte| byte == 0).unwrap_or(comm.len());
    let name = String::from_utf8_lossy(&comm[..length]);
    match name.split_once('/') {
        Some((kind, cpu))
            if cpu
                .trim_start_matches('u')
                .starts_with(|c: char| c.is_ascii_digit()) =>
        {
            kind.to_string()
        }
        _ => name.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::one_of_its_kind;

    #[test]
    fn kernel_threads_of_all_cpus_are_one() {
        for (comm, kind) in [
            (&b"kworker/3:1H\0\0\0\0"[..], "kworker"),
            (b"kworker/u8:0-flu", "kworker"),
            (b"ksoftirqd/0\0\0\0\0\0", "ksoftirqd"),
            (b"postgres\0left\0\0\0", "postgres"),
            (b"a/b\0\0\0\0\0\0\0\0\0\0\0\0\0", "a/b"),
            (b"\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "\u{fffd}"),
            (b"", ""),
        ] {
            assert_eq!(one_of_its_kind(comm), kind);
        }
    }
}
