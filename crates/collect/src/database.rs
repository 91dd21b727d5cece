//! What a collector must know of a database: whose processes are its sessions, where each keeps its wait event, and what the
//! numbers mean. One implementation per kind of database.

use std::rc::Rc;
use std::sync::Arc;

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

/// Where a session says what it is doing: addresses in its own memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum WaitSource {
    /// Nowhere.
    #[default]
    None,
    /// Of a pointer to the 32-bit wait event; and where it says what it executes.
    Pointer {
        event: u64,
        status: Option<StatusRecord>,
        locks: Option<LockList>,
        routines: Option<RoutineList>,
    },
    /// Of the 32-bit number of an event, of another number that is above 0 while the session does not wait, and of the
    /// 32-bit hash of its statement (0 = there is none).
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

/// Where a session says what it executes: in a record to which a pointer at an address of its memory points, so many bytes
/// behind its begin. A pointer of 0 = there is no record yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatusRecord {
    pub(crate) pointer: u64,
    /// Of the 64-bit id of the statement; 0 = there is none.
    pub(crate) statement: u16,
    /// Of the 64-bit id of the plan by which it executes that; 0 = there is none.
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
    /// Of the address of the text, whose fingerprint stands for an id that is 0; 0 = none does.
    pub(crate) text: u16,
    /// The database gives ids: of the texts that have none only those of utility statements stand for one.
    pub(crate) gives_ids: bool,
    /// Of the moment at which the statement with this text began, 64 bits.
    pub(crate) since: u16,
    /// Of the address of the text, of which the comment is told.
    pub(crate) comment: u16,
    /// Bytes of a text that are shown there at most: of one as long as that the end may be missing.
    pub(crate) most_text: u32,
    /// Address of a pointer to the text as it was sent, which the session has for itself; 0 = not known.
    pub(crate) whole_text: u64,
}

/// Where a session lists the internal locks that it has: addresses in its own memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockList {
    /// Of their 32-bit number.
    pub(crate) count: u64,
    /// Of the list: each has the address of the lock, which begins with its 16-bit kind, and 32 bits that say how it is had.
    pub(crate) list: u64,
    /// Those of pages.
    pub(crate) pages: Option<PageLocks>,
}

/// Where the locks of pages are, one for each buffer: bpf/page_locks.bpf.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageLocks {
    /// Address of the first.
    pub(crate) first: u64,
    /// How many there are.
    pub(crate) count: u32,
    /// Bytes from one to the next.
    pub(crate) step: u16,
    /// So many bytes before each of them stands which page it is.
    pub(crate) offset: u16,
}

/// Where a session lists the functions of a procedural language that it is in: bpf/routines.bpf.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoutineList {
    /// Address of a pointer to the list.
    pub(crate) contexts: u64,
    /// In a function, of its 32-bit id.
    pub(crate) id: u16,
    /// In the state of its execution, of the address of the statement it is at.
    pub(crate) statement: u16,
}

/// A function of a procedural language that a session is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RawRoutine {
    /// Where the session has its description.
    pub(crate) function: u64,
    /// As the database numbers it; 0 = it has none.
    pub(crate) id: u32,
    /// It is at this line of it; 0 = at none.
    pub(crate) line: u32,
}

/// What a session says it executes, as it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Executing {
    /// Id of the statement; 0 = not known, or none.
    pub(crate) statement: u64,
    /// The plan of it; 0 = the session says none, or that is not known.
    pub(crate) plan: i64,
    /// As the database numbers it ([`WaitNames::session_state`]); 0 = not known.
    pub(crate) session_state: u32,
}

impl WaitSource {
    /// Of a session that has a wait event which is not to be trusted: every look at it fails, and is counted.
    pub(crate) const UNREADABLE: WaitSource = WaitSource::Numbers {
        event: 0,
        on_cpu: 0,
        statement: 0,
    };
}

/// Of [`WaitSource::Numbers`]: the session waits in the event of the other bits.
pub(crate) const NUMBERED: u32 = dbt_wait_mark::WAIT_NUMBERED.0;
/// What was read is too large for a number.
pub(crate) const NO_NUMBER: u32 = dbt_wait_mark::WAIT_NO_NUMBER.0;

