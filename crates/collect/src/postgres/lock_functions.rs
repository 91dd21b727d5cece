//! Where probes can be placed in the functions of a server that acquire and release LWLocks (src/backend/storage/lmgr/lwlock.c), which
//! every build exports.
//!
//! A probe replaces a byte of the program, so it must be at the start of an instruction: the functions are decoded. If there is a choice,
//! it is at one that the kernel emulates (`push`, `call`): any other has to be single-stepped, which takes ten times as long in a virtual
//! machine. So `LWLockAcquire`, which nearly all uses go through, has a probe at its entry only, and probes around its call of
//! `PGSemaphoreLock`, in which a session that has to wait sleeps. The others, which are rare, have one at each `ret`, for what they return;
//! a function that also ends in another way is refused. None changes a return address, as return probes do: stacks stay as they are, and
//! nothing of the session's own memory is touched.
//!
//! x86-64 only.

use std::io;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register,
};

use crate::executable::{Executable, Symbol};
use crate::small_code::keeps_frame_pointer;

/// The function that acquires a lock, and waits for it; the others that acquire one: (lock, mode). What the first one sleeps in.
const ACQUIRE: &str = "LWLockAcquire";
const TRIES: [&str; 2] = ["LWLockConditionalAcquire", "LWLockAcquireOrWait"];
const SLEEP: &str = "PGSemaphoreLock";
/// Those that release it: (lock). The second is not in all versions, and means that the session no longer has the lock.
const RELEASES: [&str; 2] = ["LWLockRelease", "LWLockDisown"];
/// Bytes of a function's code that are read: they have at most a thousand.
const CODE: u64 = 8192;
/// Instructions that may precede a probe at the entry.
const SKIPPED: usize = 3;

/// Offsets in the executable file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LockFunctions {
    /// The entry of `LWLockAcquire`.
    pub(crate) acquires: Vec<u64>,
    /// Where it calls the function that sleeps, and where that returns to.
    pub(crate) sleeps: Vec<u64>,
    pub(crate) awakes: Vec<u64>,
    /// The entries of the others that acquire a lock.
    pub(crate) tries: Vec<u64>,
    /// The ends of `LWLockConditionalAcquire`, which returns whether it got the lock.
    pub(crate) tried: Vec<u64>,
    /// The ends of `LWLockAcquireOrWait`, which returns whether it got the lock, and waits if it did not.
    pub(crate) got_or_waited: Vec<u64>,
    /// The entries of those that release a lock.
    pub(crate) releases: Vec<u64>,
    /// The server is built with frame pointers.
    pub(crate) keeps_frames: bool,
}

impl LockFunctions {
    /// For this executable.
    ///
    /// # Errors
    /// It cannot be read, or it is not clear where the functions begin and end.
    pub(crate) fn of(executable: &Executable) -> io::Result<LockFunctions> {
        let [acquire, sleep] = executable.symbols([ACQUIRE, SLEEP])?;
        let [release, disown] = executable.symbols(RELEASES)?;
        let mut found = LockFunctions::default();
        let (offset, code) = code_of(executable, acquire, ACQUIRE)?;
        let calls = match (acquire, sleep) {
            (Some(acquire), Some(sleep)) => calls(&code, acquire.address, sleep.address),
            _ => Vec::new(),
        };
        if calls.is_empty() {
            return Err(io::Error::other(format!(
                "it cannot be seen where {ACQUIRE} waits"
            )));
        }
        found.keeps_frames = keeps_frame_pointer(&code);
        found.acquires.push(offset + entry(&code));
        found.sleeps.extend(calls.iter().map(|(call, _)| offset + call));
        found
            .awakes
            .extend(calls.iter().map(|(_, behind)| offset + behind));
        for (symbol, name) in executable.symbols(TRIES)?.into_iter().zip(TRIES) {
            let (offset, code) = code_of(executable, symbol, name)?;
            found.tries.push(offset + entry(&code));
            let ends = ends(&code)
                .ok_or_else(|| io::Error::other(format!("it cannot be seen where {name} ends")))?;
            let ends = ends.into_iter().map(|end| offset + end).collect();
            match name == TRIES[0] {
                true => found.tried = ends,
                false => found.got_or_waited = ends,
            }
        }
        let (offset, code) = code_of(executable, release, RELEASES[0])?;
        found.releases.push(offset + entry(&code));
        if disown.is_some() {
            let (offset, code) = code_of(executable, disown, RELEASES[1])?;
            found.releases.push(offset + entry(&code));
        }
        Ok(found)
    }
}

fn code_of(executable: &Executable, symbol: Option<Symbol>, name: &str) -> io::Result<(u64, Vec<u8>)> {
    if !cfg!(target_arch = "x86_64") {
        return Err(io::Error::other("only code of x86-64 is read"));
    }
    let symbol = symbol.ok_or_else(|| io::Error::other(format!("it does not export {name}")))?;
    if !(1..=CODE).contains(&symbol.size) {
        return Err(io::Error::other(format!("the code of {name} cannot be read")));
    }
    let code = executable.bytes(symbol.offset, symbol.size as usize)?;
    Ok((symbol.offset, code))
}

