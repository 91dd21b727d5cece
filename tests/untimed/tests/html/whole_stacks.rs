//! The frames that all stacks of a server begin with are left out of the flame graph unless they are asked for; no time is lost with them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use dbtime_tests::dbtime;
use serde_json::{Value, json};

use super::browser::{page_of, plain, report, scratch, take};
use super::made::{page_of_two, recording};

const START: &[&str] = &["main", "PostmasterMain"];

/// How many frames a recording's flame graph has without these, by its folded stacks.
fn frames_without(recording: &Path, start: &[&str]) -> usize {
    let folded = recording.with_extension("folded");
    dbtime(&["flame", plain(recording), "-o", plain(&folded)]).expect_code(0);
    let text = fs::read_to_string(folded).expect("text");
    let mut frames = BTreeSet::new();
    for line in text.lines() {
        let (stack, _) = line.rsplit_once(' ').expect("a stack and its time");
        let mut names: Vec<&str> = stack.split(';').collect();
        // Wait and state come before it.
        if names[2..].starts_with(start) {
            names.drain(2..2 + start.len());
        }
        frames.extend((1..=names.len()).map(|depth| names[..depth].join(";")));
    }
    frames.len()
}

/// What the line above the flame graph says: its times, and how many frames there are.
fn said(sight: &Value) -> (String, usize) {
    let text = sight["flame"].as_str().expect("text");
    let (time, rest) = text.split_once(" in ").expect("time and frames");
    let (frames, _) = rest.split_once(" frames").expect("frames");
    (
        time.to_string(),
        frames.replace(',', "").parse().expect("a number"),
    )
}

#[test]
fn the_start_of_the_server_is_drawn_when_it_is_asked_for() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    let Some(sights) = take(
        &page,
        &json!([
            {"see": true}, {"go": "paths=callees"}, {"see": true}, {"go": "search=exec_1"}, {"see": true}, {"go": ""},
            {"focus": "#code input[type=checkbox]"}, {"press": "Space"}, {"see": true},
            {"back": true}, {"see": true},
            {"go": "paths=callees&stacks=whole"}, {"see": true}, {"go": "stacks=whole&search=exec_1"}, {"see": true},
        ]),
    ) else {
        return;
    };
    let [usual, callees, found, whole, back, whole_callees, found_in_whole] = &sights[..] else {
        panic!("{}", sights.len());
    };
    let dbtime_s = report(&recording, &[])["db_time_ns"]
        .as_u64()
        .expect("nanoseconds") as f64
        / 1e9;
    let time = format!("{dbtime_s:.3} s");
    let few = frames_without(&recording, START);
    let all = frames_without(&recording, &[]);
    assert!(few < all, "{few} of {all}");
    assert_eq!(said(usual), (time.clone(), few));
    assert_eq!(said(whole), (time.clone(), all));
    assert_eq!(
        (&usual["fragment"], &whole["fragment"]),
        (&json!(""), &json!("#stacks=whole"))
    );
    assert_eq!(
        (&back["fragment"], said(back)),
        (&usual["fragment"], said(usual)),
        "back"
    );
    let (callees, whole_callees) = (said(callees), said(whole_callees));
    assert_eq!((&callees.0, &whole_callees.0), (&time, &time));
    assert!(callees.1 < whole_callees.1, "callees first");
    // What is called from there has the same time with it and without.
    let lit = |sight: &Value| {
        let text = sight["flame"].as_str().expect("text");
        text.split_once(" is in ")
            .expect("it is searched for")
            .1
            .to_string()
    };
    assert_eq!(lit(found), lit(found_in_whole));
    let functions = report(&recording, &["--functions", "--top", "100000"]);
    let all = functions["functions"].as_array().expect("functions").iter();
    let of_report: f64 = all
        .filter(|row| row["function"] == "exec_1")
        .map(|row| row["total_ns"].as_f64().expect("nanoseconds"))
        .sum();
    assert!(
        lit(found).starts_with(&format!("{:.3} s", of_report / 1e9)),
        "{}, but {of_report}",
        lit(found)
    );
}

#[test]
fn two_recordings_are_compared_without_the_start_of_the_server() {
    let homes = [scratch(), scratch()];
    let (page, _) = page_of_two(&homes);
    let Some(sights) = take(
        &page,
        &json!([
            {"see": true}, {"focus": "#code input[type=checkbox]"}, {"press": "Space"}, {"see": true}, {"back": true}, {"see": true},
        ]),
    ) else {
        return;
    };
    let [usual, whole, back] = &sights[..] else {
        panic!("{}", sights.len());
    };
    assert_eq!(said(usual).0, said(whole).0, "no time goes");
    assert!(said(usual).1 < said(whole).1, "frames do");
    assert_eq!((said(back), &back["fragment"]), (said(usual), &json!("")));
    assert_eq!(whole["fragment"], "#stacks=whole");
}
