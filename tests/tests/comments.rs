//! Comments of statements (sqlcommenter): time by route and by trace, against the server's own clock of each statement.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options, PORT, SUPERUSER};
use dbtime_model::recording::Recording;
use dbtime_model::{ActivityRow, CommentRow, comment};
use dbtime_tests::{
    Recorded, Recorder, Server, assert_close, builds, dbtime, distribution, needs_recording, number,
    sampling_error, say,
};
use postgres::{Client, Config, NoTls};

/// How long the sessions of a recording work.
const WORK: Duration = Duration::from_secs(5);
/// The server's clock of a statement starts when it has arrived, and stops before the server says that it is idle, seconds.
const AROUND: f64 = 0.000_1;
/// How late a session is found without BPF programs, seconds.
const FOUND_LATE: f64 = 0.25;
/// What a comment must not bring to disk.
const SECRET: &str = "ZQ4711";

/// Time in seconds and number of statements, by route; those without one are `[none]`.
type Measured = BTreeMap<String, (f64, u32)>;

fn server(server: &Server, ids: &str) -> Cluster {
    let options = Options::default()
        .set("compute_query_id", ids)
        .set("max_parallel_workers_per_gather", "0")
        .set("jit", "off")
        .set("autovacuum", "off");
    server.start(options)
}

/// A connection whose server says how long each statement took: a client's own clock goes on while its session waits for a CPU to read the
/// statement, and that is not the statement's time.
struct Application {
    client: Client,
    seconds: Arc<Mutex<f64>>,
}

impl Application {
    fn connect(cluster: &Cluster) -> Application {
        let seconds = Arc::new(Mutex::new(0.0));
        let lasted = Arc::clone(&seconds);
        let mut config = Config::new();
        config
            .host_path(cluster.socket_dir())
            .port(PORT)
            .user(SUPERUSER)
            .dbname("postgres")
            .application_name("shop of the connection")
            .options("-c log_duration=on -c client_min_messages=log")
            .notice_callback(move |notice| {
                let ms = notice.message().strip_prefix("duration: ");
                let ms: Option<f64> = ms.and_then(|text| text.strip_suffix(" ms")?.parse().ok());
                *lasted.lock().expect("no holder panics") += ms.unwrap_or_default() / 1e3;
            });
        Application {
            client: config.connect(NoTls).expect("the server lets clients in"),
            seconds,
        }
    }

    /// What its statements took since the last call.
    fn took(&self) -> f64 {
        std::mem::take(&mut *self.seconds.lock().expect("no holder panics"))
    }
}

/// A trace of its own for each.
fn traceparent(session: u32, n: u32) -> String {
    format!(
        "00-{:032x}-{:016x}-01",
        (u128::from(session) << 64) | (u128::from(n) + 1),
        n + 1
    )
}

/// A route, and a statement of it, which takes a number that differs each time.
type Turn<'a> = (&'a str, &'a dyn Fn(&mut Client, u32));

