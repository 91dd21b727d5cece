//! A recording gives back what was written, whatever happened to its files in between.

use std::fs;
use std::path::Path;

use arcstr::ArcStr;
use dbtime_model::recording::{Meta, Recording, RecordingError, RecordingWriter, SCHEMA_VERSION};
use dbtime_model::{
    ActivityRow, BindSet, BoundExecution, BoundValue, Caller, CauseKind, CauseLink, CauseRow, CommentRow,
    CounterRow, Fidelity, Frame, HeldLockRow, LatencyRow, LockRow, NO_STACK, PlanStep, Rows, SessionId,
    SessionRow, SessionState, SpanRow, StackId, StackRow, State, StatementRow, SwitchRow, stack_id,
};
use proptest::prelude::*;

fn meta() -> Meta {
    Meta {
        schema: SCHEMA_VERSION.into(),
        dbtime: "test".into(),
        start_us: 1_000_000,
        end_us: 2_000_000,
        ..Meta::default()
    }
}

fn any_state() -> impl Strategy<Value = State> {
    prop::sample::select(State::ALL.to_vec())
}

prop_compose! {
    fn any_activity()(
        time in -1i64..i64::MAX / 2,
        session: u64,
        statement: u64,
        class in ".{0,12}",
        event in ".{0,24}",
        idle: bool,
        state in any_state(),
        stacks: (u64, u64),
        ns: u64,
        count: u64,
        samples: u64,
        exact: bool,
    ) -> ActivityRow {
        ActivityRow {
            time,
            session: SessionId(session),
            statement,
            plan: statement.rotate_left(7).cast_signed(),
            wait_class: class.into(),
            wait_event: event.into(),
            idle,
            state,
            kernel_stack: StackId(stacks.0),
            user_stack: StackId(stacks.1),
            comment: stacks.0 ^ 5,
            ns,
            count,
            samples,
            fidelity: if exact { Fidelity::Exact } else { Fidelity::Sampled },
            pooled: false,
            session_state: SessionState::None,
        }
    }
}

prop_compose! {
    fn any_frame()(symbol in ".{0,30}", module in ".{0,12}", build_id in "[0-9a-f]{0,40}", offset: u64) -> Frame {
        Frame { symbol, module, build_id, offset }
    }
}

