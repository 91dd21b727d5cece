//! One pass over the latencies.

use dbtime_model::recording::Problem;
use dbtime_model::{LatencyRow, SessionId};

use crate::filter::Filter;
use crate::load::{Dimensions, Source};
use crate::scan::{Scan, finish};

/// Hands on every row of latency, and whether period and session are those of the filter.
pub(crate) fn scan(
    source: &Source,
    dimensions: &mut Dimensions,
    filter: &Filter,
    mut take: impl FnMut(&LatencyRow, bool),
) -> Scan {
    let mut seconds: Option<(i64, i64)> = None;
    let problems: Vec<Problem> = source.latency(|row| {
        let (first, last) = seconds.unwrap_or((row.time, row.time));
        seconds = Some((first.min(row.time), last.max(row.time)));
        let of_session = filter.takes_all_sessions()
            || (row.session != SessionId::RECORDER && filter.takes_session(dimensions.session(row.session)));
        take(row, of_session && filter.takes_time(row.time));
    });
    finish(source.meta(), filter, seconds, problems)
}
