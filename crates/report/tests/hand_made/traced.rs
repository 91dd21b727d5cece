//! The rows of a hand-made SQL trace, in which every number can be checked with pencil and paper.

use dbtime_model::counter::{self, oracle};
use dbtime_model::latency::kind;
use dbtime_model::recording::{CallInFlight, ImportedFile, Meta, SqlTrace, TraceGap, UnknownLine};
use dbtime_model::{
    ActivityRow, Caller, CounterRow, Fidelity, LatencyRow, PlanStep, Rows, SessionId, SessionRow, State,
    StatementRow,
};

use super::{FIRST_SECOND, row, session};

pub(crate) const SECOND: i64 = 1_000_000;
pub(crate) const SEQUENTIAL: &str = "User I/O:db file sequential read";
pub(crate) const SCATTERED: &str = "User I/O:db file scattered read";
pub(crate) const FROM_CLIENT: &str = "Idle:SQL*Net message from client";
/// A SELECT, a dictionary statement that it calls, and one that both call.
pub(crate) const SELECT: u64 = 11;
pub(crate) const DICTIONARY: u64 = 12;
pub(crate) const DEEPEST: u64 = 13;
pub(crate) const PLAN: u64 = 3_702_719_588;

/// `count` waits of exactly `us`, as an importer of SQL traces passes them on: in eighths of a power of two of
/// microseconds.
pub(crate) fn waits(second: i64, session: u64, name: &str, blocks: u64, us: u64, count: u64) -> LatencyRow {
    let (from_us, to_us) = match us.checked_ilog2() {
        None => (0, 0),
        Some(power) => {
            let width = (1u64 << power).div_ceil(8).max(1);
            let from = us / width * width;
            (from, from + width)
        }
    };
    LatencyRow {
        time: FIRST_SECOND + second * SECOND,
        session: SessionId(session),
        kind: kind::WAIT.into(),
        name: name.into(),
        blocks,
        from_ns: from_us * 1_000,
        to_ns: (to_us * 1_000).max(1),
        count,
        sum_ns: us * 1_000 * count,
        max_ns: us * 1_000,
        ..LatencyRow::default()
    }
}

pub(crate) fn count(session: u64, statement: u64, plan: u64, name: &str, value: i64) -> CounterRow {
    CounterRow {
        time: FIRST_SECOND,
        session: SessionId(session),
        statement,
        plan,
        source: counter::ORACLE.into(),
        name: name.into(),
        value,
    }
}

fn activity(session: u64, statement: u64, wait: (&str, &str, bool), state: State, us: u64) -> ActivityRow {
    ActivityRow {
        statement,
        state,
        ns: us * 1_000,
        count: 1,
        samples: 0,
        fidelity: Fidelity::Exact,
        ..row(session, wait, state, 0)
    }
}

fn step(id: u64, parent: u64, operation: &str, rows: u64, elapsed_us: u64) -> PlanStep {
    PlanStep {
        plan: PLAN,
        id,
        parent,
        operation: operation.into(),
        executions: 2,
        rows,
        consistent_gets: 40,
        physical_reads: 36,
        physical_writes: 0,
        elapsed_us,
    }
}

/// Meta of [`trace_rows`].
pub(crate) fn trace_meta() -> Meta {
    let mut meta = super::meta();
    meta.database.product = "Oracle Database".into();
    meta.database.version = "19.0.0.0.0".into();
    (meta.collector.tier, meta.collector.rate_hz) = ("exact".into(), 0);
    (meta.cost, meta.quality) = Default::default();
    meta.files = vec![ImportedFile {
        path: "/tmp/dev_ora_4711.trc".into(),
        format: "Oracle SQL trace (event 10046)".into(),
        lines: 1_000,
        unknown_lines: 2,
        first_unknown: vec![UnknownLine {
            number: 17,
            text: "whatever".into(),
        }],
        kernel_trace: None,
        sql_trace: Some(SqlTrace {
            first_tim_us: Some(5_000_000),
            last_tim_us: Some(8_500_000),
            begin_us: Some(5_100_000),
            cpu_us: 300_000,
            wait_us: 3_137_009,
            waits: 107,
            calls: 14,
            sessions_us: 3_500_000,
            cpu_step_us: 10_000,
            size_limited: true,
            gaps: 1,
            gaps_us: 1_250_000,
            longest_gaps: vec![TraceGap {
                line: 500,
                session: "12.345".into(),
                from_us: FIRST_SECOND,
                us: 1_250_000,
            }],
            in_flight: vec![CallInFlight {
                session: "12.345".into(),
                cursor: 7,
                statement: SELECT,
                depth: Some(0),
                waits: 3,
                wait_us: 42,
                line: 999,
                calls: 2,
                call_us: 50,
            }],
            ..SqlTrace::default()
        }),
    }];
    meta
}

