//! Time by PL/pgSQL function, on hand-made rows.

use crate::hand_made::{CPU, meta, ms_by, row, session, sums};
use dbtime_model::{ActivityRow, Frame, NO_STACK, PLPGSQL, Rows, StackId, StackRow, State, stack_id};
use dbtime_report::{Dimension, Filter, Source};

/// A stack of these functions, which are PL/pgSQL if they have parentheses.
fn stack(symbols: &[&str]) -> StackRow {
    let frame = |symbol: &&str| Frame {
        symbol: (*symbol).to_string(),
        module: if symbol.contains('(') { PLPGSQL } else { "postgres" }.to_string(),
        build_id: String::new(),
        offset: 0,
    };
    let frames: Vec<Frame> = symbols.iter().map(frame).collect();
    StackRow {
        id: stack_id(&frames),
        frames,
    }
}

#[test]
fn time_is_that_of_the_innermost_function_and_its_line() {
    let stacks = vec![
        stack(&["main", "exec"]),
        stack(&[
            "main",
            "handler",
            "outer(integer)",
            "outer(integer) line 7",
            "exec",
        ]),
        stack(&[
            "main",
            "handler",
            "outer(integer)",
            "outer(integer) line 7",
            "exec",
            "handler",
            "inner()",
            "inner() line 2",
            "exec",
        ]),
        // It has not reached a line.
        stack(&[
            "main",
            "handler",
            "outer(integer)",
            "outer(integer) line 7",
            "exec",
            "handler",
            "inner()",
            "init",
        ]),
    ];
    let ids = stacks.iter().map(|stack| stack.id).chain([NO_STACK, StackId(77)]);
    let activity = ids.enumerate().map(|(n, id)| ActivityRow {
        user_stack: id,
        ..row(1, CPU, State::User, 100 << n)
    });
    let source = Source::memory(
        meta(),
        Rows {
            activity: activity.collect(),
            sessions: vec![session(1, 4711, "client backend", "bob", "shop")],
            stacks,
            ..Rows::default()
        },
    );
    let ms_by = |by| ms_by(&source, by, Filter::default());
    let (none, unknown) = (("[none]", 100), ("[unknown]", 1_600 + 3_200));
    assert_eq!(
        ms_by(Dimension::Routine),
        sums(&[none, ("outer(integer)", 200), ("inner()", 400 + 800), unknown])
    );
    assert_eq!(
        ms_by(Dimension::RoutineLine),
        sums(&[
            none,
            ("outer(integer) line 7", 200),
            ("inner() line 2", 400),
            ("inner()", 800),
            unknown
        ])
    );
}
