//! A recording made by hand, of everything that a page tells apart.

use std::path::PathBuf;

use dbtime_model::latency::{bounds_of, bucket_of, kind};
use dbtime_model::recording::{Meta, RecordingWriter, SCHEMA_VERSION};
use dbtime_model::{
    ActivityRow, CauseKind, CauseLink, CauseRow, Fidelity, Frame, LatencyRow, LockRow, NO_STACK, Rows,
    SessionId, SessionRow, SessionState, StackRow, State, StateGroup, StatementRow, stack_id,
};
use dbtime_tests::dbtime;
use tempfile::TempDir;

use super::browser::plain;

pub(super) const BEGIN_US: i64 = 1_750_000_000_000_000;
pub(super) const SECONDS: i64 = 20;

/// Ends elements and strings, runs scripts, reorders lines, hides.
pub(super) const HOSTILE: &str = "</script><script>window.ran=1;alert(1)</script><img src=x onerror=alert(2)>'\"`&;${alert(3)}<!--\u{202e}\u{2028}\u{2029}\u{0}\u{feff}";

/// Numbers that look like chance, and are the same every time.
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

pub(super) fn frame(symbol: &str, module: &str) -> Frame {
    Frame {
        symbol: symbol.to_string(),
        module: module.to_string(),
        build_id: String::new(),
        offset: 16,
    }
}

/// A recording of everything that a ledger tells apart: sessions of clients and of the server, idle waits with and without a CPU, in
/// transactions, waits that are not known, states, pooled and exact rows, stacks of both sides. `word` is in all names.
pub(super) fn recording(home: &TempDir, word: &str) -> PathBuf {
    slower_recording(home, word, 1)
}

/// A page of two of them, of which the second one has four times as much time in I/O; in a folder each.
pub(super) fn page_of_two(homes: &[TempDir; 2]) -> (PathBuf, [PathBuf; 2]) {
    let [good, bad] = [(&homes[0], 1), (&homes[1], 4)].map(|(home, times)| slower_recording(home, "", times));
    let page = homes[0].path().join("both.html");
    dbtime(&["html", plain(&good), plain(&bad), "-o", plain(&page)]).expect_code(0);
    (page, [good, bad])
}

