//! The root of the flame graph is in sight, at whichever end it is; a user who has scrolled stays there.

use std::path::PathBuf;

use dbtime_model::recording::{Meta, RecordingWriter, SCHEMA_VERSION};
use dbtime_model::{
    ActivityRow, Fidelity, Frame, NO_STACK, Rows, SessionId, SessionRow, SessionState, StackRow, State,
    stack_id,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::browser::{page_of, scratch, take};
use super::made::{BEGIN_US, frame};

/// A recording of one stack, which is higher than the space for the graph.
fn deep_recording(home: &TempDir) -> PathBuf {
    let path = home.path().join("deep.dbt");
    let meta = Meta {
        schema: SCHEMA_VERSION.to_string(),
        start_us: BEGIN_US,
        end_us: BEGIN_US + 1_000_000,
        complete: true,
        ..Meta::default()
    };
    let frames: Vec<Frame> = (0..60)
        .map(|depth| frame(&format!("function_{depth}"), "postgres"))
        .collect();
    let user_stack = stack_id(&frames);
    let rows = Rows {
        sessions: vec![SessionRow {
            id: SessionId(1),
            pid: 101,
            backend_type: "client backend".into(),
            ..SessionRow::default()
        }],
        stacks: vec![StackRow {
            id: user_stack,
            frames,
        }],
        activity: vec![ActivityRow {
            time: BEGIN_US,
            session: SessionId(1),
            statement: 1,
            plan: 0,
            wait_class: "CPU".into(),
            wait_event: "CPU".into(),
            idle: false,
            state: State::User,
            session_state: SessionState::Active,
            kernel_stack: NO_STACK,
            user_stack,
            comment: 0,
            ns: 500_000_000,
            count: 0,
            samples: 50,
            fidelity: Fidelity::Sampled,
            pooled: false,
        }],
        ..Rows::default()
    };
    let mut writer = RecordingWriter::create(&path, meta).expect("a new directory");
    writer.write(&rows).expect("there is room");
    writer.finish().expect("there is room");
    path
}

#[test]
fn the_root_of_a_flame_graph_is_in_sight_and_who_has_scrolled_stays_there() {
    let home = scratch();
    let page = page_of(&deep_recording(&home), &[]);
    let Some(sights) = take(
        &page,
        &json!([
            {"see": true},
            {"go": "root=bottom"}, {"see": true},
            {"scroll": [".flamebox", 100]}, {"go": "root=bottom&search=function_7"}, {"see": true},
            {"go": "root=bottom&first=callees&search=function_7"}, {"see": true},
            {"go": "first=callees"}, {"see": true},
        ]),
    ) else {
        return;
    };
    let px = |sight: &Value| {
        let [at, most] = [0, 1].map(|n| sight["flame_px"][n].as_f64().expect("pixels"));
        assert!(most > 200.0, "it can be scrolled: {sight}");
        (at, most)
    };
    let [top, bottom, searched, callees, turned] = &sights[..] else {
        panic!("{}", sights.len());
    };
    assert_eq!(px(top).0, 0.0);
    let (at, most) = px(bottom);
    assert!(most - at < 2.0, "{at} of {most}");
    assert_eq!(px(searched).0, 100.0, "it is the same graph");
    let (at, most) = px(callees);
    assert!(most - at < 2.0, "another graph: {at} of {most}");
    assert_eq!(px(turned).0, 0.0);
}
