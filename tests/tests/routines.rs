//! Functions of PL/pgSQL in stacks: their names and lines, against the server's own clock of each.

use std::collections::HashSet;
use std::time::Duration;

use dbtime::throwaway::{Cluster, Options};
use dbtime_model::{Frame, PLPGSQL, StackId, State, stack_id};
use dbtime_tests::{
    Recorded, Recorder, Server, Session, assert_close, builds, distribution, every_version, needs_recording,
    number, sampling_error, say,
};

const RATE_HZ: f64 = 99.0;
/// A name that means to be more than a name.
const HOSTILE: &str = "a;b\"</script>\u{1b}[2Jü line 1";

/// Functions that call each other: each returns the seconds between two of its lines, by the server's clock.
const FUNCTIONS: &str = "
CREATE FUNCTION burns(seconds float8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE until timestamptz := clock_timestamp() + seconds * interval '1 s';
BEGIN
    WHILE clock_timestamp() < until LOOP
        PERFORM sum(n) FROM generate_series(1, 1000) n;
    END LOOP;
END $$;
CREATE FUNCTION sleeps(seconds float8) RETURNS void LANGUAGE plpgsql AS $$
BEGIN

    PERFORM pg_sleep(seconds);
END $$;
CREATE FUNCTION calls(seconds float8) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM burns(seconds);
    BEGIN
        PERFORM sleeps(seconds);
        RAISE EXCEPTION 'it is caught';
    EXCEPTION WHEN raise_exception THEN
        PERFORM sleeps(seconds);
    END;
END $$;
CREATE TABLE t (seconds float8);
CREATE FUNCTION on_insert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM sleeps(NEW.seconds);
    RETURN NEW;
END $$;
CREATE TRIGGER on_insert BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION on_insert();
CREATE FUNCTION goes_down(levels int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF levels = 0 THEN
        PERFORM pg_sleep(0.5);
    ELSE
        PERFORM goes_down(levels - 1);
    END IF;
END $$;";

fn server(server: &Server) -> Cluster {
    let options = Options::default()
        .set("jit", "off")
        .set("autovacuum", "off")
        .set("max_parallel_workers_per_gather", "0");
    let cluster = server.start(options);
    cluster
        .psql(FUNCTIONS)
        .unwrap_or_else(|e| panic!("{}: {e:#}", server.name));
    cluster
        .psql(&format!(
            "CREATE FUNCTION \"{}\"() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.5); END $$",
            HOSTILE.replace('"', "\"\"")
        ))
        .unwrap_or_else(|e| panic!("{}: {e:#}", server.name));
    cluster
}

/// The functions of PL/pgSQL of a stack, root first, with their lines.
fn routines(frames: &[Frame]) -> Vec<&str> {
    let routines = frames.iter().filter(|frame| frame.module == PLPGSQL);
    routines.map(|frame| frame.symbol.as_str()).collect()
}

/// Seconds in stacks that have just these functions. Not by their samples, which divide time and do not count it: on CPUs there were up to
/// a third more of them than the rate says.
fn seconds(recorded: &Recorded, pid: u32, states: &[State], of: &[&str]) -> f64 {
    let with_these = recorded.stacks().filter(|frames| routines(frames) == of);
    let stacks: HashSet<StackId> = with_these.map(stack_id).collect();
    let rows = recorded.session(pid).activity;
    let rows = rows.iter().filter(|row| states.contains(&row.state));
    let ns: u64 = rows
        .filter(|row| stacks.contains(&row.user_stack))
        .map(|row| row.ns)
        .sum();
    ns as f64 / 1e9
}

/// What stacks there are, for a failure's message.
fn seen(recorded: &Recorded, pid: u32) -> String {
    let stacks = recorded.user_stacks(pid).into_iter();
    let lines = stacks.map(|(frames, state, samples)| format!("{samples} {state:?} {:?}", routines(frames)));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn functions_and_lines_have_their_time_in_every_version() {
    needs_recording!();
    for build in every_version() {
        let cluster = server(&build);
        let mut session = Session::connect(&cluster);
        session.run("SELECT burns(0.01)");
        let recorders = [
            Recorder::server(&cluster, &[]),
            Recorder::server(&cluster, &["--exact=calls"]),
        ];
        session.run("SELECT calls(1)");
        session.run("INSERT INTO t VALUES (0.5)");
        session.run("DO $$ BEGIN\n PERFORM calls(0.3);\nEND $$");
        session.run(&format!("SELECT \"{}\"()", HOSTILE.replace('"', "\"\"")));
        session.run("SELECT goes_down(9)");
        for recorded in recorders.map(Recorder::stop) {
            let pid = session.pid();
            let stolen = recorded.stolen;
            let what = |of: &str| format!("{}, {}: {of}, s", build.name, recorded.meta.collector.tier);
            let check = |states: &[State], of: &[&str], truth: f64| {
                let found = seconds(&recorded, pid, states, of);
                say(&format!(
                    "{} {found:.3} of {truth:.3}",
                    what(of.last().expect("one"))
                ));
                let error = sampling_error(truth / 2.0, truth, RATE_HZ).max(0.06) + stolen;
                if (found - truth).abs() > error {
                    say(&seen(&recorded, pid));
                }
                assert_close(&what(&of.join(" ")), found, truth, 0.0, error);
            };
            let asleep = [State::Sleep];
            let (calls, sleeps) = ("calls(double precision)", "sleeps(double precision)");
            let at_line = |name: &str, line: u32| format!("{name} line {line}");
            let sleeps_4 = at_line(sleeps, 4);
            // It is called from two lines, one of them in a handler of exceptions.
            for line in [5, 8] {
                check(&asleep, &[calls, &at_line(calls, line), sleeps, &sleeps_4], 1.0);
            }
            check(
                &asleep,
                &["on_insert()", "on_insert() line 3", sleeps, &sleeps_4],
                0.5,
            );
            let block = "inline_code_block";
            for line in [5, 8] {
                let of = [
                    block,
                    "inline_code_block line 2",
                    calls,
                    &at_line(calls, line),
                    sleeps,
                    &sleeps_4,
                ];
                check(&asleep, &of, 0.3);
            }
            // A CPU is on one of two lines: almost always on the one that works.
            let burns = "burns(double precision)";
            let on_cpu = [State::User, State::Kernel, State::Runnable];
            let of = |line| {
                [
                    calls.to_string(),
                    at_line(calls, 3),
                    burns.to_string(),
                    at_line(burns, line),
                ]
            };
            let at = |line| {
                let of = of(line);
                seconds(&recorded, pid, &on_cpu, &of.each_ref().map(String::as_str))
            };
            let (works, looks) = (at(5), at(4));
            say(&format!(
                "{} {works:.3} at its work, {looks:.3} at its clock",
                what(burns)
            ));
            if (works + looks - 1.0).abs() > 0.15 + stolen {
                say(&seen(&recorded, pid));
            }
            assert_close(&what(burns), works + looks, 1.0, 0.0, 0.15 + stolen);
            assert!(
                works > 5.0 * looks,
                "{works} s, {looks} s\n{}",
                seen(&recorded, pid)
            );
            // As the server writes it, in quotation marks.
            let hostile = format!("\"{}\"()", HOSTILE.replace('"', "\"\""));
            check(&asleep, &[&hostile, &at_line(&hostile, 1)], 0.5);
            // Of ten nested ones, the innermost seven are shown.
            let down = "goes_down(integer)";
            let deep: Vec<String> = std::iter::repeat_n([down.to_string(), at_line(down, 6)], 6)
                .flatten()
                .chain([down.to_string(), at_line(down, 4)])
                .collect();
            let deep: Vec<&str> = deep.iter().map(String::as_str).collect();
            check(&asleep, &deep, 0.5);
            // All of DB time, by the innermost function and its line. A call of each that sleeps at line 4 is made at each place above.
            let report = recorded.json(&["--by", "routine,routine_line", "--session", &pid.to_string()]);
            let rows = report["ledger"].as_array().expect("rows");
            let by_line = |name: &str, line: &str| -> f64 {
                rows.iter()
                    .filter(|row| row["group"]["routine"] == name && row["group"]["routine_line"] == line)
                    .map(|row| number(&row["total_ns"]) / 1e9)
                    .sum()
            };
            for (name, line, truth) in [
                (sleeps, &sleeps_4, 2.0 * 1.0 + 0.5 + 2.0 * 0.3),
                (hostile.as_str(), &at_line(&hostile, 1), 0.5),
                (down, &at_line(down, 4), 0.5),
            ] {
                let error = sampling_error(truth / 2.0, truth, RATE_HZ).max(0.06) + stolen;
                assert_close(&what(line), by_line(name, line), truth, 0.0, error);
            }
            let text = recorded.text(&["--functions", "--top", "300"]);
            assert!(text.contains(calls) && !text.contains('\u{1b}'), "{text}");
        }
    }
}

/// It loaded the interpreter itself, which its parent does not have, and sleeps on until the recording has ended.
#[test]
fn a_function_in_which_a_session_sleeps_already_is_named() {
    needs_recording!();
    for build in builds(&[14, 18]).into_iter().chain([distribution()]) {
        let cluster = server(&build);
        let mut session = Session::connect(&cluster);
        let pid = session.pid();
        let recorded = std::thread::scope(|scope| {
            scope.spawn(|| session.run("SELECT sleeps(4)"));
            std::thread::sleep(Duration::from_millis(500));
            let recorder = Recorder::server(&cluster, &[]);
            std::thread::sleep(Duration::from_secs(2));
            recorder.stop()
        });
        let sleeps = "sleeps(double precision)";
        let found = seconds(
            &recorded,
            pid,
            &[State::Sleep],
            &[sleeps, &format!("{sleeps} line 4")],
        );
        say(&format!("{}: {found:.3} s", build.name));
        // Until its code is known it is not named, and then the stack is taken anew.
        assert!(found > 1.5, "{found} s\n{}", seen(&recorded, pid));
    }
}