/// What the numbers of a database mean that its sessions have in memory: wait events and states.
pub(crate) trait WaitNames {
    /// The wait event of a number, as a process of the foreground or another one is in it; 0 = it does not wait.
    fn decode(&self, wait: u32, foreground: bool) -> Wait;

    /// False for a number that the database cannot mean.
    fn is_known(&self, _wait: u32) -> bool {
        true
    }

    /// Its wait classes, where they are known before they are seen.
    fn classes(&self) -> Vec<String> {
        Vec::new()
    }

    /// State of a session of this number, as the database calls it.
    fn session_state(&self, _number: u32) -> SessionState {
        SessionState::None
    }

    /// What the waits of this database are like.
    fn traits(&self) -> WaitTraits;
}

/// What the waits of a database are like. Classes are known by the top byte of a wait's number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WaitTraits {
    /// Classes that need no stack: it is always the same one.
    pub(crate) no_stack_classes: Vec<u8>,
    /// Single waits of this sort, of which eight are taken.
    pub(crate) no_stack: Vec<u32>,
    /// Classes whose waits go on after a signal's handler has run, although the session leaves the wait event for a moment.
    pub(crate) resumed_classes: Vec<u8>,
    /// Waits in which several system calls transfer data, of which four are taken; any other makes one.
    pub(crate) several_calls: Vec<u32>,
    /// In which a session waits for a command.
    pub(crate) client: Option<u32>,
    /// Number of the state of a session that executes one; 0 = not known.
    pub(crate) executing: u32,
}

/// Where the uses of internal locks can be seen.
#[derive(Debug, Clone)]
pub(crate) struct LockPlaces {
    /// The functions that take them and give them back.
    pub(crate) functions: LockFunctions,
    /// The first process of the server.
    pub(crate) server: u32,
    /// The one session that is meant; none: all.
    pub(crate) only: Option<u32>,
    /// Where sessions say what they execute.
    pub(crate) source: WaitSource,
}

/// A process that is a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: u32,
    pub(crate) source: WaitSource,
    pub(crate) role: Role,
    /// False for a process of another server than the one whose children are recorded.
    pub(crate) is_of_parent: bool,
}

/// Who has what a session waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The process with this pid.
    Process(u32),
    /// A transaction that was prepared, and of which no process is left.
    Prepared,
}

/// At the other end of the connection over which a session sends the server's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standby {
    /// A server of which these processes are recorded: the one that receives, and the one that replays.
    Recorded { receiver: u32, startup: Option<u32> },
    /// A process of this host that is not recorded.
    Process,
    /// A process of another host.
    OtherHost,
    /// It cannot be seen who.
    NotKnown,
}

/// What a session waits for that waits for a standby; none: that is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StandbyWait {
    /// Until the standby has replayed what the session wrote, or only until it has it.
    pub(crate) for_replay: Option<bool>,
    /// Where in the log that ends.
    pub(crate) position: Option<u64>,
}

/// What has become of a database.
#[derive(Debug)]
pub(crate) enum Change {
    /// It runs again after it had gone: everything about it is new.
    Restarted(Restart),
    /// Its sessions, or names, are others than before; what there is to say about it.
    Sessions(Vec<String>),
    /// There are processes to be recorded that nobody tells of.
    Newcomers,
}

/// How a database runs again.
#[derive(Debug)]
pub(crate) struct Restart {
    /// What there is to say about it.
    pub(crate) text: String,
    /// On another data directory: its files, and what it has counted, are not those of before.
    pub(crate) has_other_files: bool,
}

/// See the module.
pub(crate) trait Database {
    /// How a recording describes it.
    fn describe(&self) -> DatabaseMeta;

    /// Names of its wait events.
    fn names(&self) -> Rc<dyn WaitNames>;

    /// What is not known of it.
    fn reasons(&self) -> Vec<String>;

    /// Sessions that exist now.
    fn members(&self) -> Vec<Member>;

    /// Process whose children are sessions from their first moment on, in its address space.
    fn parent(&self) -> Option<u32>;

    /// What its children are.
    fn role_of_children(&self) -> Role;

    /// Process whose working directory has the files, which are named relative to it.
    fn at_files(&self) -> Option<u32>;

    /// True when sessions may come as long as it is there; else the recording ends with those that are recorded.
    fn outlives_its_sessions(&self) -> bool;

    /// What to say when it has gone with the end of this process.
    fn gone_with(&self, pid: u32) -> Option<String>;

