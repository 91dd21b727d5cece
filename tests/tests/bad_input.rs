//! Bad input gets a clear error that names the culprit, and nothing is lost.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use dbtime::throwaway::Options;
use dbtime_model::recording::{
    CollectorMeta, Cost, DatabaseMeta, HostMeta, Meta, Quality, RecordingWriter, SCHEMA_VERSION, Segments,
};
use dbtime_model::{ActivityRow, Fidelity, NO_STACK, Rows, SessionId, SessionRow, State};
use dbtime_tests::{
    NO_BTF, NO_PROCESSES, Outcome, Recorded, Recorder, Report, Session, SmallDisk, dbtime, dbtime_after,
    dbtime_as_nobody, dbtime_binary, distribution, needs_recording, pgbench,
};
use tempfile::TempDir;

fn scratch() -> TempDir {
    TempDir::with_prefix("dbtime-test-").expect("a temporary directory")
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn no_server_says_so() {
    needs_recording!();
    let home = scratch();
    let output = home.path().join("x.dbt");
    dbtime_after(NO_PROCESSES, &["record", "-d", "1", "-o", plain(&output)])
        .expect_code(1)
        .expect_stderr(&["no running PostgreSQL", "--postgres"]);
    assert!(!output.exists(), "no recording is left of nothing");
}

#[test]
fn of_two_servers_both_are_named() {
    needs_recording!();
    let clusters = [(); 2].map(|()| distribution().start(Options::default()));
    let home = scratch();
    let directories = clusters.each_ref().map(|cluster| plain(cluster.data_dir()));
    dbtime(&["record", "-d", "1", "-o", plain(&home.path().join("x.dbt"))])
        .expect_code(1)
        .expect_stderr(&directories)
        .expect_stderr(&["--postgres"]);
}

#[test]
fn a_data_directory_without_a_server_is_named() {
    needs_recording!();
    let home = scratch();
    let output = home.path().join("x.dbt");
    let directory = plain(home.path());
    dbtime(&["record", "--postgres", directory, "-o", plain(&output)])
        .expect_code(1)
        .expect_stderr(&[directory]);
    let missing = home.path().join("missing");
    dbtime(&["record", "--postgres", plain(&missing), "-o", plain(&output)])
        .expect_code(1)
        .expect_stderr(&[plain(&missing)]);
}

#[test]
fn without_privileges_the_missing_capability_is_named() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    dbtime_as_nobody(&[
        "record",
        "--postgres",
        plain(cluster.data_dir()),
        "-d",
        "1",
        "-o",
        "x.dbt",
    ])
    .expect_code(1)
    .expect_stderr(&[
        "root",
        "CAP_BPF",
        "CAP_PERFMON",
        "CAP_SYS_PTRACE",
        "CAP_DAC_READ_SEARCH",
    ]);
}

#[test]
fn a_kernel_without_type_information_is_named() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let home = scratch();
    let output = home.path().join("x.dbt");
    let arguments = [
        "record",
        "--postgres",
        plain(cluster.data_dir()),
        "-d",
        "1",
        "-o",
        plain(&output),
    ];
    dbtime_after(NO_BTF, &arguments)
        .expect_code(1)
        .expect_stderr(&["/sys/kernel/btf/vmlinux", "BTF"]);
}

/// Only the data directory says the version for sure; a running server does not look at the file again.
#[test]
fn a_server_that_is_too_old_is_named_with_its_version() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    fs::write(cluster.data_dir().join("PG_VERSION"), "13\n").expect("a file of our own");
    let home = scratch();
    let output = home.path().join("x.dbt");
    dbtime(&[
        "record",
        "--postgres",
        plain(cluster.data_dir()),
        "-d",
        "1",
        "-o",
        plain(&output),
    ])
    .expect_code(1)
    .expect_stderr(&["needs PostgreSQL 14"]);
}

#[test]
fn a_pid_that_is_no_backend_is_named() {
    needs_recording!();
    let home = scratch();
    let output = home.path().join("x.dbt");
    let me = std::process::id().to_string();
    dbtime(&["record", "-p", &me, "-d", "1", "-o", plain(&output)])
        .expect_code(1)
        .expect_stderr(&[&me, "not a PostgreSQL"]);

    let mut ended = Command::new("true").spawn().expect("it can be run");
    let gone = ended.id().to_string();
    ended.wait().expect("it is our child");
    dbtime(&["record", "-p", &gone, "-d", "1", "-o", plain(&output)])
        .expect_code(1)
        .expect_stderr(&[&gone, "no such process"]);
    assert!(!output.exists(), "no recording is left of nothing");
}

