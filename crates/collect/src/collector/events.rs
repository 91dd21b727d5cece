//! What the kernel has sent: samples, totals, beginnings and ends, each entered into the account of its session.

use std::time::Instant;

use super::asked::look_how_far_standby_is;
use super::{Collector, Mechanism, NoRoomFor};
use crate::accounting::Totals;
use crate::bpf::{Event, SampleEvent, StackEnd};
use crate::causes::Causes;
use crate::clock::monotonic_ns;
use crate::comments::Ends;
use crate::database::Texts;
use crate::held_locks::HeldId;
use crate::session::{LiveSession, Reported, Unused};
use crate::{CollectError, causes, process};

impl Collector {
    /// Enters an event into the account of its session.
    pub(super) fn take(&mut self, event: Event) -> Result<(), CollectError> {
        match event {
            Event::Sample(sample) => self.take_sample(&sample),
            Event::Counts { pid, time_ns, counts } => {
                if let Some(session) = self.sessions.get_mut(&pid) {
                    session.count((time_ns, counts), self.clock, &mut self.rows.counters);
                }
            }
            Event::Comment {
                pid,
                since,
                begin,
                end,
                is_whole,
            } => {
                let begin = if is_whole { &end } else { &begin };
                let end = &end;
                self.take_comment(pid, since, Ends { begin, end, is_whole });
            }
            Event::Woken { pid, time_ns, by } => {
                if let Some(causes) = &mut self.causes {
                    causes.woken(pid, time_ns, by);
                }
            }
            Event::Begin {
                pid,
                start_ns,
                source,
                slot,
            } => self.begin_session(pid, start_ns, source, slot)?,
            Event::Totals {
                pid,
                time_ns,
                ended: true,
                ..
            } => {
                if let Some(causes) = &mut self.causes {
                    causes.end(pid, time_ns);
                }
                if let Some(session) = self.sessions.get_mut(&pid) {
                    session.end = Some(event);
                    self.ending.push(pid);
                }
            }
            Event::Totals {
                pid,
                start_ns,
                repeats,
                torn,
                torn_stacks,
                displaced,
                stood_in,
                ..
            } => {
                let Some(mut session) = self.sessions.remove(&pid) else {
                    return Ok(());
                };
                session.repeat(repeats);
                if let Some(causes) = &mut self.causes {
                    causes.repeat(pid, repeats);
                    causes.know(pid, start_ns);
                }
                if session.end.is_none() {
                    let unused = Unused {
                        torn,
                        torn_stacks,
                        displaced,
                        stood_in,
                    };
                    self.take_totals(&mut session, &event, unused);
                }
                self.sessions.insert(pid, session);
            }
        }
        Ok(())
    }

    fn take_sample(&mut self, sample: &SampleEvent) {
        let Some(session) = self.sessions.get_mut(&sample.pid) else {
            return;
        };
        let kernel = if sample.kernel_names.is_empty() {
            self.symbolizer.kernel_stack(&sample.kernel)
        } else {
            self.symbolizer.named_stack(sample.kernel_names.clone())
        };
        let routine_name = |routine| self.database.routine_name(sample.pid, routine);
        let user = self
            .symbolizer
            .user_stack(sample.pid, &sample.user, &sample.routines, routine_name);
        if sample.wait.is_none() {
            self.quality.waits_not_read += 1;
        }
        self.quality.comments_not_read +=
            u64::from(self.options.texts != Texts::None && sample.comment.is_none());
        match sample.user_end {
            Some(StackEnd::Complete) => self.quality.stacks_complete += 1,
            Some(StackEnd::Truncated) => self.quality.stacks_truncated += 1,
            Some(StackEnd::Broken) => self.quality.stacks_broken += 1,
            None => {}
        }
        if sample.new_code
            && let Some(unwinding) = &mut self.unwinding
        {
            unwinding.look_again(sample.pid, Instant::now());
        }
        let name = |lock| self.database.lock_name(lock);
        let held = match (&sample.locks, self.options.mechanism) {
            (Some(locks), Mechanism::Bpf) => self.held_locks.number(locks, name),
            (None, Mechanism::Bpf) => HeldId::NOT_READ,
            // They are not read: the recording says so as a whole.
            (_, Mechanism::Proc) => HeldId::NONE,
        };
        let found = session.sample(sample, (kernel, user), held);
        if let Some(causes) = &mut self.causes {
            causes.repeat(sample.pid, sample.repeats);
            let moment = (sample.pass, sample.time_ns);
            match (found, sample.off_cpu_state) {
                (Some(found), Some(_)) => {
                    let for_standby = causes::is_for_standby(&found.wait);
                    causes.off_cpu(sample.pid, moment, found, !sample.stack_torn);
                    if for_standby {
                        causes.waits_for_standby(sample.pid, self.database.waits_for_standby(sample.pid));
                    }
                    look_how_far_standby_is(causes, &*self.database, sample.pid);
                }
                (Some(found), None) => causes.on_cpu(sample.pid, sample.time_ns, found),
                (None, _) => {}
            }
        }
        if session.is_application_unknown()
            && let Some(name) = self.database.application(sample.pid)
        {
            session.set_application(name, &mut self.next_id);
        }
        self.see_statement(sample.pid, sample.executing.statement);
    }

