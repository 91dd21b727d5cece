//! Which rows a report is about, and how moments are written on the command line.

use dbtime_model::choice::did_you_mean;
use dbtime_model::{Session, State, Wait};
use jiff::tz::TimeZone;

use crate::dimensions::Comment;
use crate::group::Dimension;

/// Microseconds in a second.
pub(crate) const SECOND_US: i64 = 1_000_000;

/// Which processes of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Whose {
    /// All of them.
    #[default]
    All,
    /// Those that work for clients.
    Foreground,
    /// Those that work for the server itself.
    Background,
}

/// Which rows count. Rows carry whole seconds, so both ends of the period are rounded down to the second: two adjacent periods share no
/// row and leave none out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// First second, microseconds since the Unix epoch; none = from the start.
    pub from_us: Option<i64>,
    /// First second after the period, microseconds since the Unix epoch; none = to the end.
    pub to_us: Option<i64>,
    /// Pids of the sessions; empty = all.
    pub sessions: Vec<u32>,
    /// Which of the server's processes.
    pub whose: Whose,
    /// Values that sessions, or comments of their statements, must have; of several values of a dimension, one must match. Empty = no
    /// condition.
    pub facts: Vec<(Dimension, String)>,
    /// Waits as `Class:Event`, `Class` or `Event`, `CPU` for none; empty = all.
    pub waits: Vec<String>,
    /// States; empty = all.
    pub states: Vec<State>,
    /// Ids of the statements; empty = all.
    pub statements: Vec<u64>,
}

impl Filter {
    /// Begin of the period, whole second.
    pub(crate) fn begin_us(&self) -> Option<i64> {
        self.from_us.map(whole_second)
    }

    /// End of the period, whole second, exclusive.
    pub(crate) fn end_us(&self) -> Option<i64> {
        self.to_us.map(whole_second)
    }

    /// True when not even a whole second is left between begin and end.
    pub fn is_empty_period(&self) -> bool {
        matches!((self.begin_us(), self.end_us()), (Some(begin), Some(end)) if begin >= end)
    }

    /// True if the period has an end that was chosen.
    pub(crate) fn is_of_a_period(&self) -> bool {
        self.from_us.is_some() || self.to_us.is_some()
    }

    /// True for a row of this second.
    pub fn takes_time(&self, time_us: i64) -> bool {
        self.begin_us().is_none_or(|begin| time_us >= begin) && self.end_us().is_none_or(|end| time_us < end)
    }

    /// True for a row of this session, whatever statement it executed: never if something is chosen that only comments say.
    pub fn takes_session(&self, session: &Session) -> bool {
        self.has_facts(session, |dimension| dimension.of_session(session))
    }

    /// True for a row of this session, in a statement with this comment.
    pub(crate) fn takes_request(&self, session: &Session, comment: Comment<'_>) -> bool {
        self.has_facts(session, |dimension| dimension.of_request(session, comment))
    }

    fn has_facts<'a>(&self, session: &Session, known: impl Fn(Dimension) -> Option<&'a str>) -> bool {
        let has = |(dimension, value): &(Dimension, String)| known(*dimension) == Some(value);
        let is_one_of = |(dimension, _): &(Dimension, String)| {
            let mut same = self.facts.iter().filter(|(other, _)| other == dimension);
            same.any(has)
        };
        let is_foreground = session.backend_type.is_foreground();
        let is_theirs = match self.whose {
            Whose::All => true,
            Whose::Foreground => is_foreground,
            Whose::Background => !is_foreground,
        };
        is_theirs
            && (self.sessions.is_empty() || self.sessions.contains(&session.pid))
            && self.facts.iter().all(is_one_of)
    }

    /// True when no sessions were chosen: what belongs to no session counts, too.
    pub fn takes_all_sessions(&self) -> bool {
        self.sessions.is_empty() && self.whose == Whose::All && self.facts.is_empty()
    }

    /// True when all time of the chosen sessions is meant: no wait, state, statement or comment was chosen.
    pub fn chooses_no_time(&self) -> bool {
        let is_of_sessions = |(dimension, _): &(Dimension, String)| dimension.is_of_sessions();
        self.waits.is_empty()
            && self.states.is_empty()
            && self.statements.is_empty()
            && self.facts.iter().all(is_of_sessions)
    }

    /// True for a row of this statement.
    pub fn takes_statement(&self, id: u64) -> bool {
        self.statements.is_empty() || self.statements.contains(&id)
    }

    /// True for a row of this wait and state.
    pub fn takes(&self, wait: &Wait, state: State) -> bool {
        (self.states.is_empty() || self.states.contains(&state))
            && (self.waits.is_empty() || self.waits.iter().any(|wanted| wait.is_called(wanted)))
    }
}

