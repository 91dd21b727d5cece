//! Stack samples of other tools: counts given by FORMATS and by the tools' own converters, on real files if they are at hand
//! (`../shared/data` beside the checkout) and on small ones of our own.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::whole::{Whole, of_files, of_files_with, of_text, of_text_with};
use dbtime_import::{EventNames, ImportError, Options};
use dbtime_model::recording::{Clock, Unit};
use dbtime_model::{ActivityRow, Fidelity, StackId};
use proptest::prelude::*;

/// Real files of other tools; says so loudly if they are not there.
fn data(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data")
        .join(folder);
    if path.is_dir() {
        return Some(path);
    }
    // There is nobody to tell if standard error is closed.
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED: no real files of {folder}: {} is not there",
        path.display()
    );
    None
}

fn file(folder: &Path, ending: &str) -> PathBuf {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    assert_eq!(found.len(), 1, "{ending} in {}", folder.display());
    found.remove(0)
}

fn of_file(path: &Path) -> Whole {
    of_files(&[path.to_path_buf()]).unwrap_or_else(|e| panic!("{e}"))
}

fn weight(imported: &Whole, row: &ActivityRow) -> u64 {
    match imported.meta.collector.unit {
        Unit::Time => row.ns,
        Unit::Samples => row.samples,
        Unit::Counts => row.count,
    }
}

fn total(imported: &Whole) -> u64 {
    let weights = imported.rows.activity.iter();
    weights.map(|row| weight(imported, row)).sum()
}

fn by(imported: &Whole, key: impl Fn(&ActivityRow) -> String) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for row in &imported.rows.activity {
        *sums.entry(key(row)).or_default() += weight(imported, row);
    }
    sums
}

fn sums(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pairs.iter().map(|(name, sum)| (name.to_string(), *sum)).collect()
}

fn frames(imported: &Whole, id: StackId) -> Vec<(String, String)> {
    let stack = imported.rows.stacks.iter().find(|stack| stack.id == id);
    stack.map_or_else(Vec::new, |stack| {
        let frames = stack.frames.iter();
        frames
            .map(|frame| (frame.module.clone(), frame.label()))
            .collect()
    })
}

/// Folded stacks: the name of a row by `base`, then user frames, then kernel frames with `suffix`.
fn folded(imported: &Whole, suffix: &str, base: impl Fn(&ActivityRow) -> String) -> BTreeMap<String, u64> {
    by(imported, |row| {
        let mut names = vec![base(row)];
        names.extend(frames(imported, row.user_stack).into_iter().map(|(_, name)| name));
        let kernel = frames(imported, row.kernel_stack).into_iter();
        names.extend(kernel.map(|(_, name)| name + suffix));
        names.retain(|name| !name.is_empty());
        names.join(";")
    })
}

/// Reads folded stacks, each line changed by the rule of the test.
fn read_folded(text: &str, rule: impl Fn(&str) -> String) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for line in text.lines() {
        let (stack, value) = line.rsplit_once(' ').expect("a stack and its value");
        *sums.entry(rule(stack)).or_default() += value.parse::<u64>().expect("a number");
    }
    sums
}

fn title(imported: &Whole, row: &ActivityRow) -> String {
    let sessions = &imported.rows.sessions;
    let session = sessions.iter().find(|session| session.id == row.session);
    session.expect("every row has a session").title.clone()
}

// ---- Oracle's classic tools ----

