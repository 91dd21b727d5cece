//! Where the wait event of a server process is in memory.
//!
//! Since PostgreSQL 14 `my_wait_event_info` (src/backend/utils/activity/wait_event.c) is a global pointer to the 32-bit
//! wait event, in shared memory once the process has a PGPROC. Executables export it, stripped or not.

use std::io::{self, Read};
use std::path::PathBuf;

use memchr::memmem;

use crate::executable;
use crate::target_file::TargetFile;
use crate::{CollectError, process};

const SYMBOL: &str = "my_wait_event_info";
/// Bytes of the file that are searched for the text of `SELECT version()`: it comes before debug information.
const MAX_SEARCHED: u64 = 64 << 20;

/// What the executable of a server says.
#[derive(Debug, Clone)]
pub(super) struct Executable {
    /// For example `15.18`; empty when the text is not found.
    pub(super) version: String,
    /// Address of the pointer in the postmaster and, by fork, in all its children. None: not exported.
    pub(super) wait_address: Option<u64>,
}

impl Executable {
    /// True if it is PostgreSQL's, whatever the version.
    pub(super) fn is_postgres(&self) -> bool {
        self.wait_address.is_some() || !self.version.is_empty()
    }
}

/// Reads the executable that process `pid` runs, even if it has been deleted since.
///
/// # Errors
/// It cannot be read, or is not an ELF file for this machine.
pub(super) fn read_executable(pid: u32) -> Result<Executable, CollectError> {
    let bad = |e: io::Error| CollectError::Executable {
        executable: executable_name(pid),
        what: e.to_string(),
    };
    let executable = executable::Executable::of(pid).map_err(bad)?;
    let [symbol] = executable.symbols([SYMBOL]).map_err(bad)?;
    Ok(Executable {
        version: version(executable.file()).unwrap_or_default(),
        wait_address: symbol.map(|symbol| symbol.address),
    })
}

/// Finds the version in the text of `SELECT version()`.
fn version(file: &TargetFile) -> Option<String> {
    const MARK: &[u8] = b"PostgreSQL ";
    /// Bytes examined of the text.
    const LONGEST: usize = 64;
    const CHUNK: usize = 1 << 20;
    let mut rest = file.from(0, MAX_SEARCHED);
    let mut text = Vec::with_capacity(CHUNK + MARK.len() + LONGEST);
    loop {
        let read = rest.by_ref().take(CHUNK as u64).read_to_end(&mut text).ok()?;
        let found = memmem::find_iter(&text, MARK).find_map(|at| {
            let after = &text[at + MARK.len()..];
            version_word(&after[..after.len().min(LONGEST)])
        });
        if found.is_some() || read == 0 {
            return found;
        }
        // What may extend across the end is searched again, with what follows.
        text.drain(..text.len().saturating_sub(MARK.len() + LONGEST));
    }
}

/// "15.18", "18beta1": a number, and then " on …" or " (…)" as version() prints it.
fn version_word(text: &[u8]) -> Option<String> {
    let end = text.iter().position(|&b| b == b' ' || b == 0)?;
    let word = std::str::from_utf8(&text[..end]).ok()?;
    let is_version = word.starts_with(|c: char| c.is_ascii_digit())
        && (text[end..].starts_with(b" on ") || text[end..].starts_with(b" ("));
    is_version.then(|| word.to_string())
}

/// The executable as the server names it, for messages.
pub(super) fn executable_name(pid: u32) -> PathBuf {
    process::executable(pid).unwrap_or_else(|| process::path(pid, "exe"))
}
