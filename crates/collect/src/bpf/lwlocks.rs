//! Loads and attaches `bpf/lwlocks.bpf.c`: every use of the internal locks of one server, summed in the kernel.

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use dbtime_model::{LockUseSums, LockUses};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapMut, ProgramMut};

use super::latency::{LatencyMaps, wait_for_programs};
use super::load::{MapValue, as_bytes};
use super::lwlocks_skeleton::LwlocksSkelBuilder;
use super::lwlocks_skeleton::types::{
    bss, dbt_hit, dbt_hold, dbt_lock_key, dbt_lock_sums, dbt_lock_task, dbt_lock_window, dbt_wait_source,
};
use super::messages::refusals;
use super::plain::{Plain, globals, read, the_same};
use super::sampler::thread_cpu_ns;
use super::wait_source::source_to;
use crate::CollectError;
use crate::database::WaitSource;
use crate::executable;
use crate::held_locks::RawPage;
use crate::postgres::LockFunctions;
use crate::probed_code;

/// Gets and releases per measurement of their cost, and measurements, of which the median counts.
const CALLS: u32 = 500;
const MEASUREMENTS: usize = 11;

/// Which uses of which lock are summed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LockUseKey {
    pub(crate) pid: u32,
    /// When the process started, CLOCK_MONOTONIC.
    pub(crate) start_ns: u64,
    /// What the lock is, as the database numbers it.
    pub(crate) kind: u16,
    /// Its address; 0 = all of its kind, for lack of room.
    pub(crate) address: u64,
    /// The page that it is for; none: for none, or not known.
    pub(crate) page: Option<RawPage>,
    pub(crate) exclusive: bool,
    /// Return address of the call that requested it; 0 = not distinguished.
    pub(crate) caller: u64,
    /// Return address of the function that made that call; 0 = not known.
    pub(crate) outer: u64,
    /// The statement that was executing when it was requested; 0 = not known, or not distinguished.
    pub(crate) statement: u64,
}

/// What is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LockUseLosses {
    /// Uses for which there was no room.
    pub(crate) lost: u64,
    /// Locks released whose acquisition was not seen.
    pub(crate) without_get: u64,
    /// Holds whose end is not known, of sessions with more locks than are kept.
    pub(crate) holds_without_room: u64,
}

/// Nothing counts.
const NEVER: dbt_lock_window = dbt_lock_window {
    begin: u64::MAX,
    end: u64::MAX,
    epoch: 0,
    server: 0,
    only: 0,
};

/// The attached probes; dropping it removes them from the server.
pub(crate) struct LockProbes {
    /// What counts: the only copy that is written.
    window: dbt_lock_window,
    window_map: MapHandle,
    tasks: MapHandle,
    hits: MapHandle,
    bss: MapHandle,
    sums: LatencyMaps<dbt_lock_key, dbt_lock_sums>,
    kinds: LatencyMaps<dbt_lock_key, dbt_lock_sums>,
    links: Vec<Link>,
    /// See [`LockProbes::hit_ns`].
    hit_ns: u64,
    /// Hits of that measurement.
    hits_before: u64,
}

impl Plain for bss {}
impl Plain for dbt_lock_task {}
impl Plain for dbt_wait_source {}
impl MapValue for dbt_lock_window {}

