//! A session while it is recorded: its samples and totals come in, its rows go out.

mod naming;
mod off_cpu;

use std::collections::BTreeMap;
use std::rc::Rc;

use arcstr::literal;
use dbtime_model::{
    ActivityRow, BackendType, CounterRow, Rows, Session, SessionId, SessionState, StackId, State, StateGroup,
    Wait, comment, counter,
};

use crate::accounting::{Account, Cell, Kind, Pool, RawWait, Spent, Totals};
use crate::bpf::{Event, ExactSums, Listed, SampleEvent, Tier};
use crate::causes::Found;
use crate::clock::Clock;
use crate::comments::LastComments;
use crate::database::{Member, WaitNames, WaitSource};
use crate::held_locks::{HeldId, HeldLocks};
use crate::joined::Joined;
use crate::postgres::connection::OWN_APPLICATION;
use crate::postgres::title::Title;
use crate::postgres::titles::Titles;
use crate::seconds::Seconds;
use crate::task_counts::{Counted, TaskCounts};

pub(crate) use naming::{Description, Naming, Role};
pub(crate) use off_cpu::off_cpu_state;

/// Maximum number of wait events of a session whose blocked state is remembered. Beyond that the memory starts over: a server may invent
/// some.
const REMEMBERED: usize = 10_000;

/// Maximum number of application names in a session, each of which makes its time another session. Beyond that the name is empty.
const MOST_APPLICATIONS: usize = 64;

/// What a sampler pass could not use, since the last totals.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Unused {
    pub(crate) torn: u32,
    pub(crate) torn_stacks: u32,
    pub(crate) displaced: u32,
    /// Used, but with the wait event of another wait.
    pub(crate) stood_in: u32,
}

/// What the kernel reported about a session at a moment.
pub(crate) struct Reported<'a> {
    pub(crate) start_ns: u64,
    pub(crate) totals: Totals,
    /// Exact tier; None if they could not be read.
    pub(crate) sums: Option<&'a ExactSums>,
    pub(crate) unused: Unused,
    /// It was the last report.
    pub(crate) ended: bool,
    /// Nothing may stay pending.
    pub(crate) settles: bool,
}

/// What is known about a session from the start.
pub(crate) struct Identity {
    pub(crate) id: SessionId,
    pub(crate) pid: u32,
    pub(crate) slot: u32,
    pub(crate) names: Rc<dyn WaitNames>,
    pub(crate) titles: Rc<Titles>,
    pub(crate) held_locks: Rc<HeldLocks>,
    pub(crate) joined: Rc<Joined>,
    pub(crate) source: WaitSource,
    pub(crate) role: Role,
    pub(crate) tier: Tier,
    /// Comments of its statements are recorded.
    pub(crate) comments: bool,
}

/// A session that is being recorded.
pub(crate) struct LiveSession {
    pub(crate) id: SessionId,
    pub(crate) pid: u32,
    pub(crate) slot: u32,
    /// CLOCK_MONOTONIC; 0 until the kernel has reported it.
    start_ns: u64,
    names: Rc<dyn WaitNames>,
    held_locks: Rc<HeldLocks>,
    joined: Rc<Joined>,
    source: WaitSource,
    naming: Naming,
    /// The name that its application gives itself; empty = none, or not known yet.
    application: String,
    /// The ids that it has had, by application.
    ids: BTreeMap<String, SessionId>,
    described: bool,
    tier: Tier,
    account: Option<Account>,
    /// Cell of the sampler's last row, which later passes found unchanged.
    last_waiting: Option<Cell>,
    /// None: they are not recorded.
    comments: Option<LastComments>,
    /// State in which it was last seen blocked, by wait event.
    blocked_as: BTreeMap<RawWait, State>,
    waits_not_read: u64,
    /// Samples of an event that the database does not know.
    waits_unknown: u64,
    /// Switches missed so far.
    missed: u64,
    /// If it is asked for, and once it has been reported.
    counted: Option<Counted>,
    /// A row says how many transactions it made.
    pub(crate) counts_transactions: bool,
    /// Its CPU time when its transactions were last counted.
    counted_at_cpu_ns: u64,
    /// It had then used CPU since the previous count.
    has_worked: bool,
    /// Its last totals, once it has ended. A pass of the sampler may still be under way then: what it sends afterwards
    /// says how often the row before held, so the account is closed a moment later.
    pub(crate) end: Option<Event>,
}