#[test]
fn the_three_classic_files_have_their_counts() {
    let Some(folder) = data("stack_profiling") else {
        return;
    };
    for (ending, events, states) in [
        (
            "ora_stack_fastio.txt",
            [("158", 725), ("153", 134), ("CPU", 141)],
            [("cpu", 945), ("disk", 48), ("sleep", 7)],
        ),
        (
            "ora_kstack_slob_slowio.txt",
            [("158", 888), ("153", 106), ("CPU", 6)],
            [("sleep", 867), ("disk", 102), ("cpu", 31)],
        ),
        (
            "ora_stack_fastio_userspace.txt",
            [("158", 366), ("153", 60), ("CPU", 74)],
            [("cpu", 477), ("disk", 20), ("sleep", 3)],
        ),
    ] {
        let imported = of_file(&file(&folder, ending));
        let name = |number: &str| match number {
            "CPU" => "CPU".to_string(),
            number => format!("unclassified:event#={number}"),
        };
        let expected: BTreeMap<String, u64> = events.iter().map(|(n, sum)| (name(n), *sum)).collect();
        assert_eq!(by(&imported, |row| row.wait().to_string()), expected, "{ending}");
        assert_eq!(
            by(&imported, |row| row.state.to_string()),
            sums(&states),
            "{ending}"
        );
        assert_eq!(imported.problems, Vec::<String>::new(), "{ending}");
        let collector = &imported.meta.collector;
        assert_eq!((collector.unit, collector.clock), (Unit::Samples, Clock::None));
        assert_eq!((collector.tier.as_str(), collector.rate_hz), ("sampled", 0));
        let rows = &imported.rows.activity;
        assert!(
            rows.iter()
                .all(|row| row.ns == 0 && row.fidelity == Fidelity::Sampled)
        );
        assert!(collector.reasons.iter().any(|reason| reason.contains("runnable")));
    }
}

#[test]
fn user_frames_lie_behind_the_end_of_the_kernel_stack() {
    let Some(folder) = data("stack_profiling") else {
        return;
    };
    let path = file(&folder, "ora_stack_fastio_userspace.txt");
    let imported = of_file(&path);
    let text = std::fs::read_to_string(&path).expect("text");
    // Lines with an offset are the kernel's, except for the end mark; the others, up to "State:", are the user's.
    let count = |is: &dyn Fn(&str) -> bool| text.lines().filter(|line| is(line)).count() as u64;
    let in_rows = |stack: fn(&ActivityRow) -> StackId| {
        let rows = imported.rows.activity.iter();
        rows.map(|row| row.samples * frames(&imported, stack(row)).len() as u64)
            .sum::<u64>()
    };
    assert_eq!(
        in_rows(|row| row.kernel_stack),
        count(&|line| {
            let unnamed = line.starts_with("[<") && !line.contains("ffffffffffffffff");
            unnamed || (line.contains("+0x") && line.contains("/0x"))
        })
    );
    let no_frames = ["State:", "event#", "On CPU", "0xffffffffffffffff", "["];
    let user = count(&|line| {
        !line.trim().is_empty()
            && !line.contains("+0x")
            && line.trim() != "1"
            && !no_frames.iter().any(|start| line.starts_with(start))
    });
    assert!(user > 10_000);
    assert_eq!(in_rows(|row| row.user_stack), user);
}

#[test]
fn events_get_their_names_from_csv_or_sed() {
    let Some(folder) = data("stack_profiling") else {
        return;
    };
    let path = file(&folder, "ora_stack_fastio.txt");
    let lists = [
        "EVENT#,NAME,WAIT_CLASS\n153,db file sequential read,User I/O\n158,db file parallel read,User I/O\n",
        "s/\\<event#=153\\>/event=db file sequential read/g\ns/\\<event#=158\\>/event=db file parallel read/g\n",
    ];
    for list in lists {
        let options = Options {
            event_names: EventNames::parse(list.as_bytes()),
            ..Options::default()
        };
        let imported = of_files_with(&options, std::slice::from_ref(&path)).expect("a known format");
        let expected = sums(&[
            ("CPU", 141),
            ("User I/O:db file parallel read", 725),
            ("User I/O:db file sequential read", 134),
        ]);
        assert_eq!(by(&imported, |row| row.wait().to_string()), expected);
    }
    // The file as the original tools leave it after sed.
    let text = std::fs::read_to_string(&path).expect("text");
    let imported =
        of_text(text.replace("event#=158", "event=db file parallel read")).expect("a known format");
    let waits = by(&imported, |row| row.wait().to_string());
    assert_eq!(waits["User I/O:db file parallel read"], 725);
}

