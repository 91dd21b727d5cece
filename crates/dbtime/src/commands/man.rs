//! `dbtime man`: the manual pages, from the definition of the command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command, CommandFactory};
use dbtime_model::output::{Place, Readers};

use super::Arguments;

/// `dbtime man`
#[derive(Debug, Args)]
#[command(after_help = "Example: dbtime man /usr/local/share/man/man1")]
pub struct ManArguments {
    /// Directory for the pages
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes a page for the program and one for each command into this directory, for all to read.
///
/// # Errors
/// There is no such directory, or nothing can be created in it.
pub(super) fn run(arguments: &ManArguments) -> anyhow::Result<ExitCode> {
    let mut program = Arguments::command().disable_help_subcommand(true);
    // This gives commands their full names.
    program.build();
    write_page(&program, &arguments.directory)?;
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        write_page(command, &arguments.directory)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_page(command: &Command, directory: &Path) -> anyhow::Result<()> {
    let source = format!("dbtime {}", env!("CARGO_PKG_VERSION"));
    let page = clap_mangen::Man::new(command.clone()).source(source);
    let path = directory.join(page.get_filename());
    let write = |place: Place| place.write(Readers::Everyone, |mut out| page.render(&mut out));
    Place::of(&path)
        .and_then(write)
        .with_context(|| path.display().to_string())
}
