//! Between dbtime and the server of a store: every request fails once, each in another way, and is passed on when it is repeated.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What befalls a request.
#[derive(Debug, Clone, Copy)]
enum Failure {
    /// It is refused by a server that is busy.
    Busy,
    /// The connection breaks off in the middle of it.
    Half,
    /// It is done, and the connection breaks off before the answer.
    Unanswered,
}

/// Ends with the process.
pub(crate) struct Unreliable {
    pub(crate) endpoint: String,
    /// First lines of what has failed.
    failed: Arc<Mutex<HashSet<String>>>,
}

impl Unreliable {
    /// Starts one in front of the server at `http://HOST:PORT`.
    pub(crate) fn before(server: &str) -> Unreliable {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let server = server.trim_start_matches("http://").to_string();
        let failed = Arc::new(Mutex::new(HashSet::new()));
        let failing = Arc::clone(&failed);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = connection.expect("a connection");
                let (server, failing) = (server.clone(), Arc::clone(&failing));
                // The client may have gone.
                std::thread::spawn(move || serve(&mut connection, &server, &failing));
            }
        });
        Unreliable { endpoint, failed }
    }

    /// How many requests have failed.
    pub(crate) fn failures(&self) -> usize {
        self.failed.lock().expect("nobody panics with it").len()
    }
}

/// One request.
fn serve(connection: &mut TcpStream, server: &str, failed: &Mutex<HashSet<String>>) -> io::Result<()> {
    let mut request = Vec::new();
    let head = loop {
        if let Some(end) = request.windows(4).position(|end| end == b"\r\n\r\n") {
            break end + 4;
        }
        read_more(connection, &mut request)?;
    };
    let text = String::from_utf8_lossy(&request[..head]).into_owned();
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse::<usize>().expect("a number"))
    });
    let length = length.unwrap_or(0);
    let line = text.lines().next().unwrap_or_default().to_string();
    let failure = {
        let mut failed = failed.lock().expect("nobody panics with it");
        let kinds = [Failure::Busy, Failure::Half, Failure::Unanswered];
        let kind = kinds[failed.len() % kinds.len()];
        failed.insert(line).then_some(kind)
    };
    let until = match failure {
        Some(Failure::Half) => head + length / 2,
        _ => head + length,
    };
    while request.len() < until {
        read_more(connection, &mut request)?;
    }
    match failure {
        Some(Failure::Half) => Ok(()),
        Some(Failure::Unanswered) => pass_on(&request, server).map(drop),
        Some(Failure::Busy) => {
            let body =
                "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
            write!(
                connection,
                "HTTP/1.1 503 Slow Down\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        }
        None => connection.write_all(&pass_on(&request, server)?),
    }
}

fn read_more(connection: &mut TcpStream, request: &mut Vec<u8>) -> io::Result<()> {
    let mut part = [0; 1 << 14];
    match connection.read(&mut part)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        bytes => {
            request.extend_from_slice(&part[..bytes]);
            Ok(())
        }
    }
}

/// The answer of the server.
fn pass_on(request: &[u8], server: &str) -> io::Result<Vec<u8>> {
    let mut connection = TcpStream::connect(server)?;
    connection.write_all(&as_the_last(request))?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer)?;
    Ok(as_the_last(&answer))
}

/// Marks a request or an answer as the last one of its connection.
fn as_the_last(message: &[u8]) -> Vec<u8> {
    let line = message.windows(2).position(|end| end == b"\r\n");
    let (first, rest) = message.split_at(line.map_or(0, |end| end + 2));
    [first, &b"Connection: close\r\n"[..], rest].concat()
}