#[test]
fn an_interval_makes_time_of_samples() {
    let record =
        "read_events+0x295/0x450\n0xffffffffffffffff\nState:\tD (disk sleep)\nOn CPU (Oracle state)\n1\n\n";
    let options = Options {
        interval_ns: Some(500_000_000),
        ..Options::default()
    };
    let imported = of_text_with(&options, record.repeat(3)).expect("a known format");
    assert_eq!(imported.meta.collector.unit, Unit::Time);
    let rows = &imported.rows.activity;
    assert_eq!((rows.len(), rows[0].ns, rows[0].samples), (1, 1_500_000_000, 3));
}

#[test]
fn records_without_end_mark_oracle_state_or_end_are_read_as_far_as_they_go() {
    let text = "[<0>] io_schedule+0x1/0x2\n[<0>] ext4_file_read_iter+0x1/0x2 [ext4]\nread\nState:\tS (sleeping)\n1\n\n\
                State:\tR (running)\n1\n\nState:\tT (stopped)\nnonsense\n1\nvfs_read+0x1/0x2\n";
    let imported = of_text(text).expect("a known format");
    assert_eq!(
        by(&imported, |row| row.state.to_string()),
        sums(&[("cpu", 1), ("sleep", 1), ("stopped", 1)])
    );
    assert_eq!(
        by(&imported, |row| row.wait().to_string()),
        sums(&[("[not recorded]", 3)])
    );
    let slept = imported
        .rows
        .activity
        .iter()
        .find(|row| row.state.as_str() == "sleep");
    let slept = slept.expect("the first sample");
    assert_eq!(
        frames(&imported, slept.kernel_stack),
        [
            ("ext4".to_string(), "ext4_file_read_iter".to_string()),
            ("[kernel]".to_string(), "io_schedule".to_string())
        ]
    );
    assert_eq!(frames(&imported, slept.user_stack).len(), 1);
    assert_eq!(imported.problems.len(), 2, "{:?}", imported.problems);
    assert!(
        imported
            .problems
            .iter()
            .any(|problem| problem.contains(":11: nonsense"))
    );
    assert!(imported.problems.iter().any(|problem| problem.contains("cut")));
}

const SHORT_STACKS: &str = "SQL> oradebug setorapid 30\nOracle pid: 30, Unix process pid: 4711, image: oracle@h\n\
SQL> oradebug short_stack\n\
ksedsts()+380<-ksdxfstk()+54<-ksdxdocmdmultex()+5640<-ksdxcb()+1782<-sspuser()+223<-__sighandler()<-sskgpwwait()+13<-ksliwat()+2269<-kslwaitctx()+157<-main()+262\n\
SQL> oradebug short_stack\n\
ksedsts()+380<-ksdxcb()+1782<-sspuser()+223<-__sighandler()<-sskgpwwait()+99<-ksliwat()+2<-kslwaitctx()+157<-main()+262\n\
ORA-00074: no process has been specified\n\
SQL> ksedsts()+380<-sspuser()+223<-__sighandler()<-kcbgtcr()+1<-main()+262\n";

#[test]
fn short_stacks_begin_behind_the_signal_handler() {
    let imported = of_text(SHORT_STACKS).expect("a known format");
    assert_eq!(
        folded(&imported, "", |_| String::new()),
        sums(&[("main;kcbgtcr", 1), ("main;kslwaitctx;ksliwat;sskgpwwait", 2)])
    );
    assert_eq!(imported.problems.len(), 1);
    assert!(
        imported.problems[0].contains("text.trc:7: ORA-00074"),
        "{:?}",
        imported.problems
    );
    assert_eq!(imported.meta.collector.unit, Unit::Samples);
}

// ---- perf script ----

/// FlameGraph counts the vDSO as kernel; it is user code.
fn vdso_is_user(stack: &str) -> String {
    let name = |name: &str| match name.strip_suffix("_[k]") {
        Some(symbol) if symbol.starts_with("__vdso") => symbol.to_string(),
        _ => name.to_string(),
    };
    stack.split(';').map(name).collect::<Vec<_>>().join(";")
}

/// `[unknown <7f2eb2b31c2c>]` without its address.
fn without_addresses(stack: &str) -> String {
    let name = |name: &str| match name.split_once(" <") {
        Some((module, _)) => format!("{module}]"),
        None => name.to_string(),
    };
    stack.split(';').map(name).collect::<Vec<_>>().join(";")
}

