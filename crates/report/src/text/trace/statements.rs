//! Statements: their numbers, texts, plans, who called them, and for which application.

use dbtime_model::StatementRow;

use super::sql_line;
use crate::group::{exact_moment, statement_name};
use crate::number::{counted, exact_seconds};
use crate::text::page::{Page, Table};
use crate::trace::{Trace, TracedStatement};

pub(super) fn render(trace: &Trace, page: &mut Page) {
    let (top, others) = trace
        .statements
        .split_at(trace.options.top.min(trace.statements.len()));
    if top.is_empty() {
        return;
    }
    page.heading(
        "Statements by plan (seconds, exact). Elapsed time and CPU include the statements called inside, so \
         they do not add up; waits are its own; idle is 'SQL*Net message from client' and is kept separate; \
         missing = elapsed - CPU - waits.",
    );
    let numbers = [
        "calls", "elapsed", "CPU", "waits", "missing", "idle", "rows", "gets", "reads",
    ];
    let mut table = Table::new(&["sql_id", "plan", "by"], &numbers);
    for statement in top {
        table.row(vec![
            name(statement),
            statement
                .plan_hash
                .map_or_else(String::new, |plan| plan.to_string()),
            by(statement),
            statement.all.calls.to_string(),
            exact_seconds(statement.all.elapsed_us),
            exact_seconds(statement.all.cpu_us),
            exact_seconds(statement.wait_us),
            exact_seconds(statement.missing_us()),
            exact_seconds(statement.idle_us),
            statement.all.rows.to_string(),
            (statement.all.consistent_gets + statement.all.current_gets).to_string(),
            statement.all.physical_reads.to_string(),
        ]);
    }
    page.table(&table);
    if !others.is_empty() {
        page.line(&format!(
            "  {}: --top N shows more",
            counted(others.len(), "other")
        ));
    }
    if top.iter().any(|statement| statement.user_id.is_some()) {
        page.paragraph(
            "  by: number of the user who parsed it (SYS is 0); r: recursive, it ran inside of other calls.",
        );
    }
    texts(top, page);
    calls(top, page);
    plans(trace, top, page);
    binds(trace, top, page);
    recursion(trace, page);
    applications(trace, page);
}

fn name(statement: &TracedStatement) -> String {
    statement_name(statement.id, statement.sql_id.as_deref(), statement.hash_value)
}

/// Who parsed it, and whether it is recursive.
fn by(statement: &TracedStatement) -> String {
    let user = match statement.user_id {
        None => String::new(),
        Some(0) => "SYS".to_string(),
        Some(user) => user.to_string(),
    };
    match statement.is_recursive() {
        true => format!("{user} r").trim_start().to_string(),
        false => user,
    }
}

/// The table of TKPROF.
fn calls(top: &[TracedStatement], page: &mut Page) {
    if top.iter().all(|statement| statement.all.calls == 0) {
        return;
    }
    page.heading(
        "Parse, execute, fetch (seconds, exact; the statements called inside are in CPU and elapsed; query and current are \
         blocks got in consistent and in current mode, disk are blocks read; misses are those of the library cache)",
    );
    let numbers = [
        "count", "CPU", "elapsed", "disk", "query", "current", "rows", "misses",
    ];
    let mut table = Table::new(&["statement", "call"], &numbers);
    for statement in top {
        let mut name = name(statement);
        let kinds = [
            ("Parse", statement.parse),
            ("Execute", statement.exec()),
            ("Fetch", statement.fetch),
            ("total", statement.all),
        ];
        for (kind, sums) in kinds.into_iter().filter(|(_, sums)| sums.calls != 0) {
            table.row(vec![
                std::mem::take(&mut name),
                kind.to_string(),
                sums.calls.to_string(),
                exact_seconds(sums.cpu_us),
                exact_seconds(sums.elapsed_us),
                sums.physical_reads.to_string(),
                sums.consistent_gets.to_string(),
                sums.current_gets.to_string(),
                sums.rows.to_string(),
                sums.misses.to_string(),
            ]);
        }
    }
    page.table(&table);
}

/// Most sets of values, and executions, of a statement.
const BIND_SETS: usize = 10;

fn binds(trace: &Trace, top: &[TracedStatement], page: &mut Page) {
    if !trace.options.binds {
        return;
    }
    let mut shown = Vec::new();
    for statement in top.iter().filter(|statement| !statement.binds.is_empty()) {
        if shown.contains(&statement.id) {
            continue;
        }
        shown.push(statement.id);
        page.heading(&format!(
            "Values of bind variables of {} (executions with the same values; seconds of EXEC and FETCH)",
            name(statement)
        ));
        let mut table = Table::new(&["values"], &["executions", "rows", "seconds"]);
        for set in statement.binds.iter().take(BIND_SETS) {
            table.row(vec![
                set.values.join(", "),
                set.executions.to_string(),
                set.rows.to_string(),
                exact_seconds(set.elapsed_us.into()),
            ]);
        }
        page.table(&table);
        if statement.binds.len() > BIND_SETS {
            page.line(&format!(
                "  {} other sets of values",
                statement.binds.len() - BIND_SETS
            ));
        }
        bound_executions(statement, page);
    }
}