impl LiveSession {
    /// A session that exists already: its account opens with the first totals.
    pub(crate) fn adopt(identity: Identity, now: u64) -> LiveSession {
        LiveSession {
            id: identity.id,
            pid: identity.pid,
            slot: identity.slot,
            start_ns: 0,
            names: identity.names,
            held_locks: identity.held_locks,
            joined: identity.joined,
            source: identity.source,
            naming: Naming::new(identity.role, identity.titles, identity.pid, now),
            application: String::new(),
            ids: BTreeMap::new(),
            described: false,
            tier: identity.tier,
            account: None,
            last_waiting: None,
            comments: identity.comments.then(LastComments::default),
            blocked_as: BTreeMap::new(),
            waits_not_read: 0,
            waits_unknown: 0,
            missed: 0,
            counted: None,
            counts_transactions: false,
            counted_at_cpu_ns: 0,
            has_worked: false,
            end: None,
        }
    }

    /// A session that has just begun: all of its time is accounted for. `period_ns`: from one sample to the next.
    pub(crate) fn begin(identity: Identity, start_ns: u64, now: u64, period_ns: u64) -> LiveSession {
        LiveSession {
            start_ns,
            account: Account::begin(identity.tier, start_ns, period_ns),
            counted: Some(Counted::begin(start_ns)),
            ..LiveSession::adopt(identity, now)
        }
    }

    /// True if it is this member of its database, and not another one of the same process.
    pub(crate) fn is(&self, member: &Member) -> bool {
        self.pid == member.pid && self.source == member.source && *self.naming.role() == member.role
    }

    /// From now on its waits have these names.
    pub(crate) fn set_names(&mut self, names: Rc<dyn WaitNames>) {
        self.names = names;
    }

    /// When it ended, CLOCK_MONOTONIC; None while it lives.
    pub(crate) fn end_ns(&self) -> Option<u64> {
        match self.end {
            Some(Event::Totals { time_ns, .. }) => Some(time_ns),
            _ => None,
        }
    }

    /// When it began, CLOCK_MONOTONIC; None until the kernel has reported it.
    pub(crate) fn start_ns(&self) -> Option<u64> {
        (self.start_ns > 0).then_some(self.start_ns)
    }

    /// True once the kernel has reported it.
    pub(crate) fn has_account(&self) -> bool {
        self.account.is_some()
    }

    /// When the kernel last reported its totals, CLOCK_MONOTONIC; when it was taken up, if it never did.
    pub(crate) fn last_report_ns(&self) -> u64 {
        let adopted_ns = self.naming.adopted_ns();
        self.account
            .as_ref()
            .map_or(adopted_ns, |account| account.last().now.max(adopted_ns))
    }

    /// True for a live session that is known to be a client's.
    pub(crate) fn is_client(&self) -> bool {
        let title = self.naming.title();
        self.end.is_none() && title.is_some_and(|title| title.backend_type.0 == BackendType::CLIENT)
    }

    /// True if it may have made transactions since the last call: it has used CPU, or is not counted yet. CPU time is reported once a
    /// second, and this is called once a second, each by its own clock: if nothing was reported in between, the previous report counts.
    pub(crate) fn may_have_made_transactions(&mut self) -> bool {
        let cpu_ns = self.account.as_ref().map_or(0, |account| account.last().on_cpu);
        let before = std::mem::replace(&mut self.counted_at_cpu_ns, cpu_ns);
        let has_worked = std::mem::replace(&mut self.has_worked, cpu_ns != before);
        self.has_worked || has_worked || !self.counts_transactions
    }

    /// True as long as it is not known what kind of process it is.
    pub(crate) fn is_nameless(&self) -> bool {
        self.naming.is_nameless()
    }

    /// True for a process so young that it may name itself at any moment.
    pub(crate) fn is_about_to_be_named(&self, now: u64) -> bool {
        self.naming.is_about_to_be_named(now)
    }

    /// Reads the title of a process that has none.
    pub(crate) fn look_for_title(&mut self, now: u64) {
        self.naming.look(now);
    }

