//! What the numbers in a lock of PostgreSQL's lock table mean, in the terms of `pg_locks` (`LockTagType` in src/include/storage/locktag.h
//! or lock.h, `pg_lock_status` in src/backend/utils/adt/lockfuncs.c).

use crate::lock_requests::LockTarget;

/// Bytes of a `LOCKTAG`.
pub(super) const TAG: usize = 16;

/// Names of the modes, by number; there is no mode 0.
pub(super) const MODES: [&str; 9] = [
    "",
    "AccessShareLock",
    "RowShareLock",
    "RowExclusiveLock",
    "ShareUpdateExclusiveLock",
    "ShareLock",
    "ShareRowExclusiveLock",
    "ExclusiveLock",
    "AccessExclusiveLock",
];
/// The mode in which a transaction holds the lock on itself.
pub(super) const EXCLUSIVE: usize = 7;

/// What a lock is on. The numbers are the same from 14 to 18; the last kind exists from 16 on. None: an unknown kind.
pub(super) fn target(tag: &[u8; TAG]) -> Option<LockTarget> {
    let field = |at: usize| u32::from_ne_bytes([tag[at], tag[at + 1], tag[at + 2], tag[at + 3]]);
    let (first, second, third) = (field(0), field(4), field(8));
    let fourth = u32::from(u16::from_ne_bytes([tag[12], tag[13]]));
    let of_relation = |kind| LockTarget {
        kind,
        database: Some(first),
        relation: Some(second),
        ..LockTarget::default()
    };
    let of_object = |kind| LockTarget {
        kind,
        database: Some(first),
        classid: Some(second),
        objid: Some(third),
        objsubid: Some(fourth),
        ..LockTarget::default()
    };
    Some(match tag[14] {
        0 => of_relation("relation"),
        1 => of_relation("extend"),
        2 => LockTarget {
            kind: "frozenid",
            database: Some(first),
            ..LockTarget::default()
        },
        3 => LockTarget {
            page: Some(third),
            ..of_relation("page")
        },
        4 => LockTarget {
            page: Some(third),
            tuple: Some(fourth),
            ..of_relation("tuple")
        },
        5 => LockTarget {
            kind: "transactionid",
            transactionid: Some(first),
            is_usual: true,
            ..LockTarget::default()
        },
        6 => virtualxid(first, second),
        7 => LockTarget {
            kind: "spectoken",
            transactionid: Some(first),
            objid: Some(second),
            ..LockTarget::default()
        },
        8 => of_object("object"),
        9 => of_object("userlock"),
        10 => of_object("advisory"),
        11 => LockTarget {
            kind: "applytransaction",
            database: Some(first),
            objid: Some(second),
            transactionid: Some(third),
            objsubid: Some(fourth),
            ..LockTarget::default()
        },
        _ => return None,
    })
}

/// A relation, whatever the mode.
pub(super) fn relation(database: u32, relation: u32) -> LockTarget {
    LockTarget {
        kind: "relation",
        database: Some(database),
        relation: Some(relation),
        ..LockTarget::default()
    }
}

/// The virtual transaction with these numbers.
pub(super) fn virtualxid(process: u32, transaction: u32) -> LockTarget {
    LockTarget {
        kind: "virtualxid",
        virtualxid: Some((process, transaction)),
        is_usual: true,
        ..LockTarget::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(kind: u8) -> [u8; TAG] {
        let mut tag = [0; TAG];
        for (at, field) in [(0, 1_u32), (4, 2), (8, 3)] {
            tag[at..at + 4].copy_from_slice(&field.to_ne_bytes());
        }
        tag[12..14].copy_from_slice(&4_u16.to_ne_bytes());
        tag[14] = kind;
        tag
    }

    #[test]
    fn fields_mean_what_pg_locks_shows_of_them() {
        let tuple = target(&tag(4)).unwrap();
        assert_eq!(
            (
                tuple.kind,
                tuple.database,
                tuple.relation,
                tuple.page,
                tuple.tuple
            ),
            ("tuple", Some(1), Some(2), Some(3), Some(4))
        );
        let advisory = target(&tag(10)).unwrap();
        assert_eq!(
            (
                advisory.kind,
                advisory.database,
                advisory.classid,
                advisory.objid,
                advisory.objsubid
            ),
            ("advisory", Some(1), Some(2), Some(3), Some(4))
        );
        assert_eq!(target(&tag(6)), Some(virtualxid(1, 2)));
        assert_eq!(target(&tag(0)), Some(relation(1, 2)));
        assert_eq!(target(&tag(5)).unwrap().transactionid, Some(1));
        assert_eq!(target(&tag(12)), None);
    }
}
