//! Context switches: tables of tasks, who ran instead, who woke them; single switches in the columns of `perf sched timehist`.

use dbtime_model::recording::Clock;
use dbtime_model::{State, Wait};

use super::page::{Page, Table, percent};
use crate::group::known_query_id;
use crate::histogram::Histogram;
use crate::number::{microseconds, milliseconds};
use crate::printable::printable;
use crate::sched::{OtherTask, Sched, SchedSums, SwitchLine, priority_words, task_words};
use crate::{statement_text, sums};

/// Width of the task column in the line of a switch, as in perf.
const TASK: usize = 30;
/// Tasks, events and names that are shown individually.
const SHOWN: usize = 20;
/// Characters of a statement's text.
const STATEMENT: usize = 40;
/// Shown for what is not known.
const UNKNOWN: &str = "?";

pub(super) fn render(sched: &Sched, clock: Clock, page: &mut Page) {
    let facts = &sched.facts;
    page.heading(&format!(
        "Context switches (exact; quantiles accurate to 1 %): {} turns of {} tasks in {} ms on {} CPUs",
        sched.total.switches,
        sched.tasks.len(),
        milliseconds(u128::from(facts.last_ns.abs_diff(facts.first_ns))),
        facts.cpus
    ));
    page.paragraph(
        "wait: off CPU since going to sleep, scheduling delay included; a preempted task has a delay only. \
         sch delay: ready to run, without a CPU. preempted: left its CPU ready to run.",
    );
    losses(sched, page);
    runs(sched, page);
    delays(sched, page);
    events(sched, page);
    statements(sched, page);
    instead(sched, page);
    wakers(sched, page);
    if !sched.longest.is_empty() {
        page.heading("The longest scheduling delays (ms, at the switch that ended the turn)");
        heading_of_switches(page);
        for line in &sched.longest {
            page.line(&switch_line(line, clock));
        }
    }
}

fn losses(sched: &Sched, page: &mut Page) {
    let facts = &sched.facts;
    let mut told = Vec::new();
    if facts.lost > 0 {
        told.push(format!(
            "{} turns were lost because the buffer was full: no figure includes them",
            facts.lost
        ));
    }
    if facts.kept < facts.switches {
        told.push(format!(
            "{} of {} turns are kept individually, the sums include all",
            facts.kept, facts.switches
        ));
    }
    if facts.without_begin > 0 {
        told.push(format!(
            "{} turns have no start: how long these ran is not known",
            facts.without_begin
        ));
    }
    if facts.missed > 0 {
        told.push(format!(
            "for {} turns the switch before was missed: their times are less certain",
            facts.missed
        ));
    }
    if !told.is_empty() {
        page.paragraph(&format!("{}.", told.join("; ")));
    }
}

fn others(number: usize, what: &str, page: &mut Page) {
    if number > SHOWN {
        page.paragraph(&format!("  {} more {what} are not shown", number - SHOWN));
    }
}

fn runs(sched: &Sched, page: &mut Page) {
    page.heading("Run time (ms)");
    let columns = [
        "switches",
        "preempted",
        "moved",
        "run",
        "min",
        "avg",
        "max",
        "% of run",
    ];
    let mut table = Table::new(&["task name [tid/pid]", "priority"], &columns);
    let all = sched.total.run.sum_ns();
    let moves = |moves: u128| match sched.facts.has_migrations || moves > 0 {
        true => moves.to_string(),
        false => UNKNOWN.to_string(),
    };
    let pushed_off = |times: u128| match sched.facts.has_states {
        true => times.to_string(),
        false => UNKNOWN.to_string(),
    };
    for task in sched.tasks.iter().take(SHOWN) {
        let sums = &task.sums;
        table.row(vec![
            task_words(&task.name, task.tid, task.process),
            priorities(sums.priorities),
            sums.switches.to_string(),
            pushed_off(sums.pushed_off),
            moves(sums.migrations),
            milliseconds(sums.run.sum_ns()),
            ms_if_known(sums.shortest_run_ns),
            sums.run
                .mean_ns()
                .map_or_else(|| UNKNOWN.to_string(), milliseconds),
            milliseconds(sums.run.max_ns().into()),
            percent(sums::percent(sums.run.sum_ns(), all)),
        ]);
    }
    table.rule();
    table.row(vec![
        "all".to_string(),
        String::new(),
        sched.total.switches.to_string(),
        pushed_off(sched.total.pushed_off),
        moves(sched.total.migrations),
        milliseconds(all),
        ms_if_known(sched.total.shortest_run_ns),
        sched
            .total
            .run
            .mean_ns()
            .map_or_else(|| UNKNOWN.to_string(), milliseconds),
        milliseconds(sched.total.run.max_ns().into()),
        percent(sums::percent(all, all)),
    ]);
    page.table(&table);
    others(sched.tasks.len(), "tasks", page);
}

