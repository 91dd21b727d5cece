//! A PostgreSQL server, one of its sessions, or a process that belongs to no database, as the collector records it.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use arcstr::ArcStr;
use dbtime_model::recording::DatabaseMeta;
use dbtime_model::{SessionState, Wait, counter};

use super::Server;
use super::activity::Activity;
use super::backend_status::BackendStatus;
use super::connection::Connect;
use super::held_locks::ServerLocks;
use super::lock_functions::LockFunctions;
use super::lock_looks::LockLooks;
use super::locks::LockTable;
use super::normal::normalised;
use super::query_ids::{NO_QUERY_IDS, gives_query_ids};
use super::relations::Relations;
use super::replication::{self, Replication};
use super::routines::Routines;
use super::standby::Standby;
use super::statistics::ServerStatistics;
use super::tranches::Tranches;
use super::transactions::Transactions;
use super::wait_events::{self, WaitEventNames};
use crate::CollectError;
use crate::clock::Clock;
use crate::database::{
    self, Change, Database, Holder, LockPlaces, Member, RawRoutine, Restart, StandbyWait, Texts, WaitNames,
    WaitSource, WaitTraits,
};
use crate::executable::Executable;
use crate::held_locks::{LockName, RawLock};
use crate::lock_requests::LockLook;
use crate::session::Role;
use crate::statements::StatementText;

/// Why nothing is known about a server.
const NOT_READ: &str = "the server's executable cannot be read";
/// What to do if sessions cannot be read.
const WHAT_HELPS: &str = "install the debug symbols of the server's package (-dbgsym, -debuginfo), which tell where they are, or use --connect (record, snap): it queries pg_stat_activity once a second";
/// How often, and at what interval, a server that has just started is examined.
const NEW_SERVER_LOOKS: u32 = 5;
const NEW_SERVER_PAUSE: Duration = Duration::from_millis(15);
/// `PG_WAIT_LWLOCK`: waits for LWLocks, with the kind of lock in the other bits (src/include/utils/wait_event.h).
const LWLOCK: u32 = 0x0100_0000;
/// Most waits whose names are remembered.
const MOST_DECODED: usize = 4_096;

/// See the module.
pub(crate) struct PostgresDatabase {
    server: Server,
    /// The one session, or process, to record; none = the whole server.
    only: Option<u32>,
    /// Children of the server, or process, are recorded too.
    with_children: bool,
    /// None = it is not a server.
    places: Option<Places>,
    /// Standbys, which receive its WAL and are recorded with it.
    standbys: Vec<Standby>,
    /// How the server is queried for what its sessions execute, if they cannot be read.
    asked: Option<Activity>,
}

/// Where the sessions of a server keep what is read from them.
struct Places {
    transactions: Option<Transactions>,
    /// Where they keep which statement they execute, or why that is not known.
    status: Result<BackendStatus, &'static str>,
    /// Where they list the LWLocks that they hold, or why that is not known.
    held_locks: Result<ServerLocks, &'static str>,
    /// Names that extensions gave their LWLocks.
    tranches: Tranches,
    /// Where they list the PL/pgSQL functions that they are in. None = it is not known.
    routines: Option<Routines>,
    /// Where they keep the state of replication to standbys.
    replication: Replication,
    /// Found when a session waits for a lock: by then there are sessions to examine. None inside = it cannot be read.
    locks: OnceCell<Option<LockTable>>,
    /// The same table, as a whole.
    all_locks: LockLooks,
    /// Names of tables and indexes.
    relations: Relations,
}

impl Places {
    /// As found in the server's executable and in these processes of it.
    fn of(server: &Server, processes: &[u32]) -> Places {
        let postmaster = server.postmaster;
        let executable = Executable::of(postmaster);
        let tranches = executable.as_ref().map_or_else(
            |_| Tranches::default(),
            |executable| tranches_of(server, executable),
        );
        let (transactions, status, held_locks, replication, routines) = match executable {
            Ok(executable) => (
                Transactions::of(&executable),
                BackendStatus::of(server, &executable, processes),
                server_locks(server, &executable),
                Replication::of(&executable),
                Routines::of(&executable, server.major),
            ),
            Err(_) => (None, Err(NOT_READ), Err(NOT_READ), Replication::default(), None),
        };
        Places {
            transactions,
            status,
            held_locks,
            tranches,
            replication,
            routines,
            locks: OnceCell::new(),
            all_locks: LockLooks::default(),
            relations: Relations::default(),
        }
    }

