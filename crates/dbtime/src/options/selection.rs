//! Which part of a recording.

use clap::Args;
use dbtime_model::State;
use dbtime_report::{Dimension, Filter, parse_fact};

/// Which part of a recording.
#[derive(Debug, Args)]
pub struct Selection {
    /// Leave out what was before: seconds since the start (12, 90s, 2m) or a time (RFC 3339); of a store a time, or a day
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Leave out what came after
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Of a store, only what was recorded on this host; may be repeated
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// Only this session; may be repeated
    #[arg(long, value_name = "PID")]
    pub session: Vec<u32>,
    /// Only sessions of which this is known (user, database, application, client, backend_type …); may be repeated: one of the
    /// values of each name
    #[arg(long = "where", value_name = "NAME=VALUE", value_parser = parse_fact)]
    pub facts: Vec<(Dimension, String)>,
    /// Only time in this wait event (Class:Event, or either of the two; CPU for none); may be repeated
    #[arg(long, value_name = "WAIT")]
    pub wait: Vec<String>,
    /// Only time in this state (user, kernel, runnable, disk, sleep …); may be repeated
    #[arg(long, value_name = "STATE")]
    pub state: Vec<State>,
    /// Only time in the statement with this id (PostgreSQL: queryid, or the fingerprint); may be repeated
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    pub query: Vec<i64>,
}

impl Selection {
    /// The same rows of all of the time: moments are told by the recording that they are of.
    pub fn whole_time(&self) -> Filter {
        Filter {
            from_us: None,
            to_us: None,
            sessions: self.session.clone(),
            facts: self.facts.clone(),
            waits: self.wait.clone(),
            states: self.state.clone(),
            statements: self.query.iter().map(|id| id.cast_unsigned()).collect(),
        }
    }
}
