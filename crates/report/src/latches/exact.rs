//! Internal locks with every use counted ([`LockUses`]), next to what samples say about the same seconds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::ops::AddAssign;

use arcstr::ArcStr;
use dbtime_model::{HeldLockRow, LockUse, LockUses, SessionId};
use serde::Serialize;

use super::column::LatchColumn;
use super::holding::{innermost, session_label};
use super::{HoldMode, SingleLock};
use crate::dimensions::Dimensions;
use crate::fields;
use crate::filter::Filter;
use crate::stacks::frames;

/// Counts of some uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct UseSums {
    /// How often a lock was taken.
    pub gets: u128,
    /// How often a session had to wait, by the server's own account: before these gets, and where it did not take the lock then.
    pub waits: u128,
    /// Total of these waits, nanoseconds.
    pub wait_ns: u128,
    /// The longest of them.
    pub max_wait_ns: u64,
    /// How often it was tried without waiting (taken only if free), and was not free.
    pub refused: u128,
    /// How often it was held: gets, and holds that had begun before.
    pub holds: u128,
    /// For how long, nanoseconds, within the time that counts. Concurrent holds of several sessions add up.
    pub held_ns: u128,
    /// The longest of these.
    pub max_hold_ns: u64,
}

impl UseSums {
    fn add(&mut self, used: &LockUse) {
        let sums = &used.sums;
        *self += UseSums {
            gets: sums.gets.into(),
            waits: sums.waited.into(),
            wait_ns: sums.wait_ns.into(),
            max_wait_ns: sums.max_wait_ns,
            refused: sums.refused.into(),
            holds: sums.holds.into(),
            held_ns: sums.hold_ns.into(),
            max_hold_ns: sums.max_hold_ns,
        };
    }

    /// Held longest first.
    fn order(&self) -> Reverse<(u128, u128)> {
        Reverse((self.held_ns, self.gets))
    }

    /// Mean length of a hold, nanoseconds.
    pub fn mean_hold_ns(&self) -> u128 {
        self.held_ns / self.holds.max(1)
    }

    /// Mean length of a wait, nanoseconds.
    pub fn mean_wait_ns(&self) -> u128 {
        self.wait_ns / self.waits.max(1)
    }
}

impl AddAssign for UseSums {
    fn add_assign(&mut self, other: UseSums) {
        self.gets += other.gets;
        self.waits += other.waits;
        self.wait_ns += other.wait_ns;
        self.max_wait_ns = self.max_wait_ns.max(other.max_wait_ns);
        self.refused += other.refused;
        self.holds += other.holds;
        self.held_ns += other.held_ns;
        self.max_hold_ns = self.max_hold_ns.max(other.max_hold_ns);
    }
}

/// All uses of internal locks in some seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExactLatches {
    /// The time that counts, microseconds since the Unix epoch.
    pub from_us: i64,
    /// Its end.
    pub to_us: i64,
    /// How long it is, nanoseconds.
    pub elapsed_ns: u64,
    /// How often all sessions took a lock, filtered or not.
    pub gets: u128,
    /// What a get and its release cost the session, nanoseconds, as measured on this host.
    pub use_cost_ns: u64,
    /// CPU time of the probes, as a part of one CPU.
    pub cpu: f64,
    /// Of that, in other servers of the same executable.
    pub cpu_of_others: f64,
    /// Uses for which there was no room.
    pub lost: u64,
    /// Locks released whose get was not seen: how long they were held is not known.
    pub without_get: u64,
    /// Holds that are counted as gets only.
    pub holds_without_room: u64,
    /// Why it ended early.
    pub stopped: Option<String>,
    /// Groupings and filters that were requested but that uses do not support: then everything else here is empty.
    pub not_by: Vec<String>,
    /// By name, held or waited for longest first.
    pub latches: Vec<ExactLatch>,
}

/// Locks of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExactLatch {
    /// Named as the wait event of those waiting for it.
    pub name: String,
    /// Exclusive uses; none: there were none.
    pub exclusive: Option<UseSums>,
    /// Shared uses.
    pub shared: Option<UseSums>,
    /// Single locks of this name, held longest first.
    pub single: Vec<ExactSingle>,
    /// Sessions, longest holder first.
    pub sessions: Vec<ExactSession>,
    /// Statements, longest holder first.
    pub statements: Vec<ExactStatement>,
    /// Where in the code it was requested, held longest first.
    pub places: Vec<ExactPlace>,
}

