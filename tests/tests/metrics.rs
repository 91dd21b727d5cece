//! `dbtime metrics`, fetched by a real Prometheus: sessions whose time is known, and neighbours who ask too much.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options, Shutdown};
use dbtime_tests::{
    Session, assert_close, dbtime_binary, distribution, needs_recording, number, repository, say, skip,
};
use serde_json::Value;
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(60);

/// `dbtime metrics` beside the test. Killed when dropped.
struct Metrics {
    child: Child,
    address: SocketAddr,
    /// Reads what it says on standard error after its address: it would wait for a reader.
    said: Option<JoinHandle<Vec<String>>>,
}

impl Metrics {
    fn start(cluster: &Cluster) -> Metrics {
        let mut child = Command::new(dbtime_binary())
            .args(["metrics", "--listen", "127.0.0.1:0", "--postgres"])
            .arg(cluster.data_dir())
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command can be run");
        let stderr = child.stderr.take().expect("standard error is a pipe");
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let url = lines.find_map(|line| {
            let at = line.strip_prefix("metrics at http://")?;
            Some(at.strip_suffix("/metrics")?.to_string())
        });
        let url = url.unwrap_or_else(|| panic!("it ended: {:?}", child.wait()));
        Metrics {
            child,
            address: url.parse().expect("an address"),
            said: Some(std::thread::spawn(move || lines.collect())),
        }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: kill has no memory effects; the child is not reaped yet, so the pid is no other process's.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
    }

    /// Ends it the way Ctrl-C does; returns what it said.
    fn stop(mut self) -> Vec<String> {
        self.signal(libc::SIGINT);
        let ended = self.child.wait().expect("it is a child");
        assert_eq!(ended.code(), Some(0));
        let said = self.said.take().expect("it is read");
        said.join().expect("no panic")
    }

    fn text(&self) -> String {
        let (head, body) = get(self.address, "/metrics");
        assert!(
            head.starts_with("HTTP/1.1 200") && head.contains("text/plain; version=0.0.4"),
            "{head}"
        );
        body
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Head and body of an answer.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut connection = TcpStream::connect(address).expect("it listens");
    connection.set_read_timeout(Some(SOON)).expect("a timeout");
    connection
        .write_all(request.as_bytes())
        .expect("it takes the request");
    let mut answer = String::new();
    // Whoever sends too much is cut off.
    let _ = connection.read_to_string(&mut answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_string(), body.to_string())
}

fn get(address: SocketAddr, path: &str) -> (String, String) {
    ask(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"),
    )
}

/// The value of the first sample whose name and labels have all of these.
fn value(text: &str, has: &[&str]) -> f64 {
    let name = has[0].split('{').next().expect("a name");
    assert!(
        text.contains(&format!("# TYPE {name} ")),
        "{name} is not in {text}"
    );
    let line = text
        .lines()
        .find(|line| !line.starts_with('#') && has.iter().all(|part| line.contains(part)));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .unwrap_or(0.0)
}

/// A real Prometheus that fetches the counters every second. Killed when dropped.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    _home: TempDir,
}

fn program(name: &str) -> Option<PathBuf> {
    let path = repository().join("target/readers/prometheus/usr/bin").join(name);
    if !path.exists() {
        skip(&format!(
            "{} is not there: run scripts/readers.sh",
            path.display()
        ));
        return None;
    }
    Some(path)
}

