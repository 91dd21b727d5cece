//! The stacks with the most DB time.

use super::page::Page;
use crate::number::{Amounts, counted};
use crate::report::Report;
use crate::server_start::start_of_server;
use crate::stacks::StackTime;

/// Frames at the root are folded into one line if at least this many equal those of the previous stack.
const WORTH_FOLDING: usize = 4;

pub(super) fn render(report: &Report, page: &mut Page) {
    let stacks = &report.stacks;
    let amounts = Amounts::of(&report.meta);
    let has_frames = |stack: &StackTime| !stack.user.is_empty() || !stack.kernel.is_empty();
    if stacks.top.is_empty() || (report.is_trace_without_states() && !stacks.top.iter().any(has_frames)) {
        return;
    }
    let fidelity = if report.has_exact_stacks() {
        "exact"
    } else {
        "sampled"
    };
    let has_start = stacks.top.iter().any(|stack| start_of_server(&stack.user) > 0);
    page.heading(&format!(
        "Top stacks of DB time ({fidelity}; root first{}, [k] = kernel)",
        match has_start {
            true => ", without the start of the server",
            false => "",
        }
    ));
    let mut before: &[String] = &[];
    for (number, stack) in stacks.top.iter().enumerate() {
        page.line(&format!(
            "  {}. {:.1} %, {}: {}, {}",
            number + 1,
            stack.percent,
            amounts.with_unit(stack.ns),
            stack.wait,
            stack.state,
        ));
        frames(stack, before, number, page);
        before = &stack.user;
    }
    if stacks.others > 0 {
        page.line(&format!(
            "  {}: {}",
            counted(stacks.others, "other stack"),
            amounts.with_unit(stacks.others_ns)
        ));
    }
}

fn frames(stack: &StackTime, before: &[String], number: usize, page: &mut Page) {
    let equal = stack.user.iter().zip(before).take_while(|(a, b)| a == b).count();
    let start = start_of_server(&stack.user);
    let folded = equal.saturating_sub(start);
    let folded = if folded >= WORTH_FOLDING { folded } else { 0 };
    if folded > 0 {
        page.line(&format!("       ({folded} frames as in {number})"));
    }
    for frame in &stack.user[start + folded..] {
        page.line(&format!("       {frame}"));
    }
    for frame in &stack.kernel {
        page.line(&format!("       {frame} [k]"));
    }
    if stack.user.is_empty() && stack.kernel.is_empty() {
        page.line("       (no stack was taken)");
    }
}
