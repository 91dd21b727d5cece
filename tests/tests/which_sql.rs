//! Which SQL: time by statement, against what pg_stat_statements says of each.

use std::collections::BTreeMap;
use std::time::Instant;

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{
    Recorded, Recorder, SampledSum, Server, Session, assert_between, assert_close, builds, dbtime,
    distribution, every_version, needs_recording, number, pgbench, sampling_error, say,
};

/// Statements of a tenth of a second and more, with a literal that must not be found in a recording.
const STATEMENTS: [&str; 5] = [
    "SELECT count(*), sum(sqrt(n)) FROM generate_series(1, 2000000) n WHERE 'ZQ4711' <> n::text",
    "SELECT count(DISTINCT md5(n::text)) /* ZQ4711 */ FROM generate_series(1, 200000) n WHERE n <> 4711474711",
    "SELECT pg_sleep(0.5), $$ZQ4711$$, E'it\\'s ZQ4711'",
    "INSERT INTO t SELECT n, repeat('ZQ4711', 10) FROM generate_series(1, 150000) n",
    "UPDATE t SET a = a + 1",
];

/// So many of their first characters tell them apart.
const BEGINS_DIFFER: usize = 20;

/// Statements of all sorts, whose time is not spent in parsing, answering or a commit.
const SORTS: [(&str, &str); 8] = [
    ("function whose statements are its own", "SELECT f(300000)"),
    (
        "block",
        "DO $$ BEGIN PERFORM count(DISTINCT md5(n::text)) FROM generate_series(1, 300000) n; END $$",
    ),
    ("prepared", "EXECUTE p(400000)"),
    (
        "copy",
        "COPY (SELECT md5(n::text) FROM generate_series(1, 600000) n) TO '/dev/null'",
    ),
    ("index", "CREATE INDEX ON u (md5(a::text))"),
    // The server does not count that rows are sent after a FETCH.
    ("cursor", "MOVE ALL FROM c"),
    (
        "table",
        "CREATE TABLE v AS SELECT md5(n::text) FROM generate_series(1, 400000) n",
    ),
    ("vacuum", "ANALYZE u"),
];

/// Seconds. Two statements that follow each other at once share a second, which their samples (a hundred) divide; each has two such
/// seconds, and of samples that were drawn at random this is twice the standard error: those of a busy host come late by chance.
const SAMPLED: f64 = 0.14;

fn server(server: &Server) -> Cluster {
    server_with(server, "pg_stat_statements")
}

fn server_with(server: &Server, libraries: &str) -> Cluster {
    let options = Options::default()
        .set("shared_preload_libraries", libraries)
        .set("pg_stat_statements.track_planning", "on")
        .set("max_parallel_workers_per_gather", "0")
        .set("jit", "off")
        .set("autovacuum", "off");
    let cluster = server.start(options);
    cluster
        .psql("CREATE EXTENSION pg_stat_statements")
        .expect("the build comes with it");
    cluster.psql("CREATE TABLE t (a int, b text)").expect("a table");
    cluster
}

/// Executed and planned, seconds, by query id.
fn truth(cluster: &Cluster) -> BTreeMap<String, f64> {
    let answer = cluster
        .psql(
            "SELECT queryid, (total_exec_time + total_plan_time) / 1000 FROM pg_stat_statements \
             WHERE query NOT LIKE '%pg_stat_statements%'",
        )
        .expect("it is there");
    let seconds = answer.lines().map(|line| {
        let (id, seconds) = line.split_once('\t').expect("two columns");
        (id.to_string(), seconds.parse().expect("a number"))
    });
    seconds.collect()
}

/// CPU in seconds by query id.
fn cpu(recorded: &Recorded) -> BTreeMap<String, f64> {
    let report = recorded.json(&[]);
    let statements = report["statements"].as_array().expect("statements");
    let known = statements.iter().filter_map(|statement| {
        let id = statement["query"].as_str()?.to_string();
        Some((id, number(&statement["on_cpu_ns"]) / 1e9))
    });
    known.collect()
}