    /// Reads the title, if it is not settled.
    pub(crate) fn read_title(&mut self) {
        if !self.described {
            self.naming.read();
        }
    }

    /// True when its application may have given itself a name since the last totals: it has used CPU, or is not known yet.
    pub(crate) fn may_have_named_application(&self, on_cpu_ns: u64) -> bool {
        let has_run = |account: &Account| account.last().on_cpu != on_cpu_ns;
        self.is_application_unknown() || self.account.as_ref().is_some_and(has_run)
    }

    /// How long it was in run queues since the last totals, nanoseconds.
    pub(crate) fn has_queued(&self, run_queue_ns: u64) -> Option<u64> {
        let account = self.account.as_ref()?;
        Some(run_queue_ns.saturating_sub(account.last().run_queue))
    }

    /// True as long as nothing is known of its application, although it may have one.
    pub(crate) fn is_application_unknown(&self) -> bool {
        self.application.is_empty() && !self.described && *self.naming.role() == Role::Backend
    }

    /// True if its time is another session's once its application has this name: it has been described under another one.
    pub(crate) fn is_another_as(&self, application: &str) -> bool {
        self.described && self.application != application
    }

    /// Its application has this name. If that makes it another session of the same process, none of its time may be pending.
    pub(crate) fn set_application(&mut self, mut name: String, next_id: &mut u64) {
        if self.is_another_as(&name) {
            self.ids.insert(std::mem::take(&mut self.application), self.id);
            if self.ids.len() >= MOST_APPLICATIONS && !self.ids.contains_key(&name) {
                name = String::new();
            }
            let known = self.ids.get(&name).copied();
            self.id = known.unwrap_or(SessionId(*next_id));
            if known.is_none() {
                *next_id += 1;
                self.described = false;
                self.counts_transactions = false;
            }
        }
        self.application = name;
    }

