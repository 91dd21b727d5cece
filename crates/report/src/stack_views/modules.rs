//! Programs, libraries, kernel modules and subsystems of the kernel.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::{CallPaths, Work};
use crate::code_module::{module_of_path, modules_on_path};
use crate::sums::{Sums, percent};

/// Time of one module.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleTime {
    /// `postgres`, `libc`, `ext4`, `block` …
    pub name: String,
    /// Time whose stack has its leaf-most known function in this module.
    pub sums: Sums,
    /// That as a part of everything, in percent.
    pub percent: f64,
    /// Nanoseconds of stacks that have a function of this module anywhere.
    pub total_ns: u128,
    /// That as a part of everything, in percent.
    pub total_percent: f64,
}

/// Modules.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleTimes {
    /// Those with the most time in themselves first.
    pub modules: Vec<ModuleTime>,
    /// Modules that are not among them.
    pub others: usize,
    /// Their time in themselves.
    pub others_sums: Sums,
    /// What times can be divided by; none when nothing was counted.
    pub work: Option<Work>,
}

/// Adds up by module, and shows the `top` hottest.
pub(super) fn add_up(paths: &CallPaths, top: usize, work: Option<Work>) -> ModuleTimes {
    let mut modules: HashMap<String, (Sums, u128)> = HashMap::new();
    let mut all_ns = 0;
    for (path, state, sums) in &paths.paths {
        all_ns += sums.total_ns();
        let at_leaf = module_of_path(path, &paths.functions, state.is_on_cpu());
        let mut anywhere = modules_on_path(path, &paths.functions);
        if !anywhere.contains(&at_leaf) {
            anywhere.push(at_leaf.clone());
        }
        modules.entry(at_leaf).or_default().0.merge_state(*state, sums);
        for name in anywhere {
            modules.entry(name).or_default().1 += sums.total_ns();
        }
    }
    let mut modules: Vec<ModuleTime> = modules
        .into_iter()
        .map(|(name, (sums, total_ns))| ModuleTime {
            name,
            percent: percent(sums.total_ns(), all_ns).unwrap_or(0.0),
            sums,
            total_ns,
            total_percent: percent(total_ns, all_ns).unwrap_or(0.0),
        })
        .collect();
    modules.sort_unstable_by(|one, other| {
        let key = |time: &ModuleTime| (Reverse(time.sums.total_ns()), Reverse(time.total_ns));
        key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
    });
    let rest = modules.split_off(top.min(modules.len()));
    let mut others_sums = Sums::default();
    for module in &rest {
        others_sums.merge(&module.sums);
    }
    ModuleTimes {
        modules,
        others: rest.len(),
        others_sums,
        work,
    }
}
