//! Whose code it is: libraries and programs by file, the kernel by module and, for what is built into it, by subsystem.

use crate::function::{Function, FunctionId, Functions};
use crate::kernel_layers::subsystem;

/// Code of the kernel that is in no table.
const OTHER_KERNEL: &str = "kernel";

/// The module of one function: `postgres`, `libc`, `ext4`, `block`; none for a kernel function that serves all of them
/// (locks, string functions) or is not known, and for preemption.
pub(crate) fn module_of(function: &Function) -> Option<String> {
    if function.kernel {
        return subsystem(&function.module, &function.name).map(str::to_string);
    }
    if function.is_preemption() {
        return None;
    }
    match function.module.as_str() {
        "" => Some(function.name.clone()),
        file => Some(without_version(file).to_string()),
    }
}

/// `libc.so.6` is `libc`.
fn without_version(file: &str) -> &str {
    match file.find(".so") {
        Some(at) if at > 0 && matches!(file.as_bytes().get(at + 3), None | Some(b'.')) => &file[..at],
        _ => file,
    }
}

/// The module that the time at a call path (root first) belongs to: that of the leaf-most function with a known module.
/// A sleep always ends in the scheduler, which says nothing: the module that called it counts.
pub(crate) fn module_of_path(path: &[FunctionId], functions: &Functions, on_cpu: bool) -> String {
    module_from_leaf(path.iter().rev().map(|id| functions.get(*id)), on_cpu)
}

/// Like [`module_of_path`], but the leaf comes first.
pub(crate) fn module_from_leaf<'a>(path: impl Iterator<Item = &'a Function>, on_cpu: bool) -> String {
    let mut asleep = None;
    for function in path {
        match module_of(function) {
            Some(module) if !on_cpu && function.kernel && SLEEPING.contains(&module.as_str()) => {
                asleep.get_or_insert(module);
            }
            // The system call itself, with no other known module below it: where it sleeps says more.
            Some(module) if !(function.kernel && module == SYSTEM_CALL && asleep.is_some()) => return module,
            Some(_) => break,
            None => {}
        }
    }
    asleep.unwrap_or_else(|| OTHER_KERNEL.to_string())
}

/// Every module of a call path, once.
pub(crate) fn modules_on_path(path: &[FunctionId], functions: &Functions) -> Vec<String> {
    let mut modules: Vec<String> = path
        .iter()
        .filter_map(|id| module_of(functions.get(*id)))
        .collect();
    modules.sort_unstable();
    modules.dedup();
    modules
}

/// Modules at the leaf of every sleep.
const SLEEPING: [&str; 2] = ["sched", "irq"];
const SYSTEM_CALL: &str = "syscall";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_named_without_their_version() {
        for (file, name) in [
            ("libc.so.6", "libc"),
            ("libLLVM-14.so.1", "libLLVM-14"),
            ("ld-linux-x86-64.so.2", "ld-linux-x86-64"),
            ("postgres", "postgres"),
            ("pg_stat_statements.so", "pg_stat_statements"),
            ("not.sound", "not.sound"),
            (".so", ".so"),
        ] {
            assert_eq!(without_version(file), name);
        }
    }
}
