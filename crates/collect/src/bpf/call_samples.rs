//! Loads and attaches `bpf/call_samples.bpf.c`: the kernel stack of one task, whenever a timer on its CPU time fires.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, IntoRawFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapHandle};

use super::call_samples_skeleton::CallSamplesSkelBuilder;
use super::call_samples_skeleton::types::bss;
use super::cpu_clock::task_clock;
use super::load::{attach_iterator, run_iterator};
use super::messages::refusals;
use super::plain::{Plain, globals};
use super::ring::Ring;
use crate::CollectError;

/// A sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallSample {
    /// CLOCK_MONOTONIC.
    pub(crate) time_ns: u64,
    /// Addresses in the kernel, leaf first; empty if they could not be read.
    pub(crate) frames: Box<[u64]>,
}

impl CallSample {
    /// From `struct dbt_call_sample`: a number of 64 bits, the length of the stack in bytes, the stack.
    fn read(bytes: &[u8]) -> Option<CallSample> {
        let (words, _) = bytes.as_chunks();
        let (time, rest) = words.split_first()?;
        let (length, frames) = rest.split_first()?;
        let length = usize::try_from(i64::from_ne_bytes(*length)).unwrap_or(0) / size_of::<u64>();
        let frames = frames.iter().take(length).copied();
        Some(CallSample {
            time_ns: u64::from_ne_bytes(*time),
            frames: frames.map(u64::from_ne_bytes).collect(),
        })
    }
}

/// The attached program; dropping it ends the timer and detaches it.
pub(crate) struct CallSamples {
    samples: Ring<CallSample>,
    bss: MapHandle,
    timer_address: u64,
    link: Option<Link>,
}

impl CallSamples {
    /// Samples the task from now on, whenever it has used this much more CPU time and is in the kernel.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn attach(task: u32, period_ns: u64) -> Result<CallSamples, CollectError> {
        let failed = refusals("timer samples of calls");
        let mut storage = MaybeUninit::uninit();
        let mut open = CallSamplesSkelBuilder::default()
            .open(&mut storage)
            .map_err(|e| failed("open", e))?;
        let timer = task_clock(task, period_ns)
            .map_err(|e| CollectError::Kernel(format!("perf_event_open(cpu-clock of task {task}): {e}")))?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.timer_descriptor = timer.as_raw_fd().cast_unsigned();
        }
        let skel = open.load().map_err(|e| failed("load", e))?;
        let samples = Ring::of("samples", &skel.maps.call_samples, CallSample::read)
            .map_err(|e| failed("ring buffer", e))?;
        let bss = MapHandle::try_from(&skel.maps.bss).map_err(|e| failed("maps", e))?;
        attach_iterator(&skel.progs.find_timer)
            .map_err(|e| failed("iterator", e))
            .and_then(|link| {
                run_iterator(&link).map_err(|e| CollectError::Kernel(format!("iterator: {e}")))
            })?;
        let timer_address = globals::<bss>(&bss).map_or(0, |bss| bss.timer_address);
        if timer_address == 0 {
            return Err(CollectError::Kernel(
                "the kernel does not say which timer takes the samples, so that timer's tracepoints would hide the call's"
                    .to_string(),
            ));
        }
        // The link closes the timer's descriptor.
        let link = skel.progs.on_timer.attach_perf_event(timer.into_raw_fd());
        Ok(CallSamples {
            samples,
            bss,
            timer_address,
            link: Some(link.map_err(|e| failed("perf_event", e))?),
        })
    }

    /// Ends the timer: what was sampled can still be taken.
    pub(crate) fn detach(&mut self) {
        self.link = None;
    }

    /// Takes the samples since the last call.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn take(&mut self) -> Result<Vec<CallSample>, CollectError> {
        self.samples.take()
    }

    /// Samples that were lost for lack of room.
    pub(crate) fn lost(&self) -> u64 {
        globals::<bss>(&self.bss).map_or(0, |bss| bss.samples_lost)
    }

    /// The kernel's address of the timer, which its tracepoints report.
    pub(crate) fn timer_address(&self) -> u64 {
        self.timer_address
    }
}

impl Plain for bss {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_as_many_frames_as_it_says_and_as_are_there() {
        let read = |words: &[u64]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            CallSample::read(&bytes).map(|sample| sample.frames.to_vec())
        };
        assert_eq!(read(&[5, 16, 7, 8, 9]), Some(vec![7, 8]));
        assert_eq!(read(&[5, 0, 7]), Some(vec![]));
        // -EFAULT: the stack could not be read.
        assert_eq!(read(&[5, (-14_i64).cast_unsigned(), 7]), Some(vec![]));
        assert_eq!(read(&[5, u64::MAX >> 1, 7]), Some(vec![7]));
        assert_eq!(read(&[5]), None);
    }
}
