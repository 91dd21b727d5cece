//! A small hand-made recording, in which every number can be checked with pencil and paper.
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod traced;
pub(crate) mod waits;

use std::collections::BTreeMap;

use dbtime_model::recording::{Meta, Note, Quality, SCHEMA_VERSION};
use dbtime_model::{
    ActivityRow, CounterRow, Fidelity, Frame, NO_STACK, Rows, SessionId, SessionRow, StackId, StackRow,
    State, counter, stack_id,
};

use dbtime_report::{Dimension, Filter, Options, Section, Source, report};

/// Nanoseconds in a millisecond.
pub(crate) const MS: u64 = 1_000_000;
/// Start of the recording: 300 ms after a whole second.
pub(crate) const START_US: i64 = 1_791_633_600_300_000;
/// The whole second in which it started.
pub(crate) const FIRST_SECOND: i64 = 1_791_633_600_000_000;

pub(crate) fn meta() -> Meta {
    let mut meta = Meta {
        schema: SCHEMA_VERSION.into(),
        dbtime: "test".into(),
        start_us: START_US,
        end_us: START_US + 4_000_000,
        complete: true,
        host: Default::default(),
        database: Default::default(),
        collector: Default::default(),
        segments: Default::default(),
        quality: Quality {
            samples: 1_234,
            torn: 7,
            stacks_complete: 997,
            stacks_truncated: 1,
            stacks_broken: 2,
            unresolved_frames: 3,
            frames: 120,
            passes: 396,
            ..Quality::default()
        },
        cost: Default::default(),
        notes: vec![],
        ..Meta::default()
    };
    meta.host.name = "db1.example".into();
    meta.host.kernel = "6.12.9".into();
    meta.host.arch = "x86_64".into();
    meta.host.cpus = 8;
    meta.database.product = "PostgreSQL".into();
    meta.database.version = "17.5".into();
    meta.collector.tier = "sampled".into();
    meta.collector.rate_hz = 99;
    meta.cost.cpu_ns = 60 * MS;
    meta
}

/// DB time by the values of a dimension, in milliseconds; the sum is DB time.
pub(crate) fn ms_by(source: &Source, by: Dimension, filter: Filter) -> BTreeMap<String, u128> {
    let options = Options {
        by: vec![by],
        filter,
        ..Options::default()
    };
    let report = report(source, &options).expect("a report");
    let rows = report.ledger.section(Section::DbTime);
    let sums: BTreeMap<String, u128> = rows
        .map(|row| (row.labels[0].clone(), row.sums.total_ns() / u128::from(MS)))
        .collect();
    assert_eq!(sums.values().sum::<u128>(), report.db_time_ns() / u128::from(MS));
    sums
}

/// What [`ms_by`] should return.
pub(crate) fn sums(sums: &[(&str, u128)]) -> BTreeMap<String, u128> {
    sums.iter()
        .map(|(label, ms)| ((*label).to_string(), *ms))
        .collect()
}

pub(crate) fn row(session: u64, wait: (&str, &str, bool), state: State, ms: u64) -> ActivityRow {
    ActivityRow {
        time: FIRST_SECOND,
        session: SessionId(session),
        statement: 0,
        plan: 0,
        wait_class: wait.0.into(),
        wait_event: wait.1.into(),
        idle: wait.2,
        state,
        kernel_stack: NO_STACK,
        user_stack: NO_STACK,
        comment: 0,
        ns: ms * MS,
        count: 0,
        samples: ms / 10,
        fidelity: Fidelity::Sampled,
        pooled: false,
        session_state: dbtime_model::SessionState::None,
    }
}

pub(crate) fn session(id: u64, pid: u32, backend_type: &str, user: &str, database: &str) -> SessionRow {
    SessionRow {
        id: SessionId(id),
        pid,
        started: START_US - 60_000_000,
        backend_type: backend_type.into(),
        user: user.into(),
        database: database.into(),
        client: String::new(),
        leader_pid: 0,
        title: String::new(),
        ..SessionRow::default()
    }
}

