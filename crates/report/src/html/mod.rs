//! A recording as one page: its time in cells fine enough for the reader to select from, and what the report says about it as a
//! whole.
//!
//! Time is stored twice: without stacks in short windows, and with stacks in longer ones if necessary. Both hold all of it. A cell
//! has its section of the ledger and the name of its wait: the script of the page only adds up.

mod causes;
mod cells;
mod columns;
mod difference;
mod difference_document;
mod dive_difference;
mod dive_document;
mod dive_page;
mod document;
mod latencies;
mod latency_cells;
mod locks;
mod parts;
mod paths;
mod write;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use dbtime_model::{Fidelity, Session, SessionId, StackId, State, Wait};

pub use difference::{DifferencePage, difference};
pub use dive_difference::{DiveDifferencePage, dive_difference};
pub use dive_page::{DivePage, dive_page};
pub use write::{write, write_difference, write_dive, write_dive_difference};

use crate::dimensions::Dimensions;
use crate::filter::{Filter, SECOND_US};
use crate::function::{Function, FunctionId, Functions};
use crate::ledger::{Rest, Section};
use crate::load::Source;
use crate::numbered::Numbered;
use crate::report::{Options, Report, ReportError, load, report};
use crate::scan::{Activity, Period, scan};
use crate::stack_views::function_keys;
use crate::timeline::{Mark, TimelineOptions, timeline};
use causes::Causes;
use cells::{Amount, Cell, Cells, LEFT_OUT, POOLED, SAMPLED};
use latencies::Latencies;
use locks::Locks;
use parts::Modules;
use paths::Paths;

/// Most cells without stacks, and most cells with stacks.
const MOST_CELLS: usize = 400_000;
/// Most nodes of call paths.
const MOST_NODES: usize = 250_000;
/// Most bytes of the names of functions.
const MOST_NAMES: usize = 8 << 20;
/// Most bytes of the texts of statements.
const MOST_TEXT: usize = 2 << 20;
/// Most bytes of one of them.
const LONGEST_TEXT: usize = 4_000;
/// How many kinds of [`Rest`] there are.
const RESTS: u8 = 3;

/// Everything on a page.
#[derive(Debug)]
pub struct HtmlPage {
    /// The report.
    report: Report,
    /// Times without a recording; or why there is no time line.
    over_time: Result<OverTime, String>,
    /// Those that have cells.
    sessions: Vec<Arc<Session>>,
    /// For each of them the first one that represents it in stacks; empty when each represents itself.
    alike: Vec<u32>,
    statements: Vec<Statement>,
    waits: Vec<Named>,
    /// Caller and function of each node of the call paths.
    nodes: Vec<(u32, u32)>,
    functions: Vec<Function>,
    modules: Modules,
    times: Table,
    stacks: Table,
    causes: Causes,
    locks: Locks,
    latencies: Latencies,
    /// DB time of stacks that are left out.
    left_out_ns: u128,
}

/// A statement of a page.
#[derive(Debug)]
struct Statement {
    id: u64,
    sql_id: Option<String>,
    text: Option<String>,
}

/// A wait as in the ledger.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Named {
    wait: Wait,
    /// See [`Wait::without_cpu`]: the name of the idle wait finds it, too.
    is_without_cpu: bool,
}

impl Named {
    /// The event as it was recorded.
    fn recorded_event(&self) -> &str {
        match self.is_without_cpu {
            true => self
                .wait
                .event
                .strip_suffix(Wait::NO_CPU)
                .unwrap_or(&self.wait.event),
            false => &self.wait.event,
        }
    }
}

/// Cells in order, and the length of their windows. [`Cell::stack`] is the leaf of the call path.
#[derive(Debug)]
struct Table {
    width_s: i64,
    cells: Vec<(Cell, Amount)>,
}

impl HtmlPage {
    /// Whether no time of any session was recorded.
    pub fn is_empty(&self) -> bool {
        self.times.cells.iter().all(|(_, amount)| amount.ns == 0)
    }

    /// What could not be read.
    pub fn problems(&self) -> &[String] {
        &self.report.quality.problems
    }
}

