//! Average active sessions over time, as bars: a column for each second, its parts by wait class, and a line at the number of CPUs.

use std::collections::BTreeMap;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::answers::Answers;
use super::colours::Colours;
use super::pen::{plain, width, write, write_right};
use crate::filter::SECOND_US;
use crate::group::date_and_time;
use crate::letters::Letters;
use crate::palette::{BY_CLASS, CPUS};
use crate::timeline::{MarkKind, Timeline};

/// Columns of the numbers next to the bars.
const SCALE: u16 = 6;
/// Steps per cell.
const STEPS: usize = 8;
/// The lower part of a cell, in steps.
const LOWER: [&str; STEPS + 1] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// The line of the CPUs is left out if it would be more than this many times as high as the highest bar.
const CPUS_BEYOND: f64 = 3.0;
/// Lines of the time axis.
const AXIS: u16 = 2;
/// Seconds that are kept: more than any screen has columns.
const MOST: usize = 4_000;

/// Bars by the second in which they start, as answered by [`crate::timeline()`].
#[derive(Debug, Default)]
pub struct Chart {
    width_us: i64,
    bars: BTreeMap<i64, Bar>,
    /// The marks on the axis, by second like the bars.
    marks: BTreeMap<i64, MarkKind>,
    letters: Letters,
    cpus: Option<u32>,
}

#[derive(Debug)]
struct Bar {
    /// Average active sessions of each value, from the bottom up.
    parts: Vec<(String, f64)>,
}

impl Bar {
    fn total(&self) -> f64 {
        self.parts.iter().map(|(_, rate)| rate).sum()
    }
}

/// Which part of a chart is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// The end of the last column, microseconds since the Unix epoch.
    pub to_us: i64,
    /// The period of the tables.
    pub chosen: (i64, i64),
}

impl Chart {
    /// Columns of bars that fit into this width.
    pub fn columns(width: u16) -> u16 {
        width.saturating_sub(SCALE)
    }

    /// Adds the buckets of a time line: it must be by wait class, complete, and always of the same width.
    pub fn take(&mut self, timeline: &Timeline) {
        self.width_us = timeline.width_s.max(1).saturating_mul(SECOND_US);
        self.cpus = timeline.cpus;
        let kinds = timeline.mark_kinds();
        for bucket in &timeline.buckets {
            // The first one of a recording begins within its second.
            let begin = bucket
                .period
                .from_us
                .div_euclid(self.width_us)
                .saturating_mul(self.width_us);
            let mut parts: Vec<(String, f64)> = (timeline.values.iter().zip(&bucket.ns))
                .filter(|(_, ns)| **ns > 0)
                .filter_map(|(value, ns)| {
                    Some((value.label.clone(), timeline.rate(*ns, bucket.recorded_ns)?))
                })
                .collect();
            parts.sort_by_key(|(label, _)| layer(label));
            self.letters.give(parts.iter().map(|(label, _)| label.as_str()));
            // Of several, the rarest one.
            let is_there = |kind: &MarkKind| timeline.has_mark(*kind, bucket.period);
            match kinds.iter().copied().rfind(is_there) {
                Some(kind) => self.marks.insert(begin, kind),
                None => self.marks.remove(&begin),
            };
            if bucket.recorded_ns > 0 {
                self.bars.insert(begin, Bar { parts });
            } else {
                self.bars.remove(&begin);
            }
        }
        while self.bars.len() > MOST {
            self.bars.pop_first();
        }
        while self.marks.len() > MOST {
            self.marks.pop_first();
        }
    }

    /// Forgets all bars, because the rows are now different.
    pub fn clear(&mut self) {
        self.bars.clear();
        self.marks.clear();
    }

    /// The letter of a value if there are no colours.
    pub(super) fn letter(&self, label: &str) -> char {
        self.letters.of(label)
    }

