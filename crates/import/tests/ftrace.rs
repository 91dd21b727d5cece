//! Kernel traces, compared with what awk counts in the same lines, and with arithmetic.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::samples::{samples_beside, say};
use crate::whole::{Whole, of_files, of_text};
use dbtime_import::{CallOptions, Options};
use dbtime_model::recording::KernelTrace;
use dbtime_model::{Frame, StackId, State, span};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kernel.fgraph")
}

fn imported(path: &Path) -> Whole {
    of_files(&[path.to_path_buf()]).unwrap_or_else(|e| panic!("{e}"))
}

fn about(whole: &Whole) -> &KernelTrace {
    whole.file().kernel_trace.as_ref().expect("a trace of the kernel")
}

fn frames(whole: &Whole) -> BTreeMap<StackId, &Vec<Frame>> {
    whole
        .rows
        .stacks
        .iter()
        .map(|row| (row.id, &row.frames))
        .collect()
}

/// A function as in the text.
fn name(frame: &Frame) -> String {
    match frame.module.as_str() {
        "[kernel]" => frame.symbol.clone(),
        module => format!("{} {module}", frame.symbol),
    }
}

/// Real traces of functions.
fn graphs() -> Vec<PathBuf> {
    ["ftrace/vm-6.1", "ftrace/vm-6.12"]
        .iter()
        .flat_map(|folder| samples_beside(folder, &[".fgraph"]))
        .collect()
}

/// What awk makes of the lines; none if there is no awk.
fn by_awk(path: &Path) -> Option<BTreeMap<String, u64>> {
    crate::samples::by_awk("ftrace.awk", path).map(|text| named_numbers(&text))
}

/// Lines of a name and a number.
fn named_numbers(text: &str) -> BTreeMap<String, u64> {
    text.lines()
        .map(|line| line.split_once('\t').expect("name and value"))
        .map(|(name, value)| (name.to_string(), value.parse().expect("a number")))
        .collect()
}

/// Calls and durations by function, from the rows.
fn by_function(whole: &Whole) -> BTreeMap<String, (u64, u64)> {
    let frames = frames(whole);
    let mut found: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in whole.rows.latency.iter().filter(|row| *row.kind == *"function") {
        let sum = found
            .entry(name(frames[&row.stack].last().expect("a leaf")))
            .or_default();
        sum.0 += row.count;
        sum.1 += row.sum_ns;
        assert!(
            row.min_ns <= row.max_ns && row.sum_ns >= row.min_ns * row.count,
            "{row:?}"
        );
    }
    found
}

#[test]
fn every_function_of_every_trace_is_counted_as_often_as_it_stands_there() {
    for path in graphs().into_iter().chain([fixture()]) {
        let Some(expected) = by_awk(&path) else { return };
        let whole = imported(&path);
        let path = path.display();
        assert_eq!(about(&whole).calls, expected["roots"], "{path}");
        assert_eq!(about(&whole).cut_calls, 0, "{path}");
        assert_eq!(
            (whole.file().unknown_lines, about(&whole).lost_events),
            (0, 0),
            "{path}"
        );
        let found = by_function(&whole);
        let calls = expected
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix("calls ")?, *value)));
        let calls: BTreeMap<&str, u64> = calls.collect();
        let found: BTreeMap<&str, u64> = found
            .iter()
            .map(|(name, (count, _))| (name.as_str(), *count))
            .collect();
        assert_eq!(found, calls, "{path}");
    }
}

/// Nothing hit these calls, and nothing happened while a clock stood still: durations are what the lines say.
#[test]
fn durations_are_those_of_the_lines() {
    let quiet = graphs().into_iter().filter(|path| {
        path.ends_with("vm-6.1/nanosleep_1us.fgraph") || path.ends_with("vm-6.12/nanosleep_1us_sched.fgraph")
    });
    let mut compared = 0;
    for path in quiet {
        let Some(expected) = by_awk(&path) else { return };
        let whole = imported(&path);
        let has_interrupts = frames(&whole)
            .values()
            .any(|frames| frames[0].symbol.starts_with('['));
        if has_interrupts {
            continue;
        }
        compared += 1;
        for (name, (_, ns)) in by_function(&whole) {
            assert_eq!(
                ns,
                expected[&format!("ns {name}")],
                "{name} in {}",
                path.display()
            );
        }
    }
    assert!(compared > 0 || graphs().is_empty(), "one of them is quiet");
}

