//! User stacks of programs whose stack is known, and of servers built with and without frame pointers: they are complete.

use std::path::Path;
use std::time::Duration;

use dbtime::throwaway::Options;
use dbtime_model::{Frame, State};
use dbtime_tests::{
    Programs, Recorded, Recorder, Running, Server, Session, builds, distribution, needs_recording, pgbench,
    say,
};

/// Of what is sampled; the rest may be moments in which the process had only just begun.
const NEARLY_ALL: f64 = 0.99;

fn record(pid: u32, seconds: u32) -> Recorded {
    let seconds = seconds.to_string();
    Recorder::start(&["--process", &pid.to_string(), "-d", &seconds, "-F", "199"]).finish()
}

fn run(program: &Path, arguments: &[&str]) -> (Running, Recorded) {
    let running = Running::start(program, arguments);
    std::thread::sleep(Duration::from_millis(200));
    let recorded = record(running.pid(), 2);
    (running, recorded)
}

fn names(frames: &[Frame]) -> Vec<String> {
    frames
        .iter()
        .map(|frame| format!("{}`{}", frame.module, frame.symbol))
        .collect()
}

/// Share of the samples whose stack is as it should be.
#[track_caller]
fn assert_stacks(
    pid: u32,
    recorded: &Recorded,
    states: &[State],
    least: u64,
    is_right: impl Fn(&[Frame]) -> bool,
) {
    let stacks = recorded.user_stacks(pid);
    let of_states = || stacks.iter().filter(|(_, state, _)| states.contains(state));
    let all: u64 = of_states().map(|(_, _, samples)| samples).sum();
    let right: u64 = of_states()
        .filter(|(frames, ..)| is_right(frames))
        .map(|(_, _, samples)| samples)
        .sum();
    let wrong: Vec<_> = of_states()
        .filter(|(frames, ..)| !is_right(frames))
        .map(|(frames, ..)| names(frames))
        .collect();
    assert!(all >= least, "only {all} samples");
    assert!(
        right as f64 >= NEARLY_ALL * all as f64,
        "{right} of {all} stacks are right; not these: {wrong:#?}"
    );
}

/// From the program's first instruction to `third`, frame by frame. What main is called by belongs to the C library.
fn after_third(frames: &[Frame]) -> Option<&[Frame]> {
    let at = frames.iter().position(|frame| frame.symbol == "main")?;
    let (callers, rest) = frames.split_at(at);
    let begin = callers.first().is_some_and(|frame| frame.symbol == "_start");
    let chain: Vec<&str> = rest.iter().take(4).map(|frame| frame.symbol.as_str()).collect();
    (begin && callers.len() <= 3 && chain == ["main", "first", "second", "third"]).then(|| &rest[4..])
}

fn is_libc(frame: &Frame) -> bool {
    frame.module.starts_with("libc.so")
}

const ON_CPU: [State; 3] = [State::User, State::Kernel, State::Runnable];
const OFF_CPU: [State; 1] = [State::Sleep];

#[test]
fn every_frame_is_there_through_the_c_library_on_and_off_cpu() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "chain.c", "chain", &[]);

    let (running, recorded) = run(&program, &["sort"]);
    assert_stacks(running.pid(), &recorded, &ON_CPU, 50, |frames| {
        after_third(frames).is_some_and(|rest| match rest {
            [] => true,
            [.., leaf] => {
                is_libc(&rest[0]) && (is_libc(leaf) || ["compare", "spin"].contains(&&*leaf.symbol))
            }
        })
    });
    let in_callback = recorded.user_stacks(running.pid()).iter().any(|(frames, ..)| {
        after_third(frames).is_some_and(|rest| rest.len() >= 2 && rest.iter().any(|f| f.symbol == "compare"))
    });
    assert!(in_callback, "the callback is called by the C library");
    drop(running);

    let (running, recorded) = run(&program, &["copy"]);
    assert_stacks(running.pid(), &recorded, &ON_CPU, 50, |frames| {
        after_third(frames).is_some_and(|rest| rest.iter().all(is_libc) && rest.len() <= 1)
    });
    drop(running);

    for call in ["nanosleep", "read", "condition"] {
        let (running, recorded) = run(&program, &[call]);
        assert_stacks(running.pid(), &recorded, &OFF_CPU, 100, |frames| {
            after_third(frames).is_some_and(|rest| !rest.is_empty() && rest.iter().all(is_libc))
        });
        assert_eq!(recorded.meta.quality.stacks_broken, 0, "{call}");
    }
}

