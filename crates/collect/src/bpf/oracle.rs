//! Probes in Oracle's functions that begin and end a wait (`bpf/oracle.bpf.c`).

use std::collections::HashSet;
use std::mem::{MaybeUninit, size_of};
use std::os::unix::fs::MetadataExt;
use std::{fs, io};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use super::latency::LatencyMaps;
use super::messages::refusals;
use super::oracle_skeleton::OracleSkelBuilder;
use super::oracle_skeleton::types::{bss, dbt_latency, dbt_latency_key, dbt_oracle_wait};
use super::plain::{Plain, globals};
use super::{Latency, LatencyKey};
use crate::oracle::wait_functions::{Places, places};
use crate::{CollectError, executable};

/// Different latencies (session, event, bucket) in a second.
const MAX_LATENCIES: u32 = 65_536;

/// The attached probes; dropping it removes them.
pub(crate) struct OracleProbes {
    sessions: MapHandle,
    epoch: MapHandle,
    bss: MapHandle,
    latencies: LatencyMaps<dbt_latency_key, dbt_latency>,
    _links: Vec<Link>,
}

impl Plain for bss {}

impl OracleProbes {
    /// Puts probes into the executables of these processes. The second value says where they are.
    ///
    /// # Errors
    /// An executable has no such functions, or the kernel refuses.
    pub(crate) fn attach(pids: &[u32]) -> Result<(OracleProbes, Vec<String>), CollectError> {
        let failed = refusals("--uprobes");
        let mut storage = MaybeUninit::uninit();
        let mut open = OracleSkelBuilder::default()
            .open(&mut storage)
            .map_err(|e| failed("open", e))?;
        for map in [&mut open.maps.latency_even, &mut open.maps.latency_odd] {
            map.set_max_entries(MAX_LATENCIES)
                .map_err(|e| failed("maps", e))?;
        }
        let skel = open.load().map_err(|e| failed("load", e))?;
        let mut links = Vec::new();
        let mut told = Vec::new();
        let mut files = HashSet::new();
        for &pid in pids {
            let path = executable::path(pid);
            let file = match fs::metadata(&path) {
                Ok(metadata) => (metadata.dev(), metadata.ino()),
                // The process has ended.
                Err(_) => continue,
            };
            if !files.insert(file) {
                continue;
            }
            let places: Places = places(pid).map_err(|e| CollectError::io(&path, e))?;
            let programs = [
                &skel.progs.on_begin_wait,
                &skel.progs.on_end_wait,
                &skel.progs.on_wait_time,
            ];
            // The end first: a wait that is seen to begin must be seen to end.
            for n in [2, 1, 0] {
                let every_process = -1;
                let link = programs[n].attach_uprobe(false, every_process, &path, places[n].0 as usize);
                links.push(link.map_err(|e| failed("attach", e))?);
            }
            told.push(format!(
                "probes at kskthbwt+{}, kskthewt+{}, kews_update_wait_time+{}: each hit costs about 0.7 us, in every \
                process of this executable",
                places[0].1, places[1].1, places[2].1
            ));
        }
        let handle = |map: &libbpf_rs::MapMut<'_>| MapHandle::try_from(map).map_err(|e| failed("maps", e));
        let probes = OracleProbes {
            sessions: handle(&skel.maps.oracle_waits)?,
            epoch: handle(&skel.maps.data_epoch)?,
            bss: handle(&skel.maps.bss)?,
            latencies: LatencyMaps::new(handle(&skel.maps.latency_even)?, handle(&skel.maps.latency_odd)?),
            _links: links,
        };
        Ok((probes, told))
    }

    /// Records the waits of this process from now on.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn watch(&self, pid: u32) -> Result<(), CollectError> {
        let none = [0; size_of::<dbt_oracle_wait>()];
        self.sessions
            .update(&pid.to_ne_bytes(), &none, MapFlags::ANY)
            .map_err(|e| CollectError::Kernel(format!("BPF map of Oracle's sessions: {e}")))
    }

    /// Stops recording them.
    pub(crate) fn forget(&self, pid: u32) {
        // There is nothing to be done about a session that is not there.
        let _ = self.sessions.delete(&pid.to_ne_bytes());
    }

    /// Sets which of the two maps of latencies is filled from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn set_latency_epoch(&self, epoch: u64) -> Result<(), CollectError> {
        self.epoch
            .update(&0u32.to_ne_bytes(), &epoch.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| CollectError::Kernel(format!("BPF map of the epoch: {e}")))
    }

    /// As [`LatencyMaps::take`].
    ///
    /// # Errors
    /// The kernel refused.
    pub(crate) fn take(&mut self, epoch: u64, mut take: impl FnMut(LatencyKey, Latency)) -> io::Result<()> {
        self.latencies.take(epoch, |key, latency| {
            let key = LatencyKey {
                start_ns: key.start_ns,
                pid: key.pid,
                name: key.name,
                bucket: key.bucket,
                kind: key.kind,
                ..LatencyKey::default()
            };
            let latency = Latency {
                count: latency.count,
                sum_ns: latency.sum_ns,
                max_ns: latency.max_ns,
            };
            take(key, latency);
        })
    }

    /// Latencies for which there was no room, and ends of waits whose beginning was not seen.
    pub(crate) fn losses(&self) -> (u64, u64) {
        let bss = globals::<bss>(&self.bss);
        bss.map_or((0, 0), |bss| (bss.latency_lost, bss.ends_without_begin))
    }
}