fn delays(sched: &Sched, page: &mut Page) {
    page.heading("Wait and scheduling delay (sums in ms, quantiles of single ones in us)");
    let columns = [
        "wait",
        "wait p50",
        "wait max",
        "sch delay",
        "p50",
        "p95",
        "p99",
        "max",
    ];
    let mut table = Table::new(&["task name [tid/pid]"], &columns);
    let mut row = |name: String, off_cpu: &Histogram, delay: &Histogram| {
        let mut cells = vec![
            name,
            milliseconds(off_cpu.sum_ns()),
            quantile(off_cpu, 0.5),
            longest(off_cpu),
        ];
        cells.extend(delay_cells(delay));
        table.row(cells);
    };
    for task in sched.tasks.iter().take(SHOWN) {
        row(
            task_words(&task.name, task.tid, task.process),
            &task.sums.off_cpu,
            &task.sums.delay,
        );
    }
    row("all".to_string(), &sched.total.off_cpu, &sched.total.delay);
    page.table(&table);
    others(sched.tasks.len(), "tasks", page);
}

fn events(sched: &Sched, page: &mut Page) {
    if sched.by_event.is_empty() {
        return;
    }
    page.heading("Scheduling delay by wait event (ms; quantiles in us; CPU = in no wait event)");
    let mut table = Table::new(
        &["wait event"],
        &["delays", "sch delay", "p50", "p95", "p99", "max"],
    );
    for (name, delay) in sched.by_event.iter().take(SHOWN) {
        let mut cells = vec![event_label(name), delay.count().to_string()];
        cells.extend(delay_cells(delay));
        table.row(cells);
    }
    page.table(&table);
    others(sched.by_event.len(), "wait events", page);
}

fn statements(sched: &Sched, page: &mut Page) {
    if sched.statements.is_empty() {
        return;
    }
    page.heading("Run time and scheduling delay by query (ms; quantiles in us)");
    let columns = ["run", "delays", "sch delay", "p50", "p95", "p99", "max"];
    let mut table = Table::new(&["query", "text"], &columns);
    let mut row = |id: String, text: String, sums: &SchedSums| {
        let delay = &sums.delay;
        let mut cells = vec![
            id,
            text,
            milliseconds(sums.run.sum_ns()),
            delay.count().to_string(),
        ];
        cells.extend(delay_cells(delay));
        table.row(cells);
    };
    for of in sched.statements.iter().take(SHOWN) {
        let text = match of.id {
            0 => "[none: waiting for a command, or parsing]".to_string(),
            id => statement_text::cell(id, of.text.as_deref(), STATEMENT),
        };
        row(known_query_id(of.id).unwrap_or_default(), text, &of.sums);
    }
    if sched.other_statements != SchedSums::default() {
        row(
            String::new(),
            "[too many to tell apart]".to_string(),
            &sched.other_statements,
        );
    }
    page.table(&table);
    others(sched.statements.len(), "queries", page);
}

/// The usual label of a wait event: in brackets if it is none.
fn event_label(name: &str) -> String {
    match name.split_once(':') {
        Some((class, event)) if class == Wait::UNKNOWN => format!("[{event}]"),
        _ => name.to_string(),
    }
}

fn instead(sched: &Sched, page: &mut Page) {
    let delay_ns = sched.total.delay.sum_ns();
    if delay_ns == 0 {
        return;
    }
    if !sched.facts.has_occupants {
        page.heading("Who ran instead is not known: the source does not cover other tasks.");
        return;
    }
    page.heading("Who ran instead: who had the CPU during these delays");
    let mut table = Table::new(&["who"], &["delays", "ms", "% of delay"]);
    for task in sched.instead.iter().take(SHOWN) {
        table.row(task_cells(task));
    }
    if sched.not_seen_ns > 0 {
        table.row(vec![
            "[not seen]".to_string(),
            String::new(),
            milliseconds(sched.not_seen_ns),
            percent(sums::percent(sched.not_seen_ns, delay_ns)),
        ]);
    }
    page.table(&table);
    others(sched.instead.len(), "tasks", page);
}

