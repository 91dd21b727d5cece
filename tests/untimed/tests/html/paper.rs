//! A page on paper: all that is on the screen, in the width and the colours of paper, and nothing that only a screen can do.

use std::fs;
use std::path::{Path, PathBuf};

use dbtime_tests::repository;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::browser::{page_of, report, scratch, take_in_other_media};
use super::made::{page_of_two, recording};

/// Words that say what can be done on a screen.
const OF_SCREENS: [&str; 5] = ["click", "Drag", "Arrow keys", "Search", "Show "];
/// Labels darker than `INK` are ink; those paler than `PALE` are meant for a dark screen. From 0 = black to 255.
const INK: u64 = 100;
const PALE: u64 = 130;

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

/// Asserts that pictures have the same resolution across as down, which they do not have when they are squeezed.
#[track_caller]
fn assert_fit(what: &str, pictures: &Value) {
    for picture in list(pictures) {
        let [across, down] = [0, 1].map(|at| picture[at].as_f64().expect("a ratio"));
        assert!(
            across >= 1.0 && (across / down - 1.0).abs() < 0.02,
            "{what}: {picture}"
        );
    }
}

/// Asserts that what can be seen of a page on a screen is on paper, and nothing that is of no use there.
#[track_caller]
fn assert_is_on_paper(what: &str, sight: &Value) {
    let (screen, paper) = (&sight["screen"], &sight["paper"]);
    assert_ne!(screen["controls"], 0, "{what}: there is something to be left out");
    for of_no_use in ["controls", "crosses", "folded"] {
        assert_eq!(paper[of_no_use], 0, "{what}: {of_no_use}");
    }
    let text = paper["text"].as_str().expect("text");
    for words in OF_SCREENS {
        assert!(!text.contains(words), "{what}: {words} is in {text}");
    }
    assert_eq!(paper["headings"], screen["headings"], "{what}: headings");
    let rows = screen["rows"].as_object().expect("tables");
    assert!(rows.len() > 1, "{what}: {rows:?}");
    for (table, rows) in rows {
        assert_eq!(&paper["rows"][table], rows, "{what}: rows of {table}");
    }
    assert_eq!(
        list(&paper["pictures"]).len(),
        list(&screen["pictures"]).len(),
        "{what}: pictures"
    );
    assert_fit(what, &paper["pictures"]);
}

/// Asserts that a page was printed: on more than one sheet, with all of its headings, and with pictures of the width of these.
#[track_caller]
fn assert_is_printed(what: &str, printed: &Value, sight: &Value) {
    assert!(
        printed["pages"].as_u64().is_some_and(|pages| pages > 1),
        "{what}: {printed}"
    );
    for heading in list(&sight["paper"]["headings"]) {
        assert!(
            list(&printed["titles"]).contains(heading),
            "{what}: {heading} is not in {printed}"
        );
    }
    assert_eq!(
        list(&printed["pictures"]).len(),
        list(&sight["paper"]["pictures"]).len(),
        "{what}: pictures"
    );
    assert_fit(what, &printed["pictures"]);
}

#[test]
fn what_is_on_the_screen_is_on_paper_whatever_is_chosen() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    let Some(sights) = take_in_other_media(
        &page,
        &json!([
            {"look": true},
            {"go": "wait=Lock&wait=IO&state=sleep"}, {"look": true},
            {"go": ""}, {"colours": "dark"}, {"look": true}, {"print": "dark.pdf"}, {"look": true},
        ]),
    ) else {
        return;
    };
    let [whole, chosen, dark, printed, again] = &sights[..] else {
        panic!("{}", sights.len());
    };
    for (what, sight) in [
        ("whole", whole),
        ("chosen", chosen),
        ("dark", dark),
        ("again", again),
    ] {
        assert_is_on_paper(what, sight);
    }
    assert_is_printed("dark", printed, dark);
    assert!(fs::read(home.path().join("dark.pdf")).is_ok_and(|pdf| pdf.starts_with(b"%PDF")));
    // Choices are printed, without what takes them back.
    let text = |sight: &Value| sight["paper"]["text"].as_str().expect("text").to_string();
    for choice in ["wait event Lock", "wait event IO", "state sleep"] {
        assert!(text(chosen).contains(choice), "{choice}");
    }
    assert!(
        chosen["screen"]["crosses"]
            .as_u64()
            .is_some_and(|crosses| crosses == 3)
    );
    // What is collapsed on a screen is printed in full.
    let all = report(&recording, &[]);
    let other_rows = list(&all["ledger"])
        .iter()
        .filter(|row| row["section"] != "db_time")
        .count();
    assert_eq!(whole["paper"]["rows"]["Not part of DB time"], other_rows + 1);
    // It says how much of a table is not printed.
    let functions = report(&recording, &["--functions", "--top", "100000"]);
    let count = list(&functions["functions"]).len();
    let missing = format!("Not printed: {} of {count}.", count - 15);
    assert!(text(whole).contains(&missing), "{missing}");
    // Pictures are redrawn for paper, and for the screen after that.
    let darkest = |of: &Value| of["darkest_label"].as_u64().expect("a colour");
    assert!(darkest(&dark["screen"]) > PALE && darkest(&again["screen"]) > PALE);
    for paper in [&whole["paper"], &dark["paper"], printed] {
        assert!(darkest(paper) < INK, "{}", darkest(paper));
    }
    assert_eq!(again["screen"], dark["screen"], "the screen is as it was");
}

/// A page of two recordings, and one of a dive.
fn others(homes: &[TempDir; 2], home: &TempDir) -> [(&'static str, PathBuf); 2] {
    let (two, _) = page_of_two(homes);
    let trace = home.path().join("kernel.fgraph");
    let fixture: &Path = &repository().join("crates/import/tests/fixtures/kernel.fgraph");
    fs::copy(fixture, &trace).expect("it is there");
    [("two", two), ("dive", page_of(&trace, &[]))]
}

#[test]
fn pages_of_two_recordings_and_of_dives_are_printed_too() {
    let (homes, home) = ([scratch(), scratch()], scratch());
    for (what, page) in others(&homes, &home) {
        let Some(sights) = take_in_other_media(&page, &json!([{"look": true}, {"print": "page.pdf"}])) else {
            return;
        };
        assert_is_on_paper(what, &sights[0]);
        assert_is_printed(what, &sights[1], &sights[0]);
    }
}
