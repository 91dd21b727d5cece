//! One session of a trace: its clock, its cursors, and which of its time is calls, waits and the rest.

use dbtime_model::counter::oracle;
use dbtime_model::recording::{CallInFlight, TraceGap};
use dbtime_model::{BackendType, NO_STACK, SessionId, SessionRow, SpanRow, State, span};

use super::binds::{BoundExecutions, Value};
use super::clock::Clock;
use super::cpu_clock::CpuClock;
use super::cursors::Cursors;
use super::elapsed::{Called, CountedAs, Ended, KeptWait, Open, Share};
use super::events::{EventId, Events};
use super::gaps::Gaps;
use super::preview::{EPOCH_TIM_US, Preview, Unit};
use super::record::{CallKind, CallLine, WaitLine, Where};
use super::seconds::{Named, Seconds, count, second_of};
use super::statements::{Callers, PlanKey};
use super::views::{IntervalView, signed};
use crate::Import;
use crate::samples::Table;

/// How far the start of a call may be off from what is in it, microseconds: `e` and `tim` are read one after the other.
const SLACK_US: u64 = 10;

/// Most changes of what the application does that are kept apart while earlier waits may still turn out to be in a call.
const MAX_DOINGS: usize = 1 << 16;

/// Most seconds that are over but wait for the open call to end before they become rows.
const MAX_CLOSING: usize = 64;

/// Most cells in all of them: bounds the memory of a trace with ever new statements.
const MAX_CLOSING_CELLS: usize = 4_096;

/// A wait, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait<'a> {
    pub cursor: u64,
    pub event: EventId,
    pub of: &'a WaitLine<'a>,
    pub ela: u64,
    pub tim: Option<u64>,
    pub line: u64,
}

/// A call, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub of: &'a CallLine<'a>,
    pub c: u64,
    pub e: u64,
    pub tim: Option<u64>,
    pub line: u64,
}

/// A call that had begun before the first line of its session.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BegunBefore {
    /// How long before, microseconds.
    pub us: u64,
    pub line: u64,
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TransactionEnd {
    pub rolled_back: bool,
    /// Nothing had been changed.
    pub read_only: bool,
}

/// What the application says it does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Doing {
    pub service: String,
    pub module: String,
    pub action: String,
    pub client_id: String,
}

/// Where rows go, and what all sessions of a file share.
pub(super) struct Output<'a> {
    pub into: &'a mut Import,
    pub events: &'a Events,
    pub bound: &'a mut BoundExecutions,
    /// The time of day that the file said last, microseconds since the Unix epoch.
    pub wall_us: Option<i64>,
    pub path: &'a str,
}

/// One session.
#[derive(Debug)]
pub(super) struct TracedSession {
    pub(super) pid: u32,
    /// `sid.serial`; empty if the trace does not say.
    pub(super) sid: String,
    instance: String,
    image: String,
    doing: Doing,
    /// Identities of the session before the application said what it does now, see [`KeptWait::doing`].
    before: Vec<SessionId>,
    seconds: Seconds,
    /// Seconds that are over, but may have waits of a call that has not ended.
    closing: Vec<Seconds>,
    pub(super) interval: IntervalView,
    /// When the first wait or call began since the application said what it does, microseconds since the Unix epoch.
    begin_us: Option<i64>,
    /// When what was read last ended, microseconds since the Unix epoch; none before there was anything.
    end_us: Option<i64>,
    /// The latest moment in which something ended: lines can be out of order.
    latest_us: Option<i64>,
    /// When the first line began, by the clock of the trace.
    first: Option<u64>,
    /// The call that had begun longest before.
    pub(super) begun_before: BegunBefore,
    cursors: Cursors,
    /// The last cursor that a line named.
    cursor: u64,
    pub(super) callers: Callers,
    pub(super) gaps: Gaps,
    open: Open,
    pub(super) cpu: CpuClock,
    pub(super) clock: Clock,
    /// Recursive calls whose outer call is not in the trace.
    pub(super) without_outer: Called,
    /// Values of bind variables of the next execution of a cursor: other cursors can be executed before it.
    values: Table<u64, Vec<Value>>,
    /// The last moment, and what passed since by waits that do not say when they ended. Microseconds.
    now: Option<u64>,
    offset_us: Option<i64>,
    /// Nothing says what time of day it was: times are those of the trace's own clock.
    pub(super) lacks_time_of_day: bool,
}

