//! Stacks read as text: counted stacks, a call tree, functions, modules. One pass over the rows of DB time.

mod call_tree;
mod counted;
mod functions;
mod modules;

use std::collections::HashMap;

use dbtime_model::recording::Meta;
use dbtime_model::{StackId, State};
use serde::{Serialize, Serializer};

pub use call_tree::{CallTree, CallTreeNode};
pub use counted::{CountedStack, CountedStacks};
pub(crate) use functions::function_keys;
pub use functions::{FunctionTime, FunctionTimes};
pub use modules::{ModuleTime, ModuleTimes};

use crate::fields;
use crate::filter::Filter;
use crate::function::{FunctionId, Functions};
use crate::ledger::Section;
use crate::load::Source;
use crate::report::{ReportError, load};
use crate::scan::{Period, scan};
use crate::sums::{FidelityMix, StateSums, Sums};
use crate::work::{CountedWork, WorkUnit};

/// How stacks are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackView {
    /// Equal stacks counted, the hottest last.
    Stacks,
    /// Children added into their parents.
    Tree,
    /// Every function, self and total.
    Functions,
    /// Programs, libraries, kernel modules and subsystems.
    Modules,
}

/// Order of functions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// By the time in them.
    #[default]
    Own,
    /// By the time in them and in all they called.
    Total,
}

/// What a view of stacks shows.
#[derive(Debug, Clone, PartialEq)]
pub struct StackOptions {
    /// Which rows count.
    pub filter: Filter,
    /// How they are read.
    pub view: StackView,
    /// [`StackView::Functions`]: in which order.
    pub sort: Sort,
    /// How many of the hottest to show.
    pub top: usize,
    /// [`StackView::Stacks`]: how many functions from the leaf; [`StackView::Tree`]: how many levels from the root.
    /// None = all.
    pub depth: Option<usize>,
}

/// Stacks of DB time, or of the chosen part of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StackReport {
    /// What the recording says about itself.
    #[serde(serialize_with = "fields::meta")]
    pub meta: Meta,
    /// Which rows count.
    #[serde(skip)]
    pub filter: Filter,
    /// The time it covers.
    #[serde(flatten, serialize_with = "fields::period")]
    pub period: Period,
    /// The recording has stacks, chosen or not.
    #[serde(skip)]
    pub has_stacks: bool,
    /// Sum of all stacks.
    #[serde(flatten, serialize_with = "db_time")]
    pub total: Sums,
    /// How the times were measured.
    pub fidelity: Option<FidelityMix>,
    /// The answer.
    #[serde(flatten)]
    pub answer: StackAnswer,
    /// What could not be read.
    pub problems: Vec<String>,
}

fn db_time<S: Serializer>(total: &Sums, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct DbTime {
        db_time_ns: u128,
        samples: u128,
    }
    let db_time = DbTime {
        db_time_ns: total.total_ns(),
        samples: total.samples,
    };
    db_time.serialize(to)
}

/// One answer per [`StackView`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum StackAnswer {
    /// [`StackView::Stacks`]
    Stacks(CountedStacks),
    /// [`StackView::Tree`]
    Tree(CallTree),
    /// [`StackView::Functions`]
    Functions(FunctionTimes),
    /// [`StackView::Modules`]
    #[serde(serialize_with = "crate::json::modules")]
    Modules(Box<ModuleTimes>),
}

/// Time of every call path and state, in no particular order.
pub(crate) struct CallPaths {
    functions: Functions,
    paths: Vec<(Vec<FunctionId>, State, StateSums)>,
}

/// Reads the stacks of a recording.
///
/// # Errors
/// The filter names a session or a period that is not there.
pub fn stacks(source: &Source, options: &StackOptions) -> Result<StackReport, ReportError> {
    let mut dimensions = load(source, &options.filter)?;
    let mut stacks: HashMap<(StackId, StackId, State), StateSums> = HashMap::new();
    let mut total = Sums::default();
    let scan = scan(source, &mut dimensions, &options.filter, |activity| {
        if activity.section == Section::DbTime && activity.row.ns > 0 {
            let row = activity.row;
            total.take(activity);
            stacks
                .entry((row.user_stack, row.kernel_stack, row.state))
                .or_default()
                .take(activity);
        }
    });
    scan.check(&options.filter)?;
    let mut functions = Functions::default();
    let paths = stacks
        .into_iter()
        .map(|((user, kernel, state), sums)| (functions.path(user, kernel, state, &dimensions), state, sums))
        .collect();
    let paths = CallPaths { functions, paths };
    let mut problems = std::mem::take(&mut dimensions.problems);
    problems.extend(scan.problems);
    let answer = match options.view {
        StackView::Stacks => StackAnswer::Stacks(counted::count(&paths, options.top, options.depth)),
        StackView::Tree => StackAnswer::Tree(call_tree::add_up(&paths, options.top, options.depth)),
        StackView::Functions => StackAnswer::Functions(functions::add_up(&paths, options.top, options.sort)),
        StackView::Modules => {
            let mut counted = CountedWork::default();
            problems.extend(source.counters(|row| {
                let wanted = options.filter.takes_time(row.time)
                    && options.filter.takes_session(dimensions.session(row.session));
                if wanted {
                    counted.add_counter(row);
                }
            }));
            problems.extend(source.latency(|row| {
                let wanted = options.filter.takes_time(row.time)
                    && options.filter.takes_session(dimensions.session(row.session));
                if wanted {
                    counted.add_latency(row);
                }
            }));
            StackAnswer::Modules(Box::new(modules::add_up(
                &paths,
                options.top,
                counted.preferred(),
            )))
        }
    };
    Ok(StackReport {
        meta: source.meta().clone(),
        filter: options.filter.clone(),
        period: scan.period,
        has_stacks: dimensions.count_stacks() > 0,
        fidelity: total.fidelity(),
        total,
        answer,
        problems: problems.into_iter().map(|problem| problem.0).collect(),
    })
}

/// Work that was counted, for times per unit of it.
pub type Work = (WorkUnit, u128);
