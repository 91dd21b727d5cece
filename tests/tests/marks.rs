//! Marks on a time line: checkpoints and work of autovacuum, against what the server writes into its log.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{Recorded, Recorder, Server, Session, every_version, needs_recording, number, say};

/// A mark, or what the log says, in seconds since the epoch.
#[derive(Debug, Clone)]
struct Work {
    from: f64,
    to: f64,
    what: String,
}

/// Long enough for samples in every second of it.
fn is_long(work: &Work) -> bool {
    work.to - work.from > 1.0
}

fn server(build: &Server) -> Cluster {
    let options = Options::default()
        .set("log_line_prefix", "%n ")
        .set("log_checkpoints", "on")
        .set("checkpoint_timeout", "30s")
        .set("checkpoint_completion_target", "0.1")
        .set("log_autovacuum_min_duration", "0")
        .set("autovacuum_naptime", "1s")
        .set("autovacuum_vacuum_cost_delay", "20ms")
        .set("autovacuum_vacuum_cost_limit", "400");
    build.start(options)
}

/// Waits until what has begun since the moment is in the log, however long the disk takes.
fn wait_for_log(
    cluster: &Cluster,
    since: SystemTime,
    what: &str,
    is_there: impl Fn(&[Work], &[Work]) -> bool,
) {
    let since = since.duration_since(UNIX_EPOCH).expect("a date").as_secs_f64();
    let asked = Instant::now();
    loop {
        let (mut checkpoints, mut vacuums) = log(cluster);
        checkpoints.retain(|work| work.from > since);
        vacuums.retain(|work| work.from > since);
        if is_there(&checkpoints, &vacuums) {
            return;
        }
        let longest = Duration::from_secs(90);
        assert!(
            asked.elapsed() < longest,
            "no {what}: {checkpoints:?}, {vacuums:?}"
        );
        sleep(Duration::from_millis(500));
    }
}

/// An update that autovacuum cleans up after, a checkpoint on demand, and one that is due, which takes its time.
fn recorded(cluster: &Cluster) -> Recorded {
    let mut worker = Session::connect(cluster);
    worker.run(
        "CREATE TABLE swept (n int, t text) WITH (autovacuum_enabled = off);
         INSERT INTO swept SELECT n, repeat('x', 200) FROM generate_series(1, 100000) n",
    );
    worker.run("CHECKPOINT");
    let recorder = Recorder::server(cluster, &[]);
    let began = SystemTime::now();
    sleep(Duration::from_secs(2));
    worker.run("UPDATE swept SET t = repeat('y', 200)");
    worker.run("CHECKPOINT");
    worker.run("ALTER TABLE swept SET (autovacuum_enabled = on)");
    wait_for_log(cluster, began, "VACUUM", |_, vacuums| vacuums.iter().any(is_long));
    // Until the checkpoint that is due thirty seconds after the last one.
    worker.run("UPDATE swept SET t = repeat('z', 200) WHERE n % 10 = 0");
    wait_for_log(cluster, began, "checkpoint", |checkpoints, _| {
        checkpoints.len() == 2
    });
    recorder.stop()
}

/// Seconds since the epoch, and the message, of a line of the log; `None` for continuation lines.
fn message(line: &str) -> Option<(f64, &str)> {
    let (time, rest) = line.split_once(" LOG:  ")?;
    Some((time.trim().parse().ok()?, rest))
}

/// Checkpoints, and what autovacuum did, as the log says it.
fn log(cluster: &Cluster) -> (Vec<Work>, Vec<Work>) {
    let text = fs::read_to_string(cluster.home().join("server.log")).expect("a log");
    let (mut checkpoints, mut vacuums) = (Vec::new(), Vec::new());
    let mut begun = None;
    let mut ended: Option<(f64, String)> = None;
    for line in text.lines() {
        if let Some((time, what)) = message(line) {
            if what.starts_with("checkpoint starting") {
                begun = Some(time);
            } else if what.starts_with("checkpoint complete") {
                checkpoints.extend(begun.take().map(|from| Work {
                    from,
                    to: time,
                    what: String::new(),
                }));
            }
            let table = what.split('"').nth(1).and_then(|name| name.split_once('.'));
            ended = table
                .filter(|_| what.starts_with("automatic "))
                .map(|(_, table)| (time, table.to_string()));
        }
        // The last line of each report of autovacuum.
        if let (Some((to, what)), Some((_, elapsed))) = (&ended, line.split_once("elapsed: ")) {
            let elapsed: f64 = elapsed
                .trim_end_matches(" s")
                .parse()
                .unwrap_or_else(|e| panic!("{e}: {line}"));
            vacuums.push(Work {
                from: to - elapsed,
                to: *to,
                what: what.clone(),
            });
        }
    }
    (checkpoints, vacuums)
}