impl TracedSession {
    /// `instance` and `image`: what the header of the file said last.
    /// `summed`: single seconds are not needed.
    pub(super) fn new(
        pid: u32,
        sid: String,
        instance: &str,
        image: &str,
        clock: Clock,
        summed: bool,
    ) -> TracedSession {
        TracedSession {
            pid,
            sid,
            instance: instance.to_string(),
            image: image.to_string(),
            doing: Doing::default(),
            before: Vec::new(),
            seconds: Seconds::new(summed),
            closing: Vec::new(),
            interval: IntervalView::default(),
            begin_us: None,
            end_us: None,
            latest_us: None,
            first: None,
            begun_before: BegunBefore::default(),
            cursors: Cursors::default(),
            cursor: 0,
            callers: Callers::default(),
            gaps: Gaps::default(),
            open: Open::new(clock.resolution_us().max(SLACK_US)),
            cpu: CpuClock::default(),
            clock,
            without_outer: Called::default(),
            values: Table::default(),
            now: None,
            offset_us: None,
            lacks_time_of_day: false,
        }
    }

    /// A line has a `tim`. Returns its moment, in microseconds. `us`: of a wait, how long it was. `wall_us` is the time of day that the
    /// file said last.
    #[inline]
    pub(super) fn tick(&mut self, tim: u64, us: u64, preview: &Preview, wall_us: Option<i64>) -> u64 {
        let moment = self.clock.moment_us(tim, us);
        if self.offset_us.is_none() {
            let is_epoch = preview.unit != Unit::Centiseconds && EPOCH_TIM_US.contains(&moment);
            let offset = match (is_epoch, wall_us) {
                (true, _) => 0,
                (false, Some(wall)) => wall.saturating_sub_unsigned(moment),
                (false, None) => preview.offset_us.unwrap_or(0),
            };
            self.lacks_time_of_day = !is_epoch && wall_us.is_none() && preview.offset_us.is_none();
            self.offset_us = Some(offset);
        }
        self.first.get_or_insert(moment.saturating_sub(us));
        self.now = Some(moment);
        self.interval.tick(moment);
        moment
    }

    /// A line that is neither a wait nor a call shows that the session was at work.
    pub(super) fn told(&mut self, tim: u64, line: u64) {
        self.gaps.told(tim, 0, line);
    }

    /// The cursor number stands for this statement from now on.
    pub(super) fn parsing(&mut self, number: u64, statement: u64, dep: u32) {
        self.cursor = number;
        let cursor = self.cursors.get(number);
        let settled = cursor.settle();
        (cursor.statement, cursor.dep, cursor.plan) = (statement, dep, 0);
        cursor.bind_set = None;
        self.seconds.settled(settled);
    }

    /// Values of the bind variables with which a cursor will be executed.
    pub(super) fn binds(&mut self, cursor: u64, values: Vec<Value>) {
        self.values.insert(cursor, values);
    }

    /// Adds a call to those with the same values of bind variables.
    fn bind_call(&mut self, of: &CallLine<'_>, e: u64, executions: &mut BoundExecutions) {
        let is_execution = of.kind == CallKind::Exec;
        let cursor = self.cursors.get(of.cursor);
        if is_execution {
            let time_us = self.end_us.unwrap_or(0);
            let values = self.values.remove(&of.cursor);
            cursor.bind_set =
                values.and_then(|values| executions.execution(cursor.statement, values, time_us, e));
        }
        if of.kind != CallKind::Parse
            && let Some(set) = cursor.bind_set
        {
            executions.call(set, u64::from(is_execution), e, of.r);
        }
    }

    /// The latest moment in which something ended, microseconds since the Unix epoch; none before there was one.
    pub(super) fn latest_us(&self) -> Option<i64> {
        self.latest_us
    }

    /// Statement and plan that a cursor number stands for.
    pub(super) fn plan_of(&mut self, number: u64) -> PlanKey {
        let cursor = self.cursors.get(number);
        (cursor.statement, cursor.plan)
    }

    /// The application says that it does something else now: what it did before becomes rows of its own.
    pub(super) fn now_does(&mut self, change: impl FnOnce(&mut Doing), out: &mut Output<'_>) {
        let mut doing = self.doing.clone();
        change(&mut doing);
        if doing == self.doing {
            return;
        }
        // What follows belongs to what the application does now, calls as well as waits: nothing is left pending for the plan that its
        // cursor will run.
        for cursor in self.cursors.values_mut() {
            self.seconds.settled(cursor.settle());
        }
        self.close(out, true);
        if self.open.waits().is_empty() {
            self.before.clear();
        } else if self.before.len() < MAX_DOINGS {
            let id = self.id(out);
            self.before.push(id);
        }
        self.begin_us = None;
        self.doing = doing;
    }

