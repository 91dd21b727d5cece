//! What a session's memory says about synchronous replication: whether it sends WAL to a standby, how far that standby has got, and what
//! the session waits for the standby to do. Read without a connection.

use super::standby::Standby;
use crate::connections::{Connection, Connections};
use crate::database::StandbyWait;
use crate::executable::Executable;
use crate::{database, memory};

/// `SyncCommitLevel` in src/include/access/xact.h, the same in PostgreSQL 14 to 18: `off` and `local` wait for no standby.
const REMOTE_WRITE: u32 = 2;
const REMOTE_APPLY: u32 = 4;
/// Offset in `WalSnd` of the position up to which its standby has flushed the WAL (src/include/replication/walsender_private.h, the same in
/// PostgreSQL 14 to 18).
const FLUSH_IN_SENDER: u64 = 32;

/// Where the sessions of one server keep this.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Replication {
    /// Address of `MyWalSnd`: null in a process that sends no WAL.
    sender: Option<u64>,
    /// Address of `synchronous_commit`: the session's setting.
    level: Option<u64>,
    /// Address of `XactLastRecEnd`: the end in the WAL of the transaction that is being committed, until it is.
    last_record: Option<u64>,
}

impl Replication {
    /// For the server with this executable, as far as its symbols are known.
    pub(super) fn of(executable: &Executable) -> Replication {
        let symbols = executable.symbols(["MyWalSnd", "synchronous_commit", "XactLastRecEnd"]);
        let [sender, level, last_record] = symbols.unwrap_or_default();
        Replication {
            sender: sender.map(|symbol| symbol.address),
            level: level.map(|symbol| symbol.address),
            last_record: last_record.map(|symbol| symbol.address),
        }
    }

    /// Whether a session sends WAL to a standby.
    pub(super) fn sends(self, pid: u32) -> bool {
        self.of_sender(pid).is_some()
    }

    /// Address of the `WalSnd` of a session that sends WAL.
    fn of_sender(self, pid: u32) -> Option<u64> {
        let pointer = memory::read_u64(pid, self.sender?).ok()?;
        (pointer != 0).then_some(pointer)
    }

    /// The position up to which the standby has told this session that it has flushed the WAL.
    pub(super) fn standby_flushed(self, pid: u32) -> Option<u64> {
        memory::read_u64(pid, self.of_sender(pid)?.checked_add(FLUSH_IN_SENDER)?).ok()
    }

    /// What a session waits for while it waits for a standby.
    pub(super) fn waits_for_standby(self, pid: u32) -> StandbyWait {
        let last_record = self.last_record.and_then(|at| memory::read_u64(pid, at).ok());
        StandbyWait {
            for_replay: self.waits_for_replay(pid),
            // It is 0 between transactions.
            position: last_record.filter(|position| *position != 0),
        }
    }

    fn waits_for_replay(self, pid: u32) -> Option<bool> {
        let level = memory::read_u32(pid, self.level?).ok()?;
        // A session with a lower level does not wait: it was read too late.
        (REMOTE_WRITE..=REMOTE_APPLY)
            .contains(&level)
            .then_some(level == REMOTE_APPLY)
    }
}

/// Who is at the other end of the connection of a session that sends WAL. The two ends of a TCP connection have the same two addresses; for
/// a Unix socket it is only known that the other end is on this host, and who it is has to be found out elsewhere.
pub(super) fn who_takes(sender: u32, standbys: &[Standby]) -> database::Standby {
    let ends = Connections::of(sender);
    let is_other_end = |connection: &Connection| ends.own.contains(&connection.reversed());
    let takes = |standby: &&Standby| {
        let receiver = standby.receiver.map(Connections::of);
        receiver.is_some_and(|receiver| receiver.own.iter().any(is_other_end))
    };
    let mut takers = standbys.iter().filter(takes);
    match (takers.next(), takers.next()) {
        (Some(standby), None) => match standby.receiver {
            Some(receiver) => database::Standby::Recorded {
                receiver,
                startup: standby.startup,
            },
            None => database::Standby::NotKnown,
        },
        // Two network namespaces may have the same addresses.
        (Some(_), Some(_)) => database::Standby::NotKnown,
        (None, _) => match (&ends.own[..], &ends.within[..]) {
            ([], _) => match ends.is_seen {
                true => database::Standby::Process,
                false => database::Standby::NotKnown,
            },
            (_, []) => database::Standby::OtherHost,
            _ => database::Standby::Process,
        },
    }
}
