//! Every use of a server's internal locks, counted for some seconds by probes in the server's functions. Each use then costs
//! some microseconds more, so this ends by itself: when its time is up, or when it costs too much.

use std::collections::{BTreeSet, HashMap};

use arcstr::ArcStr;
use dbtime_model::{LockUse, LockUseSums, LockUses, SessionId, StackId};

use crate::CollectError;
use crate::bpf::{LockProbes, LockUseKey, LockUseLosses};
use crate::clock::{Clock, monotonic_ns};
use crate::database::Database;
use crate::held_locks::{LockName, RawLock};
use crate::host::online_cpus;

/// Share of all CPUs of the host that the probes may take. A check that finds more ends them.
const MOST_COST: f64 = 0.25;
/// How often that is checked. If it were shorter, a burst of a few milliseconds would end them.
const LOOK_AT_COST_NS: u64 = 200_000_000;
/// How often the kernel's sums are fetched.
const TAKE_NS: u64 = 1_000_000_000;
/// The probes are told this long before the counted time begins: a step is not longer, as a rule.
const AHEAD_NS: u64 = 60_000_000;
/// Maximum number of sums kept by lock and caller; beyond that, by session and name.
const MOST_SUMS: usize = 200_000;
/// Maximum number of sums in any case.
const MOST_SUMS_IN_ALL: usize = 250_000;
/// Maximum number of sessions whose uses are known to be theirs.
const MOST_SESSIONS: usize = 100_000;

/// Counts the uses.
pub(crate) struct LockCounter {
    probes: LockProbes,
    /// By pid and start, CLOCK_MONOTONIC.
    sessions: HashMap<(u32, u64), SessionId>,
    sums: HashMap<LockUseKey, LockUseSums>,
    /// Sums for which there was no room.
    lost: u64,
    /// What was missing before the counted time began.
    losses_before: LockUseLosses,
    attached_ns: u64,
    /// The counted time.
    begin_ns: u64,
    end_ns: u64,
    /// The time to count. Until it begins, everything counts, so that there is something if the probes end earlier.
    wanted: Option<(u64, u64)>,
    has_begun: bool,
    taken_ns: u64,
    /// When the cost was last checked, and the hits then.
    looked: (u64, u64),
    /// CPUs of the host.
    cpus: u32,
    stopped: Option<String>,
    /// Who executed what.
    statements: BTreeSet<(u32, u64)>,
    done: Option<LockUses>,
}

/// What the counted numbers mean.
pub(crate) trait LockWords {
    /// What a lock is.
    fn lock(&mut self, lock: RawLock) -> LockName;

    /// The relation that a file belongs to; empty if none, or not known.
    fn relation(&mut self, file: &str) -> ArcStr;

    /// The place in a process's code from which a function was called, and where that code was called from (0 = not known).
    fn code(&mut self, pid: u32, caller: u64, outer: u64) -> StackId;

    /// Gives the places in the code of these uses their ids, some of which may have to wait for names first.
    fn ids_of(&mut self, uses: &mut [LockUse]);
}

impl LockCounter {
    /// Attaches the probes. From now on all uses count.
    ///
    /// # Errors
    /// There is no place for them, or the kernel refuses.
    pub(crate) fn start(database: &dyn Database) -> Result<LockCounter, CollectError> {
        let places = database.lock_places()?;
        let mut probes = LockProbes::attach(places.server, places.only, &places.functions, places.source)?;
        let now = monotonic_ns();
        probes.set_window(now, u64::MAX)?;
        Ok(LockCounter {
            looked: (now, probes.hits().0),
            probes,
            sessions: HashMap::new(),
            sums: HashMap::new(),
            lost: 0,
            losses_before: LockUseLosses::default(),
            attached_ns: now,
            begin_ns: now,
            end_ns: u64::MAX,
            wanted: None,
            has_begun: false,
            taken_ns: now,
            cpus: online_cpus().map_or(1, |cpus| cpus.len().max(1) as u32),
            stopped: None,
            statements: BTreeSet::new(),
            done: None,
        })
    }

