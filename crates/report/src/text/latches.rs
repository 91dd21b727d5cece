//! Who held the server's internal locks.

use dbtime_model::{StateGroup, WaitKind};

use super::causes::of_statement;
use super::page::{Page, Table, percent};
use super::{exact_latches, header, locks, quality};
use crate::group::NOT_KNOWN;
use crate::latches::{CodeTime, HoldMode, Holding, Latch, LatchReport, LatchSamples, why_not_recorded};
use crate::locks::why_not_recorded as locks_not_recorded;
use crate::number::{counted, milliseconds, seconds};
use crate::sums::percent as percent_of;

/// Holders are listed for locks that were held, or waited for, for at least one in this many parts of the active time.
const LEAST: u128 = 200;

pub(super) fn render(report: &LatchReport, page: &mut Page) {
    header::recording(&report.meta, report.period, &report.filter, page);
    if !report.meta.database.held_locks {
        page.heading(why_not_recorded(&report.meta));
        notes_of_import(report, page);
        of_transactions(report, page);
        quality::problems(&report.problems, page);
        return;
    }
    if let Some(looked) = report.looked {
        of_samples(report, looked, page);
        notes_of_import(report, page);
        quality::problems(&report.problems, page);
        return;
    }
    let not_known = match report.active_ns {
        0 => "There was no active time.".to_string(),
        active_ns => format!(
            "For {} % of the active time it is not known which locks a session held.",
            percent(percent_of(report.not_known_ns, active_ns))
        ),
    };
    page.paragraph(&format!(
        "Internal locks of the server (LWLocks). Sampled: times are those of the ledger, divided by samples. {not_known}"
    ));
    if let Some(exact) = &report.exact {
        exact_latches::heading(exact, page);
    }
    if !report.columns.is_empty() {
        profile(report, page);
        quality::problems(&report.problems, page);
        return;
    }
    if report.latches.is_empty() {
        page.paragraph("No sample found a session that held one or waited for one.");
    } else {
        overview(report, page);
    }
    if let Some(exact) = &report.exact {
        exact_latches::tables(report, exact, page);
    }
    let matters = |latch: &&Latch| latch.waited_ns.max(latch.held_ns) * LEAST >= report.active_ns;
    for latch in report.latches.iter().take(report.top).filter(matters) {
        holdings(latch, report.top, page);
        waitings(latch, report.top, page);
    }
    of_transactions(report, page);
    quality::problems(&report.problems, page);
}

/// The locks of the server's lock table.
fn of_transactions(report: &LatchReport, page: &mut Page) {
    match report.locks.recorded {
        true => locks::render(&report.locks, &report.filter, report.top, page),
        false => {
            if let Some(why) = locks_not_recorded(&report.meta) {
                page.paragraph(why);
            }
        }
    }
}

/// What could not be read from the files, or is not known: gaps, damaged lines. Not wrapped, as they contain paths.
fn notes_of_import(report: &LatchReport, page: &mut Page) {
    if !report.meta.files.is_empty() && !report.meta.notes.is_empty() {
        page.heading("Not read, or not known");
        for note in &report.meta.notes {
            page.line(&format!("  {}", note.text));
        }
    }
}

