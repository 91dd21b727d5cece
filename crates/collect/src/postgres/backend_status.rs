//! What a session says of its statement: its entry in the server's status array (`PgBackendStatus` in
//! src/include/utils/backend_status.h), which pg_stat_activity shows. Read from the session's memory, without a connection.
//!
//! `MyBEEntry` points to the entry. Where in it the query id lies is told by the code of `pgstat_get_my_query_id`, which is exported
//! and does nothing but return it; in PostgreSQL 14 to 18 that is the same place on 64-bit machines, and with it all that lies
//! before it. A server with another layout is refused, and so is one whose entries name other processes.

use crate::database::StatementRecord;
use crate::executable::Executable;
use crate::small_code::{Operand, operands_of};
use crate::{memory, process};

/// Where `st_query_id` lies in the layout that is known.
const QUERY_ID: u64 = 424;
/// `st_changecount`: odd while the session writes its entry.
const CHANGE_COUNT: u64 = 0;
/// `st_procpid`.
const PROCESS_ID: u64 = 4;
/// `st_activity_raw`: address of the text.
const ACTIVITY: u64 = 248;
/// Bytes of a text that are read at most.
const MOST_TEXT: usize = 64 << 10;
/// Bytes that are read at a time: the rest of a buffer is not touched, reading it might allocate it.
const PIECE: usize = 512;

/// Where the sessions of one server have their entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct BackendStatus {
    /// Address of `MyBEEntry`, the same in all processes.
    pointer: u64,
}

impl BackendStatus {
    /// Of the server whose postmaster this is, looked at in these processes of it.
    ///
    /// # Errors
    /// Why it cannot be told.
    pub(super) fn of(postmaster: u32, processes: &[u32]) -> Result<BackendStatus, &'static str> {
        let executable = Executable::of(postmaster).map_err(|_| "the server's executable cannot be read")?;
        let operands = operands_of(&executable, "pgstat_get_my_query_id");
        let status = match operands.as_deref() {
            Some(
                &[
                    Operand::Static { address, bytes: 8 },
                    Operand::Field {
                        offset: QUERY_ID,
                        bytes: 8,
                    },
                ],
            ) => BackendStatus { pointer: address },
            Some(_) => return Err("this build of the server keeps them in a place that is not known"),
            None => return Err("the server's code does not tell where they are"),
        };
        let is_other = |&pid: &u32| {
            let entry = status.entry(pid)?;
            let named = memory::read_u32(pid, entry + PROCESS_ID).ok()?;
            // An entry is filled in a moment after it is taken.
            (named != 0).then_some(named != process::innermost_pid(pid)?)
        };
        match processes.iter().filter_map(is_other).any(|is_other| is_other) {
            true => Err("the server's entries name other processes"),
            false => Ok(status),
        }
    }

    /// Where a session's statement is read.
    pub(super) fn record(self) -> StatementRecord {
        StatementRecord {
            pointer: self.pointer,
            offset: QUERY_ID as u32,
        }
    }

    /// The text that a session has in its entry, as long as it is that of this statement. Cut where the server cuts it
    /// (`track_activity_query_size`), and at [`MOST_TEXT`].
    pub(super) fn text(self, pid: u32, statement: u64) -> Option<String> {
        let entry = self.entry(pid)?;
        let look = || {
            let (mut count, mut address, mut id) = ([0; 4], [0; 8], [0; 8]);
            let mut parts: [(u64, &mut [u8]); 3] = [
                (entry + CHANGE_COUNT, &mut count),
                (entry + ACTIVITY, &mut address),
                (entry + QUERY_ID, &mut id),
            ];
            memory::read(pid, &mut parts).ok()?;
            let (count, id) = (u32::from_ne_bytes(count), u64::from_ne_bytes(id));
            (count & 1 == 0 && id == statement).then_some((count, u64::from_ne_bytes(address)))
        };
        let before = look()?;
        let text = text_at(pid, before.1)?;
        (look()? == before).then_some(text)
    }

    fn entry(self, pid: u32) -> Option<u64> {
        memory::read_u64(pid, self.pointer)
            .ok()
            .filter(|entry| *entry != 0)
    }
}

/// The text at an address, up to a zero.
fn text_at(pid: u32, address: u64) -> Option<String> {
    let mut text = Vec::new();
    while text.len() < MOST_TEXT {
        let mut piece = [0; PIECE];
        memory::read(pid, &mut [(address.checked_add(text.len() as u64)?, &mut piece)]).ok()?;
        let end = memchr::memchr(0, &piece);
        text.extend(&piece[..end.unwrap_or(PIECE)]);
        if end.is_some() {
            break;
        }
    }
    // Of a server with another encoding what is no UTF-8 is shown as such; a text may be cut inside a character.
    Some(String::from_utf8_lossy(&text).into_owned()).filter(|text| !text.is_empty())
}
