//! Uses of internal locks, if they are counted.

use arcstr::ArcStr;
use dbtime_model::{LockUse, LockUses, NO_STACK, StackId};

use super::Collector;
use crate::CollectError;
use crate::database::Database;
use crate::held_locks::{LockName, RawLock};
use crate::lock_uses::LockWords;
use crate::symbols::Symbolizer;

impl Collector {
    /// Sets between which moments (microseconds since the Unix epoch) uses of internal locks count, if they are counted. The first call has
    /// to come before `begin_us`; later ones may change `end_us`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn count_lock_uses(&mut self, begin_us: i64, end_us: i64) -> Result<(), CollectError> {
        let (begin_ns, end_ns) = (self.clock.monotonic_at(begin_us), self.clock.monotonic_at(end_us));
        match &mut self.lock_counter {
            Some(counter) => counter.count_between(begin_ns, end_ns),
            None => Ok(()),
        }
    }

    /// What was counted of these, once their time is over: by then the probes are removed.
    pub fn lock_uses(&self) -> Option<&LockUses> {
        self.lock_counter.as_ref()?.uses()
    }

    /// Ends counting when its time is over.
    pub(super) fn step_lock_uses(&mut self, now: u64) -> Result<(), CollectError> {
        if let Some(counter) = &mut self.lock_counter
            && counter.step(now)?
        {
            self.finish_lock_uses()?;
        }
        Ok(())
    }

    pub(super) fn finish_lock_uses(&mut self) -> Result<(), CollectError> {
        struct Words<'a>(&'a mut dyn Database, &'a mut Symbolizer);
        impl LockWords for Words<'_> {
            fn lock(&mut self, lock: RawLock) -> LockName {
                self.0.lock_name(lock)
            }

            fn relation(&mut self, file: &str) -> ArcStr {
                self.0.relation_of_file(file).unwrap_or_default()
            }

            fn code(&mut self, pid: u32, caller: u64, outer: u64) -> StackId {
                // The call itself, not what follows it: the first address of a stack is taken as it is.
                match (caller, outer) {
                    (0, _) => NO_STACK,
                    (_, 0) => self.1.user_stack(pid, &[caller - 1], &[], |_| None),
                    _ => self.1.user_stack(pid, &[caller - 1, outer], &[], |_| None),
                }
            }

            fn ids_of(&mut self, uses: &mut [LockUse]) {
                self.1.name_all();
                for used in uses {
                    used.user_stack = self.1.id_of(used.user_stack);
                }
            }
        }
        let Some(counter) = &mut self.lock_counter else {
            return Ok(());
        };
        let mut words = Words(&mut *self.database, &mut self.symbolizer);
        counter.finish(self.sessions.keys().copied(), &mut words, self.clock)?;
        // As long as statements are still executing, their texts can be read.
        for (pid, statement) in counter.take_statements() {
            self.see_statement(pid, statement);
        }
        Ok(())
    }
}
