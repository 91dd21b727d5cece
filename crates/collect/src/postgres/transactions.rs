//! Counts the transactions of each session without a connection, from the session's own memory.
//!
//! Each transaction of a backend takes the next number of that backend's own counter (src/backend/storage/ipc/sinvaladt.c). The counter is
//! static and has no symbol in a stripped server; `GetNextLocalTransactionId`, which is exported, does nothing but increment it. So its
//! code is read: the only data that it refers to is the counter, at the same address in all sessions.
//!
//! Nothing is written; each read is four bytes of a process's private memory.

use std::collections::HashMap;

use crate::executable::Executable;
use crate::memory;
use crate::small_code::{Operand, operands_of};

/// The transactions of one server's sessions.
pub(super) struct Transactions {
    /// Address of the counter.
    counter: u64,
    /// Last number seen in each session.
    last: HashMap<u32, u32>,
}

impl Transactions {
    /// For the server with this executable; none if its code does not show the counter.
    pub(super) fn of(executable: &Executable) -> Option<Transactions> {
        let operands = operands_of(executable, "GetNextLocalTransactionId")?;
        let [Operand::Static { address, bytes: 4 }] = operands[..] else {
            return None;
        };
        let (begin, bytes) = executable.data().ok()?;
        let is_data = (begin..begin.saturating_add(bytes)).contains(&address);
        is_data.then(|| Transactions {
            counter: address,
            last: HashMap::new(),
        })
    }

    /// How many transactions each of these sessions has had since the last call; 0 for those seen for the first time.
    pub(super) fn count(&mut self, pids: &[u32]) -> Vec<(u32, u32)> {
        let mut growth = Vec::with_capacity(pids.len());
        for &pid in pids {
            let Ok(number) = memory::read_u32(pid, self.counter) else {
                continue;
            };
            // A process that was just forked still has its parent's 0 or 1.
            if number <= 1 {
                continue;
            }
            let last = self.last.insert(pid, number).unwrap_or(number);
            growth.push((pid, number.wrapping_sub(last)));
        }
        growth
    }

    /// Address of the counter in each session.
    pub(super) fn counter(&self) -> u64 {
        self.counter
    }

    /// How many transactions a session has had since it was last read; it ended with this number.
    pub(super) fn count_last(&mut self, pid: u32, number: u32) -> Option<u32> {
        Some(number.wrapping_sub(self.last.remove(&pid)?))
    }

    /// The session has ended; its pid may be reused.
    pub(super) fn forget(&mut self, pid: u32) {
        self.last.remove(&pid);
    }
}
