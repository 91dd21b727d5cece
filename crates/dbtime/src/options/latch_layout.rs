//! How held locks are shown.

use clap::Args;
use dbtime_report::LatchColumn;

/// How held locks are shown.
#[derive(Debug, Args)]
pub struct LatchLayout {
    /// Show held locks (LWLocks) as one table by name, lock, relation, mode, session, user, backend_type, application, query, sql_id,
    /// statement, wait, state, where
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub columns: Vec<LatchColumn>,
}
