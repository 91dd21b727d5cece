//! Average active sessions over time: a line for each bucket, drawn in letters.

use dbtime_model::recording::Clock;

use super::page::{Page, Table, percent};
use super::{header, quality};
use crate::group::{date_and_time, moment};
use crate::letters::Letters;
use crate::number::{Amounts, at_axis, counted, round_step, seconds};
use crate::scan::Period;
use crate::statement_text::beginning;
use crate::sums::percent as percent_of;
use crate::timeline::{Mark, MarkKind, Timeline, TimelineValue};

/// Minimum number of columns between ticks.
const TICK_COLUMNS: f64 = 9.0;
/// Gaps that are listed.
const GAPS: usize = 5;
/// Marks that are listed.
const MARKS: usize = 20;
/// Letter for what is left out.
const OTHER: char = '.';
/// Characters of a statement's text.
const TEXT: usize = 80;

pub(super) fn render(timeline: &Timeline, page: &mut Page) {
    let meta = &timeline.meta;
    header::recording(meta, timeline.period, &timeline.filter, page);
    let letters = letters(&timeline.values);
    page.heading(&heading(timeline));
    values(timeline, &letters, page);
    if timeline.is_not_recorded {
        page.paragraph(&format!("'{}' was not recorded.", timeline.by));
    }
    page.line("");
    chart(timeline, &letters, page);
    notes(timeline, page);
    marks(timeline, page);
    quality::problems(&timeline.problems, page);
}

fn heading(timeline: &Timeline) -> String {
    let title = timeline.title();
    let fidelity = timeline
        .fidelity
        .map_or_else(String::new, |fidelity| format!(" ({})", fidelity.words()));
    format!(
        "{title} by {}{fidelity}: buckets of {} s",
        timeline.by, timeline.width_s
    )
}

/// The meaning of each letter.
fn values(timeline: &Timeline, letters: &[char], page: &mut Page) {
    let amounts = Amounts::of(&timeline.meta);
    let has_texts = timeline.values.iter().any(|value| value.text.is_some());
    let by = timeline.by.as_str();
    let names: &[&str] = if has_texts {
        &["", by, "statement"]
    } else {
        &["", by]
    };
    let (total, mean) = match timeline.are_sessions() {
        true => ("DB time", "AAS"),
        false => (amounts.unit(), "per s"),
    };
    let mut table = Table::new(names, &[total, "%", mean, "peak", "at"]);
    let number = |rate: Option<f64>| rate.map_or_else(String::new, |rate| format!("{rate:.2}"));
    for (value, letter) in timeline.values.iter().zip(letters) {
        let mut cells = vec![letter.to_string(), value.name()];
        if has_texts {
            let text = value.text.as_deref().map(|text| beginning(text, TEXT));
            cells.push(text.unwrap_or_default());
        }
        let at = value.peak.map(|(_, bucket)| timeline.buckets[bucket].period);
        cells.extend([
            amounts.cell(value.ns),
            percent(percent_of(value.ns, timeline.db_time_ns)),
            number(timeline.rate(value.ns, timeline.recorded_ns)),
            number(value.peak.map(|(rate, _)| rate)),
            at.map_or_else(String::new, |at| when(timeline, at.from_us)),
        ]);
        table.row(cells);
    }
    table.rule();
    let mut cells = vec![String::new(), "all".to_string()];
    if has_texts {
        cells.push(String::new());
    }
    cells.extend([
        amounts.cell(timeline.db_time_ns),
        percent(percent_of(timeline.db_time_ns, timeline.db_time_ns)),
        number(timeline.rate(timeline.db_time_ns - timeline.before_ns, timeline.recorded_ns)),
        number((timeline.recorded_ns > 0).then_some(timeline.peak)),
        String::new(),
    ]);
    table.row(cells);
    page.table(&table);
}

fn chart(timeline: &Timeline, letters: &[char], page: &mut Page) {
    let zone = match timeline.meta.collector.clock {
        Clock::Utc => "UTC",
        Clock::Relative | Clock::None => "seconds",
    };
    let at = |us: i64| when(timeline, us);
    let widest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let time = widest(
        &mut timeline
            .buckets
            .iter()
            .map(|bucket| at(bucket.period.from_us).len()),
    )
    .max(zone.len());
    let rates: Vec<Option<f64>> = timeline
        .buckets
        .iter()
        .map(|bucket| timeline.rate(bucket.total_ns(), bucket.recorded_ns))
        .collect();
    let number = |rate: f64| format!("{rate:.2}");
    let aas = if timeline.are_sessions() { "AAS" } else { "per s" };
    let rate = widest(&mut rates.iter().flatten().map(|rate| number(*rate).len())).max(aas.len());
    let kinds = timeline.mark_kinds();
    let marks = if kinds.is_empty() { 0 } else { kinds.len() + 2 };
    // Two blanks before, between and after the numbers.
    let columns = page
        .width()
        .saturating_sub(2 + time + 2 + rate + marks + 2 + 1)
        .max(10);
    let cpus = timeline.line_of_cpus();
    let top = timeline.peak.max(cpus.unwrap_or(0.0));
    let scale = if top > 0.0 { columns as f64 / top } else { 0.0 };
    let column = |value: f64| ((value * scale).round() as usize).min(columns);
    let line_of_cpus = cpus.map(column);

    page.line(&format!(
        "  {zone:time$}  {aas:>rate$}{:marks$}  {}",
        "",
        axis(top, columns, scale)
    ));
    let mut gap: Option<Period> = None;
    for (bucket, total) in timeline.buckets.iter().zip(&rates) {
        let Some(total) = total else {
            let from_us = gap.map_or(bucket.period.from_us, |gap| gap.from_us);
            gap = Some(Period {
                from_us,
                to_us: bucket.period.to_us,
                ..Period::default()
            });
            continue;
        };
        if let Some(gap) = gap.take() {
            gap_line(timeline, gap, time, rate, page);
        }
        let mut bar: Vec<char> = Vec::with_capacity(columns + 1);
        let mut up_to = 0u128;
        for (ns, letter) in bucket.ns.iter().zip(letters) {
            up_to += ns;
            let end = column(timeline.rate(up_to, bucket.recorded_ns).unwrap_or(0.0));
            bar.resize(end.max(bar.len()), *letter);
        }
        if let Some(at) = line_of_cpus {
            // At the right edge of this many CPUs.
            if bar.len() <= at {
                bar.resize(at + 1, ' ');
            }
            bar[at] = '|';
        }
        if *total * scale > columns as f64 + 0.5 {
            // Exceeds the picture: a bucket too short to count as a peak.
            bar.truncate(columns);
            bar.push('>');
        }
        let bar: String = bar.into_iter().collect();
        let of_kind = |kind: &MarkKind| timeline.has_mark(*kind, bucket.period);
        let marked: String = kinds
            .iter()
            .map(|kind| if of_kind(kind) { kind.letter() } else { ' ' })
            .collect();
        page.line(&format!(
            "  {:time$}  {:>rate$}{marked:>marks$}  {bar}",
            at(bucket.period.from_us),
            number(*total)
        ));
    }
    if let Some(gap) = gap {
        gap_line(timeline, gap, time, rate, page);
    }
}

