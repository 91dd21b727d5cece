//! Executables, libraries and kernel modules: what frames belong to.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::debuginfod::Debuginfod;
use super::elf_names::{AtPlace, Unnamed};
use super::maps::Mapping;
use super::namer::{Namer, NoAnswer, Usage};
use super::structure::Member;
use crate::ending::Ending;
use crate::target_file::{self, TargetFile};

/// After this many files that killed their reader, only root's own are read.
const PATIENCE: u32 = 3;

/// Executables and libraries that are mapped by recorded processes, by number.
#[derive(Debug, Default)]
pub(super) struct Modules {
    namer: Namer,
    modules: Vec<Module>,
    /// Debug files that are not installed but were fetched, by build id.
    fetched: HashMap<String, TargetFile>,
    /// Files that killed their reader.
    deadly: u32,
}

#[derive(Debug)]
struct Module {
    /// In hex; empty if the file has none.
    build_id: String,
    /// Where it was found: it is opened there again if its reader has been killed by another file.
    mapping: Mapping,
    pid: u32,
    /// The generation of the reader that has read it; none: it has no names.
    read_by: Option<u32>,
    /// See [`Modules::has_symbols`].
    has_symbols: bool,
    /// Build id of the file with what its debug information shares with others, if that is missing.
    lacks: Option<String>,
}

/// What was read from a file.
struct Found {
    build_id: String,
    has_debug_file: bool,
    /// See [`Module`].
    lacks: Option<String>,
}

/// Directory of debug files named by build id (GDB manual, "Separate Debug Files").
const DEBUG_FILES: &str = "usr/lib/debug/.build-id";

impl Modules {
    /// Starts the process that reads them; otherwise the first question does.
    pub(super) fn start(&mut self, ending: &Ending) {
        self.namer.start(ending);
    }

    /// Adds what a process has mapped there. Returns its number.
    pub(super) fn open(&mut self, mapping: &Mapping, pid: u32) -> usize {
        let number = self.modules.len();
        self.modules.push(Module {
            build_id: String::new(),
            mapping: mapping.clone(),
            pid,
            read_by: None,
            has_symbols: true,
            lacks: None,
        });
        self.read(number);
        number
    }

    /// In hex; empty if it has none, or cannot be read.
    pub(super) fn build_id(&self, number: usize) -> &str {
        &self.modules[number].build_id
    }

    /// True when it could be read.
    pub(super) fn is_readable(&self, number: usize) -> bool {
        self.modules[number].read_by.is_some()
    }

    /// False for a stripped file whose debug file is not installed: it has only the names that it exports. True if that is not
    /// known.
    pub(super) fn has_symbols(&self, number: usize) -> bool {
        self.modules[number].has_symbols
    }

    /// Counts its functions that only a debug file can name; nothing is known about a file that cannot be read.
    pub(super) fn unnamed(&mut self, number: usize) -> Unnamed {
        let module = &self.modules[number];
        let Ok(file) = module.mapping.open(module.pid) else {
            return Unnamed::default();
        };
        self.namer.unnamed(number as u32, &file).unwrap_or_default()
    }

    /// These members of a structure, according to its debug information or its debug file's; to be asked before any name.
    pub(super) fn members(
        &mut self,
        number: usize,
        structure: &str,
        wanted: &[&str],
    ) -> Option<Vec<Option<Member>>> {
        self.namer.members(number as u32, structure, wanted).ok()
    }

    /// Fetches its debug file, which is not installed, and reads it again with that.
    ///
    /// # Errors
    /// Why it cannot be had, in words.
    pub(super) fn fetch(&mut self, number: usize, servers: &Debuginfod) -> Result<(), String> {
        let build_id = self.modules[number].build_id.clone();
        self.fetched
            .insert(build_id.clone(), servers.debug_file(&build_id)?);
        self.read(number);
        if !self.has_symbols(number) {
            self.fetched.remove(&build_id);
            return Err("what the servers sent is not its debug file, or cannot be read".to_string());
        }
        if let Some(shared) = self.modules[number].lacks.clone()
            && let Ok(file) = servers.debug_file(&shared)
        {
            self.fetched.insert(shared, file);
            self.read(number);
        }
        Ok(())
    }