prop_compose! {
    fn any_rows()(
        activity in prop::collection::vec(any_activity(), 0..40),
        stacks in prop::collection::vec(prop::collection::vec(any_frame(), 0..8), 0..10),
        texts in prop::collection::vec(".{0,40}", 0..5),
        numbers in prop::collection::vec((any::<u64>(), any::<i64>()), 0..5),
    ) -> Rows {
        Rows {
            activity,
            stacks: stacks.into_iter().map(|frames| StackRow { id: stack_id(&frames), frames }).collect(),
            statements: texts.iter().map(|text| StatementRow {
                id: text.len() as u64,
                text: text.clone(),
                is_fingerprint: text.len() % 2 == 1,
                sql_id: text.clone(),
                plan_steps: vec![PlanStep { plan: text.len() as u64, operation: text.clone(), ..PlanStep::default() }; text.len() % 3],
                callers: vec![Caller { statement: 7, calls: 1, elapsed_us: text.len() as u64 }; text.len() % 2],
                hash_value: text.len() as u64,
                user_id: Some(3),
                depth: None,
                command: Some(text.len() as u32),
                alike: text.len() as u64,
                binds: vec![BindSet { values: vec![text.clone()], executions: 2, elapsed_us: 9, rows: 1 }; text.len() % 2],
                bound_executions: vec![
                    BoundExecution {
                        time_us: -7,
                        elapsed_us: 9,
                        values: vec![BoundValue { position: 3, value: text.clone() }; text.len() % 3],
                    };
                    text.len() % 2
                ],
                bound_execution_count: text.len() as u64,
            }).collect(),
            sessions: texts.iter().map(|text| SessionRow {
                id: SessionId(text.len() as u64),
                pid: 7,
                started: 3,
                backend_type: text.clone().into(),
                user: text.clone(),
                database: text.clone(),
                client: text.clone(),
                leader_pid: 0,
                title: text.clone(),
                service: text.clone(),
                module: text.clone(),
                action: text.clone(),
                client_id: text.clone(),
                sid: text.clone(),
                application: text.clone(),
                // Not in the file.
                host: String::new(),
                server: String::new(),
            }).collect(),
            latency: numbers.iter().map(|&(n, _)| LatencyRow {
                time: 5,
                session: SessionId(n),
                kind: "wait".into(),
                statement: n ^ 5,
                plan: 0,
                name: "x".into(),
                device: "".into(),
                bytes: n,
                source: "".into(),
                file: format!("base/{n}").into(),
                relation: format!("public.t{n}").into(),
                from_ns: n,
                to_ns: n,
                count: n,
                sum_ns: n,
                max_ns: n,
                blocks: n % 129,
                min_ns: n / 2,
                stack: StackId(n ^ 3),
            }).collect(),
            counters: numbers.iter().map(|&(n, value)| CounterRow {
                time: 5,
                session: SessionId(n),
                source: "kernel".into(),
                name: "on_cpu_ns".into(),
                value,
                statement: n,
                plan: n ^ 1,
            }).collect(),
            switches: numbers.iter().map(|&(n, time_ns)| SwitchRow {
                session: SessionId(n),
                time_ns,
                cpu: n as u32,
                wait_ns: (n % 2 == 0).then_some(n),
                delay_ns: (n % 3 == 0).then_some(n),
                run_ns: (n % 5 != 0).then_some(n),
                wait_state: State::Sleep,
                wait_class: "Client".into(),
                wait_event: format!("{n}").into(),
                state: State::Runnable,
                waker: String::new(),
                migrated: n % 2 == 0,
                priority: (n % 7 == 0).then_some(-1),
                statement: n,
                wait_statement: n ^ 1,
            }).collect(),
            spans: numbers.iter().map(|&(n, start_ns)| SpanRow {
                session: SessionId(n),
                kind: "function".into(),
                name: format!("{n}"),
                stack: StackId(n),
                call: n,
                depth: 3,
                start_ns,
                ns: n,
                state: State::Kernel,
                statement: n ^ 1,
            }).collect(),
            causes: texts.iter().map(|text| CauseRow {
                time: 5,
                session: SessionId(3),
                statement: 8,
                wait_class: text.clone().into(),
                wait_event: text.clone().into(),
                state: State::Sleep,
                kind: if text.is_empty() { CauseKind::Unknown } else { CauseKind::Client },
                chain: vec![
                    CauseLink {
                        session: SessionId(4),
                        statement: 9,
                        session_state: SessionState::IdleInTransaction,
                        wait_class: text.clone().into(),
                        wait_event: text.clone().into(),
                        state: State::Cpu,
                        kernel_stack: StackId(12),
                        user_stack: StackId(13),
                    };
                    text.len() % 3
                ],
                samples: 11,
            }).collect(),
            held_locks: texts.iter().map(|text| HeldLockRow {
                time: 5,
                session: SessionId(3),
                statement: 8,
                lock: text.clone().into(),
                number: (text.len() % 2 == 0).then_some(text.len() as u32),
                address: u64::MAX,
                file: ArcStr::new(),
                relation: ArcStr::new(),
                block: None,
                exclusive: text.len() % 3 == 0,
                mode_unknown: text.len() % 3 == 1,
                wait_class: text.clone().into(),
                wait_event: text.clone().into(),
                state: State::Disk,
                kernel_stack: StackId(12),
                user_stack: StackId(13),
                ns: 14,
                samples: 15,
                gets: 16,
            }).collect(),
            locks: texts.iter().map(|text| LockRow {
                time: 5,
                session: SessionId(3),
                pid: 4,
                prepared: (text.len() % 2 == 0).then_some(5),
                statement: 8,
                session_state: SessionState::IdleInTransaction,
                kind: text.clone().into(),
                database: (text.len() % 3 == 0).then_some(u32::MAX),
                relation: (text.len() % 3 == 1).then_some(6),
                page: (text.len() % 3 == 2).then_some(7),
                tuple: (text.len() % 5 == 0).then_some(8),
                relation_name: text.clone(),
                virtualxid: text.clone(),
                transactionid: (text.len() % 5 == 1).then_some(9),
                classid: (text.len() % 5 == 2).then_some(10),
                objid: (text.len() % 5 == 3).then_some(11),
                objsubid: (text.len() % 5 == 4).then_some(12),
                mode: text.clone().into(),
                granted: text.len() % 2 == 1,
                fast_path: text.len() % 3 == 1,
                ns: 14,
                looks: 15,
                longest_ns: 16,
            }).collect(),
            comments: texts.iter().map(|text| CommentRow {
                id: text.len() as u64,
                trace_id: text.clone(),
                span_id: text.clone(),
                application: text.clone(),
                controller: text.clone(),
                action: text.clone(),
                route: text.clone(),
            }).collect(),
        }
    }
}