impl LockProbes {
    /// Puts probes into the executable of a server: its first process, the one session that counts (none: all), where its functions are,
    /// and where its sessions report what they execute. Nothing counts yet.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn attach(
        server: u32,
        only: Option<u32>,
        functions: &LockFunctions,
        source: WaitSource,
    ) -> Result<LockProbes, CollectError> {
        let failed = refusals("--exact");
        let mut storage = MaybeUninit::uninit();
        let mut open = LwlocksSkelBuilder::default()
            .open(&mut storage)
            .map_err(|e| failed("open", e))?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.keeps_frames = functions.keeps_frames;
            constants.text_seed = fastrand::u64(..);
            constants.wait_source = the_same(&source_to(source));
        }
        let skel = open.load().map_err(|e| failed("load", e))?;
        let handle = |map: &MapMut<'_>| MapHandle::try_from(map).map_err(|e| failed("maps", e));
        let maps = &skel.maps;
        let mut probes = LockProbes {
            window: NEVER,
            window_map: handle(&maps.data_window)?,
            tasks: handle(&maps.lock_tasks)?,
            hits: handle(&maps.lock_hits)?,
            bss: handle(&maps.bss)?,
            sums: LatencyMaps::new(handle(&maps.lock_sums_even)?, handle(&maps.lock_sums_odd)?),
            kinds: LatencyMaps::new(handle(&maps.lock_kinds_even)?, handle(&maps.lock_kinds_odd)?),
            links: Vec::new(),
            hit_ns: 0,
            hits_before: 0,
        };
        let attach = |program: &ProgramMut<'_>, pid: i32, path: &Path, place: u64| {
            program
                .attach_uprobe(false, pid, path, place as usize)
                .map_err(|e| failed("attach", e))
        };
        let programs = &skel.progs;
        probes.hit_ns = probes.measure(|places| {
            let (me, own) = (std::process::id(), executable::path(std::process::id()));
            let own_place = |program, place| attach(program, me as i32, &own, place);
            Ok(vec![
                own_place(&programs.on_release, places.release)?,
                own_place(&programs.on_acquire, places.ask)?,
            ])
        })?;
        probes.window.server = server;
        probes.window.only = only.unwrap_or(0);
        probes.set_window(u64::MAX, u64::MAX)?;
        let path = executable::path(server);
        const EVERY_PROCESS: i32 = -1;
        // The end first: what is seen to begin is seen to end.
        for (program, places) in [
            (&programs.on_release, &functions.releases),
            (&programs.on_tried, &functions.tried),
            (&programs.on_got_or_waited, &functions.got_or_waited),
            (&programs.on_awake, &functions.awakes),
            (&programs.on_sleep, &functions.sleeps),
            (&programs.on_try, &functions.tries),
            (&programs.on_acquire, &functions.acquires),
        ] {
            for &place in places {
                probes.links.push(attach(program, EVERY_PROCESS, &path, place)?);
            }
        }
        Ok(probes)
    }

    /// What a hit costs, the server's part and the program's, measured on gets and releases of dbtime's own that do nothing else.
    fn measure(
        &mut self,
        attach: impl FnOnce(probed_code::Places) -> Result<Vec<Link>, CollectError>,
    ) -> Result<u64, CollectError> {
        let places = probed_code::places()?;
        // CPU time: other load on this host is not its cost.
        let time = || {
            let begin = thread_cpu_ns();
            (0..CALLS).for_each(|_| probed_code::get_and_release());
            thread_cpu_ns().saturating_sub(begin) / u64::from(CALLS)
        };
        let middle = || {
            let mut times = [(); MEASUREMENTS].map(|()| time());
            times.sort_unstable();
            times[MEASUREMENTS / 2]
        };
        let without = middle();
        // Its own uses count, so that they cost as much as those of the server.
        self.window.server = std::process::id();
        self.set_window(0, u64::MAX)?;
        let links = attach(places)?;
        let with = middle();
        drop(links);
        self.set_window(u64::MAX, u64::MAX)?;
        self.take(&mut |_, _| {})?;
        self.hits_before = self.hits_so_far().0;
        Ok(with.saturating_sub(without) / LockUses::HITS_OF_A_USE)
    }

    /// Uses between these moments count, CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn set_window(&mut self, begin_ns: u64, end_ns: u64) -> Result<(), CollectError> {
        (self.window.begin, self.window.end) = (begin_ns, end_ns);
        self.write_window()
    }

    fn write_window(&self) -> Result<(), CollectError> {
        self.window_map
            .update(&0u32.to_ne_bytes(), as_bytes(&self.window), MapFlags::ANY)
            .map_err(|e| CollectError::Kernel(format!("BPF map of the time that counts: {e}")))
    }

    /// Hands over what was counted since the last call. Takes some milliseconds.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn take(&mut self, take: &mut dyn FnMut(LockUseKey, LockUseSums)) -> Result<(), CollectError> {
        let ended = self.window.epoch;
        self.window.epoch += 1;
        self.write_window()?;
        wait_for_programs();
        for maps in [&mut self.sums, &mut self.kinds] {
            maps.take(ended, |key, sums| take(key_of(&key), sums_of(&sums)))
                .map_err(|e| CollectError::Kernel(format!("BPF map of locks: {e}")))?;
        }
        Ok(())
    }

    /// Removes the probes from the server. After that, what sessions still hold can be taken.
    pub(crate) fn detach(&mut self) {
        self.links.clear();
        wait_for_programs();
    }

    /// Once the probes are removed: hands over what a session still holds, or waits for, up to the end of the time that counts.
    pub(crate) fn take_open(&self, pid: u32, take: &mut dyn FnMut(LockUseKey, LockUseSums)) {
        let Some(task) = self.task(pid) else {
            return;
        };
        let dbt_lock_window { begin, end, .. } = self.window;
        let that_counts = |from: u64, to: u64| to.min(end).saturating_sub(from.max(begin));
        let counts = |moment: u64| u64::from((begin..end).contains(&moment));
        for hold in task.held.iter().take(task.count as usize) {
            if hold.waits != 0 {
                take(key_of_open(&task, hold), waiting(that_counts(hold.asked, end)));
                continue;
            }
            let is_waited = hold.waited != 0;
            let wait_ns = if is_waited {
                that_counts(hold.asked, hold.since)
            } else {
                0
            };
            let hold_ns = that_counts(hold.since, end);
            let sums = LockUseSums {
                gets: counts(hold.since),
                waited: if is_waited { counts(hold.since) } else { 0 },
                wait_ns,
                max_wait_ns: wait_ns,
                refused: 0,
                holds: u64::from(hold_ns > 0),
                hold_ns,
                max_hold_ns: hold_ns,
            };
            take(key_of_open(&task, hold), sums);
        }
        let asked = &task.asked;
        if asked.lock != 0 {
            take(key_of_open(&task, asked), waiting(that_counts(asked.asked, end)));
        }
    }

    fn task(&self, pid: u32) -> Option<dbt_lock_task> {
        // SAFETY: a plain system call; the descriptor it returns is ours.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: the kernel has just made this descriptor for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let key = fd.as_raw_fd().to_ne_bytes();
        read(&self.tasks.lookup(&key, MapFlags::ANY).ok()??)
    }

    /// Probe hits so far: of all processes of the executable, and those of other servers among them.
    pub(crate) fn hits(&self) -> (u64, u64) {
        let (all, others) = self.hits_so_far();
        (all.saturating_sub(self.hits_before), others)
    }

    fn hits_so_far(&self) -> (u64, u64) {
        let of = |whose: dbt_hit| -> u64 {
            let values = self.hits.lookup_percpu(&whose.0.to_ne_bytes(), MapFlags::ANY);
            let values = values.ok().flatten().unwrap_or_default();
            values.iter().filter_map(|value| read::<u64>(value)).sum()
        };
        let (own, others) = (of(dbt_hit::HIT_OWN), of(dbt_hit::HIT_OTHER));
        (own + others, others)
    }

    /// What a hit costs the process that makes it, in nanoseconds, as measured on this host.
    pub(crate) fn hit_ns(&self) -> u64 {
        self.hit_ns
    }

    /// What is missing so far.
    pub(crate) fn losses(&self) -> LockUseLosses {
        globals::<bss>(&self.bss).map_or_else(LockUseLosses::default, |bss| LockUseLosses {
            lost: bss.uses_lost,
            without_get: bss.releases_without_get,
            holds_without_room: bss.holds_without_room,
        })
    }
}

