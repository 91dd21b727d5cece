//! The server's lock table, if it is read.

use super::Collector;
use crate::bpf::thread_cpu_ns;

impl Collector {
    /// Reports whether the lock table can be read, before anything is recorded.
    pub(super) fn find_locks(&mut self) {
        if self.locks.is_none() {
            return;
        }
        match self.database.look_at_locks(&std::mem::take(&mut self.newcomers)) {
            Some(Ok(_)) => {
                if let Some(why) = self.database.without_fast_path() {
                    self.reasons.push(format!(
                        "fast-path locks (weak relation locks, for which nobody can wait) are not recorded: {why}"
                    ));
                }
            }
            Some(Err(why)) => self
                .reasons
                .push(format!("the lock table is not recorded: {why}")),
            None => self.locks = None,
        }
    }

    /// Records who holds and who waits for which lock of the server's table.
    pub(super) fn look_at_locks(&mut self, now: u64) {
        let Some(locks) = self.locks.as_mut().filter(|locks| locks.is_due(now)) else {
            return;
        };
        if self.gone.is_some() {
            locks.finish(&mut self.rows);
            return;
        }
        let before = thread_cpu_ns();
        let look = self.database.look_at_locks(&std::mem::take(&mut self.newcomers));
        let period = (now, thread_cpu_ns().saturating_sub(before));
        let Some(Ok(look)) = look else {
            locks.take_failure(period, self.clock, &mut self.rows);
            return;
        };
        let session = |pid: u32| self.sessions.get(&pid).map(|session| session.id);
        let executing = locks.take(period, &look, self.clock, session, &mut self.rows);
        for (pid, statement) in executing {
            self.see_statement(pid, statement);
        }
    }

    /// Reports those held or waited for now, up to now.
    pub(super) fn finish_locks(&mut self) {
        if let Some(locks) = &mut self.locks {
            locks.finish(&mut self.rows);
        }
    }
}
