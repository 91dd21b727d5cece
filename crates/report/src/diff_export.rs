//! Two recordings as differential folded stacks and as differential flame graphs.
//!
//! BAD is scaled to the amount of work that GOOD did, so that both columns can be compared.

use std::io::{self, Write};

use inferno::flamegraph::color::{BackgroundColor, Color};
use inferno::flamegraph::{self, TextTruncateDirection};

use crate::diff::{Diff, DiffStack, per_words};
use crate::drawing::shortened;
use crate::folded::{KERNEL_SUFFIX, frame_name};
use crate::printable::printable;
use crate::server_start::start_of_server;
use crate::svg::START_LEFT_OUT;

/// Which side determines the widths of a flame graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Widths {
    /// What BAD does: red is where it takes longer.
    Bad,
    /// What GOOD did: blue is what has gone.
    Good,
}

/// Writes `level;level;frame;frame_[k] GOOD BAD`, nanoseconds (samples): the format of difffolded.pl and
/// inferno-diff-folded, for tools that read it.
///
/// # Errors
/// What `out` returns.
pub fn write_folded(diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
    for stack in &diff.stacks {
        let [good, bad] = stack.scaled;
        writeln!(out, "{} {good} {bad}", names(stack, 0).join(";"))?;
    }
    Ok(())
}

/// Draws a differential flame graph: each frame has the width of one side and the colour of the change of its own time.
///
/// # Errors
/// What `out` returns, or that there is nothing to draw.
pub fn write_svg(diff: &Diff, widths: Widths, out: &mut dyn Write) -> io::Result<()> {
    // inferno adds up 64-bit numbers.
    let largest: u128 = [0, 1]
        .map(|side| {
            diff.stacks
                .iter()
                .map(|stack| u128::from(stack.scaled[side]))
                .sum()
        })
        .into_iter()
        .max()
        .unwrap_or(0);
    let shift = (u128::BITS - largest.leading_zeros()).saturating_sub(62);
    let mut is_without_start = false;
    let mut lines: Vec<(Vec<String>, [u64; 2])> = diff
        .stacks
        .iter()
        .map(|stack| {
            let start = start_of(stack);
            is_without_start |= start > 0;
            (names(stack, start), stack.scaled.map(|count| count >> shift))
        })
        .filter(|(_, [good, bad])| match widths {
            Widths::Bad => *bad > 0,
            Widths::Good => *good > 0,
        })
        .collect();
    // As in the plain flame graph: sorted name by name, passed as a "flame chart", which keeps the given order.
    lines.sort_unstable();
    let lines: Vec<String> = lines
        .into_iter()
        .rev()
        .map(|(names, [good, bad])| match widths {
            Widths::Bad => format!("{} {good} {bad}", names.join(";")),
            Widths::Good => format!("{} {bad} {good}", names.join(";")),
        })
        .collect();
    let mut options = flamegraph::Options::default();
    options.title = shortened(&printable(&diff.answer()), TITLE_PX, TITLE_CHARACTER_PX);
    let per = per_words(diff.unit);
    options.subtitle = Some(match widths {
        Widths::Bad => format!("Width: time in BAD. Red: more than in GOOD, blue: less, {per}"),
        Widths::Good => format!("Width: time in GOOD. Red: more in BAD, blue: less, {per}"),
    });
    options.count_name = "us".to_string();
    options.factor = 2f64.powi(shift.cast_signed()) / 1e3;
    if diff.unit == crate::work::WorkUnit::Sample {
        options.count_name = "samples".to_string();
        options.factor = 1.0;
    }
    options.name_type = "Frame:".to_string();
    options.notes =
        "the colour is the change of a frame's own time; frames narrower than 0.01 % are not drawn"
            .to_string();
    if is_without_start {
        options.notes += START_LEFT_OUT;
    }
    // Frames whose own time has not changed are nearly white.
    options.bgcolors = Some(BackgroundColor::Flat(Color::new(0xdd, 0xdd, 0xdd)));
    options.font_width = 0.61;
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.flame_chart = true;
    options.negate_differentials = widths == Widths::Good;
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), out)
}

/// Room for a title in inferno's font size (17 px), and the maximum width of one of its characters.
const TITLE_PX: i32 = 1_180;
const TITLE_CHARACTER_PX: f64 = 17.0 * 0.61;

/// How many of its first functions are the start of the server.
fn start_of(stack: &DiffStack) -> usize {
    let user = stack.functions.iter().take_while(|function| !function.kernel);
    let names: Vec<&str> = user.map(|function| function.name.as_str()).collect();
    start_of_server(&names)
}

/// Wait event, state, and functions without the first `start` ones.
fn names(stack: &DiffStack, start: usize) -> Vec<String> {
    let levels = [stack.wait.to_string(), stack.state.to_string()];
    let levels = levels.iter().map(|level| frame_name(level).into_owned());
    let functions = stack.functions[start..].iter().map(|function| {
        let name = frame_name(&function.name).into_owned();
        if function.kernel {
            name + KERNEL_SUFFIX
        } else {
            name
        }
    });
    levels.chain(functions).collect()
}
