//! What all pages have in common: colours, functions, call paths.

use std::collections::HashMap;
use std::iter;

use serde::Serialize;

use super::columns::Columns;
use super::paths::ROOT;
use crate::code_module::{module_from_leaf, module_of};
use crate::function::Function;
use crate::heat_map_svg::COLOURS;
use crate::numbered::Numbered;
use crate::palette::{BY_CLASS, BY_STATE, CPUS, NOT_KNOWN, OTHER, OTHERS};
use crate::preemption::PREEMPTED;
use crate::server_start::{MOST_FRAMES, start_of_server};

/// Version of the format that pages and the script in them agree on.
pub(super) const FORMAT: u32 = 4;

/// Colours of states, wait classes, everything else, and heat maps.
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
    /// Their modules: indices into `names_of_modules`.
    modules: Vec<u32>,
    names_of_modules: Vec<&'a str>,
    /// Whether they are the kernel's.
    kernel: Vec<u8>,
    /// The function that represents how a session lost its CPU.
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
    /// The index of a text.
    pub(super) fn place(&mut self, text: &'a str) -> u32 {
        *self.places.entry(text).or_insert_with(|| {
            self.list.push(text);
            (self.list.len() - 1) as u32
        })
    }
}

/// Callers and functions of the nodes of call paths, and where paths begin without the start of the server.
pub(super) fn node_columns(nodes: &[(u32, u32)], functions: &[Function], columns: &mut Columns) {
    // Distance to the caller before it; 0 = it has none.
    let callers = nodes.iter().enumerate().map(|(at, (caller, _))| match *caller {
        ROOT => 0,
        caller => at as u32 - caller,
    });
    columns.long("nodes.caller", callers);
    columns.long("nodes.function", nodes.iter().map(|(_, function)| *function));
    let begins = (0..nodes.len()).map(|node| begins_without_start(node as u32, nodes, functions).into());
    columns.short("nodes.begins", begins);
}

/// Modules of the code: of functions, and those that time at each node of the call paths belongs to.
#[derive(Debug)]
pub(super) struct Modules {
    pub(super) names: Vec<String>,
    /// For each function its index in them, from 1; 0 = it serves all of them, or is not known.
    pub(super) of_functions: Vec<usize>,
    /// For each node of the call paths, on a CPU and off it.
    of_nodes: [Vec<u32>; 2],
}

impl Modules {
    pub(super) fn of(nodes: &[(u32, u32)], functions: &[Function]) -> Modules {
        let (mut names, of_functions) = modules_of_functions(functions);
        let mut number = |name: String| names.number(name);
        let of_nodes = [true, false].map(|on_cpu| {
            (0..nodes.len() as u32)
                .map(|node| number(module_from_leaf(from_leaf(node, nodes, functions), on_cpu)))
                .collect()
        });
        Modules {
            names: names.into_values(),
            of_functions,
            of_nodes,
        }
    }

    /// Modules of the nodes of call paths.
    pub(super) fn columns(&self, columns: &mut Columns) {
        for (name, of_nodes) in ["on_cpu", "off_cpu"].into_iter().zip(&self.of_nodes) {
            columns.long(&format!("nodes.{name}"), of_nodes.iter().copied());
        }
    }
}

/// Modules by number, and for each function its index in them, from 1; 0 = it serves all of them, or is not known.
pub(super) fn modules_of_functions(functions: &[Function]) -> (Numbered<String>, Vec<usize>) {
    let mut names = Numbered::default();
    let of_functions = functions
        .iter()
        .map(|function| module_of(function).map_or(0, |name| names.number(name) as usize + 1))
        .collect();
    (names, of_functions)
}

/// The functions of a path, leaf first.
fn from_leaf<'a>(
    leaf: u32,
    nodes: &'a [(u32, u32)],
    functions: &'a [Function],
) -> impl Iterator<Item = &'a Function> {
    let node = |at: u32| nodes.get(at as usize);
    iter::successors(node(leaf), move |(caller, _)| node(*caller))
        .map(|(_, function)| &functions[*function as usize])
}

/// Whether paths through this node begin at it when the start of the server is left out.
fn begins_without_start(node: u32, nodes: &[(u32, u32)], functions: &[Function]) -> bool {
    // Nothing begins deeper than the start can be.
    let mut path: Vec<&Function> = from_leaf(node, nodes, functions).take(MOST_FRAMES + 2).collect();
    if path.len() > MOST_FRAMES + 1 {
        return false;
    }
    path.reverse();
    let is_of_user = |function: &&&Function| !function.kernel && !function.is_preemption();
    let user: Vec<&str> = path
        .iter()
        .take_while(is_of_user)
        .map(|function| function.name.as_str())
        .collect();
    let start = start_of_server(&user);
    start > 0 && start + 1 == path.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_behind_the_start_of_the_server() {
        let function = |name: &str, kernel| Function {
            name: name.to_string(),
            module: "m".to_string(),
            kernel,
        };
        let functions = [
            function("main", false),
            function("PostmasterMain", false),
            function("ServerLoop", false),
            function("do_syscall_64", true),
        ];
        // ServerLoop calls itself, and is also called by main; so is the function of the kernel.
        let nodes = [(ROOT, 0), (0, 1), (1, 2), (2, 2), (1, 3), (0, 2), (0, 3)];
        let begin: Vec<u32> = (0..nodes.len() as u32)
            .filter(|node| begins_without_start(*node, &nodes, &functions))
            .collect();
        // The first process itself may be in PostmasterMain, and from there in the kernel: then that is where its path begins.
        assert_eq!(begin, [1, 2]);
    }
}
