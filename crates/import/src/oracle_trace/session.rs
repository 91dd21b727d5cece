//! One session of a trace: its clock, its cursors, and which of its time is calls, waits and the rest.

use dbtime_model::counter::oracle;
use dbtime_model::recording::{CallInFlight, TraceGap};
use dbtime_model::{BackendType, NO_STACK, SessionId, SessionRow, SpanRow, State, span};

use super::cursors::Cursors;
use super::elapsed::{Open, Split};
use super::events::{EventId, Events};
use super::gaps::Gaps;
use super::preview::{Preview, Unit};
use super::record::{self, CallKind, CallLine};
use super::seconds::{Seconds, count, second_of};
use super::statements::{Calls, PlanKey, StatementSums};
use super::views::{IntervalView, signed};
use crate::Import;

/// A `tim` in this range counts from the Unix epoch (2000 to 2100), as on many Linux hosts; every other one from
/// the start of the host.
const EPOCH_TIM_US: std::ops::Range<u64> = 946_684_800_000_000..4_102_444_800_000_000;

/// A wait, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait<'a> {
    pub cursor: u64,
    pub event: EventId,
    pub parameters: &'a [u8],
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
    /// The time of day that the file said last, microseconds since the Unix epoch.
    pub wall_us: Option<i64>,
    pub path: &'a str,
}

/// Waits since the last call of depth 0: of a call that may not end any more.
#[derive(Debug, Default)]
struct Underway {
    cursor: u64,
    waits: u64,
    wait_us: u64,
    line: u64,
}

/// One session.
#[derive(Debug)]
pub(super) struct TracedSession {
    pub(super) pid: u32,
    /// `sid.serial`; empty when the trace does not say.
    pub(super) sid: String,
    instance: String,
    image: String,
    doing: Doing,
    seconds: Seconds,
    pub(super) interval: IntervalView,
    /// When the first wait or call began since the application said what it does, microseconds since the Unix epoch.
    begin_us: Option<i64>,
    /// The last moment in which something ended, microseconds since the Unix epoch; none before there was one.
    end_us: Option<i64>,
    cursors: Cursors,
    pub(super) calls: Calls,
    pub(super) gaps: Gaps,
    underway: Underway,
    open: Open,
    /// The last `tim`, and what passed since by waits that have none. Microseconds.
    now: Option<u64>,
    offset_us: Option<i64>,
}

impl TracedSession {
    /// `instance` and `image`: what the header of the file said last.
    pub(super) fn new(pid: u32, sid: String, instance: &str, image: &str) -> TracedSession {
        TracedSession {
            pid,
            sid,
            instance: instance.to_string(),
            image: image.to_string(),
            doing: Doing::default(),
            seconds: Seconds::default(),
            interval: IntervalView::default(),
            begin_us: None,
            end_us: None,
            cursors: Cursors::default(),
            calls: Calls::default(),
            gaps: Gaps::default(),
            underway: Underway::default(),
            open: Open::default(),
            now: None,
            offset_us: None,
        }
    }

    /// A line has a `tim`. `wall_us` is the time of day that the file said last.
    pub(super) fn tick(&mut self, tim: u64, preview: &Preview, wall_us: Option<i64>) {
        if self.offset_us.is_none() {
            let is_epoch = preview.unit == Unit::Microseconds && EPOCH_TIM_US.contains(&tim);
            let offset = match (is_epoch, wall_us) {
                (true, _) => 0,
                (false, Some(wall)) => wall.saturating_sub_unsigned(tim),
                (false, None) => preview.offset_us.unwrap_or(0),
            };
            self.offset_us = Some(offset);
        }
        self.now = Some(tim);
        self.interval.end_us = Some(signed(tim));
    }

    /// The last `tim`, microseconds.
    pub(super) fn last_tim(&self) -> Option<u64> {
        self.now
    }

    /// A line that is neither a wait nor a call says that the session was at work.
    pub(super) fn told(&mut self, tim: u64, line: u64) {
        self.gaps.told(tim, 0, line);
    }

