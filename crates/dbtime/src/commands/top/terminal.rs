//! Takes over the terminal for a screen, and restores it however that ends.

use std::io::{self, IsTerminal, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use dbtime_report::tui::Colours;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::{Position, Rect, Size};
use ratatui::{Terminal, TerminalOptions, Viewport};
use rustix::termios::tcgetwinsize;

use super::guard;
use crate::usage::Usage;

/// Whether there is something to restore.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// What the terminal can show.
///
/// # Errors
/// There is no terminal, or it cannot show a screen.
pub(super) fn check() -> Result<Colours, Usage> {
    if !io::stdout().is_terminal() {
        return Err(Usage(
            "dbtime top needs a terminal, and standard output is not one: 'dbtime record' and 'dbtime report' show the \
            same in text and JSON"
                .to_string(),
        ));
    }
    let variable = |name: &str| std::env::var(name).ok();
    let term = variable("TERM").unwrap_or_default();
    if term.is_empty() || term == "dumb" {
        return Err(Usage(format!(
            "dbtime top needs a terminal with a movable cursor, and TERM is {}: set TERM to the terminal's type, \
            or use 'dbtime record' and 'dbtime report'",
            if term.is_empty() { "not set" } else { &term }
        )));
    }
    Ok(Colours::of(
        variable("NO_COLOR").as_deref(),
        &term,
        variable("COLORTERM").as_deref(),
    ))
}

/// True if it has been closed, which a process that ignores hangups (`nohup`) gets no signal for. Looking for keys would then never return:
/// crossterm 0.29 reads until nothing is left, and an end of file does not count as nothing.
pub(super) fn is_gone() -> bool {
    let mut wanted = libc::pollfd {
        fd: libc::STDOUT_FILENO,
        events: 0,
        revents: 0,
    };
    // SAFETY: one element, which outlives the call; it does not wait.
    let ready = unsafe { libc::poll(&raw mut wanted, 1, 0) };
    ready > 0 && wanted.revents & (libc::POLLHUP | libc::POLLERR) != 0
}

/// The terminal, while it is taken.
pub(super) struct Taken {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    size: Size,
}

impl Taken {
    /// Takes it.
    ///
    /// # Errors
    /// The terminal cannot be taken.
    pub(super) fn take() -> io::Result<Taken> {
        enable_raw_mode()?;
        IS_TAKEN.store(true, Ordering::SeqCst);
        let size = size();
        // By default it would query the size before each drawing, and open the terminal again for that.
        let viewport = TerminalOptions {
            viewport: Viewport::Fixed(Rect::from((Position::ORIGIN, size))),
        };
        let taken = execute!(io::stdout(), EnterAlternateScreen, Hide)
            .and_then(|()| Terminal::with_options(CrosstermBackend::new(io::stdout()), viewport));
        match taken {
            Ok(terminal) => Ok(Taken { terminal, size }),
            Err(e) => {
                give_back();
                Err(e)
            }
        }
    }

    /// Its columns and rows, to which drawings are fitted from now on.
    ///
    /// # Errors
    /// The terminal accepts no output.
    pub(super) fn size(&mut self) -> io::Result<Size> {
        let size = size();
        if self.size != size {
            self.terminal.resize(Rect::from((Position::ORIGIN, size)))?;
            self.size = size;
        }
        Ok(size)
    }

    /// Shows what is drawn.
    ///
    /// # Errors
    /// The terminal accepts no output.
    pub(super) fn draw(&mut self, draw: impl FnOnce(Rect, &mut Buffer)) -> io::Result<()> {
        self.terminal
            .draw(|frame| draw(frame.area(), frame.buffer_mut()))?;
        Ok(())
    }
}

/// Columns and rows of the terminal; 80 x 24, the classic size, if it does not say.
fn size() -> Size {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Size::new(size.ws_col, size.ws_row),
        _ => Size::new(80, 24),
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores it, once.
fn give_back() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        write_given_back(&mut io::stdout());
        let _ = io::stdout().flush();
        let _ = disable_raw_mode();
        guard::is_given_back();
    }
}

/// Shows the screen that was there before, and the cursor.
pub(super) fn write_given_back(out: &mut impl Write) {
    // There is nobody left to report a failure to.
    let _ = execute!(out, LeaveAlternateScreen, Show);
}

/// The same for a terminal that accepts no output: restores only its modes.
pub(super) fn give_back_modes() {
    if IS_TAKEN.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        guard::is_given_back();
    }
}

/// Makes a panic restore the previous screen first, so that its message stays visible.
pub(super) fn give_back_on_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        before(panic);
    }));
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::mem::MaybeUninit;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    /// Set in the process that panics.
    const PANICS: &str = "DBTIME_TEST_PANICS";
    const MESSAGE: &str = "this is a mistake in a screen";

    /// Both ends of a pseudoterminal: the user's, and the program's.
    fn terminal() -> (File, OwnedFd) {
        let (mut outside, mut inside) = (-1, -1);
        let none = std::ptr::null_mut();
        // SAFETY: both numbers are live locals; name, modes and size may be null.
        let opened = unsafe { libc::openpty(&mut outside, &mut inside, none, none.cast(), none.cast()) };
        assert_eq!(opened, 0, "{}", io::Error::last_os_error());
        // SAFETY: they have just been opened, and nobody else has them.
        unsafe { (File::from_raw_fd(outside), OwnedFd::from_raw_fd(inside)) }
    }

    fn modes(terminal: &OwnedFd) -> [libc::tcflag_t; 4] {
        let mut modes = MaybeUninit::uninit();
        // SAFETY: the pointer is to a live local, which is read only if the call has filled it.
        let modes: libc::termios = unsafe {
            assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), modes.as_mut_ptr()), 0);
            modes.assume_init()
        };
        [modes.c_iflag, modes.c_oflag, modes.c_cflag, modes.c_lflag]
    }

    #[test]
    fn who_panics_gives_the_terminal_back_before_the_message() {
        if std::env::var_os(PANICS).is_some() {
            give_back_on_panic();
            let _taken = Taken::take().expect("a terminal");
            panic!("{MESSAGE}");
        }
        let (mut outside, inside) = terminal();
        let before = modes(&inside);
        let side = || Stdio::from(inside.try_clone().expect("a descriptor"));
        let name = "commands::top::terminal::tests::who_panics_gives_the_terminal_back_before_the_message";
        let status = Command::new("/proc/self/exe")
            .args([name, "--exact", "--nocapture", "--test-threads=1"])
            .env(PANICS, "1")
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .status()
            .expect("this program can be run again");
        assert!(!status.success());
        assert_eq!(modes(&inside), before);
        // It writes less than a terminal buffers.
        let reader = std::thread::spawn(move || {
            let mut written = Vec::new();
            let mut buffer = [0; 4_096];
            while !String::from_utf8_lossy(&written).contains(MESSAGE) {
                let count = outside.read(&mut buffer).expect("a terminal");
                written.extend_from_slice(&buffer[..count]);
            }
            String::from_utf8_lossy(&written).into_owned()
        });
        let give_up = std::time::Instant::now() + Duration::from_secs(10);
        while !reader.is_finished() {
            assert!(std::time::Instant::now() < give_up, "no message");
            std::thread::sleep(Duration::from_millis(10));
        }
        let written = reader.join().expect("it was read");
        let at = |text: &str| {
            written
                .find(text)
                .unwrap_or_else(|| panic!("no {text:?} in {written:?}"))
        };
        let (taken, given_back) = (at("\x1b[?1049h"), at("\x1b[?1049l"));
        assert!(taken < given_back && given_back < at(MESSAGE), "{written:?}");
    }
}