/// One lock of several of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExactSingle {
    /// Which one; those for which there was no room are merged.
    #[serde(flatten)]
    pub lock: SingleLock,
    /// What was counted.
    #[serde(flatten)]
    pub sums: UseSums,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExactSession {
    /// Its pid, or its number in the database.
    pub session: String,
    /// Its kind of process.
    pub backend_type: ArcStr,
    /// Whose.
    pub user: String,
    /// What was counted.
    #[serde(flatten)]
    pub sums: UseSums,
}

/// A statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExactStatement {
    /// Its id; 0 = not known, or none.
    #[serde(rename = "query", serialize_with = "fields::query_id")]
    pub statement: u64,
    /// Its text; none when it was not read.
    pub text: Option<String>,
    /// What was counted.
    #[serde(flatten)]
    pub sums: UseSums,
}

/// A place in the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExactPlace {
    /// The function that requested the lock, after its caller if known.
    pub functions: Vec<ArcStr>,
    /// What was counted.
    #[serde(flatten)]
    pub sums: UseSums,
}

impl ExactLatch {
    fn longest(&self) -> u128 {
        let of = |sums: &Option<UseSums>| sums.map_or(0, |sums| sums.held_ns.max(sums.wait_ns));
        of(&self.exclusive) + of(&self.shared)
    }
}

#[derive(Default)]
struct Sums {
    exclusive: Option<UseSums>,
    shared: Option<UseSums>,
    single: HashMap<SingleLock, UseSums>,
    sessions: HashMap<SessionId, UseSums>,
    statements: HashMap<u64, UseSums>,
    places: HashMap<Vec<ArcStr>, UseSums>,
}

/// The filters and columns that uses do not support.
fn not_by(filter: &Filter, columns: &[LatchColumn]) -> Vec<String> {
    let chosen = [
        (!filter.waits.is_empty(), "wait"),
        (!filter.states.is_empty(), "state"),
    ];
    let chosen = chosen.into_iter().filter(|(is_chosen, _)| *is_chosen);
    let columns = columns.iter().filter(|column| !is_known_of_uses(**column));
    let mut not_by: Vec<String> = chosen.map(|(_, name)| name.to_string()).collect();
    not_by.extend(columns.map(|column| column.as_str().to_string()));
    not_by.sort_unstable();
    not_by.dedup();
    not_by
}

/// Only samples tell where in the code a session is while it holds a lock, and what it does: a use only has the place where the lock was
/// requested.
fn is_known_of_uses(column: LatchColumn) -> bool {
    match column {
        LatchColumn::Name
        | LatchColumn::Lock
        | LatchColumn::Relation
        | LatchColumn::Mode
        | LatchColumn::Session
        | LatchColumn::User
        | LatchColumn::BackendType
        | LatchColumn::Application
        | LatchColumn::Query
        | LatchColumn::SqlId
        | LatchColumn::Statement => true,
        LatchColumn::Wait | LatchColumn::State | LatchColumn::Where => false,
    }
}