#[test]
fn time_by_statement_is_what_the_server_says_in_every_version() {
    needs_recording!();
    let mut sums: BTreeMap<String, SampledSum> = BTreeMap::new();
    for build in every_version() {
        let cluster = server(&build);
        // A commit is not part of what the server counts as execution.
        let mut session = Session::connect_with(&cluster, "-c synchronous_commit=off");
        let exact = Recorder::server(&cluster, &["--exact=calls"]);
        let sampled = Recorder::server(&cluster, &[]);
        cluster
            .psql("SELECT pg_stat_statements_reset()")
            .expect("it is there");
        let by_client = STATEMENTS.map(|statement| {
            let begin = Instant::now();
            session.run(statement);
            (statement, begin.elapsed().as_secs_f64())
        });
        session.wait_until_idle();
        let (exact, sampled) = (exact.stop(), sampled.stop());
        let truth = truth(&cluster);
        assert_eq!(truth.len(), STATEMENTS.len(), "{truth:?}");
        for recorded in [&exact, &sampled] {
            assert!(!recorded.stderr.contains("query ids"), "{}", recorded.stderr);
        }
        let (by_exact, by_samples) = (exact.statements(), sampled.statements());
        let all: f64 = truth.values().sum();
        for (id, seconds) in &truth {
            let (found, text) = by_exact
                .get(id)
                .unwrap_or_else(|| panic!("{}: query {id} is not in {by_exact:#?}", build.name));
            let (of_samples, _) = by_samples
                .get(id)
                .unwrap_or_else(|| panic!("{}: query {id} is not in {by_samples:#?}", build.name));
            say(&format!(
                "{}: {id} {seconds:.4} s, exact {found:.4}, sampled {of_samples:.4}: {text}",
                build.name
            ));
            // With parsing before it, and freeing memory, the commit and the answer after it: a client waits for all of that.
            let begin = &text[..text.find('?').unwrap_or(BEGINS_DIFFER).min(BEGINS_DIFFER)];
            let waited = by_client.iter().find(|(sent, _)| sent.starts_with(begin));
            let (_, waited) = waited.unwrap_or_else(|| panic!("{text}"));
            assert_between(
                &format!("{}: {text}", build.name),
                *found,
                *seconds,
                *waited,
                0.02,
                0.01 + exact.stolen,
            );
            sums.entry(text.clone()).or_default().add(
                &format!("{}: {text}, sampled", build.name),
                *of_samples,
                *seconds,
                sampling_error(*seconds, all, 99.0),
                sampled.stolen,
            );
            assert!(text.contains('?') || text.starts_with("UPDATE"), "{text}");
        }
        // No literal of all that was read is anywhere in the recordings.
        for recorded in [&exact, &sampled] {
            for (_, text) in recorded.statements().values() {
                assert!(!text.contains("ZQ") && !text.contains("4711"), "{text}");
            }
        }
    }
    for (text, sum) in sums {
        sum.assert(&text);
    }
}

