//! Sessions that come and go: what connecting cost, and what was pooled. Worked out on paper.

use std::path::Path;

use crate::hand_made::{CLIENT_READ, CPU, MS, START_US, meta, row, session, stack};
use dbtime_model::{ActivityRow, NO_STACK, Rows, SessionRow, StackId, State};
use dbtime_report::{Filter, FlameOptions, Options, Phase, Source, export, flame, json, report, text};

const NO_INTERFACE: (&str, &str, bool) = ("unknown", "no wait interface", false);

/// A postmaster with 300 ms of CPU, 200 of it in fork, and 50 in the run queue; two sessions that begin: of 400 ms of DB
/// time, 100 are in the catalogue, 60 of which are pooled, and 40 at the end.
fn source() -> Source {
    let fork = stack(&["main", "PostmasterMain", "fork"], "postgres");
    let clone = stack(&["do_syscall_64", "kernel_clone", "copy_page_range"], "[kernel]");
    let catalogue = stack(
        &["main", "PostmasterMain", "PostgresMain", "InitPostgres"],
        "postgres",
    );
    let end = stack(
        &["main", "PostmasterMain", "PostgresMain", "proc_exit"],
        "postgres",
    );
    let work = stack(
        &["main", "PostmasterMain", "PostgresMain", "exec_simple_query"],
        "postgres",
    );
    let at = |session, state, ms, user: StackId, kernel: StackId| ActivityRow {
        user_stack: user,
        kernel_stack: kernel,
        ..row(session, CPU, state, ms)
    };
    let of_postmaster = |state, ms, user, kernel| ActivityRow {
        wait_class: NO_INTERFACE.0.into(),
        wait_event: NO_INTERFACE.1.into(),
        ..at(9, state, ms, user, kernel)
    };
    let begun = |id| SessionRow {
        started: START_US + 1_000_000,
        ..session(id, 5_000 + id as u32, "client backend", "app", "shop")
    };
    let rows = Rows {
        activity: vec![
            of_postmaster(State::Kernel, 200, fork.id, clone.id),
            of_postmaster(State::User, 100, NO_STACK, NO_STACK),
            of_postmaster(State::Runnable, 50, NO_STACK, NO_STACK),
            at(1, State::User, 40, catalogue.id, NO_STACK),
            ActivityRow {
                pooled: true,
                samples: 0,
                ..at(2, State::User, 60, catalogue.id, NO_STACK)
            },
            at(2, State::User, 40, end.id, NO_STACK),
            at(2, State::User, 260, work.id, NO_STACK),
            row(2, CLIENT_READ, State::Sleep, 500),
        ],
        sessions: vec![begun(1), begun(2), session(9, 900, "postmaster", "", "")],
        stacks: vec![fork, clone, catalogue, end, work],
        ..Rows::default()
    };
    Source::memory(meta(), rows)
}

#[test]
fn what_connecting_cost_is_in_the_first_lines() {
    let report = report(&source(), &Options::default()).expect("a report");
    let connecting = report.connecting.as_ref().expect("sessions began");
    assert_eq!(connecting.sessions, 2);
    assert_eq!(connecting.postmaster_cpu_ns, u128::from(300 * MS));
    assert_eq!(connecting.fork_ns, u128::from(200 * MS));
    assert_eq!(connecting.postmaster_run_queue_ns, u128::from(50 * MS));
    let phases = Phase::ALL.map(|phase| connecting.phase_ns(phase) / u128::from(MS));
    assert_eq!(phases, [0, 0, 100, 40]);

    let text = text::render(&report, 100).replace('\n', " ");
    for expected in [
        "2 sessions began: connecting cost 0.300 s of CPU in the postmaster (150.000 ms each; 67 % of it in fork, sampled)",
        "which waited 0.050 s for a CPU",
        "Of DB time, 35.0 % is the start and end of sessions (sampled): catalogue and caches 0.100 s, end 0.040 s.",
        "Pooled: 15.0 % of DB time",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let place = |words: &str| text.find(words).expect("it is told");
    assert!(place("connecting cost") < place("Where DB time went"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&json::render(&report)).expect("JSON");
    assert_eq!(json["connecting"]["phases"]["catalogue"], 100 * MS);
    assert_eq!(json["pooled_ns"], 60 * MS);
    assert_eq!(json["ledger"][0]["pooled_ns"], 60 * MS);
    assert_eq!(json["quality"]["pooled_ns"], 60 * MS);
}

#[test]
fn of_a_part_of_the_sessions_nothing_is_said_of_connecting() {
    let options = Options {
        filter: Filter {
            sessions: vec![5_001],
            ..Filter::default()
        },
        ..Options::default()
    };
    assert_eq!(report(&source(), &options).expect("a report").connecting, None);
}

#[test]
fn a_flame_graph_says_what_is_pooled() {
    let folded = flame(&source(), &FlameOptions::default()).expect("a flame graph");
    assert_eq!(folded.pooled_ns, u128::from(60 * MS));
    let mut svg = Vec::new();
    export::write(&folded, Path::new("x.svg"), &mut svg).expect("it is written");
    let svg = String::from_utf8(svg).expect("text");
    assert!(svg.contains("15.0 % pooled"), "{svg}");
}
