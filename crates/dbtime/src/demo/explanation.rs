//! What the numbers of both runs say, in one sentence for each.

use std::collections::HashMap;

use dbtime_model::{State, WaitKind};
use dbtime_report::{Folded, LedgerRow, Section, percent};

use super::comparison::{Comparison, Run};
use super::data::ReadFrom;

/// Less than this part, in percent, is not worth a word.
const WORTH_MENTIONING: f64 = 5.0;
/// A function is named when it has at least this part of the CPU, in percent.
const WORTH_NAMING: f64 = 20.0;

pub(super) fn explain(comparison: &Comparison) -> String {
    comparison.runs.each_ref().map(sentence).join(" ")
}

fn sentence(run: &Run) -> String {
    let view = &run.report.database_view;
    let of_db_time = |ns: u128| percent(ns, view.db_time_ns).unwrap_or(0.0);
    let sum = view.percent_of_db_time().unwrap_or(0.0);
    let begin = match run.from {
        ReadFrom::PageCache => {
            format!("With reads from the page cache, CPU and waits add up to {sum:.0} % of DB time: ")
        }
        ReadFrom::Device => format!("With reads from the device, they add up to {sum:.0} %: "),
    };
    let Some(event) = largest_wait(run) else {
        return format!("{begin}no wait event was seen.");
    };
    let twice = of_db_time(view.double_counted_ns);
    let counted = if twice >= WORTH_MENTIONING {
        format!("and {twice:.0} % of DB time is counted twice, as CPU and as wait")
    } else {
        "and hardly any time is counted twice, as CPU and as wait".to_string()
    };
    let run_queue = of_db_time(view.run_queue_outside_waits_ns);
    let missed = if run_queue >= WORTH_MENTIONING {
        format!(", while {run_queue:.0} %, spent waiting for a CPU, is not counted at all")
    } else {
        String::new()
    };
    format!("{begin}{}, {counted}{missed}.", inside(event, &run.flame))
}

fn largest_wait(run: &Run) -> Option<&LedgerRow> {
    run.report
        .ledger
        .section(Section::DbTime)
        .filter(|row| {
            row.wait
                .as_ref()
                .is_some_and(|wait| wait.kind() == WaitKind::Event)
        })
        .max_by_key(|row| row.sums.total_ns())
}

/// What sessions did inside a wait event, the largest part first.
fn inside(event: &LedgerRow, flame: &Folded) -> String {
    let sums = &event.sums;
    let name = event.labels.join(" ");
    let mut parts = [
        (
            sums.on_cpu_ns(),
            format!("CPU{}", busiest_function(&name, sums.on_cpu_ns(), flame)),
        ),
        (sums.state_ns(State::Disk), "blocked on I/O".to_string()),
        (sums.run_queue_ns(), "waiting for a CPU".to_string()),
        (sums.state_ns(State::Sleep), "asleep".to_string()),
        (
            sums.state_ns(State::Stopped) + sums.unknown_ns(),
            "stopped or not known".to_string(),
        ),
    ];
    parts.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let parts: Vec<String> = parts
        .into_iter()
        .filter_map(|(ns, what)| Some((percent(ns, sums.total_ns())?, what)))
        .filter(|(share, _)| *share >= WORTH_MENTIONING)
        .map(|(share, what)| format!("{share:.0} % is {what}"))
        .collect();
    format!("of the time inside {name}, {}", parts.join(", "))
}

/// The kernel function in which most of the CPU inside a wait event went, if one stands out.
fn busiest_function(event: &str, on_cpu_ns: u128, flame: &Folded) -> String {
    let mut functions: HashMap<&str, u128> = HashMap::new();
    for stack in &flame.stacks {
        let is_kernel_in_event = stack.levels.iter().eq([event, State::Kernel.as_str()]);
        if let (true, Some(function)) = (is_kernel_in_event, stack.kernel.last()) {
            *functions.entry(function).or_default() += stack.ns;
        }
    }
    functions
        .into_iter()
        .max_by_key(|(name, ns)| (*ns, *name))
        .and_then(|(name, ns)| Some((name, percent(ns, on_cpu_ns)?)))
        .filter(|(_, share)| *share >= WORTH_NAMING)
        .map_or_else(String::new, |(name, share)| {
            format!(" ({share:.0} % of that in the kernel's {name})")
        })
}