/// It is still waiting.
fn waiting(wait_ns: u64) -> LockUseSums {
    LockUseSums {
        waited: u64::from(wait_ns > 0),
        wait_ns,
        max_wait_ns: wait_ns,
        ..LockUseSums::default()
    }
}

fn key_of(key: &dbt_lock_key) -> LockUseKey {
    LockUseKey {
        pid: key.pid,
        start_ns: key.start_ns,
        kind: key.kind,
        address: key.lock,
        page: RawPage::of(key.page.numbers),
        exclusive: key.mode == 0,
        caller: key.caller,
        outer: key.outer,
        statement: key.statement,
    }
}

fn key_of_open(task: &dbt_lock_task, hold: &dbt_hold) -> LockUseKey {
    LockUseKey {
        pid: task.pid,
        start_ns: task.start_ns,
        kind: hold.kind,
        address: hold.lock,
        page: RawPage::of(hold.page.numbers),
        exclusive: hold.mode == 0,
        caller: hold.caller,
        outer: hold.outer,
        statement: hold.statement,
    }
}

fn sums_of(sums: &dbt_lock_sums) -> LockUseSums {
    LockUseSums {
        gets: sums.gets,
        waited: sums.waited,
        wait_ns: sums.wait_ns,
        max_wait_ns: sums.max_wait_ns,
        refused: sums.refused,
        holds: sums.holds,
        hold_ns: sums.hold_ns,
        max_hold_ns: sums.max_hold_ns,
    }
}

const _: () = assert!(size_of::<dbt_lock_key>() == 72 && size_of::<dbt_lock_sums>() == 64);
