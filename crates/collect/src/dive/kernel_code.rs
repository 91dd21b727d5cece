//! Which kernel functions call which: read from the kernel's code in memory (`/proc/kcore`), with the names of
//! `/proc/kallsyms`.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use iced_x86::{Decoder, DecoderOptions};
use object::Endianness;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::CollectError;

const KCORE: &str = "/proc/kcore";
const KALLSYMS: &str = "/proc/kallsyms";
/// The file's headers fit in this many bytes: it has about ten of them.
const HEADERS: usize = 1 << 16;
/// Maximum bytes read of the code of a function: if it seems longer, a symbol is missing.
const LONGEST: u64 = 1 << 16;
/// Maximum number of functions looked at: beyond that, little belongs to one call.
const MOST: usize = 4_000;
/// A function that calls nothing and is shorter than this takes little time itself: all one would see is the time of the
/// program attached to it.
const SHORT: usize = 128;

/// Functions that are not followed: they report bugs, trace, give up the CPU or guard, wherever they are called.
const NOT_FOLLOWED: [&str; 22] = [
    "_printk",
    "__warn",
    "panic",
    "dump_",
    "bust_",
    "__stack_chk",
    "__bpf_",
    "bpf_",
    "trace_",
    "__trace",
    "ftrace_",
    "perf_",
    "__perf",
    "audit_",
    "__audit",
    "rcu_",
    "__rcu",
    "_raw_",
    "schedule",
    "__schedule",
    "preempt_",
    "__cond_resched",
];

/// A range of the kernel's memory, and where it is in the file.
#[derive(Debug, Clone, Copy)]
struct Segment {
    address: u64,
    size: u64,
    offset: u64,
}

/// The kernel's code.
#[derive(Debug)]
pub(super) struct KernelCode {
    memory: File,
    segments: Vec<Segment>,
    /// Sorted by address; the first name of an address with several.
    symbols: Vec<(u64, String)>,
}

impl KernelCode {
    /// Opens it.
    ///
    /// # Errors
    /// The kernel hides its memory or its addresses, or is for another processor.
    pub(super) fn open() -> Result<KernelCode, CollectError> {
        let is_understood = cfg!(target_arch = "x86_64");
        if !is_understood {
            let why = format!("machine code of {} is not supported", std::env::consts::ARCH);
            return Err(CollectError::Kernel(why));
        }
        let path = Path::new(KCORE);
        let failed = |e| CollectError::io(path, e);
        let memory = File::open(path).map_err(failed)?;
        let mut headers = vec![0; HEADERS];
        let read = memory.read_at(&mut headers, 0).map_err(failed)?;
        let segments = segments(&headers[..read])
            .ok_or_else(|| CollectError::Kernel(format!("{KCORE}: not understood")))?;
        let path = Path::new(KALLSYMS);
        let names = fs::read_to_string(path).map_err(|e| CollectError::io(path, e))?;
        let symbols = symbols(&names);
        if symbols.is_empty() {
            let why = format!("{KALLSYMS}: addresses are hidden (sysctl kernel.kptr_restrict)");
            return Err(CollectError::Kernel(why));
        }
        Ok(KernelCode {
            memory,
            segments,
            symbols,
        })
    }

    /// The functions that these call, directly or indirectly, down to a depth; the nearest first. Only those of some length,
    /// and those that call others.
    pub(super) fn below(&self, roots: &[&str], depth: usize) -> Vec<String> {
        // Only a few of 200,000 symbols are needed.
        let mut addresses: HashMap<&str, Option<u64>> = roots.iter().map(|root| (*root, None)).collect();
        for (address, name) in &self.symbols {
            if let Some(of_root) = addresses.get_mut(name.as_str()) {
                *of_root = Some(*address);
            }
        }
        let mut level: Vec<u64> = roots.iter().filter_map(|root| addresses[root]).collect();
        let mut seen: HashSet<u64> = level.iter().copied().collect();
        let mut names = Vec::new();
        for down in 0..=depth {
            let mut next = Vec::new();
            for address in level {
                let Some((name, code)) = self.function(address) else {
                    continue;
                };
                let called = calls(&code, address);
                // The roots themselves are known.
                if down > 0 && (!called.is_empty() || code.len() >= SHORT) {
                    names.push(name.to_string());
                }
                next.extend(called.into_iter().filter(|called| {
                    seen.len() < MOST
                        && self
                            .at(*called)
                            .is_some_and(|at| is_followed(&self.symbols[at].1))
                        && seen.insert(*called)
                }));
            }
            level = next;
        }
        names
    }

    /// Index of the symbol with this address.
    fn at(&self, address: u64) -> Option<usize> {
        self.symbols
            .binary_search_by_key(&address, |(address, _)| *address)
            .ok()
    }

