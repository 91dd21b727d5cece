//! Recordings and files made to do harm: they get a clear message, do nothing to the terminal, and cost no memory or time.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dbtime_model::recording::{Meta, RecordingWriter, SCHEMA_VERSION};
use dbtime_model::{
    ActivityRow, Caller, CounterRow, Fidelity, LatencyRow, NO_STACK, PlanStep, Rows, SessionId, SessionRow,
    SpanRow, StackId, StackRow, State, StatementRow, SwitchRow,
};
use dbtime_tests::{Outcome, dbtime_binary, dbtime_with_memory};
use tempfile::TempDir;

/// Moves the cursor, begins an escape sequence, reorders a line, hides in it, ends a script, adds a line of its own, is not a name.
const HOSTILE: &str = "\u{1b}[2J\u{9b}31m\u{202e}\u{61c}\u{ad}\u{180e}\u{fff9}\u{fffb}\u{1d173}\u{e0001}\u{e0041}</script>\
                       <script>alert(1)</script>\r\nforged\u{2028}'\"&;\u{7f}";

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// The command, which must come to an end by itself.
fn in_time(arguments: &[&str]) -> Outcome {
    Command::new("timeout")
        .arg("60")
        .arg(dbtime_binary())
        .args(arguments)
        .output()
        .expect("timeout can be run")
        .into()
}

fn activity(kernel_stack: StackId) -> ActivityRow {
    ActivityRow {
        time: 1_750_000_000_000_000,
        session: SessionId(1),
        statement: 1,
        plan: 0,
        wait_class: "IO".into(),
        wait_event: HOSTILE.into(),
        idle: false,
        state: State::Kernel,
        kernel_stack,
        user_stack: NO_STACK,
        comment: 0,
        ns: 1_000_000_000,
        count: 0,
        samples: 99,
        fidelity: Fidelity::Sampled,
        pooled: false,
        session_state: dbtime_model::SessionState::None,
    }
}

/// A recording whose every text is hostile, with these rows added.
fn recording(home: &TempDir, name: &str, product: &str, more: Rows) -> PathBuf {
    let path = home.path().join(name);
    let mut meta = Meta {
        schema: SCHEMA_VERSION.to_string(),
        start_us: 1_750_000_000_000_000,
        end_us: 1_750_000_002_000_000,
        ..Meta::default()
    };
    meta.database.product = format!("{product}{HOSTILE}");
    meta.database.version = HOSTILE.repeat(200);
    meta.database.target = HOSTILE.to_string();
    meta.host.name = format!("{name}{HOSTILE}");
    meta.host.kernel = HOSTILE.to_string();
    let frames = vec![dbtime_model::Frame {
        symbol: HOSTILE.to_string(),
        module: HOSTILE.to_string(),
        build_id: String::new(),
        offset: 1,
    }];
    let id = dbtime_model::stack_id(&frames);
    let mut rows = Rows {
        activity: vec![activity(id); 3],
        stacks: vec![StackRow { id, frames }],
        sessions: vec![SessionRow {
            id: SessionId(1),
            pid: 7,
            backend_type: "client backend".into(),
            user: HOSTILE.to_string(),
            database: HOSTILE.to_string(),
            client: HOSTILE.to_string(),
            title: HOSTILE.repeat(200),
            module: HOSTILE.to_string(),
            ..SessionRow::default()
        }],
        ..Rows::default()
    };
    rows.append(more);
    let mut writer = RecordingWriter::create(&path, meta).expect("a new directory");
    writer.write(&rows).expect("there is room");
    writer.finish().expect("there is room");
    path
}

