//! Names of code that is compiled at run time, from what its compiler writes for profilers: perf map files
//! (`/tmp/perf-PID.map`), and jitdump files, which their writer maps (LLVM's, and so PostgreSQL's with
//! `jit_profiling_support`).
//!
//! The recorded process wrote them: they are read as plain files, up to a bound, and may say anything.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::maps::Mapping;
use crate::process;

/// Bytes of one file, functions of one process, and bytes of a name, at most.
const MAX_BYTES: u64 = 64 << 20;
const MAX_FUNCTIONS: usize = 200_000;
const MAX_NAME: usize = 1_000;

/// linux/tools/perf/Documentation/jitdump-specification.txt.
const JITDUMP_MAGIC: u32 = 0x4a69_5444;
const JIT_CODE_LOAD: u32 = 0;
const JIT_CODE_MOVE: u32 = 1;

/// A compiled function.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Function {
    start: u64,
    end: u64,
    name: String,
}

/// The compiled functions of a process, in the order in which they were written: where two overlap, the later one holds.
#[derive(Debug, Default)]
pub(super) struct CompiledCode {
    functions: Vec<Function>,
    jitdump: Option<(PathBuf, u64)>,
    perf_map: u64,
}

impl CompiledCode {
    /// Reads what was written since the last time.
    pub(super) fn read(&mut self, pid: u32, mappings: &[Mapping]) {
        if let Some(path) = perf_map(pid)
            && let Some(file) = open_from(&path, self.perf_map, libc::O_NOFOLLOW)
        {
            self.perf_map += read_perf_map(file, &mut self.functions);
        }
        // The file is kept mapped for as long as its writer may write to it.
        if let Some(mapping) = mappings.iter().find(|m| is_jitdump(m)) {
            let link = mapping.link(pid);
            let begin = match &self.jitdump {
                Some((path, read)) if *path == link => *read,
                _ => 0,
            };
            if let Some(file) = open_from(&link, begin, 0) {
                let read = read_jitdump(file, begin == 0, &mut self.functions);
                self.jitdump = Some((link, begin + read));
            }
        }
        if self.functions.len() > MAX_FUNCTIONS {
            self.functions.drain(..self.functions.len() - MAX_FUNCTIONS);
        }
    }

    /// Name of the function that holds an address.
    pub(super) fn find(&self, address: u64) -> Option<&str> {
        let mut latest_first = self.functions.iter().rev();
        let function = latest_first.find(|f| (f.start..f.end).contains(&address))?;
        Some(&function.name)
    }
}

fn is_jitdump(mapping: &Mapping) -> bool {
    let name = Path::new(&mapping.name)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    mapping.inode != 0 && name.starts_with("jit-") && name.ends_with(".dump")
}

/// The perf map file of a process, as it is called where the process lives.
fn perf_map(pid: u32) -> Option<PathBuf> {
    let name = process::innermost_pid(pid)?;
    Some(process::path(pid, &format!("root/tmp/perf-{name}.map")))
}

/// Opens a plain file at an offset; none when it has nothing there.
fn open_from(path: &Path, offset: u64, flags: libc::c_int) -> Option<impl BufRead + use<>> {
    let mut file: File = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | flags)
        .open(path)
        .ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() <= offset || offset >= MAX_BYTES {
        return None;
    }
    file.seek(SeekFrom::Start(offset)).ok()?;
    Some(BufReader::new(file.take(MAX_BYTES - offset)))
}

/// `START SIZE name`, numbers in hex. Returns the bytes of whole lines.
fn read_perf_map(mut file: impl BufRead, functions: &mut Vec<Function>) -> u64 {
    let mut read = 0;
    let mut line = Vec::new();
    while let Ok(length) = file.read_until(b'\n', &mut line)
        && length > 0
        && line.ends_with(b"\n")
    {
        read += length as u64;
        functions.extend(perf_map_line(&String::from_utf8_lossy(&line)));
        line.clear();
    }
    read
}

fn perf_map_line(line: &str) -> Option<Function> {
    let mut fields = line.trim_end().splitn(3, ' ');
    let mut number = || u64::from_str_radix(fields.next()?.trim_start_matches("0x"), 16).ok();
    let (start, size) = (number()?, number()?);
    function(start, size, fields.next()?)
}

fn function(start: u64, size: u64, name: &str) -> Option<Function> {
    Some(Function {
        start,
        end: start.checked_add(size)?,
        name: name.chars().take(MAX_NAME).collect(),
    })
}

