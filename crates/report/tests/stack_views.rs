//! Stacks read as text, for the hand-made recording: every number can be checked against its table.

use std::collections::BTreeMap;

use crate::hand_made::{CPU, MS, READ, meta, row, rows, session, stack};
use dbtime_model::{ActivityRow, NO_STACK, Rows, StackId, State};
use dbtime_report::{
    Filter, Sort, Source, StackAnswer, StackOptions, StackReport, StackView, json, stacks, text,
};
use proptest::prelude::*;

fn options(view: StackView) -> StackOptions {
    StackOptions {
        filter: Filter::default(),
        view,
        sort: Sort::Own,
        top: usize::MAX,
        depth: None,
    }
}

fn answer(rows: Rows, options: &StackOptions) -> StackReport {
    stacks(&Source::memory(meta(), rows), options).expect("an answer")
}

fn ms(ms: u64) -> u128 {
    u128::from(ms * MS)
}

#[test]
fn equal_stacks_are_counted_without_their_offsets_and_the_hottest_is_last() {
    let mut rows = rows();
    // The same functions in another build, at other addresses.
    let mut other = rows.stacks[1].clone();
    for frame in &mut other.frames {
        (frame.offset, frame.build_id) = (frame.offset + 64, "other".into());
    }
    other.id = dbtime_model::stack_id(&other.frames);
    rows.activity.push(ActivityRow {
        user_stack: other.id,
        ..row(2, CPU, State::User, 100)
    });
    rows.stacks.push(other);
    let report = answer(rows.clone(), &options(StackView::Stacks));
    let StackAnswer::Stacks(counted) = &report.answer else {
        panic!("stacks were asked for")
    };
    let found: Vec<(&str, u128)> = counted
        .stacks
        .iter()
        .map(|stack| {
            (
                stack.functions.last().expect("a function").name.as_str(),
                stack.ns,
            )
        })
        .collect();
    // Two of sort; reads on CPU, in the kernel and blocked are one stack; everything else has none.
    assert_eq!(
        found,
        [
            ("qsort_tuple", ms(1_000)),
            ("[no stack]", ms(60 + 40 + 100 + 1_500)),
            ("copy_page_to_iter", ms(100 + 1_200 + 700)),
        ]
    );
    assert_eq!(report.total.total_ns(), ms(4_700));

    let cut = StackOptions {
        depth: Some(1),
        top: 2,
        ..options(StackView::Stacks)
    };
    let report = answer(rows, &cut);
    let StackAnswer::Stacks(counted) = &report.answer else {
        panic!("stacks were asked for")
    };
    assert!(counted.stacks[1].cut && counted.stacks[1].functions.len() == 1);
    assert_eq!((counted.others, counted.others_ns), (1, ms(1_000)));
    let text = text::render_stacks(&report, 100);
    let last = text.trim_end().lines().last().expect("a line");
    assert!(last.contains("42.6 %, 2.000 s"), "{text}");
    assert!(
        text.contains("    copy_page_to_iter [k]") && text.contains("(sampled)"),
        "{text}"
    );
}

#[test]
fn the_tree_adds_callees_into_their_callers() {
    let report = answer(rows(), &options(StackView::Tree));
    let StackAnswer::Tree(tree) = &report.answer else {
        panic!("a tree was asked for")
    };
    let node = |name: &str| {
        tree.nodes
            .iter()
            .find(|node| node.function.name == name)
            .unwrap_or_else(|| panic!("no {name}"))
    };
    // 900 of sort, 2000 of reads.
    let main = node("main");
    assert_eq!((main.depth, main.total_ns, main.self_ns), (0, ms(2_900), 0));
    let read = node("ReadBuffer");
    assert_eq!((read.total_ns, read.self_ns), (ms(2_000), 0));
    let copy = node("copy_page_to_iter");
    assert_eq!((copy.total_ns, copy.self_ns), (ms(2_000), ms(2_000)));
    assert!((copy.self_percent - 2_000.0 / 46.0).abs() < 1e-9, "{copy:?}");
    assert_eq!(node("[no stack]").total_ns, ms(1_700));

    let cut = StackOptions {
        depth: Some(2),
        top: 2,
        ..options(StackView::Tree)
    };
    let report = answer(rows(), &cut);
    let text = text::render_stacks(&report, 100);
    let StackAnswer::Tree(tree) = &report.answer else {
        panic!("a tree was asked for")
    };
    let names: Vec<&str> = tree
        .nodes
        .iter()
        .map(|node| node.function.name.as_str())
        .collect();
    assert_eq!(names, ["main", "PostmasterMain"]);
    assert_eq!(tree.hidden_roots_ns, ms(1_700));
    assert_eq!(tree.nodes[1].hidden_ns, ms(2_900));
    assert!(
        text.contains("(others)") && text.contains("Not shown: 18 call paths"),
        "{text}"
    );
}