    /// By how many transactions each of these sessions has grown since the last call, and who says so; 0 for a session that is
    /// counted from now on. None: it does not say.
    fn transactions(&mut self, _clients: &[u32]) -> Option<(&'static str, Vec<(u32, u32)>)> {
        None
    }

    /// Address of the number from which it counts them, in the memory of each session.
    fn transaction_counter(&self) -> Option<u64> {
        None
    }

    /// The same of a session that has ended with this number; none where it was not counted.
    fn last_transactions(&mut self, _pid: u32, _number: u32) -> Option<(&'static str, u32)> {
        None
    }

    /// Asks the server for what it counts itself, from now on, and for what its sessions execute where they do not tell themselves.
    /// `texts`: what may be recorded of these.
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

    /// Has the server asked for these from now on that runs in the place of the one that was asked before. `goes_on`: it counts on where
    /// that ended.
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

    /// Whether the server is to be asked what its sessions execute, where they do not say it themselves; with their texts as they may be
    /// recorded. None: it is not asked.
    fn settle_who_tells_statements(&mut self, _asked_for: Option<Texts>) {}

    /// The statement that a session executes at this moment, or has executed last. None: there is none, or the database does not tell.
    fn executing(&self, _pid: u32) -> Option<u64> {
        None
    }

    /// The text of the statement that a session executes, as it may be recorded, if it is still this one. None when the database
    /// does not tell.
    fn statement_text(&self, _pid: u32, _statement: u64, _texts: Texts) -> Option<StatementText> {
        None
    }

    /// What the application of a session calls itself, which may be nothing. None when the database does not tell, or not yet.
    fn application(&self, _pid: u32) -> Option<String> {
        None
    }

    /// The name of a function of a procedural language that a session is in. None when it cannot be read.
    fn routine_name(&self, _pid: u32, _routine: RawRoutine) -> Option<String> {
        None
    }

    /// What an internal lock is.
    fn lock_name(&self, _lock: RawLock) -> LockName {
        LockName::default()
    }

    /// Where the uses of its internal locks can be seen.
    ///
    /// # Errors
    /// It cannot be told.
    fn lock_places(&self) -> Result<LockPlaces, CollectError> {
        Err(CollectError::Kernel(
            "--exact: only the LWLocks of a PostgreSQL server are counted".to_string(),
        ))
    }

    /// Who has what these sessions wait for, of those that wait for a lock and of which the database tells it.
    fn blockers(&self, _waiting: &[u32]) -> Vec<(u32, Vec<Holder>)> {
        Vec::new()
    }

    /// All that is in the lock table now, or why it cannot be seen. None: it has none. `newcomers`: processes that have begun, or were
    /// found, since the look before; of one that nobody told of it may take ten seconds until its locks are seen.
    fn look_at_locks(&self, _newcomers: &[u32]) -> Option<Result<LockLook, &'static str>> {
        None
    }

    /// Why locks that are noted with the session, and not in the table, are not seen; none: they are, or nobody has looked yet.
    fn without_fast_path(&self) -> Option<&'static str> {
        None
    }

    /// Of what relation a file is: a path below the data directory. None: it is of none, or that is not known.
    fn relation_of_file(&mut self, _path: &str) -> Option<Arc<str>> {
        None
    }

    /// The name of the relation with this id in this database (0 = it belongs to all of them). None when it is not known.
    fn relation_name(&mut self, _database: u32, _id: u32) -> Option<Arc<str>> {
        None
    }

    /// Who has the log that a session sends; none for one that sends none.
    fn standby(&self, _pid: u32) -> Option<Standby> {
        None
    }

    /// The processes of standbys that are recorded: those that receive, with those that replay.
    fn standbys(&self) -> Vec<(u32, Option<u32>)> {
        Vec::new()
    }

    /// For what a session waits that waits for a standby.
    fn waits_for_standby(&self, _pid: u32) -> StandbyWait {
        StandbyWait::default()
    }

    /// Up to where the standby to which a session sends the log has said that it has flushed it. None: it sends none, or that cannot be
    /// told.
    fn standby_flushed(&self, _pid: u32) -> Option<u64> {
        None
    }

    /// A session has ended.
    fn forget(&mut self, _pid: u32) {}

    /// Looks whether something has changed. `gone`: since it had gone.
    fn look(&mut self, gone: bool) -> Option<Change>;
}
