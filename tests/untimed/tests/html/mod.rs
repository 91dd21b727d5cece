//! The page that `dbtime html` writes, in a real browser without a network: its numbers are those of the report, whatever is chosen in
//! it, and what others wrote in a recording does nothing.

mod alike;
mod browser;
mod choosing;
mod dive;
mod dive_made;
mod flame_root;
mod hearing;
mod in_words;
mod latencies;
mod made;
mod marks;
mod of_two;
mod paper;
mod size;
mod two_dives;
mod whole_stacks;

use std::fs;
use std::time::Duration;

use dbtime::throwaway::Options;
use dbtime_tests::{Recorder, Session, dbtime, distribution, needs_recording, repository};
use serde_json::{Value, json};

use crate::imports::samples_of_snapper;
use alike::{
    assert_are_causes, assert_are_functions, assert_are_latencies, assert_are_modules, assert_is_report,
    assert_is_timeline,
};
use browser::{keep, page_of, plain, report, scratch, take};
use made::{HOSTILE, recording};

/// What is chosen in the page, and how the report is asked for the same.
const CHOSEN: [(&str, &[&str]); 12] = [
    ("", &[]),
    ("wait=IO:DataFileRead", &["--wait", "IO:DataFileRead"]),
    ("wait=ClientRead", &["--wait", "ClientRead"]),
    ("wait=ClientRead+(no+CPU)", &["--wait", "ClientRead (no CPU)"]),
    (
        "wait_class=Lock&wait_class=CPU",
        &["--wait", "Lock", "--wait", "CPU"],
    ),
    (
        "state=kernel&state=runnable",
        &["--state", "kernel", "--state", "runnable"],
    ),
    ("user=user1", &["--where", "user=user1"]),
    (
        "database=db2&application=app2",
        &["--where", "database=db2", "--where", "application=app2"],
    ),
    (
        "session=101&session=104",
        &["--session", "101", "--session", "104"],
    ),
    ("query=-7046029254386353131", &["--query", "-7046029254386353131"]),
    (
        "from=2025-06-15T15:06:45Z&to=2025-06-15T15:06:57Z",
        &["--from", "5", "--to", "17"],
    ),
    (
        "from=2025-06-15T15:06:45Z&user=user0&wait=IO&state=disk",
        &[
            "--from",
            "5",
            "--where",
            "user=user0",
            "--wait",
            "IO",
            "--state",
            "disk",
        ],
    ),
];

#[test]
fn whatever_is_chosen_the_page_says_what_the_report_says() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    let steps: Vec<Value> = CHOSEN
        .iter()
        .flat_map(|(fragment, _)| [json!({"go": fragment}), json!({"see": true})])
        .collect();
    let Some(sights) = take(&page, &steps.into()) else {
        return;
    };
    for ((fragment, arguments), sight) in CHOSEN.iter().zip(&sights) {
        assert_is_report(fragment, sight, &report(&recording, arguments));
        assert_are_functions(fragment, sight, &recording, arguments);
        assert_are_modules(fragment, sight, &recording, arguments);
        assert_are_causes(fragment, sight, &recording, arguments);
        // All of time is drawn, whatever is chosen of it.
        if !arguments.contains(&"--from") {
            assert_is_timeline(fragment, sight, &recording, arguments);
        }
    }
    let waits = sights[0]["causes"]["waits"].as_array().expect("waits");
    assert!(
        waits
            .iter()
            .any(|wait| wait["locks"].as_array().is_some_and(|locks| locks.len() > 2)),
        "locks are named, and what is not known: {waits:?}"
    );
    // A page of a part of a recording is that part.
    let page = page_of(&recording, &["--from", "3", "--where", "user=user1"]);
    let sights = take(&page, &json!([{"see": true}])).expect("it was there before");
    assert_is_report(
        "a part",
        &sights[0],
        &report(&recording, &["--from", "3", "--where", "user=user1"]),
    );
}

/// Waits that last seconds and have the time at which they ended.
#[test]
fn a_page_of_a_trace_says_what_its_report_says() {
    let home = scratch();
    let trace = home.path().join("statements.trc");
    let fixture = repository().join("crates/import/tests/fixtures/statements.trc");
    fs::copy(fixture, &trace).expect("it is there");
    let Some(sights) = take(&page_of(&trace, &[]), &json!([{"see": true}])) else {
        return;
    };
    assert_eq!(sights[0]["db_time_ns"], report(&trace, &[])["db_time_ns"]);
    let waited = sights[0]["causes"]["empty"].as_str().expect("text");
    assert!(waited.contains("Files of other tools"), "{waited}");
    assert_are_latencies("a trace", &sights[0], &trace, &["--kind", "wait"]);
    assert_is_timeline("a trace", &sights[0], &trace, &[]);
}

/// Rows of several seconds, with the time of the last of them.
#[test]
fn a_page_of_snappers_samples_has_them_in_all_of_their_time() {
    let home = scratch();
    let samples = samples_of_snapper(&home);
    let Some(sights) = take(&page_of(&samples, &[]), &json!([{"see": true}])) else {
        return;
    };
    assert_eq!(sights[0]["db_time_ns"], report(&samples, &[])["db_time_ns"]);
    assert_is_timeline("samples", &sights[0], &samples, &[]);
}

