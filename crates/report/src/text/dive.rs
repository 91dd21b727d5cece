//! A trace of the kernel: what system calls do inside.

use dbtime_model::State;
use dbtime_model::recording::KernelTrace;

use super::header;
use super::page::{Page, Table, percent};
use crate::dive::{
    CallSummary, ChildrenOf, DiveAnswer, DiveReport, Durations, FunctionDurations, PathTree, TimerSamples,
    TracedCall, named,
};
use crate::group::known_query_id;
use crate::number::{counted, duration, microseconds, milliseconds};
use crate::sums;

/// Longest name for which the columns of a call make room.
const NAME: usize = 60;

pub(super) fn render(report: &DiveReport, page: &mut Page) {
    about(report, page);
    exactness(report, page);
    calls(report, page);
    answer(report, page);
    for problem in &report.problems {
        page.paragraph(&format!("Not read: {problem}"));
    }
}

pub(super) fn answer(report: &DiveReport, page: &mut Page) {
    match &report.answer {
        DiveAnswer::Summary(functions) => {
            layers(report, page);
            self::functions(
                functions,
                "Functions with the most time of their own, whoever called them",
                report.others,
                page,
            );
            if let Some(samples) = &report.samples {
                self::samples(samples, &report.trace, page);
            }
        }
        DiveAnswer::Functions(functions) => self::functions(
            functions,
            "Functions by all of their time, whoever called them",
            report.others,
            page,
        ),
        DiveAnswer::Tree(paths) => {
            tree(paths, page);
            if let Some(samples) = &report.samples {
                sampled_paths(samples, page);
            }
        }
        DiveAnswer::Children(of) => children(of, page),
        DiveAnswer::Call(call) => one_call(call, page),
    }
}

/// What was traced, how, and what was noted about it.
pub(super) fn about(report: &DiveReport, page: &mut Page) {
    let host = &report.meta.host;
    let mut place = report.meta.database.target.clone();
    if !host.name.is_empty() {
        place += &format!(" on {}, Linux {} {}", host.name, host.kernel, host.arch);
    }
    page.paragraph(&format!("Kernel trace ({}) of {place}", report.trace.tracer));
    if let Some(only) = header::chosen(&report.filter) {
        page.paragraph(&only);
    }
    for reason in &report.meta.collector.reasons {
        page.paragraph(reason);
    }
    for note in &report.meta.notes {
        page.paragraph(&format!("Note: {}", note.text));
    }
}

/// How many calls, and what is exact.
pub(super) fn exactness(report: &DiveReport, page: &mut Page) {
    let trace = &report.trace;
    let mut text = format!("{} from beginning to end", counted(trace.calls, "call"));
    if trace.kept_calls < trace.calls {
        text += &format!(", {} of them kept in full", trace.kept_calls);
    }
    if trace.cut_calls > 0 {
        text += &format!("; left out: {} of which only a part was traced", trace.cut_calls);
    }
    if trace.lost_events > 0 {
        text += &format!("; {} lost", counted(trace.lost_events, "event"));
    }
    text += match trace.has_switches {
        true => ". Exact; time off CPU by sched_switch.",
        false => ". Exact; no sched_switch in the trace: time off CPU is the gap before finish_task_switch.",
    };
    page.paragraph(&text);
    if trace.tracer.contains("tracepoints") {
        let between = match report.samples {
            Some(_) => "what ran in between is known from timer samples alone",
            None => "what ran in between is not known",
        };
        page.paragraph(&format!(
            "Only tracepoints were traced: times are intervals between two of them, named by both (a → b), at the stack \
             of the second; {between}."
        ));
    }
}

