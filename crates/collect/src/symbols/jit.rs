//! Names of code that is compiled at run time, from what its compiler writes for profilers: perf map files
//! (`/tmp/perf-PID.map`), and jitdump files, which their writer maps (LLVM's, and so PostgreSQL's with
//! `jit_profiling_support`).
//!
//! The recorded process wrote them: they may say anything, and are read up to limits. Files that belong neither to its user nor to
//! root are not its own, and not read (as in perf).

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::maps::Mapping;
use crate::process;
use crate::target_file::TargetFile;

/// Maximum bytes read of one file, and of one line.
const MAX_BYTES: u64 = 64 << 20;
const MAX_LINE: usize = 16 << 10;
/// Maximum number of functions of one process, of characters of a name, and bytes of all names of one process.
const MAX_FUNCTIONS: usize = 200_000;
const MAX_NAME: usize = 1_000;
const MAX_NAMES: usize = 16 << 20;

/// linux/tools/perf/Documentation/jitdump-specification.txt.
const JITDUMP_MAGIC: u32 = 0x4a69_5444;
const JIT_CODE_LOAD: u32 = 0;
const JIT_CODE_MOVE: u32 = 1;

/// The compiled functions of a process: where two overlap, the one that was written later counts.
#[derive(Debug, Default)]
pub(super) struct CompiledCode {
    functions: Functions,
    jitdump: Option<(PathBuf, u64)>,
    perf_map: u64,
    /// There was more in the files than is read, or than there is room for.
    is_full: bool,
    /// The last time, not all was read that was there.
    has_more: bool,
}

/// By start, without overlaps: end and name.
#[derive(Debug, Default)]
struct Functions {
    by_begin: BTreeMap<u64, (u64, Box<str>)>,
    name_bytes: usize,
}

impl CompiledCode {
    /// Reads what was written since the last time, up to this many bytes of each file.
    pub(super) fn read(&mut self, pid: u32, mappings: &[Mapping], most: u64) {
        self.has_more = false;
        if let Some(name) = perf_map(pid)
            && let Ok(file) = TargetFile::below_root(pid, &name)
            && let Some(rest) = rest_of(&file, self.perf_map, pid, most)
        {
            let read = read_perf_map(rest, &mut self.functions);
            self.perf_map += read;
            self.is_full |= self.perf_map >= MAX_BYTES;
            self.has_more |= has_more(&file, self.perf_map, read);
        }
        // The file is kept mapped for as long as its writer may write to it.
        if let Some(mapping) = mappings.iter().find(|m| is_jitdump(m))
            && let Ok(file) = mapping.open(pid)
        {
            let name = PathBuf::from(&mapping.name);
            let begin = match &self.jitdump {
                Some((path, read)) if *path == name => *read,
                _ => 0,
            };
            if let Some(rest) = rest_of(&file, begin, pid, most) {
                let read = read_jitdump(rest, begin == 0, &mut self.functions);
                self.is_full |= begin + read >= MAX_BYTES;
                self.has_more |= has_more(&file, begin + read, read);
                self.jitdump = Some((name, begin + read));
            }
        }
    }

    /// Name of the function that contains an address.
    pub(super) fn find(&self, address: u64) -> Option<&str> {
        self.functions.find(address)
    }

    /// True when functions have no names because there was no room for them.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// True when there was more to read the last time than could be read at once.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Memory that it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        /// Of a function, without its name.
        const NODE: usize = 48;
        self.functions.by_begin.len() * NODE + self.functions.name_bytes
    }
}

impl Functions {
    /// Adds a function, in place of what was there before. False: there is no room.
    fn add(&mut self, begin: u64, size: u64, name: &str) -> bool {
        let Some(end) = begin.checked_add(size) else {
            return true;
        };
        let name: Box<str> = name.chars().take(MAX_NAME).collect();
        if size == 0 {
            return true;
        }
        // What reaches into it from before is cut, and what it covers is removed.
        let before = self.by_begin.range(..begin).next_back();
        if let Some((&other, &(other_end, ref other_name))) = before
            && other_end > begin
        {
            let other_name = other_name.clone();
            if other_end > end {
                self.insert(end, other_end, other_name.clone());
            }
            self.insert(other, begin, other_name);
        }
        while let Some((&other, &(other_end, _))) = self.by_begin.range(begin..end).next() {
            let (_, name) = self.remove(other);
            if other_end > end {
                self.insert(end, other_end, name);
            }
        }
        if self.by_begin.len() >= MAX_FUNCTIONS || self.name_bytes + name.len() > MAX_NAMES {
            return false;
        }
        self.insert(begin, end, name);
        true
    }

