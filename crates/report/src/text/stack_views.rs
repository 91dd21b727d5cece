//! Stacks read as text.

use super::header::recording;
use super::page::{Page, Table, percent, time};
use crate::function::Function;
use crate::number::{duration, seconds};
use crate::stack_views::{CallTree, CountedStacks, FunctionTimes, ModuleTimes, StackAnswer, StackReport};

pub(super) fn render(report: &StackReport, page: &mut Page) {
    recording(&report.meta, report.period, &report.filter, page);
    let how = report.fidelity.map_or("none", |fidelity| fidelity.as_str());
    let what = format!("DB time {} s ({how})", seconds(report.total.total_ns()));
    match &report.answer {
        StackAnswer::Stacks(stacks) => counted(stacks, &what, page),
        StackAnswer::Tree(tree) => call_tree(tree, &what, page),
        StackAnswer::Functions(times) => functions(times, &what, page),
        StackAnswer::Modules(times) => modules(times, &what, page),
    }
    for problem in &report.problems {
        page.paragraph(&format!("Not read: {problem}"));
    }
}

fn name(function: &Function) -> String {
    match function.kernel {
        true => format!("{} [k]", function.name),
        false => function.name.clone(),
    }
}

fn counted(stacks: &CountedStacks, what: &str, page: &mut Page) {
    page.heading(&format!(
        "Stacks of {what}, equal ones counted, the hottest last (root first, [k] = kernel)"
    ));
    if stacks.others > 0 {
        page.line("");
        page.line(&format!(
            "  {} other stacks: {} s",
            stacks.others,
            seconds(stacks.others_ns)
        ));
    }
    for stack in &stacks.stacks {
        page.line("");
        if stack.cut {
            page.line("    ...");
        }
        for function in &stack.functions {
            page.line(&format!("    {}", name(function)));
        }
        page.line(&format!(
            "  {:.1} %, {} s, {} samples",
            stack.percent,
            seconds(stack.ns),
            stack.samples
        ));
    }
}

fn call_tree(tree: &CallTree, what: &str, page: &mut Page) {
    page.heading(&format!(
        "Call tree of {what} (total = with all that was called from there; one blank per level, [k] = kernel)"
    ));
    let line = |page: &mut Page, columns: [&str; 5], name: &str| {
        let [total_percent, total, self_percent, own, samples] = columns;
        page.line(&format!(
            "  {total_percent:>7}  {total:>9}  {self_percent:>6}  {own:>9}  {samples:>8}  {name}"
        ));
    };
    line(
        page,
        ["total %", "total s", "self %", "self s", "samples"],
        "function",
    );
    let hidden = |page: &mut Page, ns: u128, depth: usize| {
        if ns > 0 {
            let name = format!("{}(others)", " ".repeat(depth));
            line(page, ["", &seconds(ns), "", "", ""], &name);
        }
    };
    // What is not shown of a function comes after what is shown of it.
    let mut open: Vec<(usize, u128)> = Vec::new();
    for node in &tree.nodes {
        while let Some((depth, ns)) = open.pop_if(|(depth, _)| *depth >= node.depth) {
            hidden(page, ns, depth + 1);
        }
        line(
            page,
            [
                &percent(Some(node.total_percent)),
                &seconds(node.total_ns),
                &percent(Some(node.self_percent)),
                &time(node.self_ns),
                &node.samples.to_string(),
            ],
            &format!("{}{}", " ".repeat(node.depth), name(&node.function)),
        );
        open.push((node.depth, node.hidden_ns));
    }
    while let Some((depth, ns)) = open.pop() {
        hidden(page, ns, depth + 1);
    }
    hidden(page, tree.hidden_roots_ns, 0);
    if tree.others > 0 {
        page.paragraph(&format!(
            "  {} call paths are not shown, see --top and --depth",
            tree.others
        ));
    }
}

fn functions(times: &FunctionTimes, what: &str, page: &mut Page) {
    page.heading(&format!(
        "Functions of {what} (self = in it; total = with all it called, once per stack)"
    ));
    let mut table = Table::new(
        &["function", "module"],
        &["self s", "self %", "total s", "total %", "samples"],
    );
    for function in &times.functions {
        table.row(vec![
            name(&function.function),
            function.function.module.clone(),
            time(function.self_ns),
            percent(Some(function.self_percent)),
            time(function.total_ns),
            percent(Some(function.total_percent)),
            function.samples.to_string(),
        ]);
    }
    if times.others > 0 {
        table.rule();
        let mut cells = vec![String::new(); 7];
        cells[0] = format!("{} others", times.others);
        cells[2] = time(times.others_self_ns);
        table.row(cells);
    }
    page.table(&table);
}

fn modules(times: &ModuleTimes, what: &str, page: &mut Page) {
    page.heading(&format!(
        "Modules of {what} (by the leaf-most known function; a sleep counts for who called the scheduler)"
    ));
    let per = times.work.map(|(unit, count)| (format!("per {unit}"), count));
    let mut heads = vec![
        "user",
        "kernel",
        "runnable",
        "blocked",
        "other",
        "total s",
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
            sums.state_ns(State::Cpu) + sums.unknown_ns(),
            sums.total_ns(),
        ]
        .map(time)
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
        let mut cells = vec![format!("{} others", times.others)];
        cells.extend(numbers(&times.others_sums));
        cells.extend([String::new(), String::new()]);
        cells.extend(per_unit(&times.others_sums));
        table.row(cells);
    }
    page.table(&table);
    if let Some((unit, count)) = times.work {
        page.paragraph(&format!("{count} {unit}s were counted."));
    }
}