/// Executes statements in turn until the time is over; each has a route, or none, and is given a number that no other one has.
fn work(turns: &[Turn<'_>], application: &mut Application) -> Measured {
    let mut measured = Measured::new();
    let end = Instant::now() + WORK;
    let mut n = 0;
    while Instant::now() < end {
        for (route, execute) in turns {
            application.took();
            execute(&mut application.client, n);
            let of_route = measured.entry((*route).to_string()).or_default();
            of_route.0 += application.took();
            of_route.1 += 1;
            n += 1;
        }
    }
    measured
}

/// Sessions that do what applications do, each in a thread of its own. Returns how long their statements took.
fn applications(cluster: &Cluster) -> Measured {
    let simple =
        |sql: String| move |client: &mut Client, _: u32| client.batch_execute(&sql).expect("it works");
    let in_turns = || {
        let mut application = Application::connect(cluster);
        let traced = |route: &'static str, seconds: &'static str| {
            move |client: &mut Client, n: u32| {
                let trace = traceparent(1, n);
                let comment = format!(
                    "/*action='show',application='shop',controller='orders',framework='{SECRET}',route='{route}',traceparent='{trace}'*/"
                );
                client
                    .batch_execute(&format!("SELECT pg_sleep({seconds}) {comment}"))
                    .expect("it works");
            }
        };
        let (short, long) = (traced("%2Fshort", "0.004"), traced("%2Flong", "0.012"));
        work(&[("/short", &short), ("/long", &long)], &mut application)
    };
    let prepared = || {
        let mut application = Application::connect(cluster);
        let sql = format!("/*controller='orders',route='%2Fprepared',x='{SECRET}'*/ SELECT pg_sleep($1)");
        let first = application.client.prepare(&sql).expect("it is SQL");
        let second = application
            .client
            .prepare("SELECT pg_sleep($1) /*route='%2Falso prepared'*/")
            .expect("it is SQL");
        let execute = |statement: postgres::Statement, seconds: f64| {
            move |client: &mut Client, _: u32| {
                client.execute(&statement, &[&seconds]).expect("it works");
            }
        };
        let (first, second) = (execute(first, 0.006), execute(second, 0.01));
        work(
            &[("/prepared", &first), ("/also prepared", &second)],
            &mut application,
        )
    };
    // Longer than track_activity_query_size, with and without a comment at their end.
    let cut = || {
        let mut application = Application::connect(cluster);
        let text = format!("SELECT pg_sleep(0.008), '{}'", "x".repeat(3_000));
        let with = simple(format!("{text} /*route='%2Fcut'*/;"));
        let begins = simple(format!("/*route='%2Fcut, too'*/ {text}"));
        let without = simple(text);
        work(
            &[("/cut", &with), ("/cut, too", &begins), ("[none]", &without)],
            &mut application,
        )
    };
    let on_cpu = || {
        let mut application = Application::connect(cluster);
        let count = |comment: &str| {
            simple(format!(
                "SELECT count(md5(n::text)) FROM generate_series(1, 12000) n {comment}"
            ))
        };
        let quoted = count("/*route='it%27s'*/");
        let hostile = count("/*route='%E2%80%AE%3C%2Fscript%3E'*/");
        work(
            &[("it's", &quoted), ("\u{202e}</script>", &hostile)],
            &mut application,
        )
    };
    let broken = || {
        let mut application = Application::connect(cluster);
        let sleep = |comment: &str| simple(format!("SELECT pg_sleep(0.007) {comment}"));
        let turns = [
            "",
            "/* not one */",
            "/*route='%2F*/",
            "/*route='%zz'*/",
            "/*route='a' controller='b'*/",
            &format!("/*route='{SECRET}{}'*/", "x".repeat(300)),
        ]
        .map(sleep);
        let turns = turns
            .each_ref()
            .map(|turn| ("[none]", turn as &dyn Fn(&mut Client, u32)));
        work(&turns, &mut application)
    };
    std::thread::scope(|scope| {
        let threads: [std::thread::ScopedJoinHandle<'_, Measured>; 5] = [
            scope.spawn(in_turns),
            scope.spawn(prepared),
            scope.spawn(cut),
            scope.spawn(on_cpu),
            scope.spawn(broken),
        ];
        let mut all = Measured::new();
        for (route, (seconds, count)) in threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("it worked"))
        {
            let of_route = all.entry(route).or_default();
            of_route.0 += seconds;
            of_route.1 += count;
        }
        all
    })
}

/// DB time of client backends that execute a statement, in seconds, by the values of a dimension.
fn by(recorded: &Recorded, dimension: &str) -> BTreeMap<String, f64> {
    let words = format!("{dimension},session_state");
    let report = recorded.json(&["--by", &words, "--where", "backend_type=client backend"]);
    let (mut sums, mut all) = (BTreeMap::new(), 0.0);
    for row in report["ledger"].as_array().expect("rows") {
        let group = |name: &str| row["group"][name].as_str().expect("a value");
        let seconds = number(&row["total_ns"]) / 1e9;
        if row["section"] == "db_time" {
            all += seconds;
        }
        if row["section"] == "db_time" && group("session_state") == "active" {
            *sums.entry(group(dimension).to_string()).or_default() += seconds;
        } else {
            // A command that has arrived and has no CPU, or what is done between two: no statement is known for these.
            assert!(group(dimension).starts_with('['), "{row}");
        }
    }
    assert_close(dimension, all, number(&report["db_time_ns"]) / 1e9, 1e-9, 1e-9);
    sums
}

/// `missed`: seconds of a route that may not have been recorded.
fn assert_measured(what: &str, recorded: &Recorded, measured: &Measured, missed: f64) {
    let found = by(recorded, "route");
    let all: f64 = measured.values().map(|(seconds, _)| seconds).sum();
    let unknown = found.get("[unknown]").copied().unwrap_or_default();
    say(&format!("{what}: {found:#?}\n{measured:#?}"));
    let db_time: f64 = found.values().sum();
    assert!(
        unknown < 0.03 * db_time,
        "{what}: {unknown} of {db_time} s not known"
    );
    for (route, (seconds, count)) in measured {
        let time = found.get(route).copied().unwrap_or_default();
        let error =
            sampling_error(*seconds, all, 99.0) + AROUND * f64::from(*count) + unknown + recorded.stolen;
        assert_close(&format!("{what}: {route}"), time, *seconds, 0.0, error + missed);
    }
    let others: Vec<&String> = found
        .keys()
        .filter(|route| !measured.contains_key(*route) && *route != "[unknown]")
        .collect();
    assert!(others.is_empty(), "{what}: {others:?}");
}

