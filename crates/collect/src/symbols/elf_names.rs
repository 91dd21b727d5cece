//! Names of the functions of an ELF file, from its symbol tables and the debug information in it or in its debug file.
//!
//! A crafted file may take for ever, or all memory: this runs in a process of its own ([`super::namer`]).

use std::borrow::Cow;
use std::io;
use std::ops::Range;

use addr2line::{Context, LookupResult, demangle_auto};
use gimli::{AttributeValue, BaseAddresses, EhFrameHdr, EndianSlice, LittleEndian, UnitOffset};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};

use super::structure::{self, Member};
use crate::target_file::{TargetFile, elf};

/// Maximum bytes of a file's symbol tables, and of its debug information: Oracle's executable, the largest known, has 40 MB of
/// symbols.
const MAX_SYMBOLS: usize = 256 << 20;
const MAX_DEBUG: usize = 768 << 20;
/// Maximum number of functions that may begin between the start of another one and a place in it.
const NESTED: usize = 16;
/// Maximum number of functions inlined into each other.
const MAX_INLINED: usize = 100;

/// Debug information that was read is kept as long as the process lives: none of it is ever freed.
type Section = EndianSlice<'static, LittleEndian>;

/// A function of a symbol table.
#[derive(Debug)]
struct Function {
    address: u64,
    /// None: not known; it ends where the next one begins.
    size: Option<u64>,
    /// Its name in [`ElfNames::names`].
    name: Range<usize>,
}

/// The innermost function that is not an inlined one, and those that were inlined there, the innermost last.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) names: Vec<String>,
    /// Where the function begins in the file.
    pub(super) offset: u64,
}

/// What is at a place in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AtPlace {
    /// None: it has no name.
    pub(super) named: Option<Named>,
    /// Offsets around the place that have the same answer.
    pub(super) same: Range<u64>,
}

impl AtPlace {
    /// For this offset alone.
    pub(super) fn nothing(offset: u64) -> AtPlace {
        AtPlace {
            named: None,
            same: offset..offset.saturating_add(1),
        }
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct ElfNames {
    /// Segments: offset, size, virtual address.
    segments: Vec<(u64, u64, u64)>,
    build_id: Vec<u8>,
    /// By address. Of those with the same address, the first counts.
    functions: Vec<Function>,
    names: Vec<u8>,
    debug: Debug,
}

/// Functions as the unwind table (`.eh_frame_hdr`) lists them: one entry for each, and one for each part that the compiler has moved
/// elsewhere (`NAME.cold`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Unnamed {
    /// Those without a name.
    pub(super) without_name: u32,
    /// All; 0: the file has no such table.
    pub(super) all: u32,
}

/// Debug information.
#[derive(Default)]
enum Debug {
    #[default]
    None,
    /// Not parsed yet; with that of the supplementary file that it shares with others.
    Unread(Vec<u8>, Option<Vec<u8>>),
    Read(Box<Context<Section>>),
}

impl ElfNames {
    /// Reads a file.
    ///
    /// # Errors
    /// It is not an ELF file for this machine, or larger than anybody needs.
    pub(super) fn read(file: &TargetFile) -> io::Result<ElfNames> {
        let mut names = ElfNames::default();
        let symbols = elf::read(file, is_symbols, MAX_SYMBOLS)?;
        let object = object::File::parse(&*symbols).map_err(io::Error::other)?;
        names.build_id = build_id(&object);
        names.segments = object
            .segments()
            .map(|segment| {
                let (offset, size) = segment.file_range();
                (offset, size, segment.address())
            })
            .collect();
        names.take_symbols(&object);
        if has_debug_information(&object) {
            names.take_debug(file);
        }
        Ok(names)
    }

