//! Views of stacks as text.

use super::header::recording;
use super::page::{Page, Table, percent};
use dbtime_model::recording::Meta;

use crate::number::{Amounts, counted, duration};
use crate::server_start::starts_of_tree;
use crate::stack_views::{CallTree, CountedStacks, FunctionTimes, ModuleTimes, StackAnswer, StackReport};

pub(super) fn render(report: &StackReport, page: &mut Page) {
    recording(&report.meta, report.period, &report.filter, page);
    if report.has_stacks {
        answer(report, page);
    } else {
        page.paragraph(
            "No stacks were recorded: without this option, the report shows time by wait event and state.",
        );
    }
    for problem in &report.problems {
        page.paragraph(&format!("Not read: {problem}"));
    }
}

fn answer(report: &StackReport, page: &mut Page) {
    let how = report.fidelity.map_or("none", |fidelity| fidelity.words());
    let amounts = Amounts::of(&report.meta);
    let what = format!("DB time {} ({how})", amounts.with_unit(report.total.total_ns()));
    match &report.answer {
        StackAnswer::Stacks(stacks) => counted_stacks(stacks, &what, amounts, page),
        StackAnswer::Tree(tree) => call_tree(tree, &what, amounts, page),
        StackAnswer::Functions(times) => {
            functions(times, &what, amounts, page);
            without_names(times, &report.meta, page);
        }
        StackAnswer::Modules(times) => modules(times, &what, amounts, page),
    }
}

/// Heading of a column of amounts: `total s`, or `total` if they have no unit.
fn column(what: &str, amounts: Amounts) -> String {
    match amounts.are_times() {
        true => format!("{what} s"),
        false => what.to_string(),
    }
}

fn counted_stacks(stacks: &CountedStacks, what: &str, amounts: Amounts, page: &mut Page) {
    page.heading(&format!(
        "Stacks of {what}, identical ones counted, the hottest last (root first, [k] = kernel)"
    ));
    if stacks.others > 0 {
        page.line("");
        page.line(&format!(
            "  {}: {}",
            counted(stacks.others, "other stack"),
            amounts.with_unit(stacks.others_ns)
        ));
    }
    for stack in &stacks.stacks {
        page.line("");
        if stack.cut {
            page.line("    ...");
        }
        for function in &stack.functions {
            page.line(&format!("    {}", function.label()));
        }
        let samples = match amounts.are_times() {
            true => format!(", {}", counted(stack.samples, "sample")),
            false => String::new(),
        };
        page.line(&format!(
            "  {:.1} %, {}{samples}",
            stack.percent,
            amounts.with_unit(stack.ns)
        ));
    }
}

fn call_tree(tree: &CallTree, what: &str, amounts: Amounts, page: &mut Page) {
    let starts = starts_of_tree(&tree.nodes);
    let without = match starts.contains(&None) {
        true => ", without the start of the server",
        false => "",
    };
    page.heading(&format!(
        "Call tree of {what} (total = with all that was called from there; one blank per level, [k] = kernel{without})"
    ));
    let [total, own] = ["total", "self"].map(|what| column(what, amounts));
    let line = |page: &mut Page, columns: [&str; 5], name: &str| {
        let [total_percent, total, self_percent, own, samples] = columns;
        page.line(&format!(
            "  {total_percent:>7}  {total:>9}  {self_percent:>6}  {own:>9}  {samples:>8}  {name}"
        ));
    };
    line(page, ["total %", &total, "self %", &own, "samples"], "function");
    let hidden = |page: &mut Page, ns: u128, depth: usize| {
        if ns > 0 {
            let name = format!("{}(others)", " ".repeat(depth));
            line(page, ["", &amounts.number(ns), "", "", ""], &name);
        }
    };
    // The hidden part of a function comes after its shown callees.
    let mut open: Vec<(usize, u128)> = Vec::new();
    for (node, start) in tree.nodes.iter().zip(starts) {
        let depth = start.map_or(0, |start| node.depth - start);
        while let Some((depth, ns)) = open.pop_if(|(above, _)| *above > depth) {
            hidden(page, ns, depth);
        }
        if start.is_none() {
            // Its other callees are roots, too.
            open.push((0, node.hidden_ns));
            continue;
        }
        line(
            page,
            [
                &percent(Some(node.total_percent)),
                &amounts.number(node.total_ns),
                &percent(Some(node.self_percent)),
                &amounts.cell(node.self_ns),
                &node.samples.to_string(),
            ],
            &format!("{}{}", " ".repeat(depth), node.function.label()),
        );
        open.push((depth + 1, node.hidden_ns));
    }
    while let Some((depth, ns)) = open.pop() {
        hidden(page, ns, depth);
    }
    hidden(page, tree.hidden_roots_ns, 0);
    if tree.others > 0 {
        page.paragraph(&format!(
            "  Not shown: {}, see --top and --depth",
            counted(tree.others, "call path")
        ));
    }
}

