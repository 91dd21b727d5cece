//! Context switches as perf writes them: what perf itself says, line by line and in its summary, is the truth. The fixtures are one
//! recording, written by `perf script --ns`, `perf sched timehist` and `perf sched timehist -s`; the samples (`../shared/data/sched` beside
//! the checkout) are used if they are at hand.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::whole::{Whole, of_files, of_text};
use dbtime_import::ImportError;
use dbtime_model::latency::kind;
use dbtime_model::recording::{Clock, Scheduling};
use dbtime_model::{SessionId, State, SwitchRow, counter};
use proptest::prelude::*;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/perf_sched")
        .join(name)
}

fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn of_file(path: &Path) -> Whole {
    of_files(&[path.to_path_buf()]).unwrap_or_else(|e| panic!("{e}"))
}

/// A sample; says so loudly if it is not there.
fn sample(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/sched")
        .join(name);
    if path.is_file() {
        return Some(path);
    }
    // There is nobody to tell if standard error is closed.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {} is not there", path.display());
    None
}

fn scheduling(imported: &Whole) -> &Scheduling {
    imported.meta.scheduling.as_ref().expect("context switches")
}

/// A line of `perf sched timehist` as perf prints it: microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Printed {
    time_us: i64,
    cpu: u32,
    tid: u32,
    wait_us: i64,
    delay_us: i64,
    run_us: i64,
}

/// The lines of switches, read differently from the importer: by words, in files whose names have no blanks.
fn printed(path: &Path) -> Vec<Printed> {
    let us = |text: &str| text.replace('.', "").parse::<i64>().expect("three decimals");
    text_of(path)
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [time, cpu, task, wait, delay, run, ..] = words.as_slice() else {
                return None;
            };
            if *task == "<idle>" || !cpu.starts_with('[') || wait.ends_with(':') {
                return None;
            }
            let ids = &task[task.rfind('[')? + 1..task.len() - 1];
            Some(Printed {
                time_us: us(time),
                cpu: cpu[1..cpu.len() - 1].parse().ok()?,
                tid: ids.split('/').next()?.parse().ok()?,
                wait_us: us(wait),
                delay_us: us(delay),
                run_us: us(run),
            })
        })
        .collect()
}

fn tids(imported: &Whole) -> HashMap<SessionId, u32> {
    imported
        .rows
        .sessions
        .iter()
        .map(|row| (row.id, row.pid))
        .collect()
}

/// A row of ours as perf 6.1 shows it: wait includes delay, and a preempted task has no delay.
fn as_perf(row: &SwitchRow, tids: &HashMap<SessionId, u32>) -> Printed {
    let us = |ns: u64| i64::try_from(ns / 1_000).expect("small");
    let delay = row.delay_ns.unwrap_or(0);
    Printed {
        time_us: row.time_ns / 1_000,
        cpu: row.cpu,
        tid: tids[&row.session],
        // For a task that perf had not seen leaving a CPU, it shows no wait.
        wait_us: us(row.wait_ns.map_or(0, |wait| wait + delay)),
        delay_us: if row.wait_state == State::Runnable {
            0
        } else {
            us(delay)
        },
        run_us: us(row.run_ns.unwrap_or(0)),
    }
}

#[track_caller]
fn assert_lines(ours: &[Printed], theirs: &[Printed], tolerance_us: i64) {
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert_eq!(
            (ours.cpu, ours.tid),
            (theirs.cpu, theirs.tid),
            "{ours:?} {theirs:?}"
        );
        for (ours_us, theirs_us) in [
            (ours.time_us, theirs.time_us),
            (ours.wait_us, theirs.wait_us),
            (ours.delay_us, theirs.delay_us),
            (ours.run_us, theirs.run_us),
        ] {
            assert!((ours_us - theirs_us).abs() <= tolerance_us, "{ours:?} {theirs:?}");
        }
    }
}

/// A row of perf's summary: count, and microseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Summed {
    switches: i64,
    run_us: i64,
    min_us: i64,
    avg_us: i64,
    max_us: i64,
    migrations: i64,
}

