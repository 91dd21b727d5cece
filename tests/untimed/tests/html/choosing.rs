//! What is chosen in a page: by clicks, by keys, in its address.

use std::fs;
use std::path::Path;

use dbtime_tests::dbtime;
use serde_json::{Value, json};

use super::alike::{Times, assert_is_report, cells, ns};
use super::browser::{keep, page_of, plain, report, scratch, take};
use super::made::recording;

#[test]
fn a_click_chooses_the_address_keeps_it_and_back_takes_it_back() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    let read = "tr[data-wait='IO:DataFileRead']";
    let Some(sights) = take(
        &page,
        &json!([
            {"picture": "light.png"},
            {"click": format!("{read} td[data-state=kernel] button")}, {"see": true},
            {"back": true}, {"see": true},
            {"click": format!("{read} th button")}, {"click": ".chip"}, {"see": true},
            {"drag": [".timeline canvas", 0.28, 0.42]}, {"see": true},
            {"press": "Escape"}, {"back": true},
            {"click": "#who tbody tr"}, {"see": true},
            {"go": ""},
            {"press": "/"}, {"fill": ["input[type=search]", "copy_page"]}, {"see": true},
            {"go": ""},
            {"at": [".flame canvas", 0.5, 60]}, {"see": true},
            {"go": ""},
            {"at": [".timeline canvas", 0.2, 205]}, {"see": true},
            {"go": "wait=Lock&user=nobody"}, {"see": true},
            {"go": ""}, {"colours": "dark"}, {"picture": "dark.png"},
            {"size": [390, 800]}, {"picture": "phone.png"}, {"see": true}
        ]),
    ) else {
        return;
    };
    let [
        cell,
        back,
        unchipped,
        time,
        session,
        search,
        framed,
        band,
        nobody,
        phone,
    ] = &sights[..]
    else {
        panic!("{}", sights.len());
    };
    assert_eq!(
        cell["chips"],
        json!(["wait event IO:DataFileRead", "state kernel"])
    );
    assert_eq!(cell["fragment"], "#wait=IO%3ADataFileRead&state=kernel");
    assert_is_report(
        "a cell",
        cell,
        &report(&recording, &["--wait", "IO:DataFileRead", "--state", "kernel"]),
    );
    let whole = report(&recording, &[]);
    for (what, sight) in [("back", back), ("the chip removed", unchipped)] {
        assert_eq!(sight["chips"], json!([]), "{what}");
        assert_is_report(what, sight, &whole);
    }
    let fragment = time["fragment"].as_str().expect("text");
    assert!(
        fragment.contains("from=") && fragment.contains("to="),
        "{fragment}"
    );
    let part = |name: &str| {
        let (_, rest) = fragment.split_once(name).expect("it is there");
        rest.split('&').next().expect("a part").replace("%3A", ":")
    };
    let (from, to) = (part("from="), part("to="));
    assert_is_report(
        "a time",
        time,
        &report(&recording, &["--from", &from, "--to", &to]),
    );
    let chips = session["chips"].to_string();
    assert!(chips.contains("session 10"), "{chips}");
    let flame = search["flame"].as_str().expect("text");
    assert!(
        flame.contains("copy_page") && !flame.contains("0.000 s, 0.0 %"),
        "{flame}"
    );
    assert_eq!(
        framed["chips"].as_array().map(Vec::len),
        Some(1),
        "{}",
        framed["chips"]
    );
    assert_eq!(
        band["chips"].as_array().map(Vec::len),
        Some(1),
        "{}",
        band["chips"]
    );
    assert!(
        nobody["summary"]
            .as_str()
            .is_some_and(|text| text.contains("in the selection")),
        "{nobody}"
    );
    assert!(
        phone["overflow"].as_i64().is_some_and(|px| px <= 0),
        "{}",
        phone["overflow"]
    );
    for picture in ["light.png", "dark.png", "phone.png"] {
        let picture = home.path().join(picture);
        assert!(
            fs::metadata(&picture).is_ok_and(|file| file.len() > 10_000),
            "{picture:?}"
        );
        keep(&picture);
    }
}