#[test]
fn the_kernels_own_code_and_frames_larger_than_a_copy_of_the_stack_are_passed() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "chain.c", "chain", &[]);
    let (running, recorded) = run(&program, &["clock"]);
    assert_stacks(running.pid(), &recorded, &ON_CPU, 50, |frames| {
        after_third(frames).is_some()
    });
    let stacks = recorded.user_stacks(running.pid());
    let in_vdso = stacks.iter().any(|(frames, ..)| {
        frames
            .last()
            .is_some_and(|leaf| leaf.module == "[vdso]" && leaf.symbol.contains("clock_gettime"))
    });
    assert!(
        in_vdso,
        "{:#?}",
        stacks.iter().map(|s| names(s.0)).collect::<Vec<_>>()
    );
    drop(running);

    let (running, recorded) = run(&program, &["large"]);
    assert_stacks(running.pid(), &recorded, &OFF_CPU, 20, |frames| {
        after_third(frames).is_some_and(|rest| !rest.is_empty() && rest.iter().all(is_libc))
    });
}

#[test]
fn a_signal_handler_stands_on_what_it_interrupted() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "chain.c", "chain", &[]);
    for what in ["signal", "signal on another stack"] {
        let (running, recorded) = run(&program, &[what]);
        assert_stacks(running.pid(), &recorded, &ON_CPU, 50, |frames| {
            after_third(frames).is_some_and(|rest| {
                let handler = rest.iter().position(|frame| frame.symbol == "on_signal");
                handler.is_some_and(|at| at >= 1 && is_libc(&rest[at - 1]))
            })
        });
        assert_eq!(recorded.meta.quality.stacks_broken, 0, "{what}");
    }
}

#[test]
fn more_frames_than_are_kept_are_cut_and_counted() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "chain.c", "chain", &[]);
    let (running, recorded) = run(&program, &["deep"]);
    assert_stacks(running.pid(), &recorded, &ON_CPU, 50, |frames| {
        frames.len() >= 126 && frames[0].symbol == "deeper"
    });
    let quality = &recorded.meta.quality;
    assert!(quality.stacks_truncated > 50, "{quality:?}");
    assert_eq!((quality.stacks_complete, quality.stacks_broken), (0, 0));
    assert_eq!(
        recorded.report(&[]).quality.stacks_truncated,
        quality.stacks_truncated
    );
}

#[test]
fn a_library_that_is_loaded_later_is_known_within_a_moment() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "chain.c", "chain", &[]);
    let library = programs.compile("gcc", "library.c", "library.so", &["-shared", "-fPIC"]);
    let running = Running::start(&program, &["later", library.to_str().expect("a plain path")]);
    let recorded = record(running.pid(), 5);
    let stacks = recorded.user_stacks(running.pid());
    let in_library = stacks
        .iter()
        .filter(|(frames, ..)| frames.iter().any(|frame| frame.module == "library.so"));
    let (mut right, mut all) = (0, 0);
    for (frames, _, samples) in in_library {
        all += samples;
        let rest = after_third(frames).unwrap_or_default();
        if rest
            .iter()
            .map(|f| &*f.symbol)
            .eq(["in_library", "deep_in_library"])
        {
            right += samples;
        }
    }
    // Until the map is read again, its stacks are broken.
    assert!(all > 100 && right as f64 > 0.8 * all as f64, "{right} of {all}");
}

#[test]
fn a_program_without_libraries_and_one_whose_file_is_gone_resolve() {
    needs_recording!();
    let programs = Programs::default();
    for (name, arguments) in [
        ("static-pie", &["-static-pie"][..]),
        ("static", &["-static"]),
        ("fixed", &["-no-pie"]),
    ] {
        let program = programs.compile("gcc", "chain.c", name, arguments);
        let (running, recorded) = run(&program, &["spin"]);
        assert_stacks(running.pid(), &recorded, &ON_CPU, 50, |frames| {
            after_third(frames).is_some()
        });
        drop(running);
    }
    let program = programs.compile("gcc", "chain.c", "gone", &[]);
    let running = Running::start(&program, &["spin"]);
    std::fs::remove_file(&program).expect("it was made a moment ago");
    let recorded = record(running.pid(), 2);
    assert_stacks(running.pid(), &recorded, &ON_CPU, 50, |frames| {
        after_third(frames).is_some() && frames.iter().any(|frame| frame.module == "gone")
    });
}

