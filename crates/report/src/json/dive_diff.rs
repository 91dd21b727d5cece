//! What differs between two traces of the kernel. Per call; pairs are GOOD's, then BAD's.

use serde::Serialize;

use crate::dive::{DiveChange, DiveDiff, DiveSide};

#[derive(Serialize)]
pub(super) struct Document<'a> {
    good: SideJson<'a>,
    bad: SideJson<'a>,
    only_good: Vec<ChangeJson<'a>>,
    only_good_not_shown: usize,
    only_bad: Vec<ChangeJson<'a>>,
    only_bad_not_shown: usize,
    functions: Vec<ChangeJson<'a>>,
    paths: Vec<ChangeJson<'a>>,
    problems: &'a [String],
}

#[derive(Serialize)]
struct SideJson<'a> {
    target: &'a str,
    calls: u64,
    tracer: &'a str,
    call_ns: f64,
}

#[derive(Serialize)]
struct ChangeJson<'a> {
    path: &'a [String],
    calls: [f64; 2],
    own_ns: [f64; 2],
    total_ns: [f64; 2],
}

fn side(side: &DiveSide) -> SideJson<'_> {
    SideJson {
        target: &side.target,
        calls: side.trace.calls,
        tracer: &side.trace.tracer,
        call_ns: side.call_ns,
    }
}

fn changes(changes: &[DiveChange]) -> Vec<ChangeJson<'_>> {
    changes
        .iter()
        .map(|change| ChangeJson {
            path: &change.path,
            calls: change.calls,
            own_ns: change.own_ns,
            total_ns: change.total_ns,
        })
        .collect()
}

pub(super) fn document(diff: &DiveDiff) -> Document<'_> {
    Document {
        good: side(&diff.sides[0]),
        bad: side(&diff.sides[1]),
        only_good: changes(&diff.only[0]),
        only_good_not_shown: diff.only_others[0],
        only_bad: changes(&diff.only[1]),
        only_bad_not_shown: diff.only_others[1],
        functions: changes(&diff.functions),
        paths: changes(&diff.paths),
        problems: &diff.problems,
    }
}
