//! Which text and which id a statement has.

use std::path::PathBuf;
use std::time::Duration;

use dbtime::throwaway::Options;
use dbtime_tests::{Recorder, Session, distribution, every_version, needs_recording, number, say};
use serde_json::Value;

/// Statements that the server tells apart, whatever their literals.
const OF_ONE: &str = "SELECT count(*) FROM pg_class";
const OF_OTHERS: &str = "SELECT max(oid) FROM pg_proc";

#[test]
fn a_fingerprint_is_that_of_all_statements_that_are_sent_at_once() {
    needs_recording!();
    let cluster = distribution().start(Options::default().set("compute_query_id", "off"));
    let mut session = Session::connect(&cluster);
    let recorder = Recorder::server(&cluster, &["--text", "full"]);
    let sent = "SELECT pg_sleep(0.3); SELECT 'second', pg_sleep(0.3)";
    session.run(sent);
    session.wait_until_idle();
    let statements = recorder.stop().statements();
    let is_there = statements.values().any(|(_, text)| text == sent);
    assert!(is_there, "{statements:#?}");
}

#[test]
fn who_connects_has_no_part_in_what_the_session_in_its_place_executed() {
    needs_recording!();
    let servers = every_version();
    // Where a session's text lies, by which the program itself tells statements apart, is the same in all of them; where the server
    // has its own id is not.
    let ends = [servers.first(), servers.iter().max_by_key(|server| server.major)];
    let without_ids = ends.into_iter().flatten().map(|server| (server, "off"));
    for (build, ids) in servers.iter().map(|server| (server, "on")).chain(without_ids) {
        let name = format!("{}, compute_query_id {ids}", build.name);
        // Few backend slots, so that all are used again: from 17 on the one that has been free longest is taken.
        let options = Options::default()
            .set("compute_query_id", ids)
            .set("max_connections", "10")
            .set("autovacuum", "off");
        let cluster = build.start(options);
        let exact = Recorder::server(&cluster, &["--exact=calls"]);
        let sampled = Recorder::server(&cluster, &["-F", "999"]);
        // By this session the text is known: the others end before anybody can ask them.
        let mut known = Session::connect(&cluster);
        for _ in 0..20 {
            known.run(OF_ONE);
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut others = Vec::new();
        for number in 0..30 {
            let is_one = number % 3 == 0;
            let mut session = Session::connect(&cluster);
            session.run(if is_one { OF_ONE } else { OF_OTHERS });
            if !is_one {
                others.push(session.pid());
            }
            let process = PathBuf::from(format!("/proc/{}", session.pid()));
            drop(session);
            while process.exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        for recorded in [exact.stop(), sampled.stop()] {
            let statements = recorded.statements();
            let ids: Vec<&String> = statements
                .iter()
                .filter(|(_, (_, text))| text.contains("pg_class"))
                .map(|(id, _)| id)
                .collect();
            let answer = recorded.json(&["--by", "session,query"]);
            let rows = answer["ledger"].as_array().expect("rows").iter();
            let of_others: Vec<&Value> = rows
                .filter(|row| {
                    let [pid, id] =
                        ["session", "query"].map(|by| row["group"][by].as_str().unwrap_or_default());
                    let is_other = pid.parse().is_ok_and(|pid| others.contains(&pid));
                    // What is too short to be sampled is divided as others of its kind were.
                    let own = number(&row["total_ns"]) - number(&row["pooled_ns"]);
                    is_other && own > 0.0 && ids.iter().any(|one| *one == id)
                })
                .collect();
            say(&format!(
                "{name}: {} statements of the one, {} rows of others",
                ids.len(),
                of_others.len()
            ));
            assert_eq!(ids.len(), 1, "{name}: {statements:?}");
            assert!(of_others.is_empty(), "{name}: {of_others:?}");
        }
    }
}
