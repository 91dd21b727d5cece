//! `dbtime agent`: records every server of this host continuously, and uploads the recordings to a store.
//!
//! It measures nothing itself. Each server has a `dbtime record` process, and one `dbtime store put` at a time uploads: a failure of one of
//! them affects nothing else, and each can be tried by hand.
//!
//! ```text
//! backoff     how long something that fails is left alone
//! config      the configuration file
//! child       a process of our own, which ends when we do
//! lines       what a child prints
//! recorders   a recorder for every server that runs
//! flights     short exact recordings, when something is not as it should be:
//!   conditions  when that is the case
//!   usual       what is usual at an hour
//!   budget      how long they may be
//! remembered  what the next agent has to know
//! spool       recordings on this host: which of them are complete, and how much there is
//! uploads     from the spool into the store
//! retention   what is removed from the spool: uploaded, too old or too much
//!   ages      how old it is, whatever the host's clock says
//! ```

mod ages;
mod backoff;
mod budget;
mod child;
mod conditions;
mod config;
mod flights;
mod lines;
mod recorders;
mod remembered;
mod retention;
mod spool;
mod uploads;
mod usual;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;

use crate::memory;
use crate::output::say;
use crate::signals::{Second, stop_on_signals};
use config::Config;
use flights::Flights;
use recorders::Recorders;
use spool::Spool;
use uploads::Uploads;

/// `dbtime agent`
#[derive(Debug, Args)]
#[command(after_help = "Example: sudo dbtime agent --config /etc/dbtime/agent.toml\n\n\
    The smallest configuration:\n  spool = \"/var/lib/dbtime\"\n  store = \"s3://bucket/fleet\"")]
pub struct AgentArguments {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = "/etc/dbtime/agent.toml")]
    config: PathBuf,
    /// Check the configuration and exit
    #[arg(long)]
    check: bool,
}

/// How often the children are checked.
const STEP: Duration = Duration::from_millis(500);

/// Runs until stopped.
///
/// # Errors
/// The configuration is invalid, or the spool cannot be opened.
pub(super) fn run(arguments: &AgentArguments) -> anyhow::Result<ExitCode> {
    // A second signal would end recorders before they have written what they know.
    let stop = stop_on_signals(Second::Ignored)?;
    // SAFETY: there is no other thread yet. What the agent creates does not belong to whoever called sudo.
    unsafe {
        for name in ["SUDO_UID", "SUDO_GID"] {
            std::env::remove_var(name);
        }
    }
    memory::give_back();
    let config = Config::read(&arguments.config)?;
    if arguments.check {
        say(format_args!(
            "{}: configuration is valid",
            arguments.config.display()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let spool = Spool::open(&config.spool)?;
    let mut recorders = Recorders::new(&config);
    let mut flights = Flights::new(&config, &spool)?;
    let mut uploads = Uploads::new(&config, &spool)?;
    say(format_args!(
        "recording {} into {}",
        match &config.servers {
            None => "every server of this host".to_string(),
            Some(only) => {
                let only: Vec<String> = only.iter().map(|of| of.display().to_string()).collect();
                format!("the servers on {}", only.join(", "))
            }
        },
        match &config.store {
            Some(store) => format!("{} and from there into {store}", config.spool.display()),
            None => config.spool.display().to_string(),
        }
    ));
    while !stop.load(Ordering::Relaxed) {
        recorders.look(&spool);
        let mut folders = recorders.folders();
        if let Some(flights) = &mut flights {
            flights.look(|server| recorders.has(server));
            recorders.take_seconds(|server, second| flights.add(server, second, &spool));
            folders.extend(flights.folder().map(Path::to_path_buf));
        }
        uploads.look(&spool, &folders);
        std::thread::sleep(STEP);
    }
    // What has been recorded so far is uploaded when the agent is started again.
    uploads.end();
    if let Some(flights) = flights {
        flights.end();
    }
    recorders.end();
    Ok(ExitCode::SUCCESS)
}