/// What functions did themselves, on CPU and off it, and what hit them, add up to the calls.
#[test]
fn parts_add_up_to_the_calls() {
    for path in graphs().into_iter().chain([fixture()]) {
        let Some(expected) = by_awk(&path) else { return };
        let whole = imported(&path);
        let calls: u64 = whole
            .rows
            .spans
            .iter()
            .filter(|row| row.depth == 0)
            .map(|row| row.ns)
            .sum();
        let frames = frames(&whole);
        let is_tail = |row: &&dbtime_model::ActivityRow| {
            frames[&row.kernel_stack][0]
                .symbol
                .starts_with("finish_task_switch")
        };
        let parts: u64 = whole
            .rows
            .activity
            .iter()
            .filter(|row| !is_tail(row))
            .map(|row| row.ns)
            .sum();
        // Moments have microseconds, durations nanoseconds: a difference of one for each stay off CPU.
        let stays = whole
            .rows
            .spans
            .iter()
            .filter(|row| row.kind == span::kind::OFF_CPU)
            .count() as u64;
        assert!(
            parts.abs_diff(calls) <= 2_000 * (stays + 1),
            "{}: {parts} in parts of {calls}",
            path.display()
        );
        // If the clock of durations stood still, calls were longer than their lines say.
        if !path.to_string_lossy().contains("no_sleep_time") {
            assert_eq!(calls, expected["whole"], "{}", path.display());
        }
        assert!(
            whole.problems.iter().all(|problem| !problem.contains("shorter")),
            "{:?}",
            whole.problems
        );
    }
}

/// Arithmetic by hand, for machines without real traces.
#[test]
fn interrupts_and_time_off_cpu_are_told_apart() {
    let whole = imported(&fixture());
    let frames = frames(&whole);
    let mut own: BTreeMap<(String, State), u64> = BTreeMap::new();
    for row in &whole.rows.activity {
        let path: Vec<&str> = frames[&row.kernel_stack]
            .iter()
            .map(|frame| frame.symbol.as_str())
            .collect();
        *own.entry((path.join(";"), row.state)).or_default() += row.ns;
    }
    let of = |path: &str, state: State| own.get(&(path.to_string(), state)).copied();
    let read = "__x64_sys_pread64;vfs_read;ext4_file_read_iter";
    // 116 us less 5 for the interrupt and 106 for io_schedule.
    assert_eq!(of(read, State::Kernel), Some(5_000));
    let schedule = format!("{read};io_schedule;schedule");
    // From the end of dequeue_task_fair to the start of finish_task_switch.
    assert_eq!(of(&schedule, State::Disk), Some(100_000));
    assert_eq!(of(&schedule, State::Kernel), Some(2_000));
    assert_eq!(
        of("[interrupt];__sysvec_apic_timer_interrupt", State::Kernel),
        Some(2_000)
    );
    let durations = by_function(&whole);
    // Both reads, the first without its interrupt.
    assert_eq!(durations["__x64_sys_pread64"], (2, 117_000 + 5_000));
    assert_eq!(durations["vfs_read"], (2, 115_000 + 3_000));
    assert_eq!(durations["ext4_file_read_iter [ext4]"], (1, 111_000));
    assert_eq!(
        whole.rows.counters.iter().map(|row| row.value).sum::<i64>(),
        2,
        "calls are counted"
    );
}

/// With few functions traced, nothing comes between a switch and the return of the function that left the CPU.
#[test]
fn a_function_may_return_right_after_a_switch() {
    let line = |us: u32, duration: &str, said: &str| {
        format!("  16.{us:06} |   0)   calls-7    | {duration:>13} |  {said}\n")
    };
    let text = line(0, "", "__x64_sys_nanosleep() {")
        + &line(1, "", "  do_nanosleep() {")
        + &line(
            2,
            "",
            "    /* sched_switch: prev_comm=calls prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=x next_pid=9 next_prio=120 */",
        )
        + &line(
            502,
            "",
            "    /* sched_wakeup: comm=calls pid=7 prio=120 target_cpu=000 */",
        )
        + &line(
            1_002,
            "",
            "    /* sched_switch: prev_comm=x prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=calls next_pid=7 next_prio=120 */",
        )
        + &line(1_003, "# 1002.000 us", "  } /* do_nanosleep */")
        + &line(1_005, "# 1005.000 us", "} /* __x64_sys_nanosleep */");
    let whole = of_text(text).unwrap_or_else(|e| panic!("{e}"));
    let expected = [
        (State::Kernel, 5_000),
        (State::Runnable, 500_000),
        (State::Sleep, 500_000),
    ];
    assert_eq!(states(&whole), BTreeMap::from(expected));
}

/// The same trace in fewer columns, and as trace-cmd prints it.
#[test]
fn columns_do_not_matter() {
    let text = std::fs::read_to_string(fixture()).expect("text");
    let whole = imported(&fixture());
    let expected = by_function(&whole);
    let data = |line: &&str| line.contains('|') && !line.starts_with('#');
    // Without time: `CPU) TASK | DURATION | TEXT`; without the task too; duration and text alone.
    let without = |columns: usize| -> String {
        text.lines()
            .map(|line| match data(&line) {
                true => {
                    line.splitn(columns + 1, '|')
                        .last()
                        .unwrap_or_default()
                        .to_string()
                        + "\n"
                }
                false => line.to_string() + "\n",
            })
            .collect()
    };
    for columns in [1, 2] {
        let whole = of_text(without(columns)).unwrap_or_else(|e| panic!("{e}"));
        let found = by_function(&whole);
        assert_eq!(about(&whole).calls, 2);
        let counts = |of: &BTreeMap<String, (u64, u64)>| -> BTreeMap<String, u64> {
            of.iter()
                .map(|(name, (count, _))| (name.clone(), *count))
                .collect()
        };
        assert_eq!(counts(&found), counts(&expected), "{columns} columns less");
        assert_eq!(found, expected, "durations need no moments");
    }
    let trace_cmd: String = text
        .lines()
        .filter(data)
        .map(|line| {
            let columns: Vec<&str> = line.splitn(4, '|').collect();
            let event = if columns[3].trim_start().starts_with('}') {
                "funcgraph_exit"
            } else {
                "funcgraph_entry"
            };
            // It does not name the function at its end.
            let said = columns[3].split(" /*").next().unwrap_or_default();
            format!(
                "     postgre-7     [000]   {}: {event}: {}|{said}\n",
                columns[0].trim(),
                columns[2]
            )
        })
        .collect();
    let whole = of_text("cpus=2\n".to_string() + &trace_cmd).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(by_function(&whole), expected);
}

