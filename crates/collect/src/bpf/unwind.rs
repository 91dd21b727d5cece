//! The maps of bpf/unwind.bpf.h: tables of modules, and address spaces.

use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, libbpf_sys};

use super::load::as_bytes;
use super::recorder::types::{dbt_mapping, dbt_space, dbt_unwind_number};
use crate::CollectError;

/// Mappings of an address space.
pub(crate) const MAX_MAPPINGS: usize = dbt_unwind_number::MAX_MAPPINGS.0 as usize;
/// Elements that are handed over at once.
const BATCH: usize = 65_536;

/// Tables that are handed over at once: each is an open file until then.
pub(crate) const TABLES_AT_ONCE: usize = 64;

/// Code in an address space: `struct dbt_mapping`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CodeMapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Address at which the table's code begins.
    pub(crate) code: u64,
    /// Bytes of the table's code.
    pub(crate) size: u32,
    /// Number of the table; none if there is none.
    pub(crate) table: Option<u32>,
    /// It is the interpreter of a procedural language.
    pub(crate) is_interpreter: bool,
}

/// A table in the kernel that no program knows yet.
pub(crate) struct KernelTable {
    number: u32,
    elements: MapHandle,
}

impl KernelTable {
    /// Creates it, from elements as in bpf/unwind_rows.h. It needs no program.
    pub(crate) fn make(number: u32, elements: &[u64]) -> libbpf_rs::Result<KernelTable> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            map_flags: libbpf_sys::BPF_F_INNER_MAP,
            ..Default::default()
        };
        let (key, word) = (size_of::<u32>() as u32, size_of::<u64>() as u32);
        let count = elements.len() as u32;
        let map = MapHandle::create(MapType::Array, Some("unwind_table"), key, word, count, &options)?;
        for (batch, elements) in elements.chunks(BATCH).enumerate() {
            let first = (batch * BATCH) as u32;
            let count = elements.len() as u32;
            let keys: Vec<u8> = (first..first + count).flat_map(u32::to_ne_bytes).collect();
            let values: Vec<u8> = elements.iter().flat_map(|e| e.to_ne_bytes()).collect();
            map.update_batch(&keys, &values, count, MapFlags::ANY, MapFlags::ANY)?;
        }
        Ok(KernelTable {
            number,
            elements: map,
        })
    }
}

/// Handles of the maps.
pub(crate) struct UnwindMaps {
    pub(super) tables: MapHandle,
    pub(super) spaces: MapHandle,
    pub(super) versions: u32,
}

impl UnwindMaps {
    /// Tables that there is room for.
    pub(crate) fn max_tables(&self) -> u32 {
        self.tables.max_entries()
    }

    /// Address spaces that there is room for; number 0 is none.
    pub(crate) fn max_spaces(&self) -> u32 {
        self.spaces.max_entries()
    }

    /// Hands tables over. They stay until the programs are unloaded: older kernels do not protect a table that is removed while a program
    /// reads it. Returns how many the kernel did not take.
    pub(crate) fn add_tables(&self, tables: &[KernelTable]) -> usize {
        let has_room = |table: &&KernelTable| table.number < self.max_tables();
        let fitting: Vec<&KernelTable> = tables.iter().filter(has_room).collect();
        let added = match self.give(&fitting) {
            Ok(()) => fitting.len(),
            // One of them is refused.
            Err(_) => fitting.chunks(1).filter(|one| self.give(one).is_ok()).count(),
        };
        tables.len() - added
    }

    /// All at once: the kernel waits after each call, 5 to 20 ms, until no program can still see what was there before
    /// (`maybe_wait_bpf_programs`).
    fn give(&self, tables: &[&KernelTable]) -> libbpf_rs::Result<()> {
        let keys: Vec<u8> = tables
            .iter()
            .flat_map(|table| table.number.to_ne_bytes())
            .collect();
        let values: Vec<u8> = tables
            .iter()
            .flat_map(|table| table.elements.as_fd().as_raw_fd().to_ne_bytes())
            .collect();
        match tables.len() {
            0 => Ok(()),
            1 => self.tables.update(&keys, &values, MapFlags::ANY),
            count => self
                .tables
                .update_batch(&keys, &values, count as u32, MapFlags::ANY, MapFlags::ANY),
        }
    }

    /// Writes an address space. Mappings that do not fit are left out.
    pub(crate) fn set_space(&mut self, number: u32, mappings: &[CodeMapping]) -> Result<(), CollectError> {
        self.versions += 1;
        let mut space = dbt_space {
            version: self.versions,
            ..dbt_space::default()
        };
        if let Some(interpreter) = mappings.iter().find(|mapping| mapping.is_interpreter) {
            (space.interpreter_start, space.interpreter_end) = (interpreter.start, interpreter.end);
        }
        for (place, mapping) in space.mappings.iter_mut().zip(mappings) {
            *place = dbt_mapping {
                start: mapping.start,
                end: mapping.end,
                code: mapping.code,
                size: mapping.size,
                table: mapping.table.map_or(0, |number| number + 1),
            };
            space.count += 1;
        }
        self.spaces
            .update(&number.to_ne_bytes(), as_bytes(&space), MapFlags::ANY)
            .map_err(|e| CollectError::Kernel(format!("address space: {e}")))
    }
}
