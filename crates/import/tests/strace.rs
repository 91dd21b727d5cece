//! Traces of system calls: strace and perf trace, compared with sums that awk makes of the same files, with the tools' own summaries, and
//! on a small file of our own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::samples::say;
use crate::whole::{Whole, of_files, of_files_with, of_text, of_text_with};
use dbtime_import::Options;
use dbtime_model::latency::{bounds_of, bucket_of, kind};
use dbtime_model::recording::{Clock, Unit};
use dbtime_model::{Fidelity, SessionId, State, Wait, counter, span};
use proptest::prelude::*;

/// The frame of time between calls.
const OUTSIDE: &str = "outside of system calls, the tracer's stops included";

/// Real traces; says so loudly if they are not there.
fn data(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/strace")
        .join(name);
    if path.is_file() {
        return Some(path);
    }
    say(&format!(
        "SKIPPED: no real trace {name}: {} is not there",
        path.display()
    ));
    None
}

fn fixture() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tasks.strace");
    std::fs::read_to_string(path).expect("the fixture")
}

fn of_file(path: &Path) -> Whole {
    of_files(&[path.to_path_buf()]).unwrap_or_else(|e| panic!("{e}"))
}

/// Calls, errors, microseconds of a system call.
type Sums = BTreeMap<String, (u64, u64, u64)>;

/// The same from the rows: calls and errors from the counters, time from activity.
fn by_rows(imported: &Whole) -> Sums {
    let mut sums = Sums::new();
    for row in &imported.rows.counters {
        let value = u64::try_from(row.value).expect("a count");
        if let Some(name) = row.name.strip_prefix(counter::calls::CALLS) {
            sums.entry(name.to_string()).or_default().0 += value;
        }
        if let Some(name) = row.name.strip_prefix(counter::calls::ERRORS) {
            sums.entry(name.to_string()).or_default().1 += value;
        }
    }
    for (name, ns) in time_by_frame(imported) {
        sums.entry(name).or_default().2 += ns / 1_000;
    }
    sums
}

fn time_by_frame(imported: &Whole) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for row in &imported.rows.activity {
        let name = frame(imported, row.kernel_stack.0).or_else(|| frame(imported, row.user_stack.0));
        *sums.entry(name.expect("a stack")).or_default() += row.ns;
    }
    sums
}

fn frame(imported: &Whole, stack: u64) -> Option<String> {
    let row = imported.rows.stacks.iter().find(|row| row.id.0 == stack)?;
    assert_eq!(row.frames.len(), 1);
    Some(row.frames[0].symbol.clone())
}

/// Events, sum and longest of each call, from the latencies.
fn by_latencies(imported: &Whole) -> Sums {
    let mut sums = Sums::new();
    for row in imported
        .rows
        .latency
        .iter()
        .filter(|row| *row.kind == *kind::SYSCALL)
    {
        assert!(
            row.from_ns <= row.min_ns && row.min_ns <= row.max_ns && row.max_ns < row.to_ns,
            "{row:?}"
        );
        assert!(
            row.min_ns * row.count <= row.sum_ns && row.sum_ns <= row.max_ns * row.count,
            "{row:?}"
        );
        let sum = sums.entry(row.name.to_string()).or_default();
        sum.0 += row.count;
        sum.1 = sum.1.max(row.max_ns / 1_000);
        sum.2 += row.sum_ns / 1_000;
    }
    sums
}

fn by_awk(path: &Path) -> Option<Sums> {
    let text = crate::samples::by_awk("syscalls.awk", path)?;
    let lines = text.lines().map(|line| {
        let cells: Vec<&str> = line.split('\t').collect();
        let number = |at: usize| cells[at].parse().expect("a number");
        (cells[0].to_string(), (number(1), number(2), number(3)))
    });
    Some(lines.collect())
}

