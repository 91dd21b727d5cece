//! A comparison as JSON for the page, and the columns of its stacks.

use dbtime_model::State;
use serde::Serialize;

use super::DifferencePage;
use super::columns::{Column, Columns};
use super::parts::{FORMAT, FunctionsJson, PaletteJson, node_columns};
use crate::diff::{Change, Diff};
use crate::{json, text};

/// Everything except columns.
#[derive(Serialize)]
pub(super) struct Document<'a, D> {
    format: u32,
    /// What the page is about.
    page: &'static str,
    /// Version of the program that wrote the page.
    dbtime: &'static str,
    /// What `dbtime diff` says before its tables.
    lines: Vec<String>,
    /// The comparison, in its JSON form.
    diff: D,
    /// Where the differences are, in words, in the order of the comparison's.
    places: Places,
    /// Number of differences without room.
    left_out: usize,
    states: [&'static str; State::ALL.len()],
    waits: &'a [String],
    #[serde(flatten)]
    functions: FunctionsJson<'a>,
    code_modules: &'a [String],
    /// For each function its index in them, from 1; 0 = none.
    code_of_functions: &'a [usize],
    palette: PaletteJson,
    columns: &'a [Column],
}

#[derive(Serialize)]
struct Places {
    cells: Vec<String>,
    waits: Vec<String>,
    functions: Vec<String>,
    paths: Vec<String>,
    modules: Vec<String>,
    /// Cells of each statement.
    of_statements: Vec<Vec<String>>,
}

impl Places {
    fn of(diff: &Diff) -> Places {
        let words = |changes: &[Change]| -> Vec<String> {
            changes
                .iter()
                .map(|change| text::diff_place(&change.place))
                .collect()
        };
        let statements = diff.statements.iter().flat_map(|of| &of.changes);
        Places {
            cells: words(&diff.cells),
            waits: words(&diff.waits),
            functions: words(&diff.functions),
            paths: words(&diff.paths),
            modules: words(&diff.modules),
            of_statements: statements.map(|statement| words(&statement.cells)).collect(),
        }
    }
}

impl<'a> Document<'a, ()> {
    pub(super) fn new(page: &'a DifferencePage, columns: &'a [Column]) -> Document<'a, impl Serialize> {
        Document {
            format: FORMAT,
            page: "difference",
            dbtime: env!("CARGO_PKG_VERSION"),
            lines: text::diff_lines(&page.diff),
            diff: json::diff_document(&page.diff),
            places: Places::of(&page.diff),
            left_out: page.left_out,
            states: State::ALL.map(State::as_str),
            waits: &page.waits,
            functions: FunctionsJson::of(&page.functions),
            code_modules: &page.modules,
            code_of_functions: &page.modules_of_functions,
            palette: PaletteJson::new(),
            columns,
        }
    }
}

/// Stacks and call paths.
pub(super) fn columns(page: &DifferencePage) -> Columns {
    let mut columns = Columns::default();
    let places = || page.stacks.keys();
    columns.long("stacks.wait", places().map(|(wait, ..)| *wait));
    columns.short("stacks.state", places().map(|(_, state, _)| *state));
    columns.long("stacks.leaf", places().map(|(.., leaf)| *leaf));
    for (side, name) in ["good", "bad"].into_iter().enumerate() {
        // 64-bit numbers in two halves.
        let ns = || page.stacks.values().map(move |ns| ns[side]);
        columns.long(&format!("stacks.{name}_low"), ns().map(|ns| ns as u32));
        columns.long(&format!("stacks.{name}_high"), ns().map(|ns| (ns >> 32) as u32));
    }
    node_columns(&page.nodes, &page.functions, &mut columns);
    columns
}
