//! Layout of a session's entry in the server's status array (`PgBackendStatus` in src/include/utils/backend_status.h): as in PostgreSQL 14
//! to 18 on 64-bit machines, or, for a server that was built differently, as its debug information says. Either is checked before anything
//! is read with it.

use crate::symbols::{Member, members_of};

/// `st_changecount`: odd while the session writes its entry. An entry begins with it.
pub(super) const CHANGE_COUNT: u64 = 0;
/// Size of a 32-bit number.
const NUMBER: u64 = 4;
/// Largest offset: the BPF programs use 16 bits.
const MOST: u64 = u16::MAX as u64 - 8;

/// Offsets in an entry, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StatusLayout {
    /// `st_procpid`.
    pub(super) process: u64,
    /// `st_backendType`.
    pub(super) kind: u64,
    /// `st_activity_start_timestamp`: set with the text, to when the statement began. If a process reports several texts without executing
    /// a statement, they all have the fingerprint of the first.
    pub(super) since: u64,
    /// `st_databaseid`, followed by `st_userid`.
    pub(super) whose: u64,
    /// `st_state`: a 32-bit number.
    pub(super) state: u64,
    /// `st_appname`: address of the name.
    pub(super) application: u64,
    /// `st_activity_raw`: address of the text.
    pub(super) activity: u64,
    /// `st_query_id`.
    pub(super) query_id: u64,
}

/// Members looked up in debug information: name and size.
const MEMBERS: [(&str, u64); 10] = [
    ("st_changecount", NUMBER),
    ("st_procpid", NUMBER),
    ("st_backendType", NUMBER),
    ("st_activity_start_timestamp", 8),
    ("st_databaseid", NUMBER),
    ("st_userid", NUMBER),
    ("st_state", NUMBER),
    ("st_appname", 8),
    ("st_activity_raw", 8),
    ("st_query_id", 8),
];

impl StatusLayout {
    /// Of PostgreSQL 14 to 18.
    pub(super) const USUAL: StatusLayout = StatusLayout {
        process: 4,
        kind: 8,
        since: 32,
        whose: 48,
        state: 232,
        application: 240,
        activity: 248,
        query_id: 424,
    };

    /// As the debug information of this process's executable, or of its debug file, says. None: there is none, or a member has an
    /// unexpected size or place. Reading it can take a few seconds.
    pub(super) fn of_debug_information(pid: u32) -> Option<StatusLayout> {
        StatusLayout::of_members(members_of(pid, "PgBackendStatus", MEMBERS.map(|(name, _)| name))?)
    }

    /// From the [`MEMBERS`] that were found.
    fn of_members(found: [Option<Member>; MEMBERS.len()]) -> Option<StatusLayout> {
        let mut offsets = [0; MEMBERS.len()];
        for ((offset, member), (_, bytes)) in offsets.iter_mut().zip(found).zip(MEMBERS) {
            *offset = member
                .filter(|member| member.bytes == bytes && member.offset <= MOST)?
                .offset;
        }
        let [
            count,
            process,
            kind,
            since,
            whose,
            user,
            state,
            application,
            activity,
            query_id,
        ] = offsets;
        (count == CHANGE_COUNT && user == whose + NUMBER).then_some(StatusLayout {
            process,
            kind,
            since,
            whose,
            state,
            application,
            activity,
            query_id,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFSETS: [u64; MEMBERS.len()] = [0, 4, 8, 32, 48, 52, 232, 240, 248, 416];

    fn members(offsets: [u64; MEMBERS.len()]) -> [Option<Member>; MEMBERS.len()] {
        std::array::from_fn(|n| {
            Some(Member {
                offset: offsets[n],
                bytes: MEMBERS[n].1,
            })
        })
    }

    #[test]
    fn a_layout_is_that_of_members_of_the_right_sizes() {
        let moved = StatusLayout {
            query_id: 416,
            ..StatusLayout::USUAL
        };
        assert_eq!(StatusLayout::of_members(members(OFFSETS)), Some(moved));
        for n in 0..MEMBERS.len() {
            let mut without = members(OFFSETS);
            without[n] = None;
            assert_eq!(StatusLayout::of_members(without), None, "{}", MEMBERS[n].0);
            let mut larger = members(OFFSETS);
            larger[n] = larger[n].map(|member| Member {
                bytes: member.bytes * 2,
                ..member
            });
            assert_eq!(StatusLayout::of_members(larger), None, "{}", MEMBERS[n].0);
            let mut far = OFFSETS;
            far[n] = u64::MAX;
            assert_eq!(StatusLayout::of_members(members(far)), None, "{}", MEMBERS[n].0);
        }
    }

    #[test]
    fn an_entry_begins_with_its_count_and_the_user_stands_behind_the_database() {
        for (n, offset) in [(0, 4), (5, 56)] {
            let mut other = OFFSETS;
            other[n] = offset;
            assert_eq!(StatusLayout::of_members(members(other)), None);
        }
    }
}
