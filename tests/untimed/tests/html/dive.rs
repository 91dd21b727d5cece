//! The page of a dive says what `dbtime report --tree` and `--functions` say of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use dbtime_tests::{dbtime, repository, say};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::browser::{keep, page_of, plain, report, scratch, take};
use super::dive_made::{dive, hostile_paths, wide_paths};
use super::made::HOSTILE;

/// Two calls of pread64, one of which sleeps and is interrupted.
fn trace(home: &TempDir) -> PathBuf {
    let path = home.path().join("kernel.fgraph");
    let fixture = repository().join("crates/import/tests/fixtures/kernel.fgraph");
    fs::copy(fixture, &path).expect("it is there");
    path
}

/// These fields of the report's JSON, in the order of the page's columns.
fn numbers(of: &Value, fields: &[&str]) -> Vec<u64> {
    let number = |field: &&str| of[*field].as_u64().unwrap_or(0);
    fields.iter().map(number).collect()
}

fn name(of: &Value) -> String {
    let [function, module] = ["function", "module"].map(|field| of[field].as_str().expect("text"));
    match module {
        "" => function.to_string(),
        module => format!("{function} [{module}]"),
    }
}

fn values(row: &Value, columns: &[usize]) -> Vec<u64> {
    let value = |column: &usize| row["values"][*column].as_u64().expect("a number");
    columns.iter().map(value).collect()
}

/// Names as they are shown, without the mark of rows that open.
fn names(tree: &Value) -> Vec<String> {
    let rows = tree.as_array().expect("rows");
    let name = |row: &Value| row["cells"][0].as_str().expect("a name").to_string();
    rows.iter()
        .map(|row| name(row).trim_start_matches(['▾', '▸']).to_string())
        .collect()
}

/// Names of the rows of which this is true.
fn which(sight: &Value, field: &str) -> Vec<String> {
    let rows = sight["tree"].as_array().expect("rows");
    let chosen: Vec<Value> = rows.iter().filter(|row| row[field] == true).cloned().collect();
    names(&chosen.into())
}

fn text(sight: &Value, field: &str) -> String {
    sight[field].as_str().expect("text").to_string()
}

#[track_caller]
fn assert_is_dive(sight: &Value, recording: &Path) {
    let tree = &report(recording, &["--tree", "--top", "1000"])["tree"];
    let in_report: Vec<(String, u64, Vec<u64>)> = tree
        .as_array()
        .expect("a tree")
        .iter()
        .map(|path| {
            let fields = [
                "count",
                "inclusive_ns",
                "own_ns",
                "off_ns",
                "min_ns",
                "avg_ns",
                "p99_ns",
                "max_ns",
            ];
            let depth = path["depth"].as_u64().expect("a number");
            (name(path), depth + 1, numbers(path, &fields))
        })
        .collect();
    let in_page: Vec<(String, u64, Vec<u64>)> = names(&sight["tree"])
        .into_iter()
        .zip(sight["tree"].as_array().expect("rows"))
        .map(|(name, row)| {
            let level = row["level"].as_u64().expect("a number");
            // Without the share.
            (name, level, values(row, &[1, 2, 4, 5, 6, 7, 8, 9]))
        })
        .collect();
    assert!(in_report.len() > 3);
    assert_eq!(in_page, in_report, "the tree");

    let functions = &report(recording, &["--functions", "--top", "1000"])["functions"];
    let mut in_report: Vec<(String, Vec<u64>)> = functions
        .as_array()
        .expect("functions")
        .iter()
        .map(|of| {
            let fields = [
                "inclusive_ns",
                "own_ns",
                "off_ns",
                "count",
                "min_ns",
                "avg_ns",
                "p99_ns",
                "max_ns",
            ];
            (name(of), numbers(of, &fields))
        })
        .collect();
    let mut in_page: Vec<(String, Vec<u64>)> = sight["functions"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| {
            let name = row["cells"][0].as_str().expect("a name");
            (name.to_string(), values(row, &[1, 2, 3, 4, 5, 6, 7, 8]))
        })
        .collect();
    in_report.sort_unstable();
    in_page.sort_unstable();
    assert_eq!(in_page, in_report, "functions");
}