#[test]
fn who_was_waited_for_can_be_chosen_and_where_it_is_not_known_the_page_says_why() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    let Some(sights) = take(
        &page,
        &json!([
            {"click": ".causes tr.event button"}, {"see": true}, {"go": ""},
            {"click": "#waited .ranked tbody tr"}, {"see": true}, {"go": ""},
            {"click": ".causes button.statement"}, {"see": true},
            {"go": "function=read_page"}, {"see": true},
            {"go": "user=nobody"}, {"see": true}
        ]),
    ) else {
        return;
    };
    let chip = |sight: &Value| sight["chips"][0].as_str().expect("a choice").to_string();
    let [wait, session, query, function, nobody] = &sights[..] else {
        panic!("{}", sights.len());
    };
    assert!(chip(wait).starts_with("wait event "), "{wait}");
    assert!(chip(session).starts_with("session 10"), "{session}");
    assert!(chip(query).starts_with("query "), "{query}");
    let empty = |sight: &Value| sight["causes"]["empty"].as_str().expect("text").to_string();
    assert!(empty(function).contains("not kept by function"), "{function}");
    assert!(empty(nobody).contains("Nothing in the selection"), "{nobody}");
}

/// Modules, and how the functions of their code begin in the recording.
const CODE: [(&str, &str); 6] = [
    ("postgres", "main"),
    ("vfs", "vfs_"),
    ("syscall", "entry_SYSCALL_64"),
    ("sched", "preempt_schedule"),
    ("[no stack]", "[no stack]"),
    ("[no user stack]", "[no user stack]"),
];

/// DB time by wait event and state, of stacks that have code of all of these modules: by the recording's folded stacks.
fn time_with(recording: &Path, modules: &[&str]) -> Times {
    let folded = recording.with_extension("folded");
    dbtime(&["flame", plain(recording), "-o", plain(&folded)]).expect_code(0);
    let text = fs::read_to_string(folded).expect("text");
    let mut sums = Times::new();
    for line in text.lines() {
        let (stack, ns) = line.rsplit_once(' ').expect("a stack and its time");
        let names: Vec<&str> = stack.split(';').collect();
        // Wait and state come before the functions.
        let (cell, functions) = names.split_at(2);
        let has = |beginning: &str| functions.iter().any(|name| name.starts_with(beginning));
        let mut chosen = CODE.iter().filter(|(module, _)| modules.contains(module));
        if chosen.all(|(_, beginning)| has(beginning)) {
            *sums.entry(cell.join(" ")).or_default() += ns.parse::<u64>().expect("nanoseconds");
        }
    }
    sums
}

/// DB time by wait event and state in the ledger of a page.
fn ledger(sight: &Value) -> Times {
    cells(&sight["ledger"], |row| {
        let wait = row["wait"].as_str().expect("a name");
        let states: Times = serde_json::from_value(row["states"].clone()).expect("states");
        let of_wait = states
            .into_iter()
            .map(|(state, ns)| (format!("{wait} {state}"), ns));
        of_wait.filter(|_| row["section"] == "db_time").collect()
    })
}

#[test]
fn a_module_is_chosen_by_its_row_and_its_time_is_that_of_its_code_anywhere() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    let row = |module: &str| format!("#modules tbody tr[data-key='{module}']");
    let mut steps = vec![json!({"see": true})];
    for (module, _) in CODE {
        steps.extend([
            json!({"click": row(module)}),
            json!({"see": true}),
            json!({"back": true}),
        ]);
    }
    steps.extend([
        json!({"click": row("postgres")}),
        json!({"click": row("vfs")}),
        // Both rows are marked.
        json!({"hover": format!("{}[aria-selected=true]", row("postgres"))}),
        json!({"hover": format!("{}[aria-selected=true]", row("vfs"))}),
        json!({"see": true}),
        json!({"click": row("postgres")}),
        json!({"see": true}),
        json!({"click": ".chip"}),
        json!({"see": true}),
        json!({"go": "module=postgres&module=nothing"}),
        json!({"see": true}),
    ]);
    let Some(sights) = take(&page, &steps.into()) else {
        return;
    };
    let [whole, chosen @ .., both, one, none, nothing] = &sights[..] else {
        panic!("{}", sights.len());
    };
    let all = report(&recording, &["--modules", "--top", "100000"]);
    let modules = all["modules"].as_array().expect("modules");
    assert_eq!((modules.len(), chosen.len()), (CODE.len(), CODE.len()));
    for ((module, _), sight) in CODE.iter().zip(chosen) {
        assert_eq!(
            sight["chips"],
            json!([format!("module {module}")]),
            "a click chooses it"
        );
        let reported = modules.iter().find(|row| row["module"] == *module);
        let anywhere = ns(&reported.expect("it is in the report")["total_ns"]);
        assert_eq!(ns(&sight["db_time_ns"]), anywhere, "{module}: DB time");
        assert_eq!(
            ledger(sight),
            time_with(&recording, &[module]),
            "{module}: ledger"
        );
        let empty = |part: &str| sight[part]["empty"].as_str().expect("text").to_string();
        assert!(
            empty("causes").contains("not kept by module"),
            "{}",
            empty("causes")
        );
        assert!(
            empty("latency").contains("cannot be filtered by module"),
            "{}",
            empty("latency")
        );
    }
    assert_eq!(both["fragment"], "#module=postgres&module=vfs");
    assert_eq!(ledger(both), time_with(&recording, &["postgres", "vfs"]));
    assert_eq!(one["fragment"], "#module=vfs", "a click takes it back");
    assert_eq!(ledger(one), time_with(&recording, &["vfs"]));
    assert_eq!((&none["chips"], ledger(none)), (&json!([]), ledger(whole)));
    assert!(
        nothing["summary"]
            .as_str()
            .is_some_and(|text| text.contains("no DB time in the selection")),
        "{nothing}"
    );
}