#[test]
fn perf_script_folds_as_flamegraph_folds_it() {
    let Some(folder) = data("perf_script") else { return };
    for (name, unit) in [
        ("perf-dd-stacks-01", Unit::Time),
        ("perf-iperf-stacks-pidtid-01", Unit::Samples),
    ] {
        let imported = of_file(&file(&folder, &format!("{name}.txt")));
        assert_eq!(imported.meta.collector.unit, unit);
        assert_eq!(imported.meta.collector.clock, Clock::Relative);
        let expected = |option: &str, rule: &dyn Fn(&str) -> String| {
            let path = file(&folder, &format!("{name}-collapsed-{option}.txt"));
            read_folded(&std::fs::read_to_string(path).expect("text"), rule)
        };
        let comm = |row: &ActivityRow| title(&imported, row);
        let session = |row: &ActivityRow| {
            let sessions = imported.rows.sessions.iter();
            let session = sessions.clone().find(|session| session.id == row.session);
            session.expect("every row has a session")
        };
        let pid = |row: &ActivityRow| match session(row).leader_pid {
            // A file with one number gives the task.
            0 if unit == Unit::Time => "?".to_string(),
            0 => session(row).pid.to_string(),
            pid => pid.to_string(),
        };
        for option in ["kernel", "all"] {
            assert_eq!(
                folded(&imported, "_[k]", comm),
                expected(option, &vdso_is_user),
                "{name}"
            );
        }
        assert_eq!(
            folded(&imported, "", comm),
            expected("jit", &str::to_string),
            "{name}"
        );
        assert_eq!(
            folded(&imported, "", comm),
            expected("addrs", &without_addresses),
            "{name}"
        );
        assert_eq!(
            folded(&imported, "", |row| format!("{}-{}", comm(row), pid(row))),
            expected("pid", &str::to_string),
            "{name}"
        );
        assert_eq!(
            folded(&imported, "", |row| format!(
                "{}-{}/{}",
                comm(row),
                pid(row),
                session(row).pid
            )),
            expected("tid", &str::to_string),
            "{name}"
        );
        // Neither file ends with the blank line that ends a sample: the last one is left out, there and here.
        let cut = imported.problems.iter().filter(|problem| problem.contains("cut"));
        assert_eq!((cut.count(), imported.problems.len()), (1, 1));
    }
}

#[test]
fn perf_script_folds_as_inferno_folds_it() {
    use inferno::collapse::Collapse;
    let Some(folder) = data("perf_script") else { return };
    for name in [
        "perf_script_g_fp_pgbackend.txt",
        "perf_script_g_dwarf_pgbackend.txt",
    ] {
        let path = file(&folder, name);
        let imported = of_file(&path);
        let mut options = inferno::collapse::perf::Options::default();
        options.annotate_kernel = true;
        let mut text = Vec::new();
        inferno::collapse::perf::Folder::from(options)
            .collapse_file(Some(&path), &mut text)
            .expect("inferno reads it");
        let theirs = read_folded(&String::from_utf8(text).expect("text"), vdso_is_user);
        let ours = folded(&imported, "_[k]", |row| title(&imported, row));
        assert_eq!(ours, theirs, "{name}");
        let text = std::fs::read_to_string(&path).expect("text");
        let periods = text.lines().filter(|line| line.ends_with("cpu-clock: "));
        let ns: u64 = periods
            .map(|line| line.split_whitespace().rev().nth(1).expect("a period"))
            .map(|period| period.parse::<u64>().expect("a number"))
            .sum();
        assert_eq!(total(&imported), ns, "{name}");
    }
}

