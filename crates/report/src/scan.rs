//! One pass over the activity: every row that the filter lets through, with its session, wait and section.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dbtime_model::recording::{Meta, Problem, Unit};
use dbtime_model::{
    ActivityRow, BackendType, Fidelity, HeldLockRow, LockRow, Session, SessionId, State, StateGroup, Wait,
    WaitKind,
};

use crate::causes::Cause;
use crate::dimensions::{Comment, Dimensions};
use crate::dive::has_kernel_trace;
use crate::filter::{Filter, SECOND_US};
use crate::group::query_id;
use crate::ledger::Section;
use crate::load::Source;
use crate::locks;
use crate::report::ReportError;

/// A row and what is known about it.
pub(crate) struct Activity<'a> {
    pub(crate) row: &'a ActivityRow,
    pub(crate) session: &'a Arc<Session>,
    /// Within DB time, the database calls only [`Wait::without_cpu`] idle.
    pub(crate) wait: &'a Wait,
    pub(crate) section: Section,
    /// The kernel counted this time, but no sample fell into it.
    pub(crate) not_sampled: bool,
    /// Comment of the statement.
    pub(crate) comment: Comment<'a>,
    /// What else its ids stand for.
    pub(crate) dimensions: &'a Dimensions,
    /// Who was waited for: set for a part of a row, if time is grouped by that.
    pub(crate) cause: Option<&'a Cause>,
}

impl Activity<'_> {
    /// The server's first process does nothing but wait, without reporting it.
    pub(crate) fn is_resting(&self) -> bool {
        self.session.backend_type.0 == BackendType::POSTMASTER
            && self.row.state.group() == Some(StateGroup::Blocked)
    }
}

/// The time that a report covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Period {
    /// Begin, microseconds since the Unix epoch.
    pub from_us: i64,
    /// End, microseconds since the Unix epoch, exclusive.
    pub to_us: i64,
    /// How much of it the rows cover, nanoseconds; none: all of it.
    pub covered_ns: Option<u128>,
}

impl Period {
    /// What times in it are divided by, in nanoseconds: wall-clock time that is covered.
    pub fn elapsed_ns(&self) -> u128 {
        self.covered_ns.unwrap_or(self.whole_ns())
    }

    /// From begin to end, nanoseconds.
    pub fn whole_ns(&self) -> u128 {
        let us = i128::from(self.to_us) - i128::from(self.from_us);
        us.max(0).unsigned_abs() * 1_000
    }

    /// The part of it that a filter lets through.
    pub(crate) fn cut(self, filter: &Filter) -> Period {
        let from_us = filter
            .begin_us()
            .map_or(self.from_us, |begin| begin.max(self.from_us));
        let to_us = filter.end_us().map_or(self.to_us, |end| end.min(self.to_us));
        Period {
            from_us,
            to_us: to_us.max(from_us),
            covered_ns: None,
        }
    }
}

/// Maximum number of statements that an error lists.
pub(crate) const MOST_NAMED: usize = 20;

/// What a pass found besides the rows it passed on.
pub(crate) struct Scan {
    pub(crate) period: Period,
    pub(crate) problems: Vec<Problem>,
    met: Met,
}

impl Scan {
    /// Counts the names of a held lock as found, too: imported locks have no activity.
    pub(crate) fn meet(&mut self, row: &HeldLockRow, filter: &Filter, session: &Session) {
        if filter.takes_time(row.time) && filter.takes_session(session) {
            let wait = Wait::event(&row.wait_class, &row.wait_event, false);
            self.met
                .add(filter, [&wait, &wait], row.state, (row.statement, row.ns));
        }
    }

    /// Counts the names of a lock of the lock table as found, too: its holder may have been idle all the time.
    pub(crate) fn meet_lock(&mut self, row: &LockRow, filter: &Filter, session: &Session) {
        if !filter.takes_time(row.time) || !filter.takes_session(session) {
            return;
        }
        match row.granted {
            true if filter.statements.is_empty() => {}
            true => *self.met.statements.entry(row.statement).or_default() += u128::from(row.ns),
            false => {
                let wait = locks::wait_of(row);
                self.met
                    .add(filter, [&wait, &wait], State::Sleep, (row.statement, row.ns));
            }
        }
    }

    /// Counts these statements, with their time, as found: they have events.
    pub(crate) fn meet_statements(&mut self, statements: BTreeMap<u64, u128>) {
        self.met.statements = statements;
    }

    /// [`check_statements`] for what was found.
    ///
    /// # Errors
    /// One does not occur; lists those that do.
    pub(crate) fn check_statements(&self, filter: &Filter) -> Result<(), ReportError> {
        check_statements(filter, &self.met.statements)
    }

    /// Checks that every name in the filter occurs. One that does not is usually a typing error, which an empty answer would
    /// hide.
    ///
    /// # Errors
    /// One does not occur; lists those that do.
    pub(crate) fn check(&self, filter: &Filter) -> Result<(), ReportError> {
        let waits = &self.met.waits;
        let is_met = |name: &&String| waits.iter().any(|wait| wait.is_called(name));
        if let Some(name) = filter.waits.iter().find(|name| !is_met(name)) {
            return Err(ReportError::NoSuchWait {
                wait: name.clone(),
                recorded: waits.iter().map(Wait::to_string).collect(),
            });
        }
        check_statements(filter, &self.met.statements)?;
        match filter
            .states
            .iter()
            .find(|state| !self.met.states.contains(state))
        {
            Some(state) => Err(ReportError::NoSuchState {
                state: *state,
                recorded: self.met.states.iter().map(|state| state.as_str()).collect(),
            }),
            None => Ok(()),
        }
    }
}

