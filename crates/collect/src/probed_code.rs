//! Two no-op functions of dbtime's own, to measure what probes cost on this host: they begin with a `push`, as a server's
//! functions do.

use crate::CollectError;
#[cfg(target_arch = "x86_64")]
use crate::symbols::maps;

/// Where probes go in dbtime's own executable: the entries of the functions that stand for acquiring and releasing a lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    pub(crate) ask: u64,
    pub(crate) release: u64,
}

#[cfg(target_arch = "x86_64")]
mod code {
    std::arch::global_asm!(
        ".pushsection .text.dbtime_probed, \"ax\", @progbits",
        ".globl dbtime_probed_get, dbtime_probed_release",
        ".type dbtime_probed_get, @function",
        "dbtime_probed_get:",
        "push %rbp",
        "mov %rsp, %rbp",
        "pop %rbp",
        "ret",
        ".size dbtime_probed_get, . - dbtime_probed_get",
        ".type dbtime_probed_release, @function",
        "dbtime_probed_release:",
        "push %rbp",
        "mov %rsp, %rbp",
        "pop %rbp",
        "ret",
        ".size dbtime_probed_release, . - dbtime_probed_release",
        ".popsection",
        options(att_syntax)
    );

    unsafe extern "C" {
        pub(super) fn dbtime_probed_get(lock: *const u64, mode: u64);
        pub(super) fn dbtime_probed_release(lock: *const u64);
    }
}

/// Calls both.
#[cfg(target_arch = "x86_64")]
pub(crate) fn get_and_release() {
    static LOCK: u64 = 0;
    // SAFETY: they are functions of the C ABI that touch no memory but their own stack.
    unsafe {
        code::dbtime_probed_get(&raw const LOCK, 1);
        code::dbtime_probed_release(&raw const LOCK);
    }
}

/// Where they are in the executable's file.
///
/// # Errors
/// The process's own memory map cannot be read.
#[cfg(target_arch = "x86_64")]
pub(crate) fn places() -> Result<Places, CollectError> {
    let maps = maps::read(std::process::id())
        .map_err(|e| CollectError::io(&crate::process::path(std::process::id(), "maps"), e))?;
    let place = |address: u64| {
        let mapping = maps
            .iter()
            .find(|mapping| (mapping.start..mapping.end).contains(&address));
        mapping
            .map(|mapping| address - mapping.start + mapping.offset)
            .ok_or_else(|| CollectError::Kernel("dbtime's own code is not mapped".to_string()))
    };
    Ok(Places {
        ask: place(code::dbtime_probed_get as *const () as u64)?,
        release: place(code::dbtime_probed_release as *const () as u64)?,
    })
}

/// Nothing: only code of x86-64 is read.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn get_and_release() {}

/// Nowhere.
///
/// # Errors
/// Always.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn places() -> Result<Places, CollectError> {
    Err(CollectError::Kernel(
        "--exact: only code of x86-64 is read".to_string(),
    ))
}