#[test]
fn calls_errors_and_times_of_real_traces_are_those_that_awk_finds() {
    for name in [
        "jkstill__trunc-test.strace",
        "strace_T_aio.txt",
        "strace_T_direct.txt",
        "strace_T_nanosleep.txt",
        "strace_T_nanosleep_rr99.txt",
        "strace_T_pgbackend.txt",
        "strace_T_pread.txt",
    ] {
        let Some(path) = data(name) else { continue };
        let imported = of_file(&path);
        let Some(mut expected) = by_awk(&path) else {
            continue;
        };
        let (_, _, outside) = expected.remove("outside").expect("always told");
        expected.remove("overlap");
        let mut found = by_rows(&imported);
        let found_outside = found.remove(OUTSIDE).unwrap_or_default().2;
        assert_eq!(found, expected, "{name}");
        assert_eq!(found_outside, outside, "{name}");
        assert_eq!(
            imported.file().unknown_lines,
            0,
            "{name}: {:?}",
            imported.problems
        );
        assert!(
            imported
                .rows
                .activity
                .iter()
                .all(|row| row.fidelity == Fidelity::Exact)
        );
        // The same calls again, as single events; the one that never returns has no time.
        let events = by_latencies(&imported);
        let timed: BTreeMap<_, _> = expected
            .iter()
            .filter(|(name, _)| *name != "exit_group")
            .collect();
        assert_eq!(events.len(), timed.len(), "{name}");
        for (call, sums) in timed {
            assert_eq!(
                (events[call].0, events[call].2),
                (sums.0, sums.2),
                "{name}: {call}"
            );
        }
    }
}

#[test]
fn a_trace_with_times_accounts_for_all_of_the_time_between_its_first_and_last_call() {
    // Both ends taken from the file: `read` began at …323.310986, `exit_group`, which never returns, at …362.396200.
    let Some(path) = data("jkstill__trunc-test.strace") else {
        return;
    };
    let imported = of_file(&path);
    let total: u64 = imported.rows.activity.iter().map(|row| row.ns / 1_000).sum();
    let Some(sums) = by_awk(&path) else { return };
    // strace rounds: a few calls begin a microsecond before the previous one ends.
    let overlap = sums["overlap"].2;
    assert!(overlap < 100, "{overlap}");
    assert_eq!(total, 1_705_456_362_396_200 - 1_705_456_323_310_986 + overlap);
    assert_eq!(imported.meta.collector.clock, Clock::Utc);
    assert_eq!(imported.meta.start_us, 1_705_456_323_310_986);
    assert_eq!(imported.meta.end_us, 1_705_456_362_396_201);
    assert_eq!(imported.rows.sessions.len(), 1);
    assert_eq!(imported.rows.sessions[0].pid, 5390);
}

#[test]
fn a_summary_has_the_counts_of_a_trace_of_the_same_program_and_no_distribution() {
    for (summary, trace) in [
        ("strace_c_nanosleep.txt", "strace_T_nanosleep.txt"),
        ("strace_c_nanosleep_rr99.txt", "strace_T_nanosleep_rr99.txt"),
    ] {
        let (Some(summary), Some(trace)) = (data(summary), data(trace)) else {
            continue;
        };
        let counts = |imported: &Whole| -> BTreeMap<String, (u64, u64)> {
            let mut sums = by_rows(imported);
            sums.remove(OUTSIDE);
            // It never returns: strace -c does not count it.
            sums.remove("exit_group");
            sums.into_iter()
                .map(|(name, sums)| (name, (sums.0, sums.1)))
                .collect()
        };
        let summed = of_file(&summary);
        let (mut of_summary, mut of_trace) = (counts(&summed), counts(&of_file(&trace)));
        // Standard output was a terminal for one of the two runs: one call more, or one fstat less.
        of_summary.remove("ioctl");
        of_trace.remove("ioctl");
        assert_eq!(of_summary, of_trace, "{}", summary.display());
        assert!(summed.rows.latency.is_empty());
        assert_eq!(summed.meta.collector.clock, Clock::None);
        let text = std::fs::read_to_string(&summary).expect("a file");
        let total = text.lines().last().expect("the line of the total");
        let words: Vec<&str> = total.split_whitespace().collect();
        let us: f64 = words[1].parse::<f64>().expect("seconds") * 1e6;
        let calls: u64 = words[3].parse().expect("calls");
        let sums = by_rows(&summed);
        assert_eq!(sums.values().map(|sums| sums.2).sum::<u64>(), us.round() as u64);
        assert_eq!(sums.values().map(|sums| sums.0).sum::<u64>(), calls);
        // If the kernel counted no CPU time at all, calls are counted.
        let unit = if us > 0.0 { Unit::Time } else { Unit::Counts };
        assert_eq!(summed.meta.collector.unit, unit);
    }
}

