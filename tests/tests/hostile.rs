//! Recordings and files that others made to do harm: they cost a clear message, and no terminal, memory or time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dbtime_model::recording::{Meta, RecordingWriter, SCHEMA_VERSION};
use dbtime_model::{
    ActivityRow, Fidelity, NO_STACK, Rows, SessionId, SessionRow, StackId, StackRow, State, StatementRow,
};
use dbtime_tests::{Outcome, dbtime_binary};
use tempfile::TempDir;

/// Moves a cursor, begins a sequence, reorders a line, ends a script, is no name.
const HOSTILE: &str = "\u{1b}[2J\u{9b}31m\u{202e}</script><script>alert(1)</script>\r\n\u{2028}'\"&;\u{7f}";

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
        wait_class: "IO".to_string(),
        wait_event: HOSTILE.to_string(),
        idle: false,
        state: State::Kernel,
        kernel_stack,
        user_stack: NO_STACK,
        ns: 1_000_000_000,
        count: 0,
        samples: 99,
        fidelity: Fidelity::Sampled,
        pooled: false,
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
            backend_type: "client backend".to_string(),
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

/// What a terminal, or somebody who reads, would take for something else.
fn is_harmless(what: &str, text: &str) {
    let bad = |c: &char| {
        (c.is_control() && *c != '\n')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
    };
    if let Some(c) = text.chars().find(bad) {
        panic!("{what}: {c:?} in\n{text}");
    }
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
    for ending in ["svg", "folded", "speedscope.json"] {
        let output = home.path().join(format!("out.{ending}"));
        in_time(&["flame", good, "-o", plain(&output)]).expect_code(0);
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

/// Some KB on the disk that are 200 MB in memory.
#[test]
fn what_needs_more_memory_than_allowed_says_so() {
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let statements = (0..2u64)
        .map(|n| StatementRow {
            id: n,
            text: "x".repeat(100 << 20),
            ..StatementRow::default()
        })
        .collect();
    let bomb = recording(
        &home,
        "bomb.dbt",
        "p",
        Rows {
            statements,
            ..Rows::default()
        },
    );
    let size = fs::metadata(bomb.join("statements/000001.parquet"))
        .expect("it is there")
        .len();
    assert!(size < 1 << 20, "{size}");
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