/// By tid; and the totals: tasks, switches, run time, elapsed time, CPUs.
fn summary(path: &Path) -> (BTreeMap<u32, Summed>, [i64; 5]) {
    let us = |text: &str| text.replace('.', "").parse::<i64>().expect("three decimals");
    let text = text_of(path);
    let mut tasks = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [task, _parent, count, run, min, avg, max, _stddev, migrations] = words.as_slice()
            && let Ok(switches) = count.parse()
        {
            let ids = &task[task.rfind('[').expect("a tid") + 1..task.len() - 1];
            let tid = ids
                .split('/')
                .next()
                .and_then(|tid| tid.parse().ok())
                .expect("a tid");
            let sums = Summed {
                switches,
                run_us: us(run),
                min_us: us(min),
                avg_us: us(avg),
                max_us: us(max),
                migrations: migrations.parse().expect("a number"),
            };
            tasks.insert(tid, sums);
        }
    }
    let behind = |label: &str| {
        let line = text
            .lines()
            .find(|line| line.contains(label))
            .unwrap_or_else(|| panic!("{label}"));
        line.split(": ")
            .nth(1)
            .expect("a value")
            .split_whitespace()
            .collect::<Vec<_>>()
    };
    let elapsed = behind("Total scheduling time");
    let totals = [
        behind("unique tasks")[0].parse().expect("a number"),
        behind("context switches")[0].parse().expect("a number"),
        us(behind("Total run time")[0]),
        us(elapsed[0]),
        elapsed[2].trim_end_matches(')').parse().expect("a number"),
    ];
    (tasks, totals)
}

/// The same from the rows of sums (not from those of switches), in nanoseconds truncated to what perf prints.
fn summed(imported: &Whole) -> (BTreeMap<u32, Summed>, [i64; 5]) {
    let tids = tids(imported);
    let mut tasks: BTreeMap<u32, (Summed, i64)> = BTreeMap::new();
    let none = Summed {
        switches: 0,
        run_us: 0,
        min_us: i64::MAX,
        avg_us: 0,
        max_us: 0,
        migrations: 0,
    };
    for row in &imported.rows.counters {
        let (sums, _) = tasks.entry(tids[&row.session]).or_insert((none.clone(), 0));
        match row.name.as_str() {
            counter::SWITCHES => sums.switches += row.value,
            counter::MIGRATIONS => sums.migrations += row.value,
            other => panic!("{other}"),
        }
    }
    let mut runs: BTreeMap<u32, i64> = BTreeMap::new();
    for row in imported.rows.latency.iter().filter(|row| *row.kind == *kind::RUN) {
        let tid = tids[&row.session];
        let (sums, ns) = tasks.get_mut(&tid).expect("counted");
        *ns += row.sum_ns as i64;
        sums.max_us = sums.max_us.max(row.max_ns as i64 / 1_000);
        let min_ns = if row.min_ns > 0 { row.min_ns } else { row.from_ns };
        sums.min_us = sums.min_us.min(min_ns as i64 / 1_000);
        *runs.entry(tid).or_default() += row.count as i64;
    }
    let mut run_ns = 0;
    let mut switches = 0;
    for (tid, (sums, ns)) in &mut tasks {
        sums.run_us = *ns / 1_000;
        sums.avg_us = *ns / sums.switches / 1_000;
        // For perf, a stay without a start is one of 0.
        if runs.get(tid).copied().unwrap_or(0) < sums.switches {
            sums.min_us = 0;
        }
        run_ns += *ns;
        switches += sums.switches;
    }
    let scheduling = scheduling(imported);
    assert_eq!(scheduling.switches as i64, switches);
    assert_eq!(scheduling.kept as usize, imported.rows.switches.len());
    let totals = [
        tasks.len() as i64,
        // perf counts the switches of the idle task in its total.
        switches + scheduling.idle_switches as i64,
        run_ns / 1_000,
        (scheduling.last_ns - scheduling.first_ns) / 1_000,
        scheduling.cpus.into(),
    ];
    (
        tasks.into_iter().map(|(tid, (sums, _))| (tid, sums)).collect(),
        totals,
    )
}

