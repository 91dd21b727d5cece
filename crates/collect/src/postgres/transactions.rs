//! Counts the transactions of each session without a connection, from the session's own memory.
//!
//! Every transaction of a backend takes the next number of a counter of its own (src/backend/storage/ipc/sinvaladt.c). The counter
//! is static and has no symbol in a stripped server; `GetNextLocalTransactionId`, which is exported, does nothing but increment it.
//! So its code is read: the only data that it refers to is the counter, at the same address in all sessions.
//!
//! Nothing is written; each look is four bytes of a process's own, private memory.

use std::collections::HashMap;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Register};

use crate::executable::Executable;
use crate::memory;

/// Of the code of the function so much is read (PostgreSQL 14 to 18, with and without optimisation: 30 to 60 bytes).
const CODE: usize = 128;

/// The transactions of one server's sessions.
pub(super) struct Transactions {
    /// Address of the counter.
    counter: u64,
    /// Last number of each session.
    last: HashMap<u32, u32>,
}

impl Transactions {
    /// Of the server whose postmaster this is; none when its executable does not tell.
    pub(super) fn of(postmaster: u32) -> Option<Transactions> {
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        let executable = Executable::of(postmaster).ok()?;
        let [function] = executable.symbols(["GetNextLocalTransactionId"]).ok()?;
        let function = function?;
        let code = executable.bytes(function.offset, CODE).ok()?;
        let counter = counter_in(&code, function.address)?;
        let (begin, bytes) = executable.data().ok()?;
        (begin..begin.saturating_add(bytes))
            .contains(&counter)
            .then(|| Transactions {
                counter,
                last: HashMap::new(),
            })
    }

    /// By how many transactions each of these sessions has grown since the last call; 0 for those seen for the first time.
    pub(super) fn count(&mut self, pids: &[u32]) -> Vec<(u32, u32)> {
        let mut growth = Vec::with_capacity(pids.len());
        for &pid in pids {
            let Ok(number) = memory::read_u32(pid, self.counter) else {
                continue;
            };
            // A process that has only just been forked has its parent's 0 or 1.
            if number <= 1 {
                continue;
            }
            let last = self.last.insert(pid, number).unwrap_or(number);
            growth.push((pid, number.wrapping_sub(last)));
        }
        growth
    }

    /// The session has ended; its pid may come back as another one.
    pub(super) fn forget(&mut self, pid: u32) {
        self.last.remove(&pid);
    }
}

/// The address of the 32-bit number that a function reads and writes; none when it refers to others too, calls another function,
/// or does not end.
fn counter_in(code: &[u8], address: u64) -> Option<u64> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut counter = None;
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        match instruction.flow_control() {
            FlowControl::Next if refers_to_data(&instruction) => {
                let data = instruction.memory_displacement64();
                if instruction.memory_size().size() != 4 || counter.is_some_and(|known| known != data) {
                    return None;
                }
                counter = Some(data);
            }
            FlowControl::Next | FlowControl::ConditionalBranch => {}
            FlowControl::Return => return counter,
            _ => return None,
        }
    }
    None
}

/// Relative to the instruction, or an address by itself, as in a server that is not position independent.
fn refers_to_data(instruction: &Instruction) -> bool {
    instruction.is_ip_rel_memory_operand()
        || instruction.memory_base() == Register::None
            && instruction.memory_index() == Register::None
            && instruction.memory_displ_size() != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_number_that_the_function_increments_is_the_counter() {
        // Debian's PostgreSQL 15: mov, lea, test, jne, mov, mov, mov, ret.
        let optimised = [
            0x8b, 0x05, 0x82, 0x4f, 0x43, 0x00, 0x8d, 0x50, 0x01, 0x85, 0xc0, 0x75, 0x0a, 0xba, 0x02, 0, 0,
            0, 0xb8, 0x01, 0, 0, 0, 0x89, 0x15, 0x6b, 0x4f, 0x43, 0x00, 0xc3,
        ];
        assert_eq!(counter_in(&optimised, 0x457640), Some(0x88c5c8));
        // Of another place it writes to.
        let mut other = optimised;
        other[25] = 0x6f;
        assert_eq!(counter_in(&other, 0x457640), None);
        // Its end is missing.
        assert_eq!(counter_in(&optimised[..29], 0x457640), None);
        // incl 0x88c5c8; mov 0x88c5c8,%eax; ret: not position independent.
        let absolute = [
            0xff, 0x04, 0x25, 0xc8, 0xc5, 0x88, 0x00, 0x8b, 0x04, 0x25, 0xc8, 0xc5, 0x88, 0x00, 0xc3,
        ];
        assert_eq!(counter_in(&absolute, 0x457640), Some(0x88c5c8));
        // A jump to somewhere else, a call, nothing.
        for code in [&[0xe9, 0, 0, 0, 1][..], &[0xe8, 0, 0, 0, 1, 0xc3], &[0xc3], &[]] {
            assert_eq!(counter_in(code, 0x457640), None);
        }
    }
}
