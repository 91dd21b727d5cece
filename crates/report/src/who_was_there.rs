//! Checks that a filter matches a session at all, and lists what there is if not: an empty answer would hide a typing error.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use dbtime_model::Session;

use crate::dimensions::Dimensions;
use crate::filter::{Filter, Whose};
use crate::group::{Dimension, NOT_KNOWN};
use crate::report::ReportError;
use crate::scan::MOST_NAMED;

/// Checks that each part of the filter matches something, and that some session matches all of it.
///
/// # Errors
/// None does; says what there is.
pub(crate) fn check(filter: &Filter, dimensions: &Dimensions) -> Result<(), ReportError> {
    check_pids(filter, dimensions)?;
    check_facts(filter, dimensions)?;
    check_all(filter, dimensions)
}

fn check_pids(filter: &Filter, dimensions: &Dimensions) -> Result<(), ReportError> {
    let pids = filter.sessions.iter().copied();
    let absent: Vec<u32> = pids.filter(|pid| !dimensions.has_pid(*pid)).collect();
    if absent.is_empty() {
        return Ok(());
    }
    // Sessions that work for clients come first: usually one of them is meant.
    let with_pid = dimensions.sessions().filter(|session| session.pid != 0);
    let recorded: BTreeSet<(bool, u32)> = with_pid
        .map(|session| (!session.backend_type.is_foreground(), session.pid))
        .collect();
    Err(ReportError::NoSuchSession {
        pids: absent,
        more: recorded.len() > MOST_NAMED,
        recorded: recorded
            .iter()
            .take(MOST_NAMED)
            .map(|(_, pid)| pid.to_string())
            .collect(),
    })
}

fn check_facts(filter: &Filter, dimensions: &Dimensions) -> Result<(), ReportError> {
    for (dimension, value) in &filter.facts {
        let of_sessions = dimensions
            .sessions()
            .filter_map(|session| dimension.of_session(session));
        let of_comments = dimensions
            .comments()
            .filter_map(|comment| dimension.of_comment(comment));
        let recorded: BTreeSet<&str> = of_sessions.chain(of_comments).collect();
        let may_be_nothing = dimension.is_of_comments() && matches!(value.as_str(), "" | NOT_KNOWN);
        if !recorded.contains(value.as_str()) && !may_be_nothing {
            let quoted = recorded.iter().map(|text| match text.is_empty() {
                true => "'' (none)".to_string(),
                false => format!("'{text}'"),
            });
            return Err(ReportError::NoSuchFact {
                dimension: *dimension,
                value: value.clone(),
                recorded: quoted.take(MOST_NAMED).collect(),
                more: recorded.len() > MOST_NAMED,
            });
        }
    }
    Ok(())
}

/// Each part alone matches something.
fn check_all(filter: &Filter, dimensions: &Dimensions) -> Result<(), ReportError> {
    let chosen = of_sessions_alone(filter);
    let mut sessions = dimensions.sessions().peekable();
    // If no session is described, only the rows can tell.
    if chosen.takes_all_sessions()
        || sessions.peek().is_none()
        || sessions.any(|session| chosen.takes_session(session))
    {
        return Ok(());
    }
    let parts = parts(&chosen);
    let described: BTreeSet<(Reverse<usize>, String)> = dimensions
        .sessions()
        .map(|session| described(session, &parts))
        .collect();
    let wanted: Vec<String> = parts.iter().map(wanted).collect();
    Err(ReportError::NoSessionOfAll {
        chosen: wanted.join(" and "),
        more: described.len() > MOST_NAMED,
        recorded: described
            .into_iter()
            .take(MOST_NAMED)
            .map(|(_, text)| text)
            .collect(),
    })
}

/// The filter without what comments of statements say, which only the rows know.
fn of_sessions_alone(filter: &Filter) -> Filter {
    let facts = filter.facts.iter();
    Filter {
        sessions: filter.sessions.clone(),
        whose: filter.whose,
        facts: facts
            .filter(|(dimension, _)| dimension.is_of_sessions() && !dimension.is_of_comments())
            .cloned()
            .collect(),
        ..Filter::default()
    }
}

/// One filter for each property of sessions that is chosen by.
fn parts(chosen: &Filter) -> Vec<Filter> {
    let mut parts = Vec::new();
    if !chosen.sessions.is_empty() {
        parts.push(Filter {
            sessions: chosen.sessions.clone(),
            ..Filter::default()
        });
    }
    if chosen.whose != Whose::All {
        parts.push(Filter {
            whose: chosen.whose,
            ..Filter::default()
        });
    }
    let mut dimensions: Vec<Dimension> = Vec::new();
    for (dimension, _) in &chosen.facts {
        if !dimensions.contains(dimension) {
            dimensions.push(*dimension);
        }
    }
    parts.extend(dimensions.into_iter().map(|dimension| {
        let facts = chosen.facts.iter();
        Filter {
            facts: facts.filter(|(of, _)| *of == dimension).cloned().collect(),
            ..Filter::default()
        }
    }));
    parts
}