/// Asserts that a terminal or a reader takes nothing in it for something else. Categories of characters are those of Python's tables.
fn is_harmless(what: &str, text: &str) {
    const LOOK: &str = "import sys, unicodedata\n\
                        for c in sorted(set(sys.stdin.buffer.read().decode('utf-8')) - {'\\n'}):\n    \
                            if unicodedata.category(c) in ('Cc', 'Cf', 'Zl', 'Zp', 'Cs'): print('U+%04X' % ord(c))";
    let mut python = Command::new("python3")
        .args(["-c", LOOK])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let mut input = python.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("it reads all of it");
    drop(input);
    let found = python.wait_with_output().expect("it ends");
    assert!(found.status.success());
    let found = String::from_utf8_lossy(&found.stdout).replace('\n', " ");
    assert!(found.is_empty(), "{what}: {found}in\n{text}");
    assert!(
        !text.lines().any(|line| line.starts_with("forged")),
        "{what}: a line of somebody else's in\n{text}"
    );
}

#[test]
fn hostile_texts_do_nothing_in_any_output() {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let good = recording(&home, "good.dbt", "one", Rows::default());
    let bad = recording(&home, "bad.dbt", "other", Rows::default());
    let (good, bad) = (plain(&good), plain(&bad));
    for arguments in [
        vec!["report", good],
        vec!["report", good, "--format", "json"],
        vec!["report", good, "--by", "user,database,client,program,module"],
        vec!["report", good, "--stacks"],
        vec!["report", good, "--tree"],
        vec!["report", good, "--functions", "--format", "json"],
        vec!["report", good, "--session", "8"],
        vec!["report", good, "--timeline", "--by", "user"],
        vec!["report", good, "--timeline", "--by", "client", "--format", "json"],
        vec!["flame", good, "-o", "-"],
        vec!["diff", good, bad],
        vec!["diff", good, bad, "--force"],
        vec!["diff", good, bad, "--force", "--format", "json"],
        vec!["report", "--compare", good, bad],
    ] {
        let outcome = in_time(&arguments);
        is_harmless(&arguments.join(" "), &outcome.stdout);
        is_harmless(&arguments.join(" "), &outcome.stderr);
        assert!([0, 1, 3].contains(&outcome.code), "{arguments:?}: {outcome:#?}");
    }
    for (command, ending) in [
        (&["flame", good][..], "svg"),
        (&["flame", good], "folded"),
        (&["flame", good], "speedscope.json"),
        (&["report", good, "--timeline", "--by", "user"], "svg"),
    ] {
        let output = home.path().join(format!("out.{ending}"));
        in_time(&[command, &["-o", plain(&output)]].concat()).expect_code(0);
        let text = fs::read_to_string(&output).expect("it was written");
        is_harmless(ending, &text);
        assert!(ending != "svg" || !text.contains("<script>alert"), "{text}");
    }
}

#[test]
fn lines_that_are_not_understood_reach_no_terminal() {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let file = home.path().join("classic.txt");
    let sample = "f+0x1/0x2\n0xffffffffffffffff\nState:\tR (running)\n\nevent#=158 (Oracle state)\n1\n\n";
    fs::write(
        &file,
        format!(
            "{}\u{1b}]0;owned\u{7} \u{9b}2J\u{202e} what\n{sample}",
            sample.repeat(9)
        ),
    )
    .expect("room");
    let output = home.path().join("x.dbt");
    for arguments in [
        vec!["import", plain(&file), "-o", plain(&output)],
        vec!["report", plain(&file)],
    ] {
        let outcome = in_time(&arguments);
        is_harmless("import", &outcome.stderr);
        is_harmless("import", &outcome.stdout);
    }
}

#[test]
fn what_is_no_file_is_not_read_and_nobody_waits_for_it() {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    for name in ["meta.json", "activity/000001.parquet", "stacks/000001.parquet"] {
        for kind in ["fifo", "zero"] {
            let path = recording(
                &home,
                &format!("{kind}-{}.dbt", name.replace('/', "-")),
                "p",
                Rows::default(),
            );
            let file = path.join(name);
            fs::remove_file(&file).expect("it is there");
            match kind {
                "fifo" => assert!(
                    Command::new("mkfifo")
                        .arg(&file)
                        .status()
                        .expect("mkfifo")
                        .success()
                ),
                _ => std::os::unix::fs::symlink("/dev/zero", &file).expect("room"),
            }
            let outcome = in_time(&["report", plain(&path), "--format", "json"]);
            assert!([0, 1, 3].contains(&outcome.code), "{name}: {outcome:#?}");
            let said = outcome.stdout + &outcome.stderr;
            assert!(said.contains("not a file, but"), "{name}: {said}");
        }
    }
}

