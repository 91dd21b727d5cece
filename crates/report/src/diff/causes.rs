//! Who was waited for, on both sides.
//!
//! Blocked time is grouped by wait event and by what the session that was waited for in the end did, whichever session that was:
//! pids mean nothing in another recording. The differences sum to that of the blocked DB time. They have a test of their own, of the
//! same kind as everything else.

use std::collections::BTreeMap;

use dbtime_model::CauseKind;

use super::Per;
use super::answer::{CauseChange, CauseChanges, Change, Place, Verdict, WaitingStatement};
use super::changes::{Changes, Pair, add};
use super::conclusion::{GROWTH_COUNTS, MOST, amount, per_words};
use super::side::{Side, Total};
use super::side_causes::{CauseKey, OfCause};
use super::verdicts::{BySlice, Yardstick, give_verdicts};
use crate::causes::{CauseGroup, CausePart, doing, no_session};
use crate::group::query_id;
use crate::number::counted;
use crate::statement_text::beginning;
use crate::sums::percent;

/// Characters of a statement's text in the sentence.
const TEXT: usize = 60;

/// Both sides of a cause.
#[derive(Default)]
struct Both {
    all: Pair,
    groups: [Option<CauseGroup>; 2],
    statements: BTreeMap<u64, Pair>,
    slices: BySlice,
}

/// Compares both sides, and moves what is compared out of them. `statements_match`: a statement has the same id on both sides. The
/// sentence is added later.
pub(super) fn compare(
    sides: &mut [Side; 2],
    changes: &Changes,
    per: &Per,
    factor: f64,
    statements_match: bool,
) -> CauseChanges {
    let mut causes: BTreeMap<CauseKey, Both> = BTreeMap::new();
    for (n, side) in sides.iter_mut().enumerate() {
        for (key, of) in std::mem::take(&mut side.causes) {
            let (key, of) = match statements_match {
                true => (key, of),
                false => (key.without_statement(), without_statements(of)),
            };
            causes.entry(key).or_default().add(n, of, per);
        }
    }
    let by = Yardstick::new(per, factor, changes);
    let tested = causes
        .values_mut()
        .map(|both| (&mut both.all, std::mem::take(&mut both.slices), by));
    give_verdicts(tested);
    let mut blocked = Pair::default();
    let mut answer: Vec<CauseChange> = Vec::with_capacity(causes.len());
    for (key, both) in causes {
        blocked.add(both.all.values, both.all.values);
        let sessions = both
            .groups
            .each_ref()
            .map(|group| group.as_ref().map_or(0, |group| group.pids.len()));
        let [good, bad] = both.groups;
        // At least one of the two exists.
        let Some(group) = bad.or(good) else { continue };
        answer.push(CauseChange {
            change: changes.change(Place::Wait(key.wait), &both.all, None, per),
            cause: group.part,
            sessions,
            statements: waiting(both.statements, sides, changes, per),
        });
    }
    grown_first(&mut answer, |cause| &cause.change);
    CauseChanges {
        sentence: String::new(),
        total: changes.change(Place::All, &blocked, None, per),
        changes: answer,
    }
}

impl Both {
    fn add(&mut self, side: usize, of: OfCause, per: &Per) {
        let of_side = |amount: Total| {
            let mut values = [0; 2];
            values[side] = amount.value(per.unit);
            values
        };
        for (id, amount) in of.statements {
            let values = of_side(amount);
            self.all.add(values, values);
            add(&mut self.statements.entry(id).or_default().values, values);
        }
        let slices = of.slices.into_iter();
        self.slices[side].extend(slices.map(|(slice, amount)| (slice, amount.value(per.unit) as f64)));
        match &mut self.groups[side] {
            Some(group) => group.merge(of.group),
            none => *none = Some(of.group),
        }
    }
}

/// The same without statements, if their ids mean nothing to the other side.
fn without_statements(mut of: OfCause) -> OfCause {
    let mut all = Total::default();
    of.statements.values().for_each(|amount| all.add(*amount));
    of.statements = BTreeMap::from([(0, all)]);
    if let Some(root) = &mut of.group.part.root {
        (root.statement, root.text) = (0, None);
    }
    of
}

fn waiting(
    statements: BTreeMap<u64, Pair>,
    sides: &[Side; 2],
    changes: &Changes,
    per: &Per,
) -> Vec<WaitingStatement> {
    let mut waiting: Vec<WaitingStatement> = statements
        .into_iter()
        .map(|(id, pair)| {
            // Good or bad: whichever has the text.
            let text = sides.iter().find_map(|side| side.dimensions.statement(id));
            WaitingStatement {
                change: changes.change(Place::Statement(id), &pair, None, per),
                text: text.map(str::to_string),
            }
        })
        .collect();
    grown_first(&mut waiting, |statement| &statement.change);
    waiting
}

