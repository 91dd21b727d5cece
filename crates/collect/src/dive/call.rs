//! The system call that a dive is about: its name, its number, and the name of its entry function in the kernel.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use memchr::memmem;
use syscalls::{Sysno, SysnoSet};

use crate::CollectError;

/// A system call of this architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemCall(Sysno);

/// Calls whose entry function is named differently (`arch/x86/entry/syscalls/syscall_64.tbl`, third and fourth column;
/// `include/uapi/asm-generic/unistd.h`).
const OTHER_NAMES: [(&str, &str); 8] = [
    ("stat", "newstat"),
    ("lstat", "newlstat"),
    ("fstat", "newfstat"),
    ("uname", "newuname"),
    ("sendfile", "sendfile64"),
    ("umount2", "umount"),
    ("_sysctl", "sysctl"),
    ("fadvise64", "fadvise64_64"),
];

/// Prefixes of entry functions, by architecture and age of the kernel: the first that the kernel has is used.
const PREFIXES: [&str; 5] = ["__x64_sys_", "__arm64_sys_", "__se_sys_", "SyS_", "sys_"];

/// How many names are suggested for one that does not exist.
const PROPOSALS: usize = 3;
/// How similar a name must be to be suggested (Jaro-Winkler, 1 = the same).
const ALIKE: f64 = 0.8;

impl SystemCall {
    /// Finds a call by its name, as in the manual's section 2.
    ///
    /// # Errors
    /// There is no such call; the message suggests similar names.
    pub fn named(name: &str) -> Result<SystemCall, CollectError> {
        let all = SysnoSet::all();
        if let Some(call) = all.iter().find(|call| call.name() == name) {
            return Ok(SystemCall(call));
        }
        let mut alike: Vec<(f64, &str)> = all
            .iter()
            .map(|call| (strsim::jaro_winkler(name, call.name()), call.name()))
            .filter(|(likeness, _)| *likeness >= ALIKE)
            .collect();
        alike.sort_by(|a, b| b.0.total_cmp(&a.0));
        alike.truncate(PROPOSALS);
        Err(CollectError::Call {
            name: name.escape_debug().to_string(),
            alike: alike.into_iter().map(|(_, name)| name).collect(),
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Its number on this architecture.
    pub fn number(self) -> i32 {
        self.0.id()
    }

    /// Names that its entry function may have, the likeliest first.
    fn candidates(self) -> Vec<String> {
        let name = self.name();
        let others = OTHER_NAMES.iter().filter(|(call, _)| *call == name);
        let names: Vec<&str> = [name]
            .into_iter()
            .chain(others.map(|(_, function)| *function))
            .collect();
        let with_prefix = |prefix: &&str| {
            names
                .iter()
                .map(|name| format!("{prefix}{name}"))
                .collect::<Vec<_>>()
        };
        PREFIXES.iter().flat_map(with_prefix).collect()
    }

    /// Name of its entry function in this kernel.
    ///
    /// # Errors
    /// The kernel names no function that could be it.
    pub(super) fn entry_function(self) -> Result<String, CollectError> {
        let path = Path::new("/proc/kallsyms");
        let candidates = self.candidates();
        let mut best = candidates.len();
        let file = File::open(path).map_err(|e| CollectError::io(path, e))?;
        let finder = memmem::Finder::new(b"ys_");
        for line in BufReader::new(file).split(b'\n') {
            let line = line.map_err(|e| CollectError::io(path, e))?;
            // Most of the 200,000 or so names are not system calls.
            if finder.find(&line).is_none() {
                continue;
            }
            let name = line.split(|&b| b == b' ').nth(2).unwrap_or_default();
            if let Some(place) = candidates[..best].iter().position(|c| c.as_bytes() == name) {
                best = place;
            }
        }
        candidates.into_iter().nth(best).ok_or_else(|| {
            CollectError::Kernel(format!(
                "{}: this kernel has no entry function for {}",
                path.display(),
                self.name()
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_found_by_its_name_and_has_its_number() {
        let call = SystemCall::named("pread64").expect("it exists");
        assert_eq!(i64::from(call.number()), libc::SYS_pread64);
    }

    #[test]
    fn names_that_are_alike_are_proposed() {
        for (typed, meant) in [
            ("pread", "pread64"),
            ("nanoslep", "nanosleep"),
            ("io_sumbit", "io_submit"),
        ] {
            match SystemCall::named(typed) {
                Err(CollectError::Call { alike, .. }) => {
                    assert!(alike.contains(&meant), "{typed}: {alike:?}")
                }
                other => panic!("{typed}: {other:?}"),
            }
        }
        match SystemCall::named("\u{1b}[2Jzzzz") {
            Err(CollectError::Call { name, alike }) => {
                assert!(alike.is_empty() && !name.contains('\u{1b}'), "{name} {alike:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}