fn marks(recorded: &Recorded, kind: &str) -> Vec<Work> {
    let answer = recorded.json(&["--timeline"]);
    let marks = answer["timeline"]["marks"].as_array().expect("marks");
    let moment = |since_start| recorded.meta.start_us as f64 / 1e6 + number(since_start);
    marks
        .iter()
        .filter(|mark| mark["kind"] == kind)
        .map(|mark| Work {
            from: moment(&mark["from_s"]),
            to: moment(&mark["to_s"]),
            what: mark["text"].as_str().unwrap_or_default().to_string(),
        })
        .collect()
}

fn of_one_server(build: &Server) {
    let cluster = server(build);
    let recorded = recorded(&cluster);
    let (checkpoints, vacuums) = log(&cluster);
    let name = &build.name;
    let began = recorded.meta.start_us as f64 / 1e6;

    // Known to the second: a mark begins and ends within one of what it stands for.
    let expected: Vec<&Work> = checkpoints.iter().filter(|work| work.from > began).collect();
    let marked = marks(&recorded, "checkpoint");
    say(&format!("{name}: log {expected:.1?}, marks {marked:.1?}"));
    assert_eq!(expected.len(), 2, "{name}: {checkpoints:?}");
    assert!(expected[1].to - expected[1].from > 1.5, "{name}: {expected:?}");
    let is_it =
        |mark: &Work, work: &Work| (mark.from - work.from).abs() < 1.1 && (mark.to - work.to).abs() < 1.1;
    for mark in &marked {
        assert!(
            expected.iter().any(|work| is_it(mark, work)),
            "{name}: {mark:?} of {expected:?}"
        );
    }
    // One of some milliseconds may be met by no sample.
    for work in expected.iter().filter(|work| is_long(work)) {
        let its = marked.iter().filter(|mark| is_it(mark, work)).count();
        assert_eq!(its, 1, "{name}: {work:?} in {marked:?}");
    }
    assert!(
        marked.len() <= expected.len(),
        "{name}: {marked:?} of {expected:?}"
    );

    let marked = marks(&recorded, "autovacuum");
    say(&format!("{name}: log {vacuums:.1?}, marks {marked:.1?}"));
    for mark in &marked {
        // What takes milliseconds is over before its text is read.
        let has_text = mark.what != "[text not recorded]";
        let is_it = |work: &&Work| {
            (mark.what.ends_with(&work.what) || !has_text)
                && work.to > mark.from - 1.1
                && work.from < mark.to + 1.1
        };
        assert!(
            vacuums.iter().any(|work| is_it(&work)),
            "{name}: {mark:?} of {vacuums:?}"
        );
    }
    let long: Vec<&Work> = vacuums
        .iter()
        .filter(|work| work.from > began && is_long(work))
        .collect();
    assert!(!long.is_empty(), "{name}: {vacuums:?}");
    for work in long {
        let is_it = |mark: &&Work| {
            mark.what.ends_with(&work.what) && mark.from < work.from + 1.1 && mark.to > work.to - 1.1
        };
        assert!(
            marked.iter().any(|mark| is_it(&mark)),
            "{name}: {work:?} in {marked:?}"
        );
    }
    let text = recorded.text(&["--timeline"]);
    assert!(
        text.contains("public.swept") && text.contains("checkpoint"),
        "{text}"
    );
}

#[test]
fn checkpoints_and_autovacuum_are_marked_when_the_log_says_they_were_in_every_version() {
    needs_recording!();
    // They do little else than wait.
    std::thread::scope(|scope| {
        for build in every_version() {
            scope.spawn(move || of_one_server(&build));
        }
    });
}