    pub(super) fn draw(&self, buffer: &mut Buffer, area: Rect, extent: Extent, colours: Colours) {
        if area.width <= SCALE || area.height <= AXIS || self.width_us == 0 {
            return;
        }
        let plot = Rect::new(area.x + SCALE, area.y, area.width - SCALE, area.height - AXIS);
        let begin = |column: u16| {
            let before = i64::from(plot.width - column).saturating_mul(self.width_us);
            extent.to_us.saturating_sub(before)
        };
        let peak = self
            .bars
            .range(begin(0)..extent.to_us.max(begin(0)))
            .map(|(_, bar)| bar.total())
            .fold(0.0, f64::max);
        let cpus = self
            .cpus
            .map(f64::from)
            .filter(|cpus| *cpus <= CPUS_BEYOND * peak.max(0.5));
        let top = peak.max(cpus.unwrap_or(0.0)).max(0.1);
        let line = cpus.map(|cpus| {
            let row = (cpus / top * f64::from(plot.height)).ceil() as u16;
            plot.bottom() - row.clamp(1, plot.height)
        });
        scale(buffer, area, plot, top, line, self.cpus);
        for column in 0..plot.width {
            let bar = self.bars.get(&begin(column));
            let steps = bar.map_or_else(Vec::new, |bar| steps(bar, top, usize::from(plot.height) * STEPS));
            for row in 0..plot.height {
                let place = (plot.x + column, plot.bottom() - 1 - row);
                let from = usize::from(row) * STEPS;
                let within: Vec<(&str, usize)> = steps
                    .iter()
                    .map(|(label, low, high)| (*label, overlap((*low, *high), (from, from + STEPS))))
                    .filter(|(_, steps)| *steps > 0)
                    .collect();
                let (mut symbol, mut style) = self.cell(&within, colours);
                if line == Some(place.1) {
                    (symbol, style) = with_line(symbol, style, colours);
                }
                buffer[place].set_symbol(&symbol).set_style(style);
            }
        }
        self.time_axis(buffer, plot, extent, begin);
    }

    /// What a cell shows that has this many steps of each value, from the bottom up.
    fn cell(&self, within: &[(&str, usize)], colours: Colours) -> (String, Style) {
        let filled: usize = within.iter().map(|(_, steps)| steps).sum();
        let largest = within.iter().max_by_key(|(_, steps)| *steps);
        let Some((largest, _)) = largest else {
            return (" ".to_string(), Style::new());
        };
        if colours == Colours::None {
            let symbol = match filled * 2 >= STEPS {
                true => self.letter(largest).to_string(),
                false => ".".to_string(),
            };
            return (symbol, Style::new());
        }
        let style = |label: &str| match colours.of_wait(label) {
            Some(colour) => Style::new().fg(colour),
            None => Style::new(),
        };
        match within {
            // A full cell: two values can be shown.
            [(low, steps), (high, _), ..] if filled >= STEPS => (
                LOWER[(*steps).min(STEPS)].to_string(),
                style(low).bg(colours.of_wait(high).unwrap_or(Color::Reset)),
            ),
            _ => (LOWER[filled.min(STEPS)].to_string(), style(largest)),
        }
    }

    fn time_axis(&self, buffer: &mut Buffer, plot: Rect, extent: Extent, begin: impl Fn(u16) -> i64) {
        let faint = Style::new().add_modifier(Modifier::DIM);
        let every = self.width_us.saturating_mul(10);
        let mut free = plot.x;
        for column in 0..plot.width {
            let (x, at) = (plot.x + column, begin(column));
            let is_chosen = (extent.chosen.0..extent.chosen.1).contains(&at);
            let is_tick = at.rem_euclid(every) == 0;
            let (symbol, style) = match (is_chosen, is_tick) {
                (true, _) => ('━', Style::new().add_modifier(Modifier::BOLD)),
                (false, true) => ('┬', faint),
                (false, false) => ('─', faint),
            };
            let mark = self.marks.get(&at).map(|kind| kind.letter());
            let style = if mark.is_some() { Style::new() } else { style };
            buffer[(x, plot.bottom())]
                .set_char(mark.unwrap_or(symbol))
                .set_style(style);
            if let (true, true, Some((_, time))) = (is_tick, x >= free, date_and_time(at))
                && x + time.len() as u16 <= plot.right()
            {
                free = write(buffer, (x, plot.bottom() + 1), &time, plot.right() - x, faint) + 2;
            }
        }
    }
}

