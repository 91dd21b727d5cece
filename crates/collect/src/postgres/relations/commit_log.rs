//! Which transactions have committed, according to the server's files: `pg_xact`, two bits per transaction
//! (src/backend/access/transam/clog.c).

use std::collections::HashMap;
use std::ffi::CString;
use std::io::Read;

use crate::target_file::TargetDirectory;

/// `BootstrapTransactionId` and `FrozenTransactionId` have committed whatever the log says.
const FIRST_NORMAL: u32 = 3;
/// `SLRU_PAGES_PER_SEGMENT`
const PAGES_PER_FILE: usize = 32;
const PER_BYTE: u32 = 4;
/// Files read at a time.
const MOST_FILES: usize = 64;

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Committed,
    Aborted,
    /// It is still running, the server has not written its outcome yet, or it is so old that the log no longer has it.
    NotKnown,
}

/// See the module.
pub(super) struct CommitLog<'d> {
    /// `pg_xact`; none = it cannot be read.
    directory: Option<&'d TargetDirectory>,
    page_size: usize,
    files: HashMap<u32, Vec<u8>>,
}

impl<'d> CommitLog<'d> {
    pub(super) fn new(directory: Option<&'d TargetDirectory>, page_size: usize) -> CommitLog<'d> {
        CommitLog {
            directory,
            page_size,
            files: HashMap::new(),
        }
    }

    pub(super) fn fate(&mut self, transaction: u32) -> Fate {
        if transaction < FIRST_NORMAL {
            return match transaction {
                0 => Fate::NotKnown,
                _ => Fate::Committed,
            };
        }
        let per_file = (self.page_size * PAGES_PER_FILE) as u32 * PER_BYTE;
        let at = transaction % per_file;
        let byte = self.file(transaction / per_file).get((at / PER_BYTE) as usize);
        match byte.map(|byte| byte >> (2 * (at % PER_BYTE)) & 3) {
            Some(1) => Fate::Committed,
            Some(2) => Fate::Aborted,
            _ => Fate::NotKnown,
        }
    }

    fn file(&mut self, number: u32) -> &[u8] {
        let is_full = self.files.len() >= MOST_FILES;
        let (directory, most) = (self.directory, self.page_size * PAGES_PER_FILE);
        let read = || {
            let mut bytes = Vec::new();
            if !is_full
                && let (Some(directory), Ok(name)) = (directory, CString::new(format!("{number:04X}")))
                && let Ok(file) = directory.file(&name)
            {
                // What cannot be read is not known.
                let _ = file.from(0, most as u64).read_to_end(&mut bytes);
            }
            bytes
        };
        match is_full {
            true => self.files.get(&number).map_or(&[], Vec::as_slice),
            false => self.files.entry(number).or_insert_with(read),
        }
    }
}
