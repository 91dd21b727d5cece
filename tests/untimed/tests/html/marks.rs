//! Marks on the time line of a page: those of the report, and each chooses its time.

use serde_json::{Value, json};

use super::alike::assert_is_report;
use super::browser::{page_of, report, scratch, take};
use super::made::recording;

#[test]
fn marks_are_those_of_the_report_and_a_click_on_one_chooses_its_time() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    // The list, and the picture: the first mark begins with the recording.
    let Some(sights) = take(
        &page,
        &json!([
            {"see": true},
            {"click": ".marks li:last-child button"}, {"see": true},
            {"go": ""},
            {"at": [".timeline canvas", 0.1, 4]}, {"see": true},
        ]),
    ) else {
        return;
    };
    let line = &report(&recording, &["--timeline=1s"])["timeline"];
    let marks = line["marks"].as_array().expect("marks");
    assert!(marks.len() > 1, "{marks:?}");
    let texts: Vec<String> = list(&sights[0]["timeline"]["marks"]);
    assert_eq!(texts.len(), marks.len());
    for (text, mark) in texts.iter().zip(marks) {
        let parts = ["kind", "from", "to"].map(|name| mark[name].as_str().expect("text"));
        let [kind, from, to] =
            parts.map(|part| part.split('T').next_back().unwrap_or(part).trim_end_matches('Z'));
        assert_eq!(*text, format!("{kind} {from} to {to}"));
    }
    for (sight, mark) in [
        (&sights[1], marks.last().expect("marks")),
        (&sights[2], &marks[0]),
    ] {
        let [from, to] = ["from", "to"].map(|name| mark[name].as_str().expect("a time"));
        let asked = ["--from", from, "--to", to];
        assert_is_report("the time of a mark", sight, &report(&recording, &asked));
        let fragment = sight["fragment"].as_str().expect("text").replace("%3A", ":");
        assert!(fragment.contains(&format!("from={from}")), "{fragment}");
    }
}

fn list(value: &Value) -> Vec<String> {
    let all = value.as_array().expect("a list").iter();
    all.map(|one| one.as_str().expect("text").to_string()).collect()
}