/// Run time of the ledger, by tid, is that of the switches, and each task's time from its first switch to its last is all
/// there, once.
#[track_caller]
fn assert_conserved(imported: &Whole) {
    let mut ledger: BTreeMap<SessionId, (u64, u64)> = BTreeMap::new();
    for row in &imported.rows.activity {
        let (run, all) = ledger.entry(row.session).or_default();
        *all += row.ns;
        if row.state == State::Cpu {
            *run += row.ns;
        }
    }
    let mut switches: BTreeMap<SessionId, Vec<&SwitchRow>> = BTreeMap::new();
    for row in &imported.rows.switches {
        switches.entry(row.session).or_default().push(row);
    }
    let (mut told, mut missed) = (0, 0);
    for (session, rows) in switches {
        let known =
            |row: &SwitchRow| row.wait_ns.unwrap_or(0) + row.delay_ns.unwrap_or(0) + row.run_ns.unwrap_or(0);
        let (run, all) = ledger.remove(&session).unwrap_or_default();
        assert_eq!(all, rows.iter().map(|row| known(row)).sum::<u64>());
        assert_eq!(run, rows.iter().filter_map(|row| row.run_ns).sum::<u64>());
        // The first switch of a CPU says nothing about the time before.
        for pair in rows.windows(2).filter(|pair| pair[1].run_ns.is_some()) {
            // From one switch-out to the next one. If a switch was not seen, perf lets a task run from before it left its CPU.
            let elapsed = pair[1].time_ns - pair[0].time_ns;
            match elapsed == known(pair[1]) as i64 {
                true => told += 1,
                false => missed += 1,
            }
        }
    }
    assert!(ledger.is_empty());
    assert!(told > 50 && missed <= scheduling(imported).missed, "{missed}");
}

#[test]
fn a_script_gives_every_line_that_timehist_prints() {
    let imported = of_file(&fixture("script.txt"));
    let tids = tids(&imported);
    let ours: Vec<Printed> = imported
        .rows
        .switches
        .iter()
        .map(|row| as_perf(row, &tids))
        .collect();
    // perf rounds moments, and truncates times.
    assert_lines(&ours, &printed(&fixture("timehist.txt")), 1);
    assert_eq!(
        (imported.problems.len(), imported.meta.collector.clock),
        (0, Clock::Relative)
    );
    assert_conserved(&imported);
}

#[test]
fn a_script_sums_up_to_the_summary_of_timehist() {
    let imported = of_file(&fixture("script.txt"));
    let (ours, our_totals) = summed(&imported);
    let (theirs, their_totals) = summary(&fixture("summary.txt"));
    assert_eq!(ours, theirs);
    assert_eq!(our_totals, their_totals);
    assert!(theirs.values().any(|task| task.migrations > 0) && theirs.len() > 5);
}

#[test]
fn timehist_gives_every_line_again_whatever_its_columns() {
    let theirs = printed(&fixture("timehist.txt"));
    for file in ["timehist.txt", "timehist_states.txt", "timehist_cpus.txt"] {
        let imported = of_file(&fixture(file));
        let tids = tids(&imported);
        let mut ours: Vec<Printed> = imported
            .rows
            .switches
            .iter()
            .map(|row| as_perf(row, &tids))
            .collect();
        // The letter of the state turns wait into delay where perf shows none: what it printed is no longer known.
        for (ours, theirs) in ours.iter_mut().zip(&theirs) {
            if file == "timehist_states.txt" && ours.delay_us == 0 {
                ours.delay_us = theirs.delay_us;
            }
        }
        assert_lines(&ours, &theirs, 0);
        assert_eq!(imported.problems, Vec::<String>::new(), "{file}");
        assert_eq!(scheduling(&imported).has_states, file == "timehist_states.txt");
    }
}

#[test]
fn timehist_sums_up_to_its_own_summary() {
    // perf counts moves only with -M.
    let imported = of_file(&fixture("timehist_states.txt"));
    let (ours, our_totals) = summed(&imported);
    let (theirs, their_totals) = summary(&fixture("summary.txt"));
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    for (tid, ours) in &ours {
        let theirs = &theirs[tid];
        assert_eq!(
            (ours.switches, ours.migrations),
            (theirs.switches, theirs.migrations),
            "{tid}"
        );
        assert_eq!(
            (ours.min_us, ours.max_us),
            (theirs.min_us, theirs.max_us),
            "{tid}"
        );
        // Each line was truncated to a microsecond.
        assert!(
            (0..=ours.switches).contains(&(theirs.run_us - ours.run_us)),
            "{tid}: {ours:?} {theirs:?}"
        );
        assert!(
            (0..=1).contains(&(theirs.avg_us - ours.avg_us)),
            "{tid}: {ours:?} {theirs:?}"
        );
    }
    assert_eq!(our_totals[..2], their_totals[..2]);
    assert!((0..=our_totals[1]).contains(&(their_totals[2] - our_totals[2])));
    assert!((our_totals[3] - their_totals[3]).abs() <= 1 && our_totals[4] == their_totals[4]);
}