#[test]
fn perf_trace_has_the_sums_that_awk_finds() {
    let Some(path) = data("perf_trace_nanosleep.txt") else {
        return;
    };
    let imported = of_file(&path);
    let script = r#"match($0, /\( *[0-9.]+ ms\): tb\/[0-9]+ /) {
        split(substr($0, RSTART + 1), parts, " "); name = substr($0, RSTART + RLENGTH); sub(/\(.*/, "", name)
        calls[name]++; us[name] += parts[1] * 1000 }
        END { for (name in calls) printf "%s\t%d\t0\t%.0f\n", name, calls[name], us[name] }"#;
    let output = match Command::new("awk").arg(script).arg(&path).output() {
        Ok(output) => output,
        Err(e) => return say(&format!("SKIPPED: awk: {e}")),
    };
    let text = String::from_utf8(output.stdout).expect("text");
    let expected: BTreeMap<&str, (u64, u64)> = text
        .lines()
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            (
                cells[0],
                (cells[1].parse().expect("calls"), cells[3].parse().expect("us")),
            )
        })
        .collect();
    assert!(expected["nanosleep"].0 >= 50);
    let found = by_latencies(&imported);
    let found: BTreeMap<&str, (u64, u64)> = found
        .iter()
        .map(|(name, sums)| (name.as_str(), (sums.0, sums.2)))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(imported.file().unknown_lines, 0, "{:?}", imported.problems);
    // Without a time: the call in which the trace began, and the one that never returns.
    let sums = by_rows(&imported);
    assert_eq!((sums["execve"].0, sums["exit_group"].0), (1, 1));
    assert_eq!(imported.meta.collector.clock, Clock::Relative);
    assert_eq!(
        (
            imported.rows.sessions[0].title.as_str(),
            imported.rows.sessions[0].pid
        ),
        ("tb", 13723)
    );
}

#[test]
fn summaries_of_perf_trace_have_their_own_numbers() {
    let Some(path) = data("perf_trace_s_pgbackend.txt") else {
        return;
    };
    let imported = of_file(&path);
    let sums = by_rows(&imported);
    // Taken from the file.
    assert_eq!(sums["recvfrom"], (3544, 1427, 12_085));
    assert_eq!(sums["epoll_wait"], (1461, 0, 465_128));
    assert_eq!(sums.values().map(|sums| sums.2).sum::<u64>(), 689_940);
    assert_eq!(
        (
            imported.rows.sessions[0].title.as_str(),
            imported.rows.sessions[0].pid
        ),
        ("postgres", 13833)
    );
    assert!(imported.rows.latency.is_empty());
    assert_eq!(imported.file().unknown_lines, 0, "{:?}", imported.problems);
    let Some(path) = data("perf_trace_F_pread.txt") else {
        return;
    };
    let faults = of_file(&path);
    let lines = std::fs::read_to_string(&path).expect("a file").lines().count();
    let counted: i64 = faults.rows.counters.iter().map(|row| row.value).sum();
    assert_eq!(counted, i64::try_from(lines).expect("few lines"));
}