    /// Counts the functions of the file that these names are from, and those that only a debug file can name.
    pub(super) fn unnamed(&self, file: &TargetFile) -> io::Result<Unnamed> {
        let image = elf::read(file, |name| name == b".eh_frame_hdr", MAX_SYMBOLS)?;
        let object = object::File::parse(&*image).map_err(io::Error::other)?;
        let mut unnamed = Unnamed::default();
        let Some(section) = object.section_by_name(".eh_frame_hdr") else {
            return Ok(unnamed);
        };
        let bases = BaseAddresses::default().set_eh_frame_hdr(section.address());
        let header = EhFrameHdr::new(section.data().map_err(io::Error::other)?, LittleEndian);
        let header = header
            .parse(&bases, size_of::<u64>() as u8)
            .map_err(io::Error::other)?;
        let Some(table) = header.table() else {
            return Ok(unnamed);
        };
        let mut entries = table.iter(&bases);
        while let Some((begin, _)) = entries.next().map_err(io::Error::other)? {
            let begin = begin.direct().map_err(io::Error::other)?;
            unnamed.all += 1;
            unnamed.without_name += u32::from(self.function(begin).is_none());
        }
        Ok(unnamed)
    }

    /// In hex; empty if there is none.
    pub(super) fn build_id(&self) -> String {
        hex(&self.build_id)
    }

    /// Adds what a distribution installs alongside a stripped file: its symbols and debug information, at the same virtual
    /// addresses. False: it does not belong to this file.
    pub(super) fn add_debug_file(&mut self, file: &TargetFile) -> io::Result<bool> {
        let symbols = elf::read(file, is_symbols, MAX_SYMBOLS)?;
        let object = object::File::parse(&*symbols).map_err(io::Error::other)?;
        if self.build_id.is_empty() || build_id(&object) != self.build_id {
            return Ok(false);
        }
        self.take_symbols(&object);
        if has_debug_information(&object) {
            self.take_debug(file);
        }
        Ok(true)
    }

    /// Build id of the file with what the debug information shares with others; empty if there is none.
    pub(super) fn shared_debug_file(&self) -> String {
        let Debug::Unread(image, None) = &self.debug else {
            return String::new();
        };
        let object = object::File::parse(&**image);
        let link = object.ok().and_then(|object| {
            let (_, id) = object.gnu_debugaltlink().ok()??;
            Some(hex(id))
        });
        link.unwrap_or_default()
    }

    /// Adds that file.
    pub(super) fn add_shared_debug_file(&mut self, file: &TargetFile) -> io::Result<()> {
        if let Debug::Unread(_, shared) = &mut self.debug {
            *shared = Some(elf::read(file, is_debug, MAX_DEBUG)?);
        }
        Ok(())
    }

    /// These members of a structure, according to debug information; None if it has none, or has been parsed for names.
    pub(super) fn members(&self, structure: &str, wanted: &[&str]) -> Option<Vec<Option<Member>>> {
        let Debug::Unread(image, shared) = &self.debug else {
            return None;
        };
        let mut dwarf = sections(image);
        if let Some(shared) = shared {
            dwarf.set_sup(sections(shared));
        }
        structure::members(&dwarf, structure, wanted)
    }

    /// Names what is at an offset in the file.
    pub(super) fn find(&mut self, offset: u64) -> AtPlace {
        let found = self.segments.iter().find_map(|(begin, size, address)| {
            let inside = offset.checked_sub(*begin).filter(|inside| inside < size)?;
            let segment = *begin..begin.saturating_add(*size);
            Some((
                segment,
                address.wrapping_sub(*begin),
                address.checked_add(inside)?,
            ))
        });
        let Some((segment, delta, address)) = found else {
            return AtPlace::nothing(offset);
        };
        self.debug.read();
        let named = self.named(delta, address);
        // Debug information distinguishes places in a function.
        let same = match self.debug {
            Debug::None => self.alike(address),
            Debug::Unread(..) | Debug::Read(_) => address..address.saturating_add(1),
        };
        let start = offset.saturating_sub(address - same.start).max(segment.start);
        let end = offset.saturating_add(same.end - address).min(segment.end);
        AtPlace {
            named,
            same: start..end,
        }
    }