/// A few KB on disk that become 400 MB in memory, in parts none of which is too large by itself.
#[test]
fn what_needs_more_memory_than_allowed_says_so() {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let bomb = recording(&home, "bomb.dbt", "p", statements(40, 10 << 20));
    assert!(statements_file(&bomb) < 1 << 20);
    for command in [
        vec!["report", plain(&bomb)],
        vec!["flame", plain(&bomb), "-o", "-"],
    ] {
        let arguments = [command, vec!["--max-memory", "128M"]].concat();
        in_time(&arguments)
            .expect_code(1)
            .expect_stderr(&["128 MB", "--max-memory"]);
    }
}

/// A page of it is larger than any that dbtime writes: nothing of it is decompressed.
#[test]
fn a_bomb_costs_its_segment_and_the_rest_is_reported() {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let bomb = recording(&home, "bomb.dbt", "p", statements(1, 200 << 20));
    assert!(statements_file(&bomb) < 1 << 20);
    let report = in_time(&["report", plain(&bomb), "--format", "json", "--max-memory", "64M"]).expect_code(0);
    let report: serde_json::Value = serde_json::from_str(&report.stdout).expect("JSON");
    assert_eq!(report["db_time_ns"], 3_000_000_000u64, "{report:#}");
    let problems = report["quality"]["problems"].to_string();
    assert!(
        problems.contains("statements/000001.parquet") && problems.contains("a page of 200 MB"),
        "{problems}"
    );
}

/// What a process uses beyond its bound: its program, and what it keeps before it reads anything.
const BESIDE: u64 = 64 << 20;

/// Segments are read by several threads: whatever they all do at once is within the one bound.
#[test]
fn bombs_side_by_side_have_one_bound_of_memory() {
    const SEGMENTS: usize = 8;
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let segments = |name: &str, rows: Rows| {
        let bomb = recording(&home, name, "p", rows);
        for n in 2..=SEGMENTS {
            for table in ["statements", "activity"] {
                let folder = bomb.join(table);
                fs::copy(
                    folder.join("000001.parquet"),
                    folder.join(format!("{n:06}.parquet")),
                )
                .expect("room");
            }
        }
        let meta = bomb.join("meta.json");
        let text = fs::read_to_string(&meta).expect("it was written");
        assert!(text.contains("\"last\": 1"), "{text}");
        let text = text.replace("\"last\": 1", &format!("\"last\": {SEGMENTS}"));
        fs::write(&meta, text).expect("room");
        bomb
    };
    // Pages that are never decompressed: each costs its segment, and everything else is reported.
    let refused = segments("refused.dbt", statements(1, 200 << 20));
    let arguments = [
        "report",
        plain(&refused),
        "--format",
        "json",
        "--max-memory",
        "64M",
    ];
    let (outcome, memory) = dbtime_with_memory(&arguments);
    let report: serde_json::Value = serde_json::from_str(&outcome.expect_code(0).stdout).expect("JSON");
    assert_eq!(
        report["db_time_ns"],
        SEGMENTS as u64 * 3_000_000_000,
        "{report:#}"
    );
    let problems = report["quality"]["problems"].to_string();
    assert_eq!(
        problems.matches("a page of 200 MB").count(),
        SEGMENTS,
        "{problems}"
    );
    assert!(memory < (64 << 20) + BESIDE, "{memory} bytes");
    // Pages that are allowed, 240 MB in each segment: they fit or do not, depending on the order in which threads get to them.
    let allowed = segments("allowed.dbt", statements(4, 60 << 20));
    for most in [128, 512] {
        let bound = format!("{most}M");
        let (outcome, memory) = dbtime_with_memory(&["report", plain(&allowed), "--max-memory", &bound]);
        assert!(memory < (most << 20) + BESIDE, "{most} MB: {memory} bytes");
        if most == 128 || outcome.code != 0 {
            outcome
                .expect_code(1)
                .expect_stderr(&[&format!("more than {most} MB"), "--max-memory"]);
        }
    }
}

