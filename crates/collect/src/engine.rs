//! What looks at the sessions: the programs in the kernel, or, where these cannot be had, a thread that reads /proc.

use std::time::Duration;

use dbtime_model::recording::ProgramCost;

use crate::CollectError;
use crate::bpf::{Event, Losses, Programs, READY_SLOTS, Ring, Sampler, SamplerStatistics};
use crate::database::{WaitSource, WaitTraits};
use crate::session::Unused;

/// Looks at sessions and tells what it sees as [`Event`]s.
pub(crate) trait Engine {
    /// How it does it.
    fn describe(&self) -> &'static str;

    /// True when it tells of children that a parent forks by itself.
    fn sees_births(&self) -> bool;

    /// Looks at this task (pid and begin; 0: whatever task has the pid now) from now on, in this place. Children of a parent
    /// are looked at too, where it sees their births. `space`: number of its address space, 0 = not known.
    ///
    /// # Errors
    /// The kernel does not take it.
    fn watch(
        &mut self,
        slot: u32,
        task: (u32, u64),
        source: WaitSource,
        is_parent: bool,
        space: u32,
    ) -> Result<(), CollectError>;

    /// Keeps this empty place ready for the next child of a parent.
    ///
    /// # Errors
    /// As [`Engine::watch`].
    fn make_ready(&mut self, _slot: u32) -> Result<(), CollectError> {
        Ok(())
    }

    /// How many places are to be kept ready: none where births are not seen.
    fn ready_places(&self) -> u32 {
        0
    }

    /// The place that a task has been given at its birth.
    fn place_of(&self, _pid: u32) -> Option<u32> {
        None
    }

    /// The task that is in a place.
    fn task_in(&self, _slot: u32) -> Option<u32> {
        None
    }

    /// Looks at it no longer.
    ///
    /// # Errors
    /// As [`Engine::watch`].
    fn forget(&mut self, slot: u32, pid: u32) -> Result<(), CollectError>;

    /// Places in use.
    fn set_slots(&mut self, slots: u32);

    /// Places there are.
    fn capacity(&self) -> u32;

    /// What was counted in a place since the last totals, for a session that has ended.
    fn left_over(&self, slot: u32) -> (u32, Unused);

    /// What the waits of the database are like.
    ///
    /// # Errors
    /// As [`Engine::watch`].
    fn set_waits(&mut self, waits: &WaitTraits) -> Result<(), CollectError>;

    /// Totals of all sessions are wanted now, whatever second it is.
    fn want_totals(&mut self);

    /// Waits at most this long for a session to begin or end, then takes what was seen.
    ///
    /// # Errors
    /// The kernel refuses.
    fn wait(&mut self, longest: Duration) -> Result<Vec<Event>, CollectError>;

    /// Ends looking, after last totals of all sessions.
    fn stop(&mut self);

    /// What has been done so far.
    fn statistics(&self) -> SamplerStatistics;

    /// What found no room so far.
    fn losses(&self) -> Losses;

    /// Does what is due now and then (CLOCK_MONOTONIC, ns): looks at its own cost, draws the rates of timers.
    fn attend(&mut self, now: u64);

    /// What its parts in the kernel cost.
    fn costs(&self) -> Vec<ProgramCost>;

    /// The programs, where it has some.
    fn programs(&mut self) -> Option<&mut Programs>;
}

/// A thousand times what a task needs to its next call that has just made one.
const LAST_SUMS: Duration = Duration::from_millis(1);

/// The programs in the kernel.
pub(crate) struct BpfEngine {
    pub(crate) programs: Programs,
    pub(crate) events: Ring<Event>,
    pub(crate) sampler: Sampler,
}

impl Engine for BpfEngine {
    fn describe(&self) -> &'static str {
        self.programs.sampler_kind.describe()
    }

    fn sees_births(&self) -> bool {
        true
    }

    fn watch(
        &mut self,
        slot: u32,
        task: (u32, u64),
        source: WaitSource,
        is_parent: bool,
        space: u32,
    ) -> Result<(), CollectError> {
        self.programs.set_slot(slot, Some(task), source)?;
        self.programs
            .add_target(task.0, source, is_parent, Some(slot), space)
    }

    fn make_ready(&mut self, slot: u32) -> Result<(), CollectError> {
        self.programs.make_slot_ready(slot)
    }

    fn ready_places(&self) -> u32 {
        READY_SLOTS
    }

    fn place_of(&self, pid: u32) -> Option<u32> {
        self.programs.slot_of(pid)
    }

    fn task_in(&self, slot: u32) -> Option<u32> {
        self.programs.task_in(slot)
    }

    fn forget(&mut self, slot: u32, pid: u32) -> Result<(), CollectError> {
        self.programs.remove_target(pid);
        self.programs.set_slot(slot, None, WaitSource::None)
    }

    fn set_slots(&mut self, slots: u32) {
        self.sampler.set_slots(slots);
    }

    fn capacity(&self) -> u32 {
        self.programs.capacity()
    }

    fn left_over(&self, slot: u32) -> (u32, Unused) {
        self.programs.read_slot(slot)
    }

    fn set_waits(&mut self, waits: &WaitTraits) -> Result<(), CollectError> {
        self.programs.set_waits(waits)
    }

    fn want_totals(&mut self) {
        self.sampler.want_totals();
    }

    fn wait(&mut self, longest: Duration) -> Result<Vec<Event>, CollectError> {
        let mut events = self.events.wait(longest)?;
        for event in &mut events {
            self.programs.plans.tell_apart(event);
        }
        Ok(events)
    }

    fn stop(&mut self) {
        self.sampler.stop();
        // A task that makes call after call was asked for its sums by the last pass, and sends them at its next call.
        std::thread::sleep(LAST_SUMS);
    }

    fn statistics(&self) -> SamplerStatistics {
        self.sampler.statistics()
    }

    fn losses(&self) -> Losses {
        self.programs.losses()
    }

    fn attend(&mut self, now: u64) {
        self.programs.run_times.step(now);
        self.programs.clocks.draw(now);
    }

    fn costs(&self) -> Vec<ProgramCost> {
        self.programs.costs()
    }

    fn programs(&mut self) -> Option<&mut Programs> {
        Some(&mut self.programs)
    }
}