    fn named(&self, delta: u64, address: u64) -> Option<Named> {
        let symbol = self.function(address);
        let begin = symbol.map(|function| function.address);
        let of_symbol = symbol.map(|function| {
            let name = String::from_utf8_lossy(&self.names[function.name.clone()]).into_owned();
            demangle_auto(Cow::from(name), None).into_owned()
        });
        let (names, begin) = match self.debug.find(address) {
            Some((names, begin_of_debug)) => (names, begin.or(begin_of_debug)),
            None => (vec![of_symbol?], begin),
        };
        Some(Named {
            names,
            offset: begin.map_or(0, |begin| begin.wrapping_sub(delta)),
        })
    }

    /// Indices of the functions that begin last at or before an address, all at one place.
    fn last_before(&self, address: u64) -> Range<usize> {
        let after = self
            .functions
            .partition_point(|function| function.address <= address);
        let before = &self.functions[..after];
        let last = before.last().map_or(0, |last| last.address);
        before.partition_point(|function| function.address < last)..after
    }

    /// The function that contains an address.
    fn function(&self, address: u64) -> Option<&Function> {
        let Range {
            start: first,
            end: after,
        } = self.last_before(address);
        let holds = |function: &&Function| function.size.is_none_or(|size| address - function.address < size);
        self.functions[first..after].iter().find(holds).or_else(|| {
            // Functions inside of others, for example those reached by a jump only.
            let before = &self.functions[first.saturating_sub(NESTED)..first];
            before
                .iter()
                .rev()
                .filter(|function| function.size.is_some())
                .find(holds)
        })
    }

    /// Addresses around this one that are in the same function or, like it, in none.
    fn alike(&self, address: u64) -> Range<u64> {
        let Range {
            start: first,
            end: after,
        } = self.last_before(address);
        let next = self.functions.get(after).map_or(u64::MAX, |next| next.address);
        let last = self.functions[first..after]
            .first()
            .map_or(0, |last| last.address);
        let end = |function: &Function| Some(function.address.saturating_add(function.size?));
        match self.function(address) {
            // The first of those that begin there contains all that the others do.
            Some(function) if function.address == last && function.size.is_some() => {
                last..end(function).unwrap_or(next).min(next)
            }
            Some(_) => address..address.saturating_add(1),
            None => {
                let before = &self.functions[first.saturating_sub(NESTED)..after];
                let ends = before.iter().filter_map(end);
                ends.fold(last, u64::max).min(address)..next
            }
        }
    }

    fn take_symbols(&mut self, object: &object::File<'_>) {
        // A dynamic symbol without a size says nothing about what follows it: other functions are not exported.
        let named = object.symbols().map(|symbol| (symbol, None));
        let exported = object.dynamic_symbols().map(|symbol| (symbol, Some(1)));
        for (symbol, least) in named.chain(exported) {
            // Code written in assembler may have no type.
            let is_code = matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Unknown);
            if !is_code || symbol.is_undefined() {
                continue;
            }
            let name = symbol.name_bytes().unwrap_or_default();
            if name.is_empty() {
                continue;
            }
            let begin = self.names.len();
            // The tables may name the same text a million times.
            if begin + name.len() > MAX_SYMBOLS {
                break;
            }
            self.names.extend(name);
            self.functions.push(Function {
                address: symbol.address(),
                size: Some(symbol.size()).filter(|size| *size != 0).or(least),
                name: begin..begin + name.len(),
            });
        }
        // Stable: of those at the same address the largest counts, then the one that was there first.
        let size = |function: &Function| std::cmp::Reverse(function.size.unwrap_or(0));
        self.functions
            .sort_by_key(|function| (function.address, size(function)));
    }

    fn take_debug(&mut self, file: &TargetFile) {
        // If it is too large, only its own names are missing: those of the symbol tables are there.
        if let Ok(image) = elf::read(file, is_debug, MAX_DEBUG) {
            self.debug = Debug::Unread(image, None);
        }
    }
}