/// For samples of all holders: the columns of `LatchProfX`.
fn of_samples(report: &LatchReport, looked: LatchSamples, page: &mut Page) {
    page.paragraph(&format!(
        "Latches of the server, from {} of all their holders in {} s. held ms: the same share of the \
         sampled time as of the samples. avg hold ms: held ms divided by gets (the holds that samples hit); \
         short holds are rarely hit, so it errs on the long side.",
        counted(looked.samples, "sample"),
        seconds(looked.ns),
    ));
    if report.latches.is_empty() {
        page.paragraph("No sample found a session that held one.");
        return;
    }
    if !report.columns.is_empty() {
        let heads: Vec<&str> = report.columns.iter().map(|column| column.as_str()).collect();
        page.heading(&format!("Latches that were held, by {}", heads.join(", ")));
        let mut table = Table::new(&heads, &SAMPLED);
        for row in report.profile.iter().take(report.top) {
            let shown = |cell: &String| if cell.is_empty() { NOT_KNOWN } else { cell }.to_string();
            let mut cells: Vec<String> = row.cells.iter().map(shown).collect();
            cells.extend(sampled(looked, row.samples, row.gets, row.ns));
            table.row(cells);
        }
        page.table(&table);
        if let Some(rest) = report.profile.get(report.top..).filter(|rest| !rest.is_empty()) {
            page.line(&format!(
                "{}: held {} ms",
                counted(rest.len(), "other row"),
                milliseconds(rest.iter().map(|row| row.ns).sum())
            ));
        }
        return;
    }
    page.heading("Latches that were held");
    let heads = [&SAMPLED[..], &["exclusive ms", "shared ms"]].concat();
    let mut table = Table::new(&["latch", "longest held"], &heads);
    let held = |latch: &&Latch| latch.samples > 0;
    for latch in report.latches.iter().filter(held).take(report.top) {
        let mut cells = vec![latch.name.to_string(), longest(latch)];
        cells.extend(sampled(looked, latch.samples, latch.gets, latch.held_ns));
        let is_known = latch.mode_unknown_ns < latch.held_ns;
        cells.extend([latch.exclusive_ns, latch.shared_ns].map(|ns| match is_known {
            true => milliseconds(ns),
            false => String::new(),
        }));
        table.row(cells);
    }
    page.table(&table);
    let rest = report.latches.get(report.top..).unwrap_or_default();
    if !rest.is_empty() {
        page.line(&format!(
            "{}: held {} ms",
            counted(rest.len(), "other latch"),
            milliseconds(rest.iter().map(|latch| latch.held_ns).sum()),
        ));
    }
    for latch in report.latches.iter().filter(held).take(report.top) {
        sampled_holders(latch, looked, report.top, page);
    }
}

/// What `LatchProfX` prints in a row.
const SAMPLED: [&str; 5] = ["held", "gets", "held %", "held ms", "avg hold ms"];

fn sampled(looked: LatchSamples, samples: u128, gets: u128, ns: u128) -> [String; 5] {
    // Rows have whole nanoseconds. If all samples weigh the same, what rounding lost is known.
    let all = looked.samples.max(1);
    let of_all = looked.ns.saturating_mul(samples);
    let (ns, by) = match (of_all / all).abs_diff(ns) <= samples {
        true => (of_all, all),
        false => (ns, 1),
    };
    let by_ms = by.saturating_mul(1_000_000);
    let of_gets = |shown: String| if gets == 0 { String::new() } else { shown };
    [
        samples.to_string(),
        of_gets(gets.to_string()),
        decimals(samples.saturating_mul(100), all, 100),
        decimals(ns, by_ms, 1000),
        of_gets(decimals(ns, by_ms.saturating_mul(gets.max(1)), 1000)),
    ]
}

/// A fraction in parts of a unit (100: two decimals), rounded half up, as SQL*Plus does.
fn decimals(number: u128, by: u128, parts: u128) -> String {
    let rounded = number.saturating_mul(2 * parts).saturating_add(by) / by.saturating_mul(2);
    let digits = parts.ilog10() as usize;
    format!("{}.{:0digits$}", rounded / parts, rounded % parts)
}

fn sampled_holders(latch: &Latch, looked: LatchSamples, top: usize, page: &mut Page) {
    page.heading(&format!(
        "{}  held {} ms",
        latch.name,
        milliseconds(latch.held_ns)
    ));
    if latch.holdings.is_empty() {
        return;
    }
    let mut table = Table::new(&["held by", "while", "in the code"], &SAMPLED);
    for holding in latch.holdings.iter().take(top) {
        let mut cells = vec![who(holding), what(holding), code(&holding.code)];
        cells.extend(sampled(looked, holding.samples, holding.gets, holding.ns));
        table.row(cells);
    }
    if let Some(rest) = latch.holdings.get(top..).filter(|rest| !rest.is_empty()) {
        let sum = |of: fn(&Holding) -> u128| rest.iter().map(of).sum();
        let mut cells = vec![counted(rest.len(), "other holder"), String::new(), String::new()];
        cells.extend(sampled(
            looked,
            sum(|holding| holding.samples),
            sum(|holding| holding.gets),
            sum(|holding| holding.ns),
        ));
        table.row(cells);
    }
    page.table(&table);
}