#[test]
fn names_are_demangled() {
    needs_recording!();
    let programs = Programs::default();
    for (program, name) in [
        (
            programs.compile("g++", "mangled.cc", "mangled", &[]),
            "space::Shape<int>::turn",
        ),
        (
            programs.compile_rust("mangled.rs", "mangled-rust"),
            "space::Shape<u64>",
        ),
    ] {
        let (running, recorded) = run(&program, &[]);
        assert_stacks(running.pid(), &recorded, &ON_CPU, 50, |frames| {
            frames.last().is_some_and(|leaf| leaf.symbol.contains(name))
        });
    }
}

/// True when the stack ends in `outer` and what was inlined into it.
fn ends_in_inlined(frames: &[Frame]) -> bool {
    let symbols: Vec<&str> = frames.iter().map(|frame| frame.symbol.as_str()).collect();
    symbols.ends_with(&["main", "outer", "inner_[i]"])
}

#[test]
fn inlined_functions_are_frames_of_their_own_also_by_a_debug_file() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "inlined.c", "inlined", &["-g", "-Wl,--build-id=sha1"]);
    let (running, recorded) = run(&program, &[]);
    assert_stacks(running.pid(), &recorded, &ON_CPU, 50, ends_in_inlined);
    drop(running);

    // As distributions do it: the program has nothing left, a file named by its build id has all.
    let _installed = programs.move_debug_file(&program);
    let (running, recorded) = run(&program, &[]);
    assert_stacks(running.pid(), &recorded, &ON_CPU, 50, ends_in_inlined);
}

#[test]
fn code_that_is_made_at_run_time_has_the_names_of_its_perf_map() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "inlined.c", "inlined", &[]);
    let (running, recorded) = run(&program, &["made"]);
    let map = format!("/tmp/perf-{}.map", running.pid());
    assert_stacks(running.pid(), &recorded, &ON_CPU, 50, |frames| {
        frames
            .last()
            .is_some_and(|leaf| leaf.symbol == "made_while_running")
    });
    std::fs::remove_file(map).expect("the program has written it");
}

/// At least 99.5 % of all stacks are complete, on CPU and off.
fn a_server(server: &Server) {
    let cluster = server.start(Options::default());
    pgbench::initialise(&cluster, 1);
    let (mut sleeper, mut burner) = (Session::connect(&cluster), Session::connect(&cluster));
    // Loads the procedural language: what is mapped later is another test's.
    burner.run("DO $$ BEGIN END $$");
    let recorder = Recorder::server(&cluster, &["-F", "499"]);
    let load = pgbench::Load::of_reads(&cluster);
    std::thread::scope(|scope| {
        scope.spawn(|| sleeper.run("SELECT pg_sleep(6)"));
        burner.burn(Duration::from_secs(6));
    });
    drop(load);
    let recorded = recorder.stop();
    let quality = recorded.report(&[]).quality;
    let taken = quality.stacks_complete + quality.stacks_truncated + quality.stacks_broken;
    let complete = quality.stacks_complete_percent.expect("stacks were taken");
    let cost = recorded
        .meta
        .cost
        .programs
        .iter()
        .find(|program| program.name == "timer sample");
    let cost = cost.expect("samples were taken");
    say(&format!(
        "{}: {complete:.3} % of {taken} stacks are complete; a sample of the timer took {} ns on average; tables {} bytes in {} ms",
        server.name,
        cost.ns / cost.runs.max(1),
        recorded.meta.cost.unwind_table_bytes,
        recorded.meta.cost.unwind_build_ns / 1_000_000,
    ));
    assert!(taken > 500, "{taken}");
    assert!(complete >= 99.5, "{quality:?}");
}

#[test]
fn a_server_built_with_frame_pointers_has_complete_stacks() {
    needs_recording!();
    a_server(&distribution());
}

#[test]
fn servers_built_without_frame_pointers_have_complete_stacks() {
    needs_recording!();
    for server in builds(&[17]) {
        a_server(&server);
    }
}