/// The same with so many times as much time in I/O.
pub(super) fn slower_recording(home: &TempDir, word: &str, times: u64) -> PathBuf {
    let path = home.path().join("made.dbt");
    let mut meta = Meta {
        schema: SCHEMA_VERSION.to_string(),
        start_us: BEGIN_US,
        end_us: BEGIN_US + SECONDS * 1_000_000,
        complete: true,
        ..Meta::default()
    };
    meta.database.product = format!("PostgreSQL{word}");
    meta.database.version = "17.1".to_string();
    meta.host.name = format!("host{word}");
    meta.host.cpus = 2;
    meta.collector.rate_hz = 99;
    meta.collector.tier = "sampled".to_string();
    meta.database.locks = true;
    let mut rows = Rows::default();
    let mut user_stacks = vec![NO_STACK];
    let mut kernel_stacks = vec![NO_STACK];
    for n in 0..6 {
        let user = vec![
            frame("main", "postgres"),
            frame("PostmasterMain", "postgres"),
            frame(&format!("exec_{}{word}", n % 3), "postgres"),
            frame(if n == 5 { "" } else { "read_page" }, "postgres"),
        ];
        let kernel = vec![
            frame("entry_SYSCALL_64", "[kernel]"),
            frame(&format!("vfs_{n}{word}"), "[kernel]"),
            frame(if n == 4 { "preempt_schedule" } else { "copy_page" }, "[kernel]"),
        ];
        for (frames, ids) in [(user, &mut user_stacks), (kernel, &mut kernel_stacks)] {
            let id = stack_id(&frames);
            ids.push(id);
            rows.stacks.push(StackRow { id, frames });
        }
    }
    let kinds = [
        "client backend",
        "client backend",
        "parallel worker",
        "checkpointer",
        "client backend",
        "unknown",
    ];
    for (n, kind) in kinds.iter().enumerate() {
        rows.sessions.push(SessionRow {
            id: SessionId(n as u64 + 1),
            pid: 100 + n as u32,
            backend_type: (*kind).into(),
            user: if n == 3 {
                String::new()
            } else {
                format!("user{}{word}", n % 2)
            },
            database: format!("db{}{word}", n % 3),
            application: format!("app{n}{word}"),
            client: "[local]".to_string(),
            title: word.to_string(),
            ..SessionRow::default()
        });
    }
    for id in 1..5u64 {
        rows.statements.push(StatementRow {
            id: id.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            text: if id == 4 {
                String::new()
            } else {
                format!("select {id} {}", word.repeat(40))
            },
            ..StatementRow::default()
        });
    }
    let waits = [
        ("CPU".to_string(), "CPU".to_string(), false),
        ("IO".to_string(), format!("DataFileRead{word}"), false),
        ("Lock".to_string(), "transactionid".to_string(), false),
        ("Client".to_string(), "ClientRead".to_string(), true),
        ("unknown".to_string(), "not sampled".to_string(), false),
        ("Activity".to_string(), "CheckpointerMain".to_string(), true),
    ];
    let mut chance = Chance(7);
    for second in 0..SECONDS {
        // Nobody was there.
        if (8..11).contains(&second) {
            continue;
        }
        for _ in 0..60 {
            let (wait_class, wait_event, idle) = waits[chance.below(6) as usize].clone();
            let times = if wait_class == "IO" { times } else { 1 };
            let sampled = chance.below(3) > 0;
            rows.activity.push(ActivityRow {
                time: BEGIN_US + second * 1_000_000,
                session: SessionId(chance.below(6) + 1),
                statement: match (idle, chance.below(5)) {
                    (true, _) | (_, 0) => 0,
                    (_, id) => id.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                },
                plan: 0,
                wait_class: wait_class.into(),
                wait_event: wait_event.into(),
                idle,
                state: State::ALL[chance.below(8) as usize],
                session_state: SessionState::ALL[chance.below(8) as usize],
                kernel_stack: kernel_stacks[chance.below(7) as usize],
                user_stack: user_stacks[chance.below(7) as usize],
                comment: 0,
                ns: times * (chance.below(40_000_000) + 1),
                count: 0,
                samples: if sampled { 1 + chance.below(3) } else { 0 },
                fidelity: if sampled {
                    Fidelity::Sampled
                } else {
                    Fidelity::Exact
                },
                pooled: chance.below(9) == 0,
            });
        }
    }
    follow(&mut rows);
    look_at_locks(&mut rows, word);
    time_events(&mut rows, word);
    let mut writer = RecordingWriter::create(&path, meta).expect("a new directory");
    writer.write(&rows).expect("there is room");
    writer.finish().expect("there is room");
    path
}

/// Adds whom most of the blocked sessions waited for, in chains of up to three.
pub(super) fn follow(rows: &mut Rows) {
    let mut chance = Chance(13);
    let blocked: Vec<ActivityRow> = rows
        .activity
        .iter()
        .filter(|row| row.state.group() == Some(StateGroup::Blocked))
        .cloned()
        .collect();
    for row in &blocked {
        for _ in 0..chance.below(3) {
            let chain = (0..chance.below(4)).map(|_| {
                let other = &blocked[chance.below(blocked.len() as u64) as usize];
                CauseLink {
                    session: other.session,
                    statement: other.statement,
                    session_state: other.session_state,
                    wait_class: other.wait_class.clone(),
                    wait_event: other.wait_event.clone(),
                    state: [State::Cpu, State::Runnable, other.state][chance.below(3) as usize],
                    kernel_stack: other.kernel_stack,
                    user_stack: other.user_stack,
                }
            });
            rows.causes.push(CauseRow {
                time: row.time,
                session: row.session,
                statement: row.statement,
                wait_class: row.wait_class.clone(),
                wait_event: row.wait_event.clone(),
                state: row.state,
                chain: chain.collect(),
                kind: CauseKind::ALL[chance.below(CauseKind::ALL.len() as u64) as usize],
                samples: 1 + chance.below(5),
            });
        }
    }
}