/// Adds up all uses that the filter lets through, and groups them by these columns.
pub(super) fn exact(
    uses: &LockUses,
    filter: &Filter,
    columns: &[LatchColumn],
    dimensions: &mut Dimensions,
) -> (ExactLatches, HashMap<Vec<String>, UseSums>) {
    let not_by = not_by(filter, columns);
    let mut latches: BTreeMap<&str, Sums> = BTreeMap::new();
    let mut profile: HashMap<Vec<String>, UseSums> = HashMap::new();
    let wanted = uses.uses.iter().filter(|_| not_by.is_empty());
    for used in wanted {
        if !filter.takes_statement(used.statement) || !filter.takes_session(dimensions.session(used.session))
        {
            continue;
        }
        let row = as_row(used);
        let sums = latches.entry(&used.lock).or_default();
        let of_mode = match used.exclusive {
            true => &mut sums.exclusive,
            false => &mut sums.shared,
        };
        of_mode.get_or_insert_default().add(used);
        sums.single.entry(SingleLock::of_row(&row)).or_default().add(used);
        sums.sessions.entry(used.session).or_default().add(used);
        sums.statements.entry(used.statement).or_default().add(used);
        let code = innermost(frames(used.user_stack, dimensions));
        sums.places.entry(code).or_default().add(used);
        if !columns.is_empty() {
            let cells = columns.iter().map(|column| column.of(&row, dimensions));
            profile.entry(cells.collect()).or_default().add(used);
        }
    }
    let mut latches: Vec<ExactLatch> = latches
        .into_iter()
        .map(|(name, sums)| finish(name, sums, dimensions))
        .collect();
    latches.sort_by_key(|latch| Reverse(latch.longest()));
    let exact = ExactLatches {
        from_us: uses.from_us,
        to_us: uses.to_us,
        elapsed_ns: uses.elapsed_ns,
        gets: uses.uses.iter().map(|used| u128::from(used.sums.gets)).sum(),
        use_cost_ns: uses.use_ns(),
        cpu: uses.cost(),
        cpu_of_others: uses.cost_of_others(),
        lost: uses.lost,
        without_get: uses.without_get,
        holds_without_room: uses.holds_without_room,
        stopped: uses.stopped.clone(),
        not_by,
        latches,
    };
    (exact, profile)
}

fn finish(name: &str, sums: Sums, dimensions: &mut Dimensions) -> ExactLatch {
    let mut single: Vec<ExactSingle> = sums
        .single
        .into_iter()
        .map(|(lock, sums)| ExactSingle { lock, sums })
        .collect();
    single.sort_by(|one, other| {
        let by_time = one.sums.order().cmp(&other.sums.order());
        by_time.then_with(|| one.lock.cmp(&other.lock))
    });
    let mut sessions: Vec<ExactSession> = sums
        .sessions
        .into_iter()
        .map(|(id, sums)| {
            let session = dimensions.session(id);
            ExactSession {
                session: session_label(session),
                backend_type: session.backend_type.0.clone(),
                user: session.user.clone(),
                sums,
            }
        })
        .collect();
    sessions.sort_by(|one, other| {
        let by_time = one.sums.order().cmp(&other.sums.order());
        by_time.then_with(|| one.session.cmp(&other.session))
    });
    let mut statements: Vec<ExactStatement> = sums
        .statements
        .into_iter()
        .map(|(statement, sums)| ExactStatement {
            statement,
            text: dimensions.statement(statement).map(str::to_string),
            sums,
        })
        .collect();
    statements.sort_by_key(|one| (one.sums.order(), one.statement));
    let mut places: Vec<ExactPlace> = sums
        .places
        .into_iter()
        .map(|(functions, sums)| ExactPlace { functions, sums })
        .collect();
    places.sort_by(|one, other| {
        let by_time = one.sums.order().cmp(&other.sums.order());
        by_time.then_with(|| one.functions.cmp(&other.functions))
    });
    ExactLatch {
        name: name.to_string(),
        exclusive: sums.exclusive,
        shared: sums.shared,
        single,
        sessions,
        statements,
        places,
    }
}

/// A use, with what it has in common with samples.
fn as_row(used: &LockUse) -> HeldLockRow {
    HeldLockRow {
        time: 0,
        session: used.session,
        statement: used.statement,
        lock: used.lock.clone().into(),
        number: used.number,
        address: used.address,
        file: ArcStr::clone(&used.file),
        relation: ArcStr::clone(&used.relation),
        block: used.block,
        exclusive: used.exclusive,
        mode_unknown: false,
        wait_class: ArcStr::new(),
        wait_event: ArcStr::new(),
        state: dbtime_model::State::Unknown,
        kernel_stack: dbtime_model::NO_STACK,
        user_stack: dbtime_model::NO_STACK,
        ns: 0,
        samples: 0,
        gets: 0,
    }
}

impl ExactLatches {
    /// Counts of the locks of this name that were held in this mode.
    pub fn of(&self, name: &str, mode: HoldMode) -> Option<UseSums> {
        let latch = self.latches.iter().find(|latch| latch.name == name)?;
        match mode {
            HoldMode::Exclusive => latch.exclusive,
            HoldMode::Shared => latch.shared,
            HoldMode::NotKnown => None,
        }
    }
}
