//! A timeline as SVG: time to the right in UTC, average active sessions upwards, a colour for each value, the number of CPUs as a
//! line. Times for which nothing was recorded are hatched, not zero. Checkpoints and autovacuum work are bars above the plot, a note
//! is a line through it.

use dbtime_model::recording::Clock;

use crate::drawing::{CHARACTER_PX, GRID, INK, PALE_INK, Svg, shortened};
use crate::group::{Dimension, moment};
use crate::number::{Amounts, at_axis, counted, round_step, seconds};
use crate::palette::{self, CPUS, NOT_KNOWN, OTHER, OTHERS};
use crate::statement_text::one_line;
use crate::sums::percent;
use crate::time_axis::TimeAxis;
use crate::timeline::{Mark, MarkKind, Timeline, TimelineBucket};
use crate::xml::xml;

const LEFT: i32 = 64;
/// The last label of the time axis is centred below its end.
const RIGHT: i32 = 40;
const TOP: i32 = 74;
const PLOT: (i32, i32) = (880, 320);
/// Between the plot and the legend: the axis and its labels.
const AXIS: i32 = 62;
const LEGEND_LINE: i32 = 19;
/// Minimum distance between labels.
const TICK_GAP_PX: f64 = 40.0;
/// Room above the highest bucket.
const HEADROOM: f64 = 1.06;
/// From values to pixels.
struct Plot {
    time: TimeAxis,
    top: f64,
    /// The line of the CPUs, if it is drawn.
    cpus: Option<f64>,
}

impl Plot {
    fn of(timeline: &Timeline) -> Plot {
        let cpus = timeline.line_of_cpus();
        let highest = timeline.peak.max(cpus.unwrap_or(0.0));
        Plot {
            time: TimeAxis::new(timeline.period, LEFT, PLOT.0),
            top: if highest > 0.0 { highest * HEADROOM } else { 1.0 },
            cpus,
        }
    }

    fn x(&self, us: i64) -> f64 {
        self.time.x(us)
    }

    /// Not above the top of the plot.
    fn y(&self, rate: f64) -> f64 {
        f64::from(TOP + PLOT.1) - (rate / self.top).min(1.0) * f64::from(PLOT.1)
    }
}