fn gap_line(timeline: &Timeline, gap: Period, time: usize, rate: usize, page: &mut Page) {
    page.line(&format!(
        "  {:time$}  {:>rate$}  [nothing recorded for {} s]",
        when(timeline, gap.from_us),
        "-",
        seconds(gap.elapsed_ns())
    ));
}

/// Numbers above the bars: each ends where its value does.
fn axis(top: f64, columns: usize, scale: f64) -> String {
    let step = round_step(TICK_COLUMNS / scale.max(f64::MIN_POSITIVE));
    let mut axis = "0".to_string();
    for number in 1.. {
        let value = step * f64::from(number);
        let end = (value * scale).round();
        if scale <= 0.0 || value > top * 1.0001 || end > columns as f64 {
            break;
        }
        let label = at_axis(value);
        let blanks = (end as usize)
            .saturating_sub(label.len())
            .saturating_sub(axis.chars().count());
        axis.push_str(&" ".repeat(blanks));
        axis.push_str(&label);
    }
    axis
}

fn notes(timeline: &Timeline, page: &mut Page) {
    match timeline.cpus {
        Some(cpus) if timeline.line_of_cpus().is_some() => {
            page.heading(&format!(
                "| = {}: as many sessions can be on a CPU at once.",
                counted(cpus, "CPU")
            ));
        }
        Some(cpus) => page.heading(&format!(
            "The host has {}, far more than there were active sessions: the CPU line is not drawn.",
            counted(cpus, "CPU")
        )),
        None => page.line(""),
    }
    if !timeline.gaps.is_empty() {
        let gaps: u128 = timeline.gaps.iter().map(Period::elapsed_ns).sum();
        let mut listed: Vec<String> = timeline
            .gaps
            .iter()
            .take(GAPS)
            .map(|gap| format!("{} to {}", when(timeline, gap.from_us), when(timeline, gap.to_us)))
            .collect();
        if timeline.gaps.len() > GAPS {
            listed.push(format!("{} more", timeline.gaps.len() - GAPS));
        }
        page.paragraph(&format!(
            "Nothing was recorded for {} s: {}. A bucket is the average over the part of it that was \
             recorded.",
            seconds(gaps),
            listed.join(", ")
        ));
    }
    if timeline.before_ns > 0 {
        page.paragraph(&format!(
            "Not in any bucket: {} of intervals that ended in this period but began before it.",
            Amounts::of(&timeline.meta).with_unit(timeline.before_ns)
        ));
    }
}

fn marks(timeline: &Timeline, page: &mut Page) {
    if timeline.marks.is_empty() {
        return;
    }
    page.heading("Marks (before the bars)");
    let mut table = Table::new(&["", "what", "from", "to", ""], &[]);
    for mark in timeline.marks.iter().take(MARKS) {
        let Mark { from_us, to_us, .. } = *mark;
        let to = (to_us > from_us).then(|| when(timeline, to_us));
        table.row(vec![
            mark.kind.letter().to_string(),
            mark.kind.as_str().to_string(),
            when(timeline, from_us),
            to.unwrap_or_default(),
            mark.text.clone(),
        ]);
    }
    if timeline.marks.len() > MARKS {
        table.row(vec![
            String::new(),
            format!("{} more", timeline.marks.len() - MARKS),
        ]);
    }
    page.table(&table);
}

/// A moment: the time of day, with the date if there are several days; seconds if the clock has no time of day.
fn when(timeline: &Timeline, us: i64) -> String {
    match timeline.meta.collector.clock {
        Clock::Utc => {
            let [from, to] = [timeline.period.from_us, timeline.period.to_us].map(date_and_time);
            match (date_and_time(us), from, to) {
                (Some((_, time)), Some((from, _)), Some((to, _))) if from == to => time,
                _ => moment(us),
            }
        }
        Clock::Relative | Clock::None => format!("{:.0}", timeline.since_start_s(us)),
    }
}

/// A letter for each value.
fn letters(values: &[TimelineValue]) -> Vec<char> {
    let mut letters = Letters::default();
    letters.give(
        values
            .iter()
            .filter(|value| !value.is_other)
            .map(|value| &*value.label),
    );
    let of = |value: &TimelineValue| match value.is_other {
        true => OTHER,
        false => letters.of(&value.label),
    };
    values.iter().map(of).collect()
}