#[test]
fn calls_in_which_events_were_lost_count_for_nothing() {
    let text = std::fs::read_to_string(fixture()).expect("text");
    let lost = text.replacen(
        " ------------------------------------------\n",
        "CPU:0 [LOST 13 EVENTS]\n",
        1,
    );
    let whole = of_text(lost).unwrap_or_else(|e| panic!("{e}"));
    let about = about(&whole);
    assert_eq!((about.calls, about.cut_calls, about.lost_events), (1, 1, 13));
    assert_eq!(by_function(&whole)["vfs_read"], (1, 3_000));
}

#[test]
fn a_trace_may_be_cut_at_every_byte() {
    let small = graphs()
        .into_iter()
        .filter(|path| path.to_string_lossy().contains("depth3"));
    for path in small.chain([fixture()]) {
        let text = std::fs::read(&path).expect("text");
        let all = imported(&path);
        let ns = |whole: &Whole| whole.rows.activity.iter().map(|row| row.ns).sum::<u64>();
        for end in 0..text.len() {
            match of_text(&text[..end]) {
                Ok(part) => {
                    assert!(
                        about(&part).calls <= about(&all).calls,
                        "{}: {end}",
                        path.display()
                    );
                    assert!(ns(&part) <= ns(&all), "{}: {end}", path.display());
                }
                // Too little to be distinguished from other texts.
                Err(_) => assert!(end < 600, "{}: {end}", path.display()),
            }
        }
    }
}

/// What a trace shows about the machine: which scheduler, which file system, how large a page.
#[test]
fn known_differences_are_in_the_functions() {
    let functions = |file: &str| -> Option<BTreeSet<String>> {
        let path = graphs().into_iter().find(|path| path.ends_with(file))?;
        Some(by_function(&imported(&path)).into_keys().collect())
    };
    let calls = |file: &str, function: &str| {
        let path = graphs()
            .into_iter()
            .find(|path| path.ends_with(file))
            .expect("the file");
        by_function(&imported(&path))
            .get(function)
            .map_or(0, |(count, _)| *count)
    };
    let (Some(cfs), Some(rr)) = (
        functions("vm-6.1/nanosleep_1us.fgraph"),
        functions("vm-6.1/nanosleep_1us_rr.fgraph"),
    ) else {
        return;
    };
    assert!(cfs.contains("dequeue_task_fair") && !cfs.contains("dequeue_task_rt"));
    assert!(rr.contains("dequeue_task_rt") && !rr.contains("dequeue_task_fair"));
    // 1 MiB: 256 pages of 4 KiB, or half a page of 2 MiB.
    assert_eq!(
        calls("vm-6.1/pread_direct_raw_1M.fgraph", "folio_mark_dirty"),
        2 * 256
    );
    assert_eq!(
        calls("vm-6.1/pread_direct_raw_1M_huge.fgraph", "folio_mark_dirty"),
        2
    );
    assert_eq!(
        calls("vm-6.1/pread_direct_ext4.fgraph", "ext4_file_read_iter [ext4]"),
        10
    );
    assert_eq!(calls("vm-6.1/pread_direct_raw.fgraph", "blkdev_read_iter"), 10);
    assert_eq!(calls("vm-6.1/aio_raw.fgraph", "__x64_sys_io_submit"), 10);
    assert_eq!(calls("vm-6.1/aio_raw.fgraph", "__x64_sys_io_getevents"), 10);
}

/// From `sys_enter` to `sys_exit` of each call, by awk; the intervals in between add up to it.
#[test]
fn intervals_between_tracepoints_add_up_to_the_calls() {
    for path in samples_beside("ftrace", &[".txt"]) {
        let output = Command::new("awk")
            .arg(
                r#"/: sys_enter: / { split($4, at, ":"); begin[$1] = at[1] }
                   /: sys_exit: / && ($1 in begin) { split($4, at, ":"); us += (at[1] - begin[$1]) * 1e6; n++; delete begin[$1] }
                   END { printf "%d %d", n, us + 0.5 }"#,
            )
            .arg(&path)
            .output();
        let Ok(output) = output else {
            say("SKIPPED: awk");
            return;
        };
        let text = String::from_utf8(output.stdout).expect("text");
        let (calls, us) = text.split_once(' ').expect("two numbers");
        let whole = imported(&path);
        assert_eq!(about(&whole).tracer, "tracepoints");
        assert_eq!(about(&whole).calls.to_string(), calls, "{}", path.display());
        let ns: u64 = whole.rows.activity.iter().map(|row| row.ns).sum();
        assert_eq!(
            ns,
            us.parse::<u64>().expect("a number") * 1_000,
            "{}",
            path.display()
        );
    }
}