#[test]
fn who_was_waited_for_and_modules_can_be_sorted() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    let Some(sights) = take(
        &page,
        &json!([
            {"see": true}, {"click": ".causes thead th:first-child button"}, {"see": true},
            {"press": "Enter"}, {"see": true}, {"back": true}, {"see": true},
            {"go": ""}, {"click": "#modules thead th:last-child button"}, {"see": true},
        ]),
    ) else {
        return;
    };
    let [usual, named, reversed, back, modules] = &sights[..] else {
        panic!("{}", sights.len());
    };
    let waits = |sight: &Value| -> Vec<(String, u64)> {
        let rows = sight["causes"]["waits"].as_array().expect("rows").iter();
        rows.map(|row| {
            let name = row["wait"].as_str().expect("a name").to_string();
            (name, row["ns"].as_u64().expect("nanoseconds"))
        })
        .collect()
    };
    let fragment = |sight: &Value| sight["fragment"].as_str().expect("text").to_string();
    assert!(waits(usual).is_sorted_by_key(|(_, ns)| std::cmp::Reverse(*ns)));
    let mut by_name = waits(usual);
    by_name.sort();
    assert_eq!(
        (waits(named), fragment(named)),
        (by_name.clone(), "#sort_causes=wait".to_string())
    );
    by_name.reverse();
    assert_eq!(
        (waits(reversed), fragment(reversed)),
        (by_name, "#sort_causes=wait.reversed".to_string())
    );
    assert_eq!((waits(back), fragment(back)), (waits(named), fragment(named)));
    let rows = modules["tables"]["Modules by time in them"]
        .as_array()
        .expect("rows");
    let names: Vec<&str> = rows
        .iter()
        .map(|row| row["key"].as_str().expect("a name"))
        .collect();
    assert!(names.len() > 1 && names.is_sorted(), "{names:?}");
    assert_eq!(fragment(modules), "#sort_modules=module");
}