pub(crate) fn whole_second(us: i64) -> i64 {
    us.div_euclid(SECOND_US).saturating_mul(SECOND_US)
}

/// Parses a fact of sessions, or of comments of statements, as the user types it: `user=bob`, `route=/orders`.
///
/// # Errors
/// No such fact; the message lists those there are.
pub fn parse_fact(text: &str) -> Result<(Dimension, String), String> {
    let is_fact = |dimension: &Dimension| dimension.is_of_sessions() || dimension.is_of_comments();
    let fact = text.split_once('=').and_then(|(name, value)| {
        let dimension = Dimension::parse_of_time(name).ok().filter(is_fact)?;
        Some((dimension, value.to_string()))
    });
    fact.ok_or_else(|| {
        let facts: Vec<&str> = Dimension::OF_TIME
            .iter()
            .filter(|dimension| is_fact(dimension))
            .map(|dimension| dimension.as_str())
            .collect();
        let name = text.split_once('=').map_or("", |(name, _)| name);
        format!(
            "expected NAME=VALUE, where NAME is one of {}{}",
            facts.join(", "),
            did_you_mean(name, &facts)
        )
    })
}

/// Parses a moment as the user types it: seconds since the start of the recording (`12`, `12.5`, `+12s`, `2m`, `1h`), a timestamp (RFC
/// 3339: `2026-10-10T12:00:00Z`), or what reports show, in UTC: `2026-10-10 12:00:00`, or the time of day alone. Returns microseconds
/// since the Unix epoch.
///
/// # Errors
/// None of these; the message says which forms are accepted.
pub fn parse_moment(text: &str, start_us: i64) -> Result<i64, String> {
    let text = text.trim();
    if let Some(offset) = parse_offset(text) {
        return Ok(start_us.saturating_add(offset));
    }
    text.parse::<jiff::Timestamp>()
        .ok()
        .or_else(|| shown_moment(text, start_us))
        .map(jiff::Timestamp::as_microsecond)
        .ok_or_else(|| {
            format!(
                "'{text}' is not a time: give seconds since the start (12, +12s, 90s, 2m, 1h), a time of day in UTC (12:00:00), or \
                 a timestamp such as 2026-10-10T12:00:00Z"
            )
        })
}

/// As [`crate::group::moment`] writes it, or a time of day alone: its first occurrence in the recording.
fn shown_moment(text: &str, start_us: i64) -> Option<jiff::Timestamp> {
    // `12:00` may be minutes and seconds.
    if text.matches(':').count() != 2 {
        return None;
    }
    let moment = match text.parse::<jiff::civil::Time>() {
        Ok(time) => {
            let start = jiff::Timestamp::from_second(start_us.div_euclid(SECOND_US)).ok()?;
            let start = TimeZone::UTC.to_datetime(start);
            let today = start.date().to_datetime(time);
            match today < start {
                true => today.checked_add(jiff::Span::new().days(1)).ok()?,
                false => today,
            }
        }
        Err(_) => text.parse::<jiff::civil::DateTime>().ok()?,
    };
    TimeZone::UTC.to_timestamp(moment).ok()
}

