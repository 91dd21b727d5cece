//! What a collector must know about a database: which processes are its sessions, where each keeps its wait event, and what the numbers
//! mean. One implementation per kind of database.

use std::rc::Rc;

use arcstr::ArcStr;
use dbtime_model::recording::DatabaseMeta;
use dbtime_model::{SessionState, Wait};

use crate::CollectError;
use crate::bpf::dbt_wait_mark;
use crate::clock::Clock;
use crate::held_locks::{LockName, RawLock};
use crate::lock_requests::LockLook;
use crate::postgres::statistics::ServerStatistics;
use crate::postgres::{Connect, LockFunctions};
use crate::session::Role;
use crate::statements::StatementText;

/// Where a session publishes what it is doing: addresses in its own memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum WaitSource {
    /// Nowhere.
    #[default]
    None,
    /// Address of a pointer to the 32-bit wait event; and where the session publishes what it executes.
    Pointer {
        event: u64,
        status: Option<StatusRecord>,
        locks: Option<LockList>,
        routines: Option<RoutineList>,
    },
    /// Addresses of the 32-bit number of an event, of a number that is above 0 while the session is not waiting, and of the 32-bit hash
    /// of its statement (0 = none).
    Numbers { event: u64, on_cpu: u64, statement: u64 },
}

/// What a recording keeps of the texts of statements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Texts {
    /// Nothing.
    None,
    /// Without literals and comments.
    #[default]
    Normalized,
    /// As they were sent.
    Full,
}

/// Where a session publishes what it executes: a record to which a pointer in its memory points; the 16-bit fields are byte offsets into
/// it. While the pointer is 0, there is no record yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatusRecord {
    pub(crate) pointer: u64,
    /// Of the 64-bit id of the statement; 0 = there is none.
    pub(crate) statement: u16,
    /// Of the 64-bit id of the plan by which it is executed; 0 = there is none.
    pub(crate) plan: u16,
    /// Of the 32-bit state of the session.
    pub(crate) session_state: u16,
    /// Of its 32-bit pid, which is 0 until the record is filled in. A record begins with a 32-bit number that is odd while the
    /// session writes it.
    pub(crate) process: u16,
    /// Of the 32-bit number of the kind of process; 0 = none.
    pub(crate) kind: u16,
    /// Of 64 bits that are equal for sessions of the same user in the same database.
    pub(crate) whose: u16,
    /// Of the address of the text, whose fingerprint replaces an id that is 0; 0 = none does.
    pub(crate) text: u16,
    /// The database assigns ids: where one is missing, only the text of a utility statement replaces it.
    pub(crate) gives_ids: bool,
    /// Of the moment at which the statement with this text began, 64 bits.
    pub(crate) since: u16,
    /// Of the address of the text whose comment is reported.
    pub(crate) comment: u16,
    /// Maximum bytes of a text there: one of that length may be truncated.
    pub(crate) most_text: u32,
    /// Address of a pointer to the session's own copy of the text as it was sent; 0 = not known.
    pub(crate) whole_text: u64,
}

/// Where a session lists the internal locks that it holds: addresses in its own memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockList {
    /// Of their 32-bit number.
    pub(crate) count: u64,
    /// Of the list: each entry has the address of the lock, which begins with its 16-bit kind, and 32 bits for the mode it is held in.
    pub(crate) list: u64,
    /// The locks of pages.
    pub(crate) pages: Option<PageLocks>,
}

/// Where the locks of pages are, one per buffer: bpf/page_locks.bpf.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageLocks {
    /// Address of the first.
    pub(crate) first: u64,
    /// How many there are.
    pub(crate) count: u32,
    /// Bytes from one to the next.
    pub(crate) step: u16,
    /// How many bytes before each of them its page is identified.
    pub(crate) offset: u16,
}

/// Where a session lists the procedural-language functions that it is in: bpf/routines.bpf.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoutineList {
    /// Address of a pointer to the list.
    pub(crate) contexts: u64,
    /// Offset of its 32-bit id, in a function.
    pub(crate) id: u16,
    /// Offset of the address of its current statement, in its execution state.
    pub(crate) statement: u16,
}

/// A procedural-language function that a session is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RawRoutine {
    /// Where the session keeps its description.
    pub(crate) function: u64,
    /// As the database numbers it; 0 = it has none.
    pub(crate) id: u32,
    /// The line that the session is at; 0 = none.
    pub(crate) line: u32,
}

/// What a session publishes about what it executes, as it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Executing {
    /// Id of the statement; 0 = not known, or none.
    pub(crate) statement: u64,
    /// Its plan; 0 = the session gives none, or it is not known.
    pub(crate) plan: i64,
    /// As the database numbers it ([`WaitNames::session_state`]); 0 = not known.
    pub(crate) session_state: u32,
}

