//! What a screen reader is told of a page, by the browser's accessibility tree: names of all that can be done and seen, headings in order,
//! column headers of tables, and what a choice changes.

use std::fs;
use std::path::Path;

use dbtime_tests::repository;
use serde_json::{Value, json};

use super::browser::{page_of, scratch, take_in_other_media};
use super::made::{page_of_two, recording};

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

/// Asserts that everything has a name, and headings are in order.
#[track_caller]
fn assert_is_told(what: &str, heard: &Value) {
    for kind in ["controls", "pictures"] {
        for one in list(&heard[kind]) {
            let [role, name] = [0, 1].map(|at| text(&one[at]));
            assert!(
                !matches!(role, "" | "none" | "generic") && !name.trim().is_empty(),
                "{what}: {one} of {kind}"
            );
        }
    }
    assert!(
        !list(&heard["controls"]).is_empty(),
        "{what}: something can be done"
    );
    let mut before = 0;
    for heading in list(&heard["headings"]) {
        let level = heading[0].as_u64().expect("a level");
        assert!(
            level <= before + 1 && (level == 1) == (before == 0),
            "{what}: {heading} behind one of level {before}"
        );
        assert!(!text(&heading[1]).trim().is_empty(), "{what}: a heading");
        before = level;
    }
    assert!(before > 0, "{what}: there are headings");
    let tables = list(&heard["tables"]);
    let mut names: Vec<&str> = tables.iter().map(|table| text(&table["name"])).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), tables.len(), "{what}: each table has its name");
    assert!(names.len() > 1 && !names.contains(&""), "{what}: {names:?}");
    for table in tables {
        let heads = list(&table["heads"]);
        assert!(
            heads.len() > 1 && heads.iter().all(|head| !text(head).trim().is_empty()),
            "{what}: {table}"
        );
    }
}

/// The live region whose text begins like this: which part of the page it is, and its text.
fn announced(heard: &Value, beginning: &str) -> (Value, String) {
    let of = list(&heard["live"]);
    let found = of
        .iter()
        .find(|part| text(&part["text"]).starts_with(beginning))
        .unwrap_or_else(|| panic!("{beginning} is not in {of:?}"));
    (found["id"].clone(), text(&found["text"]).to_string())
}

#[test]
fn all_of_a_page_has_names_and_a_choice_is_announced() {
    let home = scratch();
    let page = page_of(&recording(&home, ""), &[]);
    let cell = ".matrix tr[data-wait='Lock:transactionid'] td[data-state=sleep] button";
    let Some(sights) = take_in_other_media(
        &page,
        &json!([
            {"hear": true},
            {"click": ".others summary"}, {"hear": true},
            {"enter": cell}, {"hear": true},
            {"enter": cell}, {"hear": true},
            {"go": "wait=Lock"}, {"hear": true},
            {"go": "wait=Lock&wait_class=Lock"}, {"hear": true},
            {"enter": ".chip"}, {"hear": true},
            {"go": ""}, {"enter": "#modules tr[data-key=vfs]"}, {"hear": true},
        ]),
    ) else {
        return;
    };
    for (at, heard) in sights.iter().enumerate() {
        assert_is_told(&format!("look {at}"), heard);
    }
    let [whole, open, cell, back, wait, class, unchipped, module] = &sights[..] else {
        panic!("{}", sights.len());
    };
    assert_eq!(list(&open["tables"]).len(), list(&whole["tables"]).len() + 1);
    assert_eq!(
        list(&whole["pictures"]).len(),
        3,
        "time line, flame graph, heat map"
    );
    // The same parts of the page say something else.
    let (choice, all_of_it) = announced(whole, "Everything is shown");
    let (summary, whole_time) = announced(whole, "DB time ");
    assert_eq!(
        announced(cell, "Selected: "),
        (
            choice.clone(),
            "Selected: wait event Lock:transactionid; state sleep.".to_string()
        )
    );
    let (id, time) = announced(cell, "DB time ");
    assert_eq!(id, summary);
    assert_ne!(time, whole_time);
    assert_eq!(
        announced(back, "Everything is shown"),
        (choice.clone(), all_of_it)
    );
    assert_eq!(announced(back, "DB time "), (summary, whole_time));
    // A choice that changes no number is one all the same.
    assert_eq!(announced(wait, "DB time "), announced(class, "DB time "));
    assert_eq!(
        announced(class, "Selected: "),
        (choice, "Selected: wait event Lock; wait class Lock.".to_string())
    );
    // The focus stays where it was; if that is gone, it is next to it.
    for (what, heard, name) in [
        ("cell", cell, "Lock:transactionid, sleep: "),
        ("back", back, "Lock:transactionid, sleep: "),
        ("chip", unchipped, "Remove wait class Lock"),
    ] {
        let focus = list(&heard["focus"]);
        assert!(
            focus.len() == 1 && focus[0][0] == "button" && text(&focus[0][1]).starts_with(name),
            "{what}: {focus:?}"
        );
    }
    let rows = list(&module["chosen_rows"]);
    assert!(rows.len() == 1 && text(&rows[0]).ends_with("vfs"), "{rows:?}");
}

#[test]
fn all_of_a_page_of_two_recordings_has_names() {
    let homes = [scratch(), scratch()];
    let (page, _) = page_of_two(&homes);
    let Some(sights) = take_in_other_media(
        &page,
        &json!([
            {"hear": true},
            {"enter": "#sql .ranked tbody tr"}, {"hear": true},
            {"enter": "#ledger .ranked tbody tr"}, {"hear": true},
        ]),
    ) else {
        return;
    };
    for (at, heard) in sights.iter().enumerate() {
        assert_is_told(&format!("look {at}"), heard);
    }
    let [whole, statement, lit] = &sights[..] else {
        panic!("{}", sights.len());
    };
    assert_eq!(
        list(&statement["tables"]).len(),
        list(&whole["tables"]).len() + 1,
        "the statement's ledger"
    );
    let (id, before) = announced(statement, "GOOD ");
    let (same, after) = announced(lit, "GOOD ");
    assert!(
        id == same && !before.contains(" is in ") && after.contains(" is in "),
        "{after}"
    );
}

#[test]
fn all_of_pages_of_other_files_has_names() {
    let home = scratch();
    let page = |fixture: &str| {
        let fixture: &Path = &repository().join("crates/import/tests/fixtures").join(fixture);
        let file = home.path().join(fixture.file_name().expect("a file"));
        fs::copy(fixture, &file).expect("it is there");
        page_of(&file, &[])
    };
    let Some(trace) = take_in_other_media(&page("statements.trc"), &json!([{"hear": true}])) else {
        return;
    };
    assert_is_told("a trace", &trace[0]);
    let steps = json!([{"hear": true}, {"enter": "#functions tbody tr"}, {"hear": true}]);
    let dive = take_in_other_media(&page("kernel.fgraph"), &steps).expect("it was there before");
    for heard in &dive {
        assert_is_told("a dive", heard);
    }
    let lit = list(&dive[1]["live"])
        .iter()
        .any(|part| text(&part["text"]).contains("highlighted"));
    assert!(lit, "{}", dive[1]["live"]);
}
