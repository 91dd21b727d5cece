//! Takes the histograms out of the kernel.

use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapHandle, libbpf_sys};

/// What the latencies are of.
pub(crate) mod latency_kind {
    use crate::bpf::recorder::types::dbt_latency_kind;

    pub(crate) const WAIT: u8 = dbt_latency_kind::LATENCY_WAIT.0 as u8;
    pub(crate) const CALL: u8 = dbt_latency_kind::LATENCY_CALL.0 as u8;
    pub(crate) const SCHED: u8 = dbt_latency_kind::LATENCY_SCHED.0 as u8;
    pub(crate) const READ: u8 = dbt_latency_kind::LATENCY_READ.0 as u8;
    pub(crate) const READ_ON_CPU: u8 = dbt_latency_kind::LATENCY_READ_ON_CPU.0 as u8;
    pub(crate) const READ_CPU: u8 = dbt_latency_kind::LATENCY_READ_CPU.0 as u8;
    pub(crate) const READ_QUEUE: u8 = dbt_latency_kind::LATENCY_READ_QUEUE.0 as u8;
    pub(crate) const READ_DEVICE: u8 = dbt_latency_kind::LATENCY_READ_DEVICE.0 as u8;
    pub(crate) const BLOCK: u8 = dbt_latency_kind::LATENCY_BLOCK.0 as u8;
    pub(crate) const BLOCK_QUEUE: u8 = dbt_latency_kind::LATENCY_BLOCK_QUEUE.0 as u8;
    pub(crate) const WAKER: u8 = dbt_latency_kind::LATENCY_WAKER.0 as u8;
    pub(crate) const ORACLE_WAIT: u8 = dbt_latency_kind::LATENCY_ORACLE_WAIT.0 as u8;
    pub(crate) const ORACLE_WAIT_DB: u8 = dbt_latency_kind::LATENCY_ORACLE_WAIT_DB.0 as u8;
    pub(crate) const COMMAND: u8 = dbt_latency_kind::LATENCY_COMMAND.0 as u8;
}

/// Where the data that was read came from.
pub(crate) mod read_source {
    use crate::bpf::recorder::types::dbt_read_source;

    pub(crate) const PAGE_CACHE: u8 = dbt_read_source::READ_PAGE_CACHE.0 as u8;
    pub(crate) const DEVICE: u8 = dbt_read_source::READ_DEVICE.0 as u8;
    pub(crate) const AHEAD: u8 = dbt_read_source::READ_AHEAD.0 as u8;
    pub(crate) const OTHER_TASK: u8 = dbt_read_source::READ_OTHER_TASK.0 as u8;
}

/// Keys and values taken by one call. The kernel wants room for all keys that share a hash.
const BATCH: usize = 4096;

/// The two maps of `bpf/latency.bpf.h`, one of which is filled while the other is emptied. `K` and `V` are the types that the skeleton has
/// for `struct dbt_latency_key` and `struct dbt_latency`.
pub(crate) struct LatencyMaps<K, V> {
    even: MapHandle,
    odd: MapHandle,
    keys: Vec<K>,
    values: Vec<V>,
}

impl<K: Copy + Default, V: Copy + Default> LatencyMaps<K, V> {
    pub(crate) fn new(even: MapHandle, odd: MapHandle) -> LatencyMaps<K, V> {
        assert_eq!(even.key_size() as usize, size_of::<K>());
        assert_eq!(even.value_size() as usize, size_of::<V>());
        LatencyMaps {
            even,
            odd,
            keys: vec![K::default(); BATCH],
            values: vec![V::default(); BATCH],
        }
    }

    /// Removes all that was added while the epoch was `epoch`. No program may still be filling that map: call it at least some milliseconds
    /// after the epoch was incremented.
    ///
    /// # Errors
    /// The kernel refused; what was taken until then has been handed over.
    pub(crate) fn take(&mut self, epoch: u64, mut take: impl FnMut(K, V)) -> std::io::Result<()> {
        let map = if epoch & 1 == 1 { &self.odd } else { &self.even };
        // The kernel's position in the map, opaque to us. Hash maps use 32 bits.
        let mut place = [0u64; 8];
        let mut begun = false;
        loop {
            let mut count = BATCH as u32;
            let options = libbpf_sys::bpf_map_batch_opts {
                sz: size_of::<libbpf_sys::bpf_map_batch_opts>() as libbpf_sys::size_t,
                ..Default::default()
            };
            let place_pointer = place.as_mut_ptr().cast();
            // SAFETY: keys and values have room for BATCH elements of the sizes checked in `new`; the rest lives through
            // the call.
            let result = unsafe {
                libbpf_sys::bpf_map_lookup_and_delete_batch(
                    map.as_fd().as_raw_fd(),
                    if begun {
                        place_pointer
                    } else {
                        std::ptr::null_mut()
                    },
                    place_pointer,
                    self.keys.as_mut_ptr().cast(),
                    self.values.as_mut_ptr().cast(),
                    &mut count,
                    &options,
                )
            };
            let error = (result != 0).then(std::io::Error::last_os_error);
            let is_end = error
                .as_ref()
                .is_some_and(|e| e.raw_os_error() == Some(libc::ENOENT));
            if error.is_none() || is_end {
                for n in 0..(count as usize).min(BATCH) {
                    take(self.keys[n], self.values[n]);
                }
            }
            match error {
                None => begun = true,
                Some(_) if is_end => return Ok(()),
                Some(e) if e.raw_os_error() == Some(libc::EINTR) => {}
                Some(e) => return Err(e),
            }
        }
    }
}

/// Waits until every program that had begun before the call has ended, so that none still fills a map that it had chosen. Takes some
/// milliseconds.
pub(crate) fn wait_for_programs() {
    /// `MEMBARRIER_CMD_GLOBAL` of `linux/membarrier.h`: returns after a grace period of RCU, under which programs run.
    const GLOBAL: libc::c_int = 1;
    /// If the kernel does not offer it (CPUs without a tick): no program takes nearly as long.
    const LONG_ENOUGH: std::time::Duration = std::time::Duration::from_millis(10);
    // SAFETY: the call takes no pointer.
    if unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) } != 0 {
        std::thread::sleep(LONG_ENOUGH);
    }
}