    /// The same for a server that has just started: it lists no locks before it has set up its shared memory.
    fn of_new(server: &Server, processes: &[u32]) -> Places {
        let mut places = Places::of(server, processes);
        for _ in 0..NEW_SERVER_LOOKS {
            if places.held_locks.is_ok() {
                break;
            }
            std::thread::sleep(NEW_SERVER_PAUSE);
            if let Ok(executable) = Executable::of(server.postmaster) {
                places.held_locks = server_locks(server, &executable);
                places.tranches = tranches_of(server, &executable);
            }
        }
        places
    }
}

/// The name of locks of this kind.
fn kind_of_lock(server: &Server, kind: u16) -> Option<Cow<'static, str>> {
    let (names, _) = WaitEventNames::for_major(server.major);
    let (_, event) = names.decode(LWLOCK | u32::from(kind))?;
    Some(event)
}

fn tranches_of(server: &Server, executable: &Executable) -> Tranches {
    let is_extensions = |kind| kind_of_lock(server, kind).is_some_and(|name| name.starts_with("extension#"));
    Tranches::of(server, executable, is_extensions)
}

fn server_locks(server: &Server, executable: &Executable) -> Result<ServerLocks, &'static str> {
    let is_of_page = |kind| kind_of_lock(server, kind).is_some_and(|name| *name == *"BufferContent");
    ServerLocks::of(server.postmaster, executable, is_of_page)
}

impl PostgresDatabase {
    /// The whole server.
    pub(crate) fn whole(server: Server) -> PostgresDatabase {
        PostgresDatabase {
            places: Some(Places::of(&server, &server.children())),
            server,
            only: None,
            with_children: true,
            standbys: Vec::new(),
            asked: None,
        }
    }

    /// The same, with the receiving and replaying processes of these standbys (by data directory).
    ///
    /// # Errors
    /// There is no such standby.
    pub(crate) fn with_standbys(mut self, directories: &[PathBuf]) -> Result<PostgresDatabase, CollectError> {
        if !directories.is_empty() && (self.only.is_some() || !self.server.has_waits()) {
            return Err(CollectError::NoStandbyOf);
        }
        for directory in directories {
            self.standbys.push(Standby::on(directory, &self.server)?);
        }
        Ok(self)
    }

    /// A session, or the whole server if this is its postmaster.
    ///
    /// # Errors
    /// There is no such process, or it does not belong to a server.
    pub(crate) fn of_session(pid: u32) -> Result<PostgresDatabase, CollectError> {
        let server = Server::of_backend(pid)?;
        if pid == server.postmaster {
            return Ok(PostgresDatabase::whole(server));
        }
        Ok(PostgresDatabase {
            places: Some(Places::of(&server, &[pid])),
            server,
            only: Some(pid),
            with_children: false,
            standbys: Vec::new(),
            asked: None,
        })
    }

    fn status(&self) -> Option<BackendStatus> {
        self.places.as_ref()?.status.ok()
    }

    fn server_locks(&self) -> Option<&ServerLocks> {
        self.places.as_ref()?.held_locks.as_ref().ok()
    }

    fn tranches(&self) -> Option<&Tranches> {
        Some(&self.places.as_ref()?.tranches)
    }

    fn routines(&self) -> Option<Routines> {
        self.places.as_ref()?.routines
    }

    /// Those that now run the same major version: data from others would be misread.
    fn recorded_standbys(&self) -> impl Iterator<Item = &Standby> {
        let of = &self.server;
        self.standbys.iter().filter(move |standby| standby.is_like(of))
    }