/// By the requested columns.
fn profile(report: &LatchReport, page: &mut Page) {
    if report.profile.is_empty() {
        page.paragraph("No sample found a session that held one.");
        return;
    }
    let elapsed = report.period.elapsed_ns();
    let heads: Vec<&str> = report.columns.iter().map(|column| column.as_str()).collect();
    page.heading(&format!(
        "Time for which locks were held, by {}",
        heads.join(", ")
    ));
    let exact = report.exact.as_ref().filter(|exact| exact.not_by.is_empty());
    let of_samples: &[&str] = &["held s", "held %", "samples"];
    let numbers = match exact {
        Some(_) => [of_samples, &exact_latches::OF_PROFILE].concat(),
        None => of_samples.to_vec(),
    };
    let mut table = Table::new(&heads, &numbers);
    for row in report.profile.iter().take(report.top) {
        let shown = |cell: &String| if cell.is_empty() { NOT_KNOWN } else { cell }.to_string();
        let mut cells: Vec<String> = row.cells.iter().map(shown).collect();
        cells.push(seconds(row.ns));
        cells.push(percent(percent_of(row.ns, elapsed)));
        cells.push(row.samples.to_string());
        if exact.is_some() {
            cells.extend(exact_latches::of_profile(row.exact));
        }
        table.row(cells);
    }
    page.table(&table);
    if let Some(rest) = report.profile.get(report.top..).filter(|rest| !rest.is_empty()) {
        let ns = rest.iter().map(|row| row.ns).sum();
        page.line(&format!(
            "{}: {} s",
            counted(rest.len(), "other row"),
            seconds(ns)
        ));
    }
    page.paragraph(match exact {
        Some(_) => {
            "held s, held %, samples: by samples; held %: of the elapsed time. The rest: every use, counted. Both add up over locks held \
             at the same time."
        }
        None => {
            "held %: of the elapsed time. It adds up over locks held at the same time. Samples do not tell how often they were taken."
        }
    });
}

fn overview(report: &LatchReport, page: &mut Page) {
    page.heading("Locks, by the longer of the times held and waited");
    let mut table = Table::new(
        &["lock", "longest held"],
        &[
            "held s",
            "exclusive s",
            "in run queue s",
            "blocked s",
            "at a time",
            "waited s",
            "waiters",
        ],
    );
    let elapsed = report.period.elapsed_ns();
    for latch in report.latches.iter().take(report.top) {
        let of_holders = |text: String| match latch.has_known_holders() {
            true => text,
            false => "?".to_string(),
        };
        table.row(vec![
            latch.name.to_string(),
            longest(latch),
            of_holders(seconds(latch.held_ns)),
            of_holders(seconds(latch.exclusive_ns)),
            of_holders(seconds(latch.queued_ns)),
            of_holders(seconds(latch.blocked_ns)),
            of_holders(format!("{:.2}", latch.held_ns as f64 / elapsed.max(1) as f64)),
            seconds(latch.waited_ns),
            latch.waiters.to_string(),
        ]);
    }
    page.table(&table);
    let rest = report.latches.get(report.top..).unwrap_or_default();
    if !rest.is_empty() {
        page.line(&format!(
            "{}: held {} s, waited {} s",
            counted(rest.len(), "other lock"),
            seconds(rest.iter().map(|latch| latch.held_ns).sum()),
            seconds(rest.iter().map(|latch| latch.waited_ns).sum()),
        ));
    }
    page.paragraph(
        "in run queue, blocked: what the holder was doing meanwhile. at a time: locks of this name that were held, on average; a name \
         may stand for many.",
    );
}

/// Of several with the same name, the one held longest, with its share.
fn longest(latch: &Latch) -> String {
    match latch.single.as_slice() {
        [] => String::new(),
        [only] if only.lock.number.is_none() && only.lock.block.is_none() => String::new(),
        [first, ..] => format!(
            "{} ({} %; {} seen)",
            first.lock.label(),
            percent(percent_of(first.ns, latch.held_ns)),
            latch.single.len(),
        ),
    }
}

fn holdings(latch: &Latch, top: usize, page: &mut Page) {
    let waited = match latch.waiters {
        0 => "no session waited".to_string(),
        waiters => format!(
            "waited for {} s by {}",
            seconds(latch.waited_ns),
            counted(waiters, "session")
        ),
    };
    page.heading(&match latch.has_known_holders() {
        true => format!("{}  held {} s, {waited}", latch.name, seconds(latch.held_ns)),
        false => format!("{}  {waited}; who holds one is not known", latch.name),
    });
    if latch.holdings.is_empty() {
        return;
    }
    let mut table = Table::new(&["held by", "while", "in the code"], &["s", "%"]);
    let all = latch.held_ns;
    for holding in latch.holdings.iter().take(top) {
        table.row(vec![
            who(holding),
            what(holding),
            code(&holding.code),
            seconds(holding.ns),
            percent(percent_of(holding.ns, all)),
        ]);
    }
    let rest = latch.holdings.get(top..).unwrap_or_default();
    if !rest.is_empty() {
        let ns = rest.iter().map(|holding| holding.ns).sum();
        table.row(vec![
            counted(rest.len(), "other holder"),
            String::new(),
            String::new(),
            seconds(ns),
            percent(percent_of(ns, all)),
        ]);
    }
    page.table(&table);
    pages(latch, top, page);
}