    fn take_comment(&mut self, pid: u32, since: u64, ends: Ends<'_>) {
        let id = self.comments.id_of(ends, &mut self.rows);
        if let Some(session) = self.sessions.get_mut(&pid) {
            session.learn_comment(since, id);
        }
        if self.comments.has_more() && self.noted.insert(NoRoomFor::Comments) {
            self.note(
                "more statement comments than are kept: the traces, or routes, of further ones are not told apart"
                    .to_string(),
            );
        }
    }

    /// The session of this process has been seen executing a statement.
    pub(super) fn see_statement(&mut self, pid: u32, statement: u64) {
        let now = Instant::now();
        let text_of = |statement| self.database.statement_text(pid, statement, self.options.texts);
        self.statements
            .see(statement, now, &mut self.rows, || text_of(statement));
        if statement != 0
            && self.options.texts != Texts::None
            && let Some(met) = self.statements.meet(now, || self.database.executing(pid))
        {
            self.statements.see(met, now, &mut self.rows, || text_of(met));
        }
        if let Some(text) = self.statements.say_once() {
            self.note(text.to_string());
        }
    }

    /// A parallel worker works for its leader's client, as long as the leader is there, and the leader waits for it.
    pub(super) fn follow_leader(&mut self, session: &mut LiveSession) {
        let is_known = |causes: &Causes| causes.knows_leader(session.pid);
        if session.has_client() && self.causes.as_ref().is_none_or(is_known) {
            return;
        }
        let Some(leader) = session.leader_pid().and_then(|pid| self.sessions.get(&pid)) else {
            return;
        };
        // In a pid namespace of its own, the database has other pids.
        if process::innermost_pid(leader.pid) != Some(leader.pid) {
            return;
        }
        if !session.has_client() {
            session.take_client_of(leader);
        }
        if let Some(causes) = &mut self.causes {
            causes.works_for(session.pid, leader.pid);
        }
    }

    /// The same for all of them.
    pub(super) fn take_clients_of_leaders(&mut self) {
        let is_worker = |session: &LiveSession| session.leader_pid().is_some() && !session.has_client();
        let workers: Vec<u32> = self
            .sessions
            .values()
            .filter(|session| is_worker(session))
            .map(|session| session.pid)
            .collect();
        for pid in workers {
            if let Some(mut session) = self.sessions.remove(&pid) {
                self.follow_leader(&mut session);
                self.sessions.insert(pid, session);
            }
        }
    }

    pub(super) fn take_totals(&mut self, session: &mut LiveSession, event: &Event, unused: Unused) {
        let Event::Totals {
            start_ns,
            time_ns,
            on_cpu_ns,
            run_queue_ns,
            ended,
            ref sums,
            ..
        } = *event
        else {
            return;
        };
        match (sums.as_ref().and_then(|sums| sums.numbers), session.title()) {
            (Some(numbers), Some(title)) => self.alike.learn(numbers, title),
            (Some(numbers), None) if ended && session.is_nameless() => {
                if let Some(title) = self.alike.title(numbers) {
                    session.set_title(title);
                }
            }
            _ => {}
        }
        let asks = session.may_have_named_application(on_cpu_ns);
        let name = asks.then(|| self.database.application(session.pid)).flatten();
        let mut name = name.or_else(|| self.application_told(session));
        let settles = name.as_deref().is_some_and(|name| session.is_another_as(name));
        if let Some(name) = name.take_if(|_| !settles) {
            session.set_application(name, &mut self.next_id);
        }
        self.follow_leader(session);
        if let Some(latencies) = &mut self.latencies {
            latencies.know(session.pid, start_ns, session.id);
            if ended {
                latencies.forget(session.pid, start_ns, monotonic_ns());
            }
        }
        if let Some(counter) = &mut self.lock_counter {
            counter.know(session.pid, start_ns, session.id);
        }
        for of_wait in sums.iter().flat_map(|sums| &sums.waits) {
            self.see_statement(session.pid, of_wait.executing.statement);
        }
        if let Some(causes) = &mut self.causes
            && let Some(queued_ns) = session.has_queued(run_queue_ns)
        {
            causes.queued(session.pid, queued_ns);
        }
        let totals = Totals {
            now: time_ns,
            on_cpu: on_cpu_ns,
            run_queue: run_queue_ns,
        };
        let reported = Reported {
            start_ns,
            totals,
            sums: sums.as_deref(),
            unused,
            ended,
            settles: settles || self.options.at_once,
        };
        self.quality.samples += session.totals(reported, self.clock, &mut self.rows, &mut self.pool);
        if ended
            && session.is_nameless()
            && let Some(numbers) = sums.as_ref().and_then(|sums| sums.numbers)
            && let Some(row) = self.rows.sessions.pop_if(|row| row.id == session.id)
        {
            self.alike.wait(numbers, row, monotonic_ns());
        }
        if let Some(name) = name.filter(|_| session.is_accounted_up_to(time_ns)) {
            session.set_application(name, &mut self.next_id);
        }
        self.quality.torn += u64::from(unused.torn);
        self.quality.torn_stacks += u64::from(unused.torn_stacks);
        self.quality.displaced += u64::from(unused.displaced);
        self.quality.stood_in += u64::from(unused.stood_in);
    }
}