    fn statement_ids(&self) -> &'static str {
        let gives_ids = match self.status() {
            Some(status) => Some(!status.fingerprints),
            None => self.asked.map(|asked| asked.gives_ids),
        };
        match gives_ids {
            Some(true) => DatabaseMeta::QUERY_ID,
            Some(false) => DatabaseMeta::FINGERPRINT,
            None => "",
        }
    }

    /// A process that belongs to no database, and its children.
    ///
    /// # Errors
    /// There is no such process.
    pub(crate) fn of_any_process(pid: u32) -> Result<PostgresDatabase, CollectError> {
        Ok(PostgresDatabase {
            server: Server::of_any_process(pid)?,
            only: Some(pid),
            with_children: true,
            places: None,
            standbys: Vec::new(),
            asked: None,
        })
    }

    fn source(&self) -> WaitSource {
        if self.server.has_waits() {
            WaitSource::Pointer {
                event: self.server.wait_address,
                status: self.status().map(BackendStatus::record),
                locks: self.server_locks().map(|locks| locks.list),
                routines: self.routines().map(|routines| routines.list),
            }
        } else {
            WaitSource::None
        }
    }

    fn member(&self, pid: u32) -> Member {
        let role = match self.role_of_children() {
            Role::Backend if pid == self.server.postmaster => Role::Postmaster,
            role => role,
        };
        Member {
            pid,
            source: self.source(),
            role,
            is_of_parent: true,
        }
    }
}

impl Database for PostgresDatabase {
    fn describe(&self) -> DatabaseMeta {
        DatabaseMeta {
            product: self.server.product(),
            version: self.server.version.clone(),
            data_directory: self.server.data_directory.to_string_lossy().into_owned(),
            executable: self.server.executable.to_string_lossy().into_owned(),
            target: match self.only {
                Some(pid) => format!("pid {pid}"),
                None => "server".to_string(),
            },
            standbys: self
                .standbys
                .iter()
                .map(|standby| standby.data_directory().to_string_lossy().into_owned())
                .collect(),
            statement_ids: self.statement_ids().to_string(),
            entries_checked: self.status().map_or(0, |status| status.checked),
            held_locks: self.server_locks().is_some(),
            // The collector knows whether the lock table is read, and the versions.
            locks: false,
            later_versions: Vec::new(),
        }
    }

    fn names(&self) -> Rc<dyn WaitNames> {
        Rc::new(ServerWaits {
            names: WaitEventNames::for_major(self.server.major).0,
            decoded: RefCell::default(),
            tranches: self.tranches().cloned().unwrap_or_default(),
        })
    }

    fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        let (names, exact) = WaitEventNames::for_major(self.server.major);
        if !exact && self.server.has_waits() {
            reasons.push(format!(
                "this dbtime does not know the wait events of PostgreSQL {}: it shows those of {}, and some names may be wrong",
                self.server.major,
                names.major()
            ));
        }
        match self.places.as_ref().map(|places| places.status) {
            Some(Ok(status)) if status.is_of_debug_information => reasons.push(format!(
                "this server keeps what its sessions execute in another place than PostgreSQL 14 to 18: the place was taken from its debug information, and {} of its processes confirm it",
                status.checked
            )),
            Some(Err(why)) if self.asked.is_some() => reasons.push(format!(
                "statements are joined: pg_stat_activity was queried once a second, and what a session did until the next answer is attributed to that statement; they are not read from sessions: {why}"
            )),
            Some(Err(why)) => reasons.push(format!("query ids are not recorded: {why}; {WHAT_HELPS}")),
            Some(Ok(_)) | None => {}
        }
        if self.statement_ids() == DatabaseMeta::FINGERPRINT {
            reasons.push(NO_QUERY_IDS.to_string());
        }
        match self.places.as_ref().map(|places| &places.held_locks) {
            Some(Err(why)) => reasons.push(format!("holders of LWLocks are not recorded: {why}")),
            Some(Ok(locks)) if locks.list.pages.is_none() => {
                reasons.push("the pages of BufferContent locks are not recorded: this server keeps these locks in an unknown way".to_string());
            }
            Some(Ok(_)) | None => {}
        }
        reasons
    }

    fn members(&self) -> Vec<Member> {
        if !self.with_children {
            return self.only.map(|pid| self.member(pid)).into_iter().collect();
        }
        // The parent first, so that no child is missed.
        let mut members = vec![self.member(self.server.postmaster)];
        members.extend(self.server.children().into_iter().map(|pid| self.member(pid)));
        for standby in self.recorded_standbys() {
            members.extend(standby.processes().map(|pid| Member {
                pid,
                source: standby.source(),
                role: Role::Backend,
                is_of_parent: false,
            }));
        }
        members
    }

    fn parent(&self) -> Option<u32> {
        Some(self.server.postmaster)
    }

    fn role_of_children(&self) -> Role {
        if self.server.has_waits() {
            Role::Backend
        } else {
            Role::Process
        }
    }

    fn at_files(&self) -> Option<u32> {
        Some(self.server.postmaster)
    }

    fn outlives_its_sessions(&self) -> bool {
        self.only.is_none()
    }

    fn gone_with(&self, pid: u32) -> Option<String> {
        (pid == self.server.postmaster && self.only.is_none())
            .then(|| format!("the server has stopped (postmaster {pid} ended)"))
    }

    fn transactions(&mut self, clients: &[u32]) -> Option<(&'static str, Vec<(u32, u32)>)> {
        Some((
            counter::SESSION_MEMORY,
            self.places.as_mut()?.transactions.as_mut()?.count(clients),
        ))
    }

    fn transaction_counter(&self) -> Option<u64> {
        Some(self.places.as_ref()?.transactions.as_ref()?.counter())
    }

    fn last_transactions(&mut self, pid: u32, number: u32) -> Option<(&'static str, u32)> {
        let transactions = self.places.as_mut()?.transactions.as_mut()?;
        Some((counter::SESSION_MEMORY, transactions.count_last(pid, number)?))
    }

    fn statistics(
        &mut self,
        connect: &Connect,
        clock: Clock,
        texts: Texts,
    ) -> Result<ServerStatistics, String> {
        if !self.server.has_waits() {
            return Err("it is not a PostgreSQL server".to_string());
        }
        self.settle_who_tells_statements(Some(texts));
        ServerStatistics::start(connect, &self.server, clock, self.asked)
    }

    fn ask_anew(
        &self,
        statistics: &ServerStatistics,
        connect: &Connect,
        goes_on: bool,
    ) -> Result<(), String> {
        statistics.ask_anew(connect, &self.server, self.asked, goes_on)
    }

    fn settle_who_tells_statements(&mut self, asked_for: Option<Texts>) {
        let is_read = self.places.as_ref().is_none_or(|places| places.status.is_ok());
        let postmaster = self.server.postmaster;
        self.asked = asked_for.filter(|_| !is_read).map(|texts| Activity {
            gives_ids: Executable::of(postmaster)
                .ok()
                .and_then(|executable| gives_query_ids(postmaster, &executable))
                .unwrap_or(true),
            texts,
        });
    }

    fn executing(&self, pid: u32) -> Option<u64> {
        self.status()?.executing(pid)
    }

    fn statement_text(&self, pid: u32, statement: u64, texts: Texts) -> Option<StatementText> {
        let keep: fn(&str) -> String = match texts {
            Texts::None => return None,
            Texts::Normalized => normalised,
            Texts::Full => str::to_string,
        };
        let found = self.status()?.text(pid, statement)?;
        Some(StatementText {
            text: keep(&found.text),
            ..found
        })
    }

    fn application(&self, pid: u32) -> Option<String> {
        self.status()?.application(pid)
    }

    fn relation_of_file(&mut self, path: &str) -> Option<ArcStr> {
        let relations = &mut self.places.as_mut()?.relations;
        relations.name_of_file(self.server.postmaster, path)
    }

    fn relation_name(&mut self, database: u32, id: u32) -> Option<ArcStr> {
        let relations = &mut self.places.as_mut()?.relations;
        relations.name(self.server.postmaster, database, id)
    }

    fn blockers(&self, waiting: &[u32]) -> Vec<(u32, Vec<Holder>)> {
        if waiting.is_empty() {
            return Vec::new();
        }
        let postmaster = self.server.postmaster;
        let look = || LockTable::of(postmaster, &self.server.children());
        let known = self.places.as_ref();
        let Some(locks) = known.and_then(|places| places.locks.get_or_init(look).as_ref()) else {
            return Vec::new();
        };
        match self.server.host_pids() {
            None => locks.blockers(waiting, Some),
            Some(hosts) => locks.blockers(waiting, |pid| hosts.get(&pid).copied()),
        }
    }

    fn look_at_locks(&self, newcomers: &[u32]) -> Option<Result<LockLook, &'static str>> {
        let places = self.places.as_ref()?;
        let (names, _) = WaitEventNames::for_major(self.server.major);
        Some(places.all_locks.look(
            (self.server.postmaster, self.server.major),
            newcomers,
            || self.server.children(),
            self.server.host_pids().as_ref(),
            places.status.ok(),
            names,
        ))
    }

    fn without_fast_path(&self) -> Option<&'static str> {
        self.places.as_ref()?.all_locks.without_fast_path()
    }

    fn standby(&self, pid: u32) -> Option<database::Standby> {
        let replication = &self.places.as_ref()?.replication;
        replication
            .sends(pid)
            .then(|| replication::who_takes(pid, &self.standbys))
    }

    fn standbys(&self) -> Vec<(u32, Option<u32>)> {
        let both = |standby: &Standby| Some((standby.receiver?, standby.startup));
        self.recorded_standbys().filter_map(both).collect()
    }

    fn waits_for_standby(&self, pid: u32) -> StandbyWait {
        let places = self.places.as_ref();
        places.map_or_else(StandbyWait::default, |places| {
            places.replication.waits_for_standby(pid)
        })
    }

    fn standby_flushed(&self, pid: u32) -> Option<u64> {
        self.places.as_ref()?.replication.standby_flushed(pid)
    }

    fn routine_name(&self, pid: u32, routine: RawRoutine) -> Option<String> {
        self.routines()?.name(pid, routine)
    }

    fn lock_name(&self, lock: RawLock) -> LockName {
        let by_extension = self.tranches().and_then(|tranches| tranches.name(lock.kind));
        let name = match by_extension {
            Some(name) => Some(Cow::Owned(name.to_string())),
            None => kind_of_lock(&self.server, lock.kind),
        };
        let page = lock.page.and_then(|page| {
            let relations = &self.places.as_ref()?.relations;
            Some((relations.file_of(self.server.postmaster, page)?, page.block))
        });
        let (file, block) = page.unzip();
        LockName {
            name: name.map_or_else(ArcStr::new, ArcStr::from),
            number: self.server_locks().and_then(|locks| locks.number(lock)),
            file: file.unwrap_or_default(),
            block,
        }
    }

    fn lock_places(&self) -> Result<LockPlaces, CollectError> {
        let postmaster = self.server.postmaster;
        if !self.server.has_waits() {
            return Err(CollectError::Kernel(
                "--exact: only the LWLocks of a PostgreSQL server are counted".to_string(),
            ));
        }
        let functions = Executable::of(postmaster).and_then(|executable| LockFunctions::of(&executable));
        let functions = functions.map_err(|e| CollectError::Executable {
            executable: self.server.executable.clone(),
            what: format!("the uses of its LWLocks cannot be counted: {e}"),
        })?;
        Ok(LockPlaces {
            functions,
            server: postmaster,
            only: self.only,
            source: self.source(),
        })
    }

    fn forget(&mut self, pid: u32) {
        if let Some(Places {
            transactions: Some(transactions),
            ..
        }) = &mut self.places
        {
            transactions.forget(pid);
        }
    }

    fn look(&mut self, gone: bool) -> Option<Change> {
        if !gone {
            // Not `any`: every one of them has to look.
            let changed = self
                .standbys
                .iter_mut()
                .filter_map(|standby| standby.look().then_some(()));
            return (changed.count() > 0).then_some(Change::Newcomers);
        }
        let successor = self.server.successor()?;
        let places = Places::of_new(&successor, &successor.children());
        let before = std::mem::replace(&mut self.server, successor);
        let has_other_files = !self.server.is_on_directory_of(&before);
        let mut text = comes_back(&before, &self.server);
        if let Err(why) = places.held_locks {
            text.push_str(&format!(
                "; from now on holders of LWLocks are not recorded: {why}"
            ));
        }
        self.places = Some(places);
        Some(Change::Restarted(Restart {
            text,
            has_other_files,
        }))
    }
}