/// A part as the user types it.
fn wanted(part: &Filter) -> String {
    let whose = match part.whose {
        Whose::All => None,
        Whose::Foreground => Some("fg".to_string()),
        Whose::Background => Some("bg".to_string()),
    };
    let pids = part.sessions.iter().map(|pid| format!("pid {pid}"));
    let facts = part.facts.iter();
    let facts = facts.map(|(dimension, value)| format!("{dimension} '{value}'"));
    let all: Vec<String> = whose.into_iter().chain(pids).chain(facts).collect();
    all.join(" or ")
}

/// What a session is in terms of each part; those that match most of them first.
fn described(session: &Session, parts: &[Filter]) -> (Reverse<usize>, String) {
    let is = |part: &Filter| match (part.facts.first(), part.whose) {
        (Some((dimension, _)), _) => {
            format!(
                "{dimension} '{}'",
                dimension.of_session(session).unwrap_or_default()
            )
        }
        (None, Whose::All) => format!("pid {}", session.pid),
        (None, _) => session.backend_type.to_string(),
    };
    let true_ones = parts.iter().filter(|part| part.takes_session(session)).count();
    let texts: Vec<String> = parts.iter().map(is).collect();
    (Reverse(true_ones), texts.join(" with "))
}

#[cfg(test)]
mod tests {
    use dbtime_model::recording::Meta;
    use dbtime_model::{Rows, SessionId, SessionRow};

    use super::*;
    use crate::load::Source;

    fn dimensions() -> Dimensions {
        let session = |id: u64, pid, backend_type: &str, user: &str, database: &str| SessionRow {
            id: SessionId(id),
            pid,
            backend_type: backend_type.into(),
            user: user.to_string(),
            database: database.to_string(),
            ..SessionRow::default()
        };
        let rows = Rows {
            sessions: vec![
                session(1, 30, "client backend", "bob", "shop"),
                session(2, 20, "client backend", "eve", "hr"),
                session(3, 10, "checkpointer", "", ""),
            ],
            ..Rows::default()
        };
        Source::memory(Meta::default(), rows).dimensions()
    }

    fn said(filter: Filter) -> String {
        check(&filter, &dimensions()).map_or_else(|error| error.to_string(), |()| String::new())
    }

    fn facts(facts: &[(Dimension, &str)]) -> Filter {
        Filter {
            facts: facts
                .iter()
                .map(|(dimension, value)| (*dimension, value.to_string()))
                .collect(),
            ..Filter::default()
        }
    }

    #[test]
    fn pids_that_are_not_there_say_which_are_those_of_clients_first() {
        let pids = |pids: &[u32]| Filter {
            sessions: pids.to_vec(),
            ..Filter::default()
        };
        assert_eq!(said(pids(&[10, 20])), "");
        assert_eq!(
            said(pids(&[20, 1, 2])),
            "no session with pid 1, 2 in this recording; it has 20, 30, 10"
        );
    }

    #[test]
    fn who_has_no_user_can_be_chosen_as_long_as_there_is_one() {
        assert_eq!(said(facts(&[(Dimension::User, "")])), "");
        assert_eq!(
            said(facts(&[(Dimension::Application, "psql")])),
            "no session with application 'psql' in this recording; it has '' (none)"
        );
        let all_have_one = Filter {
            whose: Whose::Foreground,
            ..facts(&[(Dimension::User, "")])
        };
        assert_eq!(
            said(all_have_one),
            "no session in this recording matches fg and user ''; it has checkpointer with user '', client backend with user \
            'bob', client backend with user 'eve'"
        );
    }

    #[test]
    fn parts_that_are_true_of_different_sessions_choose_nobody_and_say_so() {
        let bob_in_shop = [(Dimension::User, "bob"), (Dimension::Database, "shop")];
        assert_eq!(said(facts(&bob_in_shop)), "");
        // One of several values has to match.
        let more = [bob_in_shop[0], (Dimension::Database, "hr"), bob_in_shop[1]];
        assert_eq!(said(facts(&more)), "");
        let bob_in_hr = [(Dimension::User, "bob"), (Dimension::Database, "hr")];
        assert_eq!(
            said(facts(&bob_in_hr)),
            "no session in this recording matches user 'bob' and database 'hr'; it has user 'bob' with database 'shop', user \
            'eve' with database 'hr', user '' with database ''"
        );
        let pid_of_bg = Filter {
            sessions: vec![20],
            whose: Whose::Background,
            ..Filter::default()
        };
        assert_eq!(
            said(pid_of_bg),
            "no session in this recording matches pid 20 and bg; it has pid 10 with checkpointer, pid 20 with client backend, \
            pid 30 with client backend"
        );
    }

    #[test]
    fn what_only_rows_can_tell_is_not_said_to_be_missing() {
        // What comments say; and if no session is described.
        assert_eq!(
            said(facts(&[(Dimension::User, "bob"), (Dimension::Route, "")])),
            ""
        );
        let nobody = Source::memory(Meta::default(), Rows::default()).dimensions();
        let foreground = Filter {
            whose: Whose::Foreground,
            ..Filter::default()
        };
        assert_eq!(check(&foreground, &nobody), Ok(()));
    }
}