/// Checks that every statement in the filter occurs; `met` are those that do, with their time.
///
/// # Errors
/// One does not occur; lists those that do.
pub(crate) fn check_statements(filter: &Filter, met: &BTreeMap<u64, u128>) -> Result<(), ReportError> {
    let Some(id) = filter.statements.iter().find(|id| !met.contains_key(id)) else {
        return Ok(());
    };
    let mut recorded: Vec<(u64, u128)> = met.iter().map(|(id, ns)| (*id, *ns)).collect();
    recorded.retain(|(id, _)| *id != 0);
    recorded.sort_unstable_by_key(|(_, ns)| Reverse(*ns));
    Err(ReportError::NoSuchStatement {
        id: id.cast_signed(),
        more: recorded.len() > MOST_NAMED,
        recorded: recorded
            .iter()
            .take(MOST_NAMED)
            .map(|(id, _)| query_id(*id))
            .collect(),
    })
}

/// What occurs in the chosen sessions and seconds, for whatever the filter chooses by.
#[derive(Default)]
struct Met {
    waits: BTreeSet<Wait>,
    states: BTreeSet<State>,
    /// With their time.
    statements: BTreeMap<u64, u128>,
}

impl Met {
    fn add(&mut self, filter: &Filter, waits: [&Wait; 2], state: State, (statement, ns): (u64, u64)) {
        if !filter.waits.is_empty() {
            for wait in waits {
                if !self.waits.contains(wait) {
                    self.waits.insert(wait.clone());
                }
            }
        }
        if !filter.states.is_empty() {
            self.states.insert(state);
        }
        if !filter.statements.is_empty() {
            *self.statements.entry(statement).or_default() += u128::from(ns);
        }
    }
}

/// Passes on every row of activity that the filter lets through.
pub(crate) fn scan(
    source: &Source,
    dimensions: &mut Dimensions,
    filter: &Filter,
    mut take: impl FnMut(&Activity<'_>),
) -> Scan {
    let not_sampled = Wait::not_sampled();
    let mut seconds: Option<(i64, i64)> = None;
    let unit = source.meta().collector.unit;
    let mut met = Met::default();
    // Timer samples of a kernel trace are not part of its time: only the report on the trace counts them.
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
        let recorded = wait_of(row);
        let (session, comment, dimensions) = dimensions.session_and_comment(row.session, row.comment);
        let section = Section::of(&session.backend_type, recorded.idle, row.state);
        // It has a row and a name of its own, but is found by the name of the idle wait, too.
        let wait = match section {
            Section::DbTime if recorded.idle => recorded.without_cpu(),
            _ => recorded.clone(),
        };
        if !filter.takes_request(session, comment) {
            return;
        }
        met.add(filter, [&recorded, &wait], row.state, (row.statement, row.ns));
        if !filter.takes_statement(row.statement) {
            return;
        }
        let takes = |wait: &Wait| filter.takes(wait, row.state);
        if takes(&recorded) || takes(&wait) {
            take(&Activity {
                row,
                session,
                wait: &wait,
                section,
                not_sampled: wait.class == not_sampled.class && wait.event == not_sampled.event,
                comment,
                dimensions,
                cause: None,
            });
        }
    });
    Scan {
        met,
        ..finish(source.meta(), filter, seconds, problems)
    }
}

/// The row with its amount in `ns`, whatever the recording counts: the only place that knows the columns of other units.
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
            "some rows are outside the time range that the recording states: elapsed time was extended to include them"
                .to_string(),
        ));
    }
    Scan {
        period,
        problems,
        met: Met::default(),
    }
}

/// True for numbers of foreground sessions that the filter lets through, and, unless sessions were chosen, for those of no
/// session: the host's.
pub(crate) fn is_foreground(id: SessionId, dimensions: &mut Dimensions, filter: &Filter) -> bool {
    if id == SessionId::RECORDER {
        return filter.takes_all_sessions();
    }
    let session = dimensions.session(id);
    session.backend_type.is_foreground() && filter.takes_session(session)
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

/// The period of the recording, cut to the filter; and whether rows are outside of what `meta` says.
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
    let whole = Period {
        from_us,
        to_us,
        covered_ns: None,
    };
    let mut period = whole.cut(filter);
    period.covered_ns = covered_ns(meta, filter, period);
    (period, outside)
}

/// How much of a period the rows that the filter lets through cover; none: all.
fn covered_ns(meta: &Meta, filter: &Filter, period: Period) -> Option<u128> {
    if meta.periods.is_empty() {
        let missing_ns = u128::from(meta.gaps_us(period.from_us, period.to_us)) * 1_000;
        return (missing_ns > 0).then(|| period.whole_ns() - missing_ns);
    }
    let periods = meta.periods.iter();
    let taken = periods.filter(|period| filter.takes_time(period.last_second_us()));
    let sum = taken.map(|period| u128::from(period.elapsed_ns)).sum();
    Some(sum)
}
