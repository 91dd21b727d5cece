//! Text for a terminal or a pipe that may not be read: a separate thread waits for the reader while the caller goes on.

use std::io::{self, Write};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::queue::{Next, Receiver, Refused, Sender, queue};

/// Where text goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Printer {
    text: Sender<String>,
    thread: JoinHandle<io::Result<()>>,
    dropped: u64,
}

impl Printer {
    /// `most`: bytes that may wait for the reader.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(stream: Stream, most: usize) -> io::Result<Printer> {
        let (text, to_print) = queue(most);
        let thread = std::thread::Builder::new()
            .name("dbtime-print".to_string())
            .spawn(move || match stream {
                Stream::Output => print(to_print, &mut io::stdout()),
                Stream::Error => print(to_print, &mut io::stderr()),
            })?;
        Ok(Printer {
            text,
            thread,
            dropped: 0,
        })
    }

    /// Queues text, which must be printable already. Text that finds no room is dropped.
    pub(crate) fn print(&mut self, text: String) {
        let bytes = text.len();
        if let Err(Refused::Full(text)) = self.text.offer(text, bytes) {
            self.dropped += text.lines().count() as u64;
        }
    }

    /// False when nothing can be printed any more: [`Printer::finish`] says why.
    pub(crate) fn is_printing(&self) -> bool {
        self.text.is_taken()
    }

    /// Lines that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Waits until all is printed.
    ///
    /// # Errors
    /// Not everything could be printed.
    pub(crate) fn finish(self) -> io::Result<()> {
        drop(self.text);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }

    /// The same, but waits no longer than this: text not read by then may never be.
    pub(crate) fn finish_within(self, longest: Duration) {
        drop(self.text);
        let until = Instant::now() + longest;
        while !self.thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn print(mut text: Receiver<String>, to: &mut dyn Write) -> io::Result<()> {
    while let Next::Item(text) = text.next(None) {
        to.write_all(text.as_bytes())?;
        to.flush()?;
    }
    Ok(())
}