    /// The cursor number stands for this statement from now on.
    pub(super) fn parsing(&mut self, number: u64, statement: u64, dep: u32) {
        let cursor = self.cursors.get(number);
        let settled = cursor.settle();
        (cursor.statement, cursor.dep, cursor.plan) = (statement, dep, 0);
        if let Some((key, sums)) = settled {
            self.seconds.statement(key, &sums);
        }
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
        if doing != self.doing {
            self.close(out, true);
            self.begin_us = None;
            self.doing = doing;
        }
    }

    /// Opens the second in which an interval of this length ended.
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
        self.seconds.open(time_us);
        &mut self.seconds
    }

    pub(super) fn wait(&mut self, wait: Wait<'_>, out: &mut Output<'_>) {
        let event = out.events.get(wait.event);
        match wait.tim {
            Some(tim) => {
                self.open.wait(tim, wait.ela);
                self.gaps.told(tim, wait.ela, wait.line);
            }
            None => {
                self.open.wait_untimed(wait.ela, event.between_calls);
                self.now = self.now.map(|now| now.saturating_add(wait.ela));
            }
        }
        self.interval.wait_us = self.interval.wait_us.saturating_add(signed(wait.ela));
        let cursor = self.cursors.get(wait.cursor);
        let statement = cursor.statement;
        let waited = if event.from_client {
            &mut cursor.pending.idle_us
        } else {
            &mut cursor.pending.wait_us
        };
        *waited = waited.saturating_add(wait.ela);
        if event.from_client {
            self.underway = Underway::default();
        } else if !event.between_calls {
            self.underway.cursor = wait.cursor;
            self.underway.waits += 1;
            self.underway.wait_us = self.underway.wait_us.saturating_add(wait.ela);
            self.underway.line = wait.line;
        }
        let io = event.block_io.map(|io| {
            (
                io.direction,
                record::blocks(wait.parameters, io.place).unwrap_or(0),
            )
        });
        let second = self.second(wait.ela, out);
        second.add(wait.event, statement, wait.ela);
        second.latency(wait.event, io, wait.ela);
        let view = &mut second.counters().call_view;
        let sum = if event.from_client {
            &mut view.idle_us
        } else {
            &mut view.wait_us
        };
        *sum = sum.saturating_add(signed(wait.ela));
        if wait.tim.is_some() && out.into.options().beside {
            self.span(&wait, out);
        }
    }

    /// Keeps a wait as a single event. It has ended just now.
    fn span(&self, wait: &Wait<'_>, out: &mut Output<'_>) {
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
        });
    }

    /// Adds a call. True when it is of depth 0, so that its CPU counts in the totals.
    pub(super) fn call(&mut self, call: Call<'_>, out: &mut Output<'_>) -> bool {
        let tim = call.tim.or(self.now).unwrap_or(0);
        if self.interval.begin_us.is_none() && call.tim.is_some() {
            self.interval.begin_us = Some(signed(tim).saturating_sub(signed(call.e)));
        }
        let is_lob = call.of.kind == CallKind::Lob;
        let (statement, parsed_dep) = if is_lob {
            (0, 0)
        } else {
            let cursor = self.cursors.get(call.of.cursor);
            (cursor.statement, cursor.dep)
        };
        let dep = call.of.dep.unwrap_or(parsed_dep);
        if call.of.kind.is_parse_exec_fetch() {
            self.statement_call(&call, out);
            if parsed_dep == 0 {
                let view = &mut self.second(call.e, out).counters().call_view;
                view.elapsed_us = view.elapsed_us.saturating_add(signed(call.e));
                view.cpu_us = view.cpu_us.saturating_add(signed(call.c));
            }
        }
        if !is_lob {
            self.calls.call(statement, call.of.kind, dep, call.e);
        }
        let split = if is_lob {
            self.gaps.told(tim, call.e, call.line);
            self.open.lob_call(tim, call.e, call.c)
        } else if dep > 0 {
            self.gaps.told(tim, call.e, call.line);
            return false;
        } else {
            self.gaps.call(tim, call.e, call.line);
            self.underway = Underway::default();
            self.open.call(tim, call.e, call.c)
        };
        self.interval.cpu_us = self.interval.cpu_us.saturating_add(signed(call.c));
        self.settle(split, statement, out);
        true
    }

    /// Adds a call to the sums of its statement. A parse that says no plan belongs to the one that the cursor runs next.
    fn statement_call(&mut self, call: &Call<'_>, out: &mut Output<'_>) {
        let of = call.of;
        let cursor = self.cursors.get(of.cursor);
        cursor.pending.add(&StatementSums {
            calls: 1,
            executions: u64::from(of.kind == CallKind::Exec),
            elapsed_us: call.e,
            cpu_us: call.c,
            rows: of.r,
            consistent_gets: of.cr,
            current_gets: of.cu,
            physical_reads: of.p,
            misses: of.mis,
            ..StatementSums::default()
        });
        if of.plh != 0 {
            cursor.plan = of.plh;
        }
        if (of.plh != 0 || of.kind != CallKind::Parse)
            && let Some((key, sums)) = cursor.settle()
        {
            self.second(call.e, out).statement(key, &sums);
        }
    }

    fn settle(&mut self, split: Split, statement: u64, out: &mut Output<'_>) {
        let second = self.second(split.cpu + split.unaccounted, out);
        for (event, us) in [(Events::CPU, split.cpu), (Events::UNACCOUNTED, split.unaccounted)] {
            if us > 0 {
                second.add(event, statement, us);
            }
        }
        let counters = second.counters();
        let add = |sum: &mut u64, us| *sum = sum.saturating_add(us);
        add(&mut counters.cpu_inside_waits_us, split.cpu_inside_waits);
        add(&mut counters.waits_beyond_calls_us, split.waits_beyond);
    }

    /// Makes rows of what is open.
    fn close(&mut self, out: &mut Output<'_>, all: bool) {
        if self.seconds.is_empty() {
            return;
        }
        let id = self.id(out);
        self.seconds.close(id, out.events, out.into, all);
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
            backend_type: backend_type(&self.image),
            database: self.instance.clone(),
            title: title.join(" "),
            service: service.clone(),
            module: module.clone(),
            action: action.clone(),
            client_id: client_id.clone(),
            ..SessionRow::default()
        };
        out.into.session(&identity, row)
    }

    /// The trace has ended: everything becomes rows.
    pub(super) fn finish(&mut self, out: &mut Output<'_>) {
        let Some(end_us) = self.end_us else { return };
        for cursor in self.cursors.all() {
            if let Some((key, sums)) = cursor.settle() {
                self.seconds.statement(key, &sums);
            }
        }
        self.seconds.open(end_us);
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
    }

    /// The longest stretches of which no line tells.
    pub(super) fn longest_gaps(&mut self) -> Vec<TraceGap> {
        self.gaps.finish(&self.sid, self.offset_us.unwrap_or(0))
    }

    /// The call that had not ended when the trace did.
    pub(super) fn in_flight(&mut self) -> Option<CallInFlight> {
        let underway = &self.underway;
        if underway.waits == 0 && !self.calls.is_open() {
            return None;
        }
        let (statement, depth) = if underway.waits > 0 {
            let cursor = self.cursors.get(underway.cursor);
            (cursor.statement, (cursor.statement != 0).then_some(cursor.dep))
        } else {
            (0, None)
        };
        Some(CallInFlight {
            session: self.sid.clone(),
            cursor: underway.cursor,
            statement,
            depth,
            waits: underway.waits,
            wait_us: underway.wait_us,
            line: underway.line,
        })
    }
}

/// `oracle@host (J003)`: job and shared server processes work for users, parallel servers for another session; every
/// other name in parentheses is that of a background process.
fn backend_type(image: &str) -> String {
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
