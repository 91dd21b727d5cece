//! The TCP connections of a process, as /proc shows them (proc_pid_net(5)): who is at the other end.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::process;

/// Maximum bytes read of a list: on a host with more connections, the rest is ignored.
const MOST_BYTES: u64 = 32 << 20;
/// Maximum number of descriptors of one process looked at.
const MOST_FILES: usize = 10_000;
/// `TCP_ESTABLISHED` (include/net/tcp_states.h).
const ESTABLISHED: &str = "01";

/// A connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Connection {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

impl Connection {
    /// The same connection as the other end sees it, unless an address is translated on the way.
    pub(crate) fn reversed(self) -> Connection {
        Connection {
            local: self.remote,
            remote: self.local,
        }
    }
}

/// The connections of a process, and which of them stay in its network namespace.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    /// Of the process itself.
    pub(crate) own: Vec<Connection>,
    /// Those of its own whose other end is in the same network namespace, in whatever process.
    pub(crate) within: Vec<Connection>,
    /// It has sockets, and they could be read.
    pub(crate) is_seen: bool,
}

impl Connections {
    /// Those of a process, as far as they can be seen.
    pub(crate) fn of(pid: u32) -> Connections {
        let sockets = sockets(pid);
        if sockets.is_empty() {
            return Connections::default();
        }
        let (mut own, mut all) = (Vec::new(), HashSet::new());
        for list in ["net/tcp", "net/tcp6"] {
            let Ok(file) = File::open(process::path(pid, list)) else {
                continue;
            };
            for line in BufReader::new(file.take(MOST_BYTES))
                .lines()
                .map_while(Result::ok)
            {
                let Some((connection, inode)) = parse(&line) else {
                    continue;
                };
                all.insert(connection);
                if sockets.contains(&inode) {
                    own.push(connection);
                }
            }
        }
        let within = own.iter().copied().filter(|own| all.contains(&own.reversed()));
        Connections {
            within: within.collect(),
            own,
            is_seen: true,
        }
    }
}

/// Inodes of the sockets that a process has open.
fn sockets(pid: u32) -> HashSet<u64> {
    let Ok(entries) = fs::read_dir(process::path(pid, "fd")) else {
        return HashSet::new();
    };
    let links = entries.flatten().take(MOST_FILES);
    links
        .filter_map(|entry| {
            let link = fs::read_link(entry.path()).ok()?;
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            inode.parse().ok()
        })
        .collect()
}

/// Parses a line of such a list: the connection and its socket's inode; None if it is not an established one.
fn parse(line: &str) -> Option<(Connection, u64)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, remote, state) = (fields.next()?, fields.next()?, fields.next()?);
    if state != ESTABLISHED {
        return None;
    }
    let connection = Connection {
        local: address(local)?,
        remote: address(remote)?,
    };
    Some((connection, fields.nth(5)?.parse().ok()?))
}

/// `0100007F:1771`: the address as words in native byte order, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |place: usize| u32::from_str_radix(address.get(place * 8..place * 8 + 8)?, 16).ok();
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?.to_ne_bytes())),
        32 => {
            let mut bytes = [0; 16];
            for (place, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(place)?.to_ne_bytes());
            }
            // A dual-stack socket shows IPv4 addresses mapped into IPv6.
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn both_ends_of_a_connection_are_found_over_either_protocol() {
        let listeners = [
            ("127.0.0.1:0", "127.0.0.1"),
            ("[::1]:0", "::1"),
            // Accepts clients of both kinds.
            ("[::]:0", "127.0.0.1"),
        ];
        for (at, host) in listeners {
            let Ok(listener) = TcpListener::bind(at) else {
                // A host without this protocol.
                continue;
            };
            let port = listener.local_addr().expect("it is bound").port();
            let here = TcpStream::connect((host, port)).expect("it listens");
            let (_there, _) = listener.accept().expect("somebody comes");
            let found = Connections::of(std::process::id());
            let connection = Connection {
                local: here.local_addr().expect("it is connected"),
                remote: here.peer_addr().expect("it is connected"),
            };
            for end in [connection, connection.reversed()] {
                assert!(found.own.contains(&end), "{end:?}: {found:?}");
                assert!(found.within.contains(&end), "{end:?}: {found:?}");
            }
        }
    }

    #[test]
    fn what_is_no_connection_is_none() {
        let line = |local: &str, state: &str| {
            format!(
                " 0: {local} 0200000A:1770 {state} 00000000:00000000 00:00000000 00000000 0 0 4711 1 0 20 4 30 10 -1"
            )
        };
        let (connection, inode) = parse(&line("0100000A:BEEF", "01")).expect("it is one");
        assert_eq!(inode, 4711);
        assert_eq!(connection.remote.port(), 0x1770);
        for (local, state) in [
            ("0100000A:BEEF", "0A"),
            ("0100000A", "01"),
            ("0100000A:123456", "01"),
            ("01ä0000A:BEEF", "01"),
            ("01:BEEF", "01"),
        ] {
            assert_eq!(parse(&line(local, state)), None, "{local} {state}");
        }
        assert_eq!(parse(""), None);
    }
}