fn read_all(recording: &Recording) -> Rows {
    let mut rows = Rows::default();
    let mut problems = vec![];
    problems.extend(recording.read(|batch| rows.activity.extend(batch)));
    problems.extend(recording.read(|batch| rows.latency.extend(batch)));
    problems.extend(recording.read(|batch| rows.counters.extend(batch)));
    problems.extend(recording.read(|batch| rows.sessions.extend(batch)));
    problems.extend(recording.read(|batch| rows.stacks.extend(batch)));
    problems.extend(recording.read(|batch| rows.statements.extend(batch)));
    problems.extend(recording.read(|batch| rows.spans.extend(batch)));
    problems.extend(recording.read(|batch| rows.switches.extend(batch)));
    problems.extend(recording.read(|batch| rows.causes.extend(batch)));
    problems.extend(recording.read(|batch| rows.held_locks.extend(batch)));
    problems.extend(recording.read(|batch| rows.locks.extend(batch)));
    problems.extend(recording.read(|batch| rows.comments.extend(batch)));
    assert!(problems.is_empty(), "{problems:?}");
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rows_in_are_rows_out(segments in prop::collection::vec(any_rows(), 0..4)) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("r.dbt");
        let mut writer = RecordingWriter::create(&path, meta()).unwrap();
        let mut all = Rows::default();
        for rows in segments {
            writer.write(&rows).unwrap();
            all.activity.extend(rows.activity);
            all.latency.extend(rows.latency);
            all.counters.extend(rows.counters);
            all.sessions.extend(rows.sessions);
            all.stacks.extend(rows.stacks);
            all.statements.extend(rows.statements);
            all.spans.extend(rows.spans);
            all.switches.extend(rows.switches);
            all.causes.extend(rows.causes);
            all.held_locks.extend(rows.held_locks);
            all.locks.extend(rows.locks);
            all.comments.extend(rows.comments);
        }
        writer.finish().unwrap();
        let recording = Recording::open(&path).unwrap();
        prop_assert!(recording.meta().complete);
        prop_assert_eq!(read_all(&recording), all);
    }

    #[test]
    fn a_stack_is_its_frames(a in prop::collection::vec(any_frame(), 0..5), b in prop::collection::vec(any_frame(), 0..5)) {
        prop_assert_eq!(a == b, stack_id(&a) == stack_id(&b));
        prop_assert_eq!(a.is_empty(), stack_id(&a) == NO_STACK);
    }
}

fn some_activity(n: u64) -> Rows {
    let row = ActivityRow {
        time: 1,
        session: SessionId(1),
        statement: 0,
        plan: 0,
        wait_class: "IO".into(),
        wait_event: "DataFileRead".into(),
        idle: false,
        state: State::Disk,
        kernel_stack: NO_STACK,
        user_stack: NO_STACK,
        comment: 0,
        ns: n,
        count: 0,
        samples: 1,
        fidelity: Fidelity::Sampled,
        pooled: false,
        session_state: SessionState::None,
    };
    Rows {
        activity: vec![row; 3],
        ..Rows::default()
    }
}

fn three_segments(home: &Path) -> std::path::PathBuf {
    let path = home.join("r.dbt");
    let mut writer = RecordingWriter::create(&path, meta()).unwrap();
    for n in 1..=3 {
        writer.write(&some_activity(n)).unwrap();
    }
    path
}

/// Sum of `ns`, and what the reader complained about.
fn sum(path: &Path) -> (u64, String) {
    let recording = Recording::open(path).unwrap();
    let mut sum = 0;
    let problems = recording.read::<ActivityRow>(|rows| sum += rows.iter().map(|r| r.ns).sum::<u64>());
    (sum, problems.into_iter().map(|p| p.0 + "\n").collect())
}

