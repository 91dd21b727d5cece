//! Numbers of context switches: what is written of their histograms.

use serde::{Serialize, Serializer};

use crate::fields::ns_as_us;
use crate::histogram::{Bucket, Histogram};
use crate::sched::SchedSums;

#[derive(Serialize)]
struct SumsJson {
    switches: u128,
    pushed_off: u128,
    migrations: u128,
    run_ns: u128,
    run_min_us: Option<f64>,
    run_avg_us: Option<f64>,
    run_max_us: Option<f64>,
    off_cpu: TimesJson,
    delay: TimesJson,
    lowest_priority_number: Option<i32>,
    highest_priority_number: Option<i32>,
}

#[derive(Serialize)]
struct TimesJson {
    count: u128,
    sum_ns: u128,
    p50_us: Option<f64>,
    p95_us: Option<f64>,
    p99_us: Option<f64>,
    max_us: Option<f64>,
}

#[derive(Serialize)]
struct EventJson<'a> {
    wait: &'a str,
    delay: TimesJson,
    histogram: Vec<Bucket>,
}

/// Sums in nanoseconds, quantiles in microseconds.
pub(crate) fn sched_sums<S: Serializer>(sums: &SchedSums, to: S) -> Result<S::Ok, S::Error> {
    let numbers = SumsJson {
        switches: sums.switches,
        pushed_off: sums.pushed_off,
        migrations: sums.migrations,
        run_ns: sums.run.sum_ns(),
        run_min_us: sums.shortest_run_ns.map(|ns| ns_as_us(ns.into())),
        run_avg_us: sums.run.mean_us(),
        run_max_us: sums.run.longest_us(),
        off_cpu: times(&sums.off_cpu),
        delay: times(&sums.delay),
        lowest_priority_number: sums.priorities.map(|(least, _)| least),
        highest_priority_number: sums.priorities.map(|(_, largest)| largest),
    };
    numbers.serialize(to)
}

/// Only their times.
pub(crate) fn sched_times<S: Serializer>(sums: &SchedSums, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Times {
        run_ns: u128,
        off_cpu: TimesJson,
        delay: TimesJson,
    }
    let times = Times {
        run_ns: sums.run.sum_ns(),
        off_cpu: times(&sums.off_cpu),
        delay: times(&sums.delay),
    };
    times.serialize(to)
}

fn times(of: &Histogram) -> TimesJson {
    TimesJson {
        count: of.count(),
        sum_ns: of.sum_ns(),
        p50_us: of.quantile_us(0.5),
        p95_us: of.quantile_us(0.95),
        p99_us: of.quantile_us(0.99),
        max_us: of.longest_us(),
    }
}

/// Scheduling delays by wait event.
pub(crate) fn delays_by_event<S: Serializer>(
    by_event: &[(String, Histogram)],
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(by_event.iter().map(|(wait, delay)| EventJson {
        wait,
        delay: times(delay),
        histogram: delay.power_of_two_us(),
    }))
}