    fn insert(&mut self, begin: u64, end: u64, name: Box<str>) {
        self.name_bytes += name.len();
        if let Some((_, old)) = self.by_begin.insert(begin, (end, name)) {
            self.name_bytes -= old.len();
        }
    }

    fn remove(&mut self, begin: u64) -> (u64, Box<str>) {
        let removed = self.by_begin.remove(&begin).unwrap_or_default();
        self.name_bytes -= removed.1.len();
        removed
    }

    fn find(&self, address: u64) -> Option<&str> {
        let (_, (end, name)) = self.by_begin.range(..=address).next_back()?;
        (address < *end).then_some(name)
    }
}

fn is_jitdump(mapping: &Mapping) -> bool {
    let name = Path::new(&mapping.name)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    mapping.inode != 0 && name.starts_with("jit-") && name.ends_with(".dump")
}

/// The perf map file of a process, as named in its own pid namespace.
fn perf_map(pid: u32) -> Option<PathBuf> {
    let name = process::innermost_pid(pid)?;
    Some(PathBuf::from(format!("/tmp/perf-{name}.map")))
}

/// So many bytes of a file from an offset on; None if there is nothing, or the file is not the process's own.
fn rest_of(file: &TargetFile, offset: u64, pid: u32, most: u64) -> Option<impl BufRead + use<'_>> {
    let is_longer = file.metadata().len() > offset && offset < MAX_BYTES;
    let is_its_own = is_longer && file.belongs_to(&process::users(pid));
    is_its_own.then(|| BufReader::new(file.from(offset, most.min(MAX_BYTES - offset))))
}

/// Whether a file that was read up to an offset, `read` bytes of it the last time, is longer. If nothing could be read, what is there is
/// still being written, or is damaged.
fn has_more(file: &TargetFile, offset: u64, read: u64) -> bool {
    read > 0 && offset < file.metadata().len().min(MAX_BYTES)
}

/// `START SIZE name`, numbers in hex. Returns the bytes of whole lines.
fn read_perf_map(mut file: impl BufRead, functions: &mut Functions) -> u64 {
    let mut read = 0;
    let mut line = Vec::new();
    while let Ok(length) = (&mut file).take(MAX_LINE as u64).read_until(b'\n', &mut line)
        && length > 0
    {
        if line.ends_with(b"\n") {
            let has_room = perf_map_line(&String::from_utf8_lossy(&line), functions);
            if !has_room {
                // The rest is not read, now or later.
                return MAX_BYTES;
            }
        } else if length < MAX_LINE {
            // It is still being written.
            break;
        }
        read += length as u64;
        line.clear();
    }
    read
}

/// False: there is no room for it.
fn perf_map_line(line: &str, functions: &mut Functions) -> bool {
    let mut fields = line.trim_end().splitn(3, ' ');
    let mut number = || u64::from_str_radix(fields.next()?.trim_start_matches("0x"), 16).ok();
    match (number(), number(), fields.next()) {
        (Some(begin), Some(size), Some(name)) => functions.add(begin, size, name),
        _ => true,
    }
}

/// Reads whole records. Returns their bytes, with the header's if that was to be read.
fn read_jitdump(mut file: impl Read, with_header: bool, functions: &mut Functions) -> u64 {
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
                if !functions.add(u64_at(&record, 16), u64_at(&record, 24), &name) {
                    return MAX_BYTES;
                }
            }
            JIT_CODE_MOVE if record.len() >= 48 => {
                let (from, to) = (u64_at(&record, 16), u64_at(&record, 24));
                let moved = functions.by_begin.get(&from).map(|(_, name)| name.clone());
                if let Some(name) = moved
                    && !functions.add(to, u64_at(&record, 32), &name)
                {
                    return MAX_BYTES;
                }
            }
            _ => {}
        }
    }
    read
}

