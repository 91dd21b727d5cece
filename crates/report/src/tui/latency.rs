//! How long single events took, as a table, and the distribution of one of them.

use std::cmp::Reverse;

use super::answers::Answers;
use super::pages::Page;
use super::table::{Column, Row, Setting, Subject, Table, Weight};
use super::views::{Rate, sorted};
use crate::histogram::Histogram;
use crate::latency::{LatencyGroup, LatencyReport, kind_words};
use crate::number::{counted, duration, microseconds, milliseconds};
use crate::sums::percent;

/// Length of the longest bar.
const BAR: u128 = 30;

/// Why there are none, and what to do about it.
const NONE_ARE_COUNTED: &str = "Single events are not counted here: samples show how much time went where, \
                                not how long one wait took. 'dbtime top --exact' counts every off-CPU \
                                period in a wait and every scheduling delay, '--exact=calls' every wait, \
                                system call, read and command; 'dbtime iolat' times block requests.";

pub(super) fn table(answers: &Answers, rate: Rate, order: usize) -> Table {
    let Some(report) = &answers.latency else {
        return Table::default();
    };
    let columns = vec![
        Column::new("event", Setting::Text(20), 0),
        // Not average active sessions: idle waits are events, too.
        Column::new("at once", Setting::Number, 2),
        Column::new("per s", Setting::Number, 0),
        Column::new("mean us", Setting::Number, 3),
        Column::new("p50 us", Setting::Number, 0),
        Column::new("p95 us", Setting::Number, 1),
        Column::new("p99 us", Setting::Number, 0),
        Column::new("max us", Setting::Number, 0),
    ];
    let mut rows = Vec::new();
    for kind in &report.kinds {
        let name = kind_words(&kind.kind, &report.meta);
        let title = cells(name.to_string(), report, rate, &kind.total);
        rows.push(Row::new(Subject::Sum, Weight::Strong, title));
        let mut groups: Vec<&LatencyGroup> = kind.groups.iter().collect();
        match order {
            1 => groups.sort_by_key(|group| Reverse(group.histogram.quantile(0.99))),
            2 => groups.sort_by_key(|group| Reverse(group.histogram.count())),
            _ => {}
        }
        for group in groups {
            let subject = Subject::Event(kind.kind.clone(), group.labels.concat());
            let cells = cells(group.labels.concat(), report, rate, &group.histogram);
            rows.push(Row::new(subject, Weight::Usual, cells));
        }
        if kind.others > 0 {
            let name = counted(kind.others, "other");
            let cells = cells(name, report, rate, &kind.others_total);
            rows.push(Row::new(Subject::Sum, Weight::Faint, cells));
        }
    }
    let sorted_by = match order {
        1 => 6,
        2 => 2,
        _ => 1,
    };
    let counts = matches!(report.meta.collector.tier.as_str(), "exact" | "exact-calls");
    Table {
        columns: sorted(columns, sorted_by),
        rows,
        nothing: match counts || !report.recorded_kinds.is_empty() {
            true => "no event ended in these seconds".to_string(),
            false => NONE_ARE_COUNTED.to_string(),
        },
    }
}

fn cells(name: String, report: &LatencyReport, rate: Rate, of: &Histogram) -> Vec<String> {
    let us = |ns: Option<u64>| ns.map_or_else(String::new, |ns| microseconds(ns.into()));
    let per_second = report.per_second(of.count());
    vec![
        name,
        rate.cell(of.sum_ns()),
        per_second.map_or_else(String::new, |rate| format!("{rate:.1}")),
        of.mean_ns().map_or_else(String::new, microseconds),
        us(of.quantile(0.5)),
        us(of.quantile(0.95)),
        us(of.quantile(0.99)),
        microseconds(of.max_ns().into()),
    ]
}

/// The distribution of the events of a kind with this name.
pub fn distribution(answers: &Answers, kind: &str, name: &str) -> Page {
    let mut page = Page::default();
    let found = answers.latency.as_ref().and_then(|report| {
        let kind = report.kinds.iter().find(|other| other.kind == kind)?;
        let group = kind.groups.iter().find(|group| group.labels.concat() == name)?;
        Some((report, kind, group))
    });
    let Some((report, kind, group)) = found else {
        page.heading(&format!("No {name} ended in these seconds"));
        return page;
    };
    let of = &group.histogram;
    page.heading(&format!("{}: {name}", kind_words(&kind.kind, &report.meta)));
    page.line(&format!(
        "{}, {} in all, the longest {}",
        counted(of.count(), "event"),
        duration(of.sum_ns()),
        duration(of.max_ns().into())
    ));
    page.heading("     from us        to us     events      %      time ms");
    let buckets = of.power_of_two_us();
    let largest = buckets
        .iter()
        .map(|bucket| bucket.count)
        .max()
        .unwrap_or(0)
        .max(1);
    for bucket in &buckets {
        let bar = (bucket.count * BAR).div_ceil(largest) as usize;
        page.line(&format!(
            "{:>12} {:>12} {:>10} {:>6.1} {:>12} {}",
            bucket.from_us,
            bucket.to_us,
            bucket.count,
            percent(bucket.count, of.count()).unwrap_or(0.0),
            milliseconds(bucket.sum_ns),
            "#".repeat(bar)
        ));
    }
    page
}