#[test]
fn the_address_keeps_the_zoom_and_the_order_of_tables() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    let (users, zoom) = (
        "#who thead th:nth-child(5) button",
        ["ArrowDown", "ArrowDown", "z"].map(|key| json!({"press": key})),
    );
    let mut steps = vec![
        json!({"see": true}),
        json!({"click": users}),
        json!({"see": true}),
        json!({"click": users}),
        json!({"see": true}),
        json!({"back": true}),
        json!({"see": true}),
        json!({"focus": ".flame canvas"}),
    ];
    steps.extend(zoom);
    steps.extend([
        json!({"see": true}),
        json!({"press": "Escape"}),
        json!({"see": true}),
        json!({"back": true}),
        json!({"see": true}),
        // A choice makes another flame graph.
        json!({"click": ".matrix tbody th button"}),
        json!({"see": true}),
    ]);
    let Some(sights) = take(&page, &steps.into()) else {
        return;
    };
    let [usual, sorted, reversed, back, zoomed, whole, again, chosen] = &sights[..] else {
        panic!("{}", sights.len());
    };
    let users = |sight: &Value| -> Vec<String> {
        let rows = sight["sessions"].as_array().expect("rows");
        rows.iter()
            .map(|row| row["cells"][4].as_str().expect("a user").to_string())
            .collect()
    };
    let fragment = |sight: &Value| sight["fragment"].as_str().expect("text").to_string();
    assert!(users(sorted).is_sorted() && !users(usual).is_sorted(), "by user");
    assert!(users(reversed).iter().rev().is_sorted(), "the other way round");
    assert_eq!(fragment(reversed), "#sort_who=user.reversed");
    assert_eq!((fragment(back), users(back)), (fragment(sorted), users(sorted)));
    let is_zoomed = |sight: &Value| sight["flame"].as_str().expect("text").contains("zoomed");
    assert!(
        is_zoomed(zoomed) && fragment(zoomed).contains("zoom="),
        "{zoomed}"
    );
    assert!(!is_zoomed(whole) && fragment(whole) == fragment(sorted));
    assert!(is_zoomed(again) && fragment(again) == fragment(zoomed), "back");
    assert!(!is_zoomed(chosen) && !fragment(chosen).contains("zoom="));
    // A link shows the same.
    let sights = take(&page, &json!([{"go": fragment(zoomed)}, {"see": true}])).expect("it was there before");
    let part = |sight: &Value| {
        let text = sight["flame"].as_str().expect("text");
        let (_, rest) = text.split_once("zoomed: ").expect("it is zoomed");
        rest.split('%').next().map(str::to_string)
    };
    assert_eq!(part(&sights[0]), part(zoomed));
    assert_eq!(users(&sights[0]), users(sorted));
}

#[test]
fn what_the_database_says_can_be_chosen_and_is_then_the_db_time() {
    let home = scratch();
    let recording = recording(&home, "");
    let page = page_of(&recording, &[]);
    let twice = ".steps .of-twice button";
    let Some(sights) = take(
        &page,
        &json!([
            {"see": true},
            {"click": ".bars .twice"}, {"see": true},
            {"go": ""}, {"focus": twice}, {"press": "Enter"}, {"see": true},
            {"press": "Enter"}, {"see": true},
            {"back": true}, {"see": true},
            {"go": ""}, {"click": ".bars .wait"}, {"see": true},
            {"go": ""}, {"click": ".steps .of-wait button"}, {"see": true},
            {"go": ""}, {"click": ".bars .cpu"}, {"see": true},
            {"go": ""}, {"click": ".steps .of-cpu button"}, {"see": true},
            // Other wait classes and states go.
            {"go": "wait_class=CPU&state=sleep&state=kernel&wait_class=IO"}, {"see": true},
            {"click": twice}, {"see": true},
        ]),
    ) else {
        return;
    };
    let [
        whole,
        bar,
        by_key,
        again,
        back,
        off_cpu,
        waits,
        cpu,
        cpu_step,
        others @ ..,
    ] = &sights[..]
    else {
        panic!("{}", sights.len());
    };
    let [before, narrowed] = others else {
        panic!("{}", sights.len());
    };
    let step = |sight: &Value, words: &str| -> u64 {
        let all = sight["steps"].as_array().expect("steps").iter();
        let mut found = all.filter(|step| step[0].as_str().is_some_and(|text| text.contains(words)));
        let ns = found
            .next()
            .map_or(0, |step| step[1].as_i64().expect("nanoseconds"));
        ns.unsigned_abs()
    };
    let db_time = |sight: &Value| ns(&sight["db_time_ns"]);
    let counted_twice = step(whole, "counted twice");
    assert!(counted_twice > 0);
    for sight in [bar, by_key, back] {
        assert_eq!(db_time(sight), counted_twice, "{}", sight["chips"]);
        let chips = sight["chips"].to_string();
        assert!(
            chips.contains("wait class IO") && chips.contains("state kernel"),
            "{chips}"
        );
    }
    assert_eq!(
        (&again["chips"], db_time(again)),
        (&json!([]), db_time(whole)),
        "a second time takes it back"
    );
    let inside = step(whole, "Time inside wait events");
    assert_eq!(db_time(off_cpu), inside - counted_twice, "{}", off_cpu["chips"]);
    assert_eq!(db_time(waits), inside, "{}", waits["chips"]);
    for sight in [cpu, cpu_step] {
        let in_db_time = step(whole, "CPU the database counts") - step(whole, "inside idle waits");
        assert_eq!(db_time(sight), in_db_time, "{}", sight["chips"]);
    }
    assert_eq!(db_time(narrowed), step(before, "counted twice"));
    assert_eq!(narrowed["fragment"], "#wait_class=IO&state=kernel");
}
