//! A dive as JSON for the page, and the columns of its tree and its functions.

use serde::Serialize;

use super::columns::{Column, Columns};
use super::dive_page::DivePage;
use super::parts::{FORMAT, FunctionsJson};
use crate::dive::{CallSummary, Durations, LayerPart, STATES, SampledFunction, SampledInterval};
use crate::kernel_layers::is_call_root;
use crate::text;

/// Everything except columns.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    format: u32,
    /// What the page is about.
    page: &'static str,
    /// Version of the program that wrote the page.
    dbtime: &'static str,
    /// What was traced, how, and what was noted.
    source_lines: Vec<String>,
    /// How many calls, and what is exact.
    exact_lines: Vec<String>,
    /// Interrupts and preemption.
    foreign_lines: Vec<String>,
    problems: &'a [String],
    /// See [`DivePage::calls_ns`].
    calls_ns: u128,
    calls: &'a [CallSummary],
    layers: &'a [LayerPart],
    /// States, and their descriptions.
    states: [(&'static str, &'static str); STATES.len()],
    samples: Option<Samples<'a>>,
    /// Roots of the tree that are not calls: interrupts and the like.
    no_calls: Vec<usize>,
    left_out_paths: usize,
    left_out_functions: usize,
    left_out_others: usize,
    #[serde(flatten)]
    names: FunctionsJson<'a>,
    columns: &'a [Column],
}

/// Where a timer found the calls.
#[derive(Serialize)]
struct Samples<'a> {
    line: String,
    own: u128,
    functions: &'a [SampledFunction],
    intervals: &'a [SampledInterval],
}

impl<'a> Document<'a> {
    pub(super) fn new(page: &'a DivePage, columns: &'a [Column]) -> Document<'a> {
        let report = &page.report;
        let roots = page
            .paths
            .iter()
            .enumerate()
            .filter(|(_, (_, path))| path.depth == 0);
        Document {
            format: FORMAT,
            page: "dive",
            dbtime: env!("CARGO_PKG_VERSION"),
            source_lines: text::dive_source_lines(report),
            exact_lines: text::dive_exact_lines(report),
            foreign_lines: text::dive_foreign_lines(report),
            problems: &report.problems,
            calls_ns: page.calls_ns,
            calls: &report.calls,
            layers: &report.layers,
            states: STATES.map(|state| (state.as_str(), text::dive_state(state))),
            samples: report.samples.as_ref().map(|samples| Samples {
                line: text::dive_samples_line(samples, &report.trace),
                own: samples.own,
                functions: &samples.functions,
                intervals: &samples.intervals,
            }),
            no_calls: roots
                .filter(|(_, (_, path))| !is_call_root(&path.function))
                .map(|(at, _)| at)
                .collect(),
            left_out_paths: page.left_out.paths,
            left_out_functions: page.left_out.functions,
            left_out_others: page.left_out.others,
            names: FunctionsJson::of(&page.names),
            columns,
        }
    }
}

/// The tree, callers before callees, and the functions.
pub(super) fn columns(page: &DivePage) -> Columns {
    let mut columns = Columns::default();
    let paths = &page.paths;
    columns.long("paths.name", paths.iter().map(|(name, _)| *name));
    columns.long("paths.depth", paths.iter().map(|(_, path)| path.depth as u32));
    wide(&mut columns, "paths.hidden", || {
        paths.iter().map(|(_, path)| path.hidden_ns)
    });
    numbers(&mut columns, "paths", || {
        paths.iter().map(|(_, path)| Numbers {
            total_ns: path.total_ns,
            own_ns: path.own_ns,
            off_ns: path.off_ns,
            durations: &path.durations,
        })
    });
    let functions = &page.functions;
    columns.long("functions.name", functions.iter().map(|(name, _)| *name));
    numbers(&mut columns, "functions", || {
        functions.iter().map(|(_, function)| Numbers {
            total_ns: function.total_ns,
            own_ns: function.own_ns,
            off_ns: function.off_ns,
            durations: &function.durations,
        })
    });
    columns
}

/// The numbers of a row.
struct Numbers<'a> {
    total_ns: u128,
    own_ns: u128,
    off_ns: u128,
    durations: &'a Durations,
}

/// What was never called from start to end (a function on a stack) has no mean and no shortest: these are 0.
fn numbers<'a, Rows: Iterator<Item = Numbers<'a>>>(columns: &mut Columns, of: &str, rows: impl Fn() -> Rows) {
    let mut column = |name: &str, number: &dyn Fn(&Numbers<'_>) -> u128| {
        wide(columns, &format!("{of}.{name}"), || {
            rows().map(|row| number(&row))
        });
    };
    column("calls", &|row| row.durations.histogram.count());
    column("total", &|row| row.total_ns);
    column("own", &|row| row.own_ns);
    column("off", &|row| row.off_ns);
    column("min", &|row| row.durations.min_ns.unwrap_or(0).into());
    column("avg", &|row| row.durations.histogram.mean_ns().unwrap_or(0));
    column("p99", &|row| {
        row.durations.histogram.quantile(0.99).unwrap_or(0).into()
    });
    column("max", &|row| row.durations.histogram.max_ns().into());
}

/// A column of 64-bit numbers.
fn wide<Rows: Iterator<Item = u128>>(columns: &mut Columns, name: &str, rows: impl Fn() -> Rows) {
    let bounded = || rows().map(|number| u64::try_from(number).unwrap_or(u64::MAX));
    columns.long(&format!("{name}_low"), bounded().map(|number| number as u32));
    columns.long(
        &format!("{name}_high"),
        bounded().map(|number| (number >> 32) as u32),
    );
}
