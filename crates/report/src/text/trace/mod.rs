//! What an SQL trace says, section by section.

mod breakdown;
mod events;
mod io;
mod outcomes;
mod places;
mod profiles;
mod statements;

use super::page::Page;
use crate::number::microseconds;
use crate::report::Report;
use crate::trace::Trace;

/// Longer SQL texts are cut before layout: a table shows a few lines of them.
const SQL_CHARACTERS: usize = 400;

pub(super) fn render(report: &Report, page: &mut Page) {
    let Some(trace) = &report.trace else { return };
    head(trace, report, page);
    breakdown::render(trace, page);
    outcomes::render(trace, page);
    events::render(trace, page);
    statements::render(trace, page);
    profiles::render(trace, page);
    places::render(trace, page);
    io::render(trace, page);
}

/// The mean of so many microseconds.
fn mean_us(us: u128, count: u128) -> String {
    microseconds(us.saturating_mul(1_000) / count.max(1))
}

/// How long the trace is, and what of it was not understood.
fn head(trace: &Trace, report: &Report, page: &mut Page) {
    let files = match trace.files.as_slice() {
        [file] => file.file.path.clone(),
        files => format!("{} files", files.len()),
    };
    match &trace.facts {
        Some(facts) => {
            let truncated = match facts.cut_lines {
                0 => String::new(),
                lines => format!(", {lines} truncated"),
            };
            page.heading(&format!(
                "SQL trace: {files}, {} lines, {} of them not understood{truncated}",
                facts.lines, facts.unknown_lines
            ));
            if facts.size_limited > 0 {
                page.paragraph("The database stopped writing at its size limit: what came after is missing.");
            }
        }
        None => {
            page.heading(&format!(
                "SQL trace: part of {files}. The interval view, gaps and calls in flight cover whole files \
                 and are left out. Plans and who called whom cover the whole trace."
            ));
            let filter = &report.filter;
            if !(filter.waits.is_empty() && filter.states.is_empty() && filter.statements.is_empty()) {
                page.paragraph(
                    "--wait, --state and --query filter the ledger and the stacks. The tables below cover \
                     all waits and statements of the selected time and sessions.",
                );
            }
            if filter.is_of_a_period() {
                page.paragraph(
                    "A call or wait is counted in the second in which it ended, with all of its time; in \
                     the table of statements, a wait is counted with the next call of its cursor.",
                );
            }
        }
    }
}

/// The beginning of an SQL text in one line.
fn sql_line(text: Option<&str>) -> String {
    let Some(text) = text else {
        return "[text not known]".to_string();
    };
    let mut line = String::new();
    for word in text.split_whitespace() {
        if line.len() + word.len() > SQL_CHARACTERS {
            let room = SQL_CHARACTERS.saturating_sub(line.len());
            line.push(' ');
            line.extend(word.chars().take(room));
            line += " ...";
            return line.trim_start().to_string();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    line
}
