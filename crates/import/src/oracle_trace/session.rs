//! One session of a trace: its cursors, its clock, and what is added up for it.

use std::collections::HashMap;

use super::elapsed::{Open, Split};
use super::events::{EventId, Events};
use super::preview::{Preview, Unit};
use super::record::CallKind;
use super::seconds::Seconds;
use super::views::{IntervalView, signed};

/// A `tim` in this range counts from the Unix epoch (2000 to 2100), as on many Linux hosts; every other one from
/// the start of the host.
const EPOCH_TIM_US: std::ops::Range<u64> = 946_684_800_000_000..4_102_444_800_000_000;

/// The latest `PARSING IN CURSOR` of a cursor number. Numbers are reused.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    pub statement: u64,
    pub dep: u32,
}

/// A wait, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub cursor: u64,
    pub event: EventId,
    pub ela: u64,
    pub tim: Option<u64>,
}

/// A call, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub kind: CallKind,
    pub cursor: u64,
    pub c: u64,
    pub e: u64,
    pub dep: Option<u32>,
    pub tim: Option<u64>,
}

/// In which totals a call counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    /// By the rule of [`super::CallView`].
    pub in_call_view: bool,
    /// It is of depth 0.
    pub is_top: bool,
}

/// One session.
#[derive(Debug)]
pub(super) struct TracedSession {
    pub(super) pid: u32,
    /// `sid.serial`; empty when the trace does not say.
    pub(super) sid: String,
    pub(super) service: String,
    pub(super) module: String,
    pub(super) action: String,
    pub(super) seconds: Seconds,
    pub(super) interval: IntervalView,
    /// When the first wait or call began, microseconds since the Unix epoch.
    pub(super) begin_us: Option<i64>,
    cursors: HashMap<u64, Cursor>,
    open: Open,
    /// The last `tim`, and what passed since by waits that have none. Microseconds.
    now: Option<u64>,
    offset_us: Option<i64>,
}

impl TracedSession {
    pub(super) fn new(pid: u32, sid: String) -> TracedSession {
        TracedSession {
            pid,
            sid,
            service: String::new(),
            module: String::new(),
            action: String::new(),
            seconds: Seconds::default(),
            interval: IntervalView::default(),
            begin_us: None,
            cursors: HashMap::new(),
            open: Open::default(),
            now: None,
            offset_us: None,
        }
    }

    /// A line has a `tim`. `wall_us` is the time of day that the file said last.
    pub(super) fn tick(&mut self, tim: Option<u64>, preview: &Preview, wall_us: Option<i64>) {
        let Some(tim) = tim else { return };
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

    pub(super) fn parsing(&mut self, number: u64, cursor: Cursor) {
        self.cursors.insert(number, cursor);
    }

    /// Opens the second in which an interval of this length ended.
    fn second(&mut self, us: u64, wall_us: Option<i64>, events: &Events) -> &mut Seconds {
        let time_us = match (self.now, self.offset_us) {
            (Some(now), offset) => offset.unwrap_or(0).saturating_add(signed(now)),
            (None, _) => wall_us.unwrap_or(0),
        };
        let begin_us = time_us.saturating_sub(signed(us));
        self.begin_us = Some(self.begin_us.map_or(begin_us, |first| first.min(begin_us)));
        self.seconds.at(time_us, events)
    }

    pub(super) fn wait(&mut self, wait: Wait, wall_us: Option<i64>, events: &Events) {
        let event = events.get(wait.event);
        match wait.tim {
            Some(tim) => self.open.wait(tim, wait.ela),
            None => {
                self.open.wait_untimed(wait.ela, event.between_calls);
                self.now = self.now.map(|now| now.saturating_add(wait.ela));
            }
        }
        self.interval.wait_us = self.interval.wait_us.saturating_add(signed(wait.ela));
        let statement = self
            .cursors
            .get(&wait.cursor)
            .map_or(0, |cursor| cursor.statement);
        let second = self.second(wait.ela, wall_us, events);
        second.add(wait.event, statement, wait.ela);
        let view = &mut second.counters().call_view;
        let sum = if event.from_client {
            &mut view.idle_us
        } else {
            &mut view.wait_us
        };
        *sum = sum.saturating_add(signed(wait.ela));
    }

    /// Adds a call and says in which totals it counts.
    pub(super) fn call(&mut self, call: Call, wall_us: Option<i64>, events: &Events) -> Counts {
        let tim = call.tim.or(self.now).unwrap_or(0);
        if self.interval.begin_us.is_none() && call.tim.is_some() {
            self.interval.begin_us = Some(signed(tim).saturating_sub(signed(call.e)));
        }
        let cursor = self.cursors.get(&call.cursor).copied();
        let parsed_dep = cursor.map_or(0, |cursor| cursor.dep);
        let mut counts = Counts {
            in_call_view: call.kind == CallKind::ParseExecFetch && parsed_dep == 0,
            is_top: true,
        };
        if counts.in_call_view {
            let view = &mut self.second(call.e, wall_us, events).counters().call_view;
            view.elapsed_us = view.elapsed_us.saturating_add(signed(call.e));
            view.cpu_us = view.cpu_us.saturating_add(signed(call.c));
        }
        let split = match call.kind {
            CallKind::Lob => self.open.lob_call(tim, call.e, call.c),
            _ if call.dep.unwrap_or(parsed_dep) > 0 => {
                counts.is_top = false;
                return counts;
            }
            _ => self.open.call(tim, call.e, call.c),
        };
        self.interval.cpu_us = self.interval.cpu_us.saturating_add(signed(call.c));
        self.settle(
            split,
            cursor.map_or(0, |cursor| cursor.statement),
            wall_us,
            events,
        );
        counts
    }

    fn settle(&mut self, split: Split, statement: u64, wall_us: Option<i64>, events: &Events) {
        let second = self.second(split.cpu + split.unaccounted, wall_us, events);
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
}