/// Individual executions of a statement, with the values of its bind variables.
fn bound_executions(statement: &TracedStatement, page: &mut Page) {
    if statement.bound_executions.is_empty() {
        return;
    }
    page.heading(&format!(
        "Executions of {} with their values, by position (UTC when EXEC ended; seconds of EXEC; a position without a value is null)",
        name(statement)
    ));
    let mut table = Table::new(&["time", "values"], &["seconds"]);
    let shown = &statement.bound_executions[..statement.bound_executions.len().min(BIND_SETS)];
    for execution in shown {
        let values: Vec<String> = execution
            .values
            .iter()
            .map(|of| format!("#{} -> {}", of.position, of.value))
            .collect();
        table.row(vec![
            exact_moment(execution.time_us),
            values.join(", "),
            exact_seconds(execution.elapsed_us.into()),
        ]);
    }
    page.table(&table);
    let others = statement.bound_execution_count.saturating_sub(shown.len() as u64);
    if others > 0 {
        page.line(&format!(
            "  {others} more executions with values; --format json has the first {} one by one",
            statement.bound_executions.len()
        ));
    }
}

fn texts(top: &[TracedStatement], page: &mut Page) {
    page.line("");
    let mut table = Table::new(&["sql_id", "text"], &[]);
    let mut shown = Vec::new();
    for statement in top.iter().filter(|statement| statement.id != 0) {
        if !shown.contains(&statement.id) {
            shown.push(statement.id);
            let mut text = sql_line(statement.text.as_deref());
            if statement.variants > 1 && statement.text.as_deref() != Some(StatementRow::FURTHER) {
                text += &format!(
                    " ({} statements that differ in literals: --each-literal shows them)",
                    statement.variants
                );
            }
            table.row(vec![name(statement), text]);
        }
    }
    if !shown.is_empty() {
        page.table(&table);
    }
    let assumed: i128 = top.iter().map(|statement| statement.assumed_wait_us).sum();
    if assumed > 0 {
        page.paragraph(&format!(
            "  {} s of the waits above are of cursor #0 and fall in no call of the cursor before: they are \
             attributed to it anyway, as TVD$XTAT does.",
            exact_seconds(assumed)
        ));
    }
    if shown.len() < top.len() && top.iter().any(|statement| statement.id == 0) {
        page.paragraph(
            "  [unknown]: calls and waits of cursors whose text is not in the trace, or of no cursor.",
        );
    }
}

fn plans(trace: &Trace, top: &[TracedStatement], page: &mut Page) {
    let with_plan = top.iter().filter(|statement| !statement.plan.steps.is_empty());
    if !trace.options.plans {
        let count = with_plan.count();
        if count > 0 {
            page.line(&format!("  Plans of {count} of them: --plans"));
        }
        return;
    }
    for statement in with_plan {
        let plan = statement
            .plan_hash
            .map_or_else(String::new, |plan| format!(", plan {plan}"));
        page.heading(&format!(
            "Plan of {}{plan} (as the trace reports its executions; seconds include the steps below, own \
             does not)",
            name(statement)
        ));
        let numbers = ["executions", "rows", "gets", "reads", "writes", "seconds", "own"];
        let mut table = Table::new(&["step", "operation"], &numbers);
        for timed in &statement.plan.steps {
            let step = &timed.step;
            table.row(vec![
                step.id.to_string(),
                format!("{}{}", indent(timed.depth), step.operation),
                step.executions.to_string(),
                step.rows.to_string(),
                step.consistent_gets.to_string(),
                step.physical_reads.to_string(),
                step.physical_writes.to_string(),
                exact_seconds(step.elapsed_us.into()),
                exact_seconds(timed.own_us),
            ]);
        }
        page.table(&table);
    }
}

/// Deeper steps are not indented further.
fn indent(depth: usize) -> String {
    "  ".repeat(depth.min(12))
}

fn recursion(trace: &Trace, page: &mut Page) {
    let shown = trace.recursion.len().min(trace.options.top.saturating_mul(2));
    if shown == 0 {
        return;
    }
    page.heading("Who called whom (seconds, exact): below a statement those that ran inside of its calls");
    let mut table = Table::new(&["statement", "text"], &["calls", "elapsed"]);
    for call in &trace.recursion[..shown] {
        let mut text: String = sql_line(call.text.as_deref()).chars().take(60).collect();
        if call.is_continued {
            text = "(what it called: see above)".to_string();
        }
        table.row(vec![
            format!(
                "{}{}",
                indent(call.depth),
                statement_name(call.id, call.sql_id.as_deref(), call.hash_value)
            ),
            text,
            call.calls.to_string(),
            exact_seconds(call.elapsed_us),
        ]);
    }
    page.table(&table);
    if shown < trace.recursion.len() {
        page.line(&format!(
            "  {} more lines: --top N shows more",
            trace.recursion.len() - shown
        ));
    }
}

fn applications(trace: &Trace, page: &mut Page) {
    if trace.applications.iter().all(|one| one.is_nameless()) {
        return;
    }
    page.heading(
        "By what the application says it does (seconds by the call view, exact; adds up to the whole)",
    );
    let numbers = ["calls", "elapsed", "CPU", "waits", "idle", "unaccounted"];
    let mut table = Table::new(&["service", "module", "action", "client id"], &numbers);
    let (top, others) = trace
        .applications
        .split_at(trace.options.top.min(trace.applications.len()));
    for one in top {
        let (time, view) = (&one.time, &one.time.call_view);
        table.row(vec![
            one.service.clone(),
            one.module.clone(),
            one.action.clone(),
            one.client_id.clone(),
            time.calls.to_string(),
            exact_seconds(view.elapsed_us),
            exact_seconds(view.cpu_us),
            exact_seconds(view.wait_us),
            exact_seconds(view.idle_us),
            exact_seconds(view.unaccounted_us()),
        ]);
    }
    page.table(&table);
    if !others.is_empty() {
        page.line(&format!(
            "  {}: --top N shows more",
            counted(others.len(), "other")
        ));
    }
}
