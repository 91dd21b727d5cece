//! Dives made by hand: names that are hostile, and more call paths than a page has room for.

use std::path::PathBuf;

use dbtime_model::latency::{bounds_of, bucket_of, kind};
use dbtime_model::recording::{ImportedFile, KernelTrace, Meta, Note, RecordingWriter, SCHEMA_VERSION};
use dbtime_model::{
    ActivityRow, Fidelity, Frame, LatencyRow, NO_STACK, Rows, SessionId, SessionRow, SessionState, StackRow,
    State, stack_id,
};
use tempfile::TempDir;

use super::made::{BEGIN_US, frame};

/// A dive of these call paths, root first, each with its own time in nanoseconds; `word` is in all texts.
pub(super) fn dive(
    home: &TempDir,
    word: &str,
    paths: impl Iterator<Item = (Vec<Frame>, u64, u64)>,
) -> PathBuf {
    let path = home.path().join("dive.dbt");
    let mut meta = Meta {
        schema: SCHEMA_VERSION.to_string(),
        start_us: BEGIN_US,
        end_us: BEGIN_US + 1_000_000,
        complete: true,
        ..Meta::default()
    };
    meta.database.target = format!("trace{word}");
    meta.host.name = format!("host{word}");
    meta.collector.tier = "exact".to_string();
    meta.collector.reasons = vec![format!("engine: made by hand{word}")];
    meta.notes = vec![Note {
        time_us: BEGIN_US,
        text: format!("noted{word}"),
    }];
    meta.files = vec![ImportedFile {
        path: format!("trace{word}"),
        kernel_trace: Some(KernelTrace {
            tracer: format!("function_graph{word}"),
            calls: 1,
            kept_calls: 1,
            has_switches: true,
            ..KernelTrace::default()
        }),
        ..ImportedFile::default()
    }];
    let mut writer = RecordingWriter::create(&path, meta).expect("a new directory");
    let session = SessionRow {
        id: SessionId(1),
        pid: 7,
        title: format!("task{word}"),
        ..SessionRow::default()
    };
    let mut rows = Rows {
        sessions: vec![session],
        ..Rows::default()
    };
    for (frames, own_ns, total_ns) in paths {
        let id = stack_id(&frames);
        rows.stacks.push(StackRow { id, frames });
        rows.activity.push(ActivityRow {
            time: BEGIN_US,
            session: SessionId(1),
            statement: 0,
            plan: 0,
            wait_class: "CPU".into(),
            wait_event: "CPU".into(),
            idle: false,
            state: State::Kernel,
            session_state: SessionState::None,
            kernel_stack: id,
            user_stack: NO_STACK,
            comment: 0,
            ns: own_ns,
            count: 0,
            samples: 0,
            fidelity: Fidelity::Exact,
            pooled: false,
        });
        let (from_ns, to_ns) = bounds_of(bucket_of(total_ns));
        rows.latency.push(LatencyRow {
            time: BEGIN_US,
            session: SessionId(1),
            kind: kind::FUNCTION.into(),
            stack: id,
            from_ns,
            to_ns,
            count: 1,
            sum_ns: total_ns,
            max_ns: total_ns,
            min_ns: total_ns,
            ..LatencyRow::default()
        });
        if rows.stacks.len() == 8_000 {
            writer.write(&std::mem::take(&mut rows)).expect("there is room");
        }
    }
    writer.write(&rows).expect("there is room");
    writer.finish().expect("there is room");
    path
}

/// Functions and modules of which one has this in its name, and one is 10 KB long.
pub(super) fn hostile_paths(word: &str) -> impl Iterator<Item = (Vec<Frame>, u64, u64)> {
    let names = [
        frame(&format!("sys_read{word}"), "[kernel]"),
        frame("vfs_read", &format!("[ext4{word}]")),
        frame(&word.repeat(10_240 / word.len() + 1), "[kernel]"),
        frame("__proto__", "constructor"),
    ];
    (1..=names.len()).map(move |depth| (names[..depth].to_vec(), 1_000, 1_000 * (5 - depth as u64)))
}

/// A call that calls so many functions, each of which calls so many, which call so many in turn.
pub(super) fn wide_paths(width: u64) -> impl Iterator<Item = (Vec<Frame>, u64, u64)> {
    let root = || frame("sys_read", "[kernel]");
    let function = |level: u64, at: u64| frame(&format!("function_{level}_{at}"), "[kernel]");
    let all = std::iter::once((vec![root()], 0, width * width * width * 2_000));
    let first = move |one: u64| vec![root(), function(1, one)];
    let below = (0..width).flat_map(move |one| {
        let second = (0..width).flat_map(move |two| {
            let path = [first(one), vec![function(2, two)]].concat();
            let third = (0..width).map({
                let path = path.clone();
                move |three| {
                    let path = [path.clone(), vec![function(3, three)]].concat();
                    // All are different, so that it is clear which of them has least.
                    let ns = 1_000 + one + two + three;
                    (path, ns, ns)
                }
            });
            std::iter::once((path, 10, width * 1_300)).chain(third)
        });
        std::iter::once((first(one), 10, width * width * 1_400)).chain(second)
    });
    all.chain(below)
}