#[test]
fn recursion_counts_once() {
    let recursive = stack(&["main", "walk", "walk", "leaf", "walk"], "postgres");
    let rows = Rows {
        activity: vec![ActivityRow {
            user_stack: recursive.id,
            ..row(1, CPU, State::User, 100)
        }],
        stacks: vec![recursive],
        sessions: vec![session(1, 1, "client backend", "", "")],
        ..Rows::default()
    };
    let report = answer(rows, &options(StackView::Functions));
    let StackAnswer::Functions(times) = &report.answer else {
        panic!("functions were asked for")
    };
    let found: Vec<(&str, u128, u128)> = times
        .functions
        .iter()
        .map(|time| (time.function.name.as_str(), time.self_ns, time.total_ns))
        .collect();
    assert_eq!(
        found,
        [
            ("walk", ms(100), ms(100)),
            ("leaf", 0, ms(100)),
            ("main", 0, ms(100))
        ]
    );
}

#[test]
fn modules_are_libraries_and_parts_of_the_kernel() {
    let user = stack(&["main", "ReadBuffer"], "postgres");
    let library = stack(&["__memmove_avx"], "libc.so.6");
    let kernel = |names: &[&str]| stack(names, "[kernel]");
    let ext4 = kernel(&["entry_SYSCALL_64", "vfs_read", "ext4_file_read_iter"]);
    let mm = kernel(&["entry_SYSCALL_64", "ext4_file_read_iter", "clear_page_erms"]);
    let net = kernel(&["entry_SYSCALL_64", "tcp_sendmsg", "_raw_spin_lock"]);
    let nvme = stack(&["nvme_queue_rq"], "nvme");
    // A sleep belongs to the code that fell asleep, not to the scheduler.
    let sleep = kernel(&[
        "ext4_file_read_iter",
        "blk_mq_get_tag",
        "io_schedule",
        "schedule",
        "__schedule",
    ]);
    let with = |wait, state, ms, kernel: StackId| ActivityRow {
        user_stack: user.id,
        kernel_stack: kernel,
        ..row(1, wait, state, ms)
    };
    let rows = Rows {
        activity: vec![
            with(CPU, State::User, 10, NO_STACK),
            ActivityRow {
                user_stack: library.id,
                ..row(1, CPU, State::User, 20)
            },
            with(READ, State::Kernel, 30, ext4.id),
            with(READ, State::Kernel, 40, mm.id),
            with(CPU, State::Kernel, 50, net.id),
            with(READ, State::Kernel, 60, nvme.id),
            with(READ, State::Disk, 70, sleep.id),
        ],
        stacks: vec![user, library, ext4, mm, net, nvme, sleep],
        sessions: vec![session(1, 1, "client backend", "", "")],
        counters: vec![dbtime_model::CounterRow {
            source: "oracle".into(),
            value: 10,
            ..crate::hand_made::kernel_counter(1, dbtime_model::counter::oracle::OUTER_EXECUTIONS, 1)
        }],
        ..Rows::default()
    };
    let report = answer(rows, &options(StackView::Modules));
    let StackAnswer::Modules(times) = &report.answer else {
        panic!("modules were asked for")
    };
    let found: Vec<(&str, u128)> = times
        .modules
        .iter()
        .filter(|module| module.sums.total_ns() > 0)
        .map(|module| (module.name.as_str(), module.sums.total_ns()))
        .collect();
    let expected = [
        ("block", 70),
        ("nvme", 60),
        ("net", 50),
        ("mm", 40),
        ("ext4", 30),
        ("libc", 20),
        ("postgres", 10),
    ];
    assert_eq!(found, expected.map(|(name, time)| (name, ms(time))));
    let ext4 = times
        .modules
        .iter()
        .find(|module| module.name == "ext4")
        .expect("ext4");
    assert_eq!(ext4.total_ns, ms(30 + 40 + 70));
    let text = text::render_stacks(&report, 120);
    // 70 ms divided by ten executions.
    assert!(
        text.contains("per execution") && text.contains("7.00 ms"),
        "{text}"
    );
}