/// Collects what the page of a recording needs.
///
/// # Errors
/// The filter names what is not in the recording.
pub fn html(source: &Source, filter: &Filter) -> Result<HtmlPage, ReportError> {
    let options = Options {
        filter: filter.clone(),
        ..Options::default()
    };
    let mut report = report(source, &options)?;
    let mut dimensions = load(source, filter)?;
    let mut packer = Packer::new(source.meta().collector.resolution_s);
    scan(source, &mut dimensions, filter, |activity| packer.add(activity));
    let mut waited = HashSet::new();
    let causes = causes::pack(source, &mut dimensions, filter, &mut packer, &mut waited);
    let (locks, problems) = locks::pack(source, &mut dimensions, filter, &waited, &mut packer);
    report
        .quality
        .problems
        .extend(problems.into_iter().map(|problem| problem.0));
    let latencies = latencies::pack(source, &mut dimensions, filter, &mut packer);

    let mut functions = Functions::default();
    let paths: Vec<Vec<FunctionId>> = packer
        .paths
        .into_values()
        .into_iter()
        .map(|path| functions.path(path.user, path.kernel, path.state, &dimensions))
        .collect();
    let mut tree = Paths::new(MOST_NODES, MOST_NAMES);
    let alike = match packer.stacks.are_sessions_merged() {
        true => packer.alike,
        false => Vec::new(),
    };
    let stacks = Table {
        width_s: packer.stacks.width_s(),
        cells: at_leaves(packer.stacks.into_sorted(), |stack| {
            match paths.get(stack as usize) {
                Some(path) => tree.leaf(&function_keys(path, &functions), |key| key.name(&functions)),
                None => tree.left_out(),
            }
        }),
    };
    let left_out_ns = stacks
        .cells
        .iter()
        .filter(|(cell, _)| tree.is_left_out(cell.stack) && cell.place / RESTS == Section::DbTime as u8)
        .map(|(_, amount)| u128::from(amount.ns))
        .sum();
    let (nodes, functions) = tree.into_parts();
    let times = Table {
        width_s: packer.times.width_s(),
        cells: packer.times.into_sorted(),
    };
    let statements = statements(&packer.statements.into_values(), &times, &dimensions);
    let sessions = packer
        .sessions
        .into_values()
        .into_iter()
        .map(|id| dimensions.session(id).clone())
        .collect();
    Ok(HtmlPage {
        over_time: over_time(source, filter),
        report,
        sessions,
        alike,
        statements,
        waits: packer.waits.into_values(),
        modules: Modules::of(&nodes, &functions),
        nodes,
        functions,
        times,
        stacks,
        causes,
        locks,
        latencies,
        left_out_ns,
    })
}

/// What a time line shows besides the sessions.
#[derive(Debug)]
struct OverTime {
    /// Times without a recording.
    gaps: Vec<Period>,
    marks: Vec<Mark>,
}

/// The same, or why there can be no time line.
fn over_time(source: &Source, filter: &Filter) -> Result<OverTime, String> {
    let options = TimelineOptions {
        // The gaps are those of the selected sessions and seconds.
        filter: filter.clone(),
        ..TimelineOptions::default()
    };
    match timeline(source, &options) {
        Ok(timeline) => Ok(OverTime {
            gaps: timeline.gaps,
            marks: timeline.marks,
        }),
        Err(e) => Err(e.to_string()),
    }
}

/// Cells with the leaves of call paths in place of stacks. Those with the most time get room first.
fn at_leaves(cells: Vec<(Cell, Amount)>, mut leaf_of: impl FnMut(u32) -> u32) -> Vec<(Cell, Amount)> {
    let mut by_stack: HashMap<u32, u128> = HashMap::new();
    for (cell, amount) in &cells {
        *by_stack.entry(cell.stack).or_default() += u128::from(amount.ns);
    }
    let mut stacks: Vec<(u32, u128)> = by_stack.into_iter().collect();
    stacks.sort_unstable_by_key(|(stack, ns)| (Reverse(*ns), *stack));
    let leaves: HashMap<u32, u32> = stacks
        .into_iter()
        .map(|(stack, _)| (stack, leaf_of(stack)))
        .collect();
    // Different stacks may have the same names.
    let mut placed: BTreeMap<Cell, Amount> = BTreeMap::new();
    for (cell, amount) in cells {
        let cell = Cell {
            stack: leaves[&cell.stack],
            ..cell
        };
        placed.entry(cell).or_default().add(amount);
    }
    placed.into_iter().collect()
}