/// Adds what looks at the lock table found: for waits for a transaction which one, and the row that it had changed. Some of them stand for
/// less time than was waited, others for more.
fn look_at_locks(rows: &mut Rows, word: &str) {
    let mut chance = Chance(17);
    for row in rows.activity.iter().filter(|row| row.wait_class == "Lock") {
        if chance.below(4) == 0 {
            continue;
        }
        // Every few seconds another one: in a second there is one row.
        let transaction = ((row.time - BEGIN_US) / 7_000_000) as u32;
        let look = LockRow {
            time: row.time,
            session: row.session,
            statement: row.statement,
            ns: row.ns / 2 + chance.below(row.ns),
            looks: 1,
            longest_ns: 60_000_000_000,
            ..LockRow::default()
        };
        rows.locks.push(LockRow {
            kind: row.wait_event.clone(),
            transactionid: Some(700 + transaction),
            mode: "ShareLock".into(),
            ..look.clone()
        });
        rows.locks.push(LockRow {
            kind: "tuple".into(),
            database: Some(5 + (row.session.0 as u32 - 1) % 3),
            relation: Some(16_390),
            relation_name: format!("public.orders{word}"),
            page: Some(4),
            tuple: Some(transaction),
            mode: "ExclusiveLock".into(),
            granted: true,
            ..look
        });
    }
}

/// What is measured in the recording: kind, name, device, source.
pub(super) fn series(word: &str) -> Vec<[String; 4]> {
    let wait = format!("IO:DataFileRead{word}");
    let mut series: Vec<[&str; 4]> = vec![
        [kind::COMMAND, "", "", ""],
        [kind::WAIT, "Lock:transactionid", "", ""],
        [kind::WAIT, &wait, "", ""],
        [kind::SYSCALL, "pread64", "", ""],
        [kind::SYSCALL, "recvfrom", "", ""],
    ];
    for source in ["page cache", "device", "readahead"] {
        series.push([kind::READ, &wait, "", source]);
        series.push([kind::READ, "CPU", "", source]);
    }
    for device in ["sda", "nvme0n1"] {
        series.push([kind::BLOCK, "read", device, ""]);
        series.push([kind::BLOCK, "write", device, ""]);
    }
    series.iter().map(|one| one.map(str::to_string)).collect()
}

/// Adds latencies of every kind of name: from nanoseconds to seconds, of sessions and of none.
pub(super) fn time_events(rows: &mut Rows, word: &str) {
    let mut chance = Chance(17);
    for (second, [kind, name, device, source]) in (0..SECONDS)
        .filter(|second| !(8..11).contains(second))
        .flat_map(|second| series(word).into_iter().map(move |one| (second, one)))
    {
        for _ in 0..1 + chance.below(6) {
            let ns = (1 << chance.below(32)) + chance.below(1_000);
            let (from_ns, to_ns) = bounds_of(bucket_of(ns));
            let count = 1 + chance.below(4);
            rows.latency.push(LatencyRow {
                time: BEGIN_US + second * 1_000_000,
                session: SessionId(chance.below(7)),
                kind: kind.as_str().into(),
                statement: match kind == kind::COMMAND {
                    true => chance.below(3).wrapping_mul(0x9e37_79b9_7f4a_7c15),
                    false => 0,
                },
                name: name.as_str().into(),
                device: device.as_str().into(),
                source: source.as_str().into(),
                from_ns,
                to_ns,
                count,
                sum_ns: ns * count,
                max_ns: ns,
                ..LatencyRow::default()
            });
        }
    }
}
