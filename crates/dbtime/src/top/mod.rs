//! `dbtime top`: where database time goes, second by second, on a screen of the terminal. Of a server that runs, or of a recording.
//!
//! ```text
//! live         a collector, and the last seconds of its rows
//! saving       what is seen, as an ordinary recording
//! replay       a recording, some seconds of it at a time
//! feed         what both have in common: seconds that can be asked
//! controls     what is shown, and what each key changes
//! keys         which key is which
//! terminal     the terminal is taken and given back
//! ```

mod controls;
mod feed;
mod keys;
mod live;
mod replay;
mod saving;
mod terminal;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use dbtime_collect::give_up_all_privileges;
use dbtime_report::tui::Colours;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::arguments::TopArguments;
use crate::memory;
use crate::signals::{Second, stop_on_signals};
use controls::{Controls, Next};
use feed::Feed;
use terminal::Taken;

/// How long one look for keys takes: as soon a signal and a new second are noticed.
const LOOK: Duration = Duration::from_millis(100);
/// How long a terminal that takes no output any more is waited for at the end.
const PATIENCE: Duration = Duration::from_secs(2);

/// Shows the screen until somebody wants no more of it.
///
/// # Errors
/// There is no terminal; recording cannot begin; the recording cannot be read.
pub fn run(arguments: &TopArguments) -> anyhow::Result<ExitCode> {
    let colours = terminal::check()?;
    // The terminal must be given back, however often somebody asks to end.
    let stop = stop_on_signals(Second::Ignored)?;
    memory::give_back();
    match &arguments.replay {
        Some(recording) => replay::run(recording, arguments, colours, &stop)?,
        None => live::run(arguments, colours, &stop)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The screen, in a thread of its own: it never keeps waiting who records.
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
                // It draws what is in memory. A recording is read as long as it is played.
                if feed.is_live() {
                    give_up_all_privileges()?;
                }
                show(Controls::new(feed, seconds, colours), &stop)
            })
            .context("a thread for the screen")?;
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
                    false => "the terminal takes no more output",
                });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        match self.0.join() {
            Ok(shown) => shown,
            Err(_) => anyhow::bail!("the screen has failed"),
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