    /// Number of what the application does, see [`KeptWait::doing`].
    fn doing_number(&self) -> u32 {
        u32::try_from(self.before.len()).unwrap_or(u32::MAX)
    }

    /// Opens the second in which an interval of this length ended.
    #[inline]
    fn second(&mut self, us: u64, out: &mut Output<'_>) -> &mut Seconds {
        let time_us = match (self.now, self.offset_us) {
            (Some(now), offset) => offset.unwrap_or(0).saturating_add(signed(now)),
            (None, _) => out.wall_us.unwrap_or(0),
        };
        if self.seconds.is_over(time_us) {
            self.close(out, false);
        }
        let begin_us = time_us.saturating_sub(signed(us));
        self.begin_us = Some(self.begin_us.map_or(begin_us, |first| first.min(begin_us)));
        self.end_us = Some(time_us);
        self.latest_us = self.latest_us.max(self.end_us);
        self.seconds.open(time_us);
        &mut self.seconds
    }

    pub(super) fn wait(&mut self, wait: &Wait<'_>, out: &mut Output<'_>) {
        let event = out.events.get(wait.event);
        match wait.tim {
            Some(tim) => {
                self.interval.began(tim, wait.ela);
                self.gaps.told(tim, wait.ela, wait.line);
            }
            None => self.now = self.now.map(|now| now.saturating_add(wait.ela)),
        }
        self.interval.wait_us = self.interval.wait_us.saturating_add(signed(wait.ela));
        // It has no cursor: it is attributed to the previous one until a call says better.
        let assumed_cursor = (wait.cursor == 0 && self.cursor != 0).then_some(self.cursor);
        if wait.cursor != 0 {
            self.cursor = wait.cursor;
        }
        let number = assumed_cursor.unwrap_or(wait.cursor);
        let doing = self.doing_number();
        let cursor = self.cursors.get(number);
        let (statement, plan) = (cursor.statement, cursor.plan);
        cursor.waited(wait.ela, event.from_client);
        let place = event.block_io.map(|io| io.place);
        let at = if place.is_some() || event.has_object {
            wait.of.place(place, event.p1_is_file)
        } else {
            Where::default()
        };
        let io = event.block_io.map(|io| (io.direction, at.blocks.unwrap_or(0)));
        let blocks = io.map_or(0, |(_, blocks)| blocks);
        let mut place = *cursor.places.wait(wait.event);
        self.second(wait.ela, out);
        self.open.wait(KeptWait {
            when: wait.tim.map(|tim| (tim.saturating_sub(wait.ela), tim)),
            us: wait.ela,
            cursor: number,
            line: wait.line,
            from_client: event.from_client,
            between_calls: event.between_calls,
            assumed_cursor,
            doing,
            counted_as: Some(CountedAs {
                event: wait.event,
                by: (statement, plan),
                blocks,
                us: wait.ela,
                ended_us: self.end_us.unwrap_or(0),
            }),
        });
        let second = &mut self.seconds;
        second.wait(wait.event, statement, wait.ela, &mut place);
        let known = if assumed_cursor.is_none() { statement } else { 0 };
        second.latency(wait.event, known, io, wait.ela);
        if event.has_object {
            if let Some(object) = at.object {
                second.object(object, wait.event, wait.ela, blocks);
            }
            if let Some(file) = at.file {
                second.file(file, wait.event, wait.ela, blocks);
            }
        }
        let view = &mut second.counters().call_view;
        if event.from_client {
            view.idle_us = view.idle_us.saturating_add(signed(wait.ela));
        } else {
            view.wait_us = view.wait_us.saturating_add(signed(wait.ela));
            view.wait_outside_us = view.wait_outside_us.saturating_add(signed(wait.ela));
        }
        *self.cursors.get(number).places.wait(wait.event) = place;
        if wait.tim.is_some() && out.into.options().keeps_spans {
            self.span(wait, known, out);
        }
    }

    /// Keeps a wait of this statement as a single event. It has ended just now.
    fn span(&self, wait: &Wait<'_>, statement: u64, out: &mut Output<'_>) {
        let of = &out.events.get(wait.event).wait;
        let name = format!("{}:{}", of.class, of.event);
        let begin_us = self.end_us.unwrap_or(0).saturating_sub(signed(wait.ela));
        let session = self.id(out);
        out.into.span(SpanRow {
            session,
            kind: span::kind::WAIT.to_string(),
            name,
            stack: NO_STACK,
            call: 0,
            depth: 0,
            start_ns: begin_us.saturating_mul(1_000),
            ns: wait.ela.saturating_mul(1_000),
            state: State::Unknown,
            statement,
        });
    }

