//! What all pages have in common: colours, functions, call paths.

use std::collections::HashMap;

use serde::Serialize;

use super::columns::Columns;
use super::paths::ROOT;
use crate::function::Function;
use crate::heat_map_svg::COLOURS;
use crate::palette::{BY_CLASS, BY_STATE, CPUS, NOT_KNOWN, OTHER, OTHERS};
use crate::preemption::PREEMPTED;

/// What those who write pages and the script in them agree on.
pub(super) const FORMAT: u32 = 3;

/// Colours of states, wait classes, what has none of its own, and heat maps.
#[derive(Serialize)]
pub(super) struct PaletteJson {
    states: Vec<(&'static str, &'static str)>,
    classes: Vec<(&'static str, &'static str)>,
    others: [&'static str; OTHERS.len()],
    other: &'static str,
    not_known: &'static str,
    cpus: &'static str,
    /// From few to many.
    heat: Vec<String>,
}

impl PaletteJson {
    pub(super) fn new() -> PaletteJson {
        PaletteJson {
            states: BY_STATE.map(|(state, colour)| (state.as_str(), colour)).to_vec(),
            classes: BY_CLASS.to_vec(),
            others: OTHERS,
            other: OTHER,
            not_known: NOT_KNOWN,
            cpus: CPUS,
            heat: COLOURS
                .map(|[red, green, blue]| format!("#{red:02x}{green:02x}{blue:02x}"))
                .to_vec(),
        }
    }
}

/// The functions of call paths.
#[derive(Serialize)]
pub(super) struct FunctionsJson<'a> {
    functions: Vec<&'a str>,
    /// Modules of these: places in `names_of_modules`.
    modules: Vec<u32>,
    names_of_modules: Vec<&'a str>,
    /// Functions of the kernel.
    kernel: Vec<u8>,
    /// Function that stands for how a session lost its CPU.
    preempted: Option<usize>,
}

impl<'a> FunctionsJson<'a> {
    pub(super) fn of(functions: &'a [Function]) -> FunctionsJson<'a> {
        let mut modules = Texts::default();
        FunctionsJson {
            functions: functions.iter().map(|function| function.name.as_str()).collect(),
            modules: functions
                .iter()
                .map(|function| modules.place(&function.module))
                .collect(),
            names_of_modules: modules.list,
            kernel: functions
                .iter()
                .map(|function| u8::from(function.kernel))
                .collect(),
            preempted: functions
                .iter()
                .position(|function| function.module.is_empty() && function.name == PREEMPTED),
        }
    }
}

/// Texts, each once.
#[derive(Default)]
pub(super) struct Texts<'a> {
    pub(super) list: Vec<&'a str>,
    places: HashMap<&'a str, u32>,
}

impl<'a> Texts<'a> {
    /// The place of a text.
    pub(super) fn place(&mut self, text: &'a str) -> u32 {
        *self.places.entry(text).or_insert_with(|| {
            self.list.push(text);
            (self.list.len() - 1) as u32
        })
    }
}

/// Callers and functions of the places in call paths.
pub(super) fn node_columns(nodes: &[(u32, u32)], columns: &mut Columns) {
    // How far before it the caller stands; 0 = it has none.
    let callers = nodes.iter().enumerate().map(|(at, (caller, _))| match *caller {
        ROOT => 0,
        caller => at as u32 - caller,
    });
    columns.long("nodes.caller", callers);
    columns.long("nodes.function", nodes.iter().map(|(_, function)| *function));
}