/// A file that trace-cmd printed.
fn trace_cmd(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/trace_cmd")
        .join(name)
}

fn states(whole: &Whole) -> BTreeMap<State, u64> {
    let mut states: BTreeMap<State, u64> = BTreeMap::new();
    for row in &whole.rows.activity {
        *states.entry(row.state).or_default() += row.ns;
    }
    states
}

/// One recording, printed with each of the options that change the columns: awk pairs the same calls in all of them.
#[test]
fn columns_of_trace_cmd_do_not_matter() {
    for name in ["", "_full", "_latency", "_raw", "_bare", "_difference", "_debug"] {
        let path = trace_cmd(&format!("reads{name}.txt"));
        let expected = crate::samples::by_awk("tracepoints.awk", &path).map(|text| named_numbers(&text));
        let whole = imported(&path);
        let path = path.display();
        // Three reads from a disk, and the writes of them; by hand from the lines.
        assert_eq!((about(&whole).calls, about(&whole).cut_calls), (6, 0), "{path}");
        assert_eq!(whole.file().unknown_lines, 0, "{path}");
        let found = states(&whole);
        if name != "_full" {
            let by_hand = [
                (State::Kernel, 121_000),
                (State::Runnable, 15_000),
                (State::Disk, 272_000),
            ];
            assert_eq!(found, BTreeMap::from(by_hand), "{path}");
        }
        let Some(expected) = expected else { continue };
        assert_eq!(expected["calls"], 6, "{path}");
        assert_eq!(found.values().sum::<u64>(), expected["ns"], "{path}");
        assert_eq!(found[&State::Disk], expected["asleep"], "{path}");
        assert_eq!(found[&State::Runnable], expected["woken"], "{path}");
    }
}

#[test]
fn stacks_of_trace_cmd_are_below_their_calls() {
    let asleep = |whole: &Whole| -> Vec<String> {
        let frames = frames(whole);
        let mut disk = whole.rows.activity.iter().filter(|row| row.state == State::Disk);
        let row = disk.next().expect("the read waited for the disk");
        assert!(disk.next().is_none(), "in one place");
        frames[&row.kernel_stack].iter().map(name).collect()
    };
    let expected = [
        "sys_read",
        "ksys_read",
        "vfs_read",
        "ext4_file_read_iter",
        "iomap_dio_rw",
        "__iomap_dio_rw",
        "io_schedule_timeout",
        "schedule_timeout",
        "schedule",
        "__schedule",
    ];
    let text = std::fs::read_to_string(trace_cmd("stacks.txt")).expect("text");
    let whole = imported(&trace_cmd("stacks.txt"));
    assert_eq!(asleep(&whole), expected);
    assert_eq!(whole.file().unknown_lines, 0);
    // In time order, events of another CPU come between an event and its stack; a stack of user code may follow.
    let mixed: String = text
        .lines()
        .map(|line| match line.contains("kernel_stack:") {
            true => format!(
                "             cat-9     [000] 48857.409600: sys_enter: NR 0 (0, 0, 0, 0, 0, 0)\n{line}\n"
            ),
            false => format!("{line}\n"),
        })
        .collect();
    let mixed = of_text(mixed).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(asleep(&mixed), expected);
    let user = "              dd-8755  [001] 48857.409700: user_stack:           <user stack trace>\n=> 0x7f73dac084f0\n";
    let with_user = text.replace("          <idle>-0", &format!("{user}          <idle>-0"));
    let with_user = of_text(with_user).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(asleep(&with_user), expected);
    assert_eq!(states(&with_user), states(&whole));
    // Without its plugins, trace-cmd truncates stacks: what is left of them would be in the wrong place.
    let cut = imported(&trace_cmd("stacks_bare.txt"));
    assert_eq!(asleep(&cut), ["sys_read"]);
    assert_eq!(states(&cut), states(&whole));
}

#[test]
fn events_that_trace_cmd_says_were_dropped_cut_calls() {
    let whole = imported(&trace_cmd("dropped.txt"));
    // One write is open where events are missing, one read at the end.
    let about = about(&whole);
    assert_eq!((about.calls, about.cut_calls, about.lost_events), (6, 2, 5_798));
    let Some(text) = crate::samples::by_awk("tracepoints.awk", &trace_cmd("dropped.txt")) else {
        return;
    };
    let expected = named_numbers(&text);
    assert_eq!(
        (expected["calls"], expected["dropped"]),
        (about.calls, about.lost_events)
    );
    assert_eq!(states(&whole).into_values().sum::<u64>(), expected["ns"]);
}

