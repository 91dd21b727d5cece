//! `dbtime completions`: shell completion scripts, from the definition of the command line.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Arguments;
use crate::output;

/// `dbtime completions`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  source <(dbtime completions bash)\n  dbtime completions zsh > ~/.zfunc/_dbtime\n  \
                  dbtime completions fish > ~/.config/fish/completions/dbtime.fish"
)]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn run(arguments: &CompletionsArguments) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "dbtime", &mut script);
    output::to_stdout(|out| out.write_all(&script))?;
    Ok(ExitCode::SUCCESS)
}
