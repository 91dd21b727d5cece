//! A snapshot of sessions in the manner of Tanel Poder's Snapper: how much each of their statistics, parts of their time and waits grew
//! in a short time.
//!
//! TIME and WAIT are the ledger's, STAT is what was counted. Of an imported snapshot all of it is what the file says.

mod amount;
mod builder;
mod column;

use dbtime_model::recording::Meta;
use dbtime_model::{Session, Wait};

use crate::alike_statements::AlikeStatements;
use crate::database_view::{DatabaseView, DatabaseViewBuilder};
use crate::filter::Filter;
use crate::group::Dimension;
use crate::latency::has_statements;
use crate::ledger::{Ledger, LedgerBuilder};
use crate::load::Source;
use crate::report::{ReportError, load};
use crate::scan::{Period, scan};
pub(crate) use amount::{graph, short};
use builder::Builder;
pub use column::SnapshotColumn;

/// Which processes of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Whose {
    /// All of them.
    #[default]
    All,
    /// Those that work for clients.
    Foreground,
    /// Those that work for the server itself.
    Background,
}

/// What a line says.
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
}

impl LineKind {
    /// Every kind, in the order of a snapshot.
    pub const ALL: [LineKind; 4] = [LineKind::Stat, LineKind::Time, LineKind::Wait, LineKind::Latch];

    /// As it stands in a snapshot.
    pub fn as_str(self) -> &'static str {
        match self {
            LineKind::Stat => "STAT",
            LineKind::Time => "TIME",
            LineKind::Wait => "WAIT",
            LineKind::Latch => "LATCH",
        }
    }
}

/// Which sessions, and what of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SnapshotOptions {
    /// Sessions, and which of their time: of waits, states and statements that alone. What is counted of a session as a whole is left
    /// out then.
    pub filter: Filter,
    /// Of these.
    pub whose: Whose,
    /// Which lines.
    pub gather: Vec<LineKind>,
    /// Only lines whose name has this in it, upper or lower case; empty = all.
    pub include: String,
    /// What the average active sessions are grouped by; empty = they are not shown.
    pub ash: Vec<Dimension>,
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
    /// CPU and waits of all that were chosen against their DB time; without those of imported snapshots.
    pub total: DatabaseView,
    /// Time of all that were chosen, where it was asked for.
    pub active: Option<Ledger>,
    /// Something was counted of these sessions that is not known of the waits, states, statements or comments that were chosen.
    pub statistics_left_out: bool,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// Of one session.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSnapshot {
    /// Who it is.
    pub session: Session,
    /// What the growth is divided by, nanoseconds: the time of the snapshot.
    pub elapsed_ns: u128,
    /// CPU and waits against DB time; of imported snapshots as the file says it.
    pub view: DatabaseView,
    /// What grew, in the order of [`LineKind`].
    pub lines: Vec<SnapshotLine>,
}

/// What the growth of a line is.
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
    /// What it is.
    pub kind: LineKind,
    /// Which.
    pub name: String,
    /// Of which statement, where it is of one.
    pub statement: Option<u64>,
    /// By how much. A level (of memory, of open cursors) may fall.
    pub growth: i128,
    /// What of.
    pub unit: LineUnit,
    /// Of a wait: how many ended; none where that was not counted.
    pub waits: Option<u64>,
    /// How long these were, from their begin, nanoseconds.
    pub waited_ns: Option<u128>,
    /// Growth per event of something else that was counted, and what that is.
    pub average: Option<(f64, &'static str)>,
}

impl SnapshotLine {
    /// In the unit of [`SnapshotLine::growth`]; none of no time.
    pub fn per_second(&self, elapsed_ns: u128) -> Option<f64> {
        (elapsed_ns > 0).then(|| self.growth as f64 * 1e9 / elapsed_ns as f64)
    }

