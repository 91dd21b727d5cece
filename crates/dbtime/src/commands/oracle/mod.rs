//! `dbtime oracle-map`, `dbtime oracle-snap` and `dbtime oracle-latch`: scripts for the database's own client.

use std::process::ExitCode;

use crate::output;

const MAP: &str = include_str!("map.sql");
const SNAP: &str = include_str!("snap.sql");
const LATCH: &str = include_str!("latch.sql");

/// Prints the script that makes the map for `record --oracle`.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn print_map() -> anyhow::Result<ExitCode> {
    output::print(MAP)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the script that reads the statistics of sessions twice.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn print_snap() -> anyhow::Result<ExitCode> {
    output::print(SNAP)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the script that samples who holds latches.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn print_latch() -> anyhow::Result<ExitCode> {
    output::print(LATCH)?;
    Ok(ExitCode::SUCCESS)
}
