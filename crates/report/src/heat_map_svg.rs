//! A heat map of latencies as SVG: time to the right, latency upwards in powers of two, colour for the number of
//! events.
//!
//! The colours are those of magma, which is perceptually uniform, from light (one event) to dark (the fullest cell) on
//! a logarithmic scale: a single slow event is visible among thousands of fast ones. No event, no colour.

use crate::drawing::{CHARACTER_PX, GRID, INK, PALE_INK, Svg, shortened};
use crate::filter::SECOND_US;
use crate::group::moment;
use crate::latency::{HeatMap, HeatMapCell, kind_words};
use crate::number::{counted, duration, microseconds};
use crate::round_seconds::round_seconds;
use crate::xml::xml;

const LEFT: i32 = 76;
const RIGHT: i32 = 24;
const TOP: i32 = 74;
const BELOW: i32 = 92;
/// The title does not fit into less.
const MIN_WIDTH: i32 = 760;
/// Columns and rows are sized so that the map is about this large.
const MAP_WIDTH: i32 = 880;
const MAP_HEIGHT: i32 = 400;
const COLUMN_PX: (i32, i32) = (3, 64);
const ROW_PX: (i32, i32) = (4, 14);
/// Minimum distance between labels of an axis.
const LABEL_GAP_PX: (f64, i32) = (64.0, 16);
/// Size of the legend.
const LEGEND_PX: (i32, i32) = (240, 12);
/// Anchors of the colours, light to dark.
pub(crate) const COLOURS: [[u8; 3]; 8] = [
    [254, 211, 149],
    [254, 164, 111],
    [247, 112, 92],
    [222, 73, 104],
    [179, 54, 122],
    [130, 38, 129],
    [81, 18, 124],
    [28, 16, 68],
];

/// Lengths of the drawing in pixels.
struct Layout {
    column: i32,
    row: i32,
    map_width: i32,
    map_height: i32,
    width: i32,
}

impl Layout {
    fn of(map: &HeatMap) -> Layout {
        let count = |n: usize| i32::try_from(n.max(1)).unwrap_or(i32::MAX);
        let columns = count(map.columns);
        let rows = count(map.powers.saturating_mul(map.rows_per_power));
        let column = (MAP_WIDTH / columns).clamp(COLUMN_PX.0, COLUMN_PX.1);
        let row = (MAP_HEIGHT / rows).clamp(ROW_PX.0, ROW_PX.1);
        let map_width = columns.saturating_mul(column);
        Layout {
            column,
            row,
            map_width,
            map_height: rows.saturating_mul(row),
            width: (LEFT + map_width + RIGHT).max(MIN_WIDTH),
        }
    }

    /// Upper edge of a row.
    fn y(&self, row: usize) -> i32 {
        TOP + self.map_height
            - self
                .row
                .saturating_mul(i32::try_from(row).unwrap_or(i32::MAX).saturating_add(1))
    }

    /// Left edge of a column.
    fn x(&self, column: usize) -> i32 {
        LEFT + self
            .column
            .saturating_mul(i32::try_from(column).unwrap_or(i32::MAX))
    }
}

/// The heat map as an SVG document.
pub fn render(map: &HeatMap) -> String {
    let layout = Layout::of(map);
    let mut svg = Svg::default();
    let (width, height) = (layout.width, TOP + layout.map_height + BELOW);
    svg.begin(width, height);
    titles(map, &layout, &mut svg);
    latency_axis(map, &layout, &mut svg);
    time_axis(map, &layout, &mut svg);
    svg.line(format_args!(r#"<g shape-rendering="crispEdges">"#));
    let largest = map.largest_count();
    // Where there is room, a line of background separates columns.
    let gap = i32::from(layout.column >= 8);
    for ((column, row), cell) in &map.cells {
        svg.line(format_args!(
            r#"<rect x="{}" y="{}" width="{}" height="{}" fill="{}"><title>{}</title></rect>"#,
            layout.x(*column),
            layout.y(*row),
            layout.column - gap,
            layout.row,
            colour(position(cell.count, largest)),
            xml(&hover(map, *column, *row, cell)),
        ));
    }
    svg.line(format_args!("</g>"));
    legend(map, &layout, largest, &mut svg);
    svg.finish()
}

fn titles(map: &HeatMap, layout: &Layout, svg: &mut Svg) {
    let names: Vec<&str> = map.names.iter().map(String::as_str).collect();
    let what = kind_words(&map.kind, &map.meta);
    let title = match names.as_slice() {
        [] => format!("{what}: no events"),
        few if few.len() <= 3 => format!("{what}: {}", few.join(", ")),
        many => format!("{what} ({} names)", many.len()),
    };
    svg.line(format_args!("<title>{}</title>", xml(&title)));
    svg.line(format_args!(
        r#"<text x="{LEFT}" y="26" font-size="17">{}</text>"#,
        xml(&shortened(&title, layout.width - LEFT - RIGHT, 9.6))
    ));
    let mut facts = counted(map.total.count(), "event");
    let quantiles = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)];
    for (name, value) in quantiles.map(|(name, q)| (name, map.total.quantile(q))) {
        if let Some(ns) = value {
            facts += &format!(", {name} {}", duration(ns.into()));
        }
    }
    if map.total.count() > 0 {
        facts += &format!(", max {}", duration(map.total.max_ns().into()));
    }
    facts += " (exact)";
    let lost = map.meta.quality.latencies_lost;
    if lost > 0 {
        facts += &format!("; {lost} lost");
    }
    svg.text(
        (LEFT, 48),
        "start",
        PALE_INK,
        &shortened(&facts, layout.width - LEFT - RIGHT, CHARACTER_PX),
    );
}