#[test]
fn the_page_of_a_dive_says_what_its_report_says() {
    let home = scratch();
    let pinned = repository().join("tests/untimed/tests/unchanged/recordings/dive.dbt");
    let page = home.path().join("pinned.html");
    dbtime(&["html", plain(&pinned), "-o", plain(&page)]).expect_code(0);
    let all = json!([{"go": "levels=all"}, {"see": true}, {"picture": "dive.png"}]);
    let Some(sights) = take(&page, &all) else {
        return;
    };
    assert_is_dive(&sights[0], &pinned);
    keep(&home.path().join("dive.png"));
    // What was sampled is there, too, and what is exact is said as in the report.
    let whole = report(&pinned, &[]);
    let sampled = sights[0]["tables"]["Timer samples by function"].as_array();
    let in_report = whole["samples"]["functions"].as_array().expect("functions");
    assert_eq!(sampled.map(Vec::len), Some(in_report.len()));
    let shown = text(&sights[0], "text");
    for sentence in [
        "4 calls from beginning to end. Exact; time off CPU by sched_switch.",
        "4 calls of sys_pwrite64 took 0.255 ms: half of them up to 53.0 us, 99 % up to 123 us",
        "in the tracer, which is overhead",
        "Only tracepoints were traced: times are intervals between two of them",
    ] {
        assert!(shown.contains(sentence), "{sentence}: {shown}");
    }

    let trace = trace(&home);
    let sights = take(&page_of(&trace, &[]), &all).expect("it was there before");
    assert_is_dive(&sights[0], &trace);
    assert!(
        text(&sights[0], "text").contains("Interrupts: "),
        "what hit the calls"
    );
}

#[test]
fn the_tree_of_a_dive_opens_by_keys_and_clicks_and_its_address_keeps_that() {
    let home = scratch();
    let page = page_of(&trace(&home), &[]);
    let steps = json!([
        {"see": true}, {"picture": "dive_trace.png"},
        {"go": "levels=1"}, {"see": true},
        {"focus": ".tree tbody tr"},
        {"press": "ArrowRight"}, {"press": "ArrowRight"}, {"press": "ArrowRight"}, {"see": true},
        {"press": "ArrowDown"}, {"press": "ArrowLeft"}, {"press": "ArrowLeft"}, {"see": true},
        {"back": true}, {"see": true},
        {"click": ".tree tbody tr:nth-child(2)"}, {"see": true},
        {"fill": [".tools input", "DEQUEUE"]}, {"focus": ".tools input"}, {"press": "Enter"}, {"see": true},
        {"fill": [".tools input", "no such"]}, {"see": true},
        {"fill": [".tools input", ""]}, {"click": "#functions tbody tr:nth-child(2)"}, {"see": true},
        {"back": true}, {"see": true},
        {"go": "levels=all"}, {"click": ".tree thead th:first-child button"}, {"see": true},
        {"colours": "dark"}, {"size": [390, 800]}, {"picture": "dive_dark.png"}, {"see": true}
    ]);
    let Some(sights) = take(&page, &steps) else {
        return;
    };
    let [
        usual,
        roots,
        opened,
        closed,
        back,
        clicked,
        found,
        none,
        lit,
        unlit,
        sorted,
        phone,
    ] = &sights[..]
    else {
        panic!("{}", sights.len());
    };
    assert!(
        names(&usual["tree"]).contains(&"schedule".to_string()),
        "the way of most time is open"
    );
    assert_eq!(names(&roots["tree"]), ["__x64_sys_pread64", "[interrupt]"]);
    assert_eq!(text(opened, "fragment"), "#levels=1&open=0-1");
    assert_eq!(which(opened, "focused"), ["vfs_read"]);
    assert!(names(&opened["tree"]).contains(&"rw_verify_area".to_string()));
    assert_eq!(text(closed, "fragment"), "#levels=1&open=0");
    assert_eq!(
        names(&closed["tree"]),
        ["__x64_sys_pread64", "vfs_read", "[interrupt]"]
    );
    assert_eq!(
        (text(back, "fragment"), names(&back["tree"])),
        (text(opened, "fragment"), names(&opened["tree"]))
    );
    assert_eq!(names(&clicked["tree"]), names(&closed["tree"]), "a click closes");
    assert_eq!(which(found, "lit"), ["dequeue_task_fair"]);
    assert_eq!(which(found, "focused"), ["dequeue_task_fair"]);
    assert!(
        text(found, "tree_status").starts_with("1 call path highlighted: 0.001 ms, 0."),
        "{}",
        found["tree_status"]
    );
    assert!(text(found, "fragment").contains("search=DEQUEUE"));
    assert_eq!(
        (text(none, "tree_status"), names(&none["tree"])),
        (
            "No call path has such a function.".to_string(),
            names(&closed["tree"])
        )
    );
    assert_eq!(
        (which(lit, "lit"), &lit["chips"]),
        (vec!["vfs_read".to_string()], &json!(["vfs_read"]))
    );
    assert!(text(lit, "fragment").contains("function=vfs_read"));
    assert_eq!(
        (which(unlit, "lit"), &unlit["chips"]),
        (Vec::new(), &json!([])),
        "back"
    );
    let by_name = names(&sorted["tree"]);
    assert_eq!(by_name[..2], ["[interrupt]", "__sysvec_apic_timer_interrupt"]);
    assert_eq!(by_name.last().map(String::as_str), Some("rw_verify_area"));
    assert!(text(sorted, "fragment").contains("sort_tree=function"));
    assert!(
        phone["overflow"].as_i64().is_some_and(|px| px <= 0),
        "{}",
        phone["overflow"]
    );
    for picture in ["dive_trace.png", "dive_dark.png"] {
        keep(&home.path().join(picture));
    }
    // A link shows the same.
    let link = json!([{"go": text(found, "fragment")}, {"see": true}]);
    let sights = take(&page, &link).expect("it was there before");
    assert_eq!(names(&sights[0]["tree"]), names(&found["tree"]));
    assert_eq!(which(&sights[0], "lit"), which(found, "lit"));
}