impl Debug {
    /// Parses what was read, when it is first needed.
    fn read(&mut self) {
        if !matches!(self, Debug::Unread(..)) {
            return;
        }
        if let Debug::Unread(image, shared) = std::mem::take(self) {
            let mut dwarf = sections(image.leak());
            if let Some(shared) = shared {
                dwarf.set_sup(sections(shared.leak()));
            }
            dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
            if let Ok(context) = Context::from_dwarf(dwarf) {
                *self = Debug::Read(Box::new(context));
            }
        }
    }

    /// Names at a virtual address, and where the function begins.
    fn find(&self, address: u64) -> Option<(Vec<String>, Option<u64>)> {
        let Debug::Read(context) = self else { return None };
        // Parts of the debug information in yet other files are not looked for.
        let LookupResult::Output(Ok(mut frames)) = context.find_frames(address) else {
            return None;
        };
        let mut names = Vec::new();
        let mut outermost = None;
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function?;
            names.push(name.demangle().ok()?.into_owned());
            outermost = frame.dw_die_offset;
            if names.len() > MAX_INLINED {
                return None;
            }
        }
        names.reverse();
        let begin = outermost.and_then(|function| begin(context, address, function));
        (!names.is_empty()).then_some((names, begin))
    }
}

/// Where a function begins.
fn begin(context: &Context<Section>, address: u64, function: UnitOffset<usize>) -> Option<u64> {
    let LookupResult::Output(Some(unit)) = context.find_dwarf_and_unit(address) else {
        return None;
    };
    let entry = unit.entry(function).ok()?;
    match entry.attr_value(gimli::DW_AT_low_pc)? {
        AttributeValue::Addr(address) => Some(address),
        AttributeValue::DebugAddrIndex(index) => unit.address(index).ok(),
        _ => None,
    }
}

fn sections(image: &[u8]) -> gimli::Dwarf<EndianSlice<'_, LittleEndian>> {
    let object = object::File::parse(image).ok();
    let section = |name: &str| -> Result<_, std::convert::Infallible> {
        let section = object.as_ref().and_then(|object| object.section_by_name(name));
        let bytes = section
            .and_then(|section| section.data().ok())
            .unwrap_or_default();
        Ok(EndianSlice::new(bytes, LittleEndian))
    };
    let Ok(dwarf) = gimli::Dwarf::load(|id| section(id.name()));
    dwarf
}

fn has_debug_information(object: &object::File<'_>) -> bool {
    object.section_by_name(".debug_info").is_some()
}

fn is_symbols(name: &[u8]) -> bool {
    matches!(name, b".symtab" | b".strtab" | b".dynsym" | b".dynstr")
}

/// Sections for names; not, for example, for locations of variables.
fn is_debug(name: &[u8]) -> bool {
    const SECTIONS: [&str; 11] = [
        ".debug_abbrev",
        ".debug_addr",
        ".debug_aranges",
        ".debug_info",
        ".debug_line",
        ".debug_line_str",
        ".debug_ranges",
        ".debug_rnglists",
        ".debug_str",
        ".debug_str_offsets",
        ".gnu_debugaltlink",
    ];
    SECTIONS.iter().any(|section| section.as_bytes() == name)
}