    /// Adds a call.
    pub(super) fn call(&mut self, call: &Call<'_>, out: &mut Output<'_>) {
        let tim = call.tim.or(self.now).unwrap_or(0);
        if call.tim.is_some() {
            self.interval.began(tim, call.e);
            let us = self.first.unwrap_or(0).saturating_sub(tim.saturating_sub(call.e));
            if us > self.begun_before.us {
                self.begun_before = BegunBefore { us, line: call.line };
            }
        }
        let is_lob = call.of.kind == CallKind::Lob;
        let (statement, parsed_dep) = if is_lob {
            (0, 0)
        } else {
            self.cursor = call.of.cursor;
            let cursor = self.cursors.get(call.of.cursor);
            (cursor.statement, cursor.dep)
        };
        let ended = Ended {
            kind: call.of.kind,
            cursor: call.of.cursor,
            statement,
            dep: (!is_lob).then(|| call.of.dep.unwrap_or(parsed_dep)),
            tim,
            e: call.e,
            c: call.c,
        };
        self.cpu.told(call.c);
        let doing = self.doing_number();
        let cursors = &mut self.cursors;
        let share = self
            .open
            .call(&ended, doing, &mut self.callers, |wait| assume(cursors, wait));
        for wait in &share.waits_of_others {
            self.take_over(call.of.cursor, wait);
        }
        if call.of.kind.is_parse_exec_fetch() {
            self.statement_call(call, &share, out);
            if out.into.options().binds {
                self.bind_call(call.of, call.e, out.bound);
            }
        }
        self.interval.cpu_us = self.interval.cpu_us.saturating_add(share.added.cpu_but_close);
        // While it is still known what the application did when the waits in it ended.
        self.settle(&ended, &share, out);
        if ended.dep == Some(0) {
            self.gaps.call(tim, call.e, call.line);
            self.leave();
        } else {
            self.gaps.told(tim, call.e, call.line);
        }
    }

    /// Counts a wait for the statement that a cursor stands for now.
    fn take_over(&mut self, cursor: u64, wait: &CountedAs) {
        let cursor = self.cursors.get(cursor);
        let mut seconds: Vec<&mut Seconds> = self.closing.iter_mut().chain([&mut self.seconds]).collect();
        let mut of_its_time = seconds.iter_mut().filter(|of| of.has(wait.ended_us));
        // The sums of its statement were settled when the cursor got its new one, in whatever second that was.
        if of_its_time.any(|of| of.move_wait(wait, cursor.statement))
            && seconds.iter_mut().any(|of| of.take_from_statement(wait))
        {
            cursor.waited(wait.us, false);
        }
    }

    /// A call of depth 0 ended: whatever is in no call now never will be.
    fn leave(&mut self) {
        let recursive = self.open.leave(|wait| assume(&mut self.cursors, wait));
        self.without_outer.add(recursive);
        self.before.clear();
    }

    /// Adds a call to the sums of its statement. A parse without a plan belongs to the one that the cursor runs next.
    fn statement_call(&mut self, call: &Call<'_>, share: &Share, out: &mut Output<'_>) {
        let of = call.of;
        let cursor = self.cursors.get(of.cursor);
        if of.plh != 0 {
            cursor.plan = of.plh;
        } else if of.kind == CallKind::Parse {
            cursor.pending.parse(of, call.e, call.c, share);
            return;
        }
        let key = (cursor.statement, cursor.plan);
        let settled = cursor.settle();
        let mut place = cursor.places.statement;
        let seconds = self.second(call.e, out);
        seconds.settled(settled);
        seconds.statement(key, &mut place).call(of, call.e, call.c, share);
        self.cursors.get(of.cursor).places.statement = place;
    }

