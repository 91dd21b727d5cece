//! Waits and system calls of the same session, side by side.

use super::page::{Page, Table, percent};
use crate::number::{counted, duration, milliseconds, seconds};
use crate::waits_in_calls::{Alignment, CallTime, Matrix, Pair, Unnamed, WaitCalls, WaitsInCalls};

/// System calls with a column of their own.
const COLUMNS: usize = 4;
/// System calls outside of waits that are shown.
const OUTSIDE: usize = 15;
/// System calls that are named for each event.
const NAMED: usize = 4;

pub(super) fn render(answer: &WaitsInCalls, page: &mut Page) {
    for pair in &answer.pairs {
        one(pair, page);
    }
    let list = |pids: &[u32]| -> String {
        let names: Vec<String> = pids
            .iter()
            .map(|pid| match pid {
                0 => "one that is not named".to_string(),
                pid => pid.to_string(),
            })
            .collect();
        names.join(", ")
    };
    if !answer.without_calls.is_empty() {
        page.heading(&format!(
            "No system calls were traced for these processes of the SQL trace: {}.",
            list(&answer.without_calls)
        ));
    }
    if !answer.without_waits.is_empty() {
        page.heading(&format!(
            "No waits were traced for these processes of strace: {}.",
            list(&answer.without_waits)
        ));
    }
}

fn one(pair: &Pair, page: &mut Page) {
    let matrix = &pair.matrix;
    page.heading(&format!(
        "Waits beside system calls, process {}: {} s that both traces cover (milliseconds, exact)",
        pair.pid,
        seconds(pair.elapsed_ns.into())
    ));
    if let Some(unnamed) = pair.unnamed {
        page.paragraph(match unnamed {
            Unnamed::Waits => {
                "The SQL trace does not name its process: it is taken to be the only one that strace traced."
            }
            Unnamed::Calls => {
                "The strace file does not name its process: it is taken to be the only one of the SQL trace."
            }
            Unnamed::Both => "Neither file names its process: both are taken to be of the same one.",
        });
    }
    page.paragraph(&clocks(&pair.alignment));
    if pair.waits_left_out + pair.calls_left_out > 0 {
        page.paragraph(&format!(
            "Left out, because they are not wholly within that time: {}, {}.",
            counted(pair.waits_left_out, "wait"),
            counted(pair.calls_left_out, "system call")
        ));
    }
    page.line("");
    page.table(&times(matrix));
    page.heading("System calls made inside of waits (a call is inside the wait in which its middle lies)");
    page.table(&inside(matrix));
    page.heading(&format!(
        "Outside of all waits: {} ms, of which {} ms in no system call (CPU, run queue, the tracer's stops)",
        milliseconds(matrix.outside.ns.into()),
        milliseconds(matrix.outside.in_none_ns.into())
    ));
    page.table(&outside(&matrix.outside));
}

fn clocks(alignment: &Alignment) -> String {
    let Alignment {
        shift_ns,
        may_be_off_ns,
        matches,
        candidates,
        zone_quarters,
    } = alignment;
    let zone = match zone_quarters {
        0 => String::new(),
        quarters => format!(
            " Of that, {} h are a time zone offset that the SQL trace does not state.",
            *quarters as f64 / 4.0
        ),
    };
    match may_be_off_ns {
        Some(off) => {
            let direction = if *shift_ns < 0 { "earlier" } else { "later" };
            format!(
                "Clocks: waits were moved {} {direction}; that may be off by {}. Found by {matches} of {candidates} waits that \
                 consist of one system call and agree on it.{zone}",
                duration(shift_ns.unsigned_abs().into()),
                duration((*off).into())
            )
        }
        None => format!(
            "Clocks: taken from the time of day in both files; how far they are apart is not known \
             ({matches} of {candidates} waits consist of one system call and agree: too few). What follows \
             is right only if it is small.{zone}"
        ),
    }
}

fn times(matrix: &Matrix) -> Table {
    let columns: Vec<&str> = matrix
        .calls
        .iter()
        .take(COLUMNS)
        .map(|call| call.name.as_str())
        .collect();
    let mut heads = vec!["waits", "total"];
    heads.extend(&columns);
    heads.extend(["other calls", "in none", "% none"]);
    let mut table = Table::new(&["wait event"], &heads);
    let row = |name: &str, of: &WaitCalls| {
        let mut cells = vec![
            name.to_string(),
            if of.count == 0 {
                String::new()
            } else {
                of.count.to_string()
            },
            cell(of.ns),
        ];
        cells.extend(columns.iter().map(|call| cell(of.in_call_ns(call))));
        cells.push(cell(of.in_other_calls_ns(&columns)));
        cells.push(cell(of.in_none_ns));
        cells.push(percent(of.in_none_percent()));
        cells
    };
    for wait in &matrix.waits {
        table.row(row(&wait.event, wait));
    }
    table.rule();
    table.row(row("outside of all waits", &matrix.outside));
    table
}

fn inside(matrix: &Matrix) -> Table {
    let mut table = Table::new(
        &["wait event", "calls inside"],
        &["waits", "exactly one", "none", "more"],
    );
    for wait in &matrix.waits {
        table.row(vec![
            wait.event.clone(),
            named(&wait.calls),
            wait.count.to_string(),
            wait.with_one_call.to_string(),
            wait.without_call.to_string(),
            wait.with_more_calls.to_string(),
        ]);
    }
    table
}

/// `read 7, semop 1`: those inside; calls that merely overlap a wait are not named.
fn named(calls: &[CallTime]) -> String {
    let inside: Vec<String> = calls
        .iter()
        .filter(|call| call.count > 0)
        .map(|call| format!("{} {}", call.name, call.count))
        .collect();
    match inside.len() {
        0..=NAMED => inside.join(", "),
        _ => format!("{}, ...", inside[..NAMED].join(", ")),
    }
}

fn outside(of: &WaitCalls) -> Table {
    let mut table = Table::new(&["system call"], &["calls", "ms"]);
    for call in of.calls.iter().take(OUTSIDE) {
        table.row(vec![call.name.clone(), call.count.to_string(), cell(call.ns)]);
    }
    if let Some(others) = of.others_after(OUTSIDE) {
        table.row(vec![others.name, others.count.to_string(), cell(others.ns)]);
    }
    table
}

fn cell(ns: u64) -> String {
    if ns == 0 {
        "-".to_string()
    } else {
        milliseconds(ns.into())
    }
}