/// Best offset in a function with this code for a probe that sees arguments and return address: at its first `push`, which the kernel
/// emulates, if nothing before it changes either, else at the start.
fn entry(code: &[u8]) -> u64 {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let mut factory = InstructionInfoFactory::new();
    let mut instruction = Instruction::default();
    for _ in 0..=SKIPPED {
        if !decoder.can_decode() {
            break;
        }
        let at = decoder.position() as u64;
        decoder.decode_out(&mut instruction);
        if instruction.mnemonic() == Mnemonic::Push && instruction.op0_register() != Register::None {
            return at;
        }
        let writes = |access| {
            !matches!(
                access,
                OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
            )
        };
        let is_needed = |register: Register| {
            matches!(
                register.full_register(),
                Register::RDI | Register::RSI | Register::RSP | Register::RBP
            )
        };
        let mut used = factory.info(&instruction).used_registers().iter();
        let changes = used.any(|used| is_needed(used.register()) && writes(used.access()));
        if changes || instruction.is_invalid() || instruction.flow_control() != FlowControl::Next {
            break;
        }
    }
    0
}

/// Offsets at which a function with this code, at address `address`, calls the one at `target`, and those to which these calls return.
fn calls(code: &[u8], address: u64, target: u64) -> Vec<(u64, u64)> {
    Decoder::with_ip(64, code, address, DecoderOptions::NONE)
        .into_iter()
        .filter(|instruction| {
            instruction.flow_control() == FlowControl::Call && instruction.near_branch_target() == target
        })
        .map(|call| (call.ip() - address, call.next_ip() - address))
        .filter(|(_, behind)| *behind < code.len() as u64)
        .collect()
}

/// Offsets at which a function with this code returns. None if that is not clear: it is not code, never returns, or continues in another
/// function.
fn ends(code: &[u8]) -> Option<Vec<u64>> {
    let mut ends = Vec::new();
    for instruction in Decoder::with_ip(64, code, 0, DecoderOptions::NONE) {
        let inside = 0..code.len() as u64;
        match instruction.flow_control() {
            FlowControl::Return => ends.push(instruction.ip()),
            FlowControl::UnconditionalBranch if inside.contains(&instruction.near_branch_target()) => {}
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => return None,
            _ if instruction.is_invalid() => return None,
            // A conditional jump out of the function is to an error that ends the statement.
            _ => {}
        }
    }
    (!ends.is_empty()).then_some(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_at_the_entry_sees_arguments_and_return_address() {
        for (code, expected) in [
            (&[0x55, 0x48, 0x89, 0xe5][..], 0),         // push %rbp; mov %rsp,%rbp
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x57], 4), // endbr64; push %r15
            (&[0x81, 0x3d, 0xb4, 0xce, 0x67, 0, 0xc7, 0, 0, 0, 0x41, 0x56], 10), // cmpl $199,num_held_lwlocks; push %r14
            (&[0x48, 0x83, 0xec, 0x08, 0x53], 0),                                // sub $8,%rsp; push %rbx
            (&[0x48, 0x89, 0xf7, 0x53], 0),                                      // mov %rsi,%rdi; push %rbx
            (&[0x75, 0x00, 0x53], 0),                                            // jne; push %rbx
            (&[0x06, 0x53], 0),                                                  // no instruction
            (&[], 0),
        ] {
            assert_eq!(entry(code), expected, "{code:x?}");
        }
    }

    #[test]
    fn calls_of_a_function_are_found_with_where_they_come_back_to() {
        // nop; call 0x2000; nop; call 0x3000; ret.
        let code = [0x90, 0xe8, 0xfa, 0x0f, 0, 0, 0x90, 0xe8, 0xf4, 0x1f, 0, 0, 0xc3];
        assert_eq!(calls(&code, 0x1000, 0x2000), [(1, 6)]);
        assert_eq!(calls(&code, 0x1000, 0x3000), [(7, 12)]);
        assert_eq!(calls(&code, 0x1000, 0x4000), []);
        assert_eq!(
            calls(&code[..6], 0x1000, 0x2000),
            [],
            "what comes behind it is missing"
        );
    }

    #[test]
    fn a_function_ends_where_it_returns_and_nowhere_else() {
        // test; je to the second pop; pop; ret; pop; ret.
        assert_eq!(
            ends(&[0x84, 0xc0, 0x74, 0x02, 0x5b, 0xc3, 0x5b, 0xc3]),
            Some(vec![5, 7])
        );
        // A loop.
        assert_eq!(ends(&[0x90, 0xeb, 0xfd, 0xc3]), Some(vec![3]));
        for code in [
            &[0x5b, 0xe9, 0, 0, 1, 0][..], // pop; jmp elsewhere
            &[0xff, 0xe0, 0xc3],           // jmp *%rax
            &[0x06, 0xc3],                 // no instruction
            &[0x90],                       // its end is missing
            &[],
        ] {
            assert_eq!(ends(code), None, "{code:x?}");
        }
    }
}
