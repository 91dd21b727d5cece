//! `dbtime latch --exact`: every use of an LWLock against what was done and the clocks of who did it; and what it leaves behind.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dbtime::throwaway::{Cluster, Options};
use dbtime_tests::{
    KernelObjects, Looking, Session, assert_between, assert_close, children, dbtime, distribution,
    every_version, needs_recording, number, say, server_with_hold, stolen,
};
use serde_json::Value;

/// What `hold_lock.c` holds.
const LOCK: &str = "AddinShmemInit";
/// How far samples of a second or two may be off, seconds: as in `latches`.
const SAMPLED: f64 = 0.3;

fn named<'a>(all: &'a Value, name: &str) -> &'a Value {
    let mut all = all.as_array().expect("a list").iter();
    all.find(|one| one["name"] == name).unwrap_or(&Value::Null)
}

fn seconds(sums: &Value, field: &str) -> f64 {
    number(&sums[field]) / 1e9
}

/// What a function of `hold_lock.c` says, in seconds.
fn told(session: &mut Session, sql: &str) -> f64 {
    session.ask(sql).trim().parse::<f64>().expect("microseconds") / 1e6
}

#[test]
fn every_use_is_counted_and_timed_as_by_the_clocks_of_who_did_it_in_every_version() {
    needs_recording!();
    for build in every_version() {
        let cluster = server_with_hold(&build, Options::default());
        let (mut holder, mut waiter) = (Session::connect(&cluster), Session::connect(&cluster));
        for session in [&mut holder, &mut waiter] {
            session.ask("SELECT hold(true, 1, true) + take(true, 1)");
        }
        let looking = Looking::begin(&cluster, &["-d", "6", "--format", "json"]);
        let stolen_before = stolen();
        let mut alone: f64 = (0..20)
            .map(|_| told(&mut holder, "SELECT hold(true, 20000, false)"))
            .sum();
        let shared: f64 = (0..5)
            .map(|_| told(&mut holder, "SELECT hold(false, 100000, false)"))
            .sum();
        let not_waited = told(&mut waiter, "SELECT take(false, 1000)");
        // Where the other one was late there was nothing to wait for.
        let (mut waited, mut waits) = (0.0, 0);
        for _ in 0..4 {
            std::thread::scope(|scope| {
                let held = scope.spawn(|| told(&mut holder, "SELECT hold(true, 250000, false)"));
                std::thread::sleep(Duration::from_millis(50));
                let own = told(&mut waiter, "SELECT take(true, 1)");
                waited += own;
                waits += u32::from(own > 0.001);
                alone += held.join().expect("it ends");
            });
        }
        let error = SAMPLED + (stolen() - stolen_before).as_secs_f64();
        let shown = looking.finish_json();
        let exact = &shown["exact"];
        assert_eq!(exact["stopped"], Value::Null, "{exact:#}");
        assert_eq!(
            (&exact["lost"], &exact["holds_without_room"]),
            (&0.into(), &0.into())
        );
        let of_lock = named(&exact["latches"], LOCK);
        let what = |text: &str| format!("{}: {text}", build.name);
        say(&what(&format!(
            "alone {alone:.4} s, shared {shared:.4} s, waited {waited:.4} s, not waited {not_waited:.4} s by their own clocks: {of_lock}"
        )));
        let (by_one, by_many) = (&of_lock["exclusive"], &of_lock["shared"]);
        assert_eq!(by_one["gets"], 20 + 4 + 4, "{of_lock:#}");
        assert_eq!(by_one["holds"], 20 + 4 + 4, "{of_lock:#}");
        assert_eq!(by_many["gets"], 5 + 1000, "{of_lock:#}");
        assert_eq!((&by_one["waits"], &by_many["waits"]), (&waits.into(), &0.into()));
        assert!(waits > 0, "nobody ever waited");
        assert_eq!((&by_one["refused"], &by_many["refused"]), (&0.into(), &0.into()));
        assert_close(
            &what("held alone, s"),
            seconds(by_one, "held_ns"),
            alone,
            0.02,
            0.0,
        );
        assert_close(
            &what("held shared, s"),
            seconds(by_many, "held_ns"),
            shared,
            0.02,
            0.0,
        );
        assert_close(&what("waited, s"), seconds(by_one, "wait_ns"), waited, 0.02, 0.0);
        assert!(seconds(by_one, "max_hold_ns") >= 0.25, "{of_lock:#}");
        // Each breakdown covers all of it.
        for parts in ["sessions", "statements", "places", "single"] {
            let parts = of_lock[parts].as_array().expect("parts");
            for field in ["gets", "waits", "wait_ns", "held_ns", "holds"] {
                let sum: f64 = parts.iter().map(|part| number(&part[field])).sum();
                let whole = number(&by_one[field]) + number(&by_many[field]);
                assert_eq!(sum, whole, "{field}: {of_lock:#}");
            }
        }
        let of_session = |session: &Session| {
            let sessions = of_lock["sessions"].as_array().expect("sessions").iter();
            let pid = session.pid().to_string();
            let gets = sessions
                .filter(|one| one["session"] == pid.as_str())
                .map(|one| number(&one["gets"]));
            gets.sum::<f64>()
        };
        assert_eq!((of_session(&holder), of_session(&waiter)), (29.0, 1004.0));
        let asked_in = |function: &str| -> f64 {
            let places = of_lock["places"].as_array().expect("places").iter();
            let is_there = |place: &&Value| {
                let functions = place["functions"].as_array().expect("functions");
                functions.last().is_some_and(|last| last == function)
            };
            places.filter(is_there).map(|place| number(&place["gets"])).sum()
        };
        assert_eq!(
            (asked_in("hold_lock"), asked_in("take_lock")),
            (29.0, 1004.0),
            "{of_lock:#}"
        );
        let statements = of_lock["statements"].as_array().expect("statements").iter();
        let known: Vec<&Value> = statements.filter(|one| !one["query"].is_null()).collect();
        let texts = known
            .iter()
            .filter(|one| one["text"].to_string().contains("hold"));
        assert!(known.len() >= 2 && texts.count() >= 1, "{of_lock:#}");
        // Samples of the same seconds: what was held, and who waited by the ledger.
        let sampled = named(&shown["latches"], LOCK);
        let not_known = seconds(&shown, "not_known_ns");
        for (field, truth) in [("exclusive_ns", alone), ("shared_ns", shared)] {
            let found = seconds(sampled, field);
            assert_between(&what(field), truth, found, found + not_known, 0.0, error);
        }
        assert_close(
            &what("waited by the ledger, s"),
            seconds(sampled, "waited_ns"),
            seconds(by_one, "wait_ns"),
            0.0,
            error,
        );
        // It costs something: that is measured, and not zero.
        assert!(
            number(&exact["use_cost_ns"]) > 100.0 && number(&exact["cpu"]) > 0.0,
            "{exact:#}"
        );
    }
}