fn calls(report: &DiveReport, page: &mut Page) {
    page.heading("Calls (interrupts and preemption excluded)");
    let states: Vec<State> = crate::dive::STATES
        .into_iter()
        .filter(|state| {
            let has = |call: &CallSummary| call.states.iter().any(|(of, _)| of == state);
            report.calls.iter().any(has)
        })
        .collect();
    let shares: Vec<String> = states
        .iter()
        .map(|state| format!("{} %", words(*state)))
        .collect();
    let mut numbers = vec![
        "calls", "total ms", "min us", "avg us", "p50 us", "p99 us", "max us",
    ];
    numbers.extend(shares.iter().map(String::as_str));
    let mut table = Table::new(&["function"], &numbers);
    for call in &report.calls {
        let mut row = vec![call.function.clone()];
        row.extend(lengths(&call.durations, true));
        let all: u128 = call.states.iter().map(|(_, ns)| ns).sum();
        row.extend(states.iter().map(|state| {
            let ns = call
                .states
                .iter()
                .find(|(of, _)| of == state)
                .map_or(0, |(_, ns)| *ns);
            percent(sums::percent(ns, all))
        }));
        table.row(row);
    }
    page.table(&table);
    foreign(report, page);
}

/// Time that hit the calls but is not theirs.
pub(super) fn foreign(report: &DiveReport, page: &mut Page) {
    for (what, ns) in [
        ("Interrupts", report.interrupts_ns),
        ("Preemption", report.preemption_ns),
    ] {
        if ns > 0 {
            page.paragraph(&format!(
                "{what}: {} more, not counted in any function.",
                duration(ns)
            ));
        }
    }
}

pub(super) fn words(state: State) -> &'static str {
    match state {
        State::Kernel => "on CPU",
        State::Runnable => "run queue",
        State::Unknown => "on or off CPU",
        other => other.as_str(),
    }
}

fn layers(report: &DiveReport, page: &mut Page) {
    page.heading("Where the time of the calls went");
    let all: u128 = report.layers.iter().map(|part| part.ns).sum();
    let calls: u128 = report.trace.calls.into();
    let mut table = Table::new(&["layer", "state"], &["ms", "%", "us per call"]);
    for part in &report.layers {
        table.row(vec![
            part.layer.clone(),
            words(part.state).to_string(),
            milliseconds(part.ns),
            percent(sums::percent(part.ns, all)),
            part.ns.checked_div(calls).map(microseconds).unwrap_or_default(),
        ]);
    }
    table.rule();
    table.row(vec![
        "all".to_string(),
        String::new(),
        milliseconds(all),
        percent(sums::percent(all, all)),
        all.checked_div(calls).map(microseconds).unwrap_or_default(),
    ]);
    page.table(&table);
}

/// Calls, total, shortest, mean, (median,) 99 %, longest.
fn lengths(of: &Durations, median: bool) -> Vec<String> {
    let histogram = &of.histogram;
    if histogram.count() == 0 {
        // A function on a stack, not one that was traced.
        let mut cells = vec!["-".to_string(); if median { 7 } else { 6 }];
        cells[0] = "0".to_string();
        return cells;
    }
    let us = |ns: Option<u64>| ns.map_or_else(|| "?".to_string(), |ns| microseconds(ns.into()));
    let mut cells = vec![
        histogram.count().to_string(),
        milliseconds(histogram.sum_ns()),
        us(of.min_ns),
        histogram.mean_ns().map_or_else(|| "?".to_string(), microseconds),
    ];
    if median {
        cells.push(us(histogram.quantile(0.5)));
    }
    cells.push(us(histogram.quantile(0.99)));
    cells.push(microseconds(histogram.max_ns().into()));
    cells
}

/// Says how many lines are left out, and what shows them.
fn say_left_out(page: &mut Page, others: usize, what: &str, options: &str) {
    if others > 0 {
        page.paragraph(&format!("  {others} {what} are not shown, see {options}"));
    }
}

