//! Which SQL where the server computes no query ids: time by fingerprint, against the server's own clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{
    Recorded, Recorder, SampledSum, Server, Session, every_version, needs_recording, sampling_error, say,
};

/// How each begins when normalised, and two forms of it, with literals that must not be found in a recording.
const STATEMENTS: [(&str, [&str; 2]); 3] = [
    (
        "select pg_sleep",
        [
            "SELECT pg_sleep(0.2), 'ZQ4711'",
            "select  pg_sleep( 0.3 ), $$it's ZQ4711$$ /* ZQ4711 */;",
        ],
    ),
    (
        "select count",
        [
            "SELECT count(DISTINCT md5(n::text)) FROM generate_series(1, 250000) n",
            "SELECT count(DISTINCT md5(n::text)) FROM generate_series(1, 200000) N -- ZQ4711",
        ],
    ),
    (
        "insert into t",
        [
            "INSERT INTO t (SELECT n, 'ZQ4711' FROM generate_series(1, 150000) n)",
            "insert into T (select n, 'x' from generate_series(1, 100000) n)",
        ],
    ),
];

/// A server that computes no query ids, with two tables.
pub(crate) fn without_ids(server: &Server) -> Cluster {
    let options = Options::default()
        .set("compute_query_id", "off")
        .set("max_parallel_workers_per_gather", "0")
        .set("jit", "off")
        .set("autovacuum", "off");
    let cluster = server.start(options);
    cluster
        .psql("CREATE TABLE t (a int, b text); CREATE TABLE c (a int, b text)")
        .expect("tables");
    cluster
}

/// DB time in seconds and the text, by id.
fn statements(recorded: &Recorded) -> BTreeMap<String, (f64, String)> {
    assert_eq!(recorded.meta.database.statement_ids, "fingerprint");
    let report = recorded.json(&[]);
    assert_eq!(report["meta"]["database"]["statement_ids"], "fingerprint");
    recorded.statements()
}

#[test]
fn time_by_fingerprint_is_the_servers_in_every_version_and_tier() {
    needs_recording!();
    let mut ids: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut sums: BTreeMap<(&str, &str), SampledSum> = BTreeMap::new();
    for server in every_version() {
        let cluster = without_ids(&server);
        let mut session = Session::connect_with(&cluster, "-c synchronous_commit=off -c log_duration=on");
        let recorders = [
            ("exact", &["--exact=calls"][..]),
            ("sampled", &[]),
            ("proc", &["--collector", "proc"]),
        ]
        .map(|(tier, options)| (tier, Recorder::server(&cluster, options)));
        // By the server's clock, and until the session was idle: it writes its log and sends its answer after the server has stopped the
        // clock, which takes a while where others want the CPUs and the disk.
        let mut truth: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for round in 0..2 {
            for (begins, texts) in STATEMENTS {
                session.take_durations();
                let began = Instant::now();
                session.run(texts[round]);
                session.wait_until_idle();
                let until_idle = began.elapsed();
                let [duration] = session.take_durations()[..] else {
                    panic!("{begins} is one statement")
                };
                let (least, most) = truth.entry(begins).or_default();
                *least += duration.as_secs_f64();
                *most += until_idle.as_secs_f64();
            }
        }
        let all: f64 = truth.values().map(|(least, _)| least).sum();
        for (tier, recorder) in recorders {
            let recorded = recorder.stop();
            assert!(recorded.stderr.contains("fingerprint"), "{}", recorded.stderr);
            let found = statements(&recorded);
            for (begins, &(least, most)) in &truth {
                let alike =
                    |(_, (_, text)): &(&String, &(f64, String))| text.to_lowercase().starts_with(begins);
                let (id, (seconds, text)) = found
                    .iter()
                    .find(alike)
                    .unwrap_or_else(|| panic!("{begins} is not in {found:#?}"));
                let what = format!("{}, {tier}: {begins}", server.name);
                let error = match tier {
                    "exact" => 0.002,
                    _ => sampling_error(least, all, 99.0),
                };
                say(&format!(
                    "{what}: {least:.4} to {most:.4} s, found {seconds:.4}: {id} {text}"
                ));
                let nearest = seconds.clamp(least, most);
                sums.entry((tier, *begins)).or_default().add(
                    &what,
                    *seconds,
                    nearest,
                    error,
                    recorded.stolen,
                );
                ids.entry(begins).or_default().insert(id.clone());
            }
            for (_, text) in found.values() {
                assert!(!text.contains("ZQ") && !text.contains("4711"), "{text}");
            }
        }
    }
    for ((tier, begins), sum) in sums {
        sum.assert(&format!("{tier}: {begins}"));
    }
    // One of each, wherever it ran and however it was recorded.
    for (begins, ids) in ids {
        assert_eq!(ids.len(), 1, "{begins}: {ids:?}");
    }
}