#[test]
fn an_abandoned_recording_reads_up_to_its_last_segment() {
    let home = tempfile::tempdir().unwrap();
    let path = three_segments(home.path());
    // What a killed writer leaves: an open temporary file and a segment that meta.json does not name yet.
    fs::write(path.join("activity/000004.tmp"), b"PAR1 half").unwrap();
    fs::copy(
        path.join("activity/000003.parquet"),
        path.join("activity/000004.parquet"),
    )
    .unwrap();
    assert_eq!(sum(&path), (18, String::new()));
    assert!(!Recording::open(&path).unwrap().meta().complete);
}

#[test]
fn a_segment_cut_anywhere_costs_that_segment_and_is_named() {
    let home = tempfile::tempdir().unwrap();
    let path = three_segments(home.path());
    let victim = path.join("activity/000002.parquet");
    let whole = fs::read(&victim).unwrap();
    for cut in 0..whole.len() {
        fs::write(&victim, &whole[..cut]).unwrap();
        let (ns, problems) = sum(&path);
        assert_eq!(ns, 12, "cut at {cut}");
        assert!(problems.contains("000002.parquet"), "{problems}");
        assert!(problems.contains("6 of 9 rows"), "{problems}");
    }
}

#[test]
fn a_missing_segment_is_noticed() {
    let home = tempfile::tempdir().unwrap();
    let path = three_segments(home.path());
    fs::remove_file(path.join("activity/000001.parquet")).unwrap();
    let (ns, problems) = sum(&path);
    assert_eq!(ns, 15);
    assert!(problems.contains("6 of 9 rows"), "{problems}");
}

#[test]
fn a_foreign_segment_is_named_and_left_out() {
    let home = tempfile::tempdir().unwrap();
    let path = three_segments(home.path());
    let mut other = RecordingWriter::create(&home.path().join("o.dbt"), meta()).unwrap();
    let stack = vec![Frame {
        symbol: "f".into(),
        module: "m".into(),
        build_id: String::new(),
        offset: 1,
    }];
    other
        .write(&Rows {
            stacks: vec![StackRow {
                id: stack_id(&stack),
                frames: stack,
            }],
            ..Rows::default()
        })
        .unwrap();
    fs::copy(
        home.path().join("o.dbt/stacks/000001.parquet"),
        path.join("activity/000002.parquet"),
    )
    .unwrap();
    let (ns, problems) = sum(&path);
    assert_eq!(ns, 12);
    assert!(
        problems.contains("not a segment of the table activity"),
        "{problems}"
    );
}

#[test]
fn nothing_is_overwritten() {
    let home = tempfile::tempdir().unwrap();
    let path = three_segments(home.path());
    assert!(matches!(
        RecordingWriter::create(&path, meta()),
        Err(RecordingError::Exists(_))
    ));
    assert_eq!(sum(&path).0, 18);
}

#[test]
fn only_the_owner_may_read_a_recording() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let path = three_segments(home.path());
    let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("activity")), 0o700);
    assert_eq!(mode(&path.join("activity/000001.parquet")), 0o600);
    assert_eq!(mode(&path.join("meta.json")), 0o600);
}

#[test]
fn what_is_no_recording_says_so() {
    let home = tempfile::tempdir().unwrap();
    let open = |p: &Path| Recording::open(p).unwrap_err().to_string();
    assert!(open(&home.path().join("absent.dbt")).contains("absent.dbt: No such file"));
    assert!(open(home.path()).contains("not a recording of dbtime"));
    fs::write(home.path().join("meta.json"), "{\"schema\": 3").unwrap();
    assert!(open(home.path()).contains("meta.json"));
    fs::write(home.path().join("meta.json"), "{}").unwrap();
    assert!(open(home.path()).contains("no field 'schema'"));
}