fn functions(functions: &[FunctionDurations], heading: &str, others: usize, page: &mut Page) {
    page.heading(&format!("{heading} (own = on a CPU in it; off = off CPU in it)"));
    let numbers = [
        "own ms",
        "off ms",
        "in all ms",
        "calls",
        "min us",
        "avg us",
        "p99 us",
        "max us",
    ];
    let mut table = Table::new(&["function"], &numbers);
    for of in functions {
        let mut row = vec![
            named(&of.function, &of.module),
            milliseconds(of.own_ns),
            milliseconds(of.off_ns),
            milliseconds(of.total_ns),
        ];
        let mut lengths = lengths(&of.durations, false);
        lengths.remove(1);
        row.extend(lengths);
        table.row(row);
    }
    page.table(&table);
    say_left_out(page, others, "functions", "--top");
}

/// How often a timer found the calls on a CPU.
pub(super) fn samples_line(of: &TimerSamples, trace: &KernelTrace) -> String {
    let period = duration(of.period_ns.into());
    let mut text = match trace.samples {
        0 => format!(
            "None: the timer fires every {period} of the task's CPU time, and never fired in a call that is \
             shown. Calls are shorter than that, or off CPU; more of them would have samples."
        ),
        _ => format!(
            "Every {period} of the task's CPU time: {} of the calls' own work; {} of {} calls have any.",
            counted(of.own, "sample"),
            trace.sampled_calls,
            trace.calls
        ),
    };
    let apart: Vec<String> = [
        ("interrupts", of.interrupts),
        ("preemption", of.preemption),
        ("the tracer, which is overhead", of.tracing),
    ]
    .into_iter()
    .filter(|(_, samples)| *samples > 0)
    .map(|(what, samples)| format!("{samples} in {what}"))
    .collect();
    if !apart.is_empty() {
        text += &format!(" In addition: {}.", apart.join("; "));
    }
    if trace.samples_missing > 0 {
        text += &format!(" {} samples are missing.", trace.samples_missing);
    }
    text
}

/// Where a timer found the calls.
fn samples(of: &TimerSamples, trace: &KernelTrace, page: &mut Page) {
    page.heading("Timer samples of the kernel stack inside the calls: sampled, no durations");
    page.paragraph(&samples_line(of, trace));
    if of.own == 0 {
        return;
    }
    let share = |samples: u128| percent(sums::percent(samples, of.own));
    let mut table = Table::new(&["function"], &["own samples", "%", "in all", "%"]);
    for function in &of.functions {
        table.row(vec![
            named(&function.function, &function.module),
            function.own.to_string(),
            share(function.own),
            function.total.to_string(),
            share(function.total),
        ]);
    }
    page.table(&table);
    say_left_out(page, of.other_functions, "functions", "--top");
    let mut table = Table::new(&["between the tracepoints"], &["samples", "%"]);
    for interval in &of.intervals {
        table.row(vec![
            interval.interval.clone(),
            interval.samples.to_string(),
            share(interval.samples),
        ]);
    }
    page.table(&table);
    say_left_out(page, of.other_intervals, "intervals", "--top");
}

fn sampled_paths(of: &TimerSamples, page: &mut Page) {
    if of.paths.is_empty() {
        return;
    }
    page.heading("Timer samples by call path (total = with all that was called)");
    page.line(&format!("  {:>7} {:>7}  function", "total", "own"));
    for path in &of.paths {
        page.line(&format!(
            "  {:>7} {:>7}  {}{}",
            path.total,
            path.own,
            "  ".repeat(path.depth),
            named(&path.function, &path.module)
        ));
    }
    say_left_out(page, of.other_paths, "call paths", "--top and --depth");
}

fn tree(tree: &PathTree, page: &mut Page) {
    page.heading(
        "All calls merged (total = with all that was called; own = on a CPU in it; off = off CPU in it)",
    );
    let line = |page: &mut Page, cells: [&str; 8], name: &str| {
        let [calls, total, own, off, min, avg, p99, max] = cells;
        page.line(&format!(
            "  {calls:>7} {total:>10} {own:>9} {off:>9} {min:>8} {avg:>8} {p99:>8} {max:>8}  {name}"
        ));
    };
    line(
        page,
        [
            "calls", "total ms", "own ms", "off ms", "min us", "avg us", "p99 us", "max us",
        ],
        "function",
    );
    for path in &tree.paths {
        let cells = lengths(&path.durations, false);
        let count = path.durations.histogram.count() > 0;
        let of_calls = |cell: &String| if count { cell.clone() } else { String::new() };
        line(
            page,
            [
                &of_calls(&cells[0]),
                &milliseconds(path.total_ns),
                &milliseconds(path.own_ns),
                &milliseconds(path.off_ns),
                &of_calls(&cells[2]),
                &of_calls(&cells[3]),
                &of_calls(&cells[4]),
                &of_calls(&cells[5]),
            ],
            &format!(
                "{}{}",
                "  ".repeat(path.depth),
                named(&path.function, &path.module)
            ),
        );
    }
    say_left_out(page, tree.others, "call paths", "--top and --depth");
}