#[test]
fn an_output_that_exists_is_not_touched() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let home = scratch();
    let file = home.path().join("file.dbt");
    fs::write(&file, "mine").expect("a file of our own");
    for output in [&file, home.path()] as [&Path; 2] {
        dbtime(&[
            "record",
            "--postgres",
            plain(cluster.data_dir()),
            "-d",
            "1",
            "-o",
            plain(output),
        ])
        .expect_code(1)
        .expect_stderr(&[plain(output), "exists"]);
    }
    assert_eq!(fs::read_to_string(&file).expect("it is still there"), "mine");
    assert_eq!(fs::read_dir(home.path()).expect("it is still there").count(), 1);
}

#[test]
fn an_output_in_a_missing_directory_is_named() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let home = scratch();
    let output = home.path().join("missing/x.dbt");
    dbtime(&[
        "record",
        "--postgres",
        plain(cluster.data_dir()),
        "-d",
        "1",
        "-o",
        plain(&output),
    ])
    .expect_code(1)
    .expect_stderr(&["missing"]);
}

#[test]
fn a_full_disk_is_named_and_what_was_written_stays_readable() {
    needs_recording!();
    let disk = SmallDisk::mount(128);
    let cluster = distribution().start(Options::default());
    pgbench::initialise(&cluster, 1);
    let load = pgbench::Load::of_reads(&cluster);
    let output = disk.join("x.dbt");
    let arguments = ["--postgres", plain(cluster.data_dir()), "-d", "20", "-F", "999"];
    let outcome = Recorder::start_at(&output, &arguments).outcome();
    drop(load);
    let outcome = outcome.expect_code(1).expect_stderr(&[plain(&output), "space"]);
    let recorded = Recorded::open(&output, outcome.stderr, None);
    assert_eq!(recorded.problems, vec![], "what counts as written is there");
    // Not even five seconds may have fit; some of them did.
    assert!(recorded.meta.segments.last > 0);
    assert!(recorded.report(&[]).db_time_ns > 0);
}

#[test]
fn a_store_on_a_disk_that_is_full_at_any_object_has_nothing_by_half_and_takes_it_once_there_is_room() {
    const DISK_KB: u32 = 256;
    needs_recording!();
    let home = scratch();
    let recording = home.path().join("x.dbt");
    synthetic(&recording);
    let ledger = |path: &Path| {
        let answer = dbtime(&["report", plain(path), "--format", "json"]).expect_code(0);
        let report: serde_json::Value = serde_json::from_str(&answer.stdout).expect("it is JSON");
        report["ledger"].clone()
    };
    let truth = ledger(&recording);
    let mut failed = 0;
    for room_kb in (0..DISK_KB).step_by(4) {
        let disk = SmallDisk::mount(DISK_KB);
        let (store, filler) = (disk.join("store"), disk.join("filler"));
        fs::write(&filler, vec![0u8; ((DISK_KB - room_kb) << 10) as usize]).expect("there is room for it");
        let put = ["store", "put", "--host", "db1", plain(&recording), plain(&store)];
        let outcome = dbtime(&put);
        if outcome.code == 0 {
            break;
        }
        failed += 1;
        outcome.expect_code(1).expect_stderr(&[plain(&store), "space"]);
        let report = dbtime(&["report", plain(&store)]);
        assert!([1, 3].contains(&report.code), "{room_kb} KB: {report:?}");
        fs::remove_file(&filler).expect("our own file");
        dbtime(&put).expect_code(0);
        assert_eq!(ledger(&store), truth, "{room_kb} KB");
    }
    assert!((4..30).contains(&failed), "{failed}");
}

/// As `record`: where not even the first segment could be written, nothing blocks the name.
#[test]
fn a_full_disk_leaves_nothing_of_switches_that_were_not_written() {
    needs_recording!();
    let disk = SmallDisk::mount(256);
    let busy = Command::new("sh")
        .args(["-c", "while sleep 0.01; do :; done"])
        .spawn()
        .expect("a shell");
    let busy = Ended(busy);
    let output = disk.join("x.dbt");
    let pid = busy.0.id().to_string();
    let watch = Command::new(dbtime_binary())
        .args([
            "sched",
            "--process",
            &pid,
            "-d",
            "2",
            "--summary",
            "-o",
            plain(&output),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command can be run");
    wait_for(&output.join("activity"));
    // Nothing fits any longer.
    let mut filler = fs::File::create(disk.join("filler")).expect("it is there");
    while filler.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
    let outcome = Outcome::from(watch.wait_with_output().expect("it ends"));
    outcome.expect_code(1).expect_stderr(&[plain(&output), "space"]);
    assert!(!output.exists(), "it would only block the name");
}

/// Ended with the test, however that ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(path: &Path) {
    let give_up = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < give_up, "{} does not come", path.display());
        sleep(Duration::from_millis(5));
    }
}

