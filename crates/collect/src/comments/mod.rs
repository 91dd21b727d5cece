//! What applications say about their requests in the comments of statements; each comment is described once in a recording. Traces
//! differ in every request, so they are limited: beyond the limit only the route, controller, action and application are known, and
//! beyond another limit nothing.

mod ends;
mod parse;

use std::collections::{HashSet, VecDeque};

use dbtime_model::{CommentRow, Rows, comment};

pub(crate) use ends::Ends;
use parse::{Said, parse};

/// Maximum number of described comments with a trace, and bytes of their values.
const MOST_TRACES: usize = 100_000;
const MOST_TRACE_TEXT: usize = 32 << 20;
/// Maximum number of comments without a trace.
const MOST_OTHERS: usize = 10_000;
/// Statements of a session whose comments are remembered: samples arrive one or two statements later.
const REMEMBERED: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Comments {
    /// Described comments with a trace.
    traces: HashSet<u64>,
    trace_text: usize,
    others: HashSet<u64>,
    has_more: bool,
}

impl Comments {
    /// The id of what the comments of a text say, which is described in `rows` if it was not before.
    pub(crate) fn id_of(&mut self, ends: Ends<'_>, rows: &mut Rows) -> u64 {
        match parse(ends) {
            Said::Nothing => comment::NONE,
            Said::NotKnown => comment::UNKNOWN,
            Said::Values(values) => self.number(values, rows),
        }
    }

    fn number(&mut self, values: CommentRow, rows: &mut Rows) -> u64 {
        let id = values.id;
        if self.traces.contains(&id) || self.others.contains(&id) {
            return id;
        }
        if values.trace_id.is_empty() {
            return self.number_other(values, rows);
        }
        let text = self.trace_text + values.text();
        if self.traces.len() >= MOST_TRACES || text > MOST_TRACE_TEXT {
            self.has_more = true;
            let without = CommentRow::of(CommentRow {
                trace_id: comment::MORE.to_string(),
                span_id: String::new(),
                ..values
            });
            return without.map_or(comment::UNKNOWN, |values| self.number_other(values, rows));
        }
        self.trace_text = text;
        self.traces.insert(id);
        rows.comments.push(values);
        id
    }

    fn number_other(&mut self, mut values: CommentRow, rows: &mut Rows) -> u64 {
        if self.others.len() >= MOST_OTHERS && !self.others.contains(&values.id) {
            self.has_more = true;
            let more = || comment::MORE.to_string();
            let nameless = CommentRow::of(CommentRow {
                id: 0,
                trace_id: more(),
                span_id: String::new(),
                application: more(),
                controller: more(),
                action: more(),
                route: more(),
            });
            let Some(nameless) = nameless else {
                return comment::UNKNOWN;
            };
            values = nameless;
        }
        let id = values.id;
        if self.others.insert(id) {
            rows.comments.push(values);
        }
        id
    }

    /// True if there were more comments than are described.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }
}

/// The comments of the last statements of a session, by when the statements began.
#[derive(Debug, Default)]
pub(crate) struct LastComments(VecDeque<(u64, u64)>);

impl LastComments {
    /// The statement that began at `since` has this comment.
    pub(crate) fn learn(&mut self, since: u64, id: u64) {
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((since, id));
    }

    /// The comment of the statement that began at `since`.
    pub(crate) fn of(&self, since: u64) -> u64 {
        let known = self.0.iter().rev().find(|(began, _)| *began == since);
        known.map_or(comment::UNKNOWN, |(_, id)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(comments: &mut Comments, text: &str, rows: &mut Rows) -> u64 {
        let (begin, end) = (text.as_bytes(), text.as_bytes());
        comments.id_of(
            Ends {
                begin,
                end,
                is_whole: true,
            },
            rows,
        )
    }

    fn traced(n: usize, route: &str) -> String {
        format!(
            "select 1 /*route='{route}',traceparent='00-{:032x}-{:016x}-01'*/",
            n + 1,
            n + 1
        )
    }

    #[test]
    fn equal_comments_are_described_once() {
        let (mut comments, mut rows) = (Comments::default(), Rows::default());
        let first = id_of(&mut comments, "select 1 /*route='a'*/", &mut rows);
        assert_eq!(id_of(&mut comments, "/*route='a'*/ select 2", &mut rows), first);
        assert_ne!(id_of(&mut comments, "select 1 /*action='a'*/", &mut rows), first);
        assert_eq!(id_of(&mut comments, "select 1", &mut rows), comment::NONE);
        assert_eq!(rows.comments.len(), 2);
        assert_eq!((rows.comments[0].id, &*rows.comments[0].route), (first, "a"));
        assert!(!comments.has_more());
    }

    #[test]
    fn too_many_traces_are_one_of_each_route_and_too_many_routes_are_one() {
        let (mut comments, mut rows) = (Comments::default(), Rows::default());
        for n in 0..MOST_TRACES {
            id_of(&mut comments, &traced(n, "a"), &mut rows);
        }
        assert!(!comments.has_more());
        let more = id_of(&mut comments, &traced(MOST_TRACES, "a"), &mut rows);
        assert_eq!(
            id_of(&mut comments, &traced(MOST_TRACES + 1, "a"), &mut rows),
            more
        );
        assert!(comments.has_more());
        let last = rows.comments.last().expect("a row");
        assert_eq!(
            (last.id, &*last.trace_id, &*last.route),
            (more, comment::MORE, "a")
        );
        // Those already known stay.
        assert_ne!(id_of(&mut comments, &traced(7, "a"), &mut rows), more);
        assert_eq!(rows.comments.len(), MOST_TRACES + 1);
        for n in 0..2 * MOST_OTHERS {
            id_of(&mut comments, &format!("select 1 /*route='{n}'*/"), &mut rows);
        }
        assert_eq!(rows.comments.len(), MOST_TRACES + MOST_OTHERS + 1);
        assert_eq!(rows.comments.last().expect("a row").route, comment::MORE);
    }

    #[test]
    fn long_values_of_traces_have_a_bound_of_their_own() {
        let (mut comments, mut rows) = (Comments::default(), Rows::default());
        let long = "x".repeat(256);
        for n in 0..MOST_TRACES {
            let text = traced(n, &long).replace(
                "traceparent",
                &format!("action='{long}',controller='{long}',traceparent"),
            );
            id_of(&mut comments, &text, &mut rows);
        }
        let bytes: usize = rows.comments.iter().map(CommentRow::text).sum();
        assert!(comments.has_more() && bytes < MOST_TRACE_TEXT + 1_000, "{bytes}");
    }

    #[test]
    fn a_session_remembers_its_last_comments_only() {
        let mut last = LastComments::default();
        for since in 1..=20 {
            last.learn(since, since + 100);
        }
        assert_eq!((last.of(20), last.of(13)), (120, 113));
        assert_eq!((last.of(12), last.of(21)), (comment::UNKNOWN, comment::UNKNOWN));
    }
}
