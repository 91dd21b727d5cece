//! Context switches.

use dbtime_model::recording::Scheduling;
use serde::Serialize;

use super::{us, us_if_known};
use crate::histogram::Histogram;
use crate::sched::{Party, Sched, SchedSums, SchedTask, SwitchLine, priority_words};
use crate::sums;

/// What is known of the switches; sums in nanoseconds, quantiles in microseconds.
#[derive(Serialize)]
pub(super) struct SchedJson<'a> {
    facts: &'a Scheduling,
    tasks: Vec<TaskJson<'a>>,
    total: SumsJson,
    by_event: Vec<EventJson<'a>>,
    ran_instead: Vec<PartyJson<'a>>,
    not_seen_ns: u128,
    wakers: Vec<PartyJson<'a>>,
    longest_delays: Vec<SwitchJson<'a>>,
}

#[derive(Serialize)]
struct TaskJson<'a> {
    /// Text, because not every reader keeps 64 bits of a number.
    id: String,
    name: &'a str,
    tid: u32,
    pid: Option<u32>,
    #[serde(flatten)]
    sums: SumsJson,
}

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
    histogram: Vec<BucketJson>,
}

#[derive(Serialize)]
struct BucketJson {
    from_us: u64,
    to_us: u64,
    count: u128,
    sum_ns: u128,
}

#[derive(Serialize)]
struct PartyJson<'a> {
    name: &'a str,
    count: u128,
    ns: u128,
    percent: Option<f64>,
}

/// A single switch.
#[derive(Serialize)]
pub(super) struct SwitchJson<'a> {
    time_ns: i64,
    cpu: u32,
    name: &'a str,
    tid: u32,
    pid: Option<u32>,
    wait_ns: Option<u64>,
    delay_ns: Option<u64>,
    run_ns: Option<u64>,
    state: &'static str,
    wait_state: &'static str,
    wait_class: &'a str,
    wait_event: &'a str,
    waker: Option<&'a str>,
    migrated: bool,
    priority_number: Option<i32>,
    priority: Option<String>,
}

impl<'a> From<&'a SwitchLine> for SwitchJson<'a> {
    fn from(line: &'a SwitchLine) -> SwitchJson<'a> {
        SwitchJson {
            time_ns: line.time_ns,
            cpu: line.cpu,
            name: &line.name,
            tid: line.tid,
            pid: line.process,
            wait_ns: line.off_cpu_ns,
            delay_ns: line.delay_ns,
            run_ns: line.run_ns,
            state: line.state.as_str(),
            wait_state: line.wait_state.as_str(),
            wait_class: &line.wait.class,
            wait_event: &line.wait.event,
            waker: Some(line.waker.as_str()).filter(|waker| !waker.is_empty()),
            migrated: line.migrated,
            priority_number: line.priority,
            priority: line.priority.map(priority_words),
        }
    }
}

impl<'a> From<&'a Sched> for SchedJson<'a> {
    fn from(sched: &'a Sched) -> SchedJson<'a> {
        let delay_ns = sched.total.delay.sum_ns();
        let slept_ns = sched.wakers.iter().map(|waker| waker.ns).sum();
        SchedJson {
            facts: &sched.facts,
            tasks: sched.tasks.iter().map(task).collect(),
            total: numbers(&sched.total),
            by_event: sched
                .by_event
                .iter()
                .map(|(wait, delay)| event(wait, delay))
                .collect(),
            ran_instead: sched.instead.iter().map(|who| party(who, delay_ns)).collect(),
            not_seen_ns: sched.not_seen_ns,
            wakers: sched.wakers.iter().map(|who| party(who, slept_ns)).collect(),
            longest_delays: sched.longest.iter().map(SwitchJson::from).collect(),
        }
    }
}

fn task(task: &SchedTask) -> TaskJson<'_> {
    TaskJson {
        id: task.id.0.to_string(),
        name: &task.name,
        tid: task.tid,
        pid: task.process,
        sums: numbers(&task.sums),
    }
}

fn numbers(sums: &SchedSums) -> SumsJson {
    let has_run = sums.run.count() > 0;
    SumsJson {
        switches: sums.switches,
        pushed_off: sums.pushed_off,
        migrations: sums.migrations,
        run_ns: sums.run.sum_ns(),
        run_min_us: us_if_known(sums.shortest_run_ns),
        run_avg_us: sums.run.mean_ns().map(us),
        run_max_us: us_if_known(has_run.then(|| sums.run.max_ns())),
        off_cpu: times(&sums.off_cpu),
        delay: times(&sums.delay),
        lowest_priority_number: sums.priorities.map(|(least, _)| least),
        highest_priority_number: sums.priorities.map(|(_, largest)| largest),
    }
}

fn times(of: &Histogram) -> TimesJson {
    TimesJson {
        count: of.count(),
        sum_ns: of.sum_ns(),
        p50_us: us_if_known(of.quantile(0.5)),
        p95_us: us_if_known(of.quantile(0.95)),
        p99_us: us_if_known(of.quantile(0.99)),
        max_us: us_if_known((of.count() > 0).then(|| of.max_ns())),
    }
}

fn event<'a>(wait: &'a str, delay: &Histogram) -> EventJson<'a> {
    let buckets = delay.power_of_two_us().into_iter();
    EventJson {
        wait,
        delay: times(delay),
        histogram: buckets
            .map(|bucket| BucketJson {
                from_us: bucket.from_us,
                to_us: bucket.to_us,
                count: bucket.count,
                sum_ns: bucket.sum_ns,
            })
            .collect(),
    }
}

fn party(who: &Party, whole_ns: u128) -> PartyJson<'_> {
    PartyJson {
        name: &who.name,
        count: who.count,
        ns: who.ns,
        percent: sums::percent(who.ns, whole_ns),
    }
}
