//! Reads the machine code of small functions of an executable to find data that no symbol names: the instructions of a function that
//! returns a field of a record, or increments a counter, say where that is.
//!
//! x86-64 only.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpAccess, OpKind, Register};

use crate::executable::Executable;

/// Maximum bytes of a function (those that are asked for have 30 to 60, with and without optimisation).
const CODE: usize = 128;

/// Memory that an instruction reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    /// At an address that is fixed once the executable is in memory.
    Static { address: u64, bytes: usize },
    /// At this offset from the address in a register.
    Field { offset: u64, bytes: usize },
}

/// What the function with this name reads and writes, each once, in order. None if there is no such function, or it does something
/// else too: it calls, jumps elsewhere, or is not small.
pub(crate) fn operands_of(executable: &Executable, function: &str) -> Option<Vec<Operand>> {
    let (code, address) = code_of(executable, function)?;
    operands(&code, address)
}

/// The code of the function with this name, and its address. None if there is no such function, or it is not small.
fn code_of(executable: &Executable, function: &str) -> Option<(Vec<u8>, u64)> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let [function] = executable.symbols([function]).ok()?;
    let function = function?;
    let bytes = usize::try_from(function.size)
        .ok()
        .filter(|bytes| (1..=CODE).contains(bytes))?;
    let code = executable.bytes(function.offset, bytes).ok()?;
    Some((code, function.address))
}

/// Data that an instruction refers to by an address that is fixed once the executable is in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StaticData {
    pub(crate) address: u64,
    /// Bytes read or written there; 0 = it only takes the address.
    pub(crate) bytes: usize,
}

/// The data of its executable that the function with this name refers to, whatever else it does, each once. None if there is no such
/// function, or it is not small.
pub(crate) fn static_data_of(executable: &Executable, function: &str) -> Option<Vec<StaticData>> {
    let (code, address) = code_of(executable, function)?;
    let (begin, length) = executable.data().ok()?;
    Some(static_data(&code, address, begin..begin.saturating_add(length)))
}

/// The same for code at an address, and data in a range. A number in that range is taken for an address: code that is not position
/// independent refers to data like this.
fn static_data(code: &[u8], address: u64, data: Range<u64>) -> Vec<StaticData> {
    let mut found = Vec::new();
    for instruction in Decoder::with_ip(64, code, address, DecoderOptions::NONE) {
        for operand in 0..instruction.op_count() {
            let is_alone = instruction.memory_index() == Register::None
                && matches!(instruction.memory_base(), Register::None | Register::RIP);
            let (address, bytes) = match instruction.op_kind(operand) {
                OpKind::Memory if is_alone && instruction.mnemonic() != Mnemonic::Lea => (
                    instruction.memory_displacement64(),
                    instruction.memory_size().size(),
                ),
                OpKind::Memory => (instruction.memory_displacement64(), 0),
                OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64 => {
                    (instruction.immediate(operand), 0)
                }
                _ => continue,
            };
            let one = StaticData { address, bytes };
            if data.contains(&address) && !found.contains(&one) {
                found.push(one);
            }
        }
    }
    found
}

/// Whether a function that begins with this code sets up its frame first: `push rbp; mov rbp, rsp`, perhaps after the mark of a jump
/// target (`endbr64`).
pub(crate) fn keeps_frame_pointer(code: &[u8]) -> bool {
    const MARK: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    const FRAMES: [&[u8]; 2] = [&[0x55, 0x48, 0x89, 0xe5], &[0x55, 0x48, 0x8b, 0xec]];
    let code = code.strip_prefix(MARK).unwrap_or(code);
    FRAMES.iter().any(|frame| code.starts_with(frame))
}