/// Statements with their texts, as far as there is room: those with the most time first.
fn statements(ids: &[u64], times: &Table, dimensions: &Dimensions) -> Vec<Statement> {
    let mut ns = vec![0u128; ids.len()];
    for (cell, amount) in &times.cells {
        ns[cell.statement as usize] += u128::from(amount.ns);
    }
    let mut by_time: Vec<usize> = (0..ids.len()).collect();
    by_time.sort_by_key(|at| Reverse(ns[*at]));
    let mut texts: Vec<Option<String>> = vec![None; ids.len()];
    let mut room = MOST_TEXT;
    for at in by_time {
        let text = dimensions.statement(ids[at]).map(|text| cut(text, LONGEST_TEXT));
        if let Some(text) = text.filter(|text| text.len() <= room) {
            room -= text.len();
            texts[at] = Some(text);
        }
    }
    ids.iter()
        .zip(texts)
        .map(|(id, text)| Statement {
            id: *id,
            sql_id: dimensions.sql_id(*id).map(str::to_string),
            text,
        })
        .collect()
}

/// A text of at most this many bytes, with a mark if it was cut.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_string();
    }
    let end = (0..=most)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    format!("{}…", &text[..end])
}

/// Converts rows to cells.
struct Packer {
    sessions: Numbered<SessionId>,
    /// For each session the first one of the same kind, user, database and application.
    alike: Vec<u32>,
    kinds: HashMap<[String; 4], u32>,
    statements: Numbered<u64>,
    waits: Numbered<Named>,
    paths: Numbered<Path>,
    times: Cells,
    stacks: Cells,
}

/// What makes up a call path.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Path {
    user: StackId,
    kernel: StackId,
    /// [`State::Runnable`] or another: frames depend on nothing else.
    state: State,
}

impl Packer {
    fn new(resolution_s: u32) -> Packer {
        let mut statements = Numbered::default();
        // The first one is none.
        statements.number(0);
        Packer {
            sessions: Numbered::default(),
            alike: Vec::new(),
            kinds: HashMap::new(),
            statements,
            waits: Numbered::default(),
            paths: Numbered::default(),
            times: Cells::new(MOST_CELLS, resolution_s),
            stacks: Cells::new(MOST_CELLS, resolution_s),
        }
    }

    fn add(&mut self, activity: &Activity<'_>) {
        let Activity {
            row,
            wait,
            section,
            not_sampled,
            ..
        } = *activity;
        if row.ns == 0 && row.samples == 0 {
            return;
        }
        let sampled = match row.fidelity {
            Fidelity::Sampled if !not_sampled => SAMPLED,
            _ => 0,
        };
        let cell = Cell {
            window_s: row.time.div_euclid(SECOND_US),
            session: self.session(activity.session),
            statement: self.statements.number(row.statement),
            wait: self.waits.number(Named {
                wait: wait.clone(),
                is_without_cpu: section == Section::DbTime && wait.idle,
            }),
            stack: LEFT_OUT,
            place: section as u8 * RESTS + Rest::of(activity) as u8,
            state: row.state as u8,
            session_state: row.session_state as u8,
            flags: sampled | if row.pooled { POOLED } else { 0 },
        };
        let amount = Amount {
            ns: row.ns,
            samples: row.samples,
        };
        self.times.add(cell, amount);
        let path = Path {
            user: row.user_stack,
            kernel: row.kernel_stack,
            state: match row.state {
                State::Runnable => State::Runnable,
                _ => State::Unknown,
            },
        };
        let stack = self.paths.number(path);
        self.stacks.add(Cell { stack, ..cell }, amount);
    }

    /// The number of a recorded wait.
    fn wait(&mut self, wait: Wait) -> u32 {
        self.waits.number(Named {
            wait,
            is_without_cpu: false,
        })
    }

    /// The number of a session.
    fn session(&mut self, session: &Session) -> u32 {
        let number = self.sessions.number(session.id);
        if number as usize == self.alike.len() {
            let kind = [
                session.backend_type.0.as_str(),
                &session.user,
                &session.database,
                &session.application,
            ];
            let first = *self.kinds.entry(kind.map(str::to_string)).or_insert(number);
            self.alike.push(first);
            self.stacks.next_session(first);
        }
        number
    }
}
