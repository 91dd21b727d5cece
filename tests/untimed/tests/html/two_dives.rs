//! The page of two dives says what `dbtime diff` says of them.

use std::path::Path;

use dbtime_model::Frame;
use dbtime_tests::{dbtime, repository};
use serde_json::{Value, json};

use super::browser::{keep, plain, scratch, take};
use super::dive_made::{dive, hostile_paths};
use super::made::{HOSTILE, frame};

/// A call that reads, and takes this lock below it for so long.
fn locking(lock: &str, ns: u64) -> impl Iterator<Item = (Vec<Frame>, u64, u64)> {
    let path = ["sys_read", "vfs_read", lock].map(|name| frame(name, "[kernel]"));
    let rest = [(1_000, 4_000), (3_000, 3_000), (ns, 0)];
    (1..=path.len())
        .zip(rest)
        .map(move |(depth, (own, more))| (path[..depth].to_vec(), own, more + ns))
}

/// The page of two dives, and their comparison as JSON.
fn page_and_diff(good: &Path, bad: &Path) -> (std::path::PathBuf, Value) {
    let page = bad.with_file_name("dive-against-dive.html");
    dbtime(&["html", plain(good), plain(bad), "-o", plain(&page)]).expect_code(0);
    let outcome = dbtime(&[
        "diff",
        plain(good),
        plain(bad),
        "--format",
        "json",
        "--top",
        "1000",
    ]);
    let diff = serde_json::from_str(&outcome.expect_code(0).stdout).expect("JSON");
    (page, diff)
}

/// Name and numbers of each row of a table of the page.
fn rows(sight: &Value, table: &str) -> Vec<(String, Vec<u64>)> {
    let rows = sight["tables"][table]
        .as_array()
        .unwrap_or_else(|| panic!("{table}: no table"));
    let row = |row: &Value| {
        let name = row["cells"][0].as_str().expect("a name").to_string();
        let values = row["values"].as_array().expect("cells").iter();
        (
            name,
            values
                .filter_map(Value::as_f64)
                .map(|value| value as u64)
                .collect(),
        )
    };
    rows.iter().map(row).collect()
}

#[test]
fn the_page_of_two_dives_says_what_diff_says() {
    let homes = [scratch(), scratch()];
    let good = dive(&homes[0], "", locking("old_lock", 1_000));
    let bad = dive(&homes[1], "", locking("new_lock", 5_000));
    let (page, diff) = page_and_diff(&good, &bad);
    let Some(sights) = take(
        &page,
        &json!([
            {"see": true}, {"picture": "two_dives.png"},
            {"click": "#only .ranked tbody tr"}, {"see": true}, {"back": true},
            {"fill": [".tools input", "VFS"]}, {"see": true}, {"fill": [".tools input", ""]},
            {"click": "#both .ranked thead th button"}, {"see": true},
            {"colours": "dark"}, {"size": [390, 800]}, {"see": true}
        ]),
    ) else {
        return;
    };
    let [all, chosen, found, sorted, phone] = &sights[..] else {
        panic!("{}", sights.len());
    };
    for (table, list) in [
        ("Functions in GOOD only", "only_good"),
        ("Functions in BAD only", "only_bad"),
        ("Functions that both call", "functions"),
        ("Call paths", "paths"),
    ] {
        let side = ["only_good", "only_bad"].iter().position(|only| *only == list);
        let mut in_diff: Vec<(String, Vec<u64>)> = (diff[list].as_array().expect("a list").iter())
            .map(|change| {
                let path: Vec<&str> = (change["path"].as_array().expect("names").iter())
                    .map(|name| name.as_str().expect("a name"))
                    .collect();
                let pair = |name: &str| [0, 1].map(|at| change[name][at].as_f64().expect("a number") as u64);
                let [calls, own, total] = ["calls", "own_ns", "total_ns"].map(pair);
                let numbers = match side {
                    Some(side) => vec![calls[side], own[side], total[side]],
                    None => [&calls[..], &own, &[own[0].abs_diff(own[1])], &total].concat(),
                };
                (path.join(" > "), numbers)
            })
            .collect();
        let mut in_page = rows(all, table);
        assert!(!in_page.is_empty(), "{table}");
        in_page.sort_unstable();
        in_diff.sort_unstable();
        assert_eq!(in_page, in_diff, "{table}");
    }
    // By hand: what only BAD calls, and how much longer a call takes.
    assert_eq!(
        rows(all, "Functions in BAD only"),
        [("new_lock".to_string(), vec![1, 5_000, 5_000])]
    );
    let text = |sight: &Value, name: &str| sight[name].as_str().expect("text").to_string();
    assert!(
        text(all, "text").contains("A call takes 5.00 us in GOOD and 9.00 us in BAD."),
        "{all}"
    );

    assert_eq!(
        (&chosen["chips"], text(chosen, "fragment")),
        (&json!(["new_lock"]), "#function=new_lock".to_string())
    );
    let names = |sight: &Value, table: &str| -> Vec<String> {
        rows(sight, table).into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(chosen, "Call paths"), ["sys_read > vfs_read > new_lock"]);
    assert_eq!(names(chosen, "Functions that both call"), Vec::<String>::new());
    assert!(text(chosen, "text").contains("None in the selection."));
    assert_eq!(names(found, "Functions that both call"), ["vfs_read"]);
    assert!(
        text(sorted, "fragment").contains("sort_functions=function"),
        "{sorted}"
    );
    assert!(
        phone["overflow"].as_i64().is_some_and(|px| px <= 0),
        "{}",
        phone["overflow"]
    );
    keep(&homes[1].path().join("two_dives.png"));
}

#[test]
fn a_dive_and_itself_do_not_differ() {
    let home = scratch();
    let pinned = repository().join("tests/untimed/tests/unchanged/recordings/dive.dbt");
    let page = home.path().join("same.html");
    dbtime(&["html", plain(&pinned), plain(&pinned), "-o", plain(&page)]).expect_code(0);
    let Some(sights) = take(&page, &json!([{"see": true}])) else {
        return;
    };
    let text = sights[0]["text"].as_str().expect("text");
    let same = "0 functions are called in GOOD only, 0 in BAD only.";
    assert!(text.contains(same) && text.contains("None."), "{text}");
}

#[test]
fn what_others_wrote_in_two_dives_is_text_and_does_nothing() {
    let homes = [scratch(), scratch()];
    let [good, bad] = homes
        .each_ref()
        .map(|home| dive(home, HOSTILE, hostile_paths(HOSTILE)));
    let (page, _) = page_and_diff(&good, &bad);
    let steps = json!([
        {"see": true}, {"click": "#both .ranked tbody tr"}, {"see": true},
        {"go": "function=%3C/script%3E%3Cscript%3Ealert(1)%3C/script%3E&sort_paths=__proto__&search=%3Cb"},
        {"size": [390, 800]}, {"see": true}
    ]);
    let Some(sights) = take(&page, &steps) else {
        return;
    };
    for sight in &sights {
        assert_eq!((&sight["ran"], &sight["scripts"]), (&Value::Null, &json!(2)));
        let text = sight["text"].as_str().expect("text");
        assert!(text.contains("<script>") && !text.contains('\u{202e}'));
        assert!(
            sight["overflow"].as_i64().is_some_and(|px| px <= 0),
            "{}",
            sight["overflow"]
        );
    }
}