pub(crate) fn stack(names: &[&str], module: &str) -> StackRow {
    let frames: Vec<Frame> = names
        .iter()
        .map(|name| Frame {
            symbol: name.to_string(),
            module: module.into(),
            build_id: String::new(),
            offset: 0,
        })
        .collect();
    StackRow {
        id: stack_id(&frames),
        frames,
    }
}

pub(crate) fn kernel_counter(session: u64, name: &str, ms: i64) -> CounterRow {
    CounterRow {
        time: FIRST_SECOND,
        session: SessionId(session),
        source: counter::KERNEL.into(),
        name: name.into(),
        value: ms * MS as i64,
        ..CounterRow::default()
    }
}

pub(crate) const CPU: (&str, &str, bool) = ("CPU", "CPU", false);
pub(crate) const READ: (&str, &str, bool) = ("IO", "DataFileRead", false);
pub(crate) const LOCK: (&str, &str, bool) = ("Lock", "transactionid", false);
pub(crate) const CLIENT_READ: (&str, &str, bool) = ("Client", "ClientRead", true);
pub(crate) const NOT_SAMPLED: (&str, &str, bool) = ("unknown", "not sampled", false);
pub(crate) const CHECKPOINTER_MAIN: (&str, &str, bool) = ("Activity", "CheckpointerMain", true);
pub(crate) const FILE_FLUSH: (&str, &str, bool) = ("IO", "DataFileFlush", false);

const ROOT: [&str; 8] = [
    "main",
    "PostmasterMain",
    "ServerLoop",
    "postmaster_child_launch",
    "BackendMain",
    "PostgresMain",
    "exec_simple_query",
    "PortalRun",
];

/// Two clients and the checkpointer, 4 s. In milliseconds:
///
/// | session | wait | user | kernel | runnable | disk | sleep |
/// |---|---|---|---|---|---|---|
/// | 1 | CPU | 900 | 100 | 60 | 0 | 40 |
/// | 1 | IO:DataFileRead | 0 | 1200 | 0 | 700 | 0 |
/// | 1 | Client:ClientRead (idle) | 10 | 20 | 0 | 0 | 870 |
/// | 1 | [not sampled] | 0 | 30 | 0 | 0 | 70 |
/// | 2 | Lock:transactionid | 0 | 0 | 0 | 0 | 1500 |
/// | 2 | Client:ClientRead (idle) | 0 | 0 | 0 | 0 | 2500 |
/// | 3 | IO:DataFileFlush | 0 | 50 | 0 | 450 | 0 |
/// | 3 | Activity:CheckpointerMain (idle) | 0 | 0 | 0 | 0 | 3500 |
///
/// DB time: 1100 + 1900 + 100 + 1500 = 4600. Idle: 900 + 2500 = 3400. Background: 4000.
pub(crate) fn rows() -> Rows {
    let scan = stack(
        &[&ROOT[..], &["ExecSeqScan", "heap_getnext", "ReadBuffer"]].concat(),
        "postgres",
    );
    let sort = stack(
        &[&ROOT[..], &["ExecSort", "tuplesort_performsort", "qsort_tuple"]].concat(),
        "postgres",
    );
    let read = stack(
        &[
            "entry_SYSCALL_64",
            "do_syscall_64",
            "vfs_read",
            "filemap_read",
            "copy_page_to_iter",
        ],
        "[kernel]",
    );
    let with = |mut row: ActivityRow, user: StackId, kernel: StackId| {
        row.user_stack = user;
        row.kernel_stack = kernel;
        row
    };
    // The kernel's own total, without a sample.
    let not_sampled = |mut row: ActivityRow| {
        (row.samples, row.fidelity) = (0, Fidelity::Exact);
        row
    };
    let activity = vec![
        with(row(1, CPU, State::User, 900), sort.id, NO_STACK),
        with(row(1, CPU, State::Kernel, 100), scan.id, read.id),
        row(1, CPU, State::Runnable, 60),
        row(1, CPU, State::Sleep, 40),
        with(row(1, READ, State::Kernel, 1200), scan.id, read.id),
        with(row(1, READ, State::Disk, 700), scan.id, read.id),
        row(1, CLIENT_READ, State::User, 10),
        row(1, CLIENT_READ, State::Kernel, 20),
        row(1, CLIENT_READ, State::Sleep, 870),
        not_sampled(row(1, NOT_SAMPLED, State::Kernel, 30)),
        not_sampled(row(1, NOT_SAMPLED, State::Sleep, 70)),
        row(2, LOCK, State::Sleep, 1500),
        row(2, CLIENT_READ, State::Sleep, 2500),
        row(3, FILE_FLUSH, State::Kernel, 50),
        row(3, FILE_FLUSH, State::Disk, 450),
        row(3, CHECKPOINTER_MAIN, State::Sleep, 3500),
    ];
    let mut torn = kernel_counter(1, counter::TORN, 0);
    torn.source = counter::DBTIME.into();
    torn.value = 9;
    Rows {
        activity,
        counters: vec![
            kernel_counter(1, counter::ELAPSED_NS, 3_990),
            kernel_counter(1, counter::ELAPSED_NS, 10),
            kernel_counter(1, counter::ON_CPU_NS, 2_260),
            kernel_counter(1, counter::RUN_QUEUE_NS, 60),
            kernel_counter(2, counter::ELAPSED_NS, 4_000),
            torn,
        ],
        sessions: vec![
            session(1, 4711, "client backend", "app", "shop"),
            session(2, 4712, "client backend", "report", "shop"),
            session(3, 99, "checkpointer", "", ""),
        ],
        stacks: vec![scan, sort, read],
        ..Rows::default()
    }
}