#[test]
fn what_others_wrote_in_a_dive_is_text_and_does_nothing() {
    let home = scratch();
    let recording = dive(&home, HOSTILE, hostile_paths(HOSTILE));
    let page = page_of(&recording, &[]);
    let written = fs::read_to_string(&page).expect("text");
    assert!(
        !written.contains("alert(") && !written.contains("onerror"),
        "nothing of it is in the page's own text"
    );
    let steps = json!([
        {"go": "levels=all"}, {"see": true},
        {"go": "levels=all&search=alert&open=1e9-2&sort_tree=__proto__&sort_functions=constructor"}, {"see": true},
        {"hover": ".tree tbody tr:nth-child(3)"}, {"click": "#functions tbody tr"}, {"see": true},
        {"go": "function=%3C/script%3E%3Cscript%3Ealert(1)%3C/script%3E&levels=__proto__"},
        {"size": [390, 800]}, {"see": true}
    ]);
    let Some(sights) = take(&page, &steps) else {
        return;
    };
    for sight in &sights {
        assert_eq!(
            (&sight["ran"], &sight["scripts"]),
            (&Value::Null, &json!(2)),
            "no script but the page's own"
        );
        let text = text(sight, "text");
        assert!(
            text.contains("<script>") && !text.contains('\u{202e}'),
            "it is shown as it is, but for what reorders"
        );
        assert!(
            sight["overflow"].as_i64().is_some_and(|px| px <= 0),
            "{}",
            sight["overflow"]
        );
    }
    assert_eq!(names(&sights[0]["tree"]).len(), 4);
    assert_eq!(which(&sights[1], "lit").len(), 3);
    assert_eq!(which(&sights[2], "lit").len(), 3, "searched for, or chosen");
}

#[test]
fn what_took_least_is_left_out_of_a_large_dive_and_the_page_says_so() {
    const WIDTH: u64 = 47;
    let home = scratch();
    let recording = dive(&home, "", wide_paths(WIDTH));
    let begin = Instant::now();
    let page = page_of(&recording, &[]);
    let bytes = fs::metadata(&page).expect("it is there").len();
    say(&format!(
        "page of a large dive: {bytes} bytes, written in {:?}",
        begin.elapsed()
    ));
    assert!(bytes < 4_000_000, "{bytes}");
    let all = 1 + WIDTH + WIDTH * WIDTH + WIDTH * WIDTH * WIDTH;
    let Some(sights) = take(&page, &json!([{"see": true}])) else {
        return;
    };
    let left_out = format!("What took least was left out: {} call paths.", all - 100_000);
    assert!(text(&sights[0], "text").contains(&left_out), "{left_out}");
    assert_eq!(
        sights[0]["functions"].as_array().map(Vec::len),
        Some(1 + 3 * WIDTH as usize)
    );
    // All of it can be opened, and is drawn in parts.
    let drawn = json!([{"go": "levels=all&search=function_3_1"}, {"focus": ".tools input"}, {"press": "Enter"}, {"press": "End"}, {"picture": "large.png"}]);
    take(&page, &drawn).expect("it was there before");
}

#[test]
fn a_page_of_a_dive_is_of_what_is_chosen_or_is_not_written() {
    let home = scratch();
    let trace = trace(&home);
    dbtime(&["html", plain(&trace), "--wait", "IO"])
        .expect_code(2)
        .expect_stderr(&["cannot select from a kernel trace"]);
    dbtime(&["html", plain(&trace), "--from", "1h"])
        .expect_code(3)
        .expect_stderr(&["nothing to show"]);
    dbtime(&["html", plain(&trace), "--session", "7"]).expect_code(0);
}