#[test]
fn of_several_events_one_is_taken_and_the_others_are_named() {
    let text = "a 1 2.5: 7 cycles:u: \n\t ffffffff81000000 f+0x1 ([kernel.kallsyms])\n\t 10 g (/bin/a)\n\n\
                a 1 2.5: 1 page-faults: \n\t 10 g (/bin/a)\n\na 1 3.5: 9 cycles:u: \n\n";
    let imported = of_text(text).expect("a known format");
    assert_eq!(
        (total(&imported), imported.meta.collector.unit),
        (2, Unit::Samples)
    );
    assert_eq!(
        by(&imported, |row| format!("{} {}", row.time, row.state)),
        sums(&[("2000000 kernel", 1), ("3000000 cpu", 1)])
    );
    assert!(
        imported.problems[0].contains("1 of page-faults"),
        "{:?}",
        imported.problems
    );
    let options = Options {
        event: Some("page-faults".to_string()),
        ..Options::default()
    };
    let imported = of_text_with(&options, text).expect("a known format");
    assert_eq!(by(&imported, |row| row.state.to_string()), sums(&[("user", 1)]));
}

#[test]
fn a_kernel_module_is_the_kernels_and_a_library_is_not() {
    let text = "a 1 2.5: 7 cycles: \n\t ffffffffc0000000 ext4_read ([ext4])\n\t ffffffffc0000000 xfs_read (/lib/m/xfs.ko.xz)\n\
                \t ffffffff81000000 [unknown] ([unknown])\n\t 7f00 x (/usr/lib/libx.korea.so)\n\t 7f00 [unknown] (/tmp/perf (deleted))\n\n";
    let imported = of_text(text).expect("a known format");
    assert_eq!(
        folded(&imported, "_[k]", |_| String::new()),
        sums(&[("[perf];x;[unknown]_[k];xfs_read_[k];ext4_read_[k]", 1)])
    );
    let row = &imported.rows.activity[0];
    let modules: Vec<String> = frames(&imported, row.kernel_stack)
        .into_iter()
        .map(|(module, _)| module)
        .collect();
    assert_eq!(modules, ["", "xfs", "ext4"]);
}

// ---- DTrace ----

/// inferno shortens names of Rust functions: hashes, arguments and what the compiler wrote instead of punctuation.
fn plain_rust(name: &str) -> String {
    let mut name = name.split(" (.llvm").next().unwrap_or_default().to_string();
    if let Some(at) = name.rfind("::h")
        && name.len() == at + 19
    {
        name.truncate(at);
    }
    for (escape, plain) in [
        ("$u7b$", "{"),
        ("$u7d$", "}"),
        ("$LT$", "<"),
        ("$GT$", ">"),
        ("$u20$", " "),
        ("..", "::"),
    ] {
        name = name.replace(escape, plain);
    }
    // It cuts a name at the first argument list or the first `<` or `,` that is not at its start.
    let letters = name.chars().filter(|c| c.is_alphanumeric() || *c == ':');
    letters.collect()
}

#[test]
fn dtrace_stacks_fold_as_inferno_folds_them() {
    let Some(folder) = data("dtrace") else { return };
    for (ending, expected) in [
        ("example-dtrace-stacks.txt", "results_dtrace-example.txt"),
        ("collapse-dtrace_stack-ustack.txt", "results_stack-ustack.txt"),
    ] {
        let imported = of_file(&file(&folder, ending));
        assert_eq!(imported.meta.collector.unit, Unit::Counts);
        let with_module = by(&imported, |row| {
            let frames = frames(&imported, row.user_stack);
            let frame = |(module, symbol): &(String, String)| match module.as_str() {
                "" => plain_rust(symbol),
                module => format!("{module}`{}", plain_rust(symbol)),
            };
            frames.iter().map(frame).collect::<Vec<_>>().join(";")
        });
        let text = std::fs::read_to_string(file(&folder, expected)).expect("text");
        let theirs = read_folded(&text, |stack| {
            let frame = |frame: &str| match frame.split_once('`') {
                Some((module, symbol)) => format!("{module}`{}", plain_rust(symbol)),
                None => plain_rust(frame),
            };
            stack.split(';').map(frame).collect::<Vec<_>>().join(";")
        });
        // Where inferno cut a name, ours begins with it.
        assert_eq!(with_module.len(), theirs.len(), "{ending}");
        let mut left = with_module.clone();
        for (stack, count) in &theirs {
            let fits = |ours: &str| {
                ours.split(';').count() == stack.split(';').count()
                    && ours
                        .split(';')
                        .zip(stack.split(';'))
                        .all(|(our, their)| our.starts_with(their))
            };
            let ours = left.iter().find(|(ours, n)| *n == count && fits(ours));
            let ours = ours
                .unwrap_or_else(|| panic!("{ending}: {stack} {count}"))
                .0
                .clone();
            left.remove(&ours);
        }
        assert!(left.is_empty());
        assert_eq!(imported.problems, Vec::<String>::new(), "{ending}");
    }
}