impl WaitSource {
    /// For a session whose wait event cannot be trusted: every read of it fails, and is counted.
    pub(crate) const UNREADABLE: WaitSource = WaitSource::Numbers {
        event: 0,
        on_cpu: 0,
        statement: 0,
    };
}

/// Flag of [`WaitSource::Numbers`]: the session waits, in the event that the other bits give.
pub(crate) const NUMBERED: u32 = dbt_wait_mark::WAIT_NUMBERED.0;
/// What was read is too large for an event number.
pub(crate) const NO_NUMBER: u32 = dbt_wait_mark::WAIT_NO_NUMBER.0;

/// What the numbers in the memory of a database's sessions mean: wait events and states.
pub(crate) trait WaitNames {
    /// The wait event with this number, for a foreground process or another one; 0 = it is not waiting.
    fn decode(&self, wait: u32, foreground: bool) -> Wait;

    /// False for a number that is not a wait event of the database.
    fn is_known(&self, _wait: u32) -> bool {
        true
    }

    /// Its wait classes, where they are known in advance.
    fn classes(&self) -> Vec<String> {
        Vec::new()
    }

    /// The session state with this number, as the database calls it.
    fn session_state(&self, _number: u32) -> SessionState {
        SessionState::None
    }

    /// What the waits of this database are like.
    fn traits(&self) -> WaitTraits;
}

/// What the waits of a database are like. The top byte of a wait's number is its class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WaitTraits {
    /// Classes whose stack is not needed: it is always the same.
    pub(crate) no_stack_classes: Vec<u8>,
    /// Single waits of this sort; at most eight are used.
    pub(crate) no_stack: Vec<u32>,
    /// Classes whose waits continue after a signal handler has run, although the session leaves the wait event for a moment.
    pub(crate) resumed_classes: Vec<u8>,
    /// Waits in which several system calls transfer data; at most four are used. Any other wait makes one.
    pub(crate) several_calls: Vec<u32>,
    /// The wait in which a session waits for a command.
    pub(crate) client: Option<u32>,
    /// Number of the state of a session that executes a command; 0 = not known.
    pub(crate) executing: u32,
}

/// Where the use of internal locks can be observed.
#[derive(Debug, Clone)]
pub(crate) struct LockPlaces {
    /// The functions that acquire and release them.
    pub(crate) functions: LockFunctions,
    /// The first process of the server.
    pub(crate) server: u32,
    /// The only session to observe; None: all.
    pub(crate) only: Option<u32>,
    /// Where sessions publish what they execute.
    pub(crate) source: WaitSource,
}

/// A process that is a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: u32,
    pub(crate) source: WaitSource,
    pub(crate) role: Role,
    /// False for a process of a server other than the one whose children are recorded.
    pub(crate) is_of_parent: bool,
}

/// Who holds what a session waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The process with this pid.
    Process(u32),
    /// A prepared transaction, which has no process any more.
    Prepared,
}

/// Who is at the other end of the connection over which a session sends the server's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standby {
    /// A server of which these processes are recorded: the receiver, and the one that replays.
    Recorded { receiver: u32, startup: Option<u32> },
    /// A process of this host that is not recorded.
    Process,
    /// A process of another host.
    OtherHost,
    /// It cannot be determined.
    NotKnown,
}

/// What a session that waits for a standby waits for; None: not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StandbyWait {
    /// True: until the standby has replayed what the session wrote; false: only until it has it.
    pub(crate) for_replay: Option<bool>,
    /// The position in the log up to which it waits.
    pub(crate) position: Option<u64>,
}

/// What has happened to a database.
#[derive(Debug)]
pub(crate) enum Change {
    /// It is running again after it was gone: everything about it is new.
    Restarted(Restart),
    /// Its sessions or names have changed; the messages about that.
    Sessions(Vec<String>),
    /// There are processes to record that nothing else reports.
    Newcomers,
}

/// How a database came back.
#[derive(Debug)]
pub(crate) struct Restart {
    /// The message about it.
    pub(crate) text: String,
    /// It runs on another data directory: its files and counters are not the previous ones.
    pub(crate) has_other_files: bool,
}

/// See the module.
pub(crate) trait Database {
    /// How a recording describes it.
    fn describe(&self) -> DatabaseMeta;

    /// Names of its wait events.
    fn names(&self) -> Rc<dyn WaitNames>;

    /// What is not known about it.
    fn reasons(&self) -> Vec<String>;

    /// Sessions that exist now.
    fn members(&self) -> Vec<Member>;

    /// Process whose children are sessions from their first moment on, with the same mappings at the same addresses.
    fn parent(&self) -> Option<u32>;

    /// What its children are.
    fn role_of_children(&self) -> Role;

    /// Process whose working directory has the files, which are named relative to it.
    fn at_files(&self) -> Option<u32>;

    /// True if sessions may come as long as it exists; otherwise the recording ends with those that are recorded.
    fn outlives_its_sessions(&self) -> bool;

    /// The message if the database is gone with the end of this process.
    fn gone_with(&self, pid: u32) -> Option<String>;

