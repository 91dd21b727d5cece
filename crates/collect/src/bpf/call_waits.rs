//! Loads and attaches `bpf/call_waits.bpf.c`: the wait event and the statement in which calls of one task begin.

use std::mem::MaybeUninit;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapHandle};

use super::call_waits_skeleton::CallWaitsSkelBuilder;
use super::call_waits_skeleton::types::{bss, dbt_call_wait, dbt_wait_source};
use super::messages::refusals;
use super::plain::{Plain, globals, read, the_same};
use super::ring::Ring;
use super::wait_source::source_to;
use crate::CollectError;
use crate::database::{Executing, WaitSource};

/// A call that began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallWait {
    /// CLOCK_MONOTONIC.
    pub(crate) time_ns: u64,
    /// Wait event, as the database counts them; `u32::MAX` = it could not be read.
    pub(crate) wait: u32,
    /// What the session reports that it executes.
    pub(crate) executing: Executing,
}

/// The attached program; dropping it detaches it.
pub(crate) struct CallWaits {
    calls: Ring<CallWait>,
    bss: MapHandle,
    _link: Link,
}

impl CallWaits {
    /// Records the calls with this number that the task makes from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn attach(task: u32, call: i32, source: WaitSource) -> Result<CallWaits, CollectError> {
        let failed = refusals("wait events of calls");
        let mut storage = MaybeUninit::uninit();
        let mut open = CallWaitsSkelBuilder::default()
            .open(&mut storage)
            .map_err(|e| failed("open", e))?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.task_id = task;
            constants.call = call;
            constants.text_seed = fastrand::u64(..);
            constants.wait_source = the_same(&source_to(source));
        }
        let skel = open.load().map_err(|e| failed("load", e))?;
        let calls =
            Ring::of("calls", &skel.maps.call_waits, call_wait).map_err(|e| failed("ring buffer", e))?;
        Ok(CallWaits {
            calls,
            bss: MapHandle::try_from(&skel.maps.bss).map_err(|e| failed("maps", e))?,
            _link: skel
                .progs
                .on_call
                .attach_trace()
                .map_err(|e| failed("attach", e))?,
        })
    }

    /// Takes the calls recorded since the last time.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn take(&mut self) -> Result<Vec<CallWait>, CollectError> {
        self.calls.take()
    }

    /// Calls that were lost for lack of room.
    pub(crate) fn lost(&self) -> u64 {
        globals::<bss>(&self.bss).map_or(0, |bss| bss.calls_lost)
    }
}

impl Plain for bss {}
impl Plain for dbt_call_wait {}
impl Plain for dbt_wait_source {}

fn call_wait(bytes: &[u8]) -> Option<CallWait> {
    let dbt_call_wait {
        time_ns,
        statement,
        wait,
        session_state,
    } = read(bytes)?;
    Some(CallWait {
        time_ns,
        wait,
        executing: Executing {
            statement,
            plan: 0,
            session_state,
        },
    })
}