/// Bytes of the executable's code that differ between a process's memory and the file.
fn changed_bytes(pid: u32) -> usize {
    let executable = fs::read_link(format!("/proc/{pid}/exe")).expect("it lives");
    let file = File::open(format!("/proc/{pid}/exe")).expect("it can be read");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("it can be read");
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it can be read");
    let name = executable.to_str().expect("a plain path");
    let code = maps
        .lines()
        .filter(|line| line.ends_with(name) && line.contains(" r-xp "));
    let mut changed = 0;
    for line in code {
        let mut fields = line.split_ascii_whitespace();
        let (begin, end) = fields
            .next()
            .and_then(|range| range.split_once('-'))
            .expect("a range");
        let [begin, end] = [begin, end].map(|text| u64::from_str_radix(text, 16).expect("a number"));
        let offset = u64::from_str_radix(fields.nth(1).expect("an offset"), 16).expect("a number");
        let (mut in_memory, mut in_file) = (vec![0; (end - begin) as usize], vec![0; (end - begin) as usize]);
        memory.read_exact_at(&mut in_memory, begin).expect("it is mapped");
        let mut read = 0;
        while let Ok(bytes @ 1..) = file.read_at(&mut in_file[read..], offset + read as u64) {
            read += bytes;
        }
        changed += (0..read).filter(|&at| in_memory[at] != in_file[at]).count();
    }
    changed
}

/// Whether the kernel's log says that it could not remove a probe when this process ended (seen once in some 200 times, on 6.18).
fn kernel_failed_to_remove(killed: u32) -> bool {
    let log = Command::new("dmesg").output().expect("util-linux has it");
    let said = format!("dbtime:{killed} failed to unregister");
    String::from_utf8_lossy(&log.stdout).contains(&said)
}

fn server_processes(cluster: &Cluster) -> Vec<u32> {
    let mut pids = children(cluster.postmaster_pid());
    pids.push(cluster.postmaster_pid());
    pids
}