    /// Names what is at an offset of its file.
    pub(super) fn name(&mut self, number: usize, offset: u64) -> AtPlace {
        let is_of_another = |read_by| read_by != self.namer.generation();
        if self.modules[number].read_by.is_some_and(is_of_another) {
            self.read(number);
        }
        if self.modules[number].read_by.is_none() {
            return AtPlace::nothing(offset);
        }
        match self.namer.name(number as u32, offset) {
            Ok(found) => found,
            Err(e) => {
                self.failed(number, e);
                AtPlace::nothing(offset)
            }
        }
    }

    /// Forgets all of them, and what was read from them.
    pub(super) fn clear(&mut self) {
        self.modules.clear();
        self.namer.stop();
    }

    /// What the process that reads them uses.
    pub(super) fn usage(&self) -> &Usage {
        self.namer.usage()
    }

    /// Reads it, with its debug files. The files are not kept open: a process may have mapped thousands.
    fn read(&mut self, number: usize) {
        let module = &self.modules[number];
        let (mapping, pid) = (module.mapping.clone(), module.pid);
        self.modules[number].read_by = None;
        let Ok(file) = mapping.open(pid) else { return };
        if self.deadly >= PATIENCE && file.metadata().uid() != 0 {
            return;
        }
        match self.read_with_debug_files(number as u32, &file, pid) {
            Ok(found) => {
                let module = &mut self.modules[number];
                module.build_id = found.build_id;
                module.lacks = found.lacks;
                // With a limit of 0 bytes, a symbol table is an error; so is what cannot be read.
                module.has_symbols = found.has_debug_file
                    || target_file::elf::read(&file, |name| name == b".symtab", 0).is_err();
                module.read_by = Some(self.namer.generation());
            }
            Err(e) => self.failed(number, e),
        }
    }

    fn read_with_debug_files(&mut self, number: u32, file: &TargetFile, pid: u32) -> Result<Found, NoAnswer> {
        let mut found = Found {
            build_id: self.namer.open(number, file)?,
            has_debug_file: false,
            lacks: None,
        };
        let installed: Vec<TargetFile> = debug_files(&found.build_id, pid).collect();
        for debug in installed.iter().chain(self.fetched.get(&found.build_id)) {
            let shared = match self.namer.open_debug_file(number, debug) {
                Ok(Some(shared)) => shared,
                Ok(None) | Err(NoAnswer::Unreadable) => continue,
                Err(killed) => return Err(killed),
            };
            found.has_debug_file = true;
            // If it cannot be read, only its names are missing.
            let installed = debug_files(&shared, pid).next();
            match installed.as_ref().or(self.fetched.get(&shared)) {
                Some(file) => match self.namer.open_shared_debug_file(number, file) {
                    Ok(()) | Err(NoAnswer::Unreadable) => {}
                    Err(ended) => return Err(ended),
                },
                None => found.lacks = Some(shared).filter(|shared| !shared.is_empty()),
            }
            break;
        }
        Ok(found)
    }

    fn failed(&mut self, number: usize, why: NoAnswer) {
        self.modules[number].read_by = None;
        self.deadly += u32::from(matches!(why, NoAnswer::Killed));
    }
}

