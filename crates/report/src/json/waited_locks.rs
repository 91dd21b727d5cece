//! Locks of the server's lock table that were waited for.

use serde::Serialize;

use crate::locks::{LockShare, WaitedLock};

/// A lock: in words, and in the columns of `pg_locks`.
#[derive(Serialize)]
pub(super) struct LockJson<'a> {
    name: String,
    #[serde(flatten)]
    lock: &'a WaitedLock,
}

/// How long it was waited for.
#[derive(Serialize)]
pub(super) struct LockShareJson<'a> {
    #[serde(flatten)]
    lock: LockJson<'a>,
    sessions: usize,
    ns: u128,
}

impl<'a> From<&'a WaitedLock> for LockJson<'a> {
    fn from(lock: &'a WaitedLock) -> LockJson<'a> {
        LockJson {
            name: lock.to_string(),
            lock,
        }
    }
}

impl<'a> From<&'a LockShare> for LockShareJson<'a> {
    fn from(of: &'a LockShare) -> LockShareJson<'a> {
        LockShareJson {
            lock: (&of.lock).into(),
            sessions: of.sessions,
            ns: of.ns,
        }
    }
}