fn statements(count: u64, bytes: usize) -> Rows {
    let statement = |n| StatementRow {
        id: n,
        text: format!("{n} {}", "x".repeat(bytes)),
        ..StatementRow::default()
    };
    Rows {
        statements: (0..count).map(statement).collect(),
        ..Rows::default()
    }
}

/// Bytes on the disk.
fn statements_file(recording: &Path) -> u64 {
    fs::metadata(recording.join("statements/000001.parquet"))
        .expect("it is there")
        .len()
}

/// The extremes of the number types, in every column of every table: their sums do not fit into the same types.
#[test]
fn numbers_at_their_ends_overflow_nothing() {
    const ENDS: [u64; 4] = [0, 1, u64::MAX / 2, u64::MAX];
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let mut rows = Rows::default();
    let stack = vec![dbtime_model::Frame {
        symbol: String::new(),
        module: "m".to_string(),
        build_id: String::new(),
        offset: u64::MAX,
    }];
    let stack_id = dbtime_model::stack_id(&stack);
    rows.stacks.push(StackRow {
        id: stack_id,
        frames: stack,
    });
    for (n, end) in (1..).zip(ENDS) {
        for time in [end.cast_signed(), i64::MIN, 1_750_000_000_000_000] {
            for session in [SessionId(end), SessionId(1)] {
                // Twice: two of the largest are more than there is room for.
                for state in [State::Kernel, State::Runnable, State::Kernel] {
                    rows.activity.push(ActivityRow {
                        time,
                        session,
                        statement: end,
                        ns: end,
                        count: end,
                        samples: end,
                        user_stack: stack_id,
                        state,
                        ..activity(stack_id)
                    });
                }
                for kind in ["wait", "block", "read", "syscall", "function"] {
                    rows.latency.push(LatencyRow {
                        time,
                        session,
                        kind: kind.into(),
                        name: "IO:x".into(),
                        device: "d".into(),
                        bytes: end,
                        blocks: end,
                        source: "device".into(),
                        from_ns: end / 2,
                        to_ns: end,
                        count: end,
                        sum_ns: end,
                        max_ns: end,
                        min_ns: end,
                        stack: stack_id,
                        ..LatencyRow::default()
                    });
                }
                for (source, name) in [
                    ("kernel", "elapsed_ns"),
                    ("kernel", "on_cpu_ns"),
                    ("kernel", "run_queue_ns"),
                    ("kernel", "switches"),
                    ("dbtime", "torn"),
                    ("PostgreSQL, session memory", "transactions"),
                    ("oracle", "elapsed_us"),
                    ("oracle", "call_elapsed_us"),
                    ("oracle", "cpu_inside_waits_ns"),
                    ("oracle", "interval_duration_us"),
                    ("strace", "calls:read"),
                ] {
                    rows.counters.push(CounterRow {
                        time,
                        session,
                        statement: end,
                        plan: end,
                        source: source.into(),
                        name: name.into(),
                        value: end.cast_signed(),
                    });
                }
                rows.switches.push(SwitchRow {
                    session,
                    time_ns: time,
                    cpu: end as u32,
                    wait_ns: Some(end),
                    delay_ns: Some(end),
                    run_ns: Some(end),
                    wait_state: State::Sleep,
                    wait_class: "IO".into(),
                    wait_event: "x".into(),
                    state: State::Runnable,
                    waker: String::new(),
                    migrated: true,
                    priority: Some(end as i32),
                    statement: end,
                    wait_statement: n,
                });
                for kind in ["function", "syscall", "wait"] {
                    rows.spans.push(SpanRow {
                        session,
                        kind: kind.to_string(),
                        name: "x".to_string(),
                        stack: stack_id,
                        call: n,
                        depth: end as u32,
                        start_ns: time,
                        ns: end,
                        state: State::Kernel,
                        statement: n,
                    });
                }
            }
        }
        rows.sessions.push(SessionRow {
            id: SessionId(end),
            pid: end as u32,
            started: end.cast_signed(),
            backend_type: "client backend".into(),
            leader_pid: end as u32,
            ..SessionRow::default()
        });
        rows.statements.push(StatementRow {
            id: end,
            hash_value: end,
            user_id: Some(end as u32),
            plan_steps: vec![
                PlanStep {
                    plan: end,
                    id: end,
                    parent: end,
                    executions: end,
                    rows: end,
                    elapsed_us: end,
                    ..PlanStep::default()
                };
                2
            ],
            callers: vec![Caller {
                statement: end,
                calls: end,
                elapsed_us: end,
            }],
            ..StatementRow::default()
        });
    }
    let path = recording(&home, "ends.dbt", "p", rows);
    let meta = fs::read_to_string(path.join("meta.json")).expect("it is there");
    // As it was recorded, as a trace of each kind says it, and with the ends of the numbers in meta.json too.
    let kinds: [&[(&str, &str)]; 7] = [
        &[],
        &[
            ("/segments/last", "18446744073709551615"),
            ("/cost/bytes_written", "18446744073709551615"),
        ],
        &[
            ("/start_us", "-9223372036854775808"),
            ("/end_us", "9223372036854775807"),
        ],
        &[
            ("/start_us", "9223372036854775807"),
            ("/end_us", "-9223372036854775808"),
        ],
        &[(
            "/scheduling",
            r#"{"switches":18446744073709551615,"first_ns":-9223372036854775808,"last_ns":9223372036854775807,"cpus":4294967295}"#,
        )],
        &[
            ("/collector/tier", "\"exact\""),
            (
                "/files",
                r#"[{"sql_trace":{"first_tim_us":-9223372036854775808,"last_tim_us":9223372036854775807,"begin_us":0,"cpu_us":9223372036854775807,"wait_us":9223372036854775807,"sessions_us":9223372036854775807,"waits":18446744073709551615,"calls":18446744073709551615,"gaps_us":18446744073709551615}}]"#,
            ),
        ],
        &[
            ("/collector/tier", "\"exact\""),
            (
                "/files",
                r#"[{"kernel_trace":{"tracer":"function_graph","calls":18446744073709551615,"kept_calls":18446744073709551615,"cut_calls":18446744073709551615,"sample_period_ns":18446744073709551615,"samples":18446744073709551615}}]"#,
            ),
        ],
    ];
    for kind in kinds {
        let mut json: serde_json::Value = serde_json::from_str(&meta).expect("JSON");
        for (place, value) in kind {
            let (parent, name) = place.rsplit_once('/').expect("a pointer");
            json.pointer_mut(parent).expect("it is there")[name] = serde_json::from_str(value).expect("JSON");
        }
        fs::write(path.join("meta.json"), json.to_string()).expect("room");
        let path = plain(&path);
        let mut commands: Vec<Vec<&str>> = vec![
            vec!["report", path],
            vec!["report", path, "--format", "json"],
            vec!["report", path, "--by", "second,session"],
            vec!["report", path, "--from", "1s", "--to", "2s"],
            vec!["report", path, "--stacks"],
            vec!["report", path, "--tree"],
            vec!["report", path, "--functions", "--format", "json"],
            vec!["report", path, "--modules"],
            vec!["report", path, "--latency"],
            vec!["report", path, "--latency", "--format", "json"],
            vec!["report", path, "--latency", "--kind", "wait", "--format", "svg"],
            vec!["report", path, "--io"],
            vec!["report", path, "--io", "--format", "json"],
            vec!["report", path, "--switches"],
            vec!["report", path, "--switches", "--format", "json"],
            vec!["report", path, "--timeline"],
            vec!["report", path, "--timeline=1s", "--format", "json"],
            vec!["report", path, "--timeline", "--format", "svg"],
            vec!["report", "--compare", path, path],
            vec!["diff", path, path],
            vec!["diff", path, path, "--force", "--format", "json"],
            vec!["diff", path, path, "--force", "--per", "second"],
        ];
        let outputs = [
            "svg",
            "folded",
            "pb.gz",
            "speedscope.json",
            "firefox.json",
            "pftrace",
        ]
        .map(|ending| home.path().join(format!("out.{ending}")));
        for output in &outputs {
            commands.push(vec!["flame", path, "-o", plain(output)]);
        }
        commands.push(vec!["compact", path]);
        let (mut is_answered, all) = (0, commands.len());
        for arguments in commands {
            let outcome = in_time(&arguments);
            is_answered += usize::from(outcome.code == 0);
            assert!(
                [0, 1, 2, 3].contains(&outcome.code) && !outcome.stderr.contains("panicked"),
                "{arguments:?} of {kind:?}: {outcome:#?}"
            );
        }
        assert!(is_answered * 2 > all, "{is_answered} of {all} of {kind:?}");
    }
}

