//! The command on a terminal of its own, seen through a terminal emulator.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::dbtime_binary;

/// When nothing has come for this long, drawing has ended.
const DRAWN_WITHIN: Duration = Duration::from_millis(60);
/// How long the command may take to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// A terminal, and the command on it. Killed when dropped before its end.
pub struct Screen {
    child: Child,
    terminal: File,
    /// The command's side: as long as it is open, the terminal stays as the command left it.
    inside: OwnedFd,
    before: Modes,
    seen: Arc<Mutex<Seen>>,
}

struct Seen {
    emulator: vt100::Parser,
    bytes: Vec<u8>,
}

/// Modes of a terminal, as numbers that can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Modes([libc::tcflag_t; 4]);

impl Screen {
    /// Runs the command on a terminal of this size.
    pub fn start(arguments: &[&str], size: (u16, u16)) -> Screen {
        Screen::start_with(arguments, size, &[])
    }

    /// The same with environment variables added or replaced.
    ///
    /// # Panics
    /// When there is no terminal to be had.
    pub fn start_with(arguments: &[&str], size: (u16, u16), environment: &[(&str, &str)]) -> Screen {
        Screen::start_in(Path::new("."), arguments, size, environment)
    }

    /// The same in another directory.
    ///
    /// # Panics
    /// When there is no terminal to be had.
    pub fn start_in(
        directory: &Path,
        arguments: &[&str],
        (columns, rows): (u16, u16),
        environment: &[(&str, &str)],
    ) -> Screen {
        let (outside, inside) = pair(columns, rows);
        let before = modes(&inside);
        let side = || Stdio::from(inside.try_clone().expect("a descriptor"));
        let mut command = Command::new(dbtime_binary());
        command
            .args(arguments)
            .current_dir(directory)
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .env_remove("COLORTERM")
            .envs(environment.iter().copied())
            .stdin(side())
            .stdout(side())
            .stderr(side());
        // SAFETY: plain calls between fork and exec, which take no locks.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                // Tests may run under nohup; whoever uses this terminal does not.
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                Ok(())
            });
        }
        let child = command.spawn().expect("the command can be run");
        let seen = Arc::new(Mutex::new(Seen {
            emulator: vt100::Parser::new(cells(rows), cells(columns), 0),
            bytes: Vec::new(),
        }));
        let terminal = File::from(outside);
        let mut reader = terminal.try_clone().expect("a descriptor");
        let into = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                let mut seen = into.lock().expect("no holder panics");
                seen.emulator.process(&buffer[..count]);
                seen.bytes.extend_from_slice(&buffer[..count]);
            }
        });
        Screen {
            child,
            terminal,
            inside,
            before,
            seen,
        }
    }

    /// Process id of the command.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What can be read on the screen, line by line.
    pub fn lines(&self) -> Vec<String> {
        let seen = self.seen.lock().expect("no holder panics");
        let screen = seen.emulator.screen();
        let (_, columns) = screen.size();
        screen
            .rows(0, columns.get())
            .map(|line| line.trim_end().to_string())
            .collect()
    }

    /// The same as one text.
    pub fn text(&self) -> String {
        self.lines().join("\n")
    }

    /// Everything that was ever sent to the terminal.
    pub fn bytes(&self) -> Vec<u8> {
        self.seen.lock().expect("no holder panics").bytes.clone()
    }

    /// Types.
    pub fn press(&mut self, keys: &str) {
        self.terminal
            .write_all(keys.as_bytes())
            .expect("the terminal takes keys");
    }

    /// Waits until the screen shows what is wanted.
    ///
    /// # Panics
    /// When it does not in time.
    #[track_caller]
    pub fn wait_for(&self, what: &str, longest: Duration, is_there: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + longest;
        loop {
            let (text, bytes) = (self.text(), self.bytes().len());
            if is_there(&text) {
                // A screen is drawn from top to bottom: this may be half of it.
                std::thread::sleep(DRAWN_WITHIN);
                if self.bytes().len() == bytes {
                    return text;
                }
            }
            assert!(Instant::now() < until, "{what} is not to be seen:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Makes the terminal larger or smaller.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        let size = window(columns, rows);
        // Before the command hears of it: what it draws then is for the new size, and it draws it once.
        let mut seen = self.seen.lock().expect("no holder panics");
        seen.emulator.screen_mut().set_size(cells(rows), cells(columns));
        // SAFETY: a plain call that reads the struct.
        let done = unsafe { libc::ioctl(self.terminal.as_raw_fd(), libc::TIOCSWINSZ, &size) };
        assert_eq!(done, 0, "the terminal takes a size");
    }

    /// Sends the command a signal.
    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: a plain call; the process is a child that was not waited for yet.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
    }

    /// Waits for the end of the command.
    ///
    /// # Panics
    /// When it does not end in time.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("it is a child") {
                // Its last output may still be on its way.
                std::thread::sleep(Duration::from_millis(100));
                return status;
            }
            assert!(Instant::now() < until, "it does not end:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asserts that the terminal is what it was before the command began.
    #[track_caller]
    pub fn assert_given_back(&self, after: &str) {
        assert_eq!(
            modes(&self.inside),
            self.before,
            "modes of the terminal after {after}"
        );
        let seen = self.seen.lock().expect("no holder panics");
        let screen = seen.emulator.screen();
        assert!(
            !screen.alternate_screen(),
            "the other screen is still there after {after}"
        );
        assert!(!screen.hide_cursor(), "there is no cursor after {after}");
    }

    /// True as long as the modes of the terminal, or its screen, are not what they were.
    pub fn is_taken(&self) -> bool {
        let seen = self.seen.lock().expect("no holder panics");
        modes(&self.inside) != self.before || seen.emulator.screen().alternate_screen()
    }

    /// Asserts that the command has the terminal.
    #[track_caller]
    pub fn assert_taken(&self) {
        assert_ne!(modes(&self.inside), self.before);
        let seen = self.seen.lock().expect("no holder panics");
        assert!(seen.emulator.screen().alternate_screen() && seen.emulator.screen().hide_cursor());
    }

    /// True when any cell has a colour.
    pub fn has_colours(&self) -> bool {
        let seen = self.seen.lock().expect("no holder panics");
        let screen = seen.emulator.screen();
        let (rows, columns) = screen.size();
        let mut cells = (0..rows.get())
            .flat_map(|row| (0..columns.get()).filter_map(move |column| screen.cell(row, column)));
        cells.any(|cell| cell.fgcolor() != vt100::Color::Default || cell.bgcolor() != vt100::Color::Default)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("a terminal has cells")
}

fn window(columns: u16, rows: u16) -> libc::winsize {
    libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// A terminal: the outside, and the side of the command that runs on it.
fn pair(columns: u16, rows: u16) -> (OwnedFd, OwnedFd) {
    let size = window(columns, rows);
    let (mut outside, mut inside) = (-1, -1);
    // SAFETY: both descriptors are written, the size is only read, the other pointers may be null.
    let opened = unsafe {
        libc::openpty(
            &mut outside,
            &mut inside,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            &size,
        )
    };
    assert_eq!(opened, 0, "no terminal: {}", std::io::Error::last_os_error());
    for descriptor in [outside, inside] {
        // SAFETY: a plain call on a descriptor that is open.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    // SAFETY: both are open, and nobody else has them.
    unsafe { (OwnedFd::from_raw_fd(outside), OwnedFd::from_raw_fd(inside)) }
}

fn modes(terminal: &OwnedFd) -> Modes {
    // SAFETY: termios is plain data, for which zero is a value; the call only fills it.
    let modes = unsafe {
        let mut modes: libc::termios = std::mem::zeroed();
        assert_eq!(
            libc::tcgetattr(terminal.as_raw_fd(), &mut modes),
            0,
            "it is a terminal"
        );
        modes
    };
    Modes([modes.c_iflag, modes.c_oflag, modes.c_cflag, modes.c_lflag])
}