#[test]
fn who_woke_and_who_ran_instead_is_in_a_script() {
    let imported = of_file(&fixture("script.txt"));
    let known = scheduling(&imported);
    assert!(known.has_wakers && known.has_occupants && known.has_migrations && known.has_states);
    // Pairs that wake each other through pipes: 1620 and 1621, of which only the first sleeps, and 1622 and 1623.
    let tids = tids(&imported);
    let wakers = |tid: u32| -> BTreeMap<&str, u64> {
        let rows = imported.rows.latency.iter();
        let rows = rows.filter(|row| *row.kind == *kind::WAKER && tids[&row.session] == tid);
        rows.fold(BTreeMap::new(), |mut sums, row| {
            *sums.entry(&*row.name).or_default() += row.count;
            sums
        })
    };
    let script = text_of(&fixture("script.txt"));
    let wakes = |waker: u32, woken: u32| {
        let lines = script
            .lines()
            .filter(|line| line.contains("sched:sched_waking") && line.contains(&format!(" pid={woken} ")));
        lines
            .filter(|line| line.split_whitespace().nth(1) == Some(&waker.to_string()))
            .count() as u64
    };
    for (waker, woken) in [(1621, 1620), (1622, 1623), (1623, 1622)] {
        let told = wakers(woken)[format!("pingpong {waker}").as_str()];
        // A wakeup may come before the other task sleeps, or before it was ever seen.
        assert!(
            told <= wakes(waker, woken) && told + 2 >= wakes(waker, woken),
            "{told} {}",
            wakes(waker, woken)
        );
        assert!(told >= 8);
    }
    // Every delay is somebody's time on the CPU that the task was queued on, as far as that was seen.
    let sum = |wanted: &str| -> u64 {
        imported
            .rows
            .latency
            .iter()
            .filter(|row| *row.kind == *wanted)
            .map(|row| row.sum_ns)
            .sum()
    };
    let (delay, instead) = (sum(kind::SCHED), sum(kind::INSTEAD));
    assert!(
        instead <= delay && instead * 10 >= delay * 9,
        "{instead} of {delay}"
    );
}

#[test]
fn priorities_are_the_kernels() {
    let imported = of_file(&fixture("script.txt"));
    let tids = tids(&imported);
    // The second pair ran with `chrt -r 10`: 99 - 10.
    let of = |tid: u32| {
        let tids = &tids;
        imported
            .rows
            .switches
            .iter()
            .filter(move |row| tids[&row.session] == tid)
            .filter_map(|row| row.priority)
    };
    assert!(of(1620).all(|priority| priority == 120) && of(1620).count() > 5);
    assert!(of(1622).any(|priority| priority == 89));
    assert!(of(18).all(|priority| priority == 0));
}

#[test]
fn samples_say_the_same_as_a_script_and_as_timehist() {
    for rr in ["", "_rr99"] {
        let (Some(script), Some(timehist)) = (
            sample(&format!("perf_sched_script{rr}.txt")),
            sample(&format!("perf_sched_timehist_all{rr}.txt")),
        ) else {
            return;
        };
        let (script, theirs) = (of_file(&script), printed(&timehist));
        let script_tids = tids(&script);
        let ours: Vec<Printed> = script
            .rows
            .switches
            .iter()
            .map(|row| as_perf(row, &script_tids))
            .collect();
        // Both are the first lines of one recording.
        let both = ours.len().min(theirs.len());
        assert!(both > 100);
        assert_lines(&ours[..both], &theirs[..both], 2);
        assert_conserved(&script);
        let again = of_file(&timehist);
        let again_tids = tids(&again);
        let ours: Vec<Printed> = again
            .rows
            .switches
            .iter()
            .map(|row| as_perf(row, &again_tids))
            .collect();
        assert_lines(&ours, &theirs, 0);
        assert_eq!((script.problems.len(), again.problems.len()), (0, 0));
    }
}

