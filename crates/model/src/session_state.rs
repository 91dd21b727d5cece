//! What a database says about a session as a whole, in the words of PostgreSQL's `pg_stat_activity.state`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// State of a session, as the database calls it; what the operating system says about it is
/// [`crate::State`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SessionState {
    /// The database reports none: a background process, or not known.
    #[default]
    #[serde(rename = "")]
    None,
    /// Its connection is being established.
    #[serde(rename = "starting")]
    Starting,
    /// It executes a statement.
    #[serde(rename = "active")]
    Active,
    /// It waits for a command.
    #[serde(rename = "idle")]
    Idle,
    /// It waits for a command in a transaction, whose locks others may wait for.
    #[serde(rename = "idle in transaction")]
    IdleInTransaction,
    /// The same, and the transaction has failed.
    #[serde(rename = "idle in transaction (aborted)")]
    IdleInFailedTransaction,
    /// It executes a function that a client called without a statement.
    #[serde(rename = "fastpath function call")]
    FastpathCall,
    /// It does not say: `track_activities` is off.
    #[serde(rename = "disabled")]
    Disabled,
}

impl SessionState {
    /// Every state, each at the index of its number.
    pub const ALL: [SessionState; 8] = [
        SessionState::None,
        SessionState::Starting,
        SessionState::Active,
        SessionState::Idle,
        SessionState::IdleInTransaction,
        SessionState::IdleInFailedTransaction,
        SessionState::FastpathCall,
        SessionState::Disabled,
    ];

    /// The name used in recordings and in reports; empty for none.
    pub fn as_str(self) -> &'static str {
        match self {
            SessionState::None => "",
            SessionState::Starting => "starting",
            SessionState::Active => "active",
            SessionState::Idle => "idle",
            SessionState::IdleInTransaction => "idle in transaction",
            SessionState::IdleInFailedTransaction => "idle in transaction (aborted)",
            SessionState::FastpathCall => "fastpath function call",
            SessionState::Disabled => "disabled",
        }
    }

    /// True while its transaction is open and it waits for its client.
    pub fn is_idle_in_transaction(self) -> bool {
        matches!(
            self,
            SessionState::IdleInTransaction | SessionState::IdleInFailedTransaction
        )
    }
}

impl fmt::Display for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_has_the_names_that_reports_show() {
        for (number, state) in SessionState::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, number);
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
    }
}