/// `raw_syscalls` and `syscalls` traced together report every call twice.
#[test]
fn calls_that_are_told_twice_count_once() {
    let whole = imported(&trace_cmd("both.txt"));
    assert_eq!((about(&whole).calls, about(&whole).cut_calls), (3, 1));
    // Two reads and a close, from sys_enter to sys_exit, by hand.
    assert_eq!(states(&whole).into_values().sum::<u64>(), 1_593 + 791 + 1_042);
    let text = std::fs::read_to_string(trace_cmd("both.txt")).expect("text");
    let single: String = text
        .lines()
        .filter(|line| !line.contains(" sys_enter: ") && !line.contains(" sys_exit: "))
        .map(|line| format!("{line}\n"))
        .collect();
    let single = of_text(single).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(about(&single).calls, 3);
}

/// `trace-cmd report --cpu` and filters leave lines out: the end of one call is not that of another.
#[test]
fn a_call_does_not_end_with_another_ones_end() {
    let text = std::fs::read_to_string(trace_cmd("reads.txt")).expect("text");
    let without = |left_out: fn(&str) -> bool| {
        let text: String = text
            .lines()
            .filter(|line| !left_out(line))
            .map(|line| format!("{line}\n"))
            .collect();
        let whole = of_text(text).unwrap_or_else(|e| panic!("{e}"));
        (about(&whole).calls, about(&whole).cut_calls)
    };
    // Each read seems to last until the end of the write after it.
    let between = |line: &str| {
        line.contains("sys_exit:             NR 0") || line.contains("sys_enter:            NR 1")
    };
    assert_eq!(without(between), (0, 3));
    assert_eq!(without(|line| line.contains("sys_exit:")), (0, 6));
}