/// The message about a server that runs in place of one that has ended.
fn comes_back(before: &Server, now: &Server) -> String {
    let mut text = match now.is_on_directory_of(before) {
        true => format!("the server has restarted (postmaster {})", now.postmaster),
        false => format!(
            "the data directory has been replaced: the server on {} is recorded from now on (postmaster {})",
            now.data_directory.display(),
            now.postmaster
        ),
    };
    if now.version != before.version {
        text.push_str(&format!(
            "; it is now PostgreSQL {}, previously {}",
            now.version, before.version
        ));
    }
    text
}

/// BackendState in src/include/utils/backend_status.h, of 14 to 17.
const STATES_14: [SessionState; 7] = [
    SessionState::None,
    SessionState::Idle,
    SessionState::Active,
    SessionState::IdleInTransaction,
    SessionState::FastpathCall,
    SessionState::IdleInFailedTransaction,
    SessionState::Disabled,
];
/// The same of 18.
const STATES_18: [SessionState; 8] = [
    SessionState::None,
    SessionState::Starting,
    SessionState::Idle,
    SessionState::Active,
    SessionState::IdleInTransaction,
    SessionState::FastpathCall,
    SessionState::IdleInFailedTransaction,
    SessionState::Disabled,
];

fn states(major: u32) -> &'static [SessionState] {
    if major >= 18 { &STATES_18 } else { &STATES_14 }
}

