//! How often internal locks were taken, how long they were held and waited for, if every use was counted.

use super::causes::TEXT;
use super::page::{Page, Table, percent};
use crate::group::{NOT_KNOWN, known_query_id};
use crate::latches::{
    ExactLatch, ExactLatches, ExactPlace, ExactSession, ExactStatement, HoldMode, LatchReport, UseSums,
};
use crate::number::{counted, duration, microseconds, seconds};
use crate::statement_text::beginning;
use crate::sums::percent as percent_of;

/// Sessions, statements and places are listed for locks that were held, or waited for, for at least 1/`LEAST` of the time, or that have
/// 1/`MANY` of all gets.
const LEAST: u128 = 200;
const MANY: u128 = 20;

/// The numbers of every table.
const COUNTED: [&str; 7] = [
    "gets",
    "waits",
    "wait s",
    "mean wait us",
    "held s",
    "mean hold us",
    "longest us",
];

fn numbers(sums: &UseSums) -> [String; 7] {
    let of_waits = |shown: String| if sums.waits == 0 { String::new() } else { shown };
    let of_holds = |shown: String| if sums.holds == 0 { String::new() } else { shown };
    [
        sums.gets.to_string(),
        sums.waits.to_string(),
        of_waits(seconds(sums.wait_ns)),
        of_waits(microseconds(sums.mean_wait_ns())),
        of_holds(seconds(sums.held_ns)),
        of_holds(microseconds(sums.mean_hold_ns())),
        of_holds(microseconds(sums.max_hold_ns.into())),
    ]
}

/// What was counted, what that cost, and what is missing.
pub(super) fn heading(exact: &ExactLatches, page: &mut Page) {
    let per_second = exact.gets as f64 * 1e9 / exact.elapsed_ns.max(1) as f64;
    let others = match exact.cpu_of_others {
        ..0.0005 => String::new(),
        part => format!(
            " ({:.1} % in other servers running this executable)",
            100.0 * part
        ),
    };
    page.paragraph(&format!(
        "Exact, by probes, over {} s: {per_second:.0} gets and releases a second. Each costs the session \
         about {} more, as measured on this host at the start: {:.1} % of one CPU{others}.",
        seconds(exact.elapsed_ns.into()),
        duration(exact.use_cost_ns.into()),
        100.0 * exact.cpu,
    ));
    if let Some(why) = &exact.stopped {
        page.paragraph(&format!("Ended early: {why}."));
    }
    if !exact.not_by.is_empty() {
        let by = exact.not_by.join(", ");
        page.paragraph(&format!(
            "Counts cannot be broken down by {by} and are not shown: for each use only the session, the \
             lock, the statement and the place in the code are known. Leave out {by} to see them."
        ));
    }
    let mut missing = Vec::new();
    if exact.without_get > 0 {
        missing.push(format!(
            "{} of locks that had been taken before (for how long they were held is not known)",
            counted(exact.without_get, "release")
        ));
    }
    if exact.holds_without_room > 0 {
        missing.push(format!(
            "the length of {} of sessions with more than 32 locks at a time",
            counted(exact.holds_without_room, "hold")
        ));
    }
    if exact.lost > 0 {
        missing.push(format!("{} for lack of room", counted(exact.lost, "use")));
    }
    if !missing.is_empty() {
        page.paragraph(&format!("Not included: {}.", missing.join("; ")));
    }
}

/// By lock and mode, then by session and place.
pub(super) fn tables(report: &LatchReport, exact: &ExactLatches, page: &mut Page) {
    if !exact.not_by.is_empty() {
        return;
    }
    if exact.latches.is_empty() {
        page.paragraph("Exact: no lock was taken.");
        return;
    }
    overview(report, exact, page);
    let elapsed = u128::from(exact.elapsed_ns);
    let matters = |latch: &&ExactLatch| {
        let sums = [latch.exclusive, latch.shared].into_iter().flatten();
        sums.into_iter().any(|sums| {
            sums.held_ns.max(sums.wait_ns) * LEAST >= elapsed || sums.gets * MANY >= exact.gets.max(1)
        })
    };
    for latch in exact.latches.iter().take(report.top).filter(matters) {
        of_latch(latch, report.top, page);
    }
}

