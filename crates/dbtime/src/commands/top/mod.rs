//! `dbtime top`: where database time goes, second by second, on a terminal screen. Shows a running server, or a recording.
//!
//! ```text
//! live         a collector, and the last seconds of its rows
//! saving       what is seen, as an ordinary recording
//! replay       a recording, some seconds of it at a time
//! feed         what both have in common: seconds that can be queried
//! controls     what is shown, and what each key changes
//! keys         which key is which
//! terminal     taking over the terminal, and giving it back
//! ```

mod controls;
mod feed;
mod guard;
mod keys;
mod live;
mod replay;
mod saving;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use dbtime_collect::{Locks, Options, give_up_all_privileges};
use dbtime_report::tui::Colours;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::memory;
use crate::options::{Precision, TargetOptions, TextKind, any_rate};
use crate::remains::mend;
use crate::signals::{Second, stop_on_signals};
use crate::usage::Usage;
use controls::{Controls, Next};
use feed::Feed;
use terminal::Taken;

/// `dbtime top`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo dbtime top\n  sudo dbtime top --postgres /var/lib/postgresql/15/main --seconds 15\n  sudo dbtime top --exact=calls\n  dbtime top --replay slow.dbt --from 2m\n\nKeys: ? shows them, r records, q quits."
)]
pub struct TopArguments {
    #[command(flatten)]
    target: TargetOptions,
    /// Replay a recording second by second instead of showing a live server (needs no root)
    #[arg(long, value_name = "RECORDING", conflicts_with_all = ["pid", "postgres", "process", "oracle", "exact", "collector"])]
    replay: Option<PathBuf>,
    /// Begin the replay here: seconds since the start (12, 90s, 2m) or a time (20:51:58 in UTC, or RFC 3339)
    #[arg(long, value_name = "TIME", requires = "replay")]
    from: Option<String>,
    /// How many seconds the tables cover; + and - change it
    #[arg(short, long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=300))]
    seconds: u32,
    /// Samples per second and session
    #[arg(short = 'F', long = "frequency", value_name = "HZ", default_value_t = 99, conflicts_with = "replay", value_parser = any_rate())]
    rate_hz: u32,
    #[command(flatten)]
    precision: Precision,
    /// What is shown of the texts of statements
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "normalized",
        conflicts_with = "replay"
    )]
    text: TextKind,
}

/// How long one wait for keys takes: signals and new seconds are noticed as quickly.
const LOOK: Duration = Duration::from_millis(100);
/// How long to wait at the end for a terminal that accepts no output.
const PATIENCE: Duration = Duration::from_secs(2);

/// Shows the screen until the user quits.
///
/// # Errors
/// There is no terminal; recording cannot begin; the recording cannot be read.
pub(super) fn run(arguments: &TopArguments) -> anyhow::Result<ExitCode> {
    let colours = terminal::check()?;
    guard::begin().context("cannot start the process that restores the terminal")?;
    match &arguments.replay {
        Some(_) => memory::bound(None),
        None => mend(),
    }
    // The terminal must be restored, however often the user asks to end.
    let stop = stop_on_signals(Second::Ignored)?;
    memory::give_back();
    match Seen::of(arguments)? {
        Seen::Recording { path, from } => {
            replay::run(&path, from.as_deref(), arguments.seconds, colours, &stop)?
        }
        Seen::Server(options) => live::run(&options, arguments.seconds, colours, &stop)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What is on the screen.
enum Seen {
    /// A recording, from its begin or from a moment on.
    Recording { path: PathBuf, from: Option<String> },
    /// A running server.
    Server(Options),
}

impl Seen {
    fn of(arguments: &TopArguments) -> Result<Seen, Usage> {
        Ok(match &arguments.replay {
            Some(path) => Seen::Recording {
                path: path.clone(),
                from: arguments.from.clone(),
            },
            None => Seen::Server(Options {
                mechanism: arguments.precision.mechanism().map_err(Usage)?,
                tier: arguments.precision.tier(),
                texts: arguments.text.into(),
                locks: Locks::ThatMatter,
                ..Options::sampled(arguments.target.target(), arguments.rate_hz)
            }),
        })
    }
}

/// The screen, in its own thread: it never delays the recorder.
struct ScreenThread(JoinHandle<anyhow::Result<()>>);

impl ScreenThread {
    fn start(
        feed: Feed,
        seconds: u32,
        colours: Colours,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<ScreenThread> {
        terminal::give_back_on_panic();
        let stop = Arc::clone(stop);
        let thread = std::thread::Builder::new()
            .name("screen".to_string())
            .spawn(move || {
                // It draws what is in memory. A recording is read while it is played.
                if feed.is_live() {
                    give_up_all_privileges()?;
                }
                show(Controls::new(feed, seconds, colours), &stop)
            })
            .context("cannot start the screen thread")?;
        Ok(ScreenThread(thread))
    }

    /// True when it has ended, or will not end by itself.
    fn is_over(&self) -> bool {
        self.0.is_finished() || terminal::is_gone()
    }

    /// Waits for its end: `stop` is set, or it ends by itself.
    fn finish(self) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while !self.0.is_finished() {
            if Instant::now() >= until {
                terminal::give_back_modes();
                anyhow::bail!(match terminal::is_gone() {
                    true => "the terminal is gone",
                    false => "the terminal no longer takes output",
                });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        match self.0.join() {
            Ok(shown) => shown,
            Err(_) => anyhow::bail!("the screen thread failed"),
        }
    }
}

fn show(mut controls: Controls, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut taken = Taken::take().context("the terminal")?;
    let mut is_stale = true;
    while !stop.load(Ordering::Relaxed) {
        let size = taken.size().context("the terminal")?;
        is_stale |= controls.look(size);
        if std::mem::take(&mut is_stale) {
            taken
                .draw(|area, buffer| controls.draw(area, buffer))
                .context("the terminal")?;
        }
        let mut wait = LOOK;
        while event::poll(wait).context("the terminal")? {
            wait = Duration::ZERO;
            is_stale = true;
            if let Event::Key(key) = event::read().context("the terminal")?
                && key.kind != KeyEventKind::Release
                && controls.press(key) == Next::Quit
            {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    Ok(())
}
