//! Loads and attaches the programs of `bpf/block.bpf.c`; reads out what they have counted.

use std::ffi::CString;
use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, libbpf_sys};

use super::block_skeleton::BlockSkelBuilder;
use super::block_skeleton::types::{bss, dbt_block_volume_key, dbt_latency, dbt_latency_key};
use super::latency::LatencyMaps;
use super::messages::refusals;
use super::plain::{Plain, globals, read};
use crate::CollectError;

/// Which requests count, and from when on.
#[derive(Debug, Clone, Default)]
pub(crate) struct BlockFilter {
    /// dev_t of disks; empty: all.
    pub(crate) devices: Vec<u32>,
    /// `enum dbt_operation`; empty: all.
    pub(crate) operations: Vec<u32>,
    /// Processes that submit; empty: all.
    pub(crate) pids: Vec<u32>,
    /// Latencies begin in the queue, not at the issue to the device.
    pub(crate) with_queue: bool,
}

/// Requests of one device and operation whose latencies fell into one bucket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockCell {
    pub(crate) device: u32,
    pub(crate) operation: u32,
    pub(crate) bucket: u16,
    pub(crate) count: u64,
    pub(crate) sum_ns: u64,
    pub(crate) max_ns: u64,
}

/// Bytes of the requests of one device and operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockVolume {
    pub(crate) device: u32,
    pub(crate) operation: u32,
    pub(crate) bytes: u64,
}

/// What could not be counted since the programs were loaded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BlockLosses {
    /// No room, or the end was not seen.
    pub(crate) lost: u64,
    /// Completed, but issued before the programs were attached.
    pub(crate) without_begin: u64,
}

/// The loaded programs. Dropping it detaches and unloads them: nothing stays in the kernel.
pub(crate) struct BlockPrograms {
    /// Latencies begin in the queue.
    pub(crate) with_queue: bool,
    epoch: u64,
    epoch_map: MapHandle,
    latencies: LatencyMaps<dbt_latency_key, dbt_latency>,
    volume: MapHandle,
    bss: MapHandle,
    _links: Vec<Link>,
}

impl BlockPrograms {
    /// Loads and attaches. The second value says what this kernel lacks and what that means.
    ///
    /// # Errors
    /// The kernel refuses something essential: the message has its reason.
    pub(crate) fn load(filter: &BlockFilter) -> Result<(BlockPrograms, Vec<String>), CollectError> {
        let failed = refusals("the kernel rejected dbtime's BPF programs");
        for tracepoint in ["block_rq_issue", "block_rq_complete"] {
            need(tracepoint, "no request can be timed")?;
        }
        let mut reasons = Vec::new();
        if !filter.pids.is_empty() {
            need(
                "block_bio_queue",
                "the process that submits a request is not known",
            )?;
        }
        let mut has = |tracepoint: &str, without: &str| {
            let found = has_tracepoint(tracepoint);
            if !found {
                reasons.push(format!("the kernel has no tracepoint {tracepoint}: {without}"));
            }
            found
        };
        let with_queue = filter.with_queue
            && has(
                "block_rq_insert",
                "latencies are measured from issue to the device, without the queue",
            );
        let with_requeue = has(
            "block_rq_requeue",
            "a request that the device initially refused counts as lost, and is timed from its second issue",
        );
        let with_merge = has(
            "block_rq_merge",
            "requests that were merged in the queue may count as lost",
        );

        let mut storage = MaybeUninit::uninit();
        let mut open = BlockSkelBuilder::default()
            .open(&mut storage)
            .map_err(|e| failed("open", e))?;
        let Some(constants) = open.maps.rodata_data.as_deref_mut() else {
            return Err(CollectError::Kernel("block.bpf.o has no constants".to_string()));
        };
        if !filter.operations.is_empty() {
            constants.wanted_operations = filter.operations.iter().fold(0, |mask, n| mask | 1 << n);
        }
        constants.filter_devices = (!filter.devices.is_empty()).into();
        constants.filter_pids = (!filter.pids.is_empty()).into();
        constants.with_queue = with_queue.into();
        // Only what is needed: each program costs every request a little.
        open.progs.on_block_queue.set_autoload(!filter.pids.is_empty());
        open.progs.on_block_insert.set_autoload(with_queue);
        open.progs.on_block_requeue.set_autoload(with_requeue);
        open.progs.on_block_merge.set_autoload(with_merge && with_queue);
        let skel = open.load().map_err(|e| failed("load", e))?;

        let put = |map: &libbpf_rs::MapMut<'_>, keys: &[u32]| {
            keys.iter()
                .try_for_each(|key| map.update(&key.to_ne_bytes(), &[1], MapFlags::ANY))
                .map_err(|e| failed("filter", e))
        };
        put(&skel.maps.wanted_devices, &filter.devices)?;
        put(&skel.maps.wanted_pids, &filter.pids)?;