/// Names of the version, and those that this server's extensions gave.
struct ServerWaits {
    names: &'static WaitEventNames,
    tranches: Tranches,
    /// Waits that were asked for before, for foreground processes or others.
    decoded: RefCell<HashMap<(u32, bool), Wait>>,
}

impl ServerWaits {
    fn decode_anew(&self, wait: u32, foreground: bool) -> Wait {
        let kind = wait.checked_sub(LWLOCK).and_then(|kind| u16::try_from(kind).ok());
        let name = kind.and_then(|kind| self.tranches.name(kind));
        match (name, WaitNames::decode(&self.names, wait, foreground)) {
            (Some(name), wait) => Wait::event(wait.class, name, wait.idle),
            (None, wait) => wait,
        }
    }
}

impl WaitNames for ServerWaits {
    fn decode(&self, wait: u32, foreground: bool) -> Wait {
        let mut decoded = self.decoded.borrow_mut();
        if let Some(known) = decoded.get(&(wait, foreground)) {
            return known.clone();
        }
        // The number was read from a process: it may be anything.
        if decoded.len() >= MOST_DECODED {
            decoded.clear();
        }
        let new = self.decode_anew(wait, foreground);
        decoded.insert((wait, foreground), new.clone());
        new
    }

    fn classes(&self) -> Vec<String> {
        WaitNames::classes(&self.names)
    }

    fn session_state(&self, number: u32) -> SessionState {
        self.names.session_state(number)
    }

    fn traits(&self) -> WaitTraits {
        self.names.traits()
    }
}

impl WaitNames for &'static WaitEventNames {
    fn decode(&self, wait: u32, foreground: bool) -> Wait {
        match WaitEventNames::decode(self, wait) {
            None => Wait::none(),
            Some((class, event)) => {
                let is_idle = wait_events::is_idle(&class, &event, foreground);
                Wait::event(class, event, is_idle)
            }
        }
    }

    fn classes(&self) -> Vec<String> {
        WaitEventNames::classes(self)
            .into_iter()
            .map(str::to_string)
            .collect()
    }

    fn session_state(&self, number: u32) -> SessionState {
        let states = states(self.major());
        states.get(number as usize).copied().unwrap_or_default()
    }

    fn traits(&self) -> WaitTraits {
        // Idle sessions need no stack: it is always the same one.
        let (no_stack_classes, no_stack) = wait_events::idle_codes(self);
        WaitTraits {
            no_stack_classes,
            no_stack,
            // After deadlock_timeout a session checks for deadlocks, perhaps logs that, and waits on.
            resumed_classes: wait_events::class_codes(self, "Lock"),
            // XLogFileInit and dsm_impl_posix_resize report one wait around a loop of calls.
            several_calls: wait_events::event_codes(
                self,
                &["WALInitWrite", "WalInitWrite", "DSMFillZeroWrite"],
            ),
            client: wait_events::event_codes(self, &["ClientRead"]).first().copied(),
            executing: states(self.major())
                .iter()
                .position(|&state| state == SessionState::Active)
                .map_or(0, |number| number as u32),
        }
    }
}
