//! What differs between two traces of the kernel. Per call; pairs are GOOD, then BAD.

use serde::Serialize;

use crate::dive::{DiveChange, DiveDiff, DiveSide};

#[derive(Serialize)]
pub(super) struct Document<'a> {
    good: SideJson<'a>,
    bad: SideJson<'a>,
    only_good: &'a [DiveChange],
    only_good_not_shown: usize,
    only_bad: &'a [DiveChange],
    only_bad_not_shown: usize,
    functions: &'a [DiveChange],
    paths: &'a [DiveChange],
    problems: &'a [String],
}

#[derive(Serialize)]
struct SideJson<'a> {
    target: &'a str,
    calls: u64,
    tracer: &'a str,
    call_ns: f64,
}

fn side(side: &DiveSide) -> SideJson<'_> {
    SideJson {
        target: &side.target,
        calls: side.trace.calls,
        tracer: &side.trace.tracer,
        call_ns: side.call_ns,
    }
}

pub(super) fn document(diff: &DiveDiff) -> Document<'_> {
    Document {
        good: side(&diff.sides[0]),
        bad: side(&diff.sides[1]),
        only_good: &diff.only[0],
        only_good_not_shown: diff.only_others[0],
        only_bad: &diff.only[1],
        only_bad_not_shown: diff.only_others[1],
        functions: &diff.functions,
        paths: &diff.paths,
        problems: &diff.problems,
    }
}