    /// Turns the share of a call into time.
    fn settle(&mut self, call: &Ended, share: &Share, out: &mut Output<'_>) {
        self.second(call.e, out);
        let seconds = &mut self.seconds;
        let cpu = self
            .cpu
            .split(share.cpu, share.room, share.waits, |us| seconds.earlier_cpu(us));
        let place = &mut self.cursors.get(call.cursor).places.own;
        self.seconds
            .call(call.statement, cpu.cpu, share.room - cpu.cpu, place);
        let elsewhere: u64 = share.waits_elsewhere.iter().map(|(_, us)| us).sum();
        let counters = self.seconds.counters();
        let add = |sum: &mut u64, us| *sum = sum.saturating_add(us);
        add(&mut counters.cpu_inside_waits_us, cpu.inside_waits);
        add(&mut counters.waits_beyond_calls_us, share.beyond);
        counters.cpu_beyond_calls_us = counters.cpu_beyond_calls_us.saturating_add(signed(cpu.beyond));
        counters.call_view.call(&share.added);
        counters.outer_executions += u64::from(call.kind == CallKind::Exec && call.dep == Some(0));
        if elsewhere > 0 && call.kind.is_parse_exec_fetch() {
            // A wait is elapsed time of the action in which it ended, like its own time.
            let view = &mut counters.call_view;
            view.elapsed_us = view.elapsed_us.saturating_sub(signed(elsewhere));
            let second_us = second_of(self.end_us.unwrap_or(0));
            for (doing, us) in &share.waits_elsewhere {
                if let Some(id) = self.before.get(*doing as usize) {
                    count(
                        second_us,
                        *id,
                        out.into,
                        &[(oracle::CALL_ELAPSED_US, signed(*us))],
                    );
                }
            }
        }
    }

    /// An error at run time.
    pub(super) fn error(&mut self, cursor: u64, code: u64, out: &mut Output<'_>) {
        let statement = self.cursors.get(cursor).statement;
        self.second(0, out).named(Named::Error(statement, code));
    }

    /// A statement that could not be parsed.
    pub(super) fn parse_error(&mut self, statement: u64, code: u64, out: &mut Output<'_>) {
        self.second(0, out).named(Named::ParseError(statement, code));
    }

    /// A transaction ended.
    pub(super) fn transaction(&mut self, end: TransactionEnd, out: &mut Output<'_>) {
        let counters = self.second(0, out).counters();
        *match end {
            TransactionEnd { read_only: true, .. } => &mut counters.read_only_ends,
            TransactionEnd {
                rolled_back: true, ..
            } => &mut counters.rollbacks,
            TransactionEnd { .. } => &mut counters.commits,
        } += 1;
    }

    /// Number of cells of all seconds that have no rows yet.
    fn cells(&self) -> usize {
        let closing = self.closing.iter().map(Seconds::cells);
        closing.sum::<usize>() + self.seconds.cells()
    }

    /// Turns what is open into rows.
    fn close(&mut self, out: &mut Output<'_>, all: bool) {
        if self.seconds.is_empty() && self.closing.is_empty() {
            return;
        }
        let may_wait = !all && !self.seconds.are_summed() && !self.open.waits().is_empty();
        if may_wait && self.closing.len() < MAX_CLOSING && self.cells() <= MAX_CLOSING_CELLS {
            let over = std::mem::replace(&mut self.seconds, Seconds::new(false));
            self.closing.push(over);
            return;
        }
        let id = self.id(out);
        for mut over in self.closing.drain(..) {
            over.close(id, out.events, out.into, (true, true));
        }
        let is_settled = self.open.waits().is_empty();
        self.seconds.close(id, out.events, out.into, (all, is_settled));
    }

    /// Identity of the session, as far as it is known now. The next file of the same session continues it.
    fn id(&self, out: &mut Output<'_>) -> SessionId {
        let Doing {
            service,
            module,
            action,
            client_id,
        } = &self.doing;
        let mut identity = match (self.pid, self.sid.as_str()) {
            (0, "") => out.path.to_string(),
            (pid, sid) => format!("{}/{pid}/{sid}", self.instance),
        };
        for says in [service, module, action, client_id] {
            identity.push('\0');
            identity.push_str(says);
        }
        let about = [&self.sid, service, module, action];
        let title: Vec<&str> = about
            .into_iter()
            .map(String::as_str)
            .filter(|s| !s.is_empty())
            .collect();
        let row = SessionRow {
            pid: self.pid,
            started: self.begin_us.or(self.end_us).unwrap_or(0),
            backend_type: backend_type(&self.image).into(),
            database: self.instance.clone(),
            title: title.join(" "),
            service: service.clone(),
            module: module.clone(),
            action: action.clone(),
            client_id: client_id.clone(),
            sid: self.sid.clone(),
            ..SessionRow::default()
        };
        out.into.session(&identity, row)
    }

