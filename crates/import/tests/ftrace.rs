//! Traces of the kernel: what awk counts in the same text, and arithmetic.

mod whole;

use std::collections::BTreeMap;
use std::path::PathBuf;

use dbtime_model::{Rows, State};

use whole::Whole;

#[test]
fn look() {
    for file in std::fs::read_dir("/work/shared/data/ftrace/vm-6.1")
        .unwrap()
        .chain(std::fs::read_dir("/work/shared/data/ftrace/vm-6.12").unwrap())
        .chain(std::fs::read_dir("/work/shared/data/ftrace").unwrap())
    {
        let path = file.unwrap().path();
        if path.is_dir() || path.extension().is_some_and(|e| e == "stats") {
            continue;
        }
        let whole = whole::of_files(std::slice::from_ref(&path)).unwrap();
        let mut states = BTreeMap::new();
        let mut roots: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let frames: BTreeMap<_, _> = whole.rows.stacks.iter().map(|s| (s.id, &s.frames)).collect();
        for row in &whole.rows.activity {
            *states.entry(row.state).or_insert(0) += row.ns;
            let e = roots
                .entry(frames[&row.kernel_stack][0].symbol.clone())
                .or_default();
            e.0 += row.ns;
            if frames[&row.kernel_stack].len() == 1 {
                e.1 += row.count
            };
        }
        eprintln!(
            "{} {:?}\n   states {states:?}\n   roots {roots:?}\n   spans {} act {} lat {} unknown {:?}\n   {:?}",
            path.display(),
            whole.file().kernel_trace,
            whole.rows.spans.len(),
            whole.rows.activity.len(),
            whole.rows.latency.len(),
            whole.file().first_unknown,
            whole.problems
        );
    }
}