/// A server with a dozen sessions, to look at.
pub(crate) fn busy_rows() -> Rows {
    let mut rows = rows();
    for n in 0..12u64 {
        let id = 10 + n;
        let mut client = session(id, 5_000 + n as u32, "client backend", "app", "shop");
        if n == 11 {
            client.backend_type = "parallel worker".into();
            client.leader_pid = 5_000;
        }
        rows.sessions.push(client);
        for (wait, state, ms) in [
            (CPU, State::User, 300 + 10 * n),
            (CPU, State::Runnable, 40 + n),
            (("LWLock", "WALInsert", false), State::Sleep, 55 + n),
            (("IO", "WALSync", false), State::Disk, 120 + n),
            (("IO", "WALSync", false), State::Kernel, 12),
            (("IPC", "MessageQueuePutMessage", false), State::Sleep, 3),
            (CLIENT_READ, State::Sleep, 3_000 - 20 * n),
        ] {
            rows.activity.push(row(id, wait, state, ms));
        }
        rows.counters.push(kernel_counter(id, counter::ELAPSED_NS, 4_000));
        rows.counters
            .push(kernel_counter(id, counter::ON_CPU_NS, 312 + 10 * n as i64));
        rows.counters
            .push(kernel_counter(id, counter::RUN_QUEUE_NS, 40 + n as i64));
    }
    // Never described: the recorder was killed.
    rows.activity.push(row(77, CPU, State::User, 11));
    rows
}

/// Meta of [`busy_rows`], with all that a quality section can say.
pub(crate) fn busy_meta() -> Meta {
    let mut meta = meta();
    meta.complete = false;
    meta.quality.displaced = 2;
    meta.quality.late_passes = 4;
    meta.collector.reasons =
        vec!["no cycles counter (virtual machine): sampling by the cpu-clock timer".into()];
    meta.notes = vec![Note {
        time_us: START_US + 2_000_000,
        text: "the server was stopped".into(),
    }];
    meta
}