/// Powers of two, with as many labels as fit.
fn latency_axis(map: &HeatMap, layout: &Layout, svg: &mut Svg) {
    let rows_per_power = i32::try_from(map.rows_per_power).unwrap_or(1);
    let power_px = layout.row * rows_per_power;
    let each = (LABEL_GAP_PX.1 + power_px - 1) / power_px;
    for power in 0..=i32::try_from(map.powers).unwrap_or(0) {
        let y = TOP + layout.map_height - power * power_px;
        svg.rule((LEFT, y), (LEFT + layout.map_width, y), GRID);
        if power % each == 0 {
            svg.text(
                (LEFT - 8, y + 4),
                "end",
                INK,
                &power_label(map.lowest_power + power),
            );
        }
    }
    svg.text((LEFT - 8, TOP - 14), "end", PALE_INK, "latency");
}

/// A power of two in microseconds. 1024 us is labelled 1 ms, as is customary; the exact bounds are in the hover titles.
fn power_label(power: i32) -> String {
    match power {
        ..0 => format!("{} ns", (1e3 * f64::from(power).exp2()).round()),
        0..10 => format!("{} us", 1u32 << power),
        10..20 => format!("{} ms", 1u32 << (power - 10)),
        _ => format!("{} s", f64::from(power - 20).exp2()),
    }
}

/// Seconds since the start of the recording, as `--from` and `--to` accept them.
fn time_axis(map: &HeatMap, layout: &Layout, svg: &mut Svg) {
    let bottom = TOP + layout.map_height;
    let start_s = map.meta.start_us.div_euclid(SECOND_US);
    let second_px = f64::from(layout.column) / map.column_s as f64;
    let step = step_s(second_px);
    // Columns begin at whole seconds.
    let from_s = i128::from(map.from_us.div_euclid(SECOND_US)) - i128::from(start_s);
    let to_s = from_s + map.columns as i128 * i128::from(map.column_s);
    let first = from_s.div_euclid(step) * step;
    let ticks = (0..).map(|n| first + n * step).take_while(|tick| *tick <= to_s);
    for tick in ticks.filter(|tick| *tick >= from_s) {
        let x = LEFT + ((tick - from_s) as f64 * second_px).round() as i32;
        svg.rule((x, bottom), (x, bottom + 5), PALE_INK);
        svg.text((x, bottom + 20), "middle", INK, &time_label(tick, step));
    }
    svg.rule((LEFT, bottom), (LEFT + layout.map_width, bottom), PALE_INK);
    let mut what = format!(
        "time since {} UTC, the start of the recording",
        moment(map.meta.start_us)
    );
    let database = map.meta.database.in_short();
    if !database.is_empty() {
        what += &format!("; {database}");
    }
    if !map.meta.host.name.is_empty() {
        what += &format!(" on {}", map.meta.host.name);
    }
    let room = layout.width - LEFT - RIGHT;
    svg.text(
        (LEFT, bottom + 42),
        "start",
        PALE_INK,
        &shortened(&what, room, CHARACTER_PX),
    );
}

/// Seconds between labels.
fn step_s(second_px: f64) -> i128 {
    round_seconds()
        .find(|step| *step as f64 * second_px >= LABEL_GAP_PX.0)
        .unwrap_or(i64::MAX)
        .into()
}

