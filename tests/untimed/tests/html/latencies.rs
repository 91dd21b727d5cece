//! Latencies in a page are those of the report, whatever is chosen.

use serde_json::{Value, json};

use super::alike::assert_are_latencies;
use super::browser::{keep, page_of, scratch, take};
use super::made::recording;

/// What of the latencies is chosen in the page, and how the report is asked for the same.
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
        text(&states["latency"]["empty"]).contains("not told apart by state"),
        "{states}"
    );
    assert!(
        text(&nothing["latency"]["empty"]).contains("Nothing of what is chosen"),
        "{nothing}"
    );
    keep(&home.path().join("latencies.png"));
}
