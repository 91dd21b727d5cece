//! The command line of who was waited for: views, depth, pictures, and what cannot be asked together.

use std::fs;
use std::path::{Path, PathBuf};

use dbtime_model::recording::{Meta, RecordingWriter, SCHEMA_VERSION};
use dbtime_model::{
    ActivityRow, CauseKind, CauseLink, CauseRow, Fidelity, NO_STACK, Rows, SessionId, SessionRow,
    SessionState, State,
};
use dbtime_tests::dbtime;
use serde_json::Value;
use tempfile::TempDir;

const START_US: i64 = 1_791_633_600_000_000;
const SECONDS: i64 = 10;

fn scratch() -> TempDir {
    TempDir::with_prefix("dbtime-test-").expect("a temporary directory")
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Session 1 waits so many milliseconds of each second for 2, which waits for 3, whose client thinks.
fn recording(home: &Path, name: &str, ms: u64) -> PathBuf {
    let link = |session: u64, wait: (&str, &str), session_state: SessionState| CauseLink {
        session: SessionId(session),
        statement: 0,
        session_state,
        wait_class: wait.0.into(),
        wait_event: wait.1.into(),
        state: State::Sleep,
        kernel_stack: NO_STACK,
        user_stack: NO_STACK,
    };
    let mut rows = Rows::default();
    for id in 1..=3 {
        rows.sessions.push(SessionRow {
            id: SessionId(id),
            pid: 10 * id as u32,
            backend_type: "client backend".into(),
            user: "app".into(),
            ..SessionRow::default()
        });
    }
    for second in 0..SECONDS {
        let time = START_US + second * 1_000_000;
        rows.activity.push(ActivityRow {
            time,
            session: SessionId(1),
            statement: 0,
            plan: 0,
            wait_class: "Lock".into(),
            wait_event: "tuple".into(),
            idle: false,
            state: State::Sleep,
            kernel_stack: NO_STACK,
            user_stack: NO_STACK,
            comment: 0,
            ns: ms * 1_000_000,
            count: 0,
            samples: ms / 10,
            fidelity: Fidelity::Sampled,
            pooled: false,
            session_state: SessionState::Active,
        });
        rows.causes.push(CauseRow {
            time,
            session: SessionId(1),
            statement: 0,
            wait_class: "Lock".into(),
            wait_event: "tuple".into(),
            state: State::Sleep,
            kind: CauseKind::Client,
            chain: vec![
                link(2, ("Lock", "transactionid"), SessionState::Active),
                link(3, ("Client", "ClientRead"), SessionState::IdleInTransaction),
            ],
            samples: ms / 10,
        });
    }
    let meta = Meta {
        schema: SCHEMA_VERSION.into(),
        start_us: START_US,
        end_us: START_US + SECONDS * 1_000_000,
        complete: true,
        ..Meta::default()
    };
    let path = home.join(name);
    let mut writer = RecordingWriter::create(&path, meta).expect("a recording");
    writer.write(&rows).expect("rows");
    writer.finish().expect("an end");
    path
}

fn json(arguments: &[&str]) -> Value {
    let printed = dbtime(&[arguments, &["--format", "json"]].concat()).expect_code(0);
    serde_json::from_str(&printed.stdout).expect("JSON")
}

#[test]
fn blockers_stand_alone_and_chains_end_where_it_is_asked() {
    let home = scratch();
    let path = recording(home.path(), "slow.dbt", 500);
    let report = ["report", plain(&path)];
    let alone = json(&[&report[..], &["--blockers"]].concat());
    assert_eq!(alone["blocked_ns"], 5_000_000_000u64);
    assert_eq!(alone["blockers"][1]["root_ns"], 5_000_000_000u64);
    assert!(alone.get("causes").is_none());
    // The same in the whole.
    let whole = json(&[&report[..], &["--causes"]].concat());
    assert_eq!(whole["blockers"], alone["blockers"]);
    let printed = dbtime(&[&report[..], &["--causes", "--blockers"]].concat()).expect_code(0);
    assert!(
        printed.stdout.contains("Statements for which others waited"),
        "{}",
        printed.stdout
    );

    let cut = json(&[&report[..], &["--chain", "--depth", "1"]].concat());
    let middle = &cut["chains"][0]["behind"][0];
    assert_eq!(
        (&middle["pid"], &middle["beyond_sessions"], &middle["beyond_ns"]),
        (&Value::from(20), &Value::from(1), &Value::from(5_000_000_000u64))
    );
    for view in ["--causes", "--chain", "--at=3"] {
        let printed = dbtime(&[&report[..], &["--depth", "1", view]].concat())
            .expect_code(0)
            .stdout;
        let beyond = if view == "--causes" {
            "└ further on"
        } else {
            "1 session behind it"
        };
        assert!(printed.contains(beyond), "{view}: {printed}");
    }
    for wrong in [
        &["--depth", "1"][..],
        &["--blockers", "--depth", "1"],
        &["--blockers", "--chain"],
        &["--causes", "--chain"],
        &["--causes", "--at", "3"],
        &["--chain", "--depth", "1", "-o", "chains.svg"],
    ] {
        dbtime(&[&report[..], wrong].concat()).expect_code(2);
    }
}

#[test]
fn roots_are_a_picture_a_dimension_and_a_level() {
    let home = scratch();
    let path = recording(home.path(), "slow.dbt", 500);
    let picture = home.path().join("chains.svg");
    dbtime(&["report", plain(&path), "--chain", "-o", plain(&picture)]).expect_code(0);
    let svg = fs::read_to_string(&picture).expect("a picture");
    assert!(svg.contains("pid 30, app") && svg.contains("idle in transaction: 5.000 s, 100.0 %"));
    dbtime(&["report", plain(&path), "--blockers", "--format", "svg"])
        .expect_code(2)
        .expect_stderr(&["cannot be drawn", "--chain"]);
    let ledger = json(&["report", plain(&path), "--by", "cause,root"]);
    assert_eq!(ledger["ledger"][0]["group"]["cause"], "client");
    assert_eq!(
        ledger["ledger"][0]["group"]["root"],
        "client backend: idle in transaction (its client)"
    );
    let folded = dbtime(&["flame", plain(&path), "--by", "cause", "-o", "-"]).expect_code(0);
    assert!(folded.stdout.starts_with("client;"), "{}", folded.stdout);
    dbtime(&["flame", plain(&path), "--by", "cause", "--causes", "-o", "-"])
        .expect_code(2)
        .expect_stderr(&["--by cause"]);
}

#[test]
fn a_cause_that_grew_stands_in_the_first_line() {
    let home = scratch();
    let [good, bad] = [("good.dbt", 50), ("bad.dbt", 500)].map(|(name, ms)| recording(home.path(), name, ms));
    let printed = dbtime(&["diff", plain(&good), plain(&bad)]).expect_code(0).stdout;
    let first = printed.lines().next().expect("a line");
    let cause = "Lock:tuple: 450 ms more per second (50.0 ms in GOOD, 500 ms in BAD), behind a session (client backend) that was idle \
                 in transaction (its client).";
    assert!(first.contains(cause), "{printed}");
    assert_eq!(json(&["diff", plain(&good), plain(&bad)])["cause"], cause);
    let page = home.path().join("diff.html");
    dbtime(&["html", plain(&good), plain(&bad), "-o", plain(&page)]).expect_code(0);
    assert!(fs::metadata(&page).expect("a page").len() > 0);
}
