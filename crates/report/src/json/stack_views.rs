//! Stacks, call tree, functions, modules.

use dbtime_model::State;
use serde::Serialize;

use super::MetaJson;
use crate::fields::timestamp;
use crate::function::Function;
use crate::stack_views::{StackAnswer, StackReport};
use crate::sums::Sums;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    meta: MetaJson<'a>,
    from: Option<String>,
    to: Option<String>,
    elapsed_ns: u128,
    db_time_ns: u128,
    samples: u128,
    fidelity: Option<&'static str>,
    #[serde(flatten)]
    answer: AnswerJson<'a>,
    problems: &'a [String],
}

#[derive(Serialize)]
#[serde(untagged)]
enum AnswerJson<'a> {
    Stacks {
        stacks: Vec<StackJson<'a>>,
        other_stacks: usize,
        other_stacks_ns: u128,
    },
    Tree {
        tree: Vec<NodeJson<'a>>,
        other_call_paths: usize,
    },
    Functions {
        functions: Vec<FunctionJson<'a>>,
        other_functions: usize,
        other_functions_self_ns: u128,
    },
    Modules {
        modules: Vec<ModuleJson<'a>>,
        other_modules: usize,
        other_modules_ns: u128,
        per: Option<&'static str>,
        count: Option<u128>,
    },
}

#[derive(Serialize)]
struct NameJson<'a> {
    function: &'a str,
    module: &'a str,
    kernel: bool,
}

#[derive(Serialize)]
struct StackJson<'a> {
    /// Root first.
    functions: Vec<NameJson<'a>>,
    cut: bool,
    ns: u128,
    percent: f64,
    samples: u128,
}

#[derive(Serialize)]
struct NodeJson<'a> {
    #[serde(flatten)]
    name: NameJson<'a>,
    depth: usize,
    total_ns: u128,
    self_ns: u128,
    total_percent: f64,
    self_percent: f64,
    samples: u128,
    hidden_ns: u128,
}

#[derive(Serialize)]
struct FunctionJson<'a> {
    #[serde(flatten)]
    name: NameJson<'a>,
    self_ns: u128,
    total_ns: u128,
    self_percent: f64,
    total_percent: f64,
    samples: u128,
}

#[derive(Serialize)]
struct ModuleJson<'a> {
    module: &'a str,
    user_ns: u128,
    kernel_ns: u128,
    runnable_ns: u128,
    blocked_ns: u128,
    other_ns: u128,
    self_ns: u128,
    percent: f64,
    total_ns: u128,
    total_percent: f64,
    per_unit_ns: Option<f64>,
    samples: u128,
}

impl<'a> From<&'a Function> for NameJson<'a> {
    fn from(function: &'a Function) -> NameJson<'a> {
        NameJson {
            function: &function.name,
            module: &function.module,
            kernel: function.kernel,
        }
    }
}

impl<'a> From<&'a StackReport> for Document<'a> {
    fn from(report: &'a StackReport) -> Document<'a> {
        Document {
            meta: (&report.meta).into(),
            from: timestamp(report.period.from_us),
            to: timestamp(report.period.to_us),
            elapsed_ns: report.period.elapsed_ns(),
            db_time_ns: report.total.total_ns(),
            samples: report.total.samples,
            fidelity: report.fidelity.map(|fidelity| fidelity.as_str()),
            answer: (&report.answer).into(),
            problems: &report.problems,
        }
    }
}

impl<'a> From<&'a StackAnswer> for AnswerJson<'a> {
    fn from(answer: &'a StackAnswer) -> AnswerJson<'a> {
        match answer {
            StackAnswer::Stacks(stacks) => AnswerJson::Stacks {
                stacks: stacks
                    .stacks
                    .iter()
                    .map(|stack| StackJson {
                        functions: stack.functions.iter().map(NameJson::from).collect(),
                        cut: stack.cut,
                        ns: stack.ns,
                        percent: stack.percent,
                        samples: stack.samples,
                    })
                    .collect(),
                other_stacks: stacks.others,
                other_stacks_ns: stacks.others_ns,
            },
            StackAnswer::Tree(tree) => AnswerJson::Tree {
                tree: tree
                    .nodes
                    .iter()
                    .map(|node| NodeJson {
                        name: (&node.function).into(),
                        depth: node.depth,
                        total_ns: node.total_ns,
                        self_ns: node.self_ns,
                        total_percent: node.total_percent,
                        self_percent: node.self_percent,
                        samples: node.samples,
                        hidden_ns: node.hidden_ns,
                    })
                    .collect(),
                other_call_paths: tree.others,
            },
            StackAnswer::Functions(times) => AnswerJson::Functions {
                functions: times
                    .functions
                    .iter()
                    .map(|time| FunctionJson {
                        name: (&time.function).into(),
                        self_ns: time.self_ns,
                        total_ns: time.total_ns,
                        self_percent: time.self_percent,
                        total_percent: time.total_percent,
                        samples: time.samples,
                    })
                    .collect(),
                other_functions: times.others,
                other_functions_self_ns: times.others_self_ns,
            },
            StackAnswer::Modules(times) => {
                let count = times.work.map(|(_, count)| count);
                AnswerJson::Modules {
                    modules: times
                        .modules
                        .iter()
                        .map(|time| {
                            let sums: &Sums = &time.sums;
                            ModuleJson {
                                module: &time.name,
                                user_ns: sums.state_ns(State::User),
                                kernel_ns: sums.state_ns(State::Kernel),
                                runnable_ns: sums.run_queue_ns(),
                                blocked_ns: sums.blocked_ns(),
                                other_ns: sums.not_told_ns(),
                                self_ns: sums.total_ns(),
                                percent: time.percent,
                                total_ns: time.total_ns,
                                total_percent: time.total_percent,
                                per_unit_ns: count.map(|count| sums.total_ns() as f64 / count.max(1) as f64),
                                samples: sums.samples,
                            }
                        })
                        .collect(),
                    other_modules: times.others,
                    other_modules_ns: times.others_sums.total_ns(),
                    per: times.work.map(|(unit, _)| unit.as_str()),
                    count,
                }
            }
        }
    }
}
