//! One pass over the latencies.

use dbtime_model::latency::kind;
use dbtime_model::recording::Problem;
use dbtime_model::{LatencyRow, SessionId};

use crate::dimensions::Dimensions;
use crate::filter::Filter;
use crate::group::query_id;
use crate::load::Source;
use crate::scan::{Scan, finish};

/// Hands on every row of latency that is of events, and whether period and session are those of the filter.
pub(crate) fn scan(
    source: &Source,
    dimensions: &mut Dimensions,
    filter: &Filter,
    mut take: impl FnMut(&LatencyRow, bool),
) -> Scan {
    let mut seconds: Option<(i64, i64)> = None;
    let problems: Vec<Problem> = source.latency(|row| {
        // What the time of commands went to: no events, see `crate::commands`.
        if *row.kind == *kind::COMMAND_WHOLE || *row.kind == *kind::COMMAND_PART {
            return;
        }
        let (first, last) = seconds.unwrap_or((row.time, row.time));
        seconds = Some((first.min(row.time), last.max(row.time)));
        let of_session = filter.takes_all_sessions()
            || (row.session != SessionId::RECORDER && filter.takes_session(dimensions.session(row.session)));
        let is_selected = of_session && filter.takes_time(row.time);
        if *row.kind == *kind::COMMAND {
            let named = LatencyRow {
                name: query_id(row.statement).into(),
                ..row.clone()
            };
            return take(&named, is_selected);
        }
        take(row, is_selected);
    });
    finish(source.meta(), filter, seconds, problems)
}