/// Numbers next to the bars: the top, and the line of the CPUs.
fn scale(buffer: &mut Buffer, area: Rect, plot: Rect, top: f64, line: Option<u16>, cpus: Option<u32>) {
    let faint = Style::new().add_modifier(Modifier::DIM);
    let mut number = |y: u16, text: &str| write_right(buffer, (area.x, y), text, SCALE - 1, faint);
    number(plot.bottom(), "0");
    if line != Some(plot.y) {
        let decimals = if top < 100.0 { 1 } else { 0 };
        number(plot.y, &format!("{top:.decimals$}"));
    }
    if let (Some(y), Some(cpus)) = (line, cpus) {
        number(y, &format!("{cpus}cpu"));
    }
}

/// Position of a value within a bar: on a CPU at the bottom.
fn layer(label: &str) -> (usize, String) {
    let place = match label.ends_with(dbtime_model::Wait::NO_CPU) {
        true => 1,
        false => BY_CLASS
            .iter()
            .position(|(class, _)| *class == label)
            .unwrap_or(BY_CLASS.len()),
    };
    (place, label.to_string())
}

/// The first and last step of each part of a bar. `top`: the rate at the top; `most`: the number of steps up to there.
fn steps(bar: &Bar, top: f64, most: usize) -> Vec<(&str, usize, usize)> {
    let mut sum = 0.0;
    let mut low = 0;
    let mut steps = Vec::with_capacity(bar.parts.len());
    for (label, rate) in &bar.parts {
        sum += rate;
        let high = ((sum / top * most as f64).round() as usize).min(most);
        steps.push((label.as_str(), low, high));
        low = high;
    }
    // Anything above zero is visible.
    if let (0, Some(last)) = (low, steps.last_mut()) {
        last.2 = 1;
    }
    steps
}

fn overlap((low, high): (usize, usize), (from, to): (usize, usize)) -> usize {
    high.min(to).saturating_sub(low.max(from))
}

/// The cell with the line of the CPUs across it.
fn with_line(symbol: String, style: Style, colours: Colours) -> (String, Style) {
    let colour = colours.nearest(CPUS);
    match (symbol.as_str(), colour) {
        (" ", None) => ("-".to_string(), style),
        (" ", Some(colour)) => ("╌".to_string(), Style::new().fg(colour)),
        ("█", Some(colour)) => (
            "╌".to_string(),
            Style::new().bg(style.fg.unwrap_or(Color::Reset)).fg(colour),
        ),
        _ => (symbol, style),
    }
}

