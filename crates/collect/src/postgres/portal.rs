//! Which part of a message is the statement that a session executes: a client may send several statements in one, and the server shows the
//! whole message for each of them. The portal in which a statement is executed has the statement's position in the message, which
//! pg_stat_statements uses too.
//!
//! Offsets were measured on servers of each version. A portal counts only if its source is the session's message, and it has the
//! statement's id.

use std::ops::Range;

use crate::executable::Executable;
use crate::memory;

/// `queryId` in `PlannedStmt`.
const QUERY_ID: u64 = 8;
/// `length` and `elements` in `List`.
const LENGTH: u64 = 4;
const ELEMENTS: u64 = 16;

/// Where the sessions of one server have their portals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portals {
    /// Address of `ActivePortal`, the pointer to the portal that is executed.
    active: u64,
    /// Address of `debug_query_string`, the pointer to the message.
    message: u64,
    places: Places,
}

/// Offsets of the fields that are read.
#[derive(Debug, Clone, Copy)]
struct Places {
    /// `sourceText` in `PortalData`.
    source: u64,
    /// `stmts` in `PortalData`.
    statements: u64,
    /// `stmt_location` in `PlannedStmt`, followed by `stmt_len`.
    location: u64,
}

impl Portals {
    /// For a server with this executable. None: its version is not known, or the executable has no symbols for them.
    pub(super) fn of(executable: &Executable, major: u32) -> Option<Portals> {
        let symbols = executable.symbols(["ActivePortal", "debug_query_string"]);
        let [active, message] = symbols.ok()?.map(|symbol| Some(symbol?.address));
        Some(Portals {
            active: active?,
            message: message?,
            places: places(major)?,
        })
    }

    /// The bytes of its message that are this statement. None: the session is not executing it yet, or does so through another statement
    /// (EXECUTE), or a rule has replaced it with others.
    pub(super) fn part(self, pid: u32, statement: u64) -> Option<Range<usize>> {
        let pointer = |address: u64| memory::read_u64(pid, address).ok().filter(|at| *at != 0);
        let portal = pointer(self.active)?;
        if pointer(portal.checked_add(self.places.source)?)? != pointer(self.message)? {
            return None;
        }
        let statements = pointer(portal.checked_add(self.places.statements)?)?;
        if memory::read_u32(pid, statements.checked_add(LENGTH)?).ok()? == 0 {
            return None;
        }
        let planned = pointer(pointer(statements.checked_add(ELEMENTS)?)?)?;
        let (mut id, mut begin, mut length) = ([0; 8], [0; 4], [0; 4]);
        let location = planned.checked_add(self.places.location)?;
        memory::read(
            pid,
            &mut [
                (planned.checked_add(QUERY_ID)?, &mut id),
                (location, &mut begin),
                (location.checked_add(4)?, &mut length),
            ],
        )
        .ok()?;
        if u64::from_ne_bytes(id) != statement {
            return None;
        }
        part(i32::from_ne_bytes(begin), i32::from_ne_bytes(length))
    }
}

/// As the server has it: a start of -1 means unknown, a length of 0 means all the rest.
fn part(begin: i32, length: i32) -> Option<Range<usize>> {
    let (begin, length) = (usize::try_from(begin).ok()?, usize::try_from(length).ok()?);
    match (begin, length) {
        // For one of several, at least one is not 0.
        (0, 0) => None,
        (begin, 0) => Some(begin..usize::MAX),
        (begin, length) => Some(begin..begin.checked_add(length)?),
    }
}

fn places(major: u32) -> Option<Places> {
    let (source, statements, location) = match major {
        14 => (48, 80, 120),
        15 => (56, 88, 120),
        16 | 17 => (56, 88, 128),
        18 => (56, 88, 152),
        _ => return None,
    };
    Some(Places {
        source,
        statements,
        location,
    })
}

#[cfg(test)]
mod tests {
    use std::ptr::from_ref;

    use super::*;

    #[test]
    fn a_place_is_as_the_server_says_it() {
        assert_eq!(part(0, 8), Some(0..8));
        assert_eq!(part(9, 8), Some(9..17));
        assert_eq!(part(9, 0), Some(9..usize::MAX));
        for (begin, length) in [(0, 0), (-1, 0), (-1, 8), (9, -1), (i32::MIN, i32::MIN)] {
            assert_eq!(part(begin, length), None, "{begin}, {length}");
        }
    }

    /// The memory of a session of version 18, in this process.
    struct Session {
        active: u64,
        message: u64,
        portal: [u64; 12],
        list: [u64; 3],
        elements: [u64; 1],
        planned: [u64; 20],
    }

    impl Session {
        fn executing(id: u64, begin: u32, length: u32) -> Box<Session> {
            let mut session = Box::new(Session {
                active: 0,
                message: 0x1000,
                portal: [0; 12],
                list: [(1 << 32) | 7, 1, 0],
                elements: [0],
                planned: [0; 20],
            });
            session.planned[1] = id;
            session.planned[19] = (u64::from(length) << 32) | u64::from(begin);
            session.elements[0] = from_ref(&session.planned) as u64;
            session.list[2] = from_ref(&session.elements) as u64;
            session.portal[7] = session.message;
            session.portal[11] = from_ref(&session.list) as u64;
            session.active = from_ref(&session.portal) as u64;
            session
        }

        fn part(&self, statement: u64) -> Option<Range<usize>> {
            let portals = Portals {
                active: from_ref(&self.active) as u64,
                message: from_ref(&self.message) as u64,
                places: places(18).expect("it is known"),
            };
            portals.part(std::process::id(), statement)
        }
    }

    #[test]
    fn the_part_of_a_message_is_that_of_the_statement() {
        assert_eq!(Session::executing(77, 9, 20).part(77), Some(9..29));
        assert_eq!(Session::executing(77, 9, 20).part(78), None);
        let mut of_cursor = Session::executing(77, 9, 20);
        of_cursor.portal[7] = 0x2000;
        assert_eq!(of_cursor.part(77), None);
        let mut planning = Session::executing(77, 9, 20);
        planning.active = 0;
        assert_eq!(planning.part(77), None);
        let mut empty = Session::executing(77, 9, 20);
        empty.list[0] = 7;
        assert_eq!(empty.part(77), None);
    }

    #[test]
    fn addresses_of_nothing_tell_nothing() {
        for wrong in [8, u64::MAX, u64::MAX - 20] {
            let mut session = Session::executing(77, 9, 20);
            session.active = wrong;
            assert_eq!(session.part(77), None);
            let mut session = Session::executing(77, 9, 20);
            session.portal[11] = wrong;
            assert_eq!(session.part(77), None);
            let mut session = Session::executing(77, 9, 20);
            session.elements[0] = wrong;
            assert_eq!(session.part(77), None);
        }
    }
}
