//! A time line of a real server: average active sessions, bucket by bucket, against what its sessions were made to do.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dbtime_tests::{
    Recorded, Recorder, Session, assert_between, assert_close, dbtime, distribution, needs_recording, number,
    say,
};
use serde_json::Value;

use dbtime::throwaway::Options;

/// Seconds of each phase.
const PHASE: f64 = 5.0;

fn now_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("the clock is set").as_secs_f64()
}

/// From when to when, seconds since the epoch, so many sessions were in this class of waits.
struct Phase {
    class: &'static str,
    from: f64,
    to: f64,
    sessions: f64,
}

/// Begin and end of each bucket, and its average active sessions of a value (0 where the value has none).
fn line(recorded: &Recorded, answer: &Value, value: &str) -> Vec<(f64, f64, f64)> {
    let timeline = &answer["timeline"];
    let values = timeline["values"].as_array().expect("values");
    let at = values.iter().position(|one| one["value"] == value);
    let moment = |since_start: &Value| recorded.meta.start_us as f64 / 1e6 + number(since_start);
    let buckets = timeline["buckets"].as_array().expect("buckets");
    let of = |bucket: &Value| {
        assert!(!bucket["rate"].is_null(), "a gap: {bucket}");
        let rate = at.map_or(0.0, |at| number(&bucket["by_value_rate"][at]));
        (moment(&bucket["from_s"]), moment(&bucket["to_s"]), rate)
    };
    buckets.iter().map(of).collect()
}

/// The buckets sum to what the ledger has of the same rows, whatever they are told apart by and however wide they are.
fn assert_conserved(recorded: &Recorded, filter: &[&str]) {
    let ledger = number(&recorded.json(filter)["db_time_ns"]);
    for by in ["wait_class", "state", "wait", "user", "session", "query"] {
        for width in ["--timeline=1s", "--timeline=4", "--timeline=7s"] {
            let answer = recorded.json(&[filter, &[width, "--by", by, "--top", "2"]].concat());
            let timeline = &answer["timeline"];
            let buckets = timeline["buckets"].as_array().expect("buckets");
            let rates: f64 = buckets
                .iter()
                .map(|bucket| number(&bucket["rate"]) * number(&bucket["recorded_ns"]))
                .sum();
            let before = number(&timeline["before_ns"]);
            assert_close(
                &format!("{by} {width} {filter:?}"),
                rates + before,
                ledger,
                1e-9,
                0.0,
            );
            assert_eq!(number(&timeline["db_time_ns"]), ledger);
            assert!(timeline["values"].as_array().expect("values").len() <= 3);
        }
    }
}

#[test]
fn sessions_on_a_cpu_and_then_in_locks_are_drawn_when_they_were() {
    needs_recording!();
    let cluster = distribution().start(Options::default().set("jit", "off").set("autovacuum", "off"));
    cluster.psql("CREATE TABLE t (a int)").expect("a table");
    let mut sessions: Vec<Session> = (0..2).map(|_| Session::connect(&cluster)).collect();
    let mut holder = Session::connect(&cluster);
    let sampled = Recorder::server(&cluster, &[]);
    let exact = Recorder::server(&cluster, &["--exact"]);
    std::thread::sleep(Duration::from_secs(2));

    let burn = format!(
        "DO $$ DECLARE till timestamptz := clock_timestamp() + '{PHASE} s'; BEGIN \
         WHILE clock_timestamp() < till LOOP END LOOP; END $$"
    );
    let mut phases = Vec::new();
    let mut all_run = |sessions: &mut [Session], class: &'static str, sql: &str| {
        let spans: Vec<(f64, f64)> = std::thread::scope(|scope| {
            let running: Vec<_> = sessions
                .iter_mut()
                .map(|session| {
                    scope.spawn(|| {
                        let from = now_s();
                        session.run(sql);
                        (from, now_s())
                    })
                })
                .collect();
            running
                .into_iter()
                .map(|one| one.join().expect("it ran"))
                .collect()
        });
        phases.extend(spans.into_iter().map(|(from, to)| Phase {
            class,
            from,
            to,
            sessions: 1.0,
        }));
    };
    all_run(&mut sessions, "CPU", &burn);
    // Nobody is active: zero, and no gap.
    std::thread::sleep(Duration::from_secs(3));
    holder.run("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE");
    let unlock = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs_f64(PHASE));
        holder.run("COMMIT");
        holder
    });
    all_run(&mut sessions, "Lock", "SELECT count(*) FROM t");
    let _holder = unlock.join().expect("it was released");
    std::thread::sleep(Duration::from_secs(2));
    let (sampled, exact) = (sampled.stop(), exact.stop());

    for (recorded, name) in [(&exact, "exact"), (&sampled, "sampled")] {
        let answer = recorded.json(&["--timeline=2s"]);
        let cpus = std::thread::available_parallelism().expect("a host has CPUs");
        assert!(number(&answer["timeline"]["cpus"]) >= cpus.get() as f64);
        assert_eq!(answer["timeline"]["gaps"], serde_json::json!([]));
        let mut drawn = 0;
        for class in ["CPU", "Lock"] {
            for (from, to, sessions) in line(recorded, &answer, class) {
                let expected: f64 = phases
                    .iter()
                    .filter(|phase| phase.class == class)
                    .map(|phase| (phase.to.min(to) - phase.from.max(from)).max(0.0) * phase.sessions)
                    .sum::<f64>()
                    / (to - from);
                say(&format!(
                    "{name} {class} {from:.1}: {sessions:.3}, was {expected:.3}"
                ));
                // Connecting and the other statements are a hundredth; at the ends of a phase two samples, either way. In a bucket
                // that is short they are more of it.
                let slack = 0.05 + 0.1 / (to - from);
                assert_between(
                    &format!("{name} {class} at {from:.1}"),
                    sessions,
                    expected,
                    expected,
                    0.02,
                    slack,
                );
                drawn += usize::from(expected > 1.9);
            }
        }
        assert!(drawn >= 2, "no bucket lay within a phase");
        for filter in [
            &[][..],
            &["--wait", "Lock"],
            &["--from", "3s", "--to", "9s"],
            &["--state", "sleep"],
        ] {
            assert_conserved(recorded, filter);
        }
        text_and_picture(recorded);
    }
}

fn text_and_picture(recorded: &Recorded) {
    let path = recorded.path.to_str().expect("a plain path");
    let text = dbtime(&["report", path, "--timeline=1s", "--by", "state"])
        .expect_code(0)
        .stdout;
    assert!(text.contains("Average active sessions by state"), "{text}");
    let home = tempfile::TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    let picture = home.path().join("line.svg");
    let picture_path = picture.to_str().expect("a plain path");
    dbtime(&["report", path, "--timeline", "-o", picture_path]).expect_code(0);
    let svg = std::fs::read_to_string(&picture).expect("it was written");
    assert!(
        svg.contains("<svg") && svg.contains("stroke-dasharray") && svg.contains("UTC"),
        "{svg}"
    );
    for (arguments, words) in [
        (&["--timeline", "--by", "wait,state"][..], "one dimension"),
        (&["--timeline", "--by", "second"][..], "already shows seconds"),
        (&["--timeline=x"][..], "60"),
        (&["--timeline=1.5s"][..], "10s"),
        (&["--timeline", "--latency"][..], "--timeline"),
    ] {
        dbtime(&[&["report", path], arguments].concat())
            .expect_code(2)
            .expect_stderr(&[words]);
    }
}