#[test]
fn every_sort_of_statement_has_its_time_and_its_cpu() {
    needs_recording!();
    let cluster = server_with(&distribution(), "pg_stat_statements,pg_stat_kcache");
    cluster
        .psql("CREATE EXTENSION pg_stat_kcache")
        .expect("scripts/deps.sh test installs it");
    cluster
        .psql(
            "CREATE FUNCTION f(n int) RETURNS bigint LANGUAGE plpgsql AS $$
             DECLARE a bigint; b bigint;
             BEGIN
                 SELECT count(DISTINCT md5(i::text)) INTO a FROM generate_series(1, n) i;
                 SELECT sum(length(md5(md5(i::text)))) INTO b FROM generate_series(1, n) i;
                 RETURN a + b;
             END $$;
             CREATE TABLE u AS SELECT a, repeat('x', 100) b FROM generate_series(1, 300000) a",
        )
        .expect("a function and a table");
    let mut session = Session::connect_with(&cluster, "-c synchronous_commit=off");
    session.run("PREPARE p(int) AS SELECT count(DISTINCT md5(n::text)) FROM generate_series(1, $1) n");
    let exact = Recorder::server(&cluster, &["--exact=calls"]);
    let sampled = Recorder::server(&cluster, &[]);
    cluster
        .psql("SELECT pg_stat_statements_reset(), pg_stat_kcache_reset()")
        .expect("they are there");
    session.run("BEGIN");
    session.run("DECLARE c CURSOR FOR SELECT md5(md5(md5(n::text))) FROM generate_series(1, 400000) n");
    for (_, statement) in SORTS {
        session.run(statement);
    }
    session.run("COMMIT");
    session.wait_until_idle();
    let (exact, sampled) = (exact.stop(), sampled.stop());
    let answer = cluster
        .psql(
            "SELECT queryid, (total_exec_time + total_plan_time) / 1000,
                    coalesce(exec_user_time + exec_system_time + plan_user_time + plan_system_time, -1),
                    regexp_replace(left(query, 40), '\\s+', ' ', 'g')
             FROM pg_stat_statements LEFT JOIN pg_stat_kcache() USING (queryid, userid, dbid)
             WHERE total_exec_time > 20",
        )
        .expect("they are there");
    assert!(answer.lines().count() >= SORTS.len(), "{answer}");
    let (time, time_by_samples) = (exact.statements(), sampled.statements());
    let (on_cpu, on_cpu_by_samples) = (cpu(&exact), cpu(&sampled));
    let mut with_cpu = 0;
    for line in answer.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [id, seconds, cpu, text] = columns[..] else {
            panic!("{line}");
        };
        let (seconds, cpu): (f64, f64) = (seconds.parse().expect("a number"), cpu.parse().expect("a number"));
        let found = |of: &BTreeMap<String, (f64, String)>| of.get(id).map_or(0.0, |(seconds, _)| *seconds);
        let burnt = |of: &BTreeMap<String, f64>| of.get(id).copied().unwrap_or(0.0);
        say(&format!(
            "{seconds:.4} s: exact {:.4}, sampled {:.4}; CPU {cpu:.4} s: exact {:.4}, sampled {:.4}: {id} {text}",
            found(&time),
            found(&time_by_samples),
            burnt(&on_cpu),
            burnt(&on_cpu_by_samples),
        ));
        assert_close(&format!("{text}: time"), found(&time), seconds, 0.02, 0.01);
        assert_close(
            &format!("{text}: time, sampled"),
            found(&time_by_samples),
            seconds,
            0.0,
            SAMPLED + sampled.stolen,
        );
        // It does not look at utility statements.
        if cpu >= 0.0 {
            with_cpu += 1;
            assert_close(&format!("{text}: CPU"), burnt(&on_cpu), cpu, 0.03, 0.01);
            assert_close(
                &format!("{text}: CPU, sampled"),
                burnt(&on_cpu_by_samples),
                cpu,
                0.0,
                SAMPLED + sampled.stolen,
            );
        }
    }
    assert!(with_cpu >= 2, "{answer}");
}

/// Of all statements with this text: the last of those that were sent at once may have the same mark.
fn seconds_of(statements: &BTreeMap<String, (f64, String)>, text: &str) -> f64 {
    let found = statements.values().filter(|(_, found)| found == text);
    found.map(|(seconds, _)| seconds).sum()
}

