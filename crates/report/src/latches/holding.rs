//! Who had a lock and did what meanwhile.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use dbtime_model::{HeldLockRow, State, Wait};
use serde::Serialize;

use crate::fields;
use crate::load::Dimensions;
use crate::stacks::frames;

/// Innermost functions of a place in the code.
const DEPTH: usize = 3;

/// Time in which sessions had a lock while they executed the same statement and did the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Holding {
    /// Pids of these sessions.
    pub pids: BTreeSet<u32>,
    /// What they are.
    pub backend_type: String,
    /// What they executed; 0 = not known, or nothing.
    #[serde(rename = "query", serialize_with = "fields::query_id")]
    pub statement: u64,
    /// Its text; none when it was not read.
    pub text: Option<String>,
    /// Nobody else could have it at the time.
    pub exclusive: bool,
    /// The wait event they were in.
    #[serde(serialize_with = "fields::text")]
    pub wait: Wait,
    /// What the operating system says of them.
    pub state: State,
    /// Where in the code they were, by its innermost functions outside of the kernel (the outermost of these first), that with the most
    /// time first. Of time without a stack it is not known.
    pub code: Vec<CodeTime>,
    /// Nanoseconds.
    pub ns: u128,
}

/// Time at a place in the code.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CodeTime {
    /// The outermost first.
    pub functions: Vec<Arc<str>>,
    /// Nanoseconds.
    pub ns: u128,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    backend_type: String,
    statement: u64,
    exclusive: bool,
    wait: Wait,
    state: State,
}

#[derive(Default)]
struct Sum {
    pids: BTreeSet<u32>,
    code: HashMap<Vec<Arc<str>>, u128>,
    ns: u128,
}

/// Adds rows up.
#[derive(Default)]
pub(super) struct Holdings(BTreeMap<Key, Sum>);

impl Holdings {
    pub(super) fn add(&mut self, row: &HeldLockRow, wait: Wait, dimensions: &mut Dimensions) {
        let session = dimensions.session(row.session);
        let pid = session.pid;
        let key = Key {
            backend_type: session.backend_type.0.clone(),
            statement: row.statement,
            exclusive: row.exclusive,
            wait,
            state: row.state,
        };
        let sum = self.0.entry(key).or_default();
        sum.pids.insert(pid);
        sum.ns += u128::from(row.ns);
        let code = innermost(frames(row.user_stack, dimensions));
        if !code.is_empty() {
            *sum.code.entry(code).or_default() += u128::from(row.ns);
        }
    }

    /// The longest first.
    pub(super) fn finish(self, dimensions: &Dimensions) -> Vec<Holding> {
        let holdings = self.0.into_iter().map(|(key, sum)| {
            let code = sum.code.into_iter();
            let mut code: Vec<CodeTime> = code.map(|(functions, ns)| CodeTime { functions, ns }).collect();
            code.sort_by(|one, other| {
                (Reverse(one.ns), &one.functions).cmp(&(Reverse(other.ns), &other.functions))
            });
            Holding {
                pids: sum.pids,
                backend_type: key.backend_type,
                statement: key.statement,
                text: dimensions.statement(key.statement).map(str::to_string),
                exclusive: key.exclusive,
                wait: key.wait,
                state: key.state,
                code,
                ns: sum.ns,
            }
        });
        let mut holdings: Vec<Holding> = holdings.collect();
        holdings.sort_by_key(|holding| Reverse(holding.ns));
        holdings
    }
}

/// The last of these frames that have names; where none has, the last ones as they are.
pub(super) fn innermost(mut frames: Vec<Arc<str>>) -> Vec<Arc<str>> {
    let is_named = |frame: &Arc<str>| !frame.starts_with('[');
    if frames.iter().any(is_named) {
        frames.retain(is_named);
    }
    frames.split_off(frames.len().saturating_sub(DEPTH))
}
