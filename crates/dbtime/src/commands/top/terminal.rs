//! The terminal is taken for a screen, and given back however that ends.

use std::io::{self, IsTerminal, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use dbtime_report::tui::Colours;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Rect, Size};

use crate::usage::Usage;

/// Whether there is something to give back.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// What the terminal can show.
///
/// # Errors
/// There is none, or it cannot show a screen.
pub(super) fn check() -> Result<Colours, Usage> {
    if !io::stdout().is_terminal() {
        return Err(Usage(
            "dbtime top needs a terminal, and standard output is not one: 'dbtime record' and 'dbtime report' say the \
            same in text and JSON"
                .to_string(),
        ));
    }
    let variable = |name: &str| std::env::var(name).ok();
    let term = variable("TERM").unwrap_or_default();
    if term.is_empty() || term == "dumb" {
        return Err(Usage(format!(
            "dbtime top needs a terminal with a movable cursor, and TERM is {term}: set TERM to the terminal's type, \
            or use 'dbtime record' and 'dbtime report'"
        )));
    }
    Ok(Colours::of(
        variable("NO_COLOR").as_deref(),
        &term,
        variable("COLORTERM").as_deref(),
    ))
}

/// True when it has been closed, which is no signal to a process that ignores hangups (`nohup`). Whoever looks for keys then would look
/// for ever: crossterm 0.29 reads until there is nothing to read, and an end of file is not nothing.
pub(super) fn is_gone() -> bool {
    let mut wanted = libc::pollfd {
        fd: libc::STDOUT_FILENO,
        events: 0,
        revents: 0,
    };
    // SAFETY: one element, which lives as long as the call; it does not wait.
    let ready = unsafe { libc::poll(&raw mut wanted, 1, 0) };
    ready > 0 && wanted.revents & (libc::POLLHUP | libc::POLLERR) != 0
}

/// The terminal, as long as it is taken.
pub(super) struct Taken(Terminal<CrosstermBackend<Stdout>>);

impl Taken {
    /// Takes it.
    ///
    /// # Errors
    /// It does not let itself be taken.
    pub(super) fn take() -> io::Result<Taken> {
        enable_raw_mode()?;
        IS_TAKEN.store(true, Ordering::SeqCst);
        let taken = execute!(io::stdout(), EnterAlternateScreen, Hide)
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match taken {
            Ok(terminal) => Ok(Taken(terminal)),
            Err(e) => {
                give_back();
                Err(e)
            }
        }
    }

    /// Its columns and rows.
    ///
    /// # Errors
    /// It does not say.
    pub(super) fn size(&self) -> io::Result<Size> {
        self.0.size()
    }

    /// Shows what is drawn.
    ///
    /// # Errors
    /// It takes no output.
    pub(super) fn draw(&mut self, draw: impl FnOnce(Rect, &mut Buffer)) -> io::Result<()> {
        self.0.draw(|frame| draw(frame.area(), frame.buffer_mut()))?;
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives it back, once.
fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        // Nobody is left to be told that this did not work.
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = io::stdout().flush();
        let _ = disable_raw_mode();
    }
}

/// The same of a terminal that takes no output: its modes only.
pub(super) fn give_back_modes() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
    }
}

/// Whoever panics does so on the screen that was there before, where the message stays.
pub(super) fn give_back_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        before(panic);
    }));
}
