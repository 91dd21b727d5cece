//! Waits and system calls of the same session, beside each other.

use serde::Serialize;

use crate::beside::{Alignment, Beside, CallTime, Pair, WaitCalls};

#[derive(Serialize)]
pub(super) struct BesideJson<'a> {
    pairs: Vec<PairJson<'a>>,
    pids_without_calls: &'a [u32],
    pids_without_waits: &'a [u32],
}

#[derive(Serialize)]
struct PairJson<'a> {
    pid: u32,
    is_pid_assumed: bool,
    from_ns: i64,
    to_ns: i64,
    elapsed_ns: u64,
    alignment: AlignmentJson,
    waits_left_out: u64,
    calls_left_out: u64,
    waits: Vec<WaitJson<'a>>,
    outside_of_waits: OutsideJson<'a>,
    calls: Vec<CallJson<'a>>,
}

#[derive(Serialize)]
struct AlignmentJson {
    shift_ns: i64,
    /// `null`: not found by matches.
    may_be_off_ns: Option<u64>,
    matches: u64,
    candidates: u64,
    zone_quarters: i64,
}

#[derive(Serialize)]
struct WaitJson<'a> {
    event: &'a str,
    count: u64,
    ns: u64,
    with_one_call: u64,
    without_call: u64,
    with_more_calls: u64,
    in_none_ns: u64,
    calls: Vec<CallJson<'a>>,
}

#[derive(Serialize)]
struct OutsideJson<'a> {
    ns: u64,
    in_none_ns: u64,
    calls: Vec<CallJson<'a>>,
}

#[derive(Serialize)]
struct CallJson<'a> {
    name: &'a str,
    count: u64,
    ns: u64,
}

impl<'a> From<&'a Beside> for BesideJson<'a> {
    fn from(beside: &'a Beside) -> BesideJson<'a> {
        BesideJson {
            pairs: beside.pairs.iter().map(PairJson::from).collect(),
            pids_without_calls: &beside.without_calls,
            pids_without_waits: &beside.without_waits,
        }
    }
}

impl<'a> From<&'a Pair> for PairJson<'a> {
    fn from(pair: &'a Pair) -> PairJson<'a> {
        let Alignment {
            shift_ns,
            may_be_off_ns,
            matches,
            candidates,
            zone_quarters,
        } = pair.alignment;
        PairJson {
            pid: pair.pid,
            is_pid_assumed: pair.unnamed.is_some(),
            from_ns: pair.from_ns,
            to_ns: pair.to_ns,
            elapsed_ns: pair.matrix.elapsed_ns,
            alignment: AlignmentJson {
                shift_ns,
                may_be_off_ns,
                matches,
                candidates,
                zone_quarters,
            },
            waits_left_out: pair.waits_left_out,
            calls_left_out: pair.calls_left_out,
            waits: pair.matrix.waits.iter().map(WaitJson::from).collect(),
            outside_of_waits: OutsideJson {
                ns: pair.matrix.outside.ns,
                in_none_ns: pair.matrix.outside.in_none_ns,
                calls: calls(&pair.matrix.outside.calls),
            },
            calls: calls(&pair.matrix.calls),
        }
    }
}

impl<'a> From<&'a WaitCalls> for WaitJson<'a> {
    fn from(wait: &'a WaitCalls) -> WaitJson<'a> {
        WaitJson {
            event: &wait.event,
            count: wait.count,
            ns: wait.ns,
            with_one_call: wait.with_one_call,
            without_call: wait.without_call,
            with_more_calls: wait.with_more_calls(),
            in_none_ns: wait.in_none_ns,
            calls: calls(&wait.calls),
        }
    }
}

fn calls(of: &[CallTime]) -> Vec<CallJson<'_>> {
    of.iter()
        .map(|call| CallJson {
            name: &call.name,
            count: call.count,
            ns: call.ns,
        })
        .collect()
}