    /// The trace has ended: everything becomes rows. Returns the call that had not ended, if there is one.
    pub(super) fn finish(&mut self, out: &mut Output<'_>) -> Option<CallInFlight> {
        let end_us = self.latest_us?;
        let in_flight = self.in_flight();
        self.open.leave(|wait| assume(&mut self.cursors, wait));
        for cursor in self.cursors.values_mut() {
            self.seconds.settled(cursor.settle());
        }
        self.seconds.open(end_us);
        let beyond = &mut self.seconds.counters().cpu_beyond_calls_us;
        *beyond = beyond.saturating_add(self.cpu.carried_us());
        self.close(out, true);
        let interval = self.interval;
        let counters = [
            (oracle::INTERVAL_DURATION_US, interval.duration_us()),
            (oracle::INTERVAL_CPU_US, interval.cpu_us),
            (oracle::INTERVAL_WAIT_US, interval.wait_us),
            (oracle::INTERVAL_UNACCOUNTED_US, interval.unaccounted_us()),
        ];
        let id = self.id(out);
        count(second_of(end_us), id, out.into, &counters);
        in_flight
    }

    /// The longest periods that no line covers.
    pub(super) fn longest_gaps(&mut self) -> Vec<TraceGap> {
        self.gaps.finish(&self.sid, self.offset_us.unwrap_or(0))
    }

    /// The call that had not ended when the trace did: waits, or recursive calls, that no call encloses.
    fn in_flight(&mut self) -> Option<CallInFlight> {
        let waits = self.open.waits();
        // The wait for the client's next message shows that there was no call.
        let from = waits
            .iter()
            .rposition(|wait| wait.from_client)
            .map_or(0, |at| at + 1);
        let of_a_call =
            |wait: &&KeptWait| !wait.between_calls && wait.assumed_cursor.is_none() && wait.cursor != 0;
        let mut flight = CallInFlight {
            session: self.sid.clone(),
            ..CallInFlight::default()
        };
        for wait in waits[from..].iter().filter(of_a_call) {
            (flight.cursor, flight.line) = (wait.cursor, wait.line);
            flight.waits += 1;
            flight.wait_us = flight.wait_us.saturating_add(wait.us);
        }
        let (recursive, least_depth) = self.open.recursive();
        (flight.calls, flight.call_us) = (recursive.calls, recursive.us);
        if flight.waits == 0 && flight.calls == 0 {
            return None;
        }
        let cursor = *self.cursors.get(flight.cursor);
        if flight.waits > 0 && cursor.statement != 0 {
            (flight.statement, flight.depth) = (cursor.statement, Some(cursor.dep));
        } else {
            flight.depth = least_depth.and_then(|depth| depth.checked_sub(1));
        }
        Some(flight)
    }
}

/// A wait that is in no call of the cursor it was attributed to, the previous one: the wait is of cursor #0.
fn assume(cursors: &mut Cursors, wait: &KeptWait) {
    if let Some(number) = wait.assumed_cursor.filter(|_| wait.us > 0) {
        let pending = &mut cursors.get(number).pending;
        pending.is_touched = true;
        pending.assumed_wait_us = pending.assumed_wait_us.saturating_add(wait.us);
    }
}

/// `oracle@host (J003)`: job and shared server processes work for users, parallel servers for another session; every
/// other name in parentheses is that of a background process.
pub(crate) fn backend_type(image: &str) -> String {
    let name = image
        .rsplit_once('(')
        .map_or("", |(_, name)| name.trim_end_matches(')'));
    let numbered = |letter: char| {
        name.len() == 4
            && name.starts_with(letter)
            && name[1..].bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    if name.is_empty() || name.starts_with("TNS") || numbered('S') && name != "SMON" || numbered('J') {
        BackendType::CLIENT.to_string()
    } else if numbered('P') && name[1..].bytes().any(|byte| byte.is_ascii_digit()) {
        BackendType::PARALLEL_WORKER.to_string()
    } else {
        name.to_ascii_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_says_whether_users_wait_for_the_process() {
        for (image, expected) in [
            ("oracle@host", "client backend"),
            ("oracle@host (TNS V1-V3)", "client backend"),
            ("oracle@host (J003)", "client backend"),
            ("oracle@host (P00A)", "parallel worker"),
            ("oracle@host (LGWR)", "lgwr"),
            ("oracle@host (PMON)", "pmon"),
            ("oracle@host (SMON)", "smon"),
        ] {
            assert_eq!(backend_type(image), expected, "{image}");
        }
    }
}