/// In the largest unit of which all labels are multiples.
fn time_label(seconds: i128, step: i128) -> String {
    match step {
        _ if step % 3_600 == 0 => format!("{} h", seconds / 3_600),
        _ if step % 60 == 0 => format!("{} min", seconds / 60),
        _ => format!("{seconds} s"),
    }
}

fn hover(map: &HeatMap, column: usize, row: usize, cell: &HeatMapCell) -> String {
    let second = i64::try_from(column)
        .unwrap_or(i64::MAX)
        .saturating_mul(map.column_s);
    let begin_us = map.from_us.saturating_add(second.saturating_mul(SECOND_US));
    let (from, to) = map.bounds_ns(row);
    format!(
        "{} UTC{}, {} to {} us: {}, {} in all, longest {}",
        moment(begin_us),
        if map.column_s > 1 {
            format!(" and {} s", map.column_s)
        } else {
            String::new()
        },
        microseconds(from.round() as u128),
        microseconds(to.round() as u128),
        counted(cell.count, "event"),
        duration(cell.sum_ns),
        duration(cell.max_ns.into()),
    )
}

fn legend(map: &HeatMap, layout: &Layout, largest: u128, svg: &mut Svg) {
    if largest == 0 {
        return;
    }
    let top = TOP + layout.map_height + 56;
    let (width, height) = LEGEND_PX;
    svg.line(format_args!(r#"<g shape-rendering="crispEdges">"#));
    let steps = 48;
    for n in 0..steps {
        let (from, to) = (width * n / steps, width * (n + 1) / steps);
        svg.line(format_args!(
            r#"<rect x="{}" y="{top}" width="{}" height="{height}" fill="{}"/>"#,
            LEFT + from,
            to - from,
            colour(f64::from(n) / f64::from(steps - 1)),
        ));
    }
    svg.line(format_args!("</g>"));
    let below = top + height + 14;
    let mut right = i32::MIN;
    let largest_text = largest.to_string();
    let tens = (0..39)
        .map(|n| 10u128.pow(n))
        .take_while(|count| *count < largest);
    let mut label = |count: u128, svg: &mut Svg| {
        let x = LEFT + (position(count, largest) * f64::from(width)).round() as i32;
        let text = count.to_string();
        let half = i32::try_from(text.len()).unwrap_or(0) * 4 + 4;
        let last = i32::try_from(largest_text.len()).unwrap_or(0) * 4 + 4;
        // The largest count always gets its label.
        if x - half < right || (count < largest && x + half > LEFT + width - last) {
            return;
        }
        right = x + half;
        svg.text((x, below), "middle", INK, &text);
    };
    for count in tens {
        label(count, svg);
    }
    label(largest, svg);
    let what = match map.column_s {
        1 => "events per cell (one second)".to_string(),
        seconds => format!("events per cell ({seconds} seconds)"),
    };
    svg.text((LEFT + width + 20, top + 10), "start", PALE_INK, &what);
}

/// Place of a count on the logarithmic scale from one event (0) to the fullest cell (1).
fn position(count: u128, largest: u128) -> f64 {
    if largest <= 1 {
        return 1.0;
    }
    ((count.max(1) as f64).ln() / (largest as f64).ln()).clamp(0.0, 1.0)
}

fn colour(position: f64) -> String {
    let place = position * (COLOURS.len() - 1) as f64;
    let index = (place.floor() as usize).min(COLOURS.len() - 2);
    let part = place - index as f64;
    let [r, g, b] = [0, 1, 2].map(|n| {
        let (from, to) = (f64::from(COLOURS[index][n]), f64::from(COLOURS[index + 1][n]));
        (from + (to - from) * part).round() as u8
    });
    format!("#{r:02x}{g:02x}{b:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_events_are_darker() {
        let lightness = |count| {
            let text = colour(position(count, 10_000));
            let part = |at: usize| u32::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
            2 * part(1) + 5 * part(3) + part(5)
        };
        for count in [1, 3, 10, 100, 1_000, 5_000] {
            assert!(lightness(count) > lightness(count * 2), "{count}");
        }
        assert_eq!(colour(position(1, 1)), "#1c1044");
        assert_eq!(colour(position(1, 2)), "#fed395");
    }

    #[test]
    fn labels_of_time_keep_their_distance_however_long_it_is() {
        for second_px in [40.0, 3.0, 0.1, 1e-3, 1e-6, 1e-9] {
            assert!(step_s(second_px) as f64 * second_px >= LABEL_GAP_PX.0);
        }
        assert_eq!(
            (time_label(120, 60), time_label(90, 30)),
            ("2 min".into(), "90 s".into())
        );
    }
}
