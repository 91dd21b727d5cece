//! A flame graph as SVG, drawn by inferno.
//!
//! Colours distinguish the layers and depend on names alone: levels (wait, state …) in blue and violet, user
//! frames in green to yellow, kernel frames in orange to red. Frames narrower than 0.01 % are not drawn.

use std::io::{self, Write};

use dbtime_model::recording::Clock;
use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{self, TextTruncateDirection};

use crate::export::Exporter;
use crate::flame::Folded;
use crate::folded::{KERNEL_SUFFIX, each_name};
use crate::group::moment;
use crate::number::{Amounts, seconds};
use crate::printable::printable;
use crate::sums::percent;

/// Separates names while they are sorted: it comes before any character that a name can contain.
const BETWEEN: char = '\u{1}';

const NOTES: &str = "blue and violet: levels; green to yellow: user frames; orange to red: kernel frames; \
                     frames narrower than 0.01 % are not drawn";
pub(crate) const START_LEFT_OUT: &str = "; the start of the server, up to PostmasterMain, is left out";

/// Draws a flame graph.
pub(crate) struct Svg;

impl Exporter for Svg {
    fn endings(&self) -> &'static [&'static str] {
        &["svg"]
    }

    fn is_picture(&self) -> bool {
        true
    }

    fn write(&self, folded: &Folded, out: &mut dyn Write) -> io::Result<()> {
        let amounts = Amounts::of(&folded.meta);
        let unit = Unit::of(folded.total_ns, amounts);
        let mut colours = PaletteMap::default();
        // The frame that inferno puts below all others.
        colours.insert("", Color::new(0xd8, 0xd8, 0xd8));
        let mut lines = Vec::with_capacity(folded.stacks.len());
        for stack in &folded.stacks {
            let mut line = String::new();
            let mut depth = 0;
            each_name(stack, |name, suffix| {
                if depth > 0 {
                    line.push(BETWEEN);
                }
                let begin = line.len();
                line.push_str(name);
                line.push_str(suffix);
                let name = &line[begin..];
                let is_level = depth < stack.levels.len();
                // A name that is also that of a level is drawn in the colour of the level.
                if is_level || colours.get(name).is_none() {
                    colours.insert(name, colour(is_level, name));
                }
                depth += 1;
            });
            lines.push((line, unit.count(stack.ns)));
        }
        // Sorted name by name, so that equal frames are adjacent. inferno would sort whole lines, where the
        // space before the value and the ';' between frames come after and before other characters, and would
        // draw one frame as several; as a "flame chart" it keeps the lines in the (reverse) order given.
        lines.sort_unstable();
        let lines: Vec<String> = lines
            .into_iter()
            .rev()
            .map(|(line, count)| format!("{} {count}", line.replace(BETWEEN, ";")))
            .collect();

        let mut options = flamegraph::Options::default();
        options.title = title(folded);
        options.subtitle = Some(subtitle(folded));
        options.count_name = unit.name.to_string();
        options.factor = unit.factor;
        options.name_type = "Frame:".to_string();
        options.notes = NOTES.to_string();
        if folded.is_without_start {
            options.notes += START_LEFT_OUT;
        }
        options.bgcolors = Some(BackgroundColor::Flat(Color::new(0xfa, 0xfa, 0xfa)));
        // Wide enough for the widest of the usual monospace fonts: names do not run into their neighbours.
        options.font_width = 0.61;
        options.text_truncate_direction = TextTruncateDirection::Right;
        options.palette_map = Some(&mut colours);
        options.flame_chart = true;
        flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), out)
    }
}

/// How times are counted and shown. inferno adds up 64-bit numbers and shows whole ones.
struct Unit {
    /// Nanoseconds are divided by two to the power of this.
    shift: u32,
    /// Shown unit.
    name: &'static str,
    /// Shown units per count.
    factor: f64,
}

impl Unit {
    fn of(total_ns: u128, amounts: Amounts) -> Unit {
        // No real recording needs a shift: 2^62 ns are 146 years.
        let shift = (u128::BITS - total_ns.leading_zeros()).saturating_sub(62);
        let counts_ns = 2f64.powi(shift.cast_signed());
        let (name, unit_ns) = if !amounts.are_times() {
            (amounts.unit(), 1.0)
        } else if total_ns < 10_000_000_000 {
            ("us", 1e3)
        } else {
            ("ms", 1e6)
        };
        Unit {
            shift,
            name,
            factor: counts_ns / unit_ns,
        }
    }

    fn count(&self, ns: u128) -> u128 {
        ns >> self.shift
    }
}

fn title(folded: &Folded) -> String {
    let what = if folded.includes_idle || folded.includes_background {
        "Time"
    } else {
        "DB time"
    };
    let database = folded.meta.database.in_short();
    let mut title = match database.as_str() {
        "" => what.to_string(),
        database => format!("{what} of {database}"),
    };
    if !folded.meta.host.name.is_empty() {
        title += &format!(" on {}", folded.meta.host.name);
    }
    if folded.meta.collector.clock == Clock::Utc {
        title += &format!(", {} UTC", moment(folded.period.from_us));
    }
    printable(&title).into_owned()
}

fn subtitle(folded: &Folded) -> String {
    let what = match (folded.includes_idle, folded.includes_background) {
        (false, false) => "DB time, on CPU and off CPU",
        (true, false) => "foreground time with idle waits, on CPU and off CPU",
        (false, true) => "DB time and background processes, on CPU and off CPU",
        (true, true) => "time of all sessions with idle waits, on CPU and off CPU",
    };
    let fidelity = folded.fidelity.map_or("", |fidelity| fidelity.as_str());
    let pooled = match percent(folded.pooled_ns, folded.total_ns) {
        Some(percent) if folded.pooled_ns > 0 => {
            format!(", {percent:.1} % pooled: short sessions, by the samples of similar ones")
        }
        _ => String::new(),
    };
    format!(
        "Width: {} of {what}{} ({fidelity}{pooled})",
        Amounts::of(&folded.meta).with_unit(folded.total_ns),
        match folded.period.elapsed_ns() {
            0 => String::new(),
            elapsed => format!(", in {} s elapsed", seconds(elapsed)),
        },
    )
}

/// A colour in the range of the layer; equal names have equal colours.
fn colour(is_level: bool, name: &str) -> Color {
    // FNV-1a: spreads names evenly and is the same everywhere and always.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let between = |from: u8, to: u8, salt: u32| {
        let span = u64::from(to - from) + 1;
        // The remainder is below the span, which fits.
        from + ((hash >> salt) % span) as u8
    };
    if is_level {
        Color::new(between(120, 190, 8), between(150, 190, 24), between(225, 250, 40))
    } else if name.ends_with(KERNEL_SUFFIX) {
        Color::new(between(235, 255, 8), between(110, 165, 24), between(60, 95, 40))
    } else {
        Color::new(between(150, 220, 8), between(205, 230, 24), between(90, 120, 40))
    }
}