#[test]
fn of_statements_that_are_sent_at_once_each_has_its_own_text_and_a_long_one_is_whole_in_every_version() {
    needs_recording!();
    let sent = ["SELECT pg_sleep(0.4)", "SELECT 'ä;', pg_sleep(0.6), $$;$$"].join(" ; /* ; */ ");
    for build in every_version() {
        let name = &build.name;
        let cluster = build.start(
            Options::default()
                .set("compute_query_id", "on")
                .set("track_activity_query_size", "100"),
        );
        let mut session = Session::connect(&cluster);
        session.run("PREPARE p AS SELECT pg_sleep(0.5)");
        let recorder = Recorder::server(&cluster, &["--text", "full", "--exact"]);
        // A session that sleeps and is woken may wait for a CPU: the client's clock says by how much all of them together took longer.
        let begin = Instant::now();
        session.run(&sent);
        // The server cuts it inside of the second.
        session.run(&format!(
            "SELECT '{}', 1, pg_sleep(0.3); {sent}; SELECT 1, 2",
            "x".repeat(200)
        ));
        // What is executed is another statement, and does not say where it was prepared.
        session.run("EXECUTE p; SELECT 1");
        let late = begin.elapsed().as_secs_f64() - (1.0 + 0.3 + 1.0 + 0.5);
        // Where the server cuts this one there is a character of two bytes.
        let long = format!("SELECT pg_sleep(0.3), '{}', 'the end'", "ä".repeat(20_000));
        session.run(&long);
        session.wait_until_idle();
        let statements = recorder.stop().statements();
        assert!(seconds_of(&statements, &long) > 0.0, "{name}: {statements:?}");
        let seconds = |text: &str| seconds_of(&statements, text);
        let what = format!("{name}: {statements:#?}");
        let assert_slept =
            |found: f64, seconds: f64| assert_between(&what, found, seconds, seconds + late, 0.05, 0.02);
        assert_slept(seconds("SELECT pg_sleep(0.4)"), 0.8);
        // From 18 on the place of a statement does not begin with the comment before it.
        let of_second = statements
            .values()
            .find(|(_, text)| text.ends_with("SELECT 'ä;', pg_sleep(0.6), $$;$$"));
        let (of_second, text) = of_second.unwrap_or_else(|| panic!("{name}: {statements:#?}"));
        assert!(!text.contains("0.4"), "{name}: {text}");
        assert_slept(*of_second, 1.2);
        let first = format!("SELECT '{}', 1, pg_sleep(0.3)", "x".repeat(200));
        assert_slept(seconds(&first), 0.3);
        let of_prepared = seconds("[one of these] EXECUTE p; SELECT 1");
        assert_slept(of_prepared, 0.5);
    }
}

#[test]
fn time_can_be_grouped_and_filtered_by_statement() {
    needs_recording!();
    let cluster = server(&distribution());
    let mut session = Session::connect(&cluster);
    let recorder = Recorder::server(&cluster, &["--exact", "--text", "full"]);
    session.run("SELECT pg_sleep(0.3) /* first */");
    session.run("SELECT pg_sleep(0.2), 'second'");
    session.run("SELECT pg_sleep(0.3) /* again */");
    session.wait_until_idle();
    let recorded = recorder.stop();
    let truth = truth(&cluster);
    // The first one was executed twice, and slept three times as long: on a busy host, too, it is the longer one.
    let mut sleepers: Vec<(f64, String)> = truth.into_iter().map(|(id, seconds)| (seconds, id)).collect();
    sleepers.retain(|(seconds, _)| *seconds > 0.15);
    sleepers.sort_by(|one, other| other.0.total_cmp(&one.0));
    let [(of_first, first), (of_second, second)] = &sleepers[..] else {
        panic!("two statements sleep: {sleepers:?}")
    };

    let report = recorded.json(&["--by", "query,wait"]);
    let of = |id: &str, wait: &str| -> f64 {
        let rows = report["ledger"].as_array().expect("rows");
        let rows = rows
            .iter()
            .filter(|row| row["group"]["query"] == id && row["group"]["wait"] == wait);
        rows.map(|row| number(&row["total_ns"]) / 1e9).sum()
    };
    // The server's time has that of its own work in it, and of a session that is woken and gets no CPU.
    assert_close("first, s", of(first, "Timeout:PgSleep"), *of_first, 0.02, 0.005);
    assert_close(
        "second, s",
        of(second, "Timeout:PgSleep"),
        *of_second,
        0.02,
        0.005,
    );
    // Nobody executes anything while waiting for the client.
    assert_eq!(of(first, "Client:ClientRead"), 0.0);

    let only = recorded.json(&["--query", second]);
    assert_close(
        "only the second, s",
        number(&only["db_time_ns"]) / 1e9,
        *of_second,
        0.05,
        0.0,
    );
    let text = recorded.text(&["--query", second]);
    assert!(text.contains(&format!("Only query {second}")), "{text}");
    assert!(
        text.contains("'second'"),
        "the text was to be kept as it is: {text}"
    );

    let path = recorded.path.to_str().expect("a plain path");
    dbtime(&["report", path, "--query", "4711"])
        .expect_code(1)
        .expect_stderr(&["no time in query 4711", first]);
    dbtime(&["report", path, path, "--compare", "--query", first])
        .expect_code(2)
        .expect_stderr(&["--query"]);
}