impl Prometheus {
    fn start(program: &Path, of: SocketAddr) -> Prometheus {
        let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
        let configuration = home.path().join("prometheus.yml");
        fs::write(
            &configuration,
            format!(
                "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: dbtime\n  static_configs:\n  - targets: ['{of}']\n"
            ),
        )
        .expect("it is ours");
        // Somebody else could take it in between; Prometheus would end then, and so would the test.
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let child = Command::new(program)
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                home.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=error")
            .spawn()
            .expect("it can be run");
        let begin = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begin.elapsed() < SOON, "Prometheus does not listen");
            std::thread::sleep(Duration::from_millis(100));
        }
        Prometheus {
            child,
            address,
            _home: home,
        }
    }

    /// The current value of an expression.
    fn ask(&self, expression: &str) -> Vec<Value> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        // HTTP 1.0: the answer comes in one piece.
        let request = format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\nHost: test\r\n\r\n");
        let (head, body) = ask(self.address, &request);
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{e}: {head}\n{body}"));
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().expect("a list").clone()
    }

    fn number(&self, expression: &str) -> f64 {
        let found = self.ask(expression);
        let value = found
            .first()
            .and_then(|one| one["value"][1].as_str()?.parse().ok());
        value.unwrap_or_else(|| panic!("{expression}: {found:?}"))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn sessions_whose_time_is_known_are_counted_as_prometheus_has_it() {
    needs_recording!();
    let (Some(prometheus), Some(promtool)) = (program("prometheus"), program("promtool")) else {
        return;
    };
    let cluster = distribution().start(Options::default());
    cluster.psql("CREATE TABLE t AS SELECT 1 AS n").expect("a table");
    let mut sessions: Vec<Session> = (0..5)
        // They end even if the test fails.
        .map(|_| Session::connect_with(&cluster, "-c statement_timeout=60s"))
        .collect();
    sessions[0].run("BEGIN; UPDATE t SET n = 2");
    let [_, sleeps, waits, computes, _idle] = &mut sessions[..] else {
        panic!("there are five")
    };
    std::thread::scope(|scope| {
        let busy = [
            (sleeps, "SELECT pg_sleep(60)"),
            (waits, "UPDATE t SET n = 3"),
            (computes, "DO $$ BEGIN LOOP END LOOP; END $$"),
        ]
        .map(|(session, statement)| {
            let pid = session.pid();
            scope.spawn(move || session.try_run(statement).expect_err("it is cancelled"));
            pid
        });
        let metrics = Metrics::start(&cluster);
        let server = Prometheus::start(&prometheus, metrics.address);
        let first = metrics.text();
        std::thread::sleep(Duration::from_secs(8));
        let last = metrics.text();
        let grown = |has: &[&str]| value(&last, has) - value(&first, has);
        let seconds = grown(&["dbtime_recorded_seconds_total"]);
        assert!((4.0..=14.0).contains(&seconds), "{seconds} s");
        let until = grown(&["dbtime_recorded_until_timestamp_seconds"]);
        assert_close("the end of the last second", until, seconds, 0.0, 0.1);
        // Each did the same all the time.
        let of = |what: &str, has: &[&str]| {
            say(&format!("{what}: {:.3} s of {seconds} s", grown(has)));
            assert!(
                (grown(has) - seconds).abs() < 0.15,
                "{what}: {} s of {seconds} s\n{last}",
                grown(has)
            );
        };
        let db_time = "dbtime_db_time_seconds_total";
        of("sleeps", &[db_time, "wait_class=\"Timeout\"", "state=\"sleep\""]);
        of("waits", &[db_time, "wait_class=\"Lock\"", "state=\"sleep\""]);
        of(
            "in transaction",
            &["dbtime_idle_seconds_total", "\"idle in transaction\""],
        );
        of("idle", &["dbtime_idle_seconds_total", "\"idle\""]);
        let cpu: f64 = ["user", "kernel", "runnable"]
            .iter()
            .map(|state| grown(&[db_time, "wait_class=\"CPU\"", &format!("state=\"{state}\"")]))
            .sum();
        assert_close("computes", cpu, seconds, 0.0, 0.15);
        assert_eq!(value(&last, &["dbtime_sessions{kind=\"client\"}"]), 5.0);

        // Prometheus has the same. Seconds are counted whole, and how many of them lie between two scrapes varies.
        let active = server.number(
            "sum(rate(dbtime_db_time_seconds_total[6s])) / sum(rate(dbtime_recorded_seconds_total[6s]))",
        );
        assert_close("active sessions", active, 3.0, 0.02, 0.0);
        assert_eq!(server.number("up{job=\"dbtime\"}"), 1.0);
        let dashboard = fs::read(repository().join("dashboards/grafana.json")).expect("the dashboard");
        let dashboard: Value = serde_json::from_slice(&dashboard).expect("JSON");
        let panels = dashboard["panels"].as_array().expect("panels");
        for panel in panels {
            for target in panel["targets"].as_array().expect("targets") {
                let expression = target["expr"].as_str().expect("text");
                let now = expression
                    .replace("$__rate_interval", "5s")
                    .replace("$instance", ".+");
                let found = server.ask(&now);
                // Whether there is CPU inside of waits is a matter of chance.
                let is_empty = found.is_empty() && !expression.contains("wait_class!~");
                assert!(!is_empty, "{}: {now}", panel["title"]);
            }
        }
        let by_class = server.ask(
            "sum by (wait_class) (rate(dbtime_db_time_seconds_total[6s])) / on() group_left sum(rate(dbtime_recorded_seconds_total[6s]))",
        );
        let classes: f64 = by_class.iter().map(|one| number_of(&one["value"][1])).sum();
        assert_close("by class", classes, active, 0.02, 0.0);

        let mut check = Command::new(promtool)
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it can be run");
        check
            .stdin
            .take()
            .expect("a pipe")
            .write_all(last.as_bytes())
            .expect("it reads");
        let checked = check.wait_with_output().expect("it ends");
        assert!(
            checked.status.success() && checked.stderr.is_empty(),
            "{checked:?}"
        );
        metrics.stop();
        for pid in busy {
            cluster
                .psql(&format!("SELECT pg_cancel_backend({pid})"))
                .expect("it is there");
        }
    });
}

fn number_of(text: &Value) -> f64 {
    match text.as_str().and_then(|text| text.parse().ok()) {
        Some(number) => number,
        None => number(text),
    }
}

#[test]
fn whoever_asks_too_much_keeps_nobody_from_asking() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let _session = Session::connect(&cluster);
    let metrics = Metrics::start(&cluster);
    for (path, begins) in [("/", "HTTP/1.1 404"), ("/metrics/../x", "HTTP/1.1 404")] {
        assert!(get(metrics.address, path).0.starts_with(begins), "{path}");
    }
    let post = ask(
        metrics.address,
        "POST /metrics HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n",
    );
    assert!(post.0.starts_with("HTTP/1.1 405"), "{}", post.0);
    // Nonsense, and a head without an end.
    assert!(!ask(metrics.address, "\u{0}\u{1}\r\n\r\n").0.contains("200"));
    let endless = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    let (head, _) = ask_much(metrics.address, &endless);
    assert!(!head.contains(" 200 "), "{head}");
    // The thread that answers has no privileges.
    let threads = fs::read_dir(format!("/proc/{}/task", metrics.child.id())).expect("it runs");
    let status = threads
        .flatten()
        .map(|thread| fs::read_to_string(thread.path().join("status")).unwrap_or_default())
        .find(|status| status.starts_with("Name:\tmetrics\n"))
        .expect("it answers");
    for says in [
        "CapEff:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "NoNewPrivs:\t1",
    ] {
        assert!(status.contains(says), "{status}");
    }
    // Many who say nothing.
    let silent: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(metrics.address).expect("it listens"))
        .collect();
    let begin = Instant::now();
    assert!(metrics.text().contains("dbtime_sessions"));
    // Each has a second, 64 at a time. Prometheus gives up after ten.
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    drop(silent);

    let taken = Command::new(dbtime_binary())
        .args(["metrics", "--listen", &metrics.address.to_string(), "--postgres"])
        .arg(cluster.data_dir())
        .output()
        .expect("the command can be run");
    let said = String::from_utf8_lossy(&taken.stderr).into_owned();
    assert!(
        taken.status.code() == Some(1) && said.contains("choose another address with --listen"),
        "{taken:?}"
    );
    metrics.stop();
}