/// What the values are, and how many average active sessions each had in the selected time: in one line.
pub(super) fn legend(buffer: &mut Buffer, area: Rect, chart: &Chart, answers: &Answers, colours: Colours) {
    let elapsed_ns = answers.report.elapsed_ns();
    if elapsed_ns == 0 {
        return;
    }
    let rate = |ns: &u128| *ns as f64 / elapsed_ns as f64;
    let classes = answers.classes.iter().filter(|(_, ns)| **ns > 0);
    let mut values: Vec<(&str, f64)> = classes.map(|(label, ns)| (label.as_str(), rate(ns))).collect();
    let text = |label: &str, rate: f64| format!(" {} {rate:.2}", plain(label));
    let columns = |label: &str, rate: f64| width(&text(label, rate)).saturating_add(3);
    // What does not fit is the least.
    values.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let mut room = area.width;
    let fit = values
        .iter()
        .take_while(|(label, rate)| {
            let left = room.checked_sub(columns(label, *rate));
            room = left.unwrap_or(0);
            left.is_some()
        })
        .count();
    let is_cut = !values.split_off(fit).is_empty();
    values.sort_by_key(|(label, _)| layer(label));
    let mut x = area.x;
    for (label, rate) in values {
        let mark = match colours {
            Colours::None => chart.letter(label).to_string(),
            _ => "█".to_string(),
        };
        let style = colours
            .of_wait(label)
            .map_or_else(Style::new, |colour| Style::new().fg(colour));
        x = write(buffer, (x, area.y), &mark, 1, style);
        x = write(
            buffer,
            (x, area.y),
            &text(label, rate),
            area.right() - x,
            Style::new(),
        ) + 2;
    }
    if is_cut {
        write(buffer, (x.min(area.right() - 1), area.y), "…", 1, Style::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(bars: &[(i64, &[(&str, f64)])], cpus: u32) -> Chart {
        let mut chart = Chart {
            width_us: SECOND_US,
            cpus: Some(cpus),
            ..Chart::default()
        };
        for (second, parts) in bars {
            let parts: Vec<(String, f64)> = parts
                .iter()
                .map(|(label, rate)| (label.to_string(), *rate))
                .collect();
            chart.letters.give(parts.iter().map(|(label, _)| label.as_str()));
            chart.bars.insert(second * SECOND_US, Bar { parts });
        }
        chart
    }

    fn drawn(chart: &Chart, height: u16, colours: Colours) -> Vec<String> {
        let area = Rect::new(0, 0, 26, height);
        let mut buffer = Buffer::empty(area);
        let extent = Extent {
            to_us: 100 * SECOND_US,
            chosen: (95 * SECOND_US, 100 * SECOND_US),
        };
        chart.draw(&mut buffer, area, extent, colours);
        (0..height)
            .map(|y| (0..26).map(|x| buffer[(x, y)].symbol().to_string()).collect())
            .collect()
    }

    #[test]
    fn what_the_server_did_for_itself_stands_on_the_axis() {
        let mut chart = chart(&[(98, &[("CPU", 2.0)])], 2);
        chart.marks.insert(97 * SECOND_US, MarkKind::Checkpoint);
        chart.marks.insert(91 * SECOND_US, MarkKind::Note);
        let lines = drawn(&chart, 6, Colours::None);
        assert_eq!(
            lines[4].chars().skip(6).collect::<String>(),
            "┬─────────┬!───━━c━━"
        );
    }

    #[test]
    fn a_second_is_a_column_and_the_chosen_ones_are_marked() {
        let chart = chart(
            &[
                (98, &[("CPU", 2.0), ("IO", 2.0)]),
                (99, &[("CPU", 4.0)]),
                (97, &[("Lock", 0.01)]),
            ],
            2,
        );
        assert_eq!(
            drawn(&chart, 6, Colours::None),
            [
                "  4.0                   IC",
                "                        IC",
                " 2cpu ------------------CC",
                "                       .CC",
                "    0 ┬─────────┬────━━━━━",
                "      00:01:20  00:01:30  ",
            ]
        );
        let coloured = drawn(&chart, 6, Colours::All);
        assert_eq!(coloured[3], "                       ▁██");
        assert_eq!(coloured[2], " 2cpu ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌");
    }

    #[test]
    fn parts_of_a_cell_are_told_apart_by_the_colour_behind_it() {
        let chart = chart(&[(99, &[("CPU", 0.5), ("IO", 0.5)])], 64);
        let area = Rect::new(0, 0, 26, 3);
        let mut buffer = Buffer::empty(area);
        let extent = Extent {
            to_us: 100 * SECOND_US,
            chosen: (0, 0),
        };
        chart.draw(&mut buffer, area, extent, Colours::All);
        let cell = &buffer[(25, 0)];
        assert_eq!(cell.symbol(), "▄");
        assert_eq!(Some(cell.fg), Colours::All.of_wait("CPU"));
        assert_eq!(Some(cell.bg), Colours::All.of_wait("IO"));
    }

    #[test]
    fn the_parts_of_a_bar_fill_it() {
        let bar = Bar {
            parts: vec![("CPU".into(), 1.3), ("IO".into(), 0.001), ("Lock".into(), 2.7)],
        };
        let steps = steps(&bar, 4.001, 40);
        assert_eq!(steps, [("CPU", 0, 13), ("IO", 13, 13), ("Lock", 13, 40)]);
    }
}
