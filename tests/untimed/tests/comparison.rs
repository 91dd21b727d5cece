//! `dbtime report` of several files and recordings: side by side, or as one.

use std::fs;
use std::path::{Path, PathBuf};

use dbtime_model::latency::{bounds_of, bucket_of, kind};
use dbtime_model::recording::{Meta, RecordingWriter, SCHEMA_VERSION};
use dbtime_model::{ActivityRow, Fidelity, LatencyRow, NO_STACK, Rows, SessionId, State};
use dbtime_tests::dbtime;
use serde_json::Value;
use tempfile::TempDir;

const START_US: i64 = 1_791_633_600_000_000;

fn scratch() -> TempDir {
    TempDir::with_prefix("dbtime-test-").expect("a temporary directory")
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// A recording with reads that took so many nanoseconds each.
fn recording(home: &Path, name: &str, reads: &[(u64, u64)]) -> PathBuf {
    let meta = Meta {
        schema: SCHEMA_VERSION.into(),
        start_us: START_US,
        end_us: START_US + 1_000_000,
        complete: true,
        ..Meta::default()
    };
    let read = |(ns, count): &(u64, u64)| {
        let (from_ns, to_ns) = bounds_of(bucket_of(*ns));
        LatencyRow {
            time: START_US,
            session: SessionId(1),
            kind: kind::WAIT.into(),
            name: "IO:DataFileRead".into(),
            from_ns,
            to_ns,
            count: *count,
            sum_ns: ns * count,
            max_ns: *ns,
            ..LatencyRow::default()
        }
    };
    let activity = ActivityRow {
        time: START_US,
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
        ns: 1_000_000,
        count: 1,
        samples: 0,
        fidelity: Fidelity::Exact,
        pooled: false,
        session_state: dbtime_model::SessionState::None,
    };
    let rows = Rows {
        activity: vec![activity],
        latency: reads.iter().map(read).collect(),
        ..Rows::default()
    };
    let path = home.join(name);
    let mut writer = RecordingWriter::create(&path, meta).expect("a recording");
    writer.write(&rows).expect("rows");
    writer.finish().expect("an end");
    path
}

#[test]
fn two_recordings_stand_side_by_side_under_their_names() {
    let home = scratch();
    // 0.6 x 10 ms + 0.4 x 0.5 ms = 6.2 ms; 0.5 ms.
    let slow = recording(home.path(), "slow.dbt", &[(10_000_000, 60), (500_000, 40)]);
    let fast = recording(home.path(), "fast.dbt", &[(500_000, 100)]);
    let both = [plain(&slow), plain(&fast)];
    let text = dbtime(&["report", "--compare", both[0], both[1]])
        .expect_code(0)
        .stdout;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(
            "IO:DataFileRead: 6.20 ms in slow, 500 us in fast on average; reads of 8.19 ms and more are 60 % in slow and 0 % \
             in fast and make 100 % of the difference."
        ),
        "{text}"
    );
    let json = dbtime(&["report", "--compare", both[0], both[1], "--format", "json"]).expect_code(0);
    let json: Value = serde_json::from_str(&json.stdout).expect("JSON");
    let difference = &json["comparison"]["events"][0]["differences"][0];
    assert_eq!(difference["difference_us"], 5_700.0);
    assert_eq!(difference["tail"]["from_us"], 8_192);

    // Names that are the same are told apart by their paths.
    let other = home.path().join("other");
    fs::create_dir(&other).expect("a folder");
    let same = recording(&other, "slow.dbt", &[(500_000, 100)]);
    let text = dbtime(&["report", "--compare", both[0], plain(&same)])
        .expect_code(0)
        .stdout;
    assert!(text.contains(plain(&same)), "{text}");
}

#[test]
fn a_comparison_needs_two_and_latencies() {
    let home = scratch();
    let one = recording(home.path(), "one.dbt", &[(1_000, 1)]);
    let none = recording(home.path(), "none.dbt", &[]);
    dbtime(&["report", "--compare", plain(&one)])
        .expect_code(2)
        .expect_stderr(&["--compare", "two"]);
    let nothing = dbtime(&["report", "--compare", plain(&none), plain(&none)]).expect_code(3);
    assert!(nothing.stdout.contains("no latencies"), "{nothing:#?}");
    dbtime(&["report", "--compare", "--io", plain(&one), plain(&none)]).expect_code(2);
    dbtime(&[
        "report",
        "--compare",
        plain(&one),
        plain(&home.path().join("absent")),
    ])
    .expect_code(1)
    .expect_stderr(&["absent"]);
}

#[test]
fn several_recordings_are_no_report_but_several_files_are_one() {
    let home = scratch();
    let one = recording(home.path(), "one.dbt", &[(1_000, 1)]);
    dbtime(&["report", plain(&one), plain(&one)])
        .expect_code(2)
        .expect_stderr(&["one.dbt", "--compare"]);
    for option in ["--plans", "--block-size=4096", "--thresholds=1,2"] {
        dbtime(&["report", plain(&one), option])
            .expect_code(2)
            .expect_stderr(&["SQL traces", "one.dbt"]);
    }
    // 2 s of CPU in the one, 3 s in the other.
    let trace = |name: &str, sid: u32, us: u64| {
        let path = home.path().join(name);
        let text = format!(
            "*** SESSION ID:({sid}.5) 2014-02-12 10:00:00.000\nPARSING IN CURSOR #1 len=6 dep=0 uid=5 oct=3 lid=5 \
             tim=1000000 hv=1 ad='0' sqlid='4vs91dcv7u1p6'\nselect\nEND OF STMT\n\
             EXEC #1:c={us},e={us},p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=1,tim={}\n",
            1_000_000 + us
        );
        fs::write(&path, text).expect("a file");
        path
    };
    let files = [trace("a.trc", 7, 2_000_000), trace("b.trc", 8, 3_000_000)];
    let json = dbtime(&["report", plain(&files[0]), plain(&files[1]), "--format", "json"]).expect_code(0);
    let json: Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!(json["db_time_ns"], 5_000_000_000u64);
}
