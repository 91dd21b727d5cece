//! What a page says in words: where a table has no rows, where a line is not drawn, and how far to trust it.

use dbtime_tests::dbtime;
use serde_json::{Value, json};

use super::browser::{page_of, plain, scratch, take};
use super::made::recording;

const ABOVE: &str = "2 CPUs, above the chart";

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

#[test]
fn tables_without_rows_and_cpus_above_the_picture_are_said_in_words() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    let Some(sights) = take(
        &page,
        &json!([
            {"see": true},
            {"go": "user=user1&state=disk&function=nonsense"}, {"see": true},
            {"go": "session=99999"}, {"see": true},
            {"go": "session=101&wait=Lock:transactionid"}, {"see": true},
        ]),
    ) else {
        return;
    };
    let [all, function, session, few] = &sights[..] else {
        panic!("{}", sights.len());
    };
    let without_rows = |sight: &Value| text(&sight["text"]).matches("No time in the selection.").count();
    assert_eq!(without_rows(all), 0);
    // Statements, sessions, functions, modules.
    assert_eq!([without_rows(function), without_rows(session)], [4, 4]);
    let are_above = |sight: &Value| {
        let legend = sight["legend"].as_array().expect("a legend");
        legend.iter().any(|line| line == ABOVE)
    };
    assert!(!are_above(all), "the line is drawn: {}", all["legend"]);
    assert!(are_above(few), "{}", few["legend"]);
    // Where nothing is drawn nothing is above it.
    assert!(!are_above(session), "{}", session["legend"]);
}

#[test]
fn what_is_exact_sampled_pooled_and_lost_stays_in_sight() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    let Some(sights) = take(&page, &json!([{"hover": "footer"}, {"see": true}])) else {
        return;
    };
    let px = sights[0]["trust_px"].as_f64().expect("pixels");
    assert!((0.0..300.0).contains(&px), "{px}");
    let trust = text(&sights[0]["trust"]);
    let reported = dbtime(&["report", plain(&recording)]).expect_code(0).stdout;
    for begin in ["Partly exact: ", "Pooled: ", "samples "] {
        let (_, rest) = trust
            .split_once(begin)
            .unwrap_or_else(|| panic!("{begin}: {trust}"));
        // Its first word, as the report has it.
        let word = rest.split([' ', ',']).next().expect("a word");
        assert!(
            reported.contains(&format!("{begin}{word}")),
            "{begin}{word}: {reported}"
        );
    }
    assert!(
        trust.contains("torn ") && trust.contains("lost ") && trust.contains("not sampled "),
        "{trust}"
    );
}