/// A recording of so many segments as a week has in its seconds, one row each.
#[test]
fn a_hundred_thousand_segments_are_read_within_bounds() {
    const SEGMENTS: u64 = 100_000;
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let path = recording(&home, "many.dbt", "p", Rows::default());
    let first = path.join("activity/000001.parquet");
    let mut of_these = first.clone();
    for segment in 2..=SEGMENTS {
        let next = path.join(format!("activity/{segment:06}.parquet"));
        // A file can have only so many hard links.
        if segment % 10_000 == 0 {
            fs::copy(&of_these, &next).expect("room");
            of_these = next;
        } else {
            fs::hard_link(&of_these, &next).expect("room");
        }
    }
    let text = fs::read_to_string(path.join("meta.json")).expect("it is there");
    let mut meta: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    meta["segments"]["last"] = SEGMENTS.into();
    meta["segments"]["rows"]["activity"] = (3 * SEGMENTS).into();
    fs::write(path.join("meta.json"), meta.to_string()).expect("room");
    let report = Command::new("timeout")
        .arg("600")
        .arg(dbtime_binary())
        .args(["report", plain(&path), "--format", "json", "--max-memory", "128M"])
        .output()
        .expect("timeout can be run");
    let report = Outcome::from(report).expect_code(0);
    let report: serde_json::Value = serde_json::from_str(&report.stdout).expect("JSON");
    assert_eq!(report["db_time_ns"], 3 * SEGMENTS * 1_000_000_000);
    let problems = report["quality"]["problems"].as_array().expect("a list");
    assert_eq!(problems.len(), 0, "{problems:?}");
}

/// What is not a number of its kind, or not JSON, is refused with a message.
#[test]
fn numbers_that_are_none_in_meta_json_are_refused() {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let path = recording(&home, "meta.dbt", "p", Rows::default());
    let meta = fs::read_to_string(path.join("meta.json")).expect("it is there");
    let good: serde_json::Value = serde_json::from_str(&meta).expect("JSON");
    let last = format!("\"last\": {}", good["segments"]["last"]);
    assert!(meta.contains(&last), "{meta}");
    for bad in [
        "-1",
        "NaN",
        "1e400",
        "99999999999999999999",
        "1.5",
        "\"1\"",
        "null",
        "[1]",
        "Infinity",
    ] {
        fs::write(
            path.join("meta.json"),
            meta.replace(&last, &format!("\"last\": {bad}")),
        )
        .expect("room");
        in_time(&["report", plain(&path)])
            .expect_code(1)
            .expect_stderr(&["meta.json"]);
    }
    // Deeper than anybody needs.
    fs::write(path.join("meta.json"), "[".repeat(1 << 20)).expect("room");
    in_time(&["report", plain(&path)])
        .expect_code(1)
        .expect_stderr(&["meta.json"]);
}