    /// Part of the time of the snapshot, in percent; none of what is no time of the session.
    pub fn percent_of_time(&self, elapsed_ns: u128) -> Option<f64> {
        match self.kind {
            LineKind::Stat => None,
            LineKind::Time | LineKind::Wait | LineKind::Latch => {
                self.per_second(elapsed_ns).map(|ns| ns / 1e7)
            }
        }
    }

    /// Waits per second; none where they were not counted.
    pub fn waits_per_second(&self, elapsed_ns: u128) -> Option<f64> {
        let waits = self.waits.filter(|_| elapsed_ns > 0)?;
        Some(waits as f64 * 1e9 / elapsed_ns as f64)
    }

    /// Nanoseconds of a wait; none where they were not counted.
    pub fn average_wait_ns(&self) -> Option<f64> {
        let waits = self.waits.filter(|waits| *waits > 0)?;
        Some(self.waited_ns? as f64 / waits as f64)
    }
}

/// Adds up what grew.
///
/// # Errors
/// The filter names what is not in the recording.
pub fn snapshot(source: &Source, options: &SnapshotOptions) -> Result<Snapshot, ReportError> {
    let filter = &options.filter;
    let mut dimensions = load(source, filter)?;
    let meta = source.meta();
    let waits_are_known = knows_waits_of(filter, meta);
    // Files of other tools count as they do: what they do not say is not known.
    let is_exact = meta.collector.tier.starts_with("exact") && meta.files.is_empty();
    let mut all = Builder::new(options, is_exact && waits_are_known);
    let scanned = scan(source, &mut dimensions, filter, |activity| all.add(activity));
    if !filter.chooses_no_time() {
        scanned.check(filter)?;
    }
    let period = scanned.period;
    let mut problems = scanned.problems;
    let takes = |time, session: &Session| filter.takes_time(time) && filter.takes_session(session);
    problems.extend(source.counters(|row| {
        let session = dimensions.session(row.session);
        // Of comments no session is known by its counters: that some were left out is to be said all the same.
        if takes(row.time, session) || (filter.takes_time(row.time) && all.has(row.session)) {
            all.add_counter(row, session);
        }
    }));
    if waits_are_known {
        problems.extend(source.latency(|row| {
            let session = dimensions.session(row.session);
            if takes(row.time, session) && filter.takes_statement(row.statement) {
                all.add_latency(row, session);
            }
        }));
    }
    problems.extend(source.held_locks(|row| {
        let wait = Wait::event(&row.wait_class, &row.wait_event, false);
        let session = dimensions.session(row.session);
        let is_chosen = filter.takes_statement(row.statement) && filter.takes(&wait, row.state);
        if is_chosen && takes(row.time, session) {
            all.add_held_lock(row, session);
        }
    }));
    let built = all.finish(period);
    // Only now is it known which sessions are meant.
    let mut total = DatabaseViewBuilder::default();
    let mut active = LedgerBuilder::new(&options.ash, source, &mut dimensions);
    scan(source, &mut dimensions, filter, |activity| {
        if built.observed.contains(&activity.row.session) {
            total.add(activity);
            active.add(activity);
        }
    });
    let active =
        (!options.ash.is_empty()).then(|| active.finish(&AlikeStatements::default(), &mut dimensions));
    problems.append(&mut dimensions.problems);
    Ok(Snapshot {
        meta: source.meta().clone(),
        filter: filter.clone(),
        period,
        sessions: built.sessions,
        total: total.finish(false),
        active,
        statistics_left_out: built.statistics_left_out,
        problems: problems.into_iter().map(|problem| problem.0).collect(),
    })
}

/// True where it is known how many of the waits that are meant ended: that is counted by session, wait and statement, and not by what
/// the operating system says or a comment does.
fn knows_waits_of(filter: &Filter, meta: &Meta) -> bool {
    let by_others = Filter {
        waits: Vec::new(),
        statements: Vec::new(),
        ..filter.clone()
    };
    by_others.chooses_no_time() && (filter.statements.is_empty() || has_statements(meta))
}