/// As [`ask`], for a client that may be cut off while it sends.
fn ask_much(address: SocketAddr, request: &str) -> (String, String) {
    let mut connection = TcpStream::connect(address).expect("it listens");
    connection.set_read_timeout(Some(SOON)).expect("a timeout");
    let _ = connection.write_all(request.as_bytes());
    let mut answer = String::new();
    let _ = connection.read_to_string(&mut answer);
    (answer, String::new())
}

/// Sum of all series of a metric.
fn sum(text: &str, name: &str) -> f64 {
    let of_metric = |line: &&str| line.starts_with(&format!("{name}{{"));
    let values = text.lines().filter(of_metric);
    values
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

#[test]
fn what_sessions_do_while_dbtime_is_stopped_is_counted_when_it_goes_on() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let mut sessions: Vec<Session> = (0..3)
        .map(|_| Session::connect_with(&cluster, "-c statement_timeout=60s"))
        .collect();
    let [sleeps, computes, _idle] = &mut sessions[..] else {
        panic!("there are three")
    };
    std::thread::scope(|scope| {
        let busy = [
            (sleeps, "SELECT pg_sleep(60)"),
            (computes, "DO $$ BEGIN LOOP END LOOP; END $$"),
        ]
        .map(|(session, statement)| {
            let pid = session.pid();
            scope.spawn(move || session.try_run(statement).expect_err("it is cancelled"));
            pid
        });
        let metrics = Metrics::start(&cluster);
        std::thread::sleep(Duration::from_secs(2));
        let (begin, first) = (Instant::now(), metrics.text());
        std::thread::sleep(Duration::from_secs(2));
        metrics.signal(libc::SIGSTOP);
        std::thread::sleep(Duration::from_secs(7));
        metrics.signal(libc::SIGCONT);
        std::thread::sleep(Duration::from_secs(5));
        let (elapsed, last) = (begin.elapsed().as_secs_f64(), metrics.text());
        let seconds = value(&last, &["dbtime_recorded_seconds_total"])
            - value(&first, &["dbtime_recorded_seconds_total"]);
        // All of the standstill; each end may be up to three seconds behind.
        assert!((elapsed - seconds).abs() < 3.0, "{seconds} s of {elapsed} s");
        for (name, sessions) in [
            ("dbtime_db_time_seconds_total", 2.0),
            ("dbtime_idle_seconds_total", 1.0),
        ] {
            let grown = sum(&last, name) - sum(&first, name);
            say(&format!("{name}: {grown:.3} s of {sessions} × {seconds} s"));
            assert_close(name, grown, sessions * seconds, 0.0, 0.2);
        }
        assert_eq!(value(&last, &["dbtime_time_not_counted_seconds_total"]), 0.0);
        metrics.stop();
        for pid in busy {
            cluster
                .psql(&format!("SELECT pg_cancel_backend({pid})"))
                .expect("it is there");
        }
    });
}

