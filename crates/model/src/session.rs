//! A session: one connection or background process of the database, one schedulable task of the host.

use std::fmt;

use arcstr::ArcStr;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Identity of a session within one recording (pids are reused). 0 is the recorder itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub u64);

impl SessionId {
    /// Owner of counters that belong to no session, such as what the recorder lost.
    pub const RECORDER: SessionId = SessionId(0);

    /// An identity that no session of another recording has. What belongs to no session still belongs to none.
    pub(crate) fn of_recording(self, recording: u64) -> SessionId {
        match self {
            SessionId::RECORDER => self,
            SessionId(id) => SessionId(xxh3_64_with_seed(&id.to_le_bytes(), recording).max(1)),
        }
    }
}

/// What kind of server process a session is, in the words of `pg_stat_activity.backend_type`; whether its time belongs to DB
/// time depends on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BackendType(#[serde(deserialize_with = "crate::word::deserialize")] pub ArcStr);

impl BackendType {
    /// A client's connection.
    pub const CLIENT: &'static str = "client backend";
    /// A worker of another session's parallel query.
    pub const PARALLEL_WORKER: &'static str = "parallel worker";
    /// The parent of all others, which accepts connections.
    pub const POSTMASTER: &'static str = "postmaster";
    /// A process that belongs to no database (`record --process`): it has no wait events.
    pub const PROCESS: &'static str = "process";
    /// The process that writes checkpoints.
    pub const CHECKPOINTER: &'static str = "checkpointer";
    /// A process that vacuums and analyses tables on its own.
    pub const AUTOVACUUM_WORKER: &'static str = "autovacuum worker";
    /// The process of a standby that receives another server's WAL.
    pub const WAL_RECEIVER: &'static str = "walreceiver";
    /// The process of a standby that replays it.
    pub const STARTUP: &'static str = "startup";
    /// A connection of dbtime's own, for the server's statistics: nobody waits for it.
    pub const RECORDER: &'static str = "dbtime";
    /// The process ended before it could be asked.
    pub const UNKNOWN: &'static str = "unknown";

    /// Foreground time is what users wait for, and what DB time is made of: client backends, their parallel workers, processes
    /// that belong to no database, and those that ended before they could be asked (short connections).
    pub fn is_foreground(&self) -> bool {
        matches!(
            self.0.as_str(),
            Self::CLIENT | Self::PARALLEL_WORKER | Self::PROCESS | Self::UNKNOWN
        )
    }
}

impl fmt::Display for BackendType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The facts about a session that do not change while it lives. If the application tells the database what it does
/// (application, service, module, action, client id), each of the things it says makes a session of its own, with the same pid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Session {
    /// Identity in this recording.
    pub id: SessionId,
    /// Process id on the host.
    pub pid: u32,
    /// When the process started, microseconds since the Unix epoch.
    pub started_us: i64,
    /// Kind of server process.
    pub backend_type: BackendType,
    /// Database user; empty when not known or when the process has none.
    pub user: String,
    /// Database; empty when not known or when the process has none.
    pub database: String,
    /// Where the client connected from: `[local]` or `address(port)`; empty when not known.
    pub client: String,
    /// For a parallel worker: pid of the session it works for; 0 otherwise.
    pub leader_pid: u32,
    /// The process title as it was read, for whatever the fields above could not say.
    pub title: String,
    /// What the application calls itself (PostgreSQL: `application_name`); empty when not known or when it does not
    /// say.
    pub application: String,
    /// Service that the client connected to; empty when not known.
    pub service: String,
    /// Module that the application says it is in; empty when it does not say.
    pub module: String,
    /// Action of the module; empty when it does not say.
    pub action: String,
    /// Whom the application works for, as it says; empty when it does not.
    pub client_id: String,
    /// Its number in the database (Oracle: `sid.serial#`); empty when not known.
    pub sid: String,
    /// Name of the host that it runs on; empty when not known.
    pub host: String,
    /// Data directory of its server; empty when not known.
    pub server: String,
}
