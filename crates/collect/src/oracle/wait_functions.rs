//! Where probes can be placed in Oracle's functions that begin and end a wait.
//!
//! A probe replaces a byte of the program, so it must be at the start of an instruction: anything else would crash the database. On Oracle
//! 12c and later a probe on the very first instruction fails or misbehaves; the functions begin with a two-byte one there. So the
//! instructions are decoded: if one starts at +2, the probe is placed there, else at +0.

use std::io;

use iced_x86::{Decoder, DecoderOptions};

use crate::executable::Executable;

/// The functions, in the order of [`Places`].
const FUNCTIONS: [&str; 3] = ["kskthbwt", "kskthewt", "kews_update_wait_time"];
/// Preferred offset of a probe.
const PREFERRED: u64 = 2;

/// File offsets of the probes: start of a wait, its end, and the database's own measure of its length, each with its offset in the
/// function.
pub(crate) type Places = [(u64, u64); 3];

/// Finds the places in the executable of a process.
///
/// # Errors
/// It cannot be read, or lacks a function.
pub(crate) fn places(pid: u32) -> io::Result<Places> {
    let executable = Executable::of(pid)?;
    let symbols = executable.symbols(FUNCTIONS)?;
    let mut places = Places::default();
    for (n, symbol) in symbols.into_iter().enumerate() {
        let symbol = symbol.ok_or_else(|| io::Error::other(format!("it has no symbol {}", FUNCTIONS[n])))?;
        let distance = distance(&executable.bytes(symbol.offset, 16)?);
        places[n] = (symbol.offset + distance, distance);
    }
    Ok(places)
}

/// Offset of the probe in a function with this code.
fn distance(code: &[u8]) -> u64 {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    while decoder.can_decode() && (decoder.position() as u64) < PREFERRED {
        if decoder.decode().is_invalid() {
            return 0;
        }
    }
    if decoder.position() as u64 == PREFERRED {
        PREFERRED
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_never_stands_inside_an_instruction() {
        for (code, expected) in [
            (&[0x66, 0x90, 0x55, 0x48, 0x89, 0xe5][..], 2), // xchg %ax,%ax; push %rbp
            (&[0x90, 0x90, 0x48, 0x01, 0xf7], 2),           // nop; nop; add
            (&[0x41, 0x57, 0x41, 0x56], 2),                 // push %r15; push %r14
            (&[0x55, 0x48, 0x89, 0xe5], 0),                 // push %rbp; mov %rsp,%rbp
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x55], 0),           // endbr64
            (&[0x48, 0x83, 0xec, 0x08], 0),                 // sub $8,%rsp
            (&[0x06, 0x06, 0x06], 0),                       // no instruction
            (&[], 0),
        ] {
            assert_eq!(distance(code), expected, "{code:x?}");
        }
    }
}
