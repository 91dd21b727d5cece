//! The command `dbtime`: arguments in, exit code out.

use std::process::ExitCode;

use clap::Parser;
use dbtime::commands::Arguments;
use dbtime::exit_code;
use dbtime::memory;
use dbtime::output::say_lines;

#[global_allocator]
static ALLOCATOR: memory::Bounded = memory::Bounded;

fn main() -> ExitCode {
    match Arguments::parse().command.run() {
        Ok(code) => code,
        Err(e) => {
            say_lines(format_args!("dbtime: {e:#}"));
            ExitCode::from(exit_code::of(&e))
        }
    }
}
