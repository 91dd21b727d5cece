//! Which part of a recording.

use clap::Args;
use dbtime_model::State;
use dbtime_report::{Dimension, Filter, Source, parse_fact, parse_moment};

use crate::usage::Usage;

fn parse_pid(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| "must be a pid, a whole number such as 4711".to_string())
}

/// Which part of a recording.
#[derive(Debug, Args)]
pub struct Selection {
    /// Leave out everything before this: seconds since the start (12, 90s, 2m) or a time (20:51:58 in UTC, or RFC 3339), each rounded down to a whole second of the clock, or, where rows stand for longer, extended to whole ones; for a store, a time or a day
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Leave out everything after this
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// From a store, only what was recorded on this host; may be repeated
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// From a store, only what was recorded of the server with this data directory; may be repeated
    #[arg(long, value_name = "DATADIR")]
    pub server: Vec<String>,
    /// Only this session; may be repeated
    #[arg(long, value_name = "PID", value_parser = parse_pid)]
    pub session: Vec<u32>,
    /// Only sessions with this attribute (user, database, application, client, backend_type …), or time in statements whose
    /// comment says this (trace, route, controller, action, comment_application); may be repeated: one of the values given
    /// for each name has to match
    #[arg(long = "where", value_name = "NAME=VALUE", value_parser = parse_fact)]
    pub facts: Vec<(Dimension, String)>,
    /// Only time in this wait event (Class:Event, or either of the two; CPU for none); may be repeated
    #[arg(long, value_name = "WAIT")]
    pub wait: Vec<String>,
    /// Only time in this state (user, kernel, runnable, disk, sleep …); may be repeated
    #[arg(long, value_name = "STATE")]
    pub state: Vec<State>,
    /// Only time in the statement with this id (PostgreSQL: queryid, or the fingerprint; Oracle: sql_id); may be repeated
    #[arg(long, value_name = "ID", allow_negative_numbers = true, value_parser = parse_statement)]
    pub query: Vec<i64>,
}

impl Selection {
    /// The filter for the selected rows of a source.
    ///
    /// # Errors
    /// What was typed is not a time.
    pub fn filter(&self, source: &Source) -> anyhow::Result<Filter> {
        if let Some(part) = source.part() {
            return Ok(self.within(part.from_us, part.to_us, source));
        }
        let moment = |option: &str, text: &Option<String>| {
            let moment = text.as_ref().map(|text| moment_of(option, text, source));
            moment.transpose()
        };
        let (from_us, to_us) = (moment("--from", &self.from)?, moment("--to", &self.to)?);
        Ok(self.within(from_us, to_us, source))
    }

    fn within(&self, from_us: Option<i64>, to_us: Option<i64>, source: &Source) -> Filter {
        let (from_us, to_us) = source.meta().collector.whole_windows(from_us, to_us);
        Filter {
            from_us,
            to_us,
            ..self.whole_time()
        }
    }

    /// The same selection without a period: only the recording that typed times refer to can resolve them.
    pub fn whole_time(&self) -> Filter {
        Filter {
            from_us: None,
            to_us: None,
            sessions: self.session.clone(),
            facts: self.facts.clone(),
            waits: self.wait.clone(),
            states: self.state.clone(),
            statements: self.query.iter().map(|id| id.cast_unsigned()).collect(),
            ..Filter::default()
        }
    }

    /// Fails if a kernel trace cannot be filtered by this selection.
    ///
    /// # Errors
    /// A wait event or a state is selected.
    pub fn takes_kernel_trace(&self) -> Result<(), Usage> {
        match self.wait.is_empty() && self.state.is_empty() {
            true => Ok(()),
            false => Err(Usage(
                "--wait and --state cannot select from a kernel trace, whose durations are those of whole calls; \
                'dbtime dive --wait' traces the calls of one wait event"
                    .to_string(),
            )),
        }
    }
}

/// An id as the server prints it, or as a recording's tables store it (the same 64 bits, unsigned); or Oracle's sql_id.
fn parse_statement(text: &str) -> Result<i64, String> {
    /// Length of a `sql_id`.
    const NAME: usize = 13;
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let is_letter = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
    match (
        text.parse::<u64>(),
        text.len() == NAME && text.bytes().all(is_letter),
    ) {
        (Ok(id), _) => Ok(id.cast_signed()),
        (_, true) => Ok(dbtime_import::statement_id(text.as_bytes()).cast_signed()),
        _ => Err(
            "give the id of a statement, as reports show it with --by query, or an Oracle sql_id".to_string(),
        ),
    }
}

/// Begin and end of the window that contains a moment, in microseconds since the Unix epoch.
///
/// # Errors
/// What was typed is not a time.
pub fn window_of(option: &str, text: &str, source: &Source) -> anyhow::Result<(i64, i64)> {
    Ok(source
        .meta()
        .collector
        .window_at(moment_of(option, text, source)?))
}

/// A moment in microseconds since the Unix epoch.
fn moment_of(option: &str, text: &str, source: &Source) -> Result<i64, Usage> {
    parse_moment(text, source.meta().start_us).map_err(|e| Usage(format!("{option}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::parse_statement;

    #[test]
    fn a_statement_is_named_as_any_of_our_answers_name_it() {
        assert_eq!(
            parse_statement("-4400013430294884342"),
            Ok(-4_400_013_430_294_884_342)
        );
        assert_eq!(
            parse_statement("14046730643414667274"),
            Ok(-4_400_013_430_294_884_342)
        );
        assert_eq!(
            parse_statement("309mwpa4tk161"),
            Ok(dbtime_import::statement_id(b"309mwpa4tk161").cast_signed())
        );
        for wrong in [
            "",
            "-",
            "1.5",
            "309mwpa4tk16",
            "309MWPA4TK161",
            "99999999999999999999",
        ] {
            assert!(parse_statement(wrong).is_err(), "{wrong}");
        }
    }
}