/// As [`operands_of`], for the code of a whole function at an address.
pub(crate) fn operands(code: &[u8], address: u64) -> Option<Vec<Operand>> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut factory = iced_x86::InstructionInfoFactory::new();
    let mut instruction = Instruction::default();
    let mut found = Vec::new();
    let inside = address..address.saturating_add(code.len() as u64);
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::ConditionalBranch => {}
            // A jump within it, as of a loop: gcc makes one of it where it does not optimise for speed.
            FlowControl::UnconditionalBranch if inside.contains(&instruction.near_branch_target()) => {}
            FlowControl::Return => return Some(found),
            _ => return None,
        }
        // Saved registers, and computed addresses, do not count.
        let is_memory = (0..instruction.op_count()).any(|n| instruction.op_kind(n) == OpKind::Memory);
        let used = factory.info(&instruction).used_memory();
        let Some(used) = used
            .iter()
            .find(|used| is_memory && used.access() != OpAccess::NoMemAccess)
        else {
            continue;
        };
        let bytes = used.memory_size().size();
        let operand = match (used.base(), used.index()) {
            (Register::None, Register::None) => Operand::Static {
                address: used.displacement(),
                bytes,
            },
            (Register::RBP | Register::RSP, _) => continue,
            (_, Register::None) => Operand::Field {
                offset: used.displacement(),
                bytes,
            },
            _ => return None,
        };
        if !found.contains(&operand) {
            found.push(operand);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian's PostgreSQL 15, `GetNextLocalTransactionId`: mov, lea, test, jne, mov, mov, mov, ret.
    const INCREMENTS: [u8; 30] = [
        0x8b, 0x05, 0x82, 0x4f, 0x43, 0x00, 0x8d, 0x50, 0x01, 0x85, 0xc0, 0x75, 0x0a, 0xba, 0x02, 0, 0, 0,
        0xb8, 0x01, 0, 0, 0, 0x89, 0x15, 0x6b, 0x4f, 0x43, 0x00, 0xc3,
    ];

    #[test]
    fn what_a_function_reads_and_writes_is_told_once() {
        let counter = Operand::Static {
            address: 0x88c5c8,
            bytes: 4,
        };
        assert_eq!(operands(&INCREMENTS, 0x457640), Some(vec![counter]));
        // It writes to another place.
        let mut other = INCREMENTS;
        other[25] = 0x6f;
        assert_eq!(operands(&other, 0x457640).map(|operands| operands.len()), Some(2));
        // mov 0x8ff068,%eax; test; lea; jne; mov $1,%eax; jmp to the test; mov %edx,0x8ff068; ret: gcc -O1.
        let loops = [
            0x8b, 0x05, 0x84, 0x0e, 0x5a, 0x00, 0x85, 0xc0, 0x8d, 0x50, 0x01, 0x75, 0x07, 0xb8, 0x01, 0, 0,
            0, 0xeb, 0xf2, 0x89, 0x15, 0x70, 0x0e, 0x5a, 0x00, 0xc3,
        ];
        let of_loop = Operand::Static {
            address: 0x8ff068,
            bytes: 4,
        };
        assert_eq!(operands(&loops, 0x35e1de), Some(vec![of_loop]));
        // incl 0x88c5c8; mov 0x88c5c8,%eax; ret: not position independent.
        let absolute = [
            0xff, 0x04, 0x25, 0xc8, 0xc5, 0x88, 0x00, 0x8b, 0x04, 0x25, 0xc8, 0xc5, 0x88, 0x00, 0xc3,
        ];
        assert_eq!(operands(&absolute, 0x457640), Some(vec![counter]));
    }

    #[test]
    fn a_field_of_a_record_is_told_with_the_pointer_to_it() {
        // Debian's PostgreSQL 15, `pgstat_get_my_query_id`: mov MyBEEntry,%rax; test; je; mov 0x1a8(%rax),%rax; ret.
        let optimised = [
            0x48, 0x8b, 0x05, 0xb1, 0x43, 0x40, 0x00, 0x48, 0x85, 0xc0, 0x74, 0x0c, 0x48, 0x8b, 0x80, 0xa8,
            0x01, 0, 0, 0xc3,
        ];
        let expected = [
            Operand::Static {
                address: 0x88d6a8,
                bytes: 8,
            },
            Operand::Field {
                offset: 0x1a8,
                bytes: 8,
            },
        ];
        assert_eq!(operands(&optimised, 0x4892f0), Some(expected.to_vec()));
        // push %rbp; mov %rsp,%rbp; the same; pop %rbp; ret.
        let mut plain = vec![0x55, 0x48, 0x89, 0xe5];
        plain.extend(&optimised[..19]);
        plain.extend([0x5d, 0xc3]);
        assert_eq!(operands(&plain, 0x4892ec), Some(expected.to_vec()));
    }

    #[test]
    fn code_that_does_something_else_tells_nothing() {
        for code in [
            &INCREMENTS[..29],         // its end is missing
            &[0xe9, 0, 0, 0, 1],       // jmp
            &[0xe8, 0, 0, 0, 1, 0xc3], // call
            &[0x06, 0xc3],             // no instruction
            &[],
        ] {
            assert_eq!(operands(code, 0x457640), None, "{code:x?}");
        }
    }

    #[test]
    fn data_is_found_in_code_that_loops() {
        // Debian's PostgreSQL 15, `LWLockHeldByMe`: movslq, test, jle, lea, shl, add, jmp, nop, add, cmp, je, cmp, jne, mov, ret.
        let loops = [
            0x48, 0x63, 0x15, 0x49, 0xa5, 0x42, 0x00, 0x85, 0xd2, 0x7e, 0x2d, 0x48, 0x8d, 0x05, 0xbe, 0x98,
            0x42, 0x00, 0x48, 0xc1, 0xe2, 0x04, 0x48, 0x01, 0xc2, 0xeb, 0x0e, 0x0f, 0x1f, 0x44, 0x00, 0x00,
            0x48, 0x83, 0xc0, 0x10, 0x48, 0x39, 0xd0, 0x74, 0x0f, 0x48, 0x39, 0x38, 0x75, 0xf2, 0xb8, 0x01,
            0, 0, 0, 0xc3,
        ];
        let data = |address, bytes| StaticData { address, bytes };
        let in_data = |code: &[u8], address| static_data(code, address, 0x88_0000..0x89_0000);
        let found = [data(0x88d3c0, 4), data(0x88c740, 0)];
        assert_eq!(in_data(&loops, 0x462e70), found);
        assert_eq!(static_data(&loops, 0x462e70, 0x10_0000..0x10_0001), []);
        // Not position independent: mov 0x88d3c0,%edx; mov $0x88c740,%eax; cmp %rdi,0x88c750(%rcx).
        let absolute = [
            0x8b, 0x14, 0x25, 0xc0, 0xd3, 0x88, 0x00, 0xb8, 0x40, 0xc7, 0x88, 0x00, 0x48, 0x39, 0xb9, 0x50,
            0xc7, 0x88, 0x00,
        ];
        assert_eq!(
            in_data(&absolute, 0x462e70),
            [found[0], found[1], data(0x88c750, 0)]
        );
        // From a compiler that checks the first entry before the loop: cmp %rdi,list(%rip); lea list+16(%rip),%rcx.
        let peeled = [
            0x48, 0x39, 0x3d, 0xc9, 0x98, 0x42, 0x00, 0x48, 0x8d, 0x0d, 0xd2, 0x98, 0x42, 0x00,
        ];
        assert_eq!(in_data(&peeled, 0x462e70), [data(0x88c740, 8), data(0x88c750, 0)]);
        assert_eq!(in_data(&[0x06, 0xc3], 0x462e70), []);
    }

    #[test]
    fn a_frame_is_made_first_or_not_at_all() {
        let kept: [&[u8]; 2] = [
            &[0x55, 0x48, 0x89, 0xe5, 0x41, 0x57],
            &[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5],
        ];
        assert!(kept.into_iter().all(keeps_frame_pointer));
        // Saved like any other register, and used as one.
        let not_kept: [&[u8]; 3] = [
            &[0x55, 0x53, 0x48, 0x83, 0xec, 0x18],
            &[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x57],
            &[],
        ];
        assert!(!not_kept.into_iter().any(keeps_frame_pointer));
    }
}
