//! For people or for programs.

use clap::{Args, ValueEnum};

/// Output formats of what is a table to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// Tables for a terminal
    Text,
    /// JSON
    Json,
}

/// One answer.
#[derive(Debug, Args)]
pub struct AnswerFormat {
    /// For people or for programs
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    pub format: TableFormat,
}

/// Answers one after the other.
#[derive(Debug, Args)]
pub struct StreamFormat {
    /// For people, or for programs (one JSON object per line)
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    pub format: TableFormat,
}