/// pg_stat_statements takes the id of a utility statement away when it is first executed; one that was prepared has none from then on.
#[test]
fn a_commit_that_was_prepared_has_its_text_in_the_oldest_and_in_the_newest_version() {
    needs_recording!();
    for build in builds(&[14, 18]) {
        let options = Options::default()
            .set("shared_preload_libraries", "pg_stat_statements")
            .set("fsync", "on")
            .set("autovacuum", "off");
        let cluster = build.start(options);
        cluster
            .psql("CREATE EXTENSION pg_stat_statements")
            .expect("the build comes with it");
        pgbench::initialise(&cluster, 1);
        let exact = Recorder::server(&cluster, &["--exact=calls"]);
        let sampled = Recorder::server(&cluster, &[]);
        let arguments = [
            "--no-vacuum",
            "--protocol=prepared",
            "--client=2",
            "--jobs=1",
            "--time=4",
        ];
        let said = pgbench::run(&cluster, &arguments);
        // The server does not count what it has taken the id from.
        let transactions = pgbench::transactions(&said);
        let (exact, sampled) = (exact.stop(), sampled.stop());
        // A sample of a short wait may come when the session has gone on to its next statement.
        for (recorded, most) in [(&exact, 0.01), (&sampled, 0.2)] {
            let by_wait = recorded.json(&["--by", "query", "--wait", "IO:WALSync"]);
            let all = number(&by_wait["db_time_ns"]);
            let nameless: f64 = (by_wait["ledger"].as_array().expect("a ledger").iter())
                .filter(|row| row["group"]["query"] == "[unknown]" && row["section"] == "db_time")
                .map(|row| number(&row["total_ns"]))
                .sum();
            say(&format!(
                "{}: {:.3} s of {:.3} s in no statement",
                build.name,
                nameless / 1e9,
                all / 1e9
            ));
            assert!(all > 0.2e9, "commits wait: {by_wait:#}");
            assert!(nameless < most * all, "{}: {by_wait:#}", build.name);
            let statements = recorded.json(&[]);
            let commit = (statements["statements"].as_array().expect("statements").iter())
                .find(|of| of["text"] == "END;" && of["fingerprint"] == true);
            assert!(commit.is_some(), "{}: {statements:#}", build.name);
        }
        // All commands of that text, by whichever id.
        let commands = exact.json(&[
            "--latency",
            "--kind",
            "command",
            "--by",
            "statement",
            "--top",
            "50",
        ]);
        let counted: f64 = (commands["latency"].as_array().expect("groups").iter())
            .filter(|group| group["group"]["statement"] == "END;")
            .map(|group| number(&group["count"]))
            .sum();
        say(&format!(
            "{}: {counted} commits, {transactions} transactions",
            build.name
        ));
        // The first of each client prepare it, and have an id.
        assert!(
            (transactions - 4.0..=transactions + 4.0).contains(&counted),
            "{}: {counted}, {transactions}",
            build.name
        );
    }
}