/// What a killed import leaves says what it is, and makes way for the next import of that name, but for nothing else.
#[test]
fn a_killed_import_is_in_nobodys_way() {
    let home = scratch();
    let output = home.path().join("x.dbt");
    let folded = home.path().join("x.folded");
    fs::write(&folded, "main;f 1\n").expect("room");
    let import = ["import", plain(&folded), "-o", plain(&output)];
    let many = home.path().join("many.folded");
    let lines: String = (0..400_000).map(|n| format!("main;f_{n} 1\n")).collect();
    fs::write(&many, lines).expect("room");
    let child = Command::new(dbtime_binary())
        .args(["import", plain(&many), "-o", plain(&output)])
        .stderr(Stdio::null())
        .spawn()
        .expect("the command can be run");
    let mut child = Ended(child);
    wait_for(&output.join("stacks/000001.parquet"));
    // It goes no further.
    // SAFETY: a plain call.
    unsafe { libc::kill(child.0.id().cast_signed(), libc::SIGSTOP) };
    // It is still being written.
    dbtime(&import).expect_code(1).expect_stderr(&["already exists"]);
    dbtime(&["report", plain(&output)])
        .expect_code(1)
        .expect_stderr(&["import that has not ended"]);
    assert!(child.0.try_wait().expect("a child of ours").is_none());
    // `kill -9`.
    drop(child);
    for command in ["report", "compact"] {
        dbtime(&[command, plain(&output)]).expect_code(1).expect_stderr(&[
            plain(&output),
            "import that has not ended",
            "import again",
        ]);
    }
    // Something of somebody else's is in it: it stays.
    let notes = output.join("notes.txt");
    fs::write(&notes, "mine").expect("room");
    dbtime(&import).expect_code(1).expect_stderr(&["already exists"]);
    assert_eq!(fs::read_to_string(&notes).expect("it is there"), "mine");
    fs::remove_file(&notes).expect("it is there");
    dbtime(&import)
        .expect_code(0)
        .expect_stderr(&["removed, left by an import that was killed"]);
    let report = dbtime(&["report", plain(&output), "--stacks"]).expect_code(0);
    assert!(
        report.stdout.contains("main") && !report.stdout.contains("f_7"),
        "{report:#?}"
    );
    // Nor is anything of a complete one removed.
    dbtime(&import).expect_code(1).expect_stderr(&["already exists"]);
}

/// A program whose name has a line break in it.
#[test]
fn the_name_of_a_program_brings_no_line_of_its_own() {
    needs_recording!();
    let home = scratch();
    let program = home.path().join("x\nforged: all is well");
    // Not copied by this process: children of its other threads would hold it open for writing.
    let copied = Command::new("cp").arg("/bin/sleep").arg(&program).status();
    assert!(copied.expect("cp runs").success());
    let child = Ended(Command::new(&program).arg("60").spawn().expect("it can be run"));
    let output = home.path().join("y.dbt");
    let pid = child.0.id().to_string();
    let outcome = dbtime(&["sched", "--process", &pid, "-d", "1", "-o", plain(&output)]);
    let recorded = dbtime(&[
        "record",
        "--process",
        &pid,
        "-d",
        "1",
        "-o",
        plain(&home.path().join("z.dbt")),
    ]);
    for said in [outcome.stderr, outcome.stdout, recorded.stderr, recorded.stdout] {
        assert!(!said.lines().any(|line| line.starts_with("forged")), "{said}");
    }
}