/// This many bytes, or None.
fn take(file: &mut impl Read, bytes: usize) -> Option<Vec<u8>> {
    let mut buffer = Vec::new();
    // The size that the file claims is not trusted before the bytes are there.
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

    #[test]
    fn a_perf_map_names_addresses_and_the_later_line_holds() {
        let text =
            "1000 20 first function\n0x1010 8 second\nnonsense\n2000 ffffffffffffffff overflow\n3000 10 half";
        let mut functions = Functions::default();
        let read = read_perf_map(text.as_bytes(), &mut functions);
        assert_eq!(
            &text[read as usize..],
            "3000 10 half",
            "a line that is still written is left for later"
        );
        assert_eq!(functions.find(0x1000), Some("first function"));
        assert_eq!(functions.find(0x1010), Some("second"));
        assert_eq!(functions.find(0x1018), Some("first function"));
        assert_eq!(functions.find(0x1020), None);
        assert_eq!(functions.find(0x2000), None);
    }

    #[test]
    fn a_perf_map_is_read_in_pieces_and_none_of_it_twice() {
        let pid = std::process::id();
        let path = format!("/tmp/perf-{pid}.map");
        let line = |n: u64| format!("{:x} 10 function {n}\n", 0x1000 + n * 0x10);
        std::fs::write(&path, (0..100).map(line).collect::<String>()).unwrap();
        let mut compiled = CompiledCode::default();
        let mut pieces = 0;
        loop {
            compiled.read(pid, &[], 500);
            pieces += 1;
            if !compiled.has_more() {
                break;
            }
            assert!(compiled.find(0x1000 + 99 * 0x10).is_none());
        }
        std::fs::remove_file(&path).unwrap();
        assert!(pieces > 3, "{pieces} pieces");
        for n in 0..100 {
            let name = format!("function {n}");
            assert_eq!(compiled.find(0x1008 + n * 0x10), Some(name.as_str()));
        }
        assert!(!compiled.is_full());
    }

    #[test]
    fn what_is_written_later_takes_the_place_of_what_was_there() {
        let mut functions = Functions::default();
        for (begin, size, name) in [
            (10, 30, "a"),
            (20, 5, "b"),
            (5, 7, "c"),
            (22, 100, "d"),
            (0, 0, "none"),
        ] {
            assert!(functions.add(begin, size, name));
        }
        let seen: String = (0..130).map(|at| functions.find(at).unwrap_or(".")).collect();
        let expected = [(".", 5), ("c", 7), ("a", 8), ("b", 2), ("d", 100), (".", 8)];
        assert_eq!(seen, expected.map(|(name, times)| name.repeat(times)).concat());
    }

    #[test]
    fn a_perf_map_without_end_is_bounded() {
        let mut functions = Functions::default();
        let name = "n".repeat(MAX_NAME);
        let text: String = (0..30_000).map(|n| format!("{:x} 1 {name}\n", n * 16)).collect();
        assert_eq!(read_perf_map(text.as_bytes(), &mut functions), MAX_BYTES);
        assert!(functions.name_bytes <= MAX_NAMES);
        let mut functions = Functions::default();
        let line = format!("10 10 {}\n20 10 after\n", "x".repeat(5 * MAX_LINE));
        assert_eq!(read_perf_map(line.as_bytes(), &mut functions), line.len() as u64);
        assert_eq!(functions.find(0x20), Some("after"));
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
        let mut functions = Functions::default();
        let dump = dump();
        assert_eq!(read_jitdump(&*dump, true, &mut functions), dump.len() as u64);
        assert_eq!(functions.find(0x503f), Some("evalexpr_0_0"));
        assert_eq!(functions.find(0x6001), Some("evalexpr_0_0"));
        assert_eq!(functions.find(0x6040), None);
    }

    #[test]
    fn a_jitdump_that_is_cut_or_lies_is_read_as_far_as_it_is_whole() {
        let dump = dump();
        for cut in 0..dump.len() {
            let mut functions = Functions::default();
            assert!(read_jitdump(&dump[..cut], true, &mut functions) <= cut as u64);
        }
        let mut lies = dump;
        lies[44..48].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut functions = Functions::default();
        assert_eq!(read_jitdump(&*lies, true, &mut functions), 40);
        lies[44..48].copy_from_slice(&3u32.to_le_bytes());
        assert_eq!(read_jitdump(&*lies, true, &mut functions), 40);
        assert_eq!(functions.by_begin.len(), 0);
    }
}
