//! Slots of sessions in the kernel's list: free ones, and those ready for new sessions.

use super::Collector;
use crate::{CollectError, process};

impl Collector {
    pub(super) fn take_slot(&mut self) -> Option<u32> {
        if let Some(slot) = self.free_slots.pop() {
            return Some(slot);
        }
        if self.used_slots == self.engine.capacity() {
            return None;
        }
        self.used_slots += 1;
        self.engine.set_slots(self.used_slots);
        Some(self.used_slots - 1)
    }

    /// This slot is in use: it is neither free nor ready for another session. One that was ready is replaced.
    pub(super) fn take_ready_slot(&mut self, slot: u32) -> Result<(), CollectError> {
        self.free_slots.retain(|free| *free != slot);
        self.ready_slots.remove(&slot);
        self.keep_slots_ready()
    }

    pub(super) fn keep_slots_ready(&mut self) -> Result<(), CollectError> {
        let wanted = self.engine.ready_places() as usize;
        while self.ready_slots.len() < wanted
            && (!self.free_slots.is_empty() || self.used_slots < self.engine.capacity())
            && let Some(slot) = self.take_slot()
        {
            self.engine.make_ready(slot)?;
            self.ready_slots.insert(slot);
        }
        Ok(())
    }

    /// Frees slots that were given to sessions that were never reported and have ended since.
    pub(super) fn free_lost_slots(&mut self) -> Result<(), CollectError> {
        for slot in self.ready_slots.clone() {
            if let Some(pid) = self.engine.task_in(slot)
                && !self.sessions.contains_key(&pid)
                && process::parent(pid).is_none()
            {
                self.engine.forget(slot, pid)?;
                self.ready_slots.remove(&slot);
                self.free_slots.push(slot);
            }
        }
        self.keep_slots_ready()
    }
}
