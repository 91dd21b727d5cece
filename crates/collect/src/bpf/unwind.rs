//! The maps of bpf/unwind.bpf.h: tables of modules, and address spaces.

use std::mem::size_of;

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, libbpf_sys};

use super::load::as_bytes;
use super::recorder::types::{dbt_mapping, dbt_space};
use crate::CollectError;

/// `MAX_MAPPINGS` in bpf/unwind_rows.h.
pub(crate) const MAX_MAPPINGS: usize = 256;
/// Elements that are handed over at once.
const BATCH: usize = 65_536;

/// Code in an address space: `struct dbt_mapping`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CodeMapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Address of the begin of the table's code.
    pub(crate) code: u64,
    /// Bytes of the table's code.
    pub(crate) size: u32,
    /// Number of the table; none where there is none.
    pub(crate) table: Option<u32>,
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

    /// Puts a table into the kernel. It stays until the programs go: older kernels do not protect a table that is taken
    /// away from a program that reads it.
    pub(crate) fn add_table(&self, number: u32, elements: &[u64]) -> Result<(), CollectError> {
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
            map_flags: libbpf_sys::BPF_F_INNER_MAP,
            ..Default::default()
        };
        let failed = |e: libbpf_rs::Error| CollectError::Kernel(format!("unwinding table: {e}"));
        let word = size_of::<u64>() as u32;
        let table = MapHandle::create(
            MapType::Array,
            Some("unwind_table"),
            size_of::<u32>() as u32,
            word,
            elements.len() as u32,
            &options,
        )
        .map_err(failed)?;
        for (batch, elements) in elements.chunks(BATCH).enumerate() {
            let first = (batch * BATCH) as u32;
            let count = elements.len() as u32;
            let keys: Vec<u8> = (first..first + count).flat_map(u32::to_ne_bytes).collect();
            let values: Vec<u8> = elements.iter().flat_map(|e| e.to_ne_bytes()).collect();
            table
                .update_batch(&keys, &values, count, MapFlags::ANY, MapFlags::ANY)
                .map_err(failed)?;
        }
        let fd = std::os::fd::AsRawFd::as_raw_fd(&std::os::fd::AsFd::as_fd(&table));
        self.tables
            .update(&number.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)
            .map_err(failed)
    }

    /// Writes an address space. Those mappings for which there is no room are left out.
    pub(crate) fn set_space(&mut self, number: u32, mappings: &[CodeMapping]) -> Result<(), CollectError> {
        self.versions += 1;
        let mut space = dbt_space {
            version: self.versions,
            ..dbt_space::default()
        };
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