#[test]
fn however_it_ends_no_probe_is_left_and_other_servers_are_not_counted() {
    needs_recording!();
    let build = distribution();
    let (cluster, other) = (
        server_with_hold(&build, Options::default()),
        server_with_hold(&build, Options::default()),
    );
    let (mut session, mut stranger) = (Session::connect(&cluster), Session::connect(&other));
    for session in [&mut session, &mut stranger] {
        session.ask("SELECT take(true, 1)");
    }
    let before = KernelObjects::now();
    for pid in server_processes(&cluster) {
        assert_eq!(changed_bytes(pid), 0, "before anything");
    }
    for (signal, ends_well) in [(0, true), (libc::SIGINT, true), (libc::SIGKILL, false)] {
        let looking = Looking::begin(&cluster, &["-d", "4", "--format", "json"]);
        for pid in server_processes(&cluster) {
            assert!(changed_bytes(pid) >= 5, "probes of {pid} are seen");
        }
        // It waits, and has a lock, while the probes are removed.
        let asked = SystemTime::now();
        let (held, answered) = std::thread::scope(|scope| {
            let holds = scope.spawn(|| {
                let held = told(&mut session, "SELECT hold(true, 1500000, false)");
                (held, SystemTime::now())
            });
            stranger.ask("SELECT take(true, 80000)");
            if signal != 0 {
                // SAFETY: kill has no memory effects; the child is ours and not yet waited for.
                unsafe { libc::kill(looking.pid().cast_signed(), signal) };
            }
            holds.join().expect("it ends")
        });
        assert!(held >= 1.5);
        if ends_well {
            let shown = looking.finish_json();
            let exact = &shown["exact"];
            let of_lock = &named(&exact["latches"], LOCK)["exclusive"];
            assert_eq!(of_lock["gets"], 1, "the other server has its own: {exact:#}");
            assert!(number(&exact["cpu_of_others"]) > 0.0, "{exact:#}");
            // Up to the end of the look, which may come early: the stranger's uses cost too much.
            let end = UNIX_EPOCH + Duration::from_micros(exact["to_us"].as_u64().expect("a time"));
            let since = |moment: SystemTime| match end.duration_since(moment) {
                Ok(after) => after.as_secs_f64(),
                Err(before) => -before.duration().as_secs_f64(),
            };
            // It had the lock for `held`, from some time after it was asked to some time before it answered.
            let (least, most) = (since(answered) + held, since(asked));
            let seen = number(&of_lock["held_ns"]) / 1e9;
            assert!(
                seen > least.min(held) - 0.02 && seen < most.min(held) + 0.02,
                "{seen} of {held}, between {least} and {most}: {exact:#}"
            );
        } else {
            let killed = looking.pid();
            drop(looking);
            if kernel_failed_to_remove(killed) {
                say("the kernel failed to remove a probe of what was killed: the next look has to");
                let again = Looking::begin(&cluster, &["-d", "1", "--format", "json"]);
                again.finish_json();
            }
        }
        before.assert_nothing_left();
        for pid in server_processes(&cluster)
            .into_iter()
            .chain(server_processes(&other))
        {
            assert_eq!(changed_bytes(pid), 0, "process {pid} after signal {signal}");
        }
        for session in [&mut session, &mut stranger] {
            session.ask("SELECT take(true, 1000)");
        }
    }
}

#[test]
fn a_lock_that_is_held_and_one_that_is_waited_for_at_the_end_count_up_to_there() {
    needs_recording!();
    let cluster = server_with_hold(&distribution(), Options::default());
    let (mut holder, mut waiter) = (Session::connect(&cluster), Session::connect(&cluster));
    for session in [&mut holder, &mut waiter] {
        session.ask("SELECT take(true, 1)");
    }
    let looking = Looking::begin(&cluster, &["-d", "4", "--format", "json"]);
    // The time just before, by the clock of who does it: what the client sees has the way to the server in it.
    let begun_at = |session: &mut Session, call: &str| -> f64 {
        let answer = session.ask(&format!(
            "SELECT extract(epoch FROM clock_timestamp()) || ' ' || {call}"
        ));
        let (epoch, _) = answer.split_once(' ').expect("two numbers");
        epoch.parse().expect("seconds")
    };
    let (shown, begun, asked) = std::thread::scope(|scope| {
        let holds = scope.spawn(|| begun_at(&mut holder, "hold(true, 7000000, false)"));
        std::thread::sleep(Duration::from_millis(300));
        let waits = scope.spawn(|| begun_at(&mut waiter, "take(true, 1)"));
        let shown = looking.finish_json();
        (
            shown,
            holds.join().expect("it ends"),
            waits.join().expect("it ends"),
        )
    });
    let exact = &shown["exact"];
    let of_lock = &named(&exact["latches"], LOCK)["exclusive"];
    let end = number(&exact["to_us"]) / 1e6;
    say(&format!(
        "held for {:.3} s, waited for {:.3} s at the end: {of_lock}",
        end - begun,
        end - asked
    ));
    assert_eq!(of_lock["gets"], 1, "the other one does not have it: {exact:#}");
    assert_close("held, s", seconds(of_lock, "held_ns"), end - begun, 0.02, 0.02);
    assert_close("waited, s", seconds(of_lock, "wait_ns"), end - asked, 0.02, 0.02);
    assert_eq!(of_lock["waits"], 1);
}