    /// All ids that it has had: it may get them again.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SessionId> {
        self.ids.values().copied().chain([self.id])
    }

    /// True when it is accounted for up to this moment.
    pub(crate) fn is_accounted_up_to(&self, now: u64) -> bool {
        self.account
            .as_ref()
            .is_some_and(|account| account.last().now == now)
    }

    /// What its title says.
    pub(crate) fn title(&self) -> Option<&Title> {
        self.naming.title()
    }

    /// What its title would have said: it can no longer be read.
    pub(crate) fn set_title(&mut self, title: Title) {
        self.naming.set_title(title);
    }

    /// Pid of the session that it works for, as the database numbers it.
    pub(crate) fn leader_pid(&self) -> Option<u32> {
        self.naming.leader_pid()
    }

    /// True when it is known whose session it is.
    pub(crate) fn has_client(&self) -> bool {
        self.naming.has_client()
    }

    /// It works for this session: for its user, client and application, in its database.
    pub(crate) fn take_client_of(&mut self, leader: &LiveSession) {
        self.naming.take_client_of(&leader.naming);
        if !self.described {
            self.application.clone_from(&leader.application);
        }
    }

    /// Adds a sample; `stacks` are its kernel and user stack. Returns what the session was found doing, as far as it is known.
    pub(crate) fn sample(
        &mut self,
        event: &SampleEvent,
        stacks: (StackId, StackId),
        held: HeldId,
    ) -> Option<Found> {
        self.repeat(event.repeats);
        if self.end.is_some() {
            return None;
        }
        let wait = match event.wait {
            Some(info) => {
                self.waits_unknown += u64::from(!self.names.is_known(info));
                RawWait::Info(info)
            }
            None => {
                self.waits_not_read += 1;
                RawWait::NotRead
            }
        };
        let states: &[State] = match (event.listed, event.off_cpu_state, event.user_mode) {
            // It is not known which: the sample divides the kernel's totals of both.
            (Some(Listed::Ready), ..) => &[State::Cpu, State::Runnable],
            (Some(Listed::Off(state)), ..) => &[state],
            (None, Some(_), _) if event.ran_since => match self.blocked_as.get(&wait) {
                Some(&state) => &[state],
                // Not seen blocked in this wait before: no guess.
                None => &[],
            },
            (None, Some(raw), _) => &[off_cpu_state(raw, event.in_iowait)],
            (None, None, true) => &[State::User],
            (None, None, false) => &[State::Kernel],
        };
        let comment = self.comment_of(event);
        let mut found = None;
        for &state in states {
            let cell = Cell {
                wait,
                executing: event.executing,
                state,
                kernel_stack: stacks.0,
                user_stack: stacks.1,
                held,
                comment,
            };
            if event.off_cpu_state.is_some() && state.group() == Some(StateGroup::Blocked) {
                if self.blocked_as.len() >= REMEMBERED {
                    self.blocked_as.clear();
                }
                self.blocked_as.insert(wait, state);
            }
            if event.off_cpu_state.is_some() {
                // A row with a torn stack holds for its own instant only.
                self.last_waiting = (!event.stack_torn).then_some(cell);
            }
            if let Some(account) = &mut self.account {
                account.sample(cell, event.in_call, 1);
            }
            found = Some(cell);
        }
        let spent = self.spent(found?, event.time_ns);
        Some(Found {
            session: self.id,
            statement: spent.statement,
            session_state: spent.session_state,
            wait: spent.wait,
            state: spent.state,
            kernel_stack: spent.kernel_stack,
            user_stack: spent.user_stack,
        })
    }

    /// The statement that began at `since`, by the database's clock, has this comment.
    pub(crate) fn learn_comment(&mut self, since: u64, id: u64) {
        if let Some(comments) = &mut self.comments {
            comments.learn(since, id);
        }
    }

    /// The comment of the statement that it was in.
    fn comment_of(&self, event: &SampleEvent) -> u64 {
        match (&self.comments, event.comment) {
            (None, _) | (_, Some(0)) => comment::NONE,
            (_, None) => comment::UNKNOWN,
            (Some(comments), Some(since)) => comments.of(since),
        }
    }

    /// The sampler's last row still held in this many passes.
    pub(crate) fn repeat(&mut self, passes: u32) {
        if let (Some(account), Some(cell)) = (&mut self.account, self.last_waiting) {
            account.sample(cell, false, u64::from(passes));
        }
    }

    /// Takes what the kernel has counted up to a moment (CLOCK_MONOTONIC), and adds rows for its growth.
    pub(crate) fn count(&mut self, counts: (u64, TaskCounts), clock: Clock, rows: &mut Vec<CounterRow>) {
        match &mut self.counted {
            Some(counted) => counted.advance(counts, clock, self.id, rows),
            None => self.counted = Some(Counted::meet(counts.0, counts.1)),
        }
    }

    /// Takes the kernel's totals at a moment and adds the rows of the time since the last ones; what was too short for samples goes into
    /// the pool. Returns the number of samples behind the rows.
    pub(crate) fn totals(
        &mut self,
        reported: Reported<'_>,
        clock: Clock,
        rows: &mut Rows,
        pool: &mut Pool,
    ) -> u64 {
        let Reported {
            start_ns,
            totals,
            sums,
            unused,
            ended,
            settles,
        } = reported;
        self.start_ns = start_ns;
        self.read_title();
        let missed = sums.map_or(0, |sums| sums.missed);
        let Some(account) = &mut self.account else {
            self.account = Account::open(self.tier, totals, sums);
            self.missed = missed;
            return 0;
        };
        let begin = account.last().now;
        let Some(advance) = account.advance(totals, sums, ended || settles) else {
            return 0;
        };
        let growth = advance.growth;
        if growth.on_cpu == 0
            && let Some(counted) = &mut self.counted
        {
            counted.stand_still(totals.now);
        }
        let seconds = Seconds::of(clock, begin, totals.now);
        let mut samples = 0;
        for (at, share) in advance.shares {
            samples += share.samples;
            let spent = self.spent(share.cell, at);
            // What was held back of a young session goes into the second that it belongs to.
            let earlier = (at < begin).then(|| Seconds::at(clock, at));
            let spread = earlier.as_ref().unwrap_or(&seconds);
            for (time, [ns, count, samples]) in spread.spread([share.ns, share.count, share.samples]) {
                rows.activity.push(ActivityRow {
                    ns,
                    count,
                    samples,
                    fidelity: share.fidelity,
                    ..spent.row(time, self.id)
                });
                let row = (time, self.id, &spent);
                self.held_locks.add_rows(row, ns, samples, &mut rows.held_locks);
            }
        }
        if !advance.unsplit.is_empty() {
            let kind = self.kind();
            for unsplit in advance.unsplit {
                let mut found = BTreeMap::new();
                for (cell, count) in unsplit.samples {
                    *found.entry(self.spent(cell, unsplit.at)).or_default() += count;
                }
                let second = clock.second_us(unsplit.at);
                pool.add((self.id, &kind), second, unsplit.group, unsplit.ns, found);
            }
        }
        let waits_not_read = std::mem::take(&mut self.waits_not_read);
        let waits_unknown = std::mem::take(&mut self.waits_unknown);
        let (kernel, dbtime) = (literal!(counter::KERNEL), literal!(counter::DBTIME));
        for (source, name, value) in [
            (&kernel, literal!(counter::ELAPSED_NS), growth.elapsed),
            (&kernel, literal!(counter::ON_CPU_NS), growth.on_cpu),
            (&kernel, literal!(counter::RUN_QUEUE_NS), growth.run_queue),
            (&dbtime, literal!(counter::TORN), unused.torn.into()),
            (&dbtime, literal!(counter::TORN_STACK), unused.torn_stacks.into()),
            (&dbtime, literal!(counter::DISPLACED), unused.displaced.into()),
            (&dbtime, literal!(counter::STOOD_IN), unused.stood_in.into()),
            (&dbtime, literal!(counter::WAIT_NOT_READ), waits_not_read),
            (&dbtime, literal!(counter::WAIT_UNKNOWN), waits_unknown),
            (
                &dbtime,
                literal!(counter::MISSED),
                missed.saturating_sub(self.missed),
            ),
        ]
        .into_iter()
        .filter(|(.., value)| *value > 0)
        {
            for (time, [value]) in seconds.spread([value]) {
                if value > 0 {
                    rows.counters.push(CounterRow {
                        time,
                        session: self.id,
                        source: source.clone(),
                        name: name.clone(),
                        value: value.try_into().unwrap_or(i64::MAX),
                        ..CounterRow::default()
                    });
                }
            }
        }
        self.missed = self.missed.max(missed);
        self.describe(ended, totals.now, clock, rows);
        samples
    }

    /// Up to when its time is accounted for (CLOCK_MONOTONIC); None: nothing has been reported yet.
    pub(crate) fn accounted_ns(&self) -> Option<u64> {
        self.account.as_ref().map(|account| account.last().now)
    }

    /// Ends a session whose last totals never arrived: what is pending becomes rows, nothing is added. Returns the number of samples behind
    /// them.
    pub(crate) fn abandon(&mut self, clock: Clock, rows: &mut Rows, pool: &mut Pool) -> u64 {
        match &self.account {
            Some(account) => {
                let last = Reported {
                    start_ns: self.start_ns,
                    totals: account.last(),
                    sums: None,
                    unused: Unused::default(),
                    ended: true,
                    settles: true,
                };
                self.totals(last, clock, rows, pool)
            }
            None => 0,
        }
    }

    /// Adds the session's own row, once: when its title is settled, or when it ends.
    fn describe(&mut self, ended: bool, now: u64, clock: Clock, rows: &mut Rows) {
        let is_settled = self.naming.is_settled(self.start_ns, now);
        if self.described || !(is_settled || ended) {
            return;
        }
        self.described = true;
        let mut session = Session {
            id: self.id,
            pid: self.pid,
            started_us: clock.wall_us(self.start_ns),
            application: self.application.clone(),
            ..Session::default()
        };
        self.naming.describe(&mut session);
        if session.application == OWN_APPLICATION {
            session.backend_type = BackendType(literal!(BackendType::RECORDER));
        }
        rows.sessions.push(session.into());
    }

    /// As far as it is known yet.
    pub(crate) fn backend_type(&self) -> BackendType {
        self.naming.backend_type()
    }

    /// True once its title says so.
    pub(crate) fn writes_checkpoints(&self) -> bool {
        self.backend_type().0 == BackendType::CHECKPOINTER
    }

    /// What is known about it that makes it like others.
    fn kind(&self) -> Kind {
        let (user, database) = self.naming.whose();
        Kind {
            backend_type: self.backend_type(),
            user,
            database,
        }
    }

    /// What a row says about this cell at this moment.
    fn spent(&self, cell: Cell, at_ns: u64) -> Spent {
        let wait = self.decode(cell.wait);
        let (statement, session_state) = self.executing(cell, &wait, at_ns);
        // It still has the id of its last statement, but executes none.
        let is_idle = wait.is_idle_in(session_state);
        let comment = match session_state {
            _ if is_idle || self.comments.is_none() => comment::NONE,
            // No text is shown.
            SessionState::Disabled => comment::UNKNOWN,
            SessionState::Active | SessionState::None | SessionState::FastpathCall => cell.comment,
            // Between statements: the text shown is of the last one.
            _ => comment::NONE,
        };
        Spent {
            statement: if is_idle { 0 } else { statement },
            plan: if is_idle { 0 } else { cell.executing.plan },
            session_state,
            wait,
            state: cell.state,
            kernel_stack: cell.kernel_stack,
            user_stack: cell.user_stack,
            held: cell.held,
            comment,
        }
    }

    /// Its statement and state, as it publishes them; if that cannot be read, as its server says.
    fn executing(&self, cell: Cell, wait: &Wait, at_ns: u64) -> (u64, SessionState) {
        let told = match self.source {
            WaitSource::Pointer { status: None, .. } => self.joined.at(self.pid, self.start_ns, at_ns),
            _ => None,
        };
        told.map_or_else(
            || {
                let state = self.names.session_state(cell.executing.session_state);
                (cell.executing.statement, state)
            },
            |told| told.while_in(wait),
        )
    }

    fn decode(&self, wait: RawWait) -> Wait {
        match wait {
            RawWait::NotSampled => Wait::not_sampled(),
            RawWait::NotRead => Wait::not_read(),
            RawWait::Info(_) if matches!(self.naming.role(), Role::Postmaster | Role::Process) => {
                Wait::no_interface()
            }
            RawWait::Info(info) => self.names.decode(info, self.backend_type().is_foreground()),
        }
    }
}

