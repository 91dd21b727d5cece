//! What can be watched while recording: how many sessions, on average, did or waited for something, second by second.

use std::fmt;
use std::str::FromStr;

use dbtime_model::{ActivityRow, State};

/// Sessions of clients, and others that work for them, that …
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Measure {
    /// … worked or waited: `active`.
    Active,
    /// … waited for a CPU, whether in a wait event or not: `run_queue`.
    RunQueue,
    /// … waited for this: `wait=Lock`, `wait=IO:WALSync`. Case does not matter.
    Wait {
        /// Class of the event.
        class: String,
        /// The event; none: all of the class.
        event: Option<String>,
    },
    /// … were in this statement: `query=-42`, with the id that reports print.
    Query(u64),
}

impl Measure {
    /// Whether the time of a row, which is DB time, counts.
    pub(super) fn takes(&self, row: &ActivityRow) -> bool {
        match self {
            Measure::Active => true,
            Measure::RunQueue => row.state == State::Runnable,
            Measure::Wait { class, event } => {
                let is_event = |event: &String| event.eq_ignore_ascii_case(&row.wait_event);
                class.eq_ignore_ascii_case(&row.wait_class) && event.as_ref().is_none_or(is_event)
            }
            Measure::Query(id) => row.statement == *id,
        }
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(text: &str) -> Result<Measure, String> {
        let unknown = || {
            format!(
                "{text:?} cannot be watched: use \"active\", \"run_queue\", \"wait=Lock\", \"wait=IO:WALSync\" or \"query=-42\""
            )
        };
        if let Some(wait) = text.strip_prefix("wait=") {
            let (class, event) = match wait.split_once(':') {
                Some((class, event)) => (class, Some(event.to_string())),
                None => (wait, None),
            };
            return match class.is_empty() || event.as_ref().is_some_and(String::is_empty) {
                true => Err(unknown()),
                false => Ok(Measure::Wait {
                    class: class.to_string(),
                    event,
                }),
            };
        }
        if let Some(id) = text.strip_prefix("query=") {
            let id: i64 = id.parse().map_err(|_| unknown())?;
            return match id {
                // Stands for all whose statement is not known.
                0 => Err(unknown()),
                id => Ok(Measure::Query(id.cast_unsigned())),
            };
        }
        match text {
            "active" => Ok(Measure::Active),
            "run_queue" => Ok(Measure::RunQueue),
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::Active => f.write_str("active"),
            Measure::RunQueue => f.write_str("run_queue"),
            Measure::Wait { class, event: None } => write!(f, "wait={class}"),
            Measure::Wait {
                class,
                event: Some(event),
            } => write!(f, "wait={class}:{event}"),
            Measure::Query(id) => write!(f, "query={}", id.cast_signed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_what_can_be_typed() {
        for text in ["active", "run_queue", "wait=Lock", "wait=IO:WALSync", "query=-42"] {
            let measure: Measure = text.parse().expect(text);
            assert_eq!(measure.to_string(), text);
        }
        for text in [
            "", "Active", "wait", "wait=", "wait=IO:", "wait=:x", "query=", "query=x", "query=0",
        ] {
            let told = text.parse::<Measure>().expect_err(text);
            assert!(told.contains("cannot be watched"), "{told}");
        }
    }
}