fn wakers(sched: &Sched, page: &mut Page) {
    if sched.wakers.is_empty() {
        return;
    }
    page.heading("Who woke them (sleeps, and how long they lasted)");
    let mut table = Table::new(&["waker"], &["sleeps", "ms", "% of sleep"]);
    for waker in sched.wakers.iter().take(SHOWN) {
        table.row(task_cells(waker));
    }
    page.table(&table);
    others(sched.wakers.len(), "wakers", page);
}

fn task_cells(task: &OtherTask) -> Vec<String> {
    vec![
        task.name.clone(),
        task.count.to_string(),
        milliseconds(task.ns),
        percent(task.percent),
    ]
}

fn delay_cells(delay: &Histogram) -> Vec<String> {
    vec![
        milliseconds(delay.sum_ns()),
        quantile(delay, 0.5),
        quantile(delay, 0.95),
        quantile(delay, 0.99),
        longest(delay),
    ]
}

fn quantile(of: &Histogram, q: f64) -> String {
    of.quantile(q)
        .map_or_else(|| "-".to_string(), |ns| microseconds(ns.into()))
}

fn longest(of: &Histogram) -> String {
    match of.count() {
        0 => "-".to_string(),
        _ => microseconds(of.max_ns().into()),
    }
}

fn ms_if_known(ns: Option<u64>) -> String {
    ns.map_or_else(|| UNKNOWN.to_string(), |ns| milliseconds(ns.into()))
}

fn priorities(of: Option<(i32, i32)>) -> String {
    match of {
        None => UNKNOWN.to_string(),
        Some((least, largest)) if least == largest => priority_words(least),
        Some((least, largest)) => format!("{} to {}", priority_words(least), priority_words(largest)),
    }
}

/// The heading of single switches.
pub fn render_switch_heading(width: usize) -> String {
    let mut page = Page::new(width);
    heading_of_switches(&mut page);
    page.finish()
}

/// A single switch, with a newline at the end.
pub fn render_switch(line: &SwitchLine, clock: Clock) -> String {
    let text = switch_line(line, clock);
    format!("{}\n", printable(&text).trim_end())
}

fn heading_of_switches(page: &mut Page) {
    // The first six as in perf; those after the bar are ours.
    page.line(&format!(
        "{:>15} {:>6}  {:<TASK$}  {:>9}  {:>9}  {:>9} | {:<8}  {:<8}  {:<22}  {:<24}  {:>5}",
        "time",
        "cpu",
        "task name",
        "wait time",
        "sch delay",
        "run time",
        "state",
        "prio",
        "wait event",
        "woken by",
        "moved"
    ));
    page.line(&format!(
        "{:15} {:6}  {:<TASK$}  {:>9}  {:>9}  {:>9} |",
        "", "", "[tid/pid]", "(msec)", "(msec)", "(msec)"
    ));
    page.line(&format!(
        "{0:-<15} {0:-<6}  {0:-<TASK$}  {0:-<9}  {0:-<9}  {0:-<9} | {0:-<8}  {0:-<8}  {0:-<22}  {0:-<24}  {0:-<5}",
        ""
    ));
}

fn switch_line(line: &SwitchLine, clock: Clock) -> String {
    let wait = match line.wait_state {
        // Whether or not it was preempted within a wait event.
        State::Runnable | State::Sleep | State::Disk | State::Stopped => line.wait.to_string(),
        _ => UNKNOWN.to_string(),
    };
    format!(
        "{:>15} [{:04}]  {:<TASK$}  {:>9}  {:>9}  {:>9} | {:<8}  {:<8}  {:<22}  {:<24}  {}",
        moment(line.time_ns, clock),
        line.cpu,
        line.task(),
        ms_if_known(line.off_cpu_ns),
        ms_if_known(line.delay_ns),
        ms_if_known(line.run_ns),
        line.state.as_str(),
        line.priority.map_or_else(|| UNKNOWN.to_string(), priority_words),
        wait,
        line.waker,
        if line.migrated { "moved" } else { "" }
    )
}

/// Time of day, or seconds of the recording's clock.
fn moment(ns: i64, clock: Clock) -> String {
    let us = ns.div_euclid(1_000);
    let (seconds, us) = (us.div_euclid(1_000_000), us.rem_euclid(1_000_000));
    match clock {
        Clock::Utc => {
            let second = seconds.rem_euclid(86_400);
            format!(
                "{:02}:{:02}:{:02}.{us:06}",
                second / 3_600,
                second / 60 % 60,
                second % 60
            )
        }
        Clock::Relative | Clock::None => format!("{seconds}.{us:06}"),
    }
}
