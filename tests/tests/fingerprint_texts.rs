//! Which texts are one statement where the server computes no query ids: against the ids that it gives when it is asked to. Nothing here is
//! compared with a clock.

use std::collections::{BTreeMap, BTreeSet};

use dbtime_tests::{Recorder, Session, distribution, every_version, needs_recording};

use crate::fingerprints::without_ids;

/// In texts that differ only in constants, these have the same types: the server distinguishes types.
const TEXTS: [&str; 24] = [
    "SELECT * FROM c WHERE a = 1",
    "select * from C where a = -22",
    "SELECT *\n FROM c -- a comment 'x'\n WHERE a=3;",
    "SELECT * FROM c WHERE a <> 1",
    "SELECT * FROM c WHERE b = 'x'",
    "SELECT * FROM c WHERE b = 'it''s; -- no comment'",
    "SELECT * FROM c WHERE b = $$'x$$",
    "SELECT * FROM c WHERE b = $tag$ $$ $ta $tag$",
    "SELECT a + 5 FROM c",
    "SELECT a+-5 FROM c",
    "SELECT a - 5 FROM c",
    "SELECT a FROM c AS d",
    "SELECT a, b FROM c",
    "/* x */ SELECT a, /* 'y /* nested */ */ b FROM c",
    "SELECT b, a FROM c",
    "UPDATE c SET a = a + 1 WHERE b = 'x'",
    "UPDATE c SET a = a + 0x1 WHERE b = ''",
    "UPDATE c SET a = a + 1 WHERE b > 'x'",
    "INSERT INTO c VALUES (1, 'a')",
    "INSERT INTO c VALUES (2,'b') ;",
    "DELETE FROM c WHERE a IN (1, 2)",
    "DELETE FROM c WHERE a IN (3,4)",
    "DELETE FROM c WHERE a IN (b::int, 4)",
    "ANALYZE c",
];

#[test]
fn what_is_one_statement_to_the_server_has_one_fingerprint() {
    needs_recording!();
    for server in every_version() {
        let cluster = without_ids(&server);
        let [mut with_ids, mut asks] = std::array::from_fn(|_| Session::connect(&cluster));
        with_ids.run("SET compute_query_id = on");
        // Not every version can read each. Every text has a session of its own.
        let mut texts: Vec<(&str, String, Session)> = Vec::new();
        for text in TEXTS {
            if with_ids.try_run(text).is_ok() {
                let pid = with_ids.pid();
                let id = asks.ask(&format!(
                    "SELECT query_id::text FROM pg_stat_activity WHERE pid = {pid}"
                ));
                texts.push((text, id, Session::connect(&cluster)));
            }
        }
        assert!(texts.len() > 20, "{}", server.name);
        let recorder = Recorder::server(&cluster, &["--exact=calls"]);
        for (text, _, session) in &mut texts {
            session.run(text);
            session.wait_until_idle();
        }
        let recorded = recorder.stop();
        let report = recorded.json(&["--by", "session,query"]);
        let mut fingerprints: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for (.., session) in &texts {
            fingerprints.insert(session.pid().to_string(), BTreeSet::new());
        }
        for row in report["ledger"].as_array().expect("rows") {
            let group = |name: &str| row["group"][name].as_str();
            if let (Some(pid), Some(id)) = (group("session"), group("query"))
                && let Some(ids) = fingerprints.get_mut(pid)
            {
                ids.insert(id);
            }
        }
        // All sessions executed the same statement when they connected.
        let mut alike: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        let own = |pid: u32| -> BTreeSet<&str> {
            let all = &fingerprints[&pid.to_string()];
            let is_own = |id: &&&str| !fingerprints.values().all(|ids| ids.contains(**id));
            all.iter().filter(is_own).copied().collect()
        };
        for (text, id, session) in &texts {
            let own = own(session.pid());
            assert_eq!(own.len(), 1, "{}: {text}: {own:?}", server.name);
            alike.entry(id.clone()).or_default().extend(own);
        }
        let several: Vec<_> = alike.iter().filter(|(_, ids)| ids.len() > 1).collect();
        assert!(several.is_empty(), "{}: {several:?}", server.name);
        let all: BTreeSet<&str> = alike.values().flatten().copied().collect();
        assert_eq!(all.len(), alike.len(), "{}: {alike:?}", server.name);
    }
}

/// A statement that ends with the byte of this number (from 0), which names a column.
fn ending_at(last: usize, number: usize, column: char) -> String {
    let begin = format!("SELECT {}a FROM e ORDER BY", "a,".repeat(number));
    assert!(begin.len() < last, "there is room");
    format!("{begin}{}{column}", " ".repeat(last - begin.len()))
}

/// A text that was read before is known by all of its bytes when it is executed again, and not confused with one that ends differently.
#[test]
fn texts_that_were_read_before_are_told_from_all_others() {
    needs_recording!();
    const EXECUTIONS: u64 = 5;
    let cluster = without_ids(&distribution());
    cluster.psql("CREATE TABLE e (a int, b int)").expect("a table");
    // Around the ends of words and pieces, and of the part of a text that counts; the server itself cuts longer ones.
    let ends = [
        40, 46, 47, 48, 62, 63, 64, 65, 127, 128, 511, 1015, 1016, 1021, 1022,
    ];
    let mut texts: Vec<String> = Vec::new();
    for (number, last) in ends.into_iter().enumerate() {
        texts.extend(['a', 'b'].map(|column| ending_at(last, number, column)));
    }
    let [mut one, mut other] = std::array::from_fn(|_| Session::connect(&cluster));
    let recorder = Recorder::server(&cluster, &["--exact=calls"]);
    for _ in 0..EXECUTIONS {
        for text in &texts {
            one.run(text);
            other.run(text);
        }
    }
    let recorded = recorder.stop();
    let report = recorded.json(&["--tail", "--top", "100"]);
    let statements = report["statements"].as_array().expect("statements");
    let counts: Vec<u64> = statements
        .iter()
        .filter_map(|statement| statement["count"].as_u64())
        .collect();
    assert_eq!(counts, vec![2 * EXECUTIONS; texts.len()], "{report:#}");
}
