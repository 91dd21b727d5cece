//! The page of two recordings says what `dbtime diff` says of them.

use std::fs;
use std::path::Path;

use dbtime_tests::dbtime;
use serde_json::{Value, json};

use super::browser::{keep, plain, scratch, take};
use super::made::{HOSTILE, page_of_two, slower_recording};

fn differences(recordings: [&Path; 2], arguments: &[&str]) -> Value {
    let [good, bad] = recordings.map(plain);
    let outcome = dbtime(&[&["diff", good, bad, "--format", "json"], arguments].concat()).expect_code(0);
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

/// Asserts that the rows of a table of a page are the differences of a list.
#[track_caller]
fn assert_are_differences(what: &str, rows: &Value, changes: &Value) {
    let numbers = |good: &Value, bad: &Value, difference: f64| {
        let number = |value: &Value| value.as_f64().expect("a number");
        [number(good), number(bad), difference.abs()].map(f64::to_bits)
    };
    let mut in_page: Vec<[u64; 3]> = rows
        .as_array()
        .unwrap_or_else(|| panic!("{what}: no table"))
        .iter()
        .map(|row| {
            let values = row["values"].as_array().expect("cells");
            let at = values.iter().position(Value::is_number).expect("numbers");
            numbers(
                &values[at],
                &values[at + 1],
                values[at + 2].as_f64().expect("a number"),
            )
        })
        .collect();
    let mut in_diff: Vec<[u64; 3]> = changes
        .as_array()
        .expect("a list")
        .iter()
        .filter(|change| change["difference"] != 0.0)
        .map(|change| {
            let difference = change["difference"].as_f64().expect("a number");
            numbers(&change["good"], &change["bad"], difference)
        })
        .collect();
    assert!(!in_diff.is_empty(), "{what}: something differs");
    in_page.sort_unstable();
    in_diff.sort_unstable();
    assert_eq!(in_page, in_diff, "{what}");
}

#[test]
fn the_page_of_two_recordings_says_what_diff_says() {
    let homes = [scratch(), scratch()];
    let (page, [good, bad]) = page_of_two(&homes);
    let Some(sights) = take(
        &page,
        &json!([
            {"see": true}, {"picture": "both.png"},
            {"click": "#sql .ranked tbody tr"}, {"see": true}, {"back": true},
            {"go": "widths=good"}, {"focus": ".flame canvas"},
            {"press": "ArrowDown"}, {"press": "ArrowDown"}, {"press": "z"}, {"see": true}, {"back": true},
            {"click": "#ledger .ranked tbody tr"}, {"see": true},
            {"click": "#functions .ranked:last-of-type tbody tr"}, {"see": true},
            {"click": "#functions .ranked thead th button"}, {"see": true},
            {"colours": "dark"}, {"size": [390, 800]}, {"picture": "both_dark.png"}, {"see": true}
        ]),
    ) else {
        return;
    };
    let [all, statement, zoomed, lit, module, sorted, phone] = &sights[..] else {
        panic!("{}", sights.len());
    };
    // The text points its readers here.
    let text = dbtime(&["diff", plain(&good), plain(&bad)]).expect_code(0).stdout;
    let next = format!("Next: dbtime html {} {}", plain(&good), plain(&bad));
    assert!(text.contains(&next), "{text}");
    let diff = differences([&good, &bad], &[]);
    let tables = &all["tables"];
    for (table, list) in [
        ("Differences by wait event, state", "cells"),
        ("Differences by wait event", "waits"),
        ("Differences by function", "functions"),
        ("Differences by call path", "paths"),
        ("Differences by module", "modules"),
        ("Differences by statement", "statements"),
    ] {
        assert_are_differences(list, &tables[table], &diff[list]);
    }
    let text = |sight: &Value, name: &str| sight[name].as_str().expect("text").to_string();
    for sentence in ["headline", "statement", "conclusion", "whole"] {
        let sentence = diff[sentence].as_str().expect("text");
        assert!(text(all, "text").contains(sentence), "{sentence}");
    }
    assert!(
        text(statement, "fragment").starts_with("#statement="),
        "{statement}"
    );
    assert!(
        text(statement, "text").contains("The ledger of the selected statement"),
        "{statement}"
    );
    let flame = text(zoomed, "flame");
    assert!(flame.contains("zoomed") && flame.contains("BAD"), "{flame}");
    assert!(text(zoomed, "fragment").contains("widths=good&zoom="), "{zoomed}");
    assert!(
        text(lit, "fragment").contains("search=IO%3ADataFileRead"),
        "{lit}"
    );
    // For a module all its frames: more than those with its name in theirs.
    assert!(text(module, "fragment").contains("search=in%3A"), "{module}");
    let flame = text(module, "flame");
    assert!(flame.contains("“in:") && !flame.contains(", 0.0 %"), "{flame}");
    assert!(
        text(sorted, "fragment").contains("sort_functions=place"),
        "{sorted}"
    );
    assert!(
        phone["overflow"].as_i64().is_some_and(|px| px <= 0),
        "{}",
        phone["overflow"]
    );
    for picture in ["both.png", "both_dark.png"] {
        keep(&homes[0].path().join(picture));
    }
}

#[test]
fn two_recordings_are_compared_as_diff_does_and_one_is_not() {
    let homes = [scratch(), scratch()];
    let [good, bad] = homes.each_ref().map(|home| slower_recording(home, HOSTILE, 2));
    let both = |arguments: &[&str]| dbtime(&[&["html", plain(&good), plain(&bad)], arguments].concat());
    both(&["--from", "8", "--to", "10"]).expect_code(3);
    both(&["--per", "request"])
        .expect_code(2)
        .expect_stderr(&["does not count requests"]);
    dbtime(&["html", plain(&good), "--per", "second"])
        .expect_code(2)
        .expect_stderr(&["compare two recordings"]);
    both(&["--per", "second", "--from", "3"])
        .expect_code(0)
        .expect_stderr(&["made-against-made.html"]);
    let page = bad.with_file_name("made-against-made.html");
    let written = fs::read_to_string(&page).expect("text");
    assert!(
        !written.contains("alert("),
        "nothing of it is in the page's own text"
    );
    let Some(sights) = take(&page, &json!([{"hover": ".flame canvas"}, {"see": true}])) else {
        return;
    };
    let sight = &sights[0];
    assert_eq!((&sight["ran"], &sight["scripts"]), (&Value::Null, &json!(2)));
    assert!(
        sight["text"]
            .as_str()
            .is_some_and(|text| text.contains("<script>")),
        "it is shown as text"
    );
}
