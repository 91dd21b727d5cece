//! One pass over the activity: every row that the filter lets through, with its session, wait and section.

use std::borrow::Cow;

use dbtime_model::recording::{Meta, Problem, Unit};
use dbtime_model::{ActivityRow, Fidelity, Session, Wait, WaitKind};

use crate::dive::has_kernel_trace;
use crate::filter::{Filter, SECOND_US};
use crate::ledger::Section;
use crate::load::{Dimensions, Source};

/// A row and what is known about it.
pub(crate) struct Activity<'a> {
    pub(crate) row: &'a ActivityRow,
    pub(crate) session: &'a Session,
    pub(crate) wait: &'a Wait,
    pub(crate) section: Section,
    /// The kernel counted this time, but no sample fell into it.
    pub(crate) not_sampled: bool,
}

/// The time that a report covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Begin, microseconds since the Unix epoch.
    pub from_us: i64,
    /// End, microseconds since the Unix epoch, exclusive.
    pub to_us: i64,
}

impl Period {
    /// Wall-clock time in nanoseconds.
    pub fn elapsed_ns(&self) -> u128 {
        let us = i128::from(self.to_us) - i128::from(self.from_us);
        us.max(0).unsigned_abs() * 1_000
    }
}

/// What a pass found out besides the rows it handed on.
pub(crate) struct Scan {
    pub(crate) period: Period,
    pub(crate) problems: Vec<Problem>,
}

/// Hands on every row of activity that the filter lets through.
pub(crate) fn scan(
    source: &Source,
    dimensions: &mut Dimensions,
    filter: &Filter,
    mut take: impl FnMut(&Activity<'_>),
) -> Scan {
    let not_sampled = Wait::not_sampled();
    let mut seconds: Option<(i64, i64)> = None;
    let unit = source.meta().collector.unit;
    // Timer samples of a trace of the kernel are no part of its time: the report of the trace alone counts them.
    let leaves_out_samples = has_kernel_trace(source.meta());
    let problems = source.activity(|row| {
        if leaves_out_samples && row.fidelity == Fidelity::Sampled {
            return;
        }
        let weighed = weighed(row, unit);
        let row = weighed.as_ref();
        let (first, last) = seconds.unwrap_or((row.time, row.time));
        seconds = Some((first.min(row.time), last.max(row.time)));
        if !filter.takes_time(row.time) {
            return;
        }
        let wait = wait_of(row);
        let session = dimensions.session(row.session);
        if filter.takes_session(session) && filter.takes(&wait, row.state) {
            take(&Activity {
                row,
                session,
                wait: &wait,
                section: Section::of(&session.backend_type, wait.idle),
                not_sampled: wait.class == not_sampled.class && wait.event == not_sampled.event,
            });
        }
    });
    finish(source.meta(), filter, seconds, problems)
}

/// The row with its amount in `ns`, whatever the recording counts: the one place that knows the columns of other units.
fn weighed(row: &ActivityRow, unit: Unit) -> Cow<'_, ActivityRow> {
    let ns = match unit {
        Unit::Time => return Cow::Borrowed(row),
        Unit::Samples => row.samples,
        Unit::Counts => row.count,
    };
    Cow::Owned(ActivityRow { ns, ..row.clone() })
}

/// Ends a pass: the period that was covered, given the first and the last second of the rows.
pub(crate) fn finish(
    meta: &Meta,
    filter: &Filter,
    seconds: Option<(i64, i64)>,
    mut problems: Vec<Problem>,
) -> Scan {
    let (period, outside) = period(meta, filter, seconds);
    if outside {
        problems.push(Problem(
            "rows lie outside of the time of the recording; elapsed time was widened to hold them"
                .to_string(),
        ));
    }
    Scan { period, problems }
}

/// The wait of a row; whatever the event is called, there is only one "in no wait event".
fn wait_of(row: &ActivityRow) -> Wait {
    let wait = row.wait();
    match wait.kind() {
        WaitKind::None => Wait {
            idle: wait.idle,
            ..Wait::none()
        },
        WaitKind::Event | WaitKind::Unknown => wait,
    }
}

/// The period of the recording, cut to the filter; and whether rows lie outside of what `meta` says.
fn period(meta: &Meta, filter: &Filter, seconds: Option<(i64, i64)>) -> (Period, bool) {
    let mut from_us = meta.start_us;
    let mut to_us = meta.end_us.max(meta.start_us);
    let mut outside = false;
    if let Some((first, last)) = seconds {
        if first.saturating_add(SECOND_US) < from_us {
            from_us = first;
            outside = true;
        }
        if last > to_us {
            to_us = last.saturating_add(SECOND_US);
            outside = true;
        }
    }
    if let Some(begin) = filter.begin_us() {
        from_us = from_us.max(begin);
    }
    if let Some(end) = filter.end_us() {
        to_us = to_us.min(end);
    }
    to_us = to_us.max(from_us);
    (Period { from_us, to_us }, outside)
}