fn children(of: &ChildrenOf, page: &mut Page) {
    let all = of.durations.histogram.sum_ns();
    page.heading(&format!(
        "What {} calls directly: {} calls of it, {} in all",
        of.function,
        of.durations.histogram.count(),
        duration(all)
    ));
    let numbers = [
        "total ms", "% of it", "calls", "min us", "avg us", "p99 us", "max us",
    ];
    let mut table = Table::new(&["function"], &numbers);
    for child in &of.children {
        let mut cells = lengths(&child.durations, false);
        let total = cells.remove(1);
        let share = percent(sums::percent(child.durations.histogram.sum_ns(), all));
        let mut row = vec![named(&child.function, &child.module), total, share];
        row.extend(cells);
        table.row(row);
    }
    for (what, ns) in [("(itself, on CPU)", of.own_ns), ("(off CPU)", of.off_ns)] {
        let mut row = vec![
            what.to_string(),
            milliseconds(ns),
            percent(sums::percent(ns, all)),
        ];
        row.resize(numbers.len() + 1, String::new());
        table.row(row);
    }
    page.table(&table);
}

fn one_call(call: &TracedCall, page: &mut Page) {
    let query = known_query_id(call.statement).map_or_else(String::new, |id| format!(" in query {id}"));
    page.heading(&format!(
        "Call {} by {} ({}){query}: {}, interrupts included; microseconds from its start",
        call.number,
        call.task,
        call.pid,
        duration(call.ns.into())
    ));
    page.line(&format!("  {:>10}  {:>10}", "at us", "took us"));
    let mut open: Vec<u32> = Vec::new();
    let close = |page: &mut Page, depth: u32| {
        page.line(&format!(
            "  {:>10}  {:>10}  {}}}",
            "",
            "",
            "  ".repeat(depth as usize)
        ));
    };
    let mut was_foreign = false;
    for (number, span) in call.spans.iter().enumerate() {
        while let Some(depth) = open.pop_if(|depth| *depth >= span.depth) {
            close(page, depth);
        }
        let has_inside = call
            .spans
            .get(number + 1)
            .is_some_and(|next| next.depth > span.depth);
        let indent = "  ".repeat((span.depth as usize).min(NAME));
        let text = match span.off {
            Some(state) => format!("/* off CPU: {} */", words(state)),
            None if span.is_sample => format!("/* sample: {} */", named(&span.function, &span.module)),
            None if span.function.contains('→') => format!("/* {} */", span.function),
            None => {
                let name = named(&span.function, &span.module);
                let end = if has_inside { "() {" } else { "();" };
                let mark = match span.is_foreign && !was_foreign {
                    true => "   /* not its work: interrupt or preemption */",
                    false => "",
                };
                format!("{name}{end}{mark}")
            }
        };
        was_foreign = span.is_foreign;
        page.line(&format!(
            "  {:>10}  {:>10}  {indent}{text}",
            microseconds(span.from_ns.max(0).unsigned_abs().into()),
            microseconds(span.ns.into())
        ));
        if has_inside {
            open.push(span.depth);
        }
    }
    while let Some(depth) = open.pop() {
        close(page, depth);
    }
    if call.deeper > 0 {
        page.paragraph(&format!("  {} steps are deeper than --depth", call.deeper));
    }
}
