//! Statements that ran already when the recorder came, texts that can only be read while their statement runs, and the user and
//! system CPU of statements.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dbtime::throwaway::{Options, SUPERUSER};
use dbtime_model::State;
use dbtime_tests::{
    Recorder, Session, assert_close, builds, distribution, needs_recording, say, wait_for_state,
};

/// Longer than the server shows of it.
fn long_statement(seconds: f64) -> String {
    format!("SELECT pg_sleep({seconds}), '{}'", "x".repeat(3000))
}

#[test]
fn a_statement_that_ran_already_has_its_text_and_its_time_from_then_on() {
    needs_recording!();
    let mut servers = builds(&[18]);
    servers.push(distribution());
    for build in servers {
        let cluster = build.start(Options::default().set("compute_query_id", "on"));
        let mut session = Session::connect(&cluster);
        let pid = session.pid();
        let text = long_statement(5.0);
        let sent = text.clone();
        let worker = std::thread::spawn(move || {
            session.run(&sent);
            (SystemTime::now(), session)
        });
        std::thread::sleep(Duration::from_millis(200));
        wait_for_state(pid, 'S');
        let exact = Recorder::server(&cluster, &["--exact", "--text", "full"]);
        let sampled = Recorder::server(&cluster, &["--text", "full"]);
        let (end, session) = worker.join().expect("it runs");
        session.wait_until_idle();
        for recorded in [exact.stop(), sampled.stop()] {
            let statements = recorded.statements();
            let of_it: Vec<f64> = statements
                .values()
                .filter(|(_, found)| *found == text)
                .map(|(seconds, _)| *seconds)
                .collect();
            let [seconds] = of_it[..] else {
                panic!("{}: {statements:#?}", build.name);
            };
            let start = UNIX_EPOCH + Duration::from_micros(recorded.meta.start_us.cast_unsigned());
            let truth = end.duration_since(start).expect("it ended later").as_secs_f64();
            say(&format!("{}: {seconds:.4} s of {truth:.4} s", build.name));
            assert_close(&build.name, seconds, truth, 0.02, 0.03 + recorded.stolen);
        }
    }
}

#[test]
fn texts_are_what_they_are_in_the_encoding_of_their_database() {
    needs_recording!();
    // Different literals do not make a different statement, but another number of them does.
    let statement = |literals: usize, text: &str| {
        let literals = format!(", '{text}'").repeat(literals);
        format!("SELECT pg_sleep(0.3){literals}")
    };
    for build in builds(&[14, 18]) {
        let cluster = build.start(Options::default().set("compute_query_id", "on"));
        let recorder = Recorder::server(&cluster, &["--text", "full"]);
        let mut sent = Vec::new();
        for (encoding, text) in [
            ("UTF8", "é ю あ"),
            ("LATIN1", "é"),
            ("LATIN9", "œuvre à 1 €"),
            ("WIN1252", "“é”"),
            ("KOI8R", "дата"),
            ("EUC_JP", "日本語"),
            // No encoding: what a client sends.
            ("SQL_ASCII", "é ю あ"),
        ] {
            let name = encoding.to_lowercase();
            cluster
                .psql(&format!(
                    "CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LOCALE 'C'"
                ))
                .expect("a database");
            let mut session = Session::connect_as(&cluster, SUPERUSER, &name);
            // One that the server shows in full, and one that it cuts.
            for text in [text, &text.repeat(300)] {
                let statement = statement(sent.len() + 1, text);
                session.run(&statement);
                sent.push((encoding, statement));
            }
            session.wait_until_idle();
        }
        let texts: Vec<String> = recorder
            .stop()
            .statements()
            .into_values()
            .map(|(_, text)| text)
            .collect();
        for (encoding, statement) in sent {
            assert!(
                texts.contains(&statement),
                "{}, {encoding}: {statement}: {texts:?}",
                build.name
            );
        }
    }
}

#[test]
fn user_and_system_cpu_of_statements_are_what_pg_stat_kcache_counts() {
    needs_recording!();
    let cluster = distribution().start(
        Options::default()
            .set("shared_preload_libraries", "pg_stat_statements,pg_stat_kcache")
            .set("max_parallel_workers_per_gather", "0")
            .set("jit", "off"),
    );
    cluster
        .psql("CREATE EXTENSION pg_stat_statements; CREATE EXTENSION pg_stat_kcache")
        .expect("scripts/deps.sh test installs it");
    let recorder = Recorder::server(&cluster, &["-F", "997"]);
    let mut told = Vec::new();
    // Computes; has the kernel make zeroes.
    for statement in [
        "SELECT count(DISTINCT md5(n::text)) FROM generate_series(1, 1000000) n",
        "SELECT sum(length(pg_read_binary_file('/dev/zero', n, 16000000))) FROM generate_series(1, 3000) n",
    ] {
        cluster
            .psql("SELECT pg_stat_kcache_reset()")
            .expect("it is there");
        let mut session = Session::connect(&cluster);
        session.run(statement);
        session.wait_until_idle();
        let answer = cluster.psql(
            "SELECT exec_user_time, exec_system_time FROM pg_stat_kcache()
             ORDER BY exec_user_time + exec_system_time DESC LIMIT 1",
        );
        let answer = answer.expect("it is there");
        let (user, system) = answer.split_once('\t').expect("two columns");
        let seconds = |text: &str| text.parse::<f64>().expect("a number");
        told.push((session.pid(), seconds(user), seconds(system)));
    }
    let recorded = recorder.stop();
    for (pid, user, system) in told {
        let time = recorded.session(pid);
        let [by_user, by_system] =
            [State::User, State::Kernel].map(|state| time.ns(None, &[state]) as f64 / 1e9);
        say(&format!(
            "user {by_user:.3} s of {user:.3} s, system {by_system:.3} s of {system:.3} s"
        ));
        // What the kernel says of user and system time is divided by its ticks (250 a second): some percent.
        let all = user + system;
        assert!(all > 0.5, "{all} s");
        assert_close("all, s", by_user + by_system, all, 0.03, 0.03 + recorded.stolen);
        assert_close("user, s", by_user, user, 0.0, all * 0.1);
        assert_close("system, s", by_system, system, 0.0, all * 0.1);
    }
}
