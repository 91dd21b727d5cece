//! Manual pages, and completions of shells, from the definition of what can be typed.

use std::path::Path;

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use dbtime_model::output::{Place, Readers};

use crate::arguments::Arguments;
use crate::output;

/// Prints what a shell completes words with.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "dbtime", &mut script);
    output::to_stdout(|out| out.write_all(&script))
}

/// Writes a page for the program and one for each command into this directory, for all to read.
///
/// # Errors
/// There is no such directory, or nothing can be made in it.
pub fn write_pages(directory: &Path) -> anyhow::Result<()> {
    let mut program = Arguments::command().disable_help_subcommand(true);
    // Commands get their full names by it.
    program.build();
    write_page(&program, directory)?;
    for command in program.get_subcommands().filter(|command| !command.is_hide_set()) {
        write_page(command, directory)?;
    }
    Ok(())
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