#[test]
fn of_a_lock_that_was_taken_before_it_says_that_the_hold_is_not_known() {
    needs_recording!();
    let cluster = server_with_hold(&distribution(), Options::default());
    let mut holder = Session::connect(&cluster);
    holder.ask("SELECT take(true, 1)");
    let (text, ended) = std::thread::scope(|scope| {
        let holds = scope.spawn(|| {
            told(&mut holder, "SELECT hold(true, 7000000, false)");
            Instant::now()
        });
        std::thread::sleep(Duration::from_millis(200));
        let looking = Looking::begin(&cluster, &["-d", "10"]);
        (looking.finish(), holds.join().expect("it ends"))
    });
    assert!(
        ended < Instant::now() - Duration::from_millis(200),
        "it ended while it was looked"
    );
    let not_known = "1 release of locks that had been taken before";
    let flat = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("Exact, by probes, over") && flat.contains(not_known),
        "{text}"
    );
}

#[test]
fn it_ends_by_itself_when_it_takes_too_much_and_looks_no_longer_than_it_may() {
    needs_recording!();
    let cluster = server_with_hold(&distribution(), Options::default());
    let directory = cluster.data_dir().to_str().expect("a plain path").to_string();
    let longer = ["latch", "--exact", "-d", "11", "--postgres", &directory];
    dbtime(&longer)
        .expect_code(2)
        .expect_stderr(&["10 s", "--limit 11"]);
    dbtime(&["latch", "--limit", "20"])
        .expect_code(2)
        .expect_stderr(&["--exact"]);

    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut sessions: Vec<Session> = (0..cpus).map(|_| Session::connect(&cluster)).collect();
    for session in &mut sessions {
        session.ask("SELECT take(false, 1)");
    }
    let begin = Instant::now();
    let mut looking = Looking::start(&cluster, &["-d", "10", "--format", "json"]);
    let done = std::sync::atomic::AtomicBool::new(false);
    let shown = std::thread::scope(|scope| {
        for session in &mut sessions {
            let done = &done;
            scope.spawn(move || {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    session.ask("SELECT take(false, 20000)");
                }
            });
        }
        looking.wait_until_attached();
        let shown = looking.finish_json();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        shown
    });
    let exact = &shown["exact"];
    say(&format!(
        "after {:.1} s: {}",
        begin.elapsed().as_secs_f64(),
        exact["stopped"]
    ));
    let why = exact["stopped"].as_str().expect("it says why");
    assert!(
        why.contains("of the host's") && begin.elapsed() < Duration::from_secs(9),
        "{why}"
    );
    // It shows what it has counted.
    assert!(
        number(&named(&exact["latches"], LOCK)["shared"]["gets"]) > 1000.0,
        "{exact:#}"
    );
}

#[test]
fn columns_and_filters_divide_what_was_counted_or_it_says_why_not() {
    needs_recording!();
    let cluster = server_with_hold(&distribution(), Options::default());
    let (mut one, mut two) = (Session::connect(&cluster), Session::connect(&cluster));
    for session in [&mut one, &mut two] {
        session.ask("SELECT take(true, 1)");
    }
    let pid = one.pid().to_string();
    let looks = [
        vec!["-d", "8", "--format", "json", "--columns", "name,mode,session"],
        vec!["-d", "8", "--format", "json", &pid],
        vec!["-d", "8", "--format", "json", "--columns", "name,wait"],
    ];
    let looks = looks.map(|arguments| Looking::start(&cluster, &arguments));
    let looks = looks.map(|mut looking| {
        looking.wait_until_attached();
        looking
    });
    // All have begun, none is over.
    std::thread::sleep(Duration::from_millis(1_100));
    one.ask("SELECT take(true, 500)");
    two.ask("SELECT take(false, 300)");
    let [columns, filtered, refused] = looks.map(Looking::finish_json);

    let rows = columns["profile"].as_array().expect("rows").iter();
    let gets = |mode: &str, session: &Session| -> f64 {
        let pid = session.pid().to_string();
        let is_it = |row: &&Value| {
            let group = &row["group"];
            group["name"] == LOCK && group["mode"] == mode && group["session"] == pid.as_str()
        };
        rows.clone()
            .filter(is_it)
            .map(|row| number(&row["exact"]["gets"]))
            .sum()
    };
    assert_eq!(
        (gets("exclusive", &one), gets("shared", &two)),
        (500.0, 300.0),
        "{columns:#}"
    );
    assert_eq!((gets("shared", &one), gets("exclusive", &two)), (0.0, 0.0));

    let of_lock = named(&filtered["exact"]["latches"], LOCK);
    assert_eq!(of_lock["exclusive"]["gets"], 500, "{of_lock:#}");
    assert_eq!(of_lock["shared"], Value::Null);

    assert_eq!(refused["exact"]["not_by"], serde_json::json!(["wait"]));
    assert_eq!(refused["exact"]["latches"], serde_json::json!([]));
}
