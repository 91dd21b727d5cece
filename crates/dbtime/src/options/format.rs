//! Output format.

use clap::{Args, ValueEnum};

/// Output formats of what people see as a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// Tables for a terminal
    Text,
    /// JSON
    Json,
}

/// Output formats of snapshots of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SnapshotFormat {
    /// Tables for a terminal
    Text,
    /// One line for each thing that grew
    Csv,
    /// JSON, one line for each snapshot
    Json,
}

/// One answer.
#[derive(Debug, Args)]
pub struct AnswerFormat {
    /// Output format
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    pub format: TableFormat,
}

/// Answers one after the other.
#[derive(Debug, Args)]
pub struct StreamFormat {
    /// Output format (json: one object per line)
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    pub format: TableFormat,
}
