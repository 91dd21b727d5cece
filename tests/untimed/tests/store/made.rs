//! Recordings of two hosts over midnight, with something in every table, and a store of both.

use std::fs;
use std::path::{Path, PathBuf};

use dbtime_model::recording::{
    Clock, CollectorMeta, DatabaseMeta, HostMeta, Meta, RecordingWriter, SCHEMA_VERSION,
};
use dbtime_model::{
    ActivityRow, CauseKind, CauseLink, CauseRow, CounterRow, Fidelity, Frame, HeldLockRow, LatencyRow,
    NO_STACK, Rows, SessionId, SessionRow, SessionState, StackRow, State, StatementRow, counter, stack_id,
};
use dbtime_tests::dbtime;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const HOUR_S: i64 = 3_600;
/// 2026-10-10 21:00 UTC: three hours before midnight.
pub(crate) const START_S: i64 = 1_791_666_000;
/// Seconds from one row of a session to the next.
const STEP_S: i64 = 30;

pub(crate) fn scratch() -> TempDir {
    TempDir::with_prefix("dbtime-test-").expect("a temporary directory")
}

pub(crate) fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// RFC 3339.
pub(crate) fn moment(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds)
        .expect("a moment")
        .to_string()
}

pub(crate) fn as_json(arguments: &[&str]) -> Value {
    let answer = dbtime(&[arguments, &["--format", "json"]].concat()).expect_code(0);
    serde_json::from_str(&answer.stdout).expect("JSON")
}

/// Bytes of all files in a folder and below.
pub(crate) fn folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder");
    entries
        .map(|entry| entry.expect("an entry"))
        .map(|entry| match entry.file_type().expect("a type").is_dir() {
            true => folder_bytes(&entry.path()),
            false => entry.metadata().expect("a file").len(),
        })
        .sum()
}