    /// How many transactions each of these sessions has run since the last call, and where that comes from; 0 for a session that is
    /// counted from now on. None: it does not say.
    fn transactions(&mut self, _clients: &[u32]) -> Option<(&'static str, Vec<(u32, u32)>)> {
        None
    }

    /// Address of the number that it counts them by, in the memory of each session.
    fn transaction_counter(&self) -> Option<u64> {
        None
    }

    /// The same for a session that has ended with this number; None if it was not counted.
    fn last_transactions(&mut self, _pid: u32, _number: u32) -> Option<(&'static str, u32)> {
        None
    }

    /// Starts asking the server for its own counters, and for what its sessions execute where they do not say so themselves. `texts`:
    /// what may be recorded of these.
    ///
    /// # Errors
    /// It cannot be asked; the message says why.
    fn statistics(
        &mut self,
        _connect: &Connect,
        _clock: Clock,
        _texts: Texts,
    ) -> Result<ServerStatistics, String> {
        Err("dbtime reads only those of PostgreSQL servers".to_string())
    }

    /// From now on asks the server that has replaced the one asked before. `goes_on`: it continues that one's counters.
    ///
    /// # Errors
    /// It cannot be asked, or not yet; the message says why.
    fn ask_anew(
        &self,
        _statistics: &ServerStatistics,
        _connect: &Connect,
        _goes_on: bool,
    ) -> Result<(), String> {
        Ok(())
    }

    /// Settles whether the server is asked what its sessions execute, where they do not say so themselves, and with which texts. None:
    /// it is not asked.
    fn settle_who_tells_statements(&mut self, _asked_for: Option<Texts>) {}

    /// The statement that a session is executing, or executed last. None: there is none, or the database does not say.
    fn executing(&self, _pid: u32) -> Option<u64> {
        None
    }

    /// The text of the statement that a session is executing, as it may be recorded, if it is still this one. None if the database does
    /// not say.
    fn statement_text(&self, _pid: u32, _statement: u64, _texts: Texts) -> Option<StatementText> {
        None
    }

    /// The name that a session's application gives itself, which may be empty. None if the database does not say, or not yet.
    fn application(&self, _pid: u32) -> Option<String> {
        None
    }

    /// The name of a procedural-language function that a session is in. None if it cannot be read.
    fn routine_name(&self, _pid: u32, _routine: RawRoutine) -> Option<String> {
        None
    }

    /// What an internal lock is.
    fn lock_name(&self, _lock: RawLock) -> LockName {
        LockName::default()
    }

    /// Where the use of its internal locks can be observed.
    ///
    /// # Errors
    /// It cannot be determined.
    fn lock_places(&self) -> Result<LockPlaces, CollectError> {
        Err(CollectError::Kernel(
            "--exact: only the LWLocks of a PostgreSQL server are counted".to_string(),
        ))
    }

    /// Who holds what these sessions wait for, only of those that wait for a lock and for which the database says so.
    fn blockers(&self, _waiting: &[u32]) -> Vec<(u32, Vec<Holder>)> {
        Vec::new()
    }

    /// The whole lock table as it is now, or why it cannot be seen. None: there is no such table. `newcomers`: processes that have
    /// begun, or were found, since the previous look; for one that nobody reported, it may take ten seconds until its locks are seen.
    fn look_at_locks(&self, _newcomers: &[u32]) -> Option<Result<LockLook, &'static str>> {
        None
    }

    /// Why locks that are noted with the session, and not in the table, are not seen; None: they are, or nobody has looked yet.
    fn without_fast_path(&self) -> Option<&'static str> {
        None
    }

    /// The relation that a file (a path below the data directory) belongs to. None: it belongs to none, or that is not known.
    fn relation_of_file(&mut self, _path: &str) -> Option<ArcStr> {
        None
    }

    /// The name of the relation with this id in this database (0 = it belongs to all of them). None when it is not known.
    fn relation_name(&mut self, _database: u32, _id: u32) -> Option<ArcStr> {
        None
    }

    /// Who has the log that a session sends; None if it sends none.
    fn standby(&self, _pid: u32) -> Option<Standby> {
        None
    }

    /// The recorded processes of standbys: each receiver, with the process that replays.
    fn standbys(&self) -> Vec<(u32, Option<u32>)> {
        Vec::new()
    }

    /// What a session that waits for a standby waits for.
    fn waits_for_standby(&self, _pid: u32) -> StandbyWait {
        StandbyWait::default()
    }

    /// The position up to which the standby that a session sends the log to has reported it as flushed. None: it sends none, or that is
    /// not known.
    fn standby_flushed(&self, _pid: u32) -> Option<u64> {
        None
    }

    /// A session has ended.
    fn forget(&mut self, _pid: u32) {}

    /// Checks whether something has changed. `gone`: since it was gone.
    fn look(&mut self, gone: bool) -> Option<Change>;
}
