//! Modules: their times by state, and by unit of work.

use dbtime_model::State;
use serde::{Serialize, Serializer};

use crate::stack_views::{ModuleTime, ModuleTimes};

#[derive(Serialize)]
struct ModulesJson<'a> {
    modules: Vec<ModuleJson<'a>>,
    other_modules: usize,
    other_modules_ns: u128,
    per: Option<&'static str>,
    count: Option<u128>,
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

/// See the module.
pub(crate) fn modules<S: Serializer>(times: &ModuleTimes, to: S) -> Result<S::Ok, S::Error> {
    let count = times.work.map(|(_, count)| count);
    let modules = ModulesJson {
        modules: times.modules.iter().map(|time| module(time, count)).collect(),
        other_modules: times.others,
        other_modules_ns: times.others_sums.total_ns(),
        per: times.work.map(|(unit, _)| unit.as_str()),
        count,
    };
    modules.serialize(to)
}

fn module(time: &ModuleTime, count: Option<u128>) -> ModuleJson<'_> {
    let sums = &time.sums;
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
}