    /// Counts only uses between these times (CLOCK_MONOTONIC). The first is the same in every call.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn count_between(&mut self, begin_ns: u64, end_ns: u64) -> Result<(), CollectError> {
        if self.done.is_some() || self.wanted == Some((begin_ns, end_ns)) {
            return Ok(());
        }
        self.wanted = Some((begin_ns, end_ns));
        if self.has_begun {
            self.end_ns = end_ns;
            return self.probes.set_window(self.begin_ns, end_ns);
        }
        self.begin_if_near(monotonic_ns())
    }

    /// If the counted time begins soon, discards what was counted so far.
    fn begin_if_near(&mut self, now: u64) -> Result<(), CollectError> {
        let Some((begin_ns, end_ns)) = self.wanted else {
            return Ok(());
        };
        if self.has_begun || now.saturating_add(AHEAD_NS) < begin_ns {
            return Ok(());
        }
        self.has_begun = true;
        // If dbtime had no CPU when it should have begun, it begins later.
        (self.begin_ns, self.end_ns) = (begin_ns.max(now), end_ns);
        self.probes.set_window(self.begin_ns, end_ns)?;
        self.probes.take(&mut |_, _| {})?;
        self.sums.clear();
        self.lost = 0;
        self.losses_before = self.probes.losses();
        self.taken_ns = now;
        // Its cost so far no longer ends it: there would be nothing to show.
        self.looked = (now, self.probes.hits().0);
        Ok(())
    }

    /// Uses of this process belong to the session.
    pub(crate) fn know(&mut self, pid: u32, start_ns: u64, session: SessionId) {
        if self.sessions.len() < MOST_SESSIONS || self.sessions.contains_key(&(pid, start_ns)) {
            self.sessions.insert((pid, start_ns), session);
        }
    }

    /// Ends it now.
    pub(crate) fn stop(&mut self, why: String) {
        if self.done.is_none() && self.stopped.is_none() {
            self.stopped = Some(why);
        }
    }

    /// What has to be done now and then. True if it is over, and [`LockCounter::finish`] is due.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn step(&mut self, now: u64) -> Result<bool, CollectError> {
        if self.done.is_some() {
            return Ok(false);
        }
        self.begin_if_near(now)?;
        self.look_at_cost(now);
        if now >= self.taken_ns + TAKE_NS {
            self.taken_ns = now;
            self.take()?;
        }
        Ok(self.stopped.is_some() || now >= self.end_ns)
    }

    fn look_at_cost(&mut self, now: u64) {
        let (since, before) = self.looked;
        if now < since + LOOK_AT_COST_NS {
            return;
        }
        let (hits, _) = self.probes.hits();
        self.looked = (now, hits);
        let cost = hits.saturating_sub(before) as f64 * self.probes.hit_ns() as f64 / (now - since) as f64;
        // The cost of a hit was measured at the start, on code that does nothing else: the real cost may be less.
        let cost = cost.min(self.cpus.into());
        if is_too_much(cost, self.cpus) {
            self.stop(format!(
                "the probes took {:.0} % of one CPU, more than {:.0} % of the host's {}",
                100.0 * cost,
                100.0 * MOST_COST,
                self.cpus
            ));
        }
    }

    fn take(&mut self) -> Result<(), CollectError> {
        let (kept, lost) = (&mut self.sums, &mut self.lost);
        self.probes.take(&mut |key, sums| add(kept, lost, key, sums))
    }

    /// Detaches the probes, and adds up what was counted, including locks that these processes still hold.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn finish(
        &mut self,
        pids: impl Iterator<Item = u32>,
        words: &mut dyn LockWords,
        clock: Clock,
    ) -> Result<(), CollectError> {
        if self.done.is_some() {
            return Ok(());
        }
        let now = monotonic_ns();
        if now < self.end_ns {
            self.end_ns = now;
            self.probes.set_window(self.begin_ns, now)?;
        }
        let (hits, hits_of_others) = self.probes.hits();
        self.probes.detach();
        self.take()?;
        let (kept, lost) = (&mut self.sums, &mut self.lost);
        for pid in pids {
            self.probes
                .take_open(pid, &mut |key, sums| add(kept, lost, key, sums));
        }
        let (losses, before) = (self.probes.losses(), self.losses_before);
        let statements = self.sums.keys().map(|key| (key.pid, key.statement));
        self.statements = statements.filter(|(_, statement)| *statement != 0).collect();
        let mut uses: Vec<LockUse> = std::mem::take(&mut self.sums)
            .into_iter()
            .filter(|(_, sums)| *sums != LockUseSums::default())
            .map(|(key, sums)| {
                let lock = RawLock {
                    kind: key.kind,
                    address: key.address,
                    exclusive: key.exclusive,
                    page: key.page,
                };
                let named = words.lock(lock);
                LockUse {
                    // A process that is not known yet belongs to no session.
                    session: self
                        .sessions
                        .get(&(key.pid, key.start_ns))
                        .copied()
                        .unwrap_or(SessionId(u64::MAX)),
                    lock: named.name.to_string(),
                    number: named.number.filter(|_| key.address != 0),
                    address: key.address,
                    relation: words.relation(&named.file),
                    file: named.file,
                    block: named.block,
                    exclusive: key.exclusive,
                    user_stack: words.code(key.pid, key.caller, key.outer),
                    statement: key.statement,
                    sums,
                }
            })
            .collect();
        words.ids_of(&mut uses);
        uses.sort_by(|one, other| order(one).cmp(&order(other)));
        self.done = Some(LockUses {
            uses,
            from_us: clock.wall_us(self.begin_ns),
            to_us: clock.wall_us(self.end_ns),
            elapsed_ns: self.end_ns.saturating_sub(self.begin_ns),
            probed_ns: now - self.attached_ns,
            hits,
            hits_of_others,
            hit_ns: self.probes.hit_ns(),
            lost: losses.lost - before.lost + self.lost,
            without_get: losses.without_get - before.without_get,
            holds_without_room: losses.holds_without_room - before.holds_without_room,
            stopped: self.stopped.take(),
        });
        Ok(())
    }

    /// The processes that used locks, with the statements that they executed then, once it is over.
    pub(crate) fn take_statements(&mut self) -> BTreeSet<(u32, u64)> {
        std::mem::take(&mut self.statements)
    }

    /// What was counted, once it is over.
    pub(crate) fn uses(&self) -> Option<&LockUses> {
        self.done.as_ref()
    }
}