/// Largest growth first, then what shrank most; ties stay in the order of their names.
pub(crate) fn grown_first<T>(all: &mut [T], change: impl Fn(&T) -> &Change) {
    all.sort_by(|one, other| {
        let (one, other) = (change(one).difference, change(other).difference);
        (one <= 0.0)
            .cmp(&(other <= 0.0))
            .then_with(|| other.abs().total_cmp(&one.abs()))
    });
}

/// Largest change first, whether growth or not; ties stay in their order.
pub(crate) fn largest_first<T>(all: &mut [T], change: impl Fn(&T) -> &Change) {
    all.sort_by(|one, other| {
        let size = |of: &T| change(of).difference.abs();
        size(other).total_cmp(&size(one))
    });
}

/// The cause that explains the difference best, in a sentence; empty when none does. `largest`: the largest significant difference
/// of anything else, see [`super::conclusion::Conclusion`]; without one, sessions wait as long as before, but for others.
pub(super) fn named(
    causes: &CauseChanges,
    per: &Per,
    factor: f64,
    is_tested: bool,
    largest: Option<f64>,
) -> String {
    let wanted = match is_tested || largest.is_none() {
        true => Verdict::Significant,
        false => Verdict::NotTested,
    };
    let own = |cause: &CauseChange| {
        let [good, bad] = cause.change.per_unit;
        bad - factor * good
    };
    let most = |sign: f64| {
        causes
            .changes
            .iter()
            .filter(|cause| cause.change.verdict == wanted && says_something(&cause.cause))
            .map(|cause| (cause, own(cause) * sign))
            .max_by(|(_, one), (_, other)| one.total_cmp(other))
    };
    let size = |sign: f64| most(sign).map_or(0.0, |(_, own)| own);
    let sign = match largest {
        Some(largest) => largest.signum(),
        None if size(1.0) >= GROWTH_COUNTS * size(-1.0) => 1.0,
        None => -1.0,
    };
    most(sign)
        .filter(|(_, own)| *own > 0.0 && *own >= MOST * largest.unwrap_or(0.0).abs())
        .map_or_else(String::new, |(cause, _)| sentence(cause, per))
}

/// False for what is not known, or what the wait event says already.
fn says_something(cause: &CausePart) -> bool {
    match cause.kind {
        CauseKind::Unknown => false,
        CauseKind::Process | CauseKind::Prepared | CauseKind::Network | CauseKind::OtherHost => true,
        CauseKind::Session | CauseKind::Client | CauseKind::Device | CauseKind::Timer => cause.root.is_some(),
    }
}

fn sentence(cause: &CauseChange, per: &Per) -> String {
    let change = &cause.change;
    let [good, bad] = change.per_unit.map(|value| amount(value, per.unit));
    let wait = match &change.place {
        Place::Wait(wait) => wait.to_string(),
        _ => String::new(),
    };
    format!(
        "{wait}: {} {} {} ({good} in GOOD, {bad} in BAD), behind {}.",
        amount(change.difference.abs(), per.unit),
        if change.difference > 0.0 { "more" } else { "less" },
        per_words(per.unit),
        behind(cause)
    )
}

/// `a session (client backend) that was idle in transaction (its client)`.
fn behind(cause: &CauseChange) -> String {
    let part = &cause.cause;
    let Some(root) = &part.root else {
        return no_session(part.kind).to_string();
    };
    let mut was = doing(Some(part.kind), root.session_state, &root.wait, root.state);
    if matches!(
        part.kind,
        CauseKind::Device
            | CauseKind::Timer
            | CauseKind::Process
            | CauseKind::Prepared
            | CauseKind::Network
            | CauseKind::OtherHost
    ) {
        was = format!("in {was}");
    }
    if let Some((function, ns)) = part.functions.first() {
        let part = percent(*ns, part.ns).unwrap_or(0.0);
        was += &format!(", {part:.0} % in {function}");
    }
    match (root.statement, &root.text) {
        (0, _) => {}
        (_, Some(text)) => was += &format!(", executing {}", beginning(text, TEXT).trim_end_matches(';')),
        (id, None) => was += &format!(", executing query {}", query_id(id)),
    }
    let [good, bad] = cause.sessions;
    match if bad > 0 { bad } else { good } {
        1 => format!("a session ({}) that was {was}", root.backend_type),
        many => format!("{} ({}), each {was}", counted(many, "session"), root.backend_type),
    }
}