#[test]
fn views_can_be_cut_by_wait_state_and_session() {
    let total = |filter: Filter| {
        let wanted = StackOptions {
            filter,
            ..options(StackView::Functions)
        };
        answer(rows(), &wanted).total.total_ns()
    };
    let waits = vec!["IO:DataFileRead".to_string()];
    assert_eq!(
        total(Filter {
            waits: waits.clone(),
            ..Filter::default()
        }),
        ms(1_900)
    );
    let states = vec![State::Disk];
    assert_eq!(
        total(Filter {
            waits,
            states,
            ..Filter::default()
        }),
        ms(700)
    );
    assert_eq!(
        total(Filter {
            sessions: vec![4712],
            ..Filter::default()
        }),
        ms(1_500)
    );
}

type Sample = (usize, usize, u64);

proptest! {
    #[test]
    fn every_view_has_all_the_time_once(samples in prop::collection::vec((0..4usize, 0..8usize, 1..1_000_000u64), 1..30)) {
        let all: [&[&str]; 4] = [&["a", "b", "c"], &["a", "b"], &["a", "c", "a"], &["b"]];
        let mut rows = Rows { sessions: vec![session(1, 1, "client backend", "", "")], ..Rows::default() };
        let mut sum = 0;
        for (number, state, ns) in &samples as &[Sample] {
            let stack = stack(all[*number], "m");
            sum += u128::from(*ns);
            rows.activity.push(ActivityRow { ns: *ns, user_stack: stack.id, ..row(1, CPU, State::ALL[*state], 1) });
            rows.stacks.push(stack);
        }
        for top in [1, 3, usize::MAX] {
            for view in [StackView::Stacks, StackView::Tree, StackView::Functions, StackView::Modules] {
                let report = answer(rows.clone(), &StackOptions { top, ..options(view) });
                let found: u128 = match &report.answer {
                    StackAnswer::Stacks(all) => all.others_ns + all.stacks.iter().map(|stack| stack.ns).sum::<u128>(),
                    StackAnswer::Tree(tree) => {
                        tree.hidden_roots_ns + tree.nodes.iter().map(|node| node.self_ns + node.hidden_ns).sum::<u128>()
                    }
                    StackAnswer::Functions(all) => {
                        all.others_self_ns + all.functions.iter().map(|time| time.self_ns).sum::<u128>()
                    }
                    StackAnswer::Modules(all) => {
                        all.others_sums.total_ns() + all.modules.iter().map(|time| time.sums.total_ns()).sum::<u128>()
                    }
                };
                prop_assert_eq!(found, sum);
                let document: serde_json::Value = serde_json::from_str(&json::render_stacks(&report)).expect("JSON");
                prop_assert_eq!(document["db_time_ns"].as_u64().map(u128::from), Some(sum));
            }
        }
    }

    /// Against all prefixes of all stacks, added up one by one.
    #[test]
    fn the_tree_shows_the_hottest_call_paths_with_their_time(samples in prop::collection::vec((0..6usize, 1..50u64), 1..30), top in 0..12usize) {
        let all: [&[&str]; 6] = [&["a", "b", "c"], &["a", "b"], &["a", "c", "a"], &["b"], &["a", "b", "d", "e"], &["b", "a", "b"]];
        let mut rows = Rows { sessions: vec![session(1, 1, "client backend", "", "")], ..Rows::default() };
        let mut truth = BTreeMap::new();
        for (number, ns) in &samples {
            let stack = stack(all[*number], "m");
            for end in 1..=all[*number].len() {
                *truth.entry(&all[*number][..end]).or_insert(0) += u128::from(*ns);
            }
            rows.activity.push(ActivityRow { ns: *ns, user_stack: stack.id, ..row(1, CPU, State::User, 1) });
            rows.stacks.push(stack);
        }
        let report = answer(rows, &StackOptions { top, ..options(StackView::Tree) });
        let StackAnswer::Tree(tree) = &report.answer else { panic!("a tree was asked for") };
        let (mut path, mut shown) = (Vec::new(), Vec::new());
        for node in &tree.nodes {
            path.truncate(node.depth);
            path.push(node.function.name.as_str());
            prop_assert_eq!(truth.get(&path[..]), Some(&node.total_ns), "{:?}", path);
            shown.push(node.total_ns);
        }
        let mut hottest: Vec<u128> = truth.values().copied().collect();
        hottest.sort_unstable_by(|one, other| other.cmp(one));
        prop_assert_eq!(tree.others, hottest.len().saturating_sub(top));
        hottest.truncate(top);
        shown.sort_unstable_by(|one, other| other.cmp(one));
        prop_assert_eq!(shown, hottest);
    }
}