#[test]
fn samples_of_every_set_of_columns_are_understood() {
    for file in [
        "perf_sched_timehist_callchain.txt",
        "perf_sched_timehist_nanosleep.txt",
        "perf_sched_timehist_nanosleep_100us_rr99.txt",
        "perf_sched_timehist_nanosleep_rr99.txt",
        "perf_sched_timehist_w_state.txt",
        "perf_sched_timehist_w_state_rr99.txt",
    ] {
        let Some(path) = sample(file) else { return };
        let imported = of_file(&path);
        // A file that only has lines of wakeups is reported as such.
        let is_told = imported
            .problems
            .iter()
            .any(|problem| problem.contains("no lines of context switches"));
        assert_eq!(is_told, printed(&path).is_empty(), "{file}");
        assert_eq!(imported.problems.len(), usize::from(is_told), "{file}");
        assert_eq!(imported.rows.switches.len(), printed(&path).len(), "{file}");
        assert_eq!(scheduling(&imported).has_states, file.contains("state"), "{file}");
    }
    for file in [
        "perf_sched_timehist_summary.txt",
        "perf_sched_timehist_summary_rr99.txt",
    ] {
        let Some(path) = sample(file) else { return };
        let error = of_text(text_of(&path)).expect_err(file).to_string();
        assert!(
            error.contains("only a summary") && error.contains("-S"),
            "{error}"
        );
    }
}

#[test]
fn what_is_cut_or_foreign_is_counted_and_the_rest_is_read() {
    for (name, line) in [("script.txt", 41), ("timehist.txt", 40)] {
        let text = text_of(&fixture(name));
        let mut lines: Vec<&str> = text.lines().collect();
        let whole = of_text(text.clone()).expect("rows").rows.switches.len();
        lines.insert(line, "what is this");
        let cut = lines.join("\n");
        let last = lines[lines.len() - 1];
        let imported = of_text(cut[..cut.len() - last.len() / 2].to_string()).expect("rows");
        let file = imported.file();
        assert_eq!(
            (file.unknown_lines, file.first_unknown[0].number),
            (2, line as u64 + 1),
            "{name}"
        );
        assert!(imported.rows.switches.len() + 1 >= whole, "{name}");
    }
    assert!(matches!(of_text(""), Err(ImportError::Empty { .. })));
}

/// perf knows neither name nor number of a task that has exited; the events themselves do. `:-1 -1` is not a task of ftrace.
#[test]
fn a_task_that_perf_has_forgotten_is_the_one_that_the_event_names() {
    let event = |head: &str, us: u32, from: &str, to: &str| {
        format!("{head} [001] 32726.{us:06}000: sched:sched_switch: {from} ==> {to}\n")
    };
    let [cargo, rustc] = [("cargo", 24524), ("rustc", 24541)];
    let prev = |(name, tid): (&str, u32), state: &str| {
        format!("prev_comm={name} prev_pid={tid} prev_prio=120 prev_state={state}")
    };
    let next = |(name, tid): (&str, u32)| format!("next_comm={name} next_pid={tid} next_prio=120");
    let forgotten = "             :-1    -1";
    let text = [
        event("           rustc 24541", 100, &prev(rustc, "S"), &next(cargo)),
        event(forgotten, 300, &prev(cargo, "X"), &next(rustc)),
        event("           rustc 24541", 350, &prev(rustc, "S"), &next(cargo)),
        event(forgotten, 400, &prev(cargo, "X"), &next(rustc)),
    ]
    .concat();
    let imported = of_text(text).expect("switches");
    let ran: u64 = {
        let sessions = &imported.rows.sessions;
        let of_cargo = sessions
            .iter()
            .find(|session| session.pid == 24524)
            .expect("cargo");
        let turns = imported
            .rows
            .switches
            .iter()
            .filter(|row| row.session == of_cargo.id);
        turns.map(|row| row.run_ns.unwrap_or(0)).sum()
    };
    assert_eq!(ran, 250_000);
}

#[test]
fn time_that_goes_back_loses_nothing_else() {
    let line = |time: &str, prev: &str, next: &str| {
        format!(
            " a 1 [000] {time}: sched:sched_switch: prev_comm=a prev_pid={prev} prev_prio=120 prev_state=S ==> next_comm=b next_pid={next} next_prio=120\n"
        )
    };
    let text = [
        line("5.0", "1", "2"),
        line("3.0", "2", "1"),
        line("4.0", "1", "2"),
    ]
    .concat();
    let imported = of_text(text).expect("rows");
    let runs: Vec<Option<u64>> = imported.rows.switches.iter().map(|row| row.run_ns).collect();
    assert_eq!(runs, [None, None, Some(1_000_000_000)]);
    assert_eq!(scheduling(&imported).without_begin, 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_damage_makes_it_panic(
        name in prop::sample::select(vec!["script.txt", "timehist.txt", "timehist_states.txt", "timehist_cpus.txt"]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = text_of(&fixture(name)).into_bytes();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let _ = of_text(bytes);
    }
}