/// A recording of two segments, made without a server.
fn synthetic(directory: &Path) {
    let start_us = 1_750_000_000_000_000;
    let mut writer = RecordingWriter::create(
        directory,
        Meta {
            schema: SCHEMA_VERSION.to_string(),
            dbtime: "0.0.0".to_string(),
            start_us,
            end_us: start_us + 2_000_000,
            complete: false,
            host: HostMeta::default(),
            database: DatabaseMeta::default(),
            collector: CollectorMeta::default(),
            segments: Segments::default(),
            quality: Quality::default(),
            cost: Cost::default(),
            notes: Vec::new(),
            ..Meta::default()
        },
    )
    .expect("a new directory");
    for second in 0..2 {
        let mut rows = Rows::default();
        if second == 0 {
            rows.sessions.push(SessionRow {
                id: SessionId(1),
                pid: 4711,
                started: start_us,
                backend_type: "client backend".into(),
                user: "ann".to_string(),
                database: "shop".to_string(),
                client: "[local]".to_string(),
                leader_pid: 0,
                title: "postgres: ann shop [local] SELECT".to_string(),
                ..SessionRow::default()
            });
        }
        rows.activity.push(ActivityRow {
            time: start_us + second * 1_000_000,
            session: SessionId(1),
            statement: 0,
            plan: 0,
            wait_class: "Timeout".into(),
            wait_event: "PgSleep".into(),
            idle: false,
            state: State::Sleep,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            comment: 0,
            ns: 1_000_000_000,
            count: 0,
            samples: 99,
            fidelity: Fidelity::Sampled,
            pooled: false,
            session_state: dbtime_model::SessionState::None,
        });
        writer.write(&rows).expect("there is room");
    }
    writer.finish().expect("there is room");
}

#[test]
fn a_damaged_or_foreign_segment_is_named_and_the_rest_is_reported() {
    let home = scratch();
    let recording = home.path().join("x.dbt");
    synthetic(&recording);
    assert_eq!(Report::of(&recording, &[]).db_time_ns, 2_000_000_000);

    let segment = recording.join("activity/000002.parquet");
    let whole = fs::read(&segment).expect("it is there");
    let foreign = fs::read(recording.join("sessions/000001.parquet")).expect("it is there");
    let damages: [(&str, &[u8]); 4] = [
        ("truncated", &whole[..whole.len() / 2]),
        ("empty", b""),
        ("no Parquet", b"time,session\n1,2\n"),
        ("another table", &foreign),
    ];
    for (damage, bytes) in damages {
        fs::write(&segment, bytes).expect("a file of our own");
        let report = Report::of(&recording, &[]);
        assert_eq!(
            report.db_time_ns, 1_000_000_000,
            "{damage}: the other segment is reported"
        );
        let named = |text: &str| text.contains("activity/000002.parquet");
        assert!(
            report.quality.problems.iter().any(|problem| named(problem)),
            "{damage}: {report:#?}"
        );
        let text = dbtime(&["report", plain(&recording)]).expect_code(0);
        assert!(named(&text.stdout) || named(&text.stderr), "{damage}: {text:#?}");
    }
    fs::remove_file(&segment).expect("a file of our own");
    let report = Report::of(&recording, &[]);
    assert!(
        !report.quality.problems.is_empty(),
        "a missing segment: {report:#?}"
    );
}

#[test]
fn what_is_no_recording_is_named() {
    let home = scratch();
    for (name, make) in [("missing", None), ("file.dbt", Some("text"))] {
        let path = home.path().join(name);
        if let Some(text) = make {
            fs::write(&path, text).expect("a file of our own");
        }
        for command in ["report", "flame"] {
            let mut arguments = vec![command, plain(&path)];
            if command == "flame" {
                arguments.extend(["-o", "-"]);
            }
            let outcome = dbtime(&arguments).expect_code(1).expect_stderr(&[plain(&path)]);
            assert!(
                outcome.stderr.matches("No such file").count() < 2,
                "{}",
                outcome.stderr
            );
        }
    }
    dbtime(&["report", plain(home.path())])
        .expect_code(1)
        .expect_stderr(&[plain(home.path()), "meta.json"]);
}

#[test]
fn a_recording_of_a_later_major_version_is_refused() {
    let home = scratch();
    let recording = home.path().join("x.dbt");
    synthetic(&recording);
    let meta = recording.join("meta.json");
    let text = fs::read_to_string(&meta).expect("it is there");
    let later = text.replacen(
        &format!("\"schema\": \"{SCHEMA_VERSION}\""),
        "\"schema\": \"99.0\"",
        1,
    );
    assert_ne!(text, later);
    fs::write(&meta, later).expect("a file of our own");
    dbtime(&["report", plain(&recording)])
        .expect_code(1)
        .expect_stderr(&["99.0"]);
}

