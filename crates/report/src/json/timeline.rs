//! Average active sessions over time.

use serde::Serialize;

use super::{Head, time_of_day};
use crate::scan::Period;
use crate::timeline::{Mark, Timeline, TimelineBucket, TimelineValue};

#[derive(Serialize)]
pub(super) struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    timeline: TimelineJson<'a>,
    problems: &'a [String],
}

#[derive(Serialize)]
struct TimelineJson<'a> {
    by: &'static str,
    /// Width of a whole bucket.
    bucket_s: i64,
    /// What `rate` is.
    rate_is: &'static str,
    cpus: Option<u32>,
    db_time_ns: u128,
    /// Of that, before the first bucket: it began before the period.
    before_ns: u128,
    recorded_ns: u128,
    rate: Option<f64>,
    peak: f64,
    fidelity: Option<&'static str>,
    not_recorded: bool,
    values: Vec<ValueJson<'a>>,
    buckets: Vec<BucketJson>,
    gaps: Vec<GapJson>,
    marks: Vec<MarkJson<'a>>,
}

#[derive(Serialize)]
struct ValueJson<'a> {
    /// None for what is left out.
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// How many values it stands for.
    count: usize,
    total_ns: u128,
    rate: Option<f64>,
    peak: Option<f64>,
    peak_bucket: Option<usize>,
}

#[derive(Serialize)]
struct BucketJson {
    #[serde(flatten)]
    period: PeriodJson,
    /// 0 = a gap.
    recorded_ns: u128,
    total_ns: u128,
    rate: Option<f64>,
    /// In the order of `values`.
    by_value_ns: Vec<u128>,
    by_value_rate: Vec<Option<f64>>,
}

#[derive(Serialize)]
struct GapJson {
    #[serde(flatten)]
    period: PeriodJson,
    elapsed_ns: u128,
}

/// The server's own activities, or notes.
#[derive(Serialize)]
struct MarkJson<'a> {
    kind: &'static str,
    #[serde(flatten)]
    period: PeriodJson,
    #[serde(skip_serializing_if = "str::is_empty")]
    text: &'a str,
}

#[derive(Serialize)]
struct PeriodJson {
    from: Option<String>,
    to: Option<String>,
    /// Seconds since the recording began, as `--from` takes them.
    from_s: f64,
    to_s: f64,
}

impl<'a> From<&'a Timeline> for Document<'a> {
    fn from(timeline: &'a Timeline) -> Document<'a> {
        Document {
            head: Head::of(&timeline.meta, timeline.period),
            timeline: TimelineJson {
                by: timeline.by.as_str(),
                bucket_s: timeline.width_s,
                rate_is: match timeline.are_sessions() {
                    true => "average active sessions",
                    false => "per second",
                },
                cpus: timeline.cpus,
                db_time_ns: timeline.db_time_ns,
                before_ns: timeline.before_ns,
                recorded_ns: timeline.recorded_ns,
                rate: timeline.rate(timeline.db_time_ns - timeline.before_ns, timeline.recorded_ns),
                peak: timeline.peak,
                fidelity: timeline.fidelity.map(|fidelity| fidelity.as_str()),
                not_recorded: timeline.is_not_recorded,
                values: timeline.values.iter().map(|of| value(timeline, of)).collect(),
                buckets: timeline.buckets.iter().map(|of| bucket(timeline, of)).collect(),
                gaps: timeline
                    .gaps
                    .iter()
                    .map(|gap| GapJson {
                        period: period(timeline, *gap),
                        elapsed_ns: gap.elapsed_ns(),
                    })
                    .collect(),
                marks: timeline.marks.iter().map(|of| mark(timeline, of)).collect(),
            },
            problems: &timeline.problems,
        }
    }
}

fn value<'a>(timeline: &Timeline, value: &'a TimelineValue) -> ValueJson<'a> {
    ValueJson {
        value: (!value.is_other).then_some(value.label.as_str()),
        text: value.text.as_deref(),
        count: value.count,
        total_ns: value.ns,
        rate: timeline.rate(value.ns, timeline.recorded_ns),
        peak: value.peak.map(|(rate, _)| rate),
        peak_bucket: value.peak.map(|(_, bucket)| bucket),
    }
}

fn bucket(timeline: &Timeline, bucket: &TimelineBucket) -> BucketJson {
    let rate = |ns: u128| timeline.rate(ns, bucket.recorded_ns);
    BucketJson {
        period: period(timeline, bucket.period),
        recorded_ns: bucket.recorded_ns,
        total_ns: bucket.total_ns(),
        rate: rate(bucket.total_ns()),
        by_value_rate: bucket.ns.iter().map(|ns| rate(*ns)).collect(),
        by_value_ns: bucket.ns.clone(),
    }
}

fn mark<'a>(timeline: &Timeline, mark: &'a Mark) -> MarkJson<'a> {
    let Mark { from_us, to_us, .. } = *mark;
    MarkJson {
        kind: mark.kind.as_str(),
        period: period(
            timeline,
            Period {
                from_us,
                to_us,
                ..Period::default()
            },
        ),
        text: &mark.text,
    }
}

fn period(timeline: &Timeline, period: Period) -> PeriodJson {
    let meta = &timeline.meta;
    PeriodJson {
        from: time_of_day(meta, period.from_us),
        to: time_of_day(meta, period.to_us),
        from_s: timeline.since_start_s(period.from_us),
        to_s: timeline.since_start_s(period.to_us),
    }
}
