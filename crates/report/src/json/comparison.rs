//! Latencies of several recordings side by side.

use serde::Serialize;

use super::MetaJson;
use crate::comparison::{
    BucketDifference, ComparedEvent, ComparedSize, ComparedSource, Comparison, Difference,
};
use crate::fields::{ns_as_us as us, timestamp};
use crate::histogram::Histogram;
use crate::sums::percent;
use crate::trace::CallView;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    comparison: ComparisonJson<'a>,
}

#[derive(Serialize)]
struct ComparisonJson<'a> {
    recordings: Vec<SourceJson<'a>>,
    recorded_kinds: &'a [String],
    events: Vec<EventJson<'a>>,
    events_not_shown: usize,
}

#[derive(Serialize)]
struct SourceJson<'a> {
    label: &'a str,
    meta: MetaJson<'a>,
    from: Option<String>,
    to: Option<String>,
    call_view: Option<CallView>,
    problems: &'a [String],
}

#[derive(Serialize)]
struct EventJson<'a> {
    kind: &'a str,
    name: &'a str,
    latencies: Vec<LatencyJson<'a>>,
    sizes: Vec<SizeJson<'a>>,
    differences: Vec<DifferenceJson<'a>>,
}

#[derive(Serialize)]
struct SizeJson<'a> {
    blocks: Option<u64>,
    bytes: Option<u64>,
    latencies: Vec<LatencyJson<'a>>,
}

#[derive(Serialize)]
struct LatencyJson<'a> {
    label: &'a str,
    count: u128,
    total_us: f64,
    mean_us: Option<f64>,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    max_us: Option<f64>,
    histogram: Vec<BucketJson>,
}

#[derive(Serialize)]
struct BucketJson {
    from_us: u64,
    to_us: u64,
    count: u128,
    total_us: f64,
    percent: Option<f64>,
}

#[derive(Serialize)]
struct DifferenceJson<'a> {
    of: [&'a str; 2],
    mean_us: [Option<f64>; 2],
    difference_us: Option<f64>,
    tail: Option<TailJson>,
    buckets: Vec<BucketDifferenceJson>,
    sentence: &'a str,
}

#[derive(Serialize)]
struct TailJson {
    from_us: u64,
    percent: [f64; 2],
    percent_of_difference: f64,
}

#[derive(Serialize)]
struct BucketDifferenceJson {
    from_us: u64,
    to_us: u64,
    percent: [f64; 2],
    contribution_us: f64,
}

impl<'a> From<&'a Comparison> for Document<'a> {
    fn from(comparison: &'a Comparison) -> Document<'a> {
        let sources = &comparison.sources;
        Document {
            comparison: ComparisonJson {
                recordings: sources.iter().map(SourceJson::from).collect(),
                recorded_kinds: &comparison.recorded_kinds,
                events: comparison
                    .events
                    .iter()
                    .map(|event| event_json(event, sources))
                    .collect(),
                events_not_shown: comparison.others,
            },
        }
    }
}

impl<'a> From<&'a ComparedSource> for SourceJson<'a> {
    fn from(source: &'a ComparedSource) -> SourceJson<'a> {
        SourceJson {
            label: &source.label,
            meta: (&source.meta).into(),
            from: timestamp(source.period.from_us),
            to: timestamp(source.period.to_us),
            call_view: source.calls,
            problems: &source.problems,
        }
    }
}

fn event_json<'a>(event: &'a ComparedEvent, sources: &'a [ComparedSource]) -> EventJson<'a> {
    let size = |size: &ComparedSize| SizeJson {
        blocks: (size.blocks != 0).then_some(size.blocks),
        bytes: (size.bytes != 0).then_some(size.bytes),
        latencies: latencies(&size.latencies, sources),
    };
    EventJson {
        kind: &event.kind,
        name: &event.name,
        latencies: latencies(&event.latencies, sources),
        sizes: event.sizes.iter().map(size).collect(),
        differences: event
            .differences
            .iter()
            .map(|one| difference_json(one, sources))
            .collect(),
    }
}

fn latencies<'a>(latencies: &[Histogram], sources: &'a [ComparedSource]) -> Vec<LatencyJson<'a>> {
    let numbers = |(latency, source): (&Histogram, &'a ComparedSource)| LatencyJson {
        label: &source.label,
        count: latency.count(),
        total_us: us(latency.sum_ns()),
        mean_us: latency.mean_us(),
        p50_us: latency.quantile_us(0.5),
        p99_us: latency.quantile_us(0.99),
        max_us: latency.longest_us(),
        histogram: latency
            .power_of_two_us()
            .into_iter()
            .filter(|bucket| bucket.count > 0)
            .map(|bucket| BucketJson {
                from_us: bucket.from_us,
                to_us: bucket.to_us,
                count: bucket.count,
                total_us: us(bucket.sum_ns),
                percent: percent(bucket.count, latency.count()),
            })
            .collect(),
    };
    latencies.iter().zip(sources).map(numbers).collect()
}

fn difference_json<'a>(difference: &'a Difference, sources: &'a [ComparedSource]) -> DifferenceJson<'a> {
    let bucket = |bucket: &BucketDifference| BucketDifferenceJson {
        from_us: bucket.from_us,
        to_us: bucket.to_us,
        percent: bucket.percent,
        contribution_us: bucket.contribution_ns / 1e3,
    };
    DifferenceJson {
        of: difference.of.map(|index| sources[index].label.as_str()),
        mean_us: difference.mean_ns.map(|ns| ns.map(|ns| ns / 1e3)),
        difference_us: difference.difference_ns().map(|ns| ns / 1e3),
        tail: difference.tail.map(|tail| TailJson {
            from_us: tail.from_us,
            percent: tail.percent,
            percent_of_difference: tail.percent_of_difference,
        }),
        buckets: difference.buckets.iter().map(bucket).collect(),
        sentence: &difference.sentence,
    }
}