/// What calls depend on and cannot be read is counted, and cuts open calls.
#[test]
fn events_that_cannot_be_read_are_counted() {
    let text = std::fs::read_to_string(trace_cmd("reads.txt")).expect("text");
    for (from, to, calls, cut) in [
        ("dd:10148 [120] D ==>", "dd?", 3, 3),
        ("NR 0 (", "? (", 3, 0),
        ("comm=dd pid=10148", "?", 6, 0),
    ] {
        let whole = of_text(text.replace(from, to)).unwrap_or_else(|e| panic!("{e}"));
        let about = about(&whole);
        assert_eq!((about.calls, about.cut_calls), (calls, cut), "{from}");
        assert_eq!(whole.file().unknown_lines, 3, "{from}");
    }
    // Functions as trace-cmd prints them without its plugins.
    let bare = std::fs::read_to_string(trace_cmd("sleep_bare.txt")).expect("text");
    let whole = of_text(bare.clone()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(about(&whole).calls, 0);
    assert_eq!(
        whole.file().unknown_lines,
        bare.lines().filter(|line| line.contains("funcgraph_")).count() as u64
    );
}

/// function_graph as trace-cmd prints it, with and without names at the ends, with and without other columns.
#[test]
fn functions_of_trace_cmd_are_those_of_the_lines() {
    let plain = imported(&trace_cmd("sleep.txt"));
    let named = imported(&trace_cmd("sleep_names.txt"));
    let found = by_function(&named);
    assert_eq!(by_function(&plain), found);
    for whole in [&plain, &named] {
        assert_eq!(about(whole).tracer, "function_graph");
        assert_eq!((about(whole).calls, whole.file().unknown_lines), (1, 0));
    }
    // From switch to wakeup, to switch, and the rest, by hand.
    let by_hand = [
        (State::Sleep, 13_587_059_000 - 13_566_618_000),
        (State::Runnable, 13_587_224_000 - 13_587_059_000),
        (State::Kernel, 20_932_545 - (13_587_224_000 - 13_566_618_000)),
    ];
    assert_eq!(states(&plain), BTreeMap::from(by_hand));
    // What comes before the columns of the functions is trace-cmd's, and so is the depth after them.
    let text = std::fs::read_to_string(trace_cmd("sleep_names.txt")).expect("text");
    let columns: String = text
        .lines()
        .filter_map(|line| line.split_once("funcgraph_"))
        .filter_map(|(_, behind)| behind.split_once(": "))
        .map(|(_, columns)| format!("{}\n", &columns[..columns.rfind(" (").expect("the depth")]))
        .collect();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("columns");
    std::fs::write(&path, columns).expect("a file");
    let Some(expected) = by_awk(&path) else { return };
    assert_eq!(
        (expected["roots"], expected["whole"]),
        (1, found["__x64_sys_clock_nanosleep"].1)
    );
    for (name, (calls, ns)) in &found {
        assert_eq!(*calls, expected[&format!("calls {name}")], "{name}");
        assert_eq!(*ns, expected[&format!("ns {name}")], "{name}");
    }
}

/// Tracing begins before the function of interest is called, so the first part of a file may have only tracepoints.
#[test]
fn functions_may_come_late() {
    let before = "          <idle>-0     [000]    13.500000: sched_waking:         comm=sleep pid=113 prio=120 target_cpu=000\n";
    let text = std::fs::read_to_string(trace_cmd("sleep.txt")).expect("text");
    let late = of_text(before.repeat(10_000) + &text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(about(&late).tracer, "function_graph");
    assert_eq!(
        by_function(&late),
        by_function(&imported(&trace_cmd("sleep.txt")))
    );
}

/// Whose calls they are, as dbtime's own recorder writes at the head: the file may be in a folder that is gone.
#[test]
fn a_trace_of_dbtime_is_of_the_task_that_it_names() {
    let text = std::fs::read_to_string(fixture()).expect("text");
    let plain = of_text(text.clone()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(plain.meta.database.target, "text.trc");
    let named = of_text("# dbtime task: pid 7, postgres: a b [local] SELECT\n".to_string() + &text);
    let named = named.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(named.meta.database.target, "pid 7, postgres: a b [local] SELECT");
}

/// The wait of each call, as dbtime's own recorder writes it at the head.
#[test]
fn calls_have_the_wait_that_they_were_made_in() {
    let text = std::fs::read_to_string(fixture()).expect("text");
    let head = "# dbtime call: pid=7 at=99.999999500 wait=IO:DataFileRead\n\
                # dbtime call: pid=7 at=100.000199900 wait=Client:ClientRead\n# dbtime call: nonsense\n";
    let whole = of_text(head.to_string() + &text).unwrap_or_else(|e| panic!("{e}"));
    let mut waits: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &whole.rows.activity {
        *waits.entry(&row.wait_event).or_default() += row.ns;
    }
    assert_eq!(
        waits,
        BTreeMap::from([("DataFileRead", 122_000), ("ClientRead", 5_000)])
    );
    assert_eq!(whole.file().unknown_lines, 1);
}

/// The statement of each call, and its text, as dbtime's own recorder writes them at the head.
#[test]
fn calls_have_the_statement_that_the_session_executed() {
    let text = std::fs::read_to_string(fixture()).expect("text");
    let head = "# dbtime statement: query=-42 text=SELECT ? -- text=?\n\
                # dbtime statement: query=7 fingerprint=1 text=COMMIT\n\
                # dbtime statement: query=0 text=SELECT\n\
                # dbtime call: pid=7 at=99.999999500 query=-42 wait=IO:DataFileRead\n\
                # dbtime call: pid=7 at=100.000199900 wait=Client:ClientRead\n\
                # dbtime call: pid=7 at=100.000199900 query=x wait=Client:ClientRead\n";
    let whole = of_text(head.to_string() + &text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(whole.file().unknown_lines, 2);
    let known = |id: i64| id.cast_unsigned();
    let mut times: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    for row in &whole.rows.activity {
        *times.entry((&row.wait_event, row.statement)).or_default() += row.ns;
    }
    assert_eq!(
        times,
        BTreeMap::from([
            (("DataFileRead", known(-42)), 122_000),
            (("ClientRead", 0), 5_000)
        ])
    );
    // Spans and latencies are of the same calls.
    let spans = whole.rows.spans.iter();
    let spans: BTreeMap<u64, BTreeSet<u64>> = spans.fold(BTreeMap::new(), |mut calls, row| {
        calls.entry(row.call).or_default().insert(row.statement);
        calls
    });
    let of_calls: Vec<BTreeSet<u64>> = spans.into_values().collect();
    assert_eq!(of_calls, [BTreeSet::from([known(-42)]), BTreeSet::from([0])]);
    let latencies: BTreeSet<u64> = whole.rows.latency.iter().map(|row| row.statement).collect();
    assert_eq!(latencies, BTreeSet::from([0, known(-42)]));
    let statements: Vec<(u64, &str, bool)> = (whole.rows.statements.iter())
        .map(|row| (row.id, row.text.as_str(), row.is_fingerprint))
        .collect();
    assert_eq!(
        statements,
        [(7, "COMMIT", true), (known(-42), "SELECT ? -- text=?", false)]
    );
}

#[test]
fn only_the_calls_that_are_asked_for_are_taken() {
    let text = std::fs::read_to_string(fixture()).expect("text");
    let text = "# dbtime call: pid=7 at=99.9 wait=IO:DataFileRead\n# dbtime call: pid=7 at=100.00019 wait=LWLock:WALWrite\n"
        .to_string()
        + &text
        + &text.replace("pread64", "read").replace("  100.", "  200.");
    let calls = |name: Option<&str>, wait: Option<&str>, most: Option<u64>| {
        let calls = CallOptions {
            name: name.map(str::to_string),
            wait: wait.map(str::to_string),
            most,
        };
        let options = Options {
            calls,
            ..Options::default()
        };
        let whole = crate::whole::of_text_with(&options, text.clone()).unwrap_or_else(|e| panic!("{e}"));
        about(&whole).calls
    };
    assert_eq!(calls(None, None, None), 4);
    assert_eq!(calls(Some("pread64"), None, None), 2);
    assert_eq!(calls(Some("pread"), None, None), 0);
    assert_eq!(calls(None, Some("IO:DataFileRead"), None), 1);
    assert_eq!(calls(Some("pread64"), Some("WALWrite"), None), 1);
    assert_eq!(calls(None, None, Some(3)), 3);
}

/// Two reads of 1 ms each, with a tracepoint in the middle of either, and an interrupt of 100 us in the first. Moments are
/// microseconds after 50 s.
fn reads() -> String {
    let line = |us: u32, flags: &str, said: &str| {
        format!("           calls-7       [000] {flags} 50.{us:06}: {said}\n")
    };
    let read = |from: u32, interrupt: bool| {
        let mut text = line(from, ".....", "sys_enter: NR 17 (3, 0, 100000, 0, 0, 0)");
        if interrupt {
            text += &line(
                from + 100,
                "d.h1.",
                "hrtimer_expire_entry: hrtimer=1 function=f now=1",
            );
            text += &line(from + 200, "d.h1.", "hrtimer_expire_exit: hrtimer=1");
        }
        text += &line(from + 500, ".....", "mm_filemap_get_pages: dev 8:1 ino 9 ofs=0");
        text += &line(from + 500, ".....", "<stack trace>");
        text += " => filemap_read\n => vfs_read\n => __x64_sys_pread64\n => do_syscall_64\n";
        text + &line(from + 1_000, ".....", "sys_exit: NR 17 = 1048576")
    };
    "# tracer: nop\n".to_string() + &read(1_000, true) + &read(3_000, false)
}

const READ: &str = "entry_SYSCALL_64_after_hwframe;do_syscall_64;__x64_sys_pread64;vfs_read";

fn sample(us: u32, stack: &str) -> String {
    format!("# dbtime sample: pid=7 at=50.{us:06}500 stack={stack}\n")
}

/// Samples among the rows: at which path, and how many.
fn sampled(whole: &Whole) -> BTreeMap<String, u64> {
    let frames = frames(whole);
    let mut found = BTreeMap::new();
    for row in whole.rows.activity.iter().filter(|row| row.samples > 0) {
        assert_eq!(
            (row.ns, row.count, row.state),
            (0, 0, State::Kernel),
            "a sample has no length"
        );
        assert_eq!(row.fidelity, dbtime_model::Fidelity::Sampled);
        let path: Vec<String> = frames[&row.kernel_stack].iter().map(name).collect();
        *found.entry(path.join(";")).or_default() += row.samples;
    }
    found
}

#[test]
fn timer_samples_are_at_the_call_and_the_interval_in_which_they_fell() {
    let samples = [
        // Before any call, between the two, and after the last.
        sample(900, READ),
        sample(2_500, "do_syscall_64;__x64_sys_lseek;vfs_llseek"),
        sample(9_000, READ),
        // Not in time order.
        sample(3_800, &format!("{READ};ext4_file_read_iter [ext4];_copy_to_iter")),
        sample(1_300, &format!("{READ};filemap_read")),
        sample(3_100, &format!("{READ};filemap_read")),
        sample(1_400, &format!("{READ};filemap_read")),
        // Not the call's own work.
        sample(
            1_700,
            &format!(
                "{READ};asm_sysvec_apic_timer_interrupt;sysvec_apic_timer_interrupt;irq_exit_rcu;run_timer"
            ),
        ),
        sample(
            3_600,
            &format!("{READ};filemap_read;trace_event_raw_event_x;__ftrace_trace_stack;unwind_next_frame"),
        ),
        sample(
            3_700,
            &format!("{READ};__cond_resched;preempt_schedule_common;__schedule"),
        ),
        // Another task's.
        sample(1_500, READ).replace("pid=7", "pid=8"),
    ];
    let head = "# dbtime sampling: period_ns=97000 missing=3\n".to_string() + &samples.concat();
    let whole = of_text(reads().replacen('\n', &format!("\n{head}"), 1)).unwrap_or_else(|e| panic!("{e}"));
    let (first, second) = (
        "hrtimer_expire_exit → mm_filemap_get_pages",
        "mm_filemap_get_pages → sys_exit",
    );
    let expected = [
        (format!("sys_pread64;vfs_read;filemap_read;{first}"), 2),
        (
            "sys_pread64;vfs_read;filemap_read;sys_enter → mm_filemap_get_pages".to_string(),
            1,
        ),
        (
            format!("sys_pread64;vfs_read;ext4_file_read_iter [ext4];_copy_to_iter;{second}"),
            1,
        ),
        (
            format!(
                "[interrupt];asm_sysvec_apic_timer_interrupt;sysvec_apic_timer_interrupt;irq_exit_rcu;run_timer;{second}"
            ),
            1,
        ),
        (
            format!("[tracing];trace_event_raw_event_x;__ftrace_trace_stack;unwind_next_frame;{second}"),
            1,
        ),
        (
            format!("[preemption];preempt_schedule_common;__schedule;{second}"),
            1,
        ),
    ];
    assert_eq!(sampled(&whole), BTreeMap::from(expected));
    let told = about(&whole);
    assert_eq!((told.calls, told.sampled_calls), (2, 2));
    assert_eq!((told.samples, told.samples_elsewhere), (7, 4));
    assert_eq!((told.sample_period_ns, told.samples_missing), (97_000, 3));
    assert_eq!(whole.file().unknown_lines, 0);
    // Kept with the call, each where it fell.
    let moments: Vec<(u64, i64)> = whole
        .rows
        .spans
        .iter()
        .filter(|row| row.kind == span::kind::SAMPLE)
        .map(|row| {
            assert_eq!(row.ns, 0);
            (row.call, row.start_ns / 1_000 - 50_000_000)
        })
        .collect();
    let expected = [
        (1, 1_300),
        (1, 1_400),
        (1, 1_700),
        (2, 3_100),
        (2, 3_600),
        (2, 3_700),
        (2, 3_800),
    ];
    assert_eq!(moments, expected);
    // No time differs from what it is without them.
    let without = of_text(reads()).unwrap_or_else(|e| panic!("{e}"));
    let exact = |whole: &Whole| -> Vec<dbtime_model::ActivityRow> {
        let rows = whole.rows.activity.iter();
        let mut rows: Vec<_> = rows.filter(|row| row.samples == 0).cloned().collect();
        rows.sort_by_key(|row| (row.kernel_stack, row.state));
        rows
    };
    assert_eq!(exact(&whole), exact(&without));
    assert_eq!(exact(&whole).iter().map(|row| row.ns).sum::<u64>(), 2_000_000);
    assert_eq!(whole.rows.latency.len(), without.rows.latency.len());
    assert_eq!(about(&without).sample_period_ns, 0, "there was no timer");
}

/// No switch in the text: the task may have left its CPU unseen, unless the tracer says that switches were traced.
#[test]
fn who_is_not_seen_to_leave_its_cpu_stays_where_switches_are_traced() {
    let text = reads();
    let told = text.replacen('\n', "\n# dbtime switches: traced\n", 1);
    let [unknown, known] = [text, told].map(|text| of_text(text).unwrap_or_else(|e| panic!("{e}")));
    assert!(!about(&unknown).has_switches && about(&known).has_switches);
    let of_calls = |whole: &Whole| states(whole).into_iter().collect::<Vec<_>>();
    let ns: u64 = states(&unknown).values().sum();
    assert_eq!(of_calls(&unknown), [(State::Unknown, ns)]);
    assert_eq!(of_calls(&known), [(State::Kernel, ns)]);
}

#[test]
fn samples_of_calls_that_are_cut_or_not_asked_for_count_for_nothing() {
    let head = "# dbtime sampling: period_ns=97000 missing=0\n".to_string()
        + &sample(1_300, READ)
        + &sample(3_300, READ);
    let text = reads().replacen('\n', &format!("\n{head}"), 1);
    // Lost events: the first call is cut.
    let lost = text.replacen(
        "           calls-7       [000] ..... 50.002000",
        "CPU:0 [LOST 5 EVENTS]\n           calls-7       [000] ..... 50.002000",
        1,
    );
    let whole = of_text(lost).unwrap_or_else(|e| panic!("{e}"));
    let told = about(&whole);
    assert_eq!(
        (told.calls, told.cut_calls, told.samples, told.samples_elsewhere),
        (1, 1, 1, 1)
    );
    assert_eq!(sampled(&whole).values().sum::<u64>(), 1);
    let options = Options {
        calls: CallOptions {
            name: Some("read".to_string()),
            ..CallOptions::default()
        },
        ..Options::default()
    };
    let whole = crate::whole::of_text_with(&options, text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((about(&whole).samples, about(&whole).samples_elsewhere), (0, 2));
    assert!(sampled(&whole).is_empty());
}

#[test]
fn lines_of_samples_that_are_not_understood_are_counted() {
    let good = sample(1_300, READ);
    let wrong = [
        "# dbtime sample: nonsense",
        "# dbtime sample: pid=7 at=50.001300",
        "# dbtime sample: pid=7 at=50 stack=vfs_read",
        "# dbtime sample: pid=7 stack=at=50.001300",
        "# dbtime sample: pid=99999999999 at=50.001300 stack=vfs_read",
        "# dbtime sample: pid=-7 at=50.001300 stack=vfs_read",
        "# dbtime sample: pid=7 at=999999999999999999999.1 stack=vfs_read",
        "# dbtime sample: pid=7 at=50.001300 stack=",
        "# dbtime sample: pid=7 at=50.001300 stack=vfs_read;;filemap_read",
        "# dbtime sampling: missing=0",
        "# dbtime sampling: period_ns=0 missing=0",
        "# dbtime sampling: period_ns=97000 missing=some",
    ];
    let head = wrong.join("\n") + "\n# dbtime samples: of a version to come\n" + &good;
    let whole = of_text(reads().replacen('\n', &format!("\n{head}"), 1)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(whole.file().unknown_lines, wrong.len() as u64);
    assert_eq!(sampled(&whole).values().sum::<u64>(), 1);
    // Wherever the line is cut, it is a shorter stack, or not understood, but never more.
    for end in 0..good.len() {
        let cut = format!("\n{}\n", &good[..end]);
        let whole = of_text(reads().replacen('\n', &cut, 1)).unwrap_or_else(|e| panic!("{e}"));
        assert!(sampled(&whole).values().sum::<u64>() <= 1, "cut at {end}");
    }
    // A stack deeper than any kernel walks is cut at its leaf.
    let deep = sample(1_300, &vec!["f"; 10_000].join(";"));
    let whole = of_text(reads().replacen('\n', &format!("\n{deep}"), 1)).unwrap_or_else(|e| panic!("{e}"));
    let paths = sampled(&whole);
    let depth = paths.keys().next().expect("a path").split(';').count();
    assert_eq!(depth, 1 + 128 + 1, "the call, the stack, the interval");
}
