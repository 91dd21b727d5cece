//! A page is bounded, however much was recorded.

use std::fs;

use dbtime_model::latency::{bounds_of, bucket_of, kind};
use dbtime_model::recording::{Meta, RecordingWriter, SCHEMA_VERSION};
use dbtime_model::{
    ActivityRow, CauseKind, CauseLink, CauseRow, Fidelity, Frame, LatencyRow, NO_STACK, Rows, SessionId,
    SessionRow, SessionState, StackRow, State, stack_id,
};
use dbtime_tests::say;
use serde_json::json;

use super::browser::{page_of, report, scratch, take};
use super::made::{BEGIN_US, Chance, frame};

/// The bound is on what a page holds, so many stacks that are all different are the worst case.
#[test]
fn an_hour_of_a_hundred_sessions_is_a_page_of_less_than_8_mb() {
    const STACKS: u64 = 30_000;
    let home = scratch();
    let path = home.path().join("hour.dbt");
    let meta = Meta {
        schema: SCHEMA_VERSION.to_string(),
        start_us: BEGIN_US,
        end_us: BEGIN_US + 3_600 * 1_000_000,
        complete: true,
        ..Meta::default()
    };
    let mut chance = Chance(11);
    let mut stacks = Vec::new();
    let mut ids = Vec::new();
    for _ in 0..STACKS {
        let frames: Vec<Frame> = (0..30)
            .map(|depth| {
                let choices = if depth < 12 { 2 } else { 300 };
                frame(&format!("function_{depth}_{}", chance.below(choices)), "postgres")
            })
            .collect();
        let id = stack_id(&frames);
        ids.push(id);
        stacks.push(StackRow { id, frames });
    }
    let sessions = (1..=100).map(|n| SessionRow {
        id: SessionId(n),
        pid: 1_000 + n as u32,
        backend_type: "client backend".into(),
        user: "shop".to_string(),
        database: "shop".to_string(),
        client: format!("10.0.0.{n}(5{n})"),
        ..SessionRow::default()
    });
    let mut writer = RecordingWriter::create(&path, meta).expect("a new directory");
    let described = Rows {
        sessions: sessions.collect(),
        ..Rows::default()
    };
    writer.write(&described).expect("there is room");
    for stacks in stacks.chunks(4_000) {
        let stacks = stacks.to_vec();
        writer
            .write(&Rows {
                stacks,
                ..Rows::default()
            })
            .expect("there is room");
    }
    for minute in 0..60 {
        let mut rows = Rows::default();
        for second in 0..60 {
            for session in 1..=100 {
                for (wait_class, wait_event, state) in [
                    ("CPU", "CPU", State::User),
                    ("IO", "DataFileRead", State::Disk),
                    ("CPU", "CPU", State::Kernel),
                    ("CPU", "CPU", State::Runnable),
                ] {
                    rows.activity.push(ActivityRow {
                        time: BEGIN_US + (minute * 60 + second) * 1_000_000,
                        session: SessionId(session),
                        statement: 1 + (session + chance.below(3)) % 50,
                        plan: 0,
                        wait_class: wait_class.into(),
                        wait_event: wait_event.into(),
                        idle: false,
                        state,
                        session_state: SessionState::Active,
                        kernel_stack: NO_STACK,
                        // Some are met often, most are not.
                        user_stack: ids[(chance.below(STACKS) * chance.below(STACKS) / STACKS) as usize],
                        comment: 0,
                        ns: chance.below(250_000_000) + 1,
                        count: 0,
                        samples: 1 + chance.below(30),
                        fidelity: Fidelity::Sampled,
                        pooled: false,
                    });
                }
                // Whom it waited for on disk, and how long one of its calls took.
                let (time, ns) = (
                    BEGIN_US + (minute * 60 + second) * 1_000_000,
                    1 << chance.below(30),
                );
                let (from_ns, to_ns) = bounds_of(bucket_of(ns + chance.below(ns)));
                rows.latency.push(LatencyRow {
                    time,
                    session: SessionId(session),
                    kind: kind::SYSCALL.into(),
                    name: format!("call_{}", chance.below(300)).into(),
                    from_ns,
                    to_ns,
                    count: 1,
                    sum_ns: from_ns,
                    max_ns: from_ns,
                    ..LatencyRow::default()
                });
                let [one, other] = [(), ()].map(|()| CauseLink {
                    session: SessionId(1 + chance.below(100)),
                    statement: chance.below(50),
                    session_state: SessionState::Active,
                    wait_class: "LWLock".into(),
                    wait_event: format!("Lock{}", chance.below(20)).into(),
                    state: State::Sleep,
                    kernel_stack: NO_STACK,
                    user_stack: NO_STACK,
                });
                let disk = rows.activity.len() - 3;
                rows.causes.push(CauseRow {
                    time,
                    session: SessionId(session),
                    statement: rows.activity[disk].statement,
                    wait_class: "IO".into(),
                    wait_event: "DataFileRead".into(),
                    state: State::Disk,
                    kind: CauseKind::Device,
                    chain: vec![one, other],
                    samples: 1,
                });
            }
        }
        writer.write(&rows).expect("there is room");
    }
    writer.finish().expect("there is room");
    let page = page_of(&path, &[]);
    let bytes = fs::metadata(&page).expect("it is there").len();
    say(&format!("an hour of a hundred sessions: {bytes} bytes"));
    assert!(bytes < 8_000_000, "{bytes}");
    let Some(sights) = take(
        &page,
        &json!([
            {"time": "state=user"}, {"time": ""}, {"time": "session=1010"}, {"time": "wait=IO:DataFileRead"},
            {"time": "from=2025-06-15T15:20:00Z&to=2025-06-15T15:30:00Z"}, {"time": "by=state"}, {"time": "by=state&user=nobody"}, {"time": ""},
            {"frames": [".timeline canvas", 0.2, 0.7]}, {"go": ""},
            // This opens all tables.
            {"see": true}, {"go": "state=disk"}, {"see": true},
        ]),
    ) else {
        return;
    };
    let [measured @ .., all, disk] = &sights[..] else {
        panic!("{}", sights.len());
    };
    let text = all["text"].as_str().expect("text");
    let (_, end) = text.split_once("Written by").expect("the end of the page");
    say(&format!("drawn: {}; {}; {end}", all["measured"], all["marks"]));
    let numbers = |name: &str| -> Vec<String> {
        let of = measured.iter().filter_map(|sight| sight[name].as_f64());
        of.map(|number| format!("{number:.0}")).collect()
    };
    say(&format!(
        "filters, ms until what is in sight is drawn: {}; all: {}; drag, frames per second: {}",
        numbers("ms").join(", "),
        numbers("all_ms").join(", "),
        numbers("per_second").join(", ")
    ));
    let db_time = |arguments: &[&str]| report(&path, arguments)["db_time_ns"].clone();
    assert_eq!(all["db_time_ns"], db_time(&[]));
    assert_eq!(disk["db_time_ns"], db_time(&["--state", "disk"]));
}
