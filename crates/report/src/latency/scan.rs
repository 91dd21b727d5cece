//! One pass over the latencies.

use std::collections::BTreeMap;

use dbtime_model::latency::kind;
use dbtime_model::recording::Problem;
use dbtime_model::{LatencyRow, Session, SessionId};

use super::{NO_STATEMENTS, has_statements};
use crate::dimensions::Dimensions;
use crate::filter::Filter;
use crate::group::{NOT_KNOWN, known_query_id};
use crate::load::Source;
use crate::scan::{Scan, finish};

/// False for what the time of commands went to: see `crate::commands`.
pub(crate) fn is_event(row: &LatencyRow) -> bool {
    *row.kind != *kind::COMMAND_WHOLE && *row.kind != *kind::COMMAND_PART
}

/// Passes on every latency row of events, its session if it has one, and whether period, session and statement match the filter.
pub(crate) fn scan(
    source: &Source,
    dimensions: &mut Dimensions,
    filter: &Filter,
    mut take: impl FnMut(&LatencyRow, Option<&Session>, bool),
) -> Scan {
    let mut seconds: Option<(i64, i64)> = None;
    let mut statements: BTreeMap<u64, u128> = BTreeMap::new();
    let mut problems: Vec<Problem> = source.latency(|row| {
        if !is_event(row) {
            return;
        }
        let (first, last) = seconds.unwrap_or((row.time, row.time));
        seconds = Some((first.min(row.time), last.max(row.time)));
        let session = match row.session {
            SessionId::RECORDER => None,
            id => Some(dimensions.session(id).as_ref()),
        };
        let of_session =
            filter.takes_all_sessions() || session.is_some_and(|session| filter.takes_session(session));
        let is_chosen = of_session && filter.takes_time(row.time);
        if is_chosen && !filter.statements.is_empty() {
            *statements.entry(row.statement).or_default() += u128::from(row.sum_ns);
        }
        let is_selected = is_chosen && filter.takes_statement(row.statement);
        if *row.kind == *kind::COMMAND {
            let named = LatencyRow {
                name: known_query_id(row.statement).map_or_else(|| NOT_KNOWN.into(), Into::into),
                ..row.clone()
            };
            return take(&named, session, is_selected);
        }
        take(row, session, is_selected);
    });
    if !filter.statements.is_empty() && !has_statements(source.meta()) {
        problems.push(Problem(NO_STATEMENTS.to_string()));
    }
    let mut scan = finish(source.meta(), filter, seconds, problems);
    scan.meet_statements(statements);
    scan
}
