//! A snapshot of sessions in the style of Tanel Poder's Snapper: how much each of their statistics, parts of their time and waits grew
//! in a short time.
//!
//! TIME and WAIT come from the ledger, STAT from counters. In an imported snapshot, all of it is what the file says.

mod amount;
mod average;
mod builder;
mod column;

use std::sync::Arc;

use dbtime_model::recording::Meta;
use dbtime_model::{Session, SessionId, Wait};

use crate::alike_statements::AlikeStatements;
use crate::database_view::{DatabaseView, DatabaseViewBuilder, Who};
use crate::filter::Filter;
use crate::group::Dimension;
use crate::latency::has_statements;
use crate::ledger::{Ledger, LedgerBuilder};
use crate::load::Source;
use crate::locks;
use crate::report::{ReportError, load};
use crate::scan::{Period, scan};
pub(crate) use amount::{graph, short};
pub use average::Average;
pub use builder::is_for_snapshot;
use builder::{Builder, Built};
pub use column::SnapshotColumn;

/// What a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LineKind {
    /// Something that was counted.
    Stat,
    /// A part of the session's time.
    Time,
    /// A wait event.
    Wait,
    /// An internal lock that it had.
    Latch,
    /// A lock of the server's lock table that it had or waited for.
    Lock,
}

impl LineKind {
    /// Every kind, in the order of a snapshot.
    pub const ALL: [LineKind; 5] = [
        LineKind::Stat,
        LineKind::Time,
        LineKind::Wait,
        LineKind::Latch,
        LineKind::Lock,
    ];

    /// As shown in a snapshot.
    pub fn as_str(self) -> &'static str {
        match self {
            LineKind::Stat => "STAT",
            LineKind::Time => "TIME",
            LineKind::Wait => "WAIT",
            LineKind::Latch => "LATCH",
            LineKind::Lock => "LOCK",
        }
    }
}

/// Which sessions, and what of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SnapshotOptions {
    /// Sessions, and which of their time: only that of chosen waits, states and statements. What is counted for a session as a whole is
    /// left out then.
    pub filter: Filter,
    /// Which lines.
    pub gather: Vec<LineKind>,
    /// Only lines whose name contains this, in upper or lower case; empty = all.
    pub include: String,
    /// What the average active sessions are grouped by; empty = they are not shown.
    pub ash: Vec<Dimension>,
    /// Most sessions to show; none = all.
    pub most: Option<usize>,
}

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// What the recording says about itself.
    pub meta: Meta,
    /// Which rows count.
    pub filter: Filter,
    /// The time it covers.
    pub period: Period,
    /// Those with the most DB time first.
    pub sessions: Vec<SessionSnapshot>,
    /// How many others there are, with less DB time: more than were to be shown.
    pub others: usize,
    /// CPU and waits of all chosen sessions against their DB time; without imported snapshots.
    pub total: DatabaseView,
    /// Time of all chosen sessions, if requested.
    pub active: Option<Ledger>,
    /// Some counters of these sessions are not known for the chosen waits, states, statements or comments.
    pub statistics_left_out: bool,
    /// What could not be read.
    pub problems: Vec<String>,
}

impl Snapshot {
    /// Number of sessions with something to show.
    pub fn count(&self) -> usize {
        let shown = self.sessions.iter();
        shown.filter(|one| !is_whole(&one.session)).count() + self.others
    }
}

/// Whether this is the server as a whole rather than a session.
pub(crate) fn is_whole(session: &Session) -> bool {
    session.pid == 0 && session.id == SessionId::RECORDER
}

/// The snapshot of one session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSnapshot {
    /// Who it is.
    pub session: Arc<Session>,
    /// What the growth is divided by, nanoseconds: the time of the snapshot.
    pub elapsed_ns: u128,
    /// CPU and waits against DB time; for imported snapshots as the file says.
    pub view: DatabaseView,
    /// What grew, in the order of [`LineKind`].
    pub lines: Vec<SnapshotLine>,
}

/// Unit of a line's growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineUnit {
    /// Nanoseconds.
    Nanoseconds,
    /// What the name says.
    Amount,
}

/// Something that grew.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotLine {
    /// Its kind.
    pub kind: LineKind,
    /// Its name.
    pub name: String,
    /// The statement, if it is about one.
    pub statement: Option<u64>,
    /// By how much. A level (of memory, of open cursors) may fall.
    pub growth: i128,
    /// `growth` is not growth, but the value at the end.
    pub is_level: bool,
    /// Unit of the growth.
    pub unit: LineUnit,
    /// For a wait: how many ended; none if that was not counted.
    pub waits: Option<u64>,
    /// How long these took from their beginning, nanoseconds.
    pub waited_ns: Option<u128>,
    /// Growth in relation to other numbers of the session, such as per event of something else.
    pub average: Option<Average>,
}