#[test]
fn one_line_aggregations_of_dtrace_are_stacks_of_one_frame() {
    let imported = of_text(
        "dtrace: description 'x' matched 1 probe\n\n  genunix`fop_read   12\n  unix`mutex_enter   3\n",
    );
    assert_eq!(
        folded(&imported.expect("a known format"), "", |_| String::new()),
        sums(&[("fop_read", 12), ("mutex_enter", 3)])
    );
}

// ---- folded, bcc ----

#[test]
fn folded_stacks_come_back_as_they_were() {
    let Some(folder) = data("perf_script") else { return };
    let path = file(&folder, "perf-iperf-stacks-pidtid-01-collapsed-kernel.txt");
    let text = std::fs::read_to_string(&path).expect("text");
    let imported = of_file(&path);
    assert_eq!(
        folded(&imported, "_[k]", |_| String::new()),
        read_folded(&text, str::to_string)
    );
    assert_eq!(imported.meta.collector.unit, Unit::Counts);
}

const OFF_CPU: &str = "Tracing off-CPU time (us) of PID 4711 by user + kernel stack... Hit Ctrl-C to end.\n^C\n\
    \x20   schedule\n    io_schedule\n    __x64_sys_pread64\n    entry_SYSCALL_64_after_hwframe\n    pread64\n    [unknown]\n\
    \x20   -                lto cgu.0 (4711)\n        2459\n\n\
    \x20   schedule\n    --\n    main\n    -                a (b) (4712)\n        41\n\n";

#[test]
fn off_cpu_time_is_time_that_was_measured() {
    let imported = of_text(OFF_CPU).expect("a known format");
    assert_eq!(
        folded(&imported, "_[k]", |row| title(&imported, row)),
        sums(&[
            (
                "lto cgu.0;[unknown];pread64;entry_SYSCALL_64_after_hwframe_[k];__x64_sys_pread64_[k];io_schedule_[k];schedule_[k]",
                2_459_000
            ),
            ("a (b);main;schedule_[k]", 41_000)
        ])
    );
    assert_eq!(imported.problems, Vec::<String>::new());
    assert_eq!(imported.meta.collector.tier, "exact");
    // libbpf-tools print no heading: then the unit is not known.
    let (_, headless) = OFF_CPU.split_once("^C\n").expect("a heading");
    let imported = of_text(headless).expect("a known format");
    assert_eq!(
        (imported.meta.collector.unit, total(&imported)),
        (Unit::Counts, 2_500)
    );
}

#[test]
fn samples_of_profile_have_the_rate_of_its_heading() {
    let text = "Sampling at 49 Hertz of all threads by user + kernel stack... Hit Ctrl-C to end.\n^C\n\
                \x20   func_a\n    main\n    -                func_ab (13549)\n        98\n\n";
    let imported = of_text(text).expect("a known format");
    assert_eq!(
        (imported.meta.collector.rate_hz, total(&imported)),
        (49, 2_000_000_000)
    );
    assert_eq!(
        by(&imported, |row| row.state.to_string()),
        sums(&[("cpu", 2_000_000_000)])
    );
    let imported = of_text(text.replace("49 Hertz", "every 1000 events")).expect("a known format");
    assert_eq!(
        (imported.meta.collector.unit, total(&imported)),
        (Unit::Samples, 98)
    );
}

// ---- all of them ----

#[test]
fn files_that_count_different_things_are_not_added() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file of our own");
        path
    };
    let counts = write("counts", "a;b 3\n");
    let samples = write("samples", SHORT_STACKS);
    let more = write("more", "a;c 4\n");
    let error = of_files(&[counts.clone(), samples])
        .expect_err("units differ")
        .to_string();
    assert!(
        error.contains("samples") && error.contains("on its own"),
        "{error}"
    );
    let both = of_files(&[counts, more]).expect("the same unit");
    assert_eq!((total(&both), both.rows.sessions.len()), (7, 2));
}