/// Who waited for it.
fn waitings(latch: &Latch, top: usize, page: &mut Page) {
    if latch.waitings.is_empty() {
        return;
    }
    let mut table = Table::new(&["waited for by", "wanted in the code"], &["s", "%"]);
    let all = latch.waited_ns;
    for waiting in latch.waitings.iter().take(top) {
        let who = sessions(
            waiting.pids.iter().map(|pid| format!("pid {pid}")),
            &waiting.backend_type,
        );
        table.row(vec![
            of_statement(who, waiting.statement, waiting.text.as_deref()),
            code(&waiting.code),
            seconds(waiting.ns),
            percent(percent_of(waiting.ns, all)),
        ]);
    }
    let rest = latch.waitings.get(top..).unwrap_or_default();
    if !rest.is_empty() {
        let ns = rest.iter().map(|waiting| waiting.ns).sum();
        table.row(vec![
            counted(rest.len(), "other row"),
            String::new(),
            seconds(ns),
            percent(percent_of(ns, all)),
        ]);
    }
    page.table(&table);
}

/// The pages that such a lock was for.
fn pages(latch: &Latch, top: usize, page: &mut Page) {
    let of_pages = || latch.single.iter().filter(|single| single.lock.block.is_some());
    if of_pages().nth(1).is_none() {
        return;
    }
    let mut table = Table::new(&["page"], &["s", "%"]);
    let mut row = |label: String, ns: u128| {
        table.row(vec![label, seconds(ns), percent(percent_of(ns, latch.held_ns))]);
    };
    for single in of_pages().take(top) {
        row(single.lock.label(), single.ns);
    }
    let rest = of_pages().count().saturating_sub(top);
    if rest > 0 {
        row(
            counted(rest, "other page"),
            of_pages().skip(top).map(|single| single.ns).sum(),
        );
    }
    page.table(&table);
}

fn who(holding: &Holding) -> String {
    let pids = holding.pids.iter().map(|pid| format!("pid {pid}"));
    let sids = holding.sids.iter().map(|sid| format!("sid {sid}"));
    let who = sessions(pids.chain(sids), &holding.backend_type);
    match (&holding.sql_id, &holding.text) {
        (Some(sql_id), None) => format!("{who}: {sql_id}"),
        (_, text) => of_statement(who, holding.statement, text.as_deref()),
    }
}

/// The only one, or how many there are.
fn sessions(names: impl Iterator<Item = String>, backend_type: &str) -> String {
    let names: Vec<String> = names.collect();
    match names.as_slice() {
        [session] => format!("{session}, {backend_type}"),
        many => format!("{} ({backend_type})", counted(many.len(), "session")),
    }
}

/// What the holder did meanwhile, and the mode.
fn what(holding: &Holding) -> String {
    let how = match holding.mode {
        HoldMode::Shared => ", shared",
        HoldMode::Exclusive | HoldMode::NotKnown => "",
    };
    let does = match (holding.wait.kind(), holding.state.group()) {
        (WaitKind::Unknown, None) => "not known".to_string(),
        (WaitKind::Event, None) => holding.wait.to_string(),
        (WaitKind::Event | WaitKind::Unknown, Some(_)) => format!("{}, {}", holding.wait, holding.state),
        (WaitKind::None, Some(StateGroup::RunQueue)) => "waiting for a CPU".to_string(),
        (WaitKind::None, Some(StateGroup::Blocked)) => format!("in no wait event, {}", holding.state),
        (WaitKind::None, Some(StateGroup::OnCpu)) => format!("on a CPU ({})", holding.state),
        (WaitKind::None, None) => "in no wait event".to_string(),
    };
    does + how
}

fn code(places: &[CodeTime]) -> String {
    let Some(CodeTime { functions, .. }) = places.first() else {
        return String::new();
    };
    let names: Vec<&str> = functions.iter().map(AsRef::as_ref).collect();
    names.join(" > ")
}
