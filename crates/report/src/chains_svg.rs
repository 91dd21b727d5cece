//! Who sessions waited for over time, as SVG: time runs to the right, with one lane per root of a wait chain. The height in a lane
//! is how many sessions waited behind the root, the colour what the root was doing.

use std::collections::BTreeMap;

use dbtime_model::recording::Clock;

use crate::causes::{ChainLane, ChainTimeline, RootActivity, no_session};
use crate::drawing::{CHARACTER_PX, GRID, INK, PALE_INK, Svg, shortened};
use crate::group::moment;
use crate::number::{at_axis, counted, seconds};
use crate::palette::of_root;
use crate::scan::Period;
use crate::sums::percent;
use crate::time_axis::TimeAxis;
use crate::xml::xml;

/// Room for the names, left of the lanes.
const LEFT: i32 = 260;
/// The last label of the time axis is centred below its end.
const RIGHT: i32 = 40;
const TOP: i32 = 74;
const WIDTH: i32 = 760;
/// Height of a lane, and of the gap between two.
const LANE: i32 = 44;
const GAP: i32 = 12;
/// Between the lanes and the legend: the axis and its labels.
const AXIS: i32 = 62;
const LEGEND_LINE: i32 = 19;

/// The picture as an SVG document.
pub fn render(chains: &ChainTimeline) -> String {
    let lanes = i32::try_from(chains.lanes.len()).unwrap_or(0);
    let bottom = TOP + lanes * (LANE + GAP);
    let activities = activities(chains);
    let lines = i32::try_from(activities.len()).unwrap_or(0);
    let time = TimeAxis::new(chains.period, LEFT, WIDTH);
    let highest = highest(chains);
    let mut svg = Svg::default();
    svg.begin(LEFT + WIDTH + RIGHT, bottom + AXIS + lines * LEGEND_LINE + 16);
    titles(chains, highest, &mut svg);
    for (lane, number) in chains.lanes.iter().zip(0..) {
        let base = TOP + number * (LANE + GAP) + LANE;
        names(lane, chains, base, &mut svg);
        svg.rule((LEFT, base), (LEFT + WIDTH, base), GRID);
        svg.line(format_args!(r#"<g shape-rendering="crispEdges">"#));
        for (period, bucket) in chains.buckets.iter().zip(&lane.buckets) {
            let (from, to) = (time.x(period.from_us), time.x(period.to_us));
            bar(chains, *period, bucket, (from, to), (base, highest), &mut svg);
        }
        svg.line(format_args!("</g>"));
    }
    time.render(&chains.meta, bottom, &mut svg);
    legend(chains, &activities, bottom + AXIS, &mut svg);
    svg.finish()
}

/// Average number of sessions that waited at the same time.
fn waiting(ns: u128, period: Period) -> f64 {
    ns as f64 / period.elapsed_ns().max(1) as f64
}

/// The maximum of any bucket in any lane.
fn highest(chains: &ChainTimeline) -> f64 {
    let of_lane = |lane: &ChainLane| {
        let buckets = chains.buckets.iter().zip(&lane.buckets);
        buckets
            .map(|(period, bucket)| waiting(bucket.values().sum(), *period))
            .fold(0.0, f64::max)
    };
    chains.lanes.iter().map(of_lane).fold(0.0, f64::max)
}

/// How long sessions waited per activity of the root, nanoseconds.
fn activities(chains: &ChainTimeline) -> BTreeMap<RootActivity, u128> {
    let mut sums = BTreeMap::new();
    let buckets = chains.lanes.iter().flat_map(|lane| &lane.buckets);
    for (activity, ns) in buckets.flatten() {
        *sums.entry(*activity).or_default() += ns;
    }
    sums
}

fn titles(chains: &ChainTimeline, highest: f64, svg: &mut Svg) {
    let meta = &chains.meta;
    let mut title = "Who was waited for in the end".to_string();
    let database = meta.database.in_short();
    if !database.is_empty() {
        title += &format!(": {database}");
    }
    if !meta.host.name.is_empty() {
        title += &format!(" on {}", meta.host.name);
    }
    svg.line(format_args!("<title>{}</title>", xml(&title)));
    svg.line(format_args!(
        r#"<text x="24" y="26" font-size="17">{}</text>"#,
        xml(&shortened(&title, LEFT + WIDTH, 9.6))
    ));
    let facts = match chains.why_not {
        Some(why_not) => why_not.to_string(),
        None => format!(
            "blocked DB time {} s in {} s from {}; height: sessions that waited, a whole lane is {}; buckets of {} s",
            seconds(chains.blocked_ns),
            seconds(chains.period.elapsed_ns()),
            when(chains, chains.period.from_us),
            at_axis((highest * 100.0).round() / 100.0),
            chains.width_s
        ),
    };
    svg.text(
        (24, 48),
        "start",
        PALE_INK,
        &shortened(&facts, LEFT + WIDTH, CHARACTER_PX),
    );
}

fn names(lane: &ChainLane, chains: &ChainTimeline, base: i32, svg: &mut Svg) {
    let part = percent(lane.ns, chains.blocked_ns).unwrap_or(0.0);
    let time = format!("{} s, {part:.1} %", seconds(lane.ns));
    let room = LEFT - 36;
    for (y, ink, text) in [(base - 22, INK, name(lane)), (base - 6, PALE_INK, time)] {
        svg.text((LEFT - 12, y), "end", ink, &shortened(&text, room, CHARACTER_PX));
    }
}

fn name(lane: &ChainLane) -> String {
    match &lane.root {
        Some(Ok(who)) => who.to_string(),
        Some(Err(kind)) => no_session(*kind).to_string(),
        None => counted(lane.count, "other"),
    }
}

/// Draws one bucket of a lane, upwards from its base.
fn bar(
    chains: &ChainTimeline,
    period: Period,
    bucket: &BTreeMap<RootActivity, u128>,
    (from, to): (f64, f64),
    (base, highest): (i32, f64),
    svg: &mut Svg,
) {
    let y =
        |ns: u128| f64::from(base) - waiting(ns, period) / highest.max(f64::MIN_POSITIVE) * f64::from(LANE);
    let mut below = 0u128;
    for (activity, ns) in bucket.iter().filter(|(_, ns)| **ns > 0) {
        let (bottom, top) = (y(below), y(below + ns));
        below += ns;
        svg.line(format_args!(
            r#"<rect x="{from:.2}" y="{top:.2}" width="{:.2}" height="{:.2}" fill="{}"><title>{}</title></rect>"#,
            to - from,
            bottom - top,
            of_root(*activity),
            xml(&format!(
                "{} and {} s: {:.2} sessions waited, {} s; it was {}",
                when(chains, period.from_us),
                seconds(period.elapsed_ns()),
                waiting(*ns, period),
                seconds(*ns),
                activity.as_str()
            )),
        ));
    }
}

fn legend(chains: &ChainTimeline, activities: &BTreeMap<RootActivity, u128>, top: i32, svg: &mut Svg) {
    let mut y = top;
    for (activity, ns) in activities {
        svg.line(format_args!(
            r#"<rect x="{LEFT}" y="{}" width="13" height="13" fill="{}"/>"#,
            y - 11,
            of_root(*activity)
        ));
        let part = percent(*ns, chains.blocked_ns).unwrap_or(0.0);
        let text = format!("{}: {} s, {part:.1} %", activity.as_str(), seconds(*ns));
        svg.text((LEFT + 22, y), "start", INK, &text);
        y += LEGEND_LINE;
    }
}

/// A moment as text.
fn when(chains: &ChainTimeline, us: i64) -> String {
    match chains.meta.collector.clock {
        Clock::Utc => format!("{} UTC", moment(us)),
        Clock::Relative | Clock::None => {
            format!("second {:.0}", (us as f64 - chains.meta.start_us as f64) / 1e6)
        }
    }
}
