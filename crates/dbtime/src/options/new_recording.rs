//! A recording of what is shown.

use std::path::PathBuf;

use clap::Args;

/// Where to put it; none: what is shown is not recorded.
#[derive(Debug, Args)]
pub struct NewRecording {
    /// Also record, into this new directory
    #[arg(short, long, value_name = "NAME.dbt")]
    pub output: Option<PathBuf>,
}
