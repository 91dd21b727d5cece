//! What is counted besides times and waits.

use clap::Args;
use dbtime_collect::Connect;

/// Whether the server is asked for its own statistics.
#[derive(Debug, Args)]
pub struct ServerStatistics {
    /// Also connect to the server and record its own statistics: pg_stat_database, pg_stat_io, pg_stat_wal and others; and what its sessions execute, where that cannot be read from memory. Connects through its socket, as the user that it runs as, unless PARAMETERS say otherwise: libpq's, 'host=… user=…'
    #[arg(
        long,
        value_name = "PARAMETERS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        conflicts_with_all = ["process", "oracle"]
    )]
    pub connect: Option<Connect>,
}
