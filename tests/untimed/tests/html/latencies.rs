//! Latencies in a page are those of the report, whatever is chosen.

use serde_json::{Value, json};

use super::alike::assert_are_latencies;
use super::browser::{keep, page_of, scratch, take};
use super::made::recording;

/// Which latencies are chosen in the page, and how the report is asked for the same.
const LATENCIES: [(&str, &[&str]); 9] = [
    ("latency=command", &["--kind", "command"]),
    ("latency=wait", &["--kind", "wait"]),
    (
        "latency=wait&wait=DataFileRead",
        &["--kind", "wait", "--name", "DataFileRead"],
    ),
    (
        "latency=read&latency_by=name,source&user=user0",
        &["--kind", "read", "--by", "name,source", "--where", "user=user0"],
    ),
    (
        "latency=read&latency_by=source",
        &["--kind", "read", "--by", "source"],
    ),
    (
        "latency=block&latency_by=device",
        &["--kind", "block", "--by", "device"],
    ),
    (
        "latency=block&latency_by=device&session=101",
        &["--kind", "block", "--by", "device", "--session", "101"],
    ),
    (
        "latency=syscall&from=2025-06-15T15:06:45Z&to=2025-06-15T15:06:57Z",
        &["--kind", "syscall", "--from", "5", "--to", "17"],
    ),
    (
        "latency=command&query=-7046029254386353131",
        &["--kind", "command", "--name=-7046029254386353131"],
    ),
];

#[test]
fn latencies_are_those_of_the_report() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    let mut steps: Vec<Value> = LATENCIES
        .iter()
        .flat_map(|(fragment, _)| [json!({"go": fragment}), json!({"see": true})])
        .collect();
    steps.extend([
        json!({"go": "latency=syscall"}),
        json!({"click": "#latency .ranked tbody tr"}),
        json!({"see": true}),
        json!({"focus": "#latency canvas"}),
        json!({"press": "ArrowRight"}),
        json!({"press": "ArrowRight"}),
        json!({"see": true}),
        json!({"press": "Enter"}),
        json!({"see": true}),
        json!({"back": true}),
        json!({"drag": ["#latency canvas", 0.3, 0.5]}),
        json!({"see": true}),
        // A click on a cell, and one beside the picture.
        json!({"go": "latency=syscall"}),
        json!({"at": ["#latency canvas", 0.2, 60]}),
        json!({"see": true}),
        json!({"go": "latency=syscall"}),
        json!({"at": ["#latency canvas", 0.01, 60]}),
        json!({"see": true}),
        json!({"go": "latency=syscall&state=disk"}),
        json!({"see": true}),
        json!({"go": "latency=wait&wait=LWLock"}),
        json!({"see": true}),
        json!({"go": "latency=read&latency_by=name,source"}),
        json!({"picture": "latencies.png"}),
    ]);
    let Some(sights) = take(&page, &steps.into()) else {
        return;
    };
    for ((fragment, arguments), sight) in LATENCIES.iter().zip(&sights) {
        assert_are_latencies(fragment, sight, &recording, arguments);
    }
    let [one, cell, time, dragged, clicked, beside, states, nothing] = &sights[LATENCIES.len()..] else {
        panic!("{}", sights.len());
    };
    let text = |value: &Value| value.as_str().expect("text").to_string();
    assert!(text(&one["fragment"]).contains("latency_of="), "{one}");
    assert!(text(&one["latency"]["title"]).contains("events"), "{one}");
    assert!(!text(&cell["latency"]["status"]).is_empty(), "{cell}");
    for sight in [time, dragged, clicked] {
        assert!(text(&sight["chips"][0]).starts_with("time "), "{sight}");
    }
    assert_eq!(
        clicked["chips"],
        json!(["time 15:06:43 to 15:06:44"]),
        "one column"
    );
    assert_eq!(beside["chips"], json!([]));
    assert!(
        text(&states["latency"]["empty"]).contains("cannot be filtered by state"),
        "{states}"
    );
    assert!(
        text(&nothing["latency"]["empty"]).contains("no such event in the selection"),
        "{nothing}"
    );
    keep(&home.path().join("latencies.png"));
}

#[test]
fn a_bar_of_the_histogram_chooses_the_events_that_took_so_long() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    let bar = ".histogram tbody tr:last-child";
    let Some(sights) = take(
        &page,
        &json!([
            {"go": "latency=wait"}, {"see": true},
            {"click": bar}, {"see": true},
            {"back": true}, {"see": true},
            {"focus": bar}, {"press": "Enter"}, {"see": true},
            {"press": "Enter"}, {"see": true},
            {"click": bar}, {"click": ".chip"}, {"see": true},
            {"go": "latency=wait&latency_us=5-7"}, {"see": true},
        ]),
    ) else {
        return;
    };
    let [whole, clicked, others @ ..] = &sights[..] else {
        panic!("{}", sights.len());
    };
    let [back, by_key, again, unchipped, none] = others else {
        panic!("{}", sights.len());
    };
    let bars = whole["latency"]["histogram"].as_array().expect("buckets");
    let [from, count, ns] = [0, 1, 2].map(|at| {
        let last = bars.last().expect("a bucket");
        last[at].as_u64().expect("a number")
    });
    let to = if from == 0 { 1 } else { 2 * from };
    for sight in [clicked, by_key] {
        assert_eq!(sight["chips"], json!([format!("latency {from} to {to} us")]));
        assert_eq!(sight["fragment"], format!("#latency=wait&latency_us={from}-{to}"));
        // Events and time of each row: together they are those of the bar.
        let rows = sight["latency"]["rows"].as_array().expect("rows");
        let sum = |at: usize| -> f64 {
            let values = rows
                .iter()
                .map(|row| row["values"][at].as_f64().expect("a number"));
            values.sum()
        };
        assert_eq!([sum(1), sum(3)].map(|sum| sum as u64), [count, ns], "{sight}");
        assert_eq!(
            sight["latency"]["histogram"], whole["latency"]["histogram"],
            "all bars stay"
        );
        assert_eq!(sight["db_time_ns"], whole["db_time_ns"], "the rest is not chosen");
        let text = sight["text"].as_str().expect("text");
        assert!(text.contains("not broken down by how long events took"), "{text}");
    }
    for sight in [back, again, unchipped, none] {
        assert_eq!(sight["chips"], json!([]));
        for part in ["title", "rows", "histogram"] {
            assert_eq!(sight["latency"][part], whole["latency"][part], "{part}");
        }
    }
}
