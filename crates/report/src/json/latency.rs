//! Latencies.

use std::collections::BTreeMap;

use serde::Serialize;

use super::MetaJson;
use crate::fields::{ns_as_us as us, timestamp};
use crate::histogram::Histogram;
use crate::latency::{KindLatencies, LatencyGroup, LatencyReport, WaitUnit};

#[derive(Serialize)]
pub(super) struct Document<'a> {
    meta: MetaJson<'a>,
    from: Option<String>,
    to: Option<String>,
    elapsed_ns: u128,
    by: Vec<&'static str>,
    recorded_kinds: &'a [String],
    /// What an event of kind `wait` is.
    wait_is: &'static str,
    latency: Vec<GroupJson<'a>>,
    latency_total: Vec<KindJson<'a>>,
    latencies_lost: u64,
    problems: &'a [String],
}

#[derive(Serialize)]
struct GroupJson<'a> {
    kind: &'a str,
    group: BTreeMap<&'static str, &'a str>,
    #[serde(flatten)]
    numbers: NumbersJson,
}

#[derive(Serialize)]
struct KindJson<'a> {
    kind: &'a str,
    groups: usize,
    groups_not_shown: usize,
    #[serde(flatten)]
    numbers: NumbersJson,
}

#[derive(Serialize)]
struct NumbersJson {
    count: u128,
    per_second: Option<f64>,
    sum_us: f64,
    mean_us: Option<f64>,
    p50_us: Option<f64>,
    p95_us: Option<f64>,
    p99_us: Option<f64>,
    /// 99.9 %.
    p999_us: Option<f64>,
    max_us: Option<f64>,
    histogram: Vec<BucketJson>,
}

#[derive(Serialize)]
struct BucketJson {
    from_us: u64,
    to_us: u64,
    count: u128,
    sum_us: f64,
}

impl<'a> From<&'a LatencyReport> for Document<'a> {
    fn from(report: &'a LatencyReport) -> Document<'a> {
        let group = |kind: &'a KindLatencies, group: &'a LatencyGroup| GroupJson {
            kind: &kind.kind,
            group: report
                .by
                .iter()
                .map(|by| by.as_str())
                .zip(group.labels.iter().map(String::as_str))
                .collect(),
            numbers: numbers(report, &group.histogram),
        };
        Document {
            meta: (&report.meta).into(),
            from: timestamp(report.period.from_us),
            to: timestamp(report.period.to_us),
            elapsed_ns: report.period.elapsed_ns(),
            by: report.by.iter().map(|by| by.as_str()).collect(),
            recorded_kinds: &report.recorded_kinds,
            wait_is: WaitUnit::of(&report.meta).one(),
            latency: report
                .kinds
                .iter()
                .flat_map(|kind| kind.groups.iter().map(move |one| group(kind, one)))
                .collect(),
            latency_total: report
                .kinds
                .iter()
                .map(|kind| KindJson {
                    kind: &kind.kind,
                    groups: kind.groups.len() + kind.others,
                    groups_not_shown: kind.others,
                    numbers: numbers(report, &kind.total),
                })
                .collect(),
            latencies_lost: report.meta.quality.latencies_lost,
            problems: &report.problems,
        }
    }
}

fn numbers(report: &LatencyReport, histogram: &Histogram) -> NumbersJson {
    NumbersJson {
        count: histogram.count(),
        per_second: report.per_second(histogram.count()),
        sum_us: us(histogram.sum_ns()),
        mean_us: histogram.mean_us(),
        p50_us: histogram.quantile_us(0.5),
        p95_us: histogram.quantile_us(0.95),
        p99_us: histogram.quantile_us(0.99),
        p999_us: histogram.quantile_us(0.999),
        max_us: histogram.longest_us(),
        histogram: histogram
            .power_of_two_us()
            .into_iter()
            .map(|bucket| BucketJson {
                from_us: bucket.from_us,
                to_us: bucket.to_us,
                count: bucket.count,
                sum_us: us(bucket.sum_ns),
            })
            .collect(),
    }
}
