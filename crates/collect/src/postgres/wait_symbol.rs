//! Where the wait event of a server process lies in memory.
//!
//! Since PostgreSQL 14 `my_wait_event_info` (src/backend/utils/activity/wait_event.c) is a global pointer to the 32-bit
//! wait event, in shared memory once the process has a PGPROC. Executables export it, stripped or not.

use std::fs;
use std::path::PathBuf;

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};

use crate::executable::load_bias;
use crate::{CollectError, process};

const SYMBOL: &str = "my_wait_event_info";

/// What the executable of a server tells.
#[derive(Debug, Clone)]
pub(super) struct Executable {
    /// For example `15.18`; empty when the text is not found.
    pub(super) version: String,
    /// Address of the pointer in the postmaster and, by fork, in all its children. None: not exported.
    pub(super) wait_address: Option<u64>,
}

/// Reads the executable that process `pid` runs, also when it has been deleted meanwhile.
///
/// # Errors
/// It cannot be read, or is no ELF file of this machine.
pub(super) fn read_executable(pid: u32) -> Result<Executable, CollectError> {
    let path = process::path(pid, "exe");
    let name = process::executable(pid).unwrap_or_else(|| path.clone());
    let bad = |what: String| CollectError::Executable {
        executable: name.clone(),
        what,
    };
    let data = fs::read(&path).map_err(|e| CollectError::io(&path, e))?;
    let elf = ElfFile64::<Endianness>::parse(&*data).map_err(|e| bad(e.to_string()))?;
    let symbol = elf
        .dynamic_symbols()
        .chain(elf.symbols())
        .find(|symbol| symbol.name() == Ok(SYMBOL) && symbol.is_definition())
        .map(|symbol| symbol.address());
    let wait_address = match symbol {
        Some(address) => Some(address.wrapping_add(load_bias(pid, &elf).map_err(|e| bad(e.to_string()))?)),
        None => None,
    };
    Ok(Executable {
        version: version(&data).unwrap_or_default(),
        wait_address,
    })
}

/// Finds the text that `SELECT version()` gives.
fn version(data: &[u8]) -> Option<String> {
    const MARK: &[u8] = b"PostgreSQL ";
    let candidates = data
        .windows(MARK.len())
        .enumerate()
        .filter(|(_, window)| *window == MARK);
    for (at, _) in candidates {
        let rest = &data[at + MARK.len()..(at + MARK.len() + 64).min(data.len())];
        let end = rest.iter().position(|&b| b == b' ' || b == 0).unwrap_or(0);
        let word = std::str::from_utf8(&rest[..end]).unwrap_or_default();
        // "15.18", "18beta1": a number, and then " on …" or " (…)" as version() prints it.
        if word.starts_with(|c: char| c.is_ascii_digit())
            && (rest[end..].starts_with(b" on ") || rest[end..].starts_with(b" ("))
        {
            return Some(word.to_string());
        }
    }
    None
}

/// The executable as the server names it, for messages.
pub(super) fn executable_name(pid: u32) -> PathBuf {
    process::executable(pid).unwrap_or_else(|| process::path(pid, "exe"))
}