#[test]
fn tasks_are_told_apart_and_interrupted_calls_joined() {
    let imported = of_text(fixture()).expect("strace");
    let pid = |id: SessionId| {
        let session = imported.rows.sessions.iter().find(|row| row.id == id);
        session
            .map(|row| (row.pid, row.title.clone()))
            .expect("a session")
    };
    let mut found = BTreeMap::new();
    for row in &imported.rows.activity {
        assert_eq!((row.wait(), row.state), (Wait::not_recorded(), State::Unknown));
        let name = frame(&imported, row.kernel_stack.0).unwrap_or_else(|| "outside".to_string());
        *found.entry((pid(row.session).0, name)).or_insert(0) += row.ns / 1_000;
    }
    let expected = [
        ((100, "execve"), 500),
        ((100, "clone"), 100),
        ((100, "write"), 100),
        ((100, "read"), 0),
        ((100, "poll"), 100_100),
        // 600 to 1000, 1100 to 2500, 2500 to 1,506,000; poll ended at 1,606,100, exit_group began at 1,700,000.
        ((100, "outside"), 400 + 1_400 + 1_503_500 + 93_900),
        ((101, "futex"), 1_500_900),
        ((101, "openat"), 50),
        // The futex ended at 1,502,900; openat ended at 1,504,050.
        ((101, "outside"), 1_100 + 950),
    ];
    let expected: BTreeMap<(u32, String), u64> = expected
        .into_iter()
        .map(|((pid, name), us)| ((pid, name.to_string()), us))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(pid(imported.rows.activity[0].session).1, "own tool");
    // The futex began in one second and ended in the next: it counts there.
    let futex = imported
        .rows
        .latency
        .iter()
        .find(|row| *row.name == *"futex")
        .expect("the futex");
    assert_eq!(futex.time, 1_700_000_001_000_000);
    let value = |name: &str| -> i64 {
        let rows = imported.rows.counters.iter().filter(|row| row.name == name);
        rows.map(|row| row.value).sum()
    };
    assert_eq!(
        (
            value("errors:openat"),
            value("errors:write"),
            value("signals:SIGCHLD")
        ),
        (1, 0, 1)
    );
    // Its process ended during it; the other one's last call has no end in the file.
    assert_eq!(
        (
            value("calls:nanosleep"),
            value("untimed:nanosleep"),
            value("calls:exit_group")
        ),
        (1, 1, 0)
    );
    assert_eq!(
        (
            imported.file().unknown_lines,
            imported.file().first_unknown[0].number
        ),
        (1, 12)
    );
    // Lines without a number belong to the only task that is left.
    assert_eq!(imported.rows.sessions.len(), 2);
}

#[test]
fn buckets_claim_no_more_than_the_digits_of_the_file() {
    let text = "read(3, \"\", 1) = 0 <0.000007>\nread(3, \"\", 1) = 0 <0.001234>\nread(3, \"\", 1) = 0 <0.000000123>\n";
    let imported = of_text(text).expect("strace");
    let mut bounds: Vec<_> = imported
        .rows
        .latency
        .iter()
        .map(|row| (row.from_ns, row.to_ns))
        .collect();
    bounds.sort_unstable();
    let coarse = |us| {
        let (from, to) = bounds_of(bucket_of(us));
        (from * 1_000, to * 1_000)
    };
    assert_eq!(bounds, [bounds_of(bucket_of(123)), (7_000, 8_000), coarse(1_234)]);
}

#[test]
fn calls_without_times_are_counted_and_not_timed() {
    let imported = of_text("close(3) = 0\nclose(4) = -1 EBADF (Bad file descriptor)\nread(0, \"\", 1) = 1\n");
    let imported = imported.expect("strace");
    assert_eq!(imported.meta.collector.unit, Unit::Counts);
    assert!(imported.rows.latency.is_empty());
    let counts: u64 = imported.rows.activity.iter().map(|row| row.count).sum();
    assert_eq!(
        (
            counts,
            imported.rows.activity.iter().map(|row| row.ns).sum::<u64>()
        ),
        (3, 0)
    );
    assert!(
        imported
            .meta
            .collector
            .reasons
            .iter()
            .any(|reason| reason.contains("without -T"))
    );
}

#[test]
fn times_of_day_pass_midnight_and_relative_ones_add_up() {
    let day = of_text(
        "23:59:59.900000 read(3, \"\", 1) = 1 <0.050000>\n00:00:00.100000 read(3, \"\", 1) = 1 <0.000010>\n",
    );
    let outside = |imported: &Whole| time_by_frame(imported).get(OUTSIDE).copied();
    assert_eq!(outside(&day.expect("strace")), Some(150_000_000));
    let relative = of_text(
        "     0.000000 read(3, \"\", 1) = 1 <0.050000>\n     0.200000 read(3, \"\", 1) = 1 <0.000010>\n",
    );
    assert_eq!(outside(&relative.expect("strace")), Some(150_000_000));
    let coarse =
        of_text("10:00:00 read(3, \"\", 1) = 1 <0.050000>\n10:00:07 read(3, \"\", 1) = 1 <0.000010>\n");
    assert_eq!(outside(&coarse.expect("strace")), None);
}

