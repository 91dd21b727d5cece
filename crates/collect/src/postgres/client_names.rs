//! For whom a session works, according to its own memory: the names that its title is made of.
//!
//! `MyProcPort` points to what a session knows about its client's connection (`Port` in src/include/libpq/libpq-be.h). The address of the
//! database name comes right before that of the user name, at an offset that varies from PostgreSQL 14 to 18. It need not be known: all
//! pairs of adjacent texts are returned, and the title shows which pair is meant (title.rs).

use crate::executable::Executable;
use crate::memory;

/// Bytes read: in all of these versions both names are in them, and `Port` is no shorter.
const PORT: usize = 416;
/// NAMEDATALEN: with its terminating zero no name is longer.
const MOST_NAME: usize = 64;
/// Texts are aligned by `palloc` and `malloc`.
const ALIGNMENT: u64 = 8;

/// Where the processes of one server keep this.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientNames {
    /// Address of `MyProcPort`, the same in all processes.
    pointer: u64,
}

/// What a process's memory says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    /// It cannot be read.
    Nothing,
    /// It works for no client.
    NoClient,
    /// It works for a client with one of these.
    OneOf(Vec<Names>),
}

/// What may be the names of a user and of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) user: String,
    pub(crate) database: String,
}

impl ClientNames {
    /// For a server with this executable.
    pub(super) fn of(executable: &Executable) -> Option<ClientNames> {
        let [port] = executable.symbols(["MyProcPort"]).ok()?;
        Some(ClientNames {
            pointer: port?.address,
        })
    }

    /// Whom this process of the server works for.
    pub(super) fn told(self, pid: u32) -> Told {
        let mut port = [0; PORT];
        let address = match memory::read_u64(pid, self.pointer) {
            Ok(0) => return Told::NoClient,
            Ok(address) => address,
            Err(_) => return Told::Nothing,
        };
        if memory::read(pid, &mut [(address, &mut port)]).is_err() {
            return Told::Nothing;
        }
        let words = port.as_chunks::<8>().0.iter();
        let texts: Vec<Option<String>> = words.map(|word| text(pid, u64::from_ne_bytes(*word))).collect();
        let names = texts.windows(2).filter_map(|both| match both {
            [Some(database), Some(user)] if !user.is_empty() => Some(Names {
                user: user.clone(),
                database: database.clone(),
            }),
            _ => None,
        });
        Told::OneOf(names.collect())
    }
}

/// The text at what may be its address; none if there is nothing that can be a name. As in titles, bytes that are not UTF-8 are replaced.
fn text(pid: u32, address: u64) -> Option<String> {
    if address == 0 || !address.is_multiple_of(ALIGNMENT) {
        return None;
    }
    let text = memory::read_text(pid, address, MOST_NAME).ok()?;
    (text.len() < MOST_NAME).then(|| String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text with its terminating zero, suitably aligned.
    #[repr(align(8))]
    struct Text([u8; 2 * MOST_NAME]);

    impl Text {
        fn of(text: &[u8]) -> Text {
            let mut bytes = [0; 2 * MOST_NAME];
            bytes[..text.len()].copy_from_slice(text);
            Text(bytes)
        }

        fn address(&self) -> u64 {
            self.0.as_ptr() as u64
        }
    }

    /// What a process with this `MyProcPort` says.
    fn told(port: u64) -> Told {
        let names = ClientNames {
            pointer: std::ptr::from_ref(&port) as u64,
        };
        names.told(std::process::id())
    }

    #[test]
    fn names_are_the_texts_of_neighbours() {
        let texts: [&[u8]; 5] = [b"[local]", b"", b"c [local] d", b"a b", b"-c x=y"];
        let [host, port, database, user, options] = texts.map(Text::of);
        for place in [0, 41, 48] {
            let mut words = [0_u64; PORT / 8];
            // Numbers, a text that is not aligned, and an address at which there is nothing.
            words[..4].copy_from_slice(&[0x0002_0000_0007, user.address() + 1, 16, u64::MAX - 7]);
            words[place] = database.address();
            words[place + 1] = user.address();
            words[35] = host.address();
            words[37] = port.address();
            words[38] = user.address() + 3;
            let expected = vec![Names {
                user: "a b".to_string(),
                database: "c [local] d".to_string(),
            }];
            assert_eq!(told(words.as_ptr() as u64), Told::OneOf(expected), "{place}");
        }
        // Other adjacent texts are returned, too.
        let mut words = [0_u64; PORT / 8];
        let addresses = [&port, &database, &user, &options].map(Text::address);
        words[39..43].copy_from_slice(&addresses);
        let Told::OneOf(names) = told(words.as_ptr() as u64) else {
            panic!("it can be read");
        };
        let users: Vec<&str> = names.iter().map(|names| names.user.as_str()).collect();
        assert_eq!(users, ["c [local] d", "a b", "-c x=y"]);
    }

    #[test]
    fn what_is_too_long_for_a_name_is_none_and_bytes_are_those_of_titles() {
        let longest = Text::of(&[b'x'; MOST_NAME - 1]);
        let longer = Text::of(&[b'x'; MOST_NAME]);
        let latin1 = Text::of(b"caf\xe9 x");
        let mut words = [0_u64; PORT / 8];
        words[0..2].copy_from_slice(&[longest.address(), latin1.address()]);
        words[3..5].copy_from_slice(&[longer.address(), longest.address()]);
        let expected = vec![Names {
            user: "caf\u{fffd} x".to_string(),
            database: "x".repeat(MOST_NAME - 1),
        }];
        assert_eq!(told(words.as_ptr() as u64), Told::OneOf(expected));
    }

    #[test]
    fn who_has_no_client_says_so_and_who_cannot_be_read_says_nothing() {
        assert_eq!(told(0), Told::NoClient);
        assert_eq!(told(16), Told::Nothing);
        assert_eq!(
            ClientNames { pointer: 16 }.told(std::process::id()),
            Told::Nothing
        );
    }
}