/// The debug files of a build id: where the process itself would find them, then the host's.
fn debug_files(id: &str, pid: u32) -> impl Iterator<Item = TargetFile> + use<> {
    let name = id
        .split_at_checked(2)
        .filter(|(_, rest)| !rest.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .map(|(folder, rest)| format!("{DEBUG_FILES}/{folder}/{rest}.debug"));
    [Some(pid), None].into_iter().filter_map(move |place| {
        let name = Path::new(name.as_ref()?);
        match place {
            Some(pid) => TargetFile::below_root(pid, name).ok(),
            None => target_file::of_host(name).ok(),
        }
    })
}

/// From here on, the kernel has modules and code that it makes at run time: BPF programs, trampolines (Documentation/arch/x86/x86_64/mm.rst;
/// a kernel without address randomisation begins earlier).
const MODULES: u64 = 0xffff_ffff_c000_0000;
/// Modules are looked for again this long after the last time.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// Address ranges of the loaded kernel modules.
#[derive(Debug)]
pub(super) struct KernelModules {
    /// (start, end, name), by start.
    ranges: Vec<(u64, u64, String)>,
    /// The kernel does not show addresses to this process.
    hides_addresses: bool,
    /// Those that have been loaded since.
    later: Vec<(u64, u64, String)>,
    read: Instant,
}

/// What a kernel address belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KernelCode<'a> {
    /// The kernel itself, or a module that was loaded when the kernel's symbols were read.
    Known(&'a str),
    /// A module that has been loaded since: its functions have no names.
    NewModule(&'a str),
    /// Code that was made at run time. It comes and goes: a list of symbols that was read once gives it the name of what was there, or
    /// before it.
    MadeAtRunTime,
}

impl KernelModules {
    /// Name for what belongs to no module.
    pub(super) const CORE: &'static str = "[kernel]";

    pub(super) fn read() -> KernelModules {
        KernelModules::parse(&fs::read_to_string("/proc/modules").unwrap_or_default())
    }

    /// True when /proc/kallsyms shows no addresses to this process.
    pub(super) fn addresses_are_hidden(&self) -> bool {
        // The first symbols are offsets into per-CPU data and zero for everybody.
        let mut text = String::new();
        let read = File::open("/proc/kallsyms").and_then(|file| file.take(1 << 20).read_to_string(&mut text));
        read.is_err() || !text.lines().any(|line| line.starts_with("ffff"))
    }

    /// `name size uses users state address`; the address is 0 for those who may not see it.
    fn parse(text: &str) -> KernelModules {
        let all: Vec<_> = text
            .lines()
            .filter_map(|line| {
                let mut fields = line.split(' ');
                let name = fields.next()?;
                let size: u64 = fields.next()?.parse().ok()?;
                let start = u64::from_str_radix(fields.nth(3)?.strip_prefix("0x")?, 16).ok()?;
                Some((start, start.saturating_add(size), name.to_string()))
            })
            .collect();
        let is_shown = |(start, ..): &(u64, u64, String)| *start != 0;
        let hides_addresses = !all.iter().all(is_shown);
        let mut ranges: Vec<_> = all.into_iter().filter(is_shown).collect();
        ranges.sort();
        KernelModules {
            ranges,
            hides_addresses,
            later: Vec::new(),
            read: Instant::now(),
        }
    }

    /// What an address belongs to. `read_again`: the same list, as it is now.
    pub(super) fn at(&mut self, address: u64, read_again: impl FnOnce() -> KernelModules) -> KernelCode<'_> {
        if address < MODULES || self.hides_addresses || name_in(&self.ranges, address).is_some() {
            return KernelCode::Known(name_in(&self.ranges, address).unwrap_or(KernelModules::CORE));
        }
        if name_in(&self.later, address).is_none() && self.read.elapsed() >= READ_AGAIN {
            self.later = read_again().ranges;
            self.read = Instant::now();
        }
        match name_in(&self.later, address) {
            Some(name) => KernelCode::NewModule(name),
            None => KernelCode::MadeAtRunTime,
        }
    }
}

fn name_in(ranges: &[(u64, u64, String)], address: u64) -> Option<&str> {
    let after = ranges.partition_point(|(start, ..)| *start <= address);
    let (_, end, name) = ranges[..after].last()?;
    (address < *end).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_module_whose_range_holds_it() {
        let begin = "xfs 1000 1 - Live 0xffffffffc0200000\next4 4096 2 mbcache,jbd2, Live 0xffffffffc0100000 (E)\nbroken line\n";
        let mut modules = KernelModules::parse(begin);
        let mut at = |address| match modules.at(address, || panic!("it was just read")) {
            KernelCode::Known(name) => name.to_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(at(0xffff_ffff_c010_0000), "ext4");
        assert_eq!(at(0xffff_ffff_c010_0fff), "ext4");
        assert_eq!(at(0xffff_ffff_c020_03e7), "xfs");
        assert_eq!(at(0xffff_ffff_8010_1000), "[kernel]");
        assert_eq!(at(0), "[kernel]");
        assert_eq!(at(0xffff_ffff_c010_1000), "MadeAtRunTime");
        // Loaded since.
        modules.read = modules.read.checked_sub(READ_AGAIN).expect("it runs for longer");
        let now = format!("{begin}nfs 1000 0 - Live 0xffffffffc0300000\n");
        let at = modules.at(0xffff_ffff_c030_0001, || KernelModules::parse(&now));
        assert_eq!(at, KernelCode::NewModule("nfs"));
    }

    #[test]
    fn without_the_right_to_see_addresses_all_is_kernel() {
        let mut modules = KernelModules::parse("xfs 1000 1 - Live 0x0000000000000000\n");
        for address in [10, 0xffff_ffff_c030_0001] {
            let at = modules.at(address, || panic!("it says nothing"));
            assert_eq!(at, KernelCode::Known("[kernel]"));
        }
    }
}
