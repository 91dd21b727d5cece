//! Who held a lock, and what they did meanwhile.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use arcstr::ArcStr;
use dbtime_model::{HeldLockRow, Session, State, Wait};
use serde::{Serialize, Serializer};

use super::{HoldMode, is_not_told};
use crate::dimensions::Dimensions;
use crate::fields;
use crate::stacks::frames;

/// Number of innermost functions that make up a place in the code.
const DEPTH: usize = 3;

/// Time in which sessions held a lock while they executed the same statement and did the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Holding {
    /// Pids of these sessions, as far as known.
    pub pids: BTreeSet<u32>,
    /// Database numbers of those without a known pid (Oracle: `sid.serial#`).
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub sids: BTreeSet<String>,
    /// Their kind of process.
    pub backend_type: ArcStr,
    /// The statement; 0 = not known, or none.
    #[serde(rename = "query", serialize_with = "fields::query_id")]
    pub statement: u64,
    /// Its name in the database, where it has one (Oracle: `sql_id`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sql_id: Option<String>,
    /// Its text; none when it was not read.
    pub text: Option<String>,
    /// Whether nobody else could hold it at the same time; none: not known.
    #[serde(rename = "exclusive", serialize_with = "is_exclusive")]
    pub mode: HoldMode,
    /// The wait event they were in.
    #[serde(serialize_with = "fields::text")]
    pub wait: Wait,
    /// Their state according to the operating system.
    pub state: State,
    /// Where in the code they were: the innermost functions outside of the kernel (the outermost of these first), largest first. Not
    /// known for time without a stack.
    pub code: Vec<CodeTime>,
    /// Nanoseconds.
    pub ns: u128,
    /// Samples behind it.
    pub samples: u128,
    /// How often the lock was taken, as far as samples tell; 0 if they do not.
    #[serde(skip_serializing_if = "is_not_told")]
    pub gets: u128,
}

fn is_exclusive<S: Serializer>(mode: &HoldMode, to: S) -> Result<S::Ok, S::Error> {
    match mode {
        HoldMode::Exclusive => Some(true),
        HoldMode::Shared => Some(false),
        HoldMode::NotKnown => None,
    }
    .serialize(to)
}

/// Time at a place in the code.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CodeTime {
    /// Outermost first.
    pub functions: Vec<ArcStr>,
    /// Nanoseconds.
    pub ns: u128,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    backend_type: ArcStr,
    statement: u64,
    mode: HoldMode,
    wait: Wait,
    state: State,
}

#[derive(Default)]
struct Sum {
    pids: BTreeSet<u32>,
    sids: BTreeSet<String>,
    code: HashMap<Vec<ArcStr>, u128>,
    ns: u128,
    samples: u128,
    gets: u128,
}

/// Adds up rows.
#[derive(Default)]
pub(super) struct Holdings(BTreeMap<Key, Sum>);

impl Holdings {
    pub(super) fn add(&mut self, row: &HeldLockRow, wait: Wait, dimensions: &mut Dimensions) {
        let session = dimensions.session(row.session);
        let (pid, sid) = (session.pid, session.sid.clone());
        let key = Key {
            backend_type: session.backend_type.0.clone(),
            statement: row.statement,
            mode: HoldMode::of(row),
            wait,
            state: row.state,
        };
        let sum = self.0.entry(key).or_default();
        match pid {
            0 if !sid.is_empty() => _ = sum.sids.insert(sid),
            pid => _ = sum.pids.insert(pid),
        }
        sum.ns += u128::from(row.ns);
        sum.samples += u128::from(row.samples);
        sum.gets += u128::from(row.gets);
        let code = innermost(frames(row.user_stack, dimensions));
        if !code.is_empty() {
            *sum.code.entry(code).or_default() += u128::from(row.ns);
        }
    }

    /// Longest first.
    pub(super) fn finish(self, dimensions: &Dimensions) -> Vec<Holding> {
        let holdings = self.0.into_iter().map(|(key, sum)| Holding {
            pids: sum.pids,
            sids: sum.sids,
            backend_type: key.backend_type,
            statement: key.statement,
            sql_id: dimensions.sql_id(key.statement).map(str::to_string),
            text: dimensions.statement(key.statement).map(str::to_string),
            mode: key.mode,
            wait: key.wait,
            state: key.state,
            code: by_time(sum.code),
            ns: sum.ns,
            samples: sum.samples,
            gets: sum.gets,
        });
        let mut holdings: Vec<Holding> = holdings.collect();
        holdings.sort_by_key(|holding| Reverse(holding.ns));
        holdings
    }
}

/// By its pid; if the database only has another number, by that.
pub(super) fn session_label(session: &Session) -> String {
    match session.pid {
        0 if !session.sid.is_empty() => session.sid.clone(),
        pid => pid.to_string(),
    }
}

/// Longest first.
pub(super) fn by_time(code: HashMap<Vec<ArcStr>, u128>) -> Vec<CodeTime> {
    let code = code.into_iter();
    let mut code: Vec<CodeTime> = code.map(|(functions, ns)| CodeTime { functions, ns }).collect();
    code.sort_by(|one, other| (Reverse(one.ns), &one.functions).cmp(&(Reverse(other.ns), &other.functions)));
    code
}

/// The last of these frames that have names; if none has, the last ones as they are.
pub(super) fn innermost(mut frames: Vec<ArcStr>) -> Vec<ArcStr> {
    let is_named = |frame: &ArcStr| !frame.starts_with('[');
    if frames.iter().any(is_named) {
        frames.retain(is_named);
    }
    frames.split_off(frames.len().saturating_sub(DEPTH))
}