        let handle = |map: &libbpf_rs::MapMut<'_>| MapHandle::try_from(map).map_err(|e| failed("maps", e));
        let mut programs = BlockPrograms {
            with_queue,
            epoch: 0,
            epoch_map: handle(&skel.maps.data_epoch)?,
            latencies: LatencyMaps::new(handle(&skel.maps.latency_even)?, handle(&skel.maps.latency_odd)?),
            volume: handle(&skel.maps.block_volume)?,
            bss: handle(&skel.maps.bss)?,
            _links: Vec::new(),
        };
        // In this order: what is seen to begin is seen to end.
        let in_order = [
            (
                "block_bio_queue",
                &skel.progs.on_block_queue,
                !filter.pids.is_empty(),
            ),
            ("block_rq_insert", &skel.progs.on_block_insert, with_queue),
            ("block_rq_requeue", &skel.progs.on_block_requeue, with_requeue),
            (
                "block_rq_merge",
                &skel.progs.on_block_merge,
                with_merge && with_queue,
            ),
            ("block_rq_complete", &skel.progs.on_block_complete, true),
            ("block_rq_issue", &skel.progs.on_block_issue, true),
        ];
        for (tracepoint, program, is_wanted) in in_order {
            if is_wanted {
                let link = program.attach_trace().map_err(|e| failed(tracepoint, e))?;
                programs._links.push(link);
            }
        }
        Ok((programs, reasons))
    }

    /// From now on, requests that complete count for the next interval. When this returns, after some milliseconds, the programs have added
    /// all that belongs to the one that ends here.
    ///
    /// # Errors
    /// The kernel refused.
    pub(crate) fn end_interval(&mut self) -> Result<(), CollectError> {
        let next = self.epoch + 1;
        self.epoch_map
            .update(&0u32.to_ne_bytes(), &next.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| CollectError::Kernel(format!("BPF map of the epoch: {e}")))?;
        self.epoch = next;
        super::latency::wait_for_programs();
        Ok(())
    }

    /// Takes what was counted in the interval that ended last.
    ///
    /// # Errors
    /// The kernel refused.
    pub(crate) fn take(&mut self) -> Result<(Vec<BlockCell>, Vec<BlockVolume>), CollectError> {
        let ended = self.epoch - 1;
        let mut cells = Vec::new();
        self.latencies
            .take(ended, |key, value| {
                cells.push(BlockCell {
                    device: key.device,
                    operation: key.name,
                    bucket: key.bucket,
                    count: value.count,
                    sum_ns: value.sum_ns,
                    max_ns: value.max_ns,
                });
            })
            .map_err(|e| CollectError::Kernel(format!("BPF map of latencies: {e}")))?;
        Ok((cells, self.take_volumes(ended)?))
    }

    fn take_volumes(&self, ended: u64) -> Result<Vec<BlockVolume>, CollectError> {
        let keys: Vec<Vec<u8>> = self.volume.keys().collect();
        let mut volumes = Vec::new();
        for bytes in keys {
            let Some(key) = read::<dbt_block_volume_key>(&bytes) else {
                continue;
            };
            if u64::from(key.odd) != ended & 1 {
                continue;
            }
            let value = self
                .volume
                .lookup_and_delete(&bytes)
                .map_err(|e| CollectError::Kernel(format!("BPF map of bytes: {e}")))?;
            if let Some(Ok(value)) = value.map(<[u8; 8]>::try_from) {
                volumes.push(BlockVolume {
                    device: key.device,
                    operation: key.operation.into(),
                    bytes: u64::from_ne_bytes(value),
                });
            }
        }
        Ok(volumes)
    }

    /// What could not be counted so far.
    ///
    /// # Errors
    /// The kernel refused.
    pub(crate) fn losses(&self) -> Result<BlockLosses, CollectError> {
        let bss = globals::<bss>(&self.bss)
            .ok_or_else(|| CollectError::Kernel("the BPF map of losses cannot be read".to_string()))?;
        Ok(BlockLosses {
            lost: bss.block_lost + bss.latency_lost,
            without_begin: bss.block_without_begin,
        })
    }
}

impl Plain for bss {}
impl Plain for dbt_block_volume_key {}

fn need(tracepoint: &str, without: &str) -> Result<(), CollectError> {
    if has_tracepoint(tracepoint) {
        Ok(())
    } else {
        Err(CollectError::Kernel(format!(
            "the kernel has no tracepoint {tracepoint} (or hides it from BPF), without which {without}; it needs \
             CONFIG_BLK_DEV_IO_TRACE=y"
        )))
    }
}

/// True if programs can be attached to the tracepoint by its type.
fn has_tracepoint(name: &str) -> bool {
    let Ok(name) = CString::new(name) else {
        return false;
    };
    // SAFETY: the name is a string that lives through the call.
    unsafe { libbpf_sys::libbpf_find_vmlinux_btf_id(name.as_ptr(), libbpf_sys::BPF_TRACE_RAW_TP) > 0 }
}