/// The timeline as an SVG document.
pub fn render(timeline: &Timeline) -> String {
    let plot = Plot::of(timeline);
    let mut svg = Svg::default();
    let width = LEFT + PLOT.0 + RIGHT;
    let lines = i32::try_from(timeline.values.len()).unwrap_or(0) + 1 + i32::from(!timeline.marks.is_empty());
    svg.begin(width, TOP + PLOT.1 + AXIS + lines * LEGEND_LINE + 16);
    titles(timeline, &mut svg);
    svg.line(format_args!(
        r##"<defs><pattern id="gap" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="8" height="8" fill="#f4f4f4"/><line x1="0" y1="0" x2="0" y2="8" stroke="#cfcfcf" stroke-width="2"/></pattern></defs>"##
    ));
    sessions_axis(timeline, &plot, &mut svg);
    let colours = colours(timeline);
    svg.line(format_args!(r#"<g shape-rendering="crispEdges">"#));
    for bucket in &timeline.buckets {
        bar(timeline, bucket, &plot, &colours, &mut svg);
    }
    for gap in &timeline.gaps {
        let (from, to) = (plot.x(gap.from_us), plot.x(gap.to_us));
        svg.line(format_args!(
            r##"<rect x="{from:.2}" y="{TOP}" width="{:.2}" height="{}" fill="url(#gap)"><title>{}</title></rect>"##,
            to - from,
            PLOT.1,
            xml(&format!(
                "nothing recorded for {} s from {}",
                seconds(gap.elapsed_ns()),
                when(timeline, gap.from_us)
            )),
        ));
    }
    svg.line(format_args!("</g>"));
    cpus(timeline, &plot, &mut svg);
    for mark in &timeline.marks {
        draw_mark(timeline, mark, &plot, &mut svg);
    }
    plot.time.render(&timeline.meta, TOP + PLOT.1, &mut svg);
    legend(timeline, &colours, &mut svg);
    legend_of_marks(timeline, &mut svg);
    svg.finish()
}

fn titles(timeline: &Timeline, svg: &mut Svg) {
    let meta = &timeline.meta;
    let mut title = format!("{} by {}", timeline.title(), timeline.by);
    let database = meta.database.in_short();
    if !database.is_empty() {
        title += &format!(": {database}");
    }
    if !meta.host.name.is_empty() {
        title += &format!(" on {}", meta.host.name);
    }
    svg.line(format_args!("<title>{}</title>", xml(&title)));
    svg.line(format_args!(
        r#"<text x="{LEFT}" y="26" font-size="17">{}</text>"#,
        xml(&shortened(&title, PLOT.0, 9.6))
    ));
    let fidelity = timeline
        .fidelity
        .map_or_else(String::new, |fidelity| format!(" ({})", fidelity.as_str()));
    let amount = Amounts::of(meta).with_unit(timeline.db_time_ns);
    let db_time = match timeline.are_sessions() {
        true => format!("DB time {amount}"),
        false => amount,
    };
    let mut facts = format!(
        "{db_time}{fidelity} in {} s from {}; buckets of {} s",
        seconds(timeline.recorded_ns),
        when(timeline, timeline.period.from_us),
        timeline.width_s
    );
    if timeline.before_ns > 0 {
        facts += &format!(
            "; {} began before that and are not in any bucket",
            Amounts::of(meta).with_unit(timeline.before_ns)
        );
    }
    svg.text(
        (LEFT, 48),
        "start",
        PALE_INK,
        &shortened(&facts, PLOT.0, CHARACTER_PX),
    );
}

fn sessions_axis(timeline: &Timeline, plot: &Plot, svg: &mut Svg) {
    let step = round_step(TICK_GAP_PX * plot.top / f64::from(PLOT.1));
    for number in 0.. {
        let value = f64::from(number) * step;
        if value > plot.top {
            break;
        }
        let y = plot.y(value).round() as i32;
        svg.rule((LEFT, y), (LEFT + PLOT.0, y), GRID);
        let label = at_axis(value);
        svg.text((LEFT - 8, y + 4), "end", INK, &label);
    }
    let unit = if timeline.are_sessions() {
        "sessions"
    } else {
        "per second"
    };
    svg.text((LEFT - 8, TOP - 12), "end", PALE_INK, unit);
}

fn bar(timeline: &Timeline, bucket: &TimelineBucket, plot: &Plot, colours: &[String], svg: &mut Svg) {
    let (from, to) = (plot.x(bucket.period.from_us), plot.x(bucket.period.to_us));
    let rate = |ns: u128| timeline.rate(ns, bucket.recorded_ns);
    let total = bucket.total_ns();
    let mut below = 0u128;
    for ((ns, value), colour) in bucket.ns.iter().zip(&timeline.values).zip(colours) {
        let (Some(bottom), Some(top), Some(own)) = (rate(below), rate(below + ns), rate(*ns)) else {
            return;
        };
        below += ns;
        if *ns == 0 {
            continue;
        }
        let (bottom, top) = (plot.y(bottom), plot.y(top));
        svg.line(format_args!(
            r#"<rect x="{from:.2}" y="{top:.2}" width="{:.2}" height="{:.2}" fill="{colour}"><title>{}</title></rect>"#,
            to - from,
            bottom - top,
            xml(&format!(
                "{} and {} s: {} {own:.2} of {:.2}{}",
                when(timeline, bucket.period.from_us),
                seconds(bucket.period.elapsed_ns()),
                value.name(),
                rate(total).unwrap_or(0.0),
                percent(*ns, total).map_or_else(String::new, |share| format!(" ({share:.1} %)")),
            )),
        ));
    }
}

fn cpus(timeline: &Timeline, plot: &Plot, svg: &mut Svg) {
    let (Some(at), Some(cpus)) = (plot.cpus, timeline.cpus) else {
        return;
    };
    let y = plot.y(at).round();
    let right = LEFT + PLOT.0;
    svg.line(format_args!(
        r#"<line x1="{LEFT}" y1="{y}" x2="{right}" y2="{y}" stroke="{CPUS}" stroke-width="1.5" stroke-dasharray="7 4"/>"#
    ));
    let text = counted(cpus, "CPU");
    // Readable on any colour.
    svg.line(format_args!(
        r##"<text x="{}" y="{}" text-anchor="end" fill="{CPUS}" stroke="#ffffff" stroke-width="3" paint-order="stroke">{}</text>"##,
        right - 4,
        y as i32 - 5,
        xml(&text)
    ));
}

fn legend(timeline: &Timeline, colours: &[String], svg: &mut Svg) {
    let top = TOP + PLOT.1 + AXIS;
    let number = |rate: Option<f64>| rate.map_or_else(|| "-".to_string(), |rate| format!("{rate:.2}"));
    // Numbers end where their heading does.
    let (mean, share, name) = (LEFT + 68, LEFT + 122, LEFT + 138);
    svg.text((mean, top), "end", PALE_INK, "mean");
    svg.text((share, top), "end", PALE_INK, "%");
    svg.text((name, top), "start", PALE_INK, timeline.by.as_str());
    let room = LEFT + PLOT.0 - name;
    let mut y = top;
    // In the order of the picture, from top to bottom.
    for (value, colour) in timeline.values.iter().zip(colours).rev() {
        y += LEGEND_LINE;
        svg.line(format_args!(
            r#"<rect x="{LEFT}" y="{}" width="13" height="13" fill="{colour}"/>"#,
            y - 11
        ));
        let rate = timeline.rate(value.ns, timeline.recorded_ns);
        svg.text((mean, y), "end", INK, &number(rate));
        let part = percent(value.ns, timeline.db_time_ns).unwrap_or(0.0);
        svg.text((share, y), "end", INK, &format!("{part:.1}"));
        let text = match &value.text {
            Some(text) => format!("{}  {}", value.name(), one_line(text)),
            None => value.name(),
        };
        svg.text((name, y), "start", INK, &shortened(&text, room, CHARACTER_PX));
    }
}

/// A bar above the plot, at least wide enough to be seen; a note is a line through the plot.
fn draw_mark(timeline: &Timeline, mark: &Mark, plot: &Plot, svg: &mut Svg) {
    let (x, to) = (plot.x(mark.from_us), plot.x(mark.to_us));
    let colour = palette::of_mark(mark.kind);
    let (top, width, height) = match mark.kind {
        MarkKind::Checkpoint => (TOP - 15, (to - x).max(2.0), 5),
        MarkKind::Autovacuum => (TOP - 8, (to - x).max(2.0), 5),
        MarkKind::Note => (TOP - 16, 1.5, PLOT.1 + 16),
    };
    let mut what = format!("{}: {}", when(timeline, mark.from_us), mark.kind.as_str());
    if mark.to_us > mark.from_us {
        let us = u128::from(mark.to_us.abs_diff(mark.from_us));
        what += &format!(", {} s", seconds(us * 1_000));
    }
    if !mark.text.is_empty() {
        what += &format!(": {}", mark.text);
    }
    svg.line(format_args!(
        r#"<rect x="{x:.2}" y="{top}" width="{width:.2}" height="{height}" fill="{colour}"><title>{}</title></rect>"#,
        xml(&what)
    ));
}

fn legend_of_marks(timeline: &Timeline, svg: &mut Svg) {
    let lines = i32::try_from(timeline.values.len()).unwrap_or(0) + 1;
    let y = TOP + PLOT.1 + AXIS + lines * LEGEND_LINE;
    let mut x = LEFT;
    for kind in timeline.mark_kinds() {
        let (width, height) = match kind {
            MarkKind::Note => (2, 13),
            MarkKind::Checkpoint | MarkKind::Autovacuum => (13, 5),
        };
        svg.line(format_args!(
            r#"<rect x="{x}" y="{}" width="{width}" height="{height}" fill="{}"/>"#,
            y - 5 - height / 2,
            palette::of_mark(kind)
        ));
        svg.text((x + 19, y), "start", INK, kind.as_str());
        x += 120;
    }
}

/// A moment as text.
fn when(timeline: &Timeline, us: i64) -> String {
    match timeline.meta.collector.clock {
        Clock::Utc => format!("{} UTC", moment(us)),
        Clock::Relative | Clock::None => {
            format!("second {:.0}", timeline.since_start_s(us))
        }
    }
}

/// Colours of the values: their own, or one that is free. Several events of a class have shades of its colour.
fn colours(timeline: &Timeline) -> Vec<String> {
    let mut free = OTHERS.iter().cycle();
    let mut used: Vec<&str> = Vec::new();
    timeline
        .values
        .iter()
        .map(|value| {
            let own = match timeline.by {
                _ if value.is_other => Some(OTHER),
                Dimension::State => palette::of_state(&value.label),
                Dimension::Wait | Dimension::WaitClass => palette::of_wait(&value.label),
                // `[unknown]`, `[none]`: not known.
                _ if value.label.starts_with('[') => Some(NOT_KNOWN),
                _ => None,
            };
            let colour = own.or_else(|| free.next().copied()).unwrap_or(OTHER);
            let same = used.iter().filter(|other| **other == colour).count();
            used.push(colour);
            shade(colour, same)
        })
        .collect()
}

/// The n-th shade of a colour: lighter each time.
fn shade(colour: &str, n: usize) -> String {
    let [red, green, blue] = palette::rgb(colour).map(|part| {
        let dark = f64::from(part);
        (255.0 - (255.0 - dark) * 0.72f64.powi(i32::try_from(n).unwrap_or(i32::MAX))).round() as u8
    });
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_a_class_differ_in_shade() {
        let shades: Vec<String> = (0..4).map(|n| shade("#3f7fbf", n)).collect();
        assert_eq!(shades[0], "#3f7fbf");
        assert!(shades.windows(2).all(|pair| pair[0] < pair[1]), "{shades:?}");
    }
}