/// Two sessions, the second of which says what it does. Waits in microseconds:
///
/// | event | session | blocks | waits | sum |
/// |---|---|---|---|---|
/// | db file sequential read | 1 | | 10 of 0, 20 of 40, 60 of 700, 10 of 9,000 | 132,800 |
/// | db file scattered read | 1 | 8 | 4 of 1,000 | 4,000 |
/// | db file scattered read | 2 | 32 | 1 of 200,000 | 200,000 |
/// | some event of release 30 | 2 | | 1 of 209 | 209 |
/// | SQL*Net message from client | 1 | | 1 of 2,800,000 | 2,800,000 |
///
/// Waits: 132,800 + 4,000 + 200,000 + 209 = 337,009; with the idle one 3,137,009.
/// Calls: elapsed 500,000 + 120,000, CPU 250,000 + 50,000. Unaccounted: 620,000 - 337,009 - 300,000 = -17,009.
/// Interval: 8,500,000 - 5,100,000 = 3,400,000; unaccounted: 3,400,000 - 3,137,009 - 300,000 = -37,009.
pub(crate) fn trace_rows() -> Rows {
    let latency = vec![
        waits(0, 1, SEQUENTIAL, 0, 0, 10),
        waits(0, 1, SEQUENTIAL, 0, 40, 20),
        waits(1, 1, SEQUENTIAL, 0, 700, 60),
        waits(2, 1, SEQUENTIAL, 0, 9_000, 10),
        waits(1, 1, SCATTERED, 8, 1_000, 4),
        waits(1, 2, SCATTERED, 32, 200_000, 1),
        waits(1, 2, "unclassified:some event of release 30", 0, 209, 1),
        waits(2, 1, FROM_CLIENT, 0, 2_800_000, 1),
    ];
    let mut counters = Vec::new();
    for (session, [elapsed, cpu, wait, idle]) in [
        (1, [500_000, 250_000, 136_800, 2_800_000]),
        (2, [120_000, 50_000, 200_209, 0]),
    ] {
        counters.extend([
            count(session, 0, 0, oracle::CALL_ELAPSED_US, elapsed),
            count(session, 0, 0, oracle::CALL_CPU_US, cpu),
            count(session, 0, 0, oracle::CALL_WAIT_US, wait),
            count(session, 0, 0, oracle::CALL_IDLE_US, idle),
        ]);
    }
    counters.push(count(2, 0, 0, oracle::CPU_INSIDE_WAITS_NS, 17_000_000));
    counters.push(count(2, 0, 0, oracle::WAIT_OUTSIDE_CALLS_US, 9));
    let names = [
        oracle::CALLS,
        oracle::EXECUTIONS,
        oracle::ELAPSED_US,
        oracle::CPU_US,
        oracle::WAIT_US,
        oracle::IDLE_US,
        oracle::ROWS,
        oracle::CONSISTENT_GETS,
        oracle::CURRENT_GETS,
        oracle::PHYSICAL_READS,
        oracle::MISSES,
    ];
    for (session, statement, plan, values) in [
        (
            1,
            SELECT,
            PLAN,
            [6, 2, 400_000, 200_000, 130_000, 2_800_000, 77, 40, 3, 36, 1],
        ),
        (1, SELECT, 0, [1, 0, 90_000, 40_000, 0, 0, 0, 0, 0, 0, 0]),
        (1, DICTIONARY, 5, [4, 4, 80_000, 30_000, 6_800, 0, 4, 8, 0, 4, 1]),
        (2, DEEPEST, 6, [2, 1, 30_000, 10_000, 200_000, 0, 1, 3, 0, 32, 0]),
        (2, 0, 0, [1, 1, 10_000, 10_000, 209, 0, 0, 0, 0, 0, 0]),
    ] {
        for (name, value) in names.iter().zip(values) {
            counters.push(count(session, statement, plan, name, value));
        }
    }
    for (second, values) in [(0, [30, 30, 0, 0]), (1, [65, 124, 2, 10]), (3, [10, 10, 0, 0])] {
        let names = [
            oracle::READS,
            oracle::READ_BLOCKS,
            oracle::WRITES,
            oracle::WRITTEN_BLOCKS,
        ];
        for (name, value) in names.iter().zip(values) {
            let mut row = count(1, 0, 0, name, value);
            row.time += second * SECOND;
            counters.push(row);
        }
    }
    let statement = |id, sql_id: &str, text: &str| StatementRow {
        id,
        text: text.into(),
        sql_id: sql_id.into(),
        ..StatementRow::default()
    };
    let called = |statement, calls, elapsed_us| Caller {
        statement,
        calls,
        elapsed_us,
    };
    Rows {
        activity: vec![
            activity(1, SELECT, ("CPU", "CPU", false), State::Cpu, 250_000),
            activity(
                1,
                SELECT,
                ("User I/O", "db file sequential read", false),
                State::Unknown,
                132_800,
            ),
            activity(
                1,
                SELECT,
                ("Idle", "SQL*Net message from client", true),
                State::Unknown,
                2_800_000,
            ),
            activity(
                2,
                DEEPEST,
                ("User I/O", "db file scattered read", false),
                State::Unknown,
                200_000,
            ),
            activity(2, 0, ("unknown", "unaccounted", false), State::Unknown, 1_000),
        ],
        latency,
        counters,
        sessions: vec![
            session(1, 4711, "client backend", "", "PROD"),
            SessionRow {
                service: "orders".into(),
                module: "batch".into(),
                action: "close month".into(),
                client_id: "eva".into(),
                ..session(2, 4712, "client backend", "", "PROD")
            },
        ],
        statements: vec![
            StatementRow {
                plan_steps: vec![
                    step(1, 0, "SORT AGGREGATE", 2, 100_000),
                    step(2, 1, "TABLE ACCESS FULL ORDERS", 77, 90_000),
                ],
                user_id: Some(5),
                depth: Some(0),
                ..statement(SELECT, "4vs91dcv7u1p6", "select *\n  from orders")
            },
            StatementRow {
                callers: vec![called(SELECT, 4, 80_000)],
                ..statement(DICTIONARY, "g3wrkmxkxzhf2", "select cols from view$")
            },
            StatementRow {
                callers: vec![called(DICTIONARY, 1, 20_000), called(SELECT, 1, 10_000)],
                hash_value: 4711,
                user_id: Some(0),
                depth: Some(1),
                ..statement(DEEPEST, "", "select /*+ rule */ 1")
            },
        ],
        ..Rows::default()
    }
}