/// The values in a recording are those that were sent, and nothing else of any text is in it.
fn assert_described(recorded: &Recorded) {
    let recording = Recording::open(&recorded.path).expect("a recording");
    let mut comments: Vec<CommentRow> = Vec::new();
    recording.read(|rows| comments.extend(rows));
    let known: BTreeMap<u64, &CommentRow> = comments.iter().map(|row| (row.id, row)).collect();
    assert_eq!(known.len(), comments.len(), "each is described once");
    for row in &comments {
        let texts = format!("{row:?}");
        assert!(!texts.contains(SECRET), "{texts}");
        if row.route == "/short" || row.route == "/long" {
            assert_eq!(
                (&*row.application, &*row.controller, &*row.action),
                ("shop", "orders", "show")
            );
            assert!(row.trace_id.len() == 32 && row.span_id.len() == 16, "{texts}");
        }
    }
    let mut activity: Vec<ActivityRow> = Vec::new();
    recording.read(|rows| activity.extend(rows));
    for row in activity.iter().filter(|row| row.comment > comment::UNKNOWN) {
        assert!(known.contains_key(&row.comment), "{row:?}");
        assert!(!row.idle, "{row:?}");
    }
}

/// A trace leads to its rows, and to no others.
fn assert_traces(recorded: &Recorded) {
    let traces = by(recorded, "trace");
    // A sample at the edge of a second may have met a trace that has no exact time in it: a report on that one says that there is nothing.
    let sent: Vec<&String> = (traces.iter())
        .filter(|(trace, seconds)| !trace.starts_with('[') && **seconds > 0.0)
        .map(|(trace, _)| trace)
        .collect();
    assert!(sent.len() > 100, "{}", sent.len());
    let longest = sent
        .iter()
        .max_by(|a, b| traces[**a].total_cmp(&traces[**b]))
        .expect("one");
    for trace in [sent[0], sent[sent.len() / 2], longest] {
        let only = format!("trace={trace}");
        let report = recorded.json(&["--by", "session,route", "--where", &only]);
        assert_close(
            trace,
            number(&report["db_time_ns"]) / 1e9,
            traces[trace],
            1e-9,
            1e-9,
        );
        let rows = report["ledger"].as_array().expect("rows");
        let groups: std::collections::BTreeSet<String> =
            rows.iter().map(|row| row["group"].to_string()).collect();
        assert_eq!(groups.len(), 1, "{groups:?}");
    }
    let path = recorded.path.to_str().expect("a plain path");
    let outcome = dbtime(&["report", path, "--where", "trace=0"]).expect_code(1);
    assert!(outcome.stderr.contains("trace"), "{}", outcome.stderr);
}

#[test]
fn time_by_route_and_trace_is_the_servers() {
    needs_recording!();
    let mut servers = builds(&[18]);
    servers.push(distribution());
    for of in servers {
        for ids in ["on", "off"] {
            let cluster = server(&of, ids);
            // All of the same time.
            let recorders = [&[][..], &["--exact=switch"], &["--exact=calls"]]
                .map(|tier| Recorder::server(&cluster, tier));
            let measured = applications(&cluster);
            for recorded in recorders.map(Recorder::stop) {
                let tier = &recorded.meta.collector.tier;
                let what = format!("{}, query ids {ids}, {tier}", of.name);
                assert_measured(&what, &recorded, &measured, 0.0);
                assert_described(&recorded);
                assert_traces(&recorded);
                for (dimension, value) in [
                    ("controller", "orders"),
                    ("action", "show"),
                    ("comment_application", "shop"),
                ] {
                    assert!(
                        by(&recorded, dimension).contains_key(value),
                        "{what}: {dimension}"
                    );
                }
                let applications = recorded.json(&["--by", "application"])["ledger"].to_string();
                assert!(applications.contains("shop of the connection"), "{what}");
            }
        }
    }
}

#[test]
fn time_by_route_and_trace_is_the_servers_without_programs_too() {
    needs_recording!();
    for ids in ["on", "off"] {
        let cluster = server(&distribution(), ids);
        let recorder = Recorder::server(&cluster, &["--collector", "proc"]);
        let measured = applications(&cluster);
        let recorded = recorder.stop();
        let what = format!("no programs, query ids {ids}");
        assert_measured(&what, &recorded, &measured, FOUND_LATE);
        assert_described(&recorded);
        assert_traces(&recorded);
    }
}

#[test]
fn without_texts_there_are_no_comments() {
    needs_recording!();
    let cluster = server(&distribution(), "on");
    for collector in ["bpf", "proc"] {
        let arguments = ["--text", "none", "--collector", collector];
        let recorder = Recorder::server(&cluster, &arguments);
        let mut application = Application::connect(&cluster);
        application
            .client
            .batch_execute("SELECT pg_sleep(0.5) /*route='a'*/")
            .expect("it works");
        let recorded = recorder.stop();
        let report = recorded.json(&["--by", "route"]);
        assert_eq!(report["not_recorded"][0], "route", "{collector}");
        assert_eq!(recorded.meta.quality.comments_not_read, 0, "{collector}");
    }
}