/// Reads whole records. Returns their bytes, with those of the header when that was to be read.
fn read_jitdump(mut file: impl Read, with_header: bool, functions: &mut Vec<Function>) -> u64 {
    let mut read = 0;
    if with_header {
        let Some(header) = take(&mut file, 40) else {
            return 0;
        };
        let total = u64::from(u32_at(&header, 8));
        if u32_at(&header, 0) != JITDUMP_MAGIC || !(40..4096).contains(&total) {
            return 0;
        }
        if take(&mut file, total as usize - 40).is_none() {
            return 0;
        }
        read = total;
    }
    while let Some(prefix) = take(&mut file, 16) {
        let size = u32_at(&prefix, 4) as usize;
        let Some(record) = size.checked_sub(16).and_then(|rest| take(&mut file, rest)) else {
            break;
        };
        read += size as u64;
        match u32_at(&prefix, 0) {
            JIT_CODE_LOAD if record.len() > 40 => {
                let name = record[40..].split(|&byte| byte == 0).next().unwrap_or_default();
                let name = String::from_utf8_lossy(name);
                functions.extend(function(u64_at(&record, 16), u64_at(&record, 24), &name));
            }
            JIT_CODE_MOVE if record.len() >= 48 => {
                let (from, to) = (u64_at(&record, 16), u64_at(&record, 24));
                let moved = functions.iter().rev().find(|f| f.start == from).cloned();
                functions.extend(moved.and_then(|f| function(to, u64_at(&record, 32), &f.name)));
            }
            _ => {}
        }
    }
    read
}

/// So many bytes, or none.
fn take(file: &mut impl Read, bytes: usize) -> Option<Vec<u8>> {
    let mut buffer = Vec::new();
    // What the file claims to have is not believed before it is there.
    file.by_ref().take(bytes as u64).read_to_end(&mut buffer).ok()?;
    (buffer.len() == bytes).then_some(buffer)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(functions: Vec<Function>) -> CompiledCode {
        CompiledCode {
            functions,
            ..CompiledCode::default()
        }
    }

    #[test]
    fn a_perf_map_names_addresses_and_the_later_line_holds() {
        let text =
            "1000 20 first function\n0x1010 8 second\nnonsense\n2000 ffffffffffffffff overflow\n3000 10 half";
        let mut functions = Vec::new();
        let read = read_perf_map(text.as_bytes(), &mut functions);
        assert_eq!(
            &text[read as usize..],
            "3000 10 half",
            "a line that is still written is left for later"
        );
        let code = code(functions);
        assert_eq!(code.find(0x1000), Some("first function"));
        assert_eq!(code.find(0x1010), Some("second"));
        assert_eq!(code.find(0x1018), Some("first function"));
        assert_eq!(code.find(0x1020), None);
        assert_eq!(code.find(0x2000), None);
    }

    fn record(id: u32, body: &[u8]) -> Vec<u8> {
        let mut record = Vec::new();
        record.extend(id.to_le_bytes());
        record.extend((16 + body.len() as u32).to_le_bytes());
        record.extend(0u64.to_le_bytes());
        record.extend(body);
        record
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn dump() -> Vec<u8> {
        let mut dump = Vec::new();
        for word in [JITDUMP_MAGIC, 1, 40, 62, 0, 7, 0, 0, 0, 0] {
            dump.extend(word.to_le_bytes());
        }
        // pid and tid, vma, address, size, index, name, code.
        let mut load = words(&[7, 0x5000, 0x5000, 0x40, 1]);
        load.extend(b"evalexpr_0_0\0\x90\x90");
        dump.extend(record(JIT_CODE_LOAD, &load));
        dump.extend(record(
            JIT_CODE_MOVE,
            &words(&[7, 0x6000, 0x5000, 0x6000, 0x40, 1]),
        ));
        dump.extend(record(99, b"unknown"));
        dump
    }

    #[test]
    fn a_jitdump_names_addresses_also_after_they_moved() {
        let mut functions = Vec::new();
        let dump = dump();
        assert_eq!(read_jitdump(&*dump, true, &mut functions), dump.len() as u64);
        let code = code(functions);
        assert_eq!(code.find(0x503f), Some("evalexpr_0_0"));
        assert_eq!(code.find(0x6001), Some("evalexpr_0_0"));
        assert_eq!(code.find(0x6040), None);
    }

    #[test]
    fn a_jitdump_that_is_cut_or_lies_is_read_as_far_as_it_is_whole() {
        let dump = dump();
        for cut in 0..dump.len() {
            let mut functions = Vec::new();
            assert!(read_jitdump(&dump[..cut], true, &mut functions) <= cut as u64);
        }
        let mut lies = dump;
        lies[44..48].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut functions = Vec::new();
        assert_eq!(read_jitdump(&*lies, true, &mut functions), 40);
        lies[44..48].copy_from_slice(&3u32.to_le_bytes());
        assert_eq!(read_jitdump(&*lies, true, &mut functions), 40);
        assert_eq!(functions, vec![]);
    }
}