fn build_id(object: &object::File<'_>) -> Vec<u8> {
    let id = object.build_id().ok().flatten().unwrap_or_default();
    // GNU's have 20 bytes, others fewer.
    id[..id.len().min(64)].to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::PathBuf;

    use super::*;

    #[inline(never)]
    extern "C" fn a_function_with_a_name() -> u64 {
        std::hint::black_box(7)
    }

    /// A copy of the program that runs this test, and where the function is in it.
    fn copy(name: &str) -> (PathBuf, u64) {
        let copy = std::env::temp_dir().join(format!("dbtime-names-{name}-{}", std::process::id()));
        fs::copy("/proc/self/exe", &copy).unwrap();
        let address = a_function_with_a_name as *const () as u64;
        let maps = crate::symbols::maps::read(std::process::id()).unwrap();
        let mapping = maps.iter().find(|m| (m.start..m.end).contains(&address)).unwrap();
        (copy, address - mapping.start + mapping.offset)
    }

    #[test]
    fn what_was_read_has_names_when_the_file_is_gone() {
        let (path, offset) = copy("gone");
        let mut names = ElfNames::read(&TargetFile::new(File::open(&path).unwrap()).unwrap()).unwrap();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(0)
            .unwrap();
        let named = names.find(offset).named.unwrap();
        assert!(named.names[0].contains("a_function_with_a_name"), "{named:?}");
        assert_eq!(named.offset, offset);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_said_to_be_alike_has_the_same_answer() {
        let (path, _) = copy("alike");
        let strip = std::process::Command::new("strip")
            .arg("--strip-debug")
            .arg(&path)
            .status();
        assert!(strip.expect("strip is there").success());
        let mut names = ElfNames::read(&TargetFile::new(File::open(&path).unwrap()).unwrap()).unwrap();
        fs::remove_file(path).unwrap();
        // Sizes overlap, functions are inside of others, some begin at the same place.
        for (n, function) in names.functions.iter_mut().enumerate() {
            function.size = match n % 7 {
                0 => None,
                1 => Some(1),
                2 => function.size.map(|size| size * 40),
                _ => function.size,
            };
        }
        let size = |function: &Function| std::cmp::Reverse(function.size.unwrap_or(0));
        names
            .functions
            .sort_by_key(|function| (function.address, size(function)));
        let addresses: Vec<u64> = names.functions.iter().map(|function| function.address).collect();
        let (mut alike, mut without_name) = (0, 0);
        for begin in addresses.iter().step_by(11) {
            for at in [begin.saturating_sub(1), *begin, begin + 3, begin + 200] {
                let is_it = |address| {
                    names
                        .function(address)
                        .map(|function| (function.address, function.name.clone()))
                };
                let same = names.alike(at);
                assert!(same.contains(&at), "{at:x}: {same:x?}");
                let tried = [
                    same.start,
                    same.start.midpoint(at),
                    at.midpoint(same.end - 1),
                    same.end - 1,
                ];
                for other in tried {
                    assert_eq!(is_it(other), is_it(at), "{other:x} and {at:x}: {same:x?}");
                }
                alike += u64::from(same.end - same.start > 1);
                without_name += u64::from(is_it(at).is_none());
            }
        }
        assert!(alike > 1_000 && without_name > 100, "{alike}, {without_name}");
    }

    #[test]
    fn functions_that_a_stripped_file_has_lost_the_names_of_are_counted() {
        let (path, _) = copy("stripped");
        let read = || {
            let file = TargetFile::new(File::open(&path).unwrap()).unwrap();
            let names = ElfNames::read(&file).unwrap();
            let unnamed = names.unnamed(&file).unwrap();
            (names, unnamed)
        };
        let (whole, with) = read();
        // Labels in assembler code have no size.
        let functions = |names: &ElfNames| {
            let functions = names.functions.iter().filter(|function| function.size.is_some());
            let mut addresses: Vec<u64> = functions.map(|function| function.address).collect();
            addresses.dedup();
            addresses.len()
        };
        let strip = std::process::Command::new("strip").arg(&path).status();
        assert!(strip.expect("strip is there").success());
        let (stripped, without) = read();
        fs::remove_file(&path).unwrap();
        assert_eq!(with.all, without.all);
        assert!(with.without_name * 50 < with.all, "{with:?}");
        let lost = f64::from(without.without_name - with.without_name);
        let named = (functions(&whole) - functions(&stripped)) as f64;
        assert!(
            (lost / named - 1.0).abs() < 0.05,
            "{lost} of {named}: {without:?}"
        );
    }

    #[test]
    fn a_file_that_is_cut_anywhere_is_read_or_refused() {
        let (path, offset) = copy("cut");
        let whole = fs::metadata(&path).unwrap().len();
        for part in (0..40).rev() {
            let file = File::options().write(true).open(&path).unwrap();
            file.set_len(whole * part / 40).unwrap();
            let file = TargetFile::new(File::open(&path).unwrap()).unwrap();
            if let Ok(mut names) = ElfNames::read(&file) {
                names.find(offset);
            }
        }
        fs::remove_file(path).unwrap();
    }
}
