//! Time by what the comments of statements say, on hand-made rows.

use std::collections::BTreeMap;

use crate::hand_made::{self, CPU, meta, row, session, sums};
use dbtime_model::{ActivityRow, CommentRow, Rows, State, comment};
use dbtime_report::{Dimension, Filter, Options, ReportError, Source, parse_fact, report, text};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn comments() -> Vec<CommentRow> {
    [
        CommentRow {
            trace_id: TRACE.to_string(),
            span_id: "b7ad6b7169203331".to_string(),
            application: "shop".to_string(),
            controller: "orders".to_string(),
            action: "show".to_string(),
            route: "/orders/:id".to_string(),
            ..CommentRow::default()
        },
        CommentRow {
            trace_id: TRACE.replace('0', "1"),
            route: "/orders/:id".to_string(),
            ..CommentRow::default()
        },
        CommentRow {
            action: "\u{202e}</script>".to_string(),
            ..CommentRow::default()
        },
    ]
    .into_iter()
    .map(|values| CommentRow::of(values).expect("it says something"))
    .collect()
}

/// 100, 200, 400, 800, 1,600 and 3,200 ms: for the three comments, for none, for an unknown one and for one that is not described.
fn source() -> Source {
    let comments = comments();
    let ids = [
        comments[0].id,
        comments[1].id,
        comments[2].id,
        comment::NONE,
        comment::UNKNOWN,
        77,
    ];
    let activity = ids.iter().enumerate().map(|(n, id)| ActivityRow {
        comment: *id,
        ..row(1, CPU, State::User, 100 << n)
    });
    let rows = Rows {
        activity: activity.collect(),
        sessions: vec![session(1, 4711, "client backend", "bob", "shop")],
        comments,
        ..Rows::default()
    };
    Source::memory(meta(), rows)
}

fn ms_by(by: Dimension, facts: &[&str]) -> BTreeMap<String, u128> {
    hand_made::ms_by(&source(), by, filter(facts))
}

fn filter(facts: &[&str]) -> Filter {
    Filter {
        facts: facts.iter().map(|fact| parse_fact(fact).expect(fact)).collect(),
        ..Filter::default()
    }
}

#[test]
fn time_of_a_route_is_that_of_its_traces_and_what_is_not_known_stays_apart() {
    let unknown = ("[unknown]", 1_600 + 3_200);
    assert_eq!(
        ms_by(Dimension::Route, &[]),
        sums(&[("/orders/:id", 300), ("[none]", 400 + 800), unknown])
    );
    assert_eq!(
        ms_by(Dimension::Trace, &[]),
        sums(&[
            (TRACE, 100),
            (&TRACE.replace('0', "1"), 200),
            ("[none]", 400 + 800),
            unknown
        ])
    );
    assert_eq!(
        ms_by(Dimension::Action, &[]),
        sums(&[
            ("show", 100),
            ("\u{202e}</script>", 400),
            ("[none]", 200 + 800),
            unknown
        ])
    );
    assert_eq!(
        ms_by(Dimension::CommentApplication, &[]),
        sums(&[("shop", 100), ("[none]", 200 + 400 + 800), unknown])
    );
    // What the connection calls itself is something else.
    assert_eq!(ms_by(Dimension::Application, &[]), sums(&[("[none]", 6_300)]));
}

#[test]
fn a_trace_leads_to_its_time() {
    let trace = format!("trace={TRACE}");
    assert_eq!(ms_by(Dimension::Controller, &[&trace]), sums(&[("orders", 100)]));
    assert_eq!(
        ms_by(Dimension::User, &["route=/orders/:id"]),
        sums(&[("bob", 300)])
    );
    assert_eq!(
        ms_by(Dimension::User, &["route=/orders/:id", "user=bob", "action=show"]),
        sums(&[("bob", 100)])
    );
    assert_eq!(ms_by(Dimension::User, &["route="]), sums(&[("bob", 1_200)]));
    assert_eq!(
        ms_by(Dimension::User, &["route=[unknown]"]),
        sums(&[("bob", 4_800)])
    );
    let none = Options {
        filter: filter(&["route=/orders"]),
        ..Options::default()
    };
    let error = report(&source(), &none).expect_err("there is none");
    assert!(matches!(&error, ReportError::NoSuchFact { .. }), "{error}");
    assert!(error.to_string().contains("/orders/:id"), "{error}");
}

#[test]
fn hostile_values_are_printable() {
    let options = Options {
        by: vec![Dimension::Action],
        ..Options::default()
    };
    let report = report(&source(), &options).expect("a report");
    let page = text::render(&report, 120);
    assert!(page.contains("</script>") && !page.contains('\u{202e}'), "{page}");
}