#[test]
fn an_empty_recording_is_reported_as_nothing_recorded() {
    let home = scratch();
    let recording = home.path().join("x.dbt");
    synthetic(&recording);
    for table in ["activity", "counters", "sessions"] {
        let directory = recording.join(table);
        fs::remove_dir_all(&directory).expect("a directory of our own");
        fs::create_dir(&directory).expect("a directory of our own");
    }
    let meta = recording.join("meta.json");
    let mut text: serde_json::Value =
        serde_json::from_slice(&fs::read(&meta).expect("it is there")).expect("it is JSON");
    text["segments"]["rows"] = serde_json::json!({});
    fs::write(&meta, text.to_string()).expect("a file of our own");
    dbtime(&["report", plain(&recording)]).expect_code(3);
}

#[test]
fn what_is_asked_for_and_was_not_recorded_is_answered_with_what_was() {
    let home = scratch();
    let recording = home.path().join("x.dbt");
    synthetic(&recording);
    let recording = plain(&recording);
    dbtime(&["report", recording, "--wait", "pgsleep", "--state", "Sleep"]).expect_code(0);
    dbtime(&["report", recording, "--wait", "lock"])
        .expect_code(1)
        .expect_stderr(&["no time in wait 'lock'", "it has Timeout:PgSleep"]);
    for command in [
        &["report", recording, "--functions"][..],
        &["flame", recording, "-o", "-"],
    ] {
        dbtime(&[command, &["--state", "disk"]].concat())
            .expect_code(1)
            .expect_stderr(&["no time in state 'disk'", "it has sleep"]);
    }
    dbtime(&["report", recording, "--state", "foo"])
        .expect_code(2)
        .expect_stderr(&["no such state: 'foo'", "runnable"]);
    let report = dbtime(&["report", recording, "--by", "statement", "--session", "4711"]).expect_code(0);
    assert!(
        report.stdout.contains("'statement' was not recorded.")
            && report.stdout.contains("Only session 4711\n"),
        "{}",
        report.stdout
    );
    let switches = dbtime(&["report", recording, "--switches"]).expect_code(1);
    assert!(
        switches
            .stderr
            .starts_with("dbtime: no context switches in this recording"),
        "{}",
        switches.stderr
    );
}

#[test]
fn wrong_usage_is_told_apart_from_failure() {
    let home = scratch();
    let recording = home.path().join("x.dbt");
    synthetic(&recording);
    let recording = plain(&recording);
    let wrong: [&[&str]; 18] = [
        &[],
        &["frobnicate"],
        &["record", "-o"],
        &["record", "-F", "0", "-o", "x.dbt"],
        &["record", "-F", "5000", "-o", "x.dbt"],
        &["record", "-d", "soon", "-o", "x.dbt"],
        &["record", "-d", "1d", "-o", "x.dbt"],
        &["record", "-p", "1", "--postgres", "/", "-o", "x.dbt"],
        // There is no recording here.
        &["report"],
        &["report", recording, "--format", "xml"],
        &["report", recording, "--by", "weather"],
        &["report", recording, "--from", "yesterday"],
        &["report", recording, "--format", "svg"],
        &["report", recording, "--kind", "wait"],
        &["report", recording, "--latency", "--by", "weather"],
        &["report", recording, "--latency", "--io"],
        &["report", recording, "--io", "--thresholds", "1000,50"],
        &["flame", recording, "-o", "x.png"],
    ];
    for arguments in wrong {
        let outcome = dbtime(arguments);
        assert_eq!(outcome.code, 2, "{arguments:?}: {outcome:#?}");
        assert!(!outcome.stderr.is_empty(), "{arguments:?} is not explained");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let home = scratch();
    let recording = home.path().join("x.dbt");
    synthetic(&recording);
    let mut report = Command::new(dbtime_binary())
        .args(["report", plain(&recording)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be run");
    drop(report.stdout.take());
    let output = report.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.is_empty(), "{stderr}");
}

#[test]
fn a_session_that_ends_before_anything_is_recorded_is_no_crash() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let session = Session::connect(&cluster);
    let pid = session.pid().to_string();
    let home = scratch();
    let output = home.path().join("x.dbt");
    let recorder = Recorder::start_at(&output, &["-p", &pid, "-d", "3"]);
    drop(session);
    let outcome = recorder.outcome();
    assert!([0, 3].contains(&outcome.code), "{outcome:#?}");
}