#[test]
fn names_of_any_bytes_are_kept_as_text() {
    let imported = of_text(b"a\x1b[31m;b<script>;\xff\xfe 3\n".to_vec());
    // This alone is not recognised as text: a file of folded stacks is.
    assert!(matches!(imported, Err(ImportError::UnknownFormat { .. })));
    let mut text = b"ok;a 1\n".repeat(30);
    text.extend_from_slice(b"a\x1b[31m;b<script>;\xff\xfe 3\n");
    let imported = of_text(text).expect("a known format");
    assert_eq!(total(&imported), 33);
    let names: Vec<String> = imported
        .rows
        .stacks
        .iter()
        .flat_map(|stack| stack.frames.iter().map(|frame| frame.symbol.clone()))
        .collect();
    assert!(
        names.iter().any(|name| name == "a\u{1b}[31m") && names.iter().any(|name| name.contains('\u{fffd}'))
    );
}

/// Small files of every format.
fn small_files() -> Vec<Vec<u8>> {
    let classic = "a+0x1/0x2\nb+0x3/0x40\n0xffffffffffffffff\nuser_f\nmain\nState:\tS (sleeping)\n\nevent#=158 (Oracle state)\n1\n\n";
    let perf = "x y 1/2 [001] 2.5: 1001001 cpu-clock: \n\tffffffff81000000 f+0x1 ([kernel.kallsyms])\n\t 10 g+0x5 (/bin/a)\n\n";
    let dtrace = "CPU     ID                    FUNCTION:NAME\n  0  64091                        :tick-60s \n\n\n   unix`f+0x1\n   unix`g\n   12\n\n";
    let folded = "a;b;c_[k] 123\nd 4\n";
    [classic, perf, dtrace, folded, SHORT_STACKS, OFF_CPU]
        .map(|text| text.repeat(3).into_bytes())
        .to_vec()
}

#[test]
fn a_file_cut_at_any_byte_gives_no_more_than_the_whole() {
    for whole in small_files() {
        let all = of_text(whole.clone()).expect("a known format");
        for cut in 0..whole.len() {
            // Cut before its format shows, it has none.
            if let Ok(part) = of_text(&whole[..cut])
                && part.meta.collector.unit == all.meta.collector.unit
            {
                assert!(total(&part) <= total(&all), "cut at {cut}");
            }
        }
    }
}

#[test]
fn real_files_cut_anywhere_give_no_more_than_the_whole() {
    for folder in ["stack_profiling", "perf_script", "dtrace"] {
        let Some(folder) = data(folder) else { continue };
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let whole = std::fs::read(&path).expect("a file");
            let all = of_file(&path);
            let mut last = 0;
            for cut in (0..whole.len()).step_by(whole.len() / 37 + 1) {
                let Ok(part) = of_text(&whole[..cut]) else {
                    continue;
                };
                if part.meta.collector.unit == all.meta.collector.unit {
                    assert!(total(&part) <= total(&all), "{}: cut at {cut}", path.display());
                    assert!(total(&part) >= last, "{}: cut at {cut}", path.display());
                    last = total(&part);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn damaged_files_never_panic(which in 0usize..6, damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
        let mut text = small_files().swap_remove(which);
        for (at, byte) in damage {
            let at = at.index(text.len());
            text[at] = byte;
        }
        let _ = of_text(text);
    }

    #[test]
    fn folded_stacks_of_any_names_keep_their_sum(stacks in prop::collection::vec(("[^;\\s#][^;\\n\\r]{0,20}", 0u64..1_000_000), 1..40)) {
        let text: String = stacks.iter().map(|(name, value)| format!("{name};x {value}\n")).collect();
        let Ok(imported) = of_text(text) else { return Ok(()) };
        if imported.meta.collector.engine.contains("folded") {
            prop_assert_eq!(total(&imported), stacks.iter().map(|(_, value)| value).sum::<u64>());
        }
    }
}