/// Two recordings.
pub(crate) struct Made([(&'static str, PathBuf); 2]);

impl Made {
    pub(crate) fn two_hosts(home: &TempDir) -> Made {
        Made(["db1", "db2"].map(|host| {
            let path = record(home, &format!("{host}.dbt"), host, START_S, 5, true);
            (host, path)
        }))
    }

    /// Hosts and where the recordings are.
    pub(crate) fn recordings(&self) -> [(&'static str, &Path); 2] {
        self.0.each_ref().map(|(host, path)| (*host, path.as_path()))
    }

    /// Puts both into a new store.
    pub(crate) fn put(&self, home: &TempDir) -> PathBuf {
        let store = home.path().join("store");
        let [one, other] = self.recordings().map(|(_, path)| plain(path));
        dbtime(&["store", "put", one, other, plain(&store)]).expect_code(0);
        store
    }
}

/// Numbers that are always the same for a host.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

const WAITS: [(&str, &str, bool); 5] = [
    ("CPU", "CPU", false),
    ("IO", "DataFileRead", false),
    ("Lock", "transactionid", false),
    ("LWLock", "WALWrite", false),
    ("Client", "ClientRead", true),
];

/// Writes a recording of so many hours, a segment for each.
pub(crate) fn record(
    home: &TempDir,
    name: &str,
    host: &str,
    start_s: i64,
    hours: i64,
    complete: bool,
) -> PathBuf {
    write(home, name, meta(host, start_s, hours, "18.1"), complete)
}

/// The same, of a server of this version.
pub(crate) fn record_release(
    home: &TempDir,
    name: &str,
    host: &str,
    start_s: i64,
    hours: i64,
    complete: bool,
    version: &str,
) -> PathBuf {
    write(home, name, meta(host, start_s, hours, version), complete)
}

/// The same, of a flight recorder, whose time is in another recording, too.
pub(crate) fn record_flight(home: &TempDir, name: &str, host: &str, start_s: i64) -> PathBuf {
    let mut meta = meta(host, start_s, 1, "18.1");
    meta.collector.flight = "active 9".to_string();
    write(home, name, meta, true)
}

fn meta(host: &str, start_s: i64, hours: i64, version: &str) -> Meta {
    Meta {
        schema: SCHEMA_VERSION.to_string(),
        dbtime: "test".to_string(),
        start_us: start_s * 1_000_000,
        end_us: (start_s + hours * HOUR_S) * 1_000_000,
        host: HostMeta {
            name: host.to_string(),
            cpus: 2,
            ..HostMeta::default()
        },
        database: DatabaseMeta {
            product: "PostgreSQL".to_string(),
            version: version.to_string(),
            target: "server".to_string(),
            held_locks: true,
            ..DatabaseMeta::default()
        },
        collector: CollectorMeta {
            tier: "exact-calls".to_string(),
            rate_hz: 99,
            clock: Clock::Utc,
            ..CollectorMeta::default()
        },
        ..Meta::default()
    }
}

fn write(home: &TempDir, name: &str, meta: Meta, complete: bool) -> PathBuf {
    let path = home.path().join(name);
    let (host, start_s) = (meta.host.name.clone(), meta.start_us / 1_000_000);
    let hours = (meta.end_us / 1_000_000 - start_s) / HOUR_S;
    let mut writer = RecordingWriter::create(&path, meta).expect("a new recording");
    let mut numbers = Numbers(host.bytes().map(u64::from).sum());
    for hour in 0..hours {
        let mut rows = rows_of_hour(start_s + hour * HOUR_S, hour == 0, &mut numbers);
        // One host of several counts transactions.
        if host == "db1" {
            add_transactions(&mut rows, start_s + hour * HOUR_S);
        }
        writer.write(&rows).expect("it can be written");
    }
    if complete {
        writer.finish().expect("it can be written");
    }
    path
}

fn frame(symbol: &str, module: &str) -> Frame {
    Frame {
        symbol: symbol.to_string(),
        module: module.to_string(),
        build_id: String::new(),
        offset: 0,
    }
}

fn stacks() -> Vec<Vec<Frame>> {
    (0..6)
        .map(|n| {
            let mut frames = vec![frame("main", "postgres"), frame(&format!("work_{n}"), "postgres")];
            if n % 2 == 1 {
                frames.push(frame("vfs_read", "[kernel]"));
            }
            frames
        })
        .collect()
}

fn rows_of_hour(start_s: i64, is_first: bool, numbers: &mut Numbers) -> Rows {
    let mut rows = Rows::default();
    let stacks = stacks();
    let ids: Vec<_> = stacks.iter().map(stack_id).collect();
    for frames in stacks {
        rows.stacks.push(StackRow {
            id: stack_id(&frames),
            frames,
        });
    }
    for statement in 1..=4 {
        // Described before its text was known, and again.
        for text in [String::new(), format!("SELECT {statement} FROM t")] {
            rows.statements.push(StatementRow {
                id: statement,
                text,
                ..StatementRow::default()
            });
        }
    }
    for id in (1..=4u64).filter(|_| is_first) {
        rows.sessions.push(SessionRow {
            id: SessionId(id),
            pid: 100 + id as u32,
            backend_type: if id == 4 { "checkpointer" } else { "client backend" }.into(),
            user: format!("user{id}"),
            ..SessionRow::default()
        });
    }
    for second in (start_s..start_s + HOUR_S).step_by(STEP_S as usize) {
        let time = second * 1_000_000;
        for session in (1..=4).map(SessionId) {
            add_second(&mut rows, time, session, &ids, numbers);
        }
    }
    rows
}

/// Transactions of an hour, for each client session.
fn add_transactions(rows: &mut Rows, start_s: i64) {
    for session in 1..=3u64 {
        rows.counters.push(CounterRow {
            time: start_s * 1_000_000,
            session: SessionId(session),
            source: counter::SESSION_MEMORY.into(),
            name: counter::TRANSACTIONS.into(),
            value: 1_000 + start_s / HOUR_S % 24 * 10 + session as i64,
            ..CounterRow::default()
        });
    }
}

fn add_second(
    rows: &mut Rows,
    time: i64,
    session: SessionId,
    stacks: &[dbtime_model::StackId],
    numbers: &mut Numbers,
) {
    let (class, event, idle) = WAITS[numbers.below(5) as usize];
    let statement = if idle { 0 } else { 1 + numbers.below(4) };
    let state = match class {
        "CPU" => State::User,
        "IO" => State::Disk,
        _ => State::Sleep,
    };
    let ns = 1_000_000 + numbers.below(500_000_000);
    let user_stack = if idle {
        NO_STACK
    } else {
        stacks[numbers.below(6) as usize]
    };
    rows.activity.push(ActivityRow {
        time,
        session,
        statement,
        plan: 0,
        wait_class: class.into(),
        wait_event: event.into(),
        idle,
        state,
        session_state: SessionState::None,
        kernel_stack: NO_STACK,
        user_stack,
        comment: 0,
        ns,
        count: 1,
        samples: numbers.below(3),
        fidelity: Fidelity::Exact,
        pooled: false,
    });
    for (source, name, value) in [
        (counter::KERNEL, counter::ELAPSED_NS, ns as i64),
        (
            counter::KERNEL,
            counter::ON_CPU_NS,
            numbers.below(1_000_000) as i64,
        ),
    ] {
        rows.counters.push(CounterRow {
            time,
            session,
            source: source.into(),
            name: name.into(),
            value,
            ..CounterRow::default()
        });
    }
    rows.latency.push(LatencyRow {
        time,
        session,
        kind: "wait".into(),
        name: format!("{class}:{event}").into(),
        from_ns: 1 << 20,
        to_ns: 1 << 21,
        count: 1,
        sum_ns: (1 << 20) + 1,
        max_ns: (1 << 20) + 1,
        ..LatencyRow::default()
    });
    if class == "Lock" {
        rows.causes.push(CauseRow {
            time,
            session,
            statement,
            wait_class: class.into(),
            wait_event: event.into(),
            state,
            kind: CauseKind::Session,
            chain: vec![CauseLink {
                session: SessionId(1 + session.0 % 4),
                statement: 1,
                session_state: SessionState::None,
                wait_class: "CPU".into(),
                wait_event: "CPU".into(),
                state: State::Cpu,
                kernel_stack: NO_STACK,
                user_stack: stacks[0],
            }],
            samples: 1,
        });
    }
    if class == "IO" {
        rows.held_locks.push(HeldLockRow {
            time,
            session,
            statement,
            lock: "WALWrite".into(),
            number: None,
            address: 0,
            file: "".into(),
            relation: "".into(),
            block: None,
            exclusive: true,
            mode_unknown: false,
            wait_class: class.into(),
            wait_event: event.into(),
            state,
            kernel_stack: NO_STACK,
            user_stack,
            ns: ns / 2,
            samples: 1,
            gets: 0,
        });
    }
}