/// Whether a cost of this many CPUs is too much.
fn is_too_much(cost: f64, cpus: u32) -> bool {
    cost > MOST_COST * f64::from(cpus)
}

/// Adds what was counted; when there is no room left, by session, name and mode only.
fn add(kept: &mut HashMap<LockUseKey, LockUseSums>, lost: &mut u64, mut key: LockUseKey, more: LockUseSums) {
    if kept.len() >= MOST_SUMS && !kept.contains_key(&key) {
        (key.address, key.caller, key.outer, key.statement) = (0, 0, 0, 0);
        key.page = None;
    }
    if kept.len() >= MOST_SUMS_IN_ALL && !kept.contains_key(&key) {
        *lost += more.gets + more.refused;
        return;
    }
    *kept.entry(key).or_default() += more;
}

/// The order in which they are reported.
fn order(of: &LockUse) -> (SessionId, &str, u64, &str, Option<u32>, bool, StackId, u64) {
    (
        of.session,
        &of.lock,
        of.address,
        &of.file,
        of.block,
        of.exclusive,
        of.user_stack,
        of.statement,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(pid: u32, address: u64) -> LockUseKey {
        LockUseKey {
            pid,
            start_ns: 1,
            kind: 7,
            address,
            page: None,
            exclusive: true,
            caller: address,
            outer: 0,
            statement: 0,
        }
    }

    const ONE: LockUseSums = LockUseSums {
        gets: 1,
        waited: 1,
        wait_ns: 10,
        max_wait_ns: 10,
        refused: 0,
        holds: 1,
        hold_ns: 100,
        max_hold_ns: 100,
    };

    #[test]
    fn what_has_no_room_is_kept_by_name_and_no_get_is_lost() {
        let (mut kept, mut lost) = (HashMap::new(), 0);
        for address in 1..=MOST_SUMS as u64 + 5 {
            add(&mut kept, &mut lost, key(1, address), ONE);
        }
        // Known ones stay known.
        add(&mut kept, &mut lost, key(1, 1), ONE);
        assert_eq!((kept.len(), lost), (MOST_SUMS + 1, 0));
        let merged = LockUseKey {
            caller: 0,
            ..key(1, 0)
        };
        assert_eq!((kept[&merged].gets, kept[&merged].hold_ns), (5, 500));
        assert_eq!((kept[&key(1, 1)].gets, kept[&key(1, 1)].max_hold_ns), (2, 100));
        for pid in 2..=60_000 {
            add(&mut kept, &mut lost, key(pid, 1 << 40), ONE);
        }
        let gets: u64 = kept.values().map(|sums| sums.gets).sum();
        assert_eq!(kept.len(), MOST_SUMS_IN_ALL);
        assert_eq!(gets + lost, MOST_SUMS as u64 + 6 + 59_999);
    }

    #[test]
    fn a_quarter_of_the_host_is_not_too_much_yet() {
        assert!(!is_too_much(0.5, 2) && is_too_much(0.51, 2));
        assert!(!is_too_much(8.0, 32) && is_too_much(8.1, 32));
    }
}
