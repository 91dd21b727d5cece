//! The predicted effect of a change.

use super::page::{Page, Table};
use super::{header, quality};
use crate::what_if::{LoadFigures, Prediction, WhatIf, WhatIfReport};

pub(super) fn render(report: &WhatIfReport, page: &mut Page) {
    header::recording(&report.meta, report.period, &report.filter, page);
    let changes: Vec<String> = report.changes.iter().map(WhatIf::to_string).collect();
    let asked = changes.join(", ");
    match &report.answer {
        Ok(prediction) => said(&asked, prediction, page),
        Err(why) => page.heading(&format!(
            "What if {asked}? Cannot say: {}.",
            why.trim_end_matches('.')
        )),
    }
    quality::problems(&report.problems, page);
}

fn said(asked: &str, of: &Prediction, page: &mut Page) {
    page.heading(&format!("What if {asked}?"));
    let mut table = Table::new(&["closed load"], &["now", "predicted", "from", "to"]);
    let mut row = |name: &str, digits: usize, value: fn(&LoadFigures) -> f64| {
        let mut cells = vec![name.to_string()];
        let figures = [&of.now, &of.predicted, &of.low, &of.high];
        cells.extend(figures.map(|figures| format!("{:.digits$}", value(figures))));
        table.row(cells);
    };
    row("transactions per second", 1, |figures| figures.transactions_per_s);
    row("DB time per transaction, ms", 3, |figures| {
        figures.db_time_per_transaction_s * 1e3
    });
    row("average active sessions", 2, |figures| figures.aas);
    page.table(&table);
    page.paragraph(&format!(
        "{:.0} transactions of {} clients in {:.0} s, replayed. Without changes, the replay's throughput is \
         {:+.1} % off what was recorded. from, to: the range of nine in ten resamples of the recording, for \
         even and for random durations, widened by that and by what is stated below.",
        of.transactions,
        of.clients,
        of.seconds,
        100.0 * of.miss,
    ));
    page.heading("Assumptions");
    for sentence in &of.assumes {
        page.paragraph(&format!("- {sentence}"));
    }
}