#[test]
fn while_the_pointer_is_in_a_table_its_rows_stay_where_they_are() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    let Some(sights) = take(
        &page,
        &json!([
            {"see": true},
            {"hover": "#who tbody tr"}, {"go": "state=sleep&wait=Lock"}, {"see": true},
            {"hover": "h1"}, {"see": true}
        ]),
    ) else {
        return;
    };
    let order = |sight: &Value| -> Vec<String> {
        let rows = sight["sessions"].as_array().expect("rows");
        rows.iter()
            .map(|row| row["key"].as_str().expect("a key").to_string())
            .collect()
    };
    assert_eq!(order(&sights[0]), order(&sights[1]), "under the pointer");
    assert_ne!(order(&sights[1]), order(&sights[2]), "without it");
}

#[test]
fn what_others_wrote_is_text_and_does_nothing() {
    let home = scratch();
    let recording = recording(&home, HOSTILE);
    let page = page_of(&recording, &[]);
    let written = fs::read_to_string(&page).expect("text");
    assert!(
        !written.contains("alert(") && !written.contains("onerror"),
        "nothing of it is in the page's own text"
    );
    let Some(sights) = take(
        &page,
        &json!([
            {"see": true},
            {"go": "by=query"}, {"go": "by=user"}, {"go": "levels=query&search=alert"},
            {"hover": ".timeline canvas"}, {"at": [".flame canvas", 0.5, 60]},
            {"click": ".matrix th button"}, {"click": "#who tbody tr"},
            {"see": true}
        ]),
    ) else {
        return;
    };
    let whole = report(&recording, &[]);
    assert_eq!(sights[0]["db_time_ns"], whole["db_time_ns"]);
    for sight in &sights {
        assert_eq!(
            (&sight["ran"], &sight["scripts"]),
            (&Value::Null, &json!(2)),
            "no script but the page's own"
        );
    }
    let text = sights[0]["text"].as_str().expect("text");
    assert!(
        text.contains("<script>") && !text.contains('\u{202e}'),
        "it is shown as it is, but for what reorders"
    );
}

#[test]
fn a_damaged_page_says_so() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    let text = fs::read_to_string(&page).expect("text");
    let (begin, _) = text.split_once("id=\"data\">").expect("it has data");
    let data = begin.len() + "id=\"data\">".len();
    for (at, length) in [(data + 400, 4), (data + 100, 1_000)] {
        let changed = format!("{}{}", &text[..at], &text[at + length..]);
        fs::write(&page, changed).expect("a file of our own");
        let Some(sights) = take(&page, &json!([{"see": true}])) else {
            return;
        };
        let trouble = sights[0]["trouble"].as_str().expect("text");
        assert!(trouble.contains("This page is damaged"), "{trouble}");
    }
}

/// Cut inside the data, before and after its end, and inside the script.
#[test]
fn a_page_that_ends_early_says_so() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    let text = fs::read_to_string(&page).expect("text");
    let (begin, rest) = text.split_once("id=\"data\">").expect("it has data");
    let data = begin.len() + "id=\"data\">".len();
    let end = data + rest.find("</script>").expect("its end");
    for at in [data + 1, end - 1, end + 40, text.len() - 40] {
        fs::write(&page, &text[..at]).expect("a file of our own");
        let Some(sights) = take(&page, &json!([{"see": true}])) else {
            return;
        };
        let said = sights[0]["text"].as_str().expect("text");
        assert!(
            said.contains("part of this file is missing"),
            "cut at {at}: {said}"
        );
    }
    fs::write(&page, &text).expect("a file of our own");
    let sights = take(&page, &json!([{"see": true}])).expect("it was there before");
    let said = sights[0]["text"].as_str().expect("text");
    assert!(!said.contains("is missing"), "{said}");
}

#[test]
fn a_page_lies_beside_its_recording_and_is_its_owners() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let home = scratch();
    let recording = recording(&home, "");
    dbtime(&["html", plain(&recording)])
        .expect_code(0)
        .expect_stderr(&["made.html"]);
    let page = recording.with_extension("html");
    let mode = fs::metadata(&page).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Nothing is written through a link.
    let other = home.path().join("other");
    fs::write(&other, "mine").expect("a file of our own");
    fs::remove_file(&page).expect("a file of our own");
    symlink(&other, &page).expect("a link of our own");
    dbtime(&["html", plain(&recording)]).expect_code(1);
    assert_eq!(fs::read_to_string(&other).expect("it is there"), "mine");
    // A choice without any rows makes no page.
    dbtime(&["html", plain(&recording), "--where", "user=nobody"]).expect_code(1);
}

#[test]
fn a_page_of_a_real_recording_says_what_its_report_says() {
    needs_recording!();
    let cluster = distribution().start(Options::default().set("compute_query_id", "on"));
    let mut busy = Session::connect(&cluster);
    let recorder = Recorder::server(&cluster, &[]);
    busy.burn(Duration::from_secs(2));
    busy.run("SELECT pg_sleep(1)");
    let recorded = recorder.stop();
    let page = page_of(&recorded.path, &[]);
    let Some(sights) = take(
        &page,
        &json!([{"see": true}, {"go": "state=user"}, {"see": true}, {"picture": "real.png"}]),
    ) else {
        return;
    };
    assert_is_report("all", &sights[0], &report(&recorded.path, &[]));
    assert_is_report("state", &sights[1], &report(&recorded.path, &["--state", "user"]));
    assert_are_functions("all", &sights[0], &recorded.path, &[]);
    assert_are_modules("all", &sights[0], &recorded.path, &[]);
    assert_are_causes("all", &sights[0], &recorded.path, &[]);
    keep(&page.with_file_name("real.png"));
}