impl SnapshotLine {
    /// In the unit of [`SnapshotLine::growth`]; none without time, and for a level.
    pub fn per_second(&self, elapsed_ns: u128) -> Option<f64> {
        (elapsed_ns > 0 && !self.is_level).then(|| self.growth as f64 * 1e9 / elapsed_ns as f64)
    }

    /// Part of the time of the snapshot, in percent; none for what is not time of the session.
    pub fn percent_of_time(&self, elapsed_ns: u128) -> Option<f64> {
        match self.kind {
            LineKind::Stat => None,
            LineKind::Time | LineKind::Wait | LineKind::Latch | LineKind::Lock => {
                self.per_second(elapsed_ns).map(|ns| ns / 1e7)
            }
        }
    }

    /// Waits per second; none if they were not counted.
    pub fn waits_per_second(&self, elapsed_ns: u128) -> Option<f64> {
        let waits = self.waits.filter(|_| elapsed_ns > 0)?;
        Some(waits as f64 * 1e9 / elapsed_ns as f64)
    }

    /// Mean time of a wait in nanoseconds; none if they were not counted.
    pub fn average_wait_ns(&self) -> Option<f64> {
        let waits = self.waits.filter(|waits| *waits > 0)?;
        Some(self.waited_ns? as f64 / waits as f64)
    }
}

/// Adds up what grew.
///
/// # Errors
/// The filter names something that is not in the recording.
pub fn snapshot(source: &Source, options: &SnapshotOptions) -> Result<Snapshot, ReportError> {
    let mut all = take(source, options, Parts::One)?;
    Ok(all.remove(0))
}

/// The same, separately for each snapshot in an imported file; for a recording, the only one.
///
/// # Errors
/// The filter names something that is not in the recording.
pub fn snapshots(source: &Source, options: &SnapshotOptions) -> Result<Vec<Snapshot>, ReportError> {
    take(source, options, Parts::of(source, &options.filter))
}

/// How the time is divided.
enum Parts {
    /// Not at all.
    One,
    /// By the last second of each, which is the one of its rows. In order.
    Several(Vec<(i64, Period)>),
}

impl Parts {
    fn of(source: &Source, filter: &Filter) -> Parts {
        let mut parts: Vec<(i64, Period)> = Vec::new();
        let periods = &source.meta().periods;
        for one in periods
            .iter()
            .filter(|one| filter.takes_time(one.last_second_us()))
        {
            let elapsed_ns = u128::from(one.elapsed_ns);
            match parts.last_mut().filter(|(at, _)| *at == one.last_second_us()) {
                // Their rows cannot be told apart.
                Some((_, last)) => {
                    last.from_us = last.from_us.min(one.from_us);
                    last.to_us = last.to_us.max(one.to_us);
                    last.covered_ns = last.covered_ns.map(|ns| ns + elapsed_ns);
                }
                None => parts.push((
                    one.last_second_us(),
                    Period {
                        from_us: one.from_us,
                        to_us: one.to_us,
                        covered_ns: Some(elapsed_ns),
                    },
                )),
            }
        }
        match parts.len() {
            0 => Parts::One,
            _ => Parts::Several(parts),
        }
    }

    fn count(&self) -> usize {
        match self {
            Parts::One => 1,
            Parts::Several(parts) => parts.len(),
        }
    }

    /// The part that a row of this second belongs to: if none (a snapshot without an end), the next one.
    fn of_time(&self, time_us: i64) -> usize {
        match self {
            Parts::One => 0,
            Parts::Several(parts) => {
                let at = parts.partition_point(|(last, _)| *last < time_us);
                at.min(parts.len() - 1)
            }
        }
    }

    fn periods(&self, whole: Period) -> Vec<Period> {
        match self {
            Parts::One => vec![whole],
            Parts::Several(parts) => parts.iter().map(|(_, period)| *period).collect(),
        }
    }
}