#[test]
fn a_server_that_restarts_is_counted_on() {
    needs_recording!();
    let mut cluster = distribution().start(Options::default());
    let metrics = Metrics::start(&cluster);
    let before = RefCell::new(counters(&metrics.text()));
    // Whenever somebody looks: no counter has fallen, and no series has gone.
    let text = || {
        let text = metrics.text();
        let now = counters(&text);
        for (series, value) in &*before.borrow() {
            assert!(now.get(series) >= Some(value), "{series} was {value}: {text}");
        }
        before.replace(now);
        text
    };
    let sessions = || value(&text(), &["dbtime_sessions{kind=\"client\"}"]);
    let wait_for = |what: &str, is_so: &dyn Fn() -> bool| {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < SOON, "{what}");
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    let session = Session::connect(&cluster);
    wait_for("one session", &|| sessions() == 1.0);
    drop(session);
    cluster.stop(Shutdown::Fast).expect("it stops");
    wait_for("nobody", &|| sessions() == 0.0);
    cluster.launch().expect("it starts again");
    let _sessions = [Session::connect(&cluster), Session::connect(&cluster)];
    wait_for("two sessions after a restart", &|| sessions() == 2.0);
    let first = text();
    std::thread::sleep(Duration::from_secs(5));
    let last = text();
    let grown = |name: &str| sum(&last, name) - sum(&first, name);
    let seconds =
        value(&last, &["dbtime_recorded_seconds_total"]) - value(&first, &["dbtime_recorded_seconds_total"]);
    assert!(seconds >= 2.0, "{seconds} s");
    let idle = grown("dbtime_idle_seconds_total");
    assert_close("sessions of the new server", idle, 2.0 * seconds, 0.0, 0.2);
    assert!(grown("dbtime_background_seconds_total") > seconds);
    let said = metrics.stop();
    for words in ["has stopped", "waiting for the server", "has restarted"] {
        let times = said.iter().filter(|line| line.contains(words)).count();
        assert_eq!(times, 1, "'{words}' in {said:#?}");
    }
}

/// All counters, by series.
fn counters(text: &str) -> HashMap<String, f64> {
    let is_counter = |line: &&str| !line.starts_with('#') && line.contains("_total");
    let series = text.lines().filter(is_counter);
    series
        .filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series.to_string(), value.parse().ok()?))
        })
        .collect()
}