#[test]
fn laid_beside_another_file_the_calls_are_single_events_and_no_time_of_their_own() {
    let options = Options {
        keeps_spans: true,
        ..Options::default()
    };
    let imported = of_text_with(&options, fixture()).expect("strace");
    assert!(imported.rows.activity.is_empty());
    let spans = &imported.rows.spans;
    assert!(spans.iter().all(|span| span.kind == span::kind::SYSCALL));
    let futex = spans.iter().find(|span| span.name == "futex").expect("the futex");
    assert_eq!(
        (futex.start_ns, futex.ns),
        (1_700_000_000_002_000_000, 1_500_900_000)
    );
    assert_eq!(spans.len(), 7);
    assert!(of_text(fixture()).expect("strace").rows.spans.is_empty());
    let Some(path) = data("jkstill__trunc-test.strace") else {
        return;
    };
    let real = of_files_with(&options, std::slice::from_ref(&path)).expect("strace");
    let us: u64 = real.rows.spans.iter().map(|span| span.ns / 1_000).sum();
    let Some(expected) = by_awk(&path) else { return };
    assert_eq!(
        us,
        expected
            .iter()
            .filter(|(name, _)| *name != "outside" && *name != "overlap")
            .map(|(_, sums)| sums.2)
            .sum::<u64>()
    );
}

#[test]
fn a_file_cut_at_any_byte_gives_no_more_than_the_whole() {
    let perf = "  ? (         ): a/1  ... [continued]: execve())  = 0\n 0.8 ( 0.005 ms): a/1 brk() = 0x1\n 1.0 (         ): \
                a/1 poll() ...\n 1.0 ( 2.5 ms): a/1  ... [continued]: poll()) = -1 EINTR (x)\n 1.2 ( 0.000 ms): a/1 minfault \
                [f+0x1] => 0x1 (?k)\n\n Summary of events:\n\n a (1), 2 events, 1.0%\n\n brk 1 0 1.0 1.0 1.0 1.0 0.1%\n";
    let table = "% time     seconds  usecs/call     calls    errors syscall\n------ ----\n 85.40    0.001643  8  200   \
                 nanosleep\n  0.16    0.000003  3  1  1 ioctl\n------\n100.00  0.001924  8  220  1 total\n";
    for whole in [fixture(), perf.to_string(), table.to_string()] {
        let all = of_text(whole.clone()).expect("a known format");
        let total = |imported: &Whole| imported.rows.activity.iter().map(|row| row.ns).sum::<u64>();
        let calls = |imported: &Whole| by_rows(imported).values().map(|sums| sums.0).sum::<u64>();
        let mut last = 0;
        for cut in 0..whole.len() {
            // Cut before its format shows, it has none.
            if let Ok(part) = of_text(&whole.as_bytes()[..cut]) {
                assert!(
                    total(&part) <= total(&all) && calls(&part) <= calls(&all),
                    "cut at {cut}"
                );
                assert!(total(&part) >= last, "cut at {cut}");
                last = total(&part);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn damaged_bytes_never_panic(at in 0usize..1_500, bytes in proptest::collection::vec(any::<u8>(), 1..8)) {
        let mut text = fixture().into_bytes();
        for (offset, byte) in bytes.into_iter().enumerate() {
            if let Some(place) = text.get_mut(at + offset) {
                *place = byte;
            }
        }
        let _ = of_text(text);
    }

    #[test]
    fn any_bytes_behind_a_call_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for begin in [&b"read(3, 1) = 0 <0.1>\n"[..], b" 0.1 ( 0.1 ms): a/1 brk() = 0\n", b"% time seconds calls syscall\n"] {
            let _ = of_text([begin, &bytes].concat());
        }
    }
}