fn take(source: &Source, options: &SnapshotOptions, parts: Parts) -> Result<Vec<Snapshot>, ReportError> {
    let filter = &options.filter;
    let mut dimensions = load(source, filter)?;
    let meta = source.meta();
    let waits_are_known = knows_waits_of(filter, meta);
    // Files of other tools count in their own ways: what they do not say is not known.
    let is_exact = meta.collector.tier.starts_with("exact") && meta.files.is_empty();
    let mut all: Vec<Builder<'_>> = (0..parts.count())
        .map(|_| Builder::new(options, is_exact && waits_are_known))
        .collect();
    // If only sessions of a live server are chosen, all of them are selected: then one pass is enough.
    let is_simple = filter.chooses_no_time() && options.ash.is_empty() && meta.files.is_empty();
    let mut totals: Vec<DatabaseViewBuilder> = (0..parts.count())
        .map(|_| DatabaseViewBuilder::default())
        .collect();
    let scanned = scan(source, &mut dimensions, filter, |activity| {
        let part = parts.of_time(activity.row.time);
        all[part].add(activity);
        if is_simple {
            totals[part].add(activity);
        }
    });
    if !filter.chooses_no_time() {
        scanned.check(filter)?;
    }
    let period = scanned.period;
    let mut problems = scanned.problems;
    let takes = |time, session: &Session| filter.takes_time(time) && filter.takes_session(session);
    problems.extend(source.counters(|row| {
        let session = dimensions.session(row.session);
        let part = &mut all[parts.of_time(row.time)];
        // Counters do not tell which sessions had a comment, but it must be said that some were left out.
        if takes(row.time, session) || (filter.takes_time(row.time) && part.has(row.session)) {
            part.add_counter(row, session);
        }
    }));
    if waits_are_known {
        problems.extend(source.latency(|row| {
            let session = dimensions.session(row.session);
            if takes(row.time, session) && filter.takes_statement(row.statement) {
                all[parts.of_time(row.time)].add_latency(row, session);
            }
        }));
    }
    if options.gather.contains(&LineKind::Latch) {
        problems.extend(source.held_locks(|row| {
            let wait = Wait::event(&row.wait_class, &row.wait_event, false);
            let session = dimensions.session(row.session);
            let is_chosen = filter.takes_statement(row.statement) && filter.takes(&wait, row.state);
            if is_chosen && takes(row.time, session) {
                all[parts.of_time(row.time)].add_held_lock(row, session);
            }
        }));
    }
    let mut meta = meta.clone();
    if all.len() > 1 {
        // They are those of the whole file, which every snapshot would repeat.
        meta.periods = Vec::new();
    }
    if options.gather.contains(&LineKind::Lock) {
        problems.extend(source.locks(|row| {
            let session = dimensions.session(row.session);
            // Locks of no process, or of one that is not recorded, belong to no session.
            let is_of_session = row.session != SessionId::RECORDER
                && locks::takes_wait(filter, row)
                && filter.takes_statement(row.statement);
            if is_of_session && takes(row.time, session) {
                all[parts.of_time(row.time)].add_lock(row, session);
            }
        }));
    }
    let built: Vec<(Period, Built)> = all
        .into_iter()
        .zip(parts.periods(period))
        .map(|(builder, period)| (period, builder.finish(period)))
        .collect();
    // Which sessions are selected is known only now.
    let wants_active = !options.ash.is_empty();
    let mut active: Vec<LedgerBuilder> = (0..if wants_active { built.len() } else { 0 })
        .map(|_| LedgerBuilder::new(&options.ash, source, &mut dimensions))
        .collect();
    if !is_simple {
        scan(source, &mut dimensions, filter, |activity| {
            let part = parts.of_time(activity.row.time);
            if built[part].1.observed.contains(&activity.row.session) {
                totals[part].add(activity);
                if let Some(active) = active.get_mut(part) {
                    active.add(activity);
                }
            }
        });
    }
    let mut snapshots: Vec<Snapshot> = built
        .into_iter()
        .zip(totals)
        .map(|((period, built), total)| Snapshot {
            meta: meta.clone(),
            filter: filter.clone(),
            period,
            sessions: built.sessions,
            others: built.others,
            total: total.finish(Who::of(&meta)),
            active: None,
            statistics_left_out: built.statistics_left_out,
            problems: Vec::new(),
        })
        .collect();
    for (snapshot, active) in snapshots.iter_mut().zip(active) {
        snapshot.active = Some(active.finish(&AlikeStatements::default(), &mut dimensions));
    }
    problems.append(&mut dimensions.problems);
    if let Some(last) = snapshots.last_mut() {
        last.problems = problems.into_iter().map(|problem| problem.0).collect();
    }
    Ok(snapshots)
}

/// True if it is known how many of the selected waits ended: that is counted by session, wait and statement, not by state of the
/// operating system or comment.
fn knows_waits_of(filter: &Filter, meta: &Meta) -> bool {
    let by_others = Filter {
        waits: Vec::new(),
        ..filter.clone()
    };
    chooses_no_time_but_statements(&by_others) && (filter.statements.is_empty() || has_statements(meta))
}

/// True if nothing but statements selects which time of the sessions counts.
fn chooses_no_time_but_statements(filter: &Filter) -> bool {
    let by_others = Filter {
        statements: Vec::new(),
        ..filter.clone()
    };
    by_others.chooses_no_time()
}
