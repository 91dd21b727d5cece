//! What observes the sessions: BPF programs or, where these are not available, a thread that reads /proc.

use std::time::Duration;

use dbtime_model::recording::ProgramCost;

use crate::CollectError;
use crate::bpf::{Event, Losses, Programs, READY_SLOTS, Ring, Sampler, SamplerStatistics};
use crate::database::{WaitSource, WaitTraits};
use crate::session::Unused;

/// Observes sessions and reports what it sees as [`Event`]s.
pub(crate) trait Engine {
    /// How it observes.
    fn describe(&self) -> &'static str;

    /// True if it notices by itself the children that a parent forks.
    fn sees_births(&self) -> bool;

    /// Observes this task (pid and start; 0: whatever task has the pid now) from now on, in this slot. Children of a parent
    /// are observed too, if it sees their births. `space`: number of its address space, 0 = not known.
    ///
    /// # Errors
    /// The kernel refuses.
    fn watch(
        &mut self,
        slot: u32,
        task: (u32, u64),
        source: WaitSource,
        is_parent: bool,
        space: u32,
    ) -> Result<(), CollectError>;

    /// Keeps this empty slot ready for the next child of a parent.
    ///
    /// # Errors
    /// As [`Engine::watch`].
    fn make_ready(&mut self, _slot: u32) -> Result<(), CollectError> {
        Ok(())
    }

    /// How many slots to keep ready: none if births are not seen.
    fn ready_places(&self) -> u32 {
        0
    }

    /// The slot that a task was given at its birth.
    fn place_of(&self, _pid: u32) -> Option<u32> {
        None
    }

    /// The task in a slot.
    fn task_in(&self, _slot: u32) -> Option<u32> {
        None
    }

    /// Stops observing it.
    ///
    /// # Errors
    /// As [`Engine::watch`].
    fn forget(&mut self, slot: u32, pid: u32) -> Result<(), CollectError>;

    /// Sets the number of slots in use.
    fn set_slots(&mut self, slots: u32);

    /// Number of slots.
    fn capacity(&self) -> u32;

    /// What was counted in a slot since the last totals, for a session that has ended.
    fn left_over(&self, slot: u32) -> (u32, Unused);

    /// What the waits of the database are like.
    ///
    /// # Errors
    /// As [`Engine::watch`].
    fn set_waits(&mut self, waits: &WaitTraits) -> Result<(), CollectError>;

    /// Requests totals of all sessions now, whatever second it is.
    fn want_totals(&mut self);

    /// Waits at most this long for a session to begin or end, then returns what was seen.
    ///
    /// # Errors
    /// The kernel refuses.
    fn wait(&mut self, longest: Duration) -> Result<Vec<Event>, CollectError>;

    /// Stops observing, after final totals of all sessions.
    fn stop(&mut self);

    /// What has been done so far.
    fn statistics(&self) -> SamplerStatistics;

    /// What was lost for lack of space so far.
    fn losses(&self) -> Losses;

    /// Does what is due now and then (CLOCK_MONOTONIC, ns): measures its own cost, draws the rates of timers.
    fn attend(&mut self, now: u64);

    /// What its BPF programs cost.
    fn costs(&self) -> Vec<ProgramCost>;

    /// The BPF programs, if it has any.
    fn programs(&mut self) -> Option<&mut Programs>;
}

/// A thousand times what a task that makes call after call needs from one to the next.
const LAST_SUMS: Duration = Duration::from_millis(1);

/// The BPF programs.
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
        // The last pass asked tasks that make call after call for their sums; each sends them at its next call.
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
