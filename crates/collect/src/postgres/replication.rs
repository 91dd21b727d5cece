//! What a session says of synchronous replication: whether it sends the log to a standby, how far that standby has come, and for what
//! of a standby it waits. Read from its memory, without a connection.

use super::standby::Standby;
use crate::connections::{Connection, Connections};
use crate::database::StandbyWait;
use crate::executable::Executable;
use crate::{database, memory};

/// `SyncCommitLevel` in src/include/access/xact.h, the same in PostgreSQL 14 to 18: `off` and `local` wait for no standby.
const REMOTE_WRITE: u32 = 2;
const REMOTE_APPLY: u32 = 4;
/// Where a `WalSnd` has up to where its standby has flushed the log (src/include/replication/walsender_private.h, the same in
/// PostgreSQL 14 to 18).
const FLUSH_IN_SENDER: u64 = 32;

/// Where the sessions of one server say it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Replication {
    /// Address of `MyWalSnd`: null in whoever sends no log.
    sender: Option<u64>,
    /// Address of `synchronous_commit`, the setting as the session has it.
    level: Option<u64>,
    /// Address of `XactLastRecEnd`: where in the log a transaction ends that is being committed, until it is.
    last_record: Option<u64>,
}

impl Replication {
    /// Of the server with this executable, as far as it tells.
    pub(super) fn of(executable: &Executable) -> Replication {
        let symbols = executable.symbols(["MyWalSnd", "synchronous_commit", "XactLastRecEnd"]);
        let [sender, level, last_record] = symbols.unwrap_or_default();
        Replication {
            sender: sender.map(|symbol| symbol.address),
            level: level.map(|symbol| symbol.address),
            last_record: last_record.map(|symbol| symbol.address),
        }
    }

    /// Whether a session sends the log to a standby.
    pub(super) fn sends(self, pid: u32) -> bool {
        self.of_sender(pid).is_some()
    }

    /// Address of what a session notes that sends the log.
    fn of_sender(self, pid: u32) -> Option<u64> {
        let pointer = memory::read_u64(pid, self.sender?).ok()?;
        (pointer != 0).then_some(pointer)
    }

    /// Up to where the standby has said to this session that it has flushed the log.
    pub(super) fn standby_flushed(self, pid: u32) -> Option<u64> {
        memory::read_u64(pid, self.of_sender(pid)?.checked_add(FLUSH_IN_SENDER)?).ok()
    }

    /// For what a session waits that waits for a standby.
    pub(super) fn waits_for_standby(self, pid: u32) -> StandbyWait {
        let last_record = self.last_record.and_then(|at| memory::read_u64(pid, at).ok());
        StandbyWait {
            for_replay: self.waits_for_replay(pid),
            // Between transactions it is none.
            position: last_record.filter(|position| *position != 0),
        }
    }

    fn waits_for_replay(self, pid: u32) -> Option<bool> {
        let level = memory::read_u32(pid, self.level?).ok()?;
        // A lower one is not what it waits with: it was read too late.
        (REMOTE_WRITE..=REMOTE_APPLY)
            .contains(&level)
            .then_some(level == REMOTE_APPLY)
    }
}

/// Who is at the other end of the connection of a session that sends the log. The two ends of a TCP connection have the same two
/// addresses; of a Unix socket it is only known that the other end is on this host, and others find out who it is.
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