fn functions(times: &FunctionTimes, what: &str, amounts: Amounts, page: &mut Page) {
    page.heading(&format!(
        "Functions of {what} (self = in it; total = with all it called, once per stack)"
    ));
    let mut table = Table::new(
        &["function", "module"],
        &[
            &column("self", amounts),
            "self %",
            &column("total", amounts),
            "total %",
            "samples",
        ],
    );
    for function in &times.functions {
        table.row(vec![
            function.function.label(),
            function.function.module.clone(),
            amounts.cell(function.self_ns),
            percent(Some(function.self_percent)),
            amounts.cell(function.total_ns),
            percent(Some(function.total_percent)),
            function.samples.to_string(),
        ]);
    }
    if times.others > 0 {
        table.rule();
        let mut cells = vec![String::new(); 7];
        cells[0] = counted(times.others, "other");
        cells[2] = amounts.cell(times.others_self_ns);
        table.row(cells);
    }
    page.table(&table);
}

/// A smaller part without names, in percent, is not worth a line.
const WITHOUT_NAME: f64 = 5.0;

fn without_names(times: &FunctionTimes, meta: &Meta, page: &mut Page) {
    if times.without_name_percent < WITHOUT_NAME {
        return;
    }
    page.paragraph(&format!(
        "{:.0} % is in code without symbols, identified by the nearest caller that has a name.",
        times.without_name_percent
    ));
    for reason in meta
        .collector
        .reasons
        .iter()
        .filter(|reason| reason.contains("no names"))
    {
        page.paragraph(&format!("Recorded with: {reason}."));
    }
}

fn modules(times: &ModuleTimes, what: &str, amounts: Amounts, page: &mut Page) {
    page.heading(&format!(
        "Modules of {what} (by the leaf-most known function; a sleep counts for the caller of the scheduler)"
    ));
    let per = times.work.map(|(unit, count)| (format!("per {unit}"), count));
    let total = column("total", amounts);
    let mut heads = vec![
        "user",
        "kernel",
        "runnable",
        "blocked",
        "other",
        &total,
        "%",
        "anywhere %",
    ];
    if let Some((head, _)) = &per {
        heads.push(head);
    }
    let numbers = |sums: &crate::sums::Sums| {
        use dbtime_model::State;
        [
            sums.state_ns(State::User),
            sums.state_ns(State::Kernel),
            sums.run_queue_ns(),
            sums.blocked_ns(),
            sums.not_told_ns(),
            sums.total_ns(),
        ]
        .map(|amount| amounts.cell(amount))
    };
    let per_unit = |sums: &crate::sums::Sums| {
        per.as_ref()
            .map(|(_, count)| duration(sums.total_ns() / (*count).max(1)))
    };
    let mut table = Table::new(&["module"], &heads);
    for module in &times.modules {
        let mut cells = vec![module.name.clone()];
        cells.extend(numbers(&module.sums));
        cells.push(percent(Some(module.percent)));
        cells.push(percent(Some(module.total_percent)));
        cells.extend(per_unit(&module.sums));
        table.row(cells);
    }
    if times.others > 0 {
        table.rule();
        let mut cells = vec![counted(times.others, "other")];
        cells.extend(numbers(&times.others_sums));
        cells.extend([String::new(), String::new()]);
        cells.extend(per_unit(&times.others_sums));
        table.row(cells);
    }
    page.table(&table);
    if let Some((unit, count)) = times.work {
        page.paragraph(&format!("Counted: {}.", counted(count, unit.as_str())));
    }
}
