//! The command `dbtime`: arguments in, exit code out.

use std::process::ExitCode;

use dbtime::advice;
use dbtime::commands::Arguments;
use dbtime::exit_code;
use dbtime::memory;
use dbtime::output::say_lines;
use dbtime::working;

#[global_allocator]
static ALLOCATOR: memory::Bounded = memory::Bounded;

fn main() -> ExitCode {
    // An agent starts its parts as /proc/self/exe, which ps and top would show as "exe". A failure here does not matter.
    let _ = std::fs::write("/proc/self/comm", "dbtime");
    let ended = Arguments::of_command_line().and_then(|arguments| arguments.command.run());
    working::end();
    match ended {
        Ok(code) => code,
        Err(e) => {
            say_lines(format_args!("dbtime: {}", advice::told(&e)));
            ExitCode::from(exit_code::of(&e))
        }
    }
}