#[test]
fn a_newer_minor_version_is_read_and_a_newer_major_version_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = three_segments(home.path());
    let rewrite = |version: &str| {
        let text = fs::read_to_string(path.join("meta.json")).unwrap();
        let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["schema"] = version.into();
        json["something_new"] = 1.into();
        fs::write(path.join("meta.json"), json.to_string()).unwrap();
    };
    rewrite("1.99");
    assert_eq!(sum(&path), (18, String::new()));
    rewrite("2.0");
    assert!(
        Recording::open(&path)
            .unwrap_err()
            .to_string()
            .contains("schema version 2.0")
    );
}

/// A segment of stacks with dictionaries, as a recording has.
fn some_stacks() -> Rows {
    let frame = |n: u64| Frame {
        symbol: format!("function_{n}"),
        module: ["postgres", "libc.so.6", "[kernel]"][n as usize % 3].into(),
        build_id: format!("{:040x}", n % 3),
        offset: n * 64,
    };
    let stacks = (0..40u64).map(|n| {
        (0..n % 9 + 1)
            .map(|depth| frame(n * depth % 13))
            .collect::<Vec<_>>()
    });
    Rows {
        stacks: stacks
            .map(|frames| StackRow {
                id: stack_id(&frames),
                frames,
            })
            .collect(),
        ..Rows::default()
    }
}

#[test]
fn a_wrong_byte_anywhere_costs_its_segment_at_most_and_never_the_reader() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("r.dbt");
    let mut writer = RecordingWriter::create(&path, meta()).unwrap();
    writer.write(&some_stacks()).unwrap();
    writer.write(&some_stacks()).unwrap();
    let all = 2 * some_stacks().stacks.len();
    let victim = path.join("stacks/000001.parquet");
    let whole = fs::read(&victim).unwrap();
    let mut named = 0;
    for at in 0..whole.len() {
        for wrong in [0x01, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= wrong;
            fs::write(&victim, &bytes).unwrap();
            let recording = Recording::open(&path).unwrap();
            let mut found = 0;
            let problems = recording.read::<StackRow>(|rows| found += rows.len());
            assert!(found >= all / 2, "byte {at}: the other segment is read");
            if !problems.is_empty() {
                named += 1;
                assert!(
                    problems[0].0.contains("stacks/000001.parquet"),
                    "byte {at}: {problems:?}"
                );
            } else {
                assert_eq!(found, all, "byte {at}");
            }
        }
    }
    // What Arrow says about its own types is not read: damage there goes unnoticed.
    let said = 2 * whole.len();
    assert!(named > said / 3, "{named} of {said} are noticed");
}

#[test]
fn stacks_that_take_many_pages_are_read_in_order() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("r.dbt");
    let mut writer = RecordingWriter::create(&path, meta()).unwrap();
    let stacks: Vec<StackRow> = (0..50_000u64)
        .map(|n| {
            let frames: Vec<Frame> = (0..n % 40)
                .map(|depth| Frame {
                    symbol: format!("f{}", n * depth % 7_919),
                    module: "m".into(),
                    build_id: String::new(),
                    offset: n,
                })
                .collect();
            StackRow {
                id: StackId(n),
                frames,
            }
        })
        .collect();
    let rows = Rows {
        stacks: stacks.clone(),
        ..Rows::default()
    };
    // So many segments that they are read in parallel.
    for _ in 0..20 {
        writer.write(&rows).unwrap();
    }
    let recording = Recording::open(&path).unwrap();
    let mut found = 0;
    let problems = recording.read::<StackRow>(|batch| {
        for row in batch {
            assert_eq!(row, stacks[found % stacks.len()], "row {found}");
            found += 1;
        }
    });
    assert_eq!((found, problems), (20 * stacks.len(), vec![]));
}

#[test]
fn what_is_said_of_a_recording_is_bounded() {
    let home = tempfile::tempdir().unwrap();
    let path = three_segments(home.path());
    let text = fs::read_to_string(path.join("meta.json")).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["database"]["version"] = "9".repeat(10_000_000).into();
    fs::write(path.join("meta.json"), json.to_string()).unwrap();
    let version = Recording::open(&path).unwrap().meta().database.version.clone();
    assert_eq!(version.chars().count(), 4_097);
    // One that would not fit into memory.
    let long = fs::File::create(path.join("meta.json")).unwrap();
    long.set_len(1 << 40).unwrap();
    let error = Recording::open(&path).unwrap_err().to_string();
    assert!(error.contains("longer than 64 MB"), "{error}");
}