/// `12`, `+12.5s`, `2m`, `1h` in microseconds.
fn parse_offset(text: &str) -> Option<i64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let (number, unit_us) = match text.char_indices().next_back()? {
        (at, 's') => (&text[..at], SECOND_US),
        (at, 'm') => (&text[..at], 60 * SECOND_US),
        (at, 'h') => (&text[..at], 3600 * SECOND_US),
        _ => (text, SECOND_US),
    };
    // Digits and one point: `inf`, `1e9` and a second sign are not moments.
    if !number.starts_with(|c: char| c.is_ascii_digit())
        || !number.chars().all(|c| c.is_ascii_digit() || c == '.')
    {
        return None;
    }
    let microseconds = number.parse::<f64>().ok()? * unit_us as f64;
    // A float beyond the range of i64 saturates.
    Some(microseconds.round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_seconds_since_the_start_or_timestamps() {
        let start = 1_000_500_000;
        let after = |us: i64| Ok(start + us);
        assert_eq!(parse_moment("12", start), after(12_000_000));
        assert_eq!(parse_moment("+12s", start), after(12_000_000));
        assert_eq!(parse_moment(" 90s ", start), after(90_000_000));
        assert_eq!(parse_moment("2m", start), after(120_000_000));
        assert_eq!(parse_moment("1.5h", start), after(5_400_000_000));
        assert_eq!(parse_moment("0.25", start), after(250_000));
        assert_eq!(parse_moment("1970-01-01T00:20:00Z", start), Ok(1_200_000_000));
        assert_eq!(
            parse_moment("1970-01-01T02:20:00+02:00", start),
            Ok(1_200_000_000)
        );
        // As reports show it. The recording began at 00:16:40.5, in the second that is shown as 00:16:40.
        assert_eq!(parse_moment("1970-01-01 00:20:00", start), Ok(1_200_000_000));
        assert_eq!(parse_moment("00:20:00", start), Ok(1_200_000_000));
        assert_eq!(parse_moment("00:16:40", start), Ok(1_000_000_000));
        assert_eq!(
            parse_moment("00:16:39.5", start),
            Ok(86_400_000_000 + 999_500_000)
        );
    }

    #[test]
    fn facts_are_names_with_values_and_others_say_what_there_is() {
        assert_eq!(parse_fact("user=bob"), Ok((Dimension::User, "bob".to_string())));
        assert_eq!(
            parse_fact("application=a=b"),
            Ok((Dimension::Application, "a=b".to_string()))
        );
        assert_eq!(parse_fact("client="), Ok((Dimension::Client, String::new())));
        for text in ["user", "wait=CPU", "second=3", "=", "nothing=x"] {
            let error = parse_fact(text).expect_err(text);
            assert!(
                error.contains("backend_type") && !error.contains("wait"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_no_moment_says_what_would_be() {
        for text in [
            "",
            "s",
            "+",
            "-3",
            "++3",
            "1e9",
            "inf",
            "nan",
            "3d",
            "1.2.3",
            "12:00",
            "2026-10-10",
            "３",
        ] {
            let error = parse_moment(text, 0).expect_err(text);
            assert!(
                error.contains("2026-10-10T12:00:00Z") && error.contains("+12s"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_moment_beyond_all_time_is_the_end_of_time() {
        assert_eq!(parse_moment(&"9".repeat(400), i64::MAX), Ok(i64::MAX));
    }

    #[test]
    fn the_first_second_of_a_recording_that_began_within_it_belongs_to_it() {
        let filter = Filter {
            from_us: Some(12_300_000),
            to_us: Some(14_300_000),
            ..Filter::default()
        };
        let taken: Vec<i64> = (10..17).filter(|s| filter.takes_time(s * SECOND_US)).collect();
        assert_eq!(taken, [12, 13]);
    }

    #[test]
    fn waits_are_named_by_class_by_event_or_by_both() {
        let takes = |wanted: &str, wait: Wait| {
            Filter {
                waits: vec![wanted.to_string()],
                ..Filter::default()
            }
            .takes(&wait, State::User)
        };
        let read = || Wait::event("IO", "DataFileRead", false);
        assert!(takes("IO", read()) && takes("DataFileRead", read()) && takes("IO:DataFileRead", read()));
        assert!(!takes("IO:DataFileWrite", read()) && !takes("CPU", read()));
        assert!(takes("CPU", Wait::none()) && takes("[not sampled]", Wait::not_sampled()));
    }
}