fn overview(report: &LatchReport, exact: &ExactLatches, page: &mut Page) {
    page.heading("Gets, waits and holds (exact; sampled %: what samples find of the same)");
    let heads = [&COUNTED[..], &["held %", "sampled %"]].concat();
    let mut table = Table::new(&["lock", "mode"], &heads);
    let sampled_ns = report.period.elapsed_ns();
    for latch in exact.latches.iter().take(report.top) {
        let sampled = report.latches.iter().find(|sampled| sampled.name == latch.name);
        for mode in [HoldMode::Exclusive, HoldMode::Shared] {
            let Some(sums) = exact.of(&latch.name, mode) else {
                continue;
            };
            let found = sampled.map_or(0, |sampled| match mode {
                HoldMode::Exclusive => sampled.exclusive_ns,
                HoldMode::Shared | HoldMode::NotKnown => sampled.shared_ns,
            });
            let mut cells = vec![latch.name.clone(), mode.as_str().to_string()];
            cells.extend(numbers(&sums));
            cells.push(percent(percent_of(sums.held_ns, exact.elapsed_ns.into())));
            cells.push(percent(percent_of(found, sampled_ns)));
            table.row(cells);
        }
    }
    page.table(&table);
    let rest = exact.latches.get(report.top..).unwrap_or_default();
    if !rest.is_empty() {
        let sum = |of: fn(&UseSums) -> u128| -> u128 {
            let all = rest.iter().flat_map(|latch| [latch.exclusive, latch.shared]);
            all.flatten().map(|sums| of(&sums)).sum()
        };
        page.line(&format!(
            "{}: {} gets, held {} s, waited {} s",
            counted(rest.len(), "other lock"),
            sum(|sums| sums.gets),
            seconds(sum(|sums| sums.held_ns)),
            seconds(sum(|sums| sums.wait_ns)),
        ));
    }
    let refused: u128 = exact
        .latches
        .iter()
        .flat_map(|latch| [latch.exclusive, latch.shared])
        .flatten()
        .map(|sums| sums.refused)
        .sum();
    if refused > 0 {
        page.line(&format!(
            "{} to take a lock without waiting failed, because it was not free",
            counted(refused, "attempt")
        ));
    }
}

fn of_latch(latch: &ExactLatch, top: usize, page: &mut Page) {
    page.heading(&format!("{} (exact)", latch.name));
    let mut table = Table::new(&["by"], &COUNTED);
    let sessions = latch.sessions.iter().map(|one| (session(one), one.sums));
    rows(&mut table, sessions, top, "other session");
    if latch.statements.iter().any(|one| one.statement != 0) {
        let statements = latch.statements.iter().map(|one| (statement(one), one.sums));
        table.heading("by statement:".to_string());
        rows(&mut table, statements, top, "other statement");
    }
    table.heading("asked for in the code:".to_string());
    let places = latch.places.iter().map(|one| (place(one), one.sums));
    rows(&mut table, places, top, "other place");
    if latch.single.len() > 1 {
        table.heading("single locks:".to_string());
        let single = latch.single.iter().map(|one| (one.lock.label(), one.sums));
        rows(&mut table, single, top, "other lock");
    }
    page.table(&table);
}
fn session(one: &ExactSession) -> String {
    let user = match one.user.as_str() {
        "" => String::new(),
        user => format!(" of {user}"),
    };
    format!("pid {}, {}{user}", one.session, one.backend_type)
}

fn statement(one: &ExactStatement) -> String {
    match (&one.text, known_query_id(one.statement)) {
        (_, None) => NOT_KNOWN.to_string(),
        (Some(text), _) => beginning(text, TEXT),
        (None, Some(id)) => format!("query {id}"),
    }
}

fn place(one: &ExactPlace) -> String {
    match one.functions.is_empty() {
        true => NOT_KNOWN.to_string(),
        false => one.functions.join(" > "),
    }
}

/// The first rows, and the rest in one.
fn rows(table: &mut Table, all: impl Iterator<Item = (String, UseSums)>, top: usize, others: &str) {
    let (mut rest, mut count) = (UseSums::default(), 0_usize);
    for (place, (name, sums)) in all.enumerate() {
        if place < top {
            table.row([vec![name], numbers(&sums).to_vec()].concat());
        } else {
            count += 1;
            rest += sums;
        }
    }
    if count > 0 {
        table.row([vec![counted(count, others)], numbers(&rest).to_vec()].concat());
    }
}

/// Headings of the exact counts next to what samples say, if the user chose the columns.
pub(super) const OF_PROFILE: [&str; 5] = ["gets", "waits", "held s (exact)", "mean hold us", "longest us"];

/// The cells below them.
pub(super) fn of_profile(sums: Option<UseSums>) -> [String; 5] {
    let sums = sums.unwrap_or_default();
    let [gets, waits, _, _, held, mean, longest] = numbers(&sums);
    [gets, waits, held, mean, longest]
}