#[cfg(test)]
mod tests {
    use dbtime_model::NO_STACK;

    use super::*;
    use crate::postgres::wait_events::WaitEventNames;

    fn names() -> Rc<dyn WaitNames> {
        Rc::new(WaitEventNames::for_major(15).0)
    }

    fn backend(pid: u32) -> Identity {
        Identity {
            id: SessionId(1),
            pid,
            slot: 0,
            names: names(),
            titles: Rc::default(),
            held_locks: Rc::default(),
            joined: Rc::default(),
            source: WaitSource::None,
            role: Role::Backend,
            tier: Tier::Sampled,
            comments: true,
        }
    }

    fn last(totals: Totals) -> Reported<'static> {
        Reported {
            start_ns: 1_000,
            totals,
            sums: None,
            unused: Unused::default(),
            ended: true,
            settles: true,
        }
    }

    const PERIOD_NS: u64 = 10_000_000;

    /// Ends the only session that there is; returns the number of samples behind its rows.
    fn end(mut session: LiveSession, totals: Totals, rows: &mut Rows) -> u64 {
        let mut pool = Pool::default();
        let samples = session.totals(last(totals), Clock::start(), rows, &mut pool);
        samples + pool.finish(rows, &HeldLocks::default())
    }

    fn ns_in(rows: &Rows, state: State) -> u64 {
        let in_state = rows.activity.iter().filter(|row| row.state == state);
        in_state.map(|row| row.ns).sum()
    }

    fn running(wait: u32) -> SampleEvent {
        SampleEvent {
            pid: 1,
            wait: Some(wait),
            ..SampleEvent::default()
        }
    }

    #[test]
    fn passes_that_found_a_sleeper_unchanged_count_for_its_last_row() {
        let mut rows = Rows::default();
        let mut session = LiveSession::begin(backend(1), 1_000, 1_000, PERIOD_NS);
        let sleeping = SampleEvent {
            off_cpu_state: Some(1),
            ..running(0x0900_0001)
        };
        session.sample(&sleeping, (NO_STACK, NO_STACK), HeldId::NONE);
        session.repeat(4);
        // The next row says how often the previous one still held.
        let disk = SampleEvent {
            off_cpu_state: Some(2),
            repeats: 5,
            ..running(0x0A00_0001)
        };
        session.sample(&disk, (NO_STACK, NO_STACK), HeldId::NONE);
        let totals = Totals {
            now: 12_000,
            on_cpu: 0,
            run_queue: 0,
        };
        let samples = end(session, totals, &mut rows);
        assert_eq!(samples, 11);
        let ns = |state| ns_in(&rows, state);
        assert_eq!((ns(State::Sleep), ns(State::Disk)), (10_000, 1_000));
    }

    #[test]
    fn who_ran_since_the_moment_was_blocked_as_it_is_known_to_be_in_that_wait() {
        let mut rows = Rows::default();
        let mut session = LiveSession::begin(backend(1), 1_000, 1_000, PERIOD_NS);
        let off = |raw, wait| SampleEvent {
            off_cpu_state: Some(raw),
            ..running(wait)
        };
        let ran = |wait| SampleEvent {
            ran_since: true,
            stack_torn: true,
            ..off(0x8000_0000, wait)
        };
        let samples = [
            ran(0x0A00_0001), // not known yet: no sample
            off(2, 0x0A00_0001),
            off(0, 0x0A00_0001),
            ran(0x0A00_0001),
            off(1, 0x0900_0001),
            ran(0x0900_0001),
        ];
        for sample in samples {
            session.sample(&sample, (NO_STACK, NO_STACK), HeldId::NONE);
            // It holds for its own moment only.
            session.repeat(u32::from(sample.ran_since) * 7);
        }
        let totals = Totals {
            now: 5_000,
            on_cpu: 0,
            run_queue: 1_000,
        };
        assert_eq!(end(session, totals, &mut rows), 5);
        let ns = |state| ns_in(&rows, state);
        assert_eq!(
            (ns(State::Disk), ns(State::Sleep), ns(State::Runnable)),
            (1_500, 1_500, 1_000)
        );
    }

    #[test]
    fn what_a_pass_sends_after_the_end_still_says_how_often_the_row_before_held() {
        let mut rows = Rows::default();
        let mut session = LiveSession::begin(backend(1), 1_000, 1_000, PERIOD_NS);
        let sleeping = SampleEvent {
            off_cpu_state: Some(1),
            ..running(0x0900_0001)
        };
        session.sample(&sleeping, (NO_STACK, NO_STACK), HeldId::NONE);
        session.end = Some(Event::Totals {
            pid: 1,
            start_ns: 1_000,
            time_ns: 11_000,
            on_cpu_ns: 0,
            run_queue_ns: 0,
            repeats: 0,
            torn: 0,
            torn_stacks: 0,
            displaced: 0,
            stood_in: 0,
            ended: true,
            sums: None,
        });
        let exiting = SampleEvent {
            off_cpu_state: Some(2),
            repeats: 9,
            ..running(0)
        };
        session.sample(&exiting, (NO_STACK, NO_STACK), HeldId::NONE);
        let totals = Totals {
            now: 11_000,
            on_cpu: 0,
            run_queue: 0,
        };
        let samples = end(session, totals, &mut rows);
        assert_eq!(samples, 10);
        assert!(rows.activity.iter().all(|r| r.state == State::Sleep));
    }

    #[test]
    fn a_session_that_ends_before_it_has_a_title_is_unknown_and_foreground() {
        let mut rows = Rows::default();
        let session = LiveSession::begin(backend(u32::MAX), 1_000, 1_000, PERIOD_NS);
        let totals = Totals {
            now: 3_000,
            on_cpu: 500,
            run_queue: 0,
        };
        end(session, totals, &mut rows);
        assert_eq!(rows.sessions.len(), 1);
        assert!(BackendType(rows.sessions[0].backend_type.clone()).is_foreground());
        assert_eq!(rows.activity.iter().map(|r| r.ns).sum::<u64>(), 2_000);
        assert!(
            rows.activity
                .iter()
                .all(|r| r.wait() == Wait::not_sampled() && r.samples == 0)
        );
    }
}
