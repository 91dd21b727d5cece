//! A server of a test's own, on a port of its own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command};

/// Ends when dropped.
pub(crate) struct Server(Child);

impl Server {
    /// Starts it and waits until it says where it is: that follows `words` in a line of the output that `pipe` takes.
    pub(crate) fn start<R: Read + Send + 'static>(
        command: &mut Command,
        pipe: impl FnOnce(&mut Child) -> Option<R>,
        words: &str,
    ) -> (Server, String) {
        let mut child = command.spawn().expect("the server can be run");
        let mut lines = BufReader::new(pipe(&mut child).expect("a pipe")).lines();
        let address = loop {
            let line = lines.next().expect("it says where it is").expect("text");
            if let Some((_, address)) = line.split_once(words) {
                break address.trim().to_string();
            }
        };
        // Somebody has to read what it says.
        std::thread::spawn(move || lines.for_each(drop));
        (Server(child), address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
