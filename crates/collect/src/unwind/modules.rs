//! Tables of the modules that are mapped somewhere: each is built once.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use object::{Object, ObjectSegment, SegmentFlags};

use super::table::{Table, TooMuch};
use crate::symbols::maps::{self, Mapping};
use crate::target_file::{TargetFile, elf};

/// Kernel memory for all tables, bytes: about six million rows.
const MAX_BYTES: usize = 64 << 20;

/// Maximum bytes of a module's frame descriptions: the largest known, of 300 MB of code, have 30 MB.
const MAX_FRAMES: usize = 128 << 20;
/// Maximum number of known modules, and of code segments of one. A process can keep mapping new files; later ones have no table.
const MAX_MODULES: usize = 10_000;
const MAX_SEGMENTS: usize = 64;
/// After this many modules that took more time or memory than any real one, only root's own files are read.
const PATIENCE: u32 = 3;

/// A part of a module's file that has code, and where it is loaded to.
#[derive(Debug, Clone, Copy)]
struct Segment {
    offset: u64,
    size: u64,
    address: u64,
}

/// A module: where its code is and which table it has.
#[derive(Debug, Default)]
pub(super) struct Module {
    code: Vec<Segment>,
    begin: u64,
    pub(super) size: u32,
    /// Number of its table.
    pub(super) table: Option<u32>,
}

impl Module {
    /// Start of the table's code in an address space; None if the mapping has no code of the file.
    pub(super) fn code_in(&self, mapping: &Mapping) -> Option<u64> {
        let segment = self
            .code
            .iter()
            .find(|s| (s.offset & !0xfff..s.offset.saturating_add(s.size)).contains(&mapping.offset))?;
        let file_begin = mapping.start.wrapping_sub(mapping.offset);
        let bias = file_begin
            .wrapping_add(segment.offset)
            .wrapping_sub(segment.address);
        Some(bias.wrapping_add(self.begin))
    }
}

/// All modules seen so far.
#[derive(Default)]
pub(super) struct Modules {
    by_file: HashMap<(u64, u64), usize>,
    by_build_id: HashMap<Vec<u8>, usize>,
    modules: Vec<Module>,
    /// Tables that are not in the kernel yet, by number.
    pub(super) new_tables: Vec<(u32, Vec<u64>)>,
    tables: u32,
    /// Kernel memory of all tables.
    pub(super) bytes: usize,
    /// Modules whose tables found no room.
    pub(super) without_room: u64,
    made_to_blow_up: u32,
    /// The module that stands for unknown ones: it has no table.
    nothing: Option<usize>,
}

impl Modules {
    /// Mappings of a process that hold code, each with its module.
    pub(super) fn of_process(&mut self, pid: u32) -> std::io::Result<Vec<(Mapping, usize)>> {
        let mut mappings = maps::read(pid)?;
        mappings.retain(Mapping::is_module);
        Ok(mappings
            .into_iter()
            .map(|mapping| {
                let module = self.module(&mapping, pid);
                (mapping, module)
            })
            .collect())
    }

    pub(super) fn get(&self, module: usize) -> &Module {
        &self.modules[module]
    }

    fn module(&mut self, mapping: &Mapping, pid: u32) -> usize {
        if let Some(&module) = self.by_file.get(&mapping.file()) {
            return module;
        }
        if self.modules.len() >= MAX_MODULES {
            self.without_room += 1;
            return match self.nothing {
                Some(nothing) => nothing,
                None => {
                    let nothing = self.add(Module::default());
                    *self.nothing.insert(nothing)
                }
            };
        }
        let module = match mapping.open(pid) {
            Ok(file) => self.open(&file),
            Err(_) => self.add(Module::default()),
        };
        self.by_file.insert(mapping.file(), module);
        module
    }

    fn add(&mut self, module: Module) -> usize {
        self.modules.push(module);
        self.modules.len() - 1
    }

    fn open(&mut self, file: &TargetFile) -> usize {
        let is_trusted = file.metadata().uid() == 0;
        if self.made_to_blow_up >= PATIENCE && !is_trusted {
            self.without_room += 1;
            return self.add(Module::default());
        }
        let is_frames = |name: &[u8]| matches!(name, b".eh_frame" | b".debug_frame");
        let Ok(image) = elf::read(file, is_frames, MAX_FRAMES) else {
            return self.add(Module::default());
        };
        let Ok(file) = object::File::parse(&*image) else {
            return self.add(Module::default());
        };
        let build_id = file.build_id().ok().flatten().unwrap_or_default().to_vec();
        if let Some(&module) = self.by_build_id.get(&build_id) {
            return module;
        }
        let mut module = Module {
            code: file
                .segments()
                .filter_map(|s| code_segment(&s))
                .take(MAX_SEGMENTS)
                .collect(),
            ..Module::default()
        };
        let is_known = file.architecture() == object::Architecture::X86_64;
        // A bug in a parser must cost only this module, not all.
        let table = AssertUnwindSafe(|| if is_known { Table::of_file(&file) } else { Ok(None) });
        match catch_unwind(table).unwrap_or(Err(TooMuch)) {
            Ok(Some(table)) if self.bytes + table.bytes() <= MAX_BYTES => {
                self.bytes += table.bytes();
                module.begin = table.begin;
                module.size = table.size;
                module.table = Some(self.tables);
                self.new_tables.push((self.tables, table.elements));
                self.tables += 1;
            }
            Ok(Some(_)) => self.without_room += 1,
            Ok(None) => {}
            Err(TooMuch) => {
                self.without_room += 1;
                self.made_to_blow_up += 1;
            }
        }
        let number = self.add(module);
        if !build_id.is_empty() {
            self.by_build_id.insert(build_id, number);
        }
        number
    }
}

fn code_segment<'data>(segment: &impl ObjectSegment<'data>) -> Option<Segment> {
    let SegmentFlags::Elf { p_flags, .. } = segment.flags() else {
        return None;
    };
    let (offset, size) = segment.file_range();
    p_flags.contains(object::elf::PF_X).then_some(Segment {
        offset,
        size,
        address: segment.address(),
    })
}