    /// Name and code of the function that begins here; None if it cannot be read.
    fn function(&self, address: u64) -> Option<(&str, Vec<u8>)> {
        let at = self.at(address)?;
        let end = self.symbols.get(at + 1).map_or(address, |(next, _)| *next);
        let size = (end - address).min(LONGEST);
        let segment = self
            .segments
            .iter()
            .find(|segment| address >= segment.address && address - segment.address < segment.size)?;
        let mut code = vec![0; usize::try_from(size).ok()?];
        let offset = segment.offset.checked_add(address - segment.address)?;
        self.memory.read_exact_at(&mut code, offset).ok()?;
        Some((&self.symbols[at].1, code))
    }
}

/// Which addresses are where in the file.
fn segments(headers: &[u8]) -> Option<Vec<Segment>> {
    let header = FileHeader64::<Endianness>::parse(headers).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, headers).ok()?;
    Some(
        segments
            .iter()
            .filter(|segment| segment.p_type(endian) == PT_LOAD)
            .map(|segment| Segment {
                address: segment.p_vaddr(endian),
                size: segment.p_memsz(endian),
                offset: segment.p_offset(endian),
            })
            .collect(),
    )
}

/// `ADDRESS TYPE NAME [MODULE]`: only symbols of code.
fn symbols(text: &str) -> Vec<(u64, String)> {
    let mut symbols: Vec<(u64, String)> = text
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let (address, kind, name) = (fields.next()?, fields.next()?, fields.next()?);
            let address = u64::from_str_radix(address, 16)
                .ok()
                .filter(|address| *address > 0)?;
            matches!(kind, "t" | "T" | "w" | "W").then(|| (address, name.to_string()))
        })
        .collect();
    // Stable: the first of several names stays.
    symbols.sort_by_key(|(address, _)| *address);
    symbols.dedup_by_key(|(address, _)| *address);
    symbols
}

fn is_followed(name: &str) -> bool {
    !name.ends_with(".cold") && !NOT_FOLLOWED.iter().any(|beginning| name.starts_with(beginning))
}

/// Addresses outside of this code that it calls or jumps to, in order, each once. Calls through a pointer are not known.
fn calls(code: &[u8], address: u64) -> Vec<u64> {
    let own = address..address + code.len() as u64;
    let mut called = Vec::new();
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    while decoder.can_decode() {
        // 0 = no branch, or one whose target is in a register or in memory.
        let target = decoder.decode().near_branch_target();
        if target != 0 && !own.contains(&target) && !called.contains(&target) {
            called.push(target);
        }
    }
    called
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Assembled by hand: the last four bytes of `e8` (call) and `e9` (jump) are the distance from the next instruction.
    #[test]
    fn calls_and_jumps_to_others_are_found() {
        let code = [
            &[0xf3, 0x0f, 0x1e, 0xfa][..],         // endbr64
            &[0x0f, 0x1f, 0x44, 0x00, 0x00],       // what ftrace patches: nop
            &[0xe8, 0xf2, 0x0f, 0x00, 0x00],       // call 0x2000 (0x100e + 0xff2)
            &[0x74, 0x02],                         // je +2: within itself
            &[0xff, 0xd0],                         // call *%rax: not known
            &[0x0f, 0x84, 0xe8, 0x1f, 0x00, 0x00], // je 0x3000 (0x1018 + 0x1fe8)
            &[0xe8, 0xe3, 0x0f, 0x00, 0x00],       // call 0x2000 (0x101d + 0xfe3), again
            &[0xe9, 0xde, 0x2f, 0x00, 0x00],       // jmp 0x4000 (0x1022 + 0x2fde): a tail call
            &[0xe8, 0x00],                         // truncated
        ]
        .concat();
        assert_eq!(calls(&code, 0x1000), [0x2000, 0x3000, 0x4000]);
        assert_eq!(calls(&[], 0x1000), [0; 0]);
    }

    #[test]
    fn only_code_with_an_address_is_a_symbol() {
        let text = "ffffffff81000010 T b\nffffffff81000000 t a [ext4]\nffffffff81000000 W alias\nffffffff81000020 D data\n\
                    0000000000000000 T hidden\nnot a line\n";
        let symbols = symbols(text);
        assert_eq!(
            symbols,
            [
                (0xffff_ffff_8100_0000, "a".to_string()),
                (0xffff_ffff_8100_0010, "b".to_string())
            ]
        );
    }

    #[test]
    fn what_is_no_file_of_memory_has_no_segments() {
        assert!(segments(b"\x7fELF").is_none());
        assert!(segments(&[0; 64]).is_none());
    }
}
