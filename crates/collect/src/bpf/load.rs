//! Loads and attaches the recorder's programs; finds out by trying what this kernel accepts.

use std::fs;
use std::io::{self, Read};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use dbtime_model::recording::ProgramCost;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{AsRawLibbpf, Link, MapCore, MapFlags, MapHandle, libbpf_sys};

use super::cpu_clock::CpuClocks;
use super::histograms::Histograms;
use super::latency::LatencyMaps;
use super::messages::{refusals, verdict};
use super::others::Others;
use super::plain::{Plain, globals, look_up};
use super::plans::Plans;
use super::recorder::RecorderSkelBuilder;
use super::recorder::types::{
    bss, dbt_call_use, dbt_command_key, dbt_command_sums, dbt_config, dbt_counter, dbt_latency,
    dbt_latency_key, dbt_latency_share, dbt_pass, dbt_rest, dbt_slot, dbt_space, dbt_target, dbt_wait_source,
};
use super::run_time::RunTimes;
use super::unwind::UnwindMaps;
use super::wait_source::source_to;
use crate::CollectError;
use crate::clock::monotonic_ns;
use crate::database::{WaitSource, WaitTraits};
use crate::host::online_cpus;
use crate::session::Unused;

/// Sessions that can be recorded at the same time.
const MAX_SESSIONS: u32 = 16_384;
/// Slots kept ready for new sessions: for what is forked in the time that the recorder takes to hear of it.
pub(crate) const READY_SLOTS: u32 = 64;
/// Different latencies (session, event, bucket …) in a second that have no histogram; each costs the kernel about 150
/// bytes, twice.
const MAX_LATENCIES: u32 = 65_536;
/// Statements, by duration (some 30 for each), whose commands are summed in a second; each costs the kernel about 1 KB, twice.
const MAX_COMMANDS: u32 = 8_192;
/// Statements with a plan that are distinguished while a recorder runs; each costs the kernel about 80 bytes.
const MAX_PLANNED: u32 = 16_384;
/// Histograms; each costs the kernel 9.6 KB. A session has some 60 at most.
const MAX_HISTOGRAMS: u32 = 4_096;

/// System calls that read from a file.
const READS: [libc::c_long; 5] = [
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_preadv,
    libc::SYS_preadv2,
];
/// System calls that a session makes all the time. A process makes none of them between giving up its place in shared memory and its end.
const WORK: [libc::c_long; 16] = [
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_futex,
    libc::SYS_fdatasync,
    libc::SYS_fsync,
    libc::SYS_lseek,
];
/// System calls in which a session sleeps until somebody else does something: those that another call may follow in the same wait (a read
/// of what woke it), and those that none does.
const SLEEPS: [libc::c_long; 6] = [
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
];
const SLEEPS_AND_ENDS: [libc::c_long; 3] = [libc::SYS_futex, libc::SYS_nanosleep, libc::SYS_clock_nanosleep];
/// The same, on semaphores, which report a timeout by EAGAIN: the wait goes on.
const SLEEPS_WITH_TIMEOUT: [libc::c_long; 2] = [libc::SYS_semop, libc::SYS_semtimedop];
/// System calls that signal handlers make.
const OF_SIGNALS: [libc::c_long; 8] = [
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_kill,
    libc::SYS_tgkill,
    libc::SYS_tkill,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_setitimer,
];
/// Calls that send an answer to a client.
const SENDS: [libc::c_long; 4] = [
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_write,
    libc::SYS_writev,
];
/// Calls that receive a command.
const RECEIVES: [libc::c_long; 2] = [libc::SYS_recvfrom, libc::SYS_recvmsg];
const CALL_READS: u8 = dbt_call_use::CALL_READS.0 as u8;
const CALL_WORKS: u8 = dbt_call_use::CALL_WORKS.0 as u8;
const CALL_SLEEPS: u8 = dbt_call_use::CALL_SLEEPS.0 as u8;
const CALL_ENDS_WAIT: u8 = dbt_call_use::CALL_ENDS_WAIT.0 as u8;
const CALL_OF_SIGNAL: u8 = dbt_call_use::CALL_OF_SIGNAL.0 as u8;
const CALL_SENDS: u8 = dbt_call_use::CALL_SENDS.0 as u8;
const CALL_RECEIVES: u8 = dbt_call_use::CALL_RECEIVES.0 as u8;
const CALL_CONNECTS: u8 = dbt_call_use::CALL_CONNECTS.0 as u8;

/// How the sampler thread reaches the sessions that are not running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SamplerKind {
    /// One program over the list of sessions (bpf_task_from_pid, Linux 6.2).
    PidList,
    /// An iterator over all tasks of the host (Linux 5.18): more expensive if many tasks are not the database's.
    Iterator,
}

impl SamplerKind {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            SamplerKind::PidList => "perf_event timer and pid-list sampler",
            SamplerKind::Iterator => "perf_event timer and task-iterator sampler",
        }
    }
}

/// How exact the times are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tier {
    /// Totals of a session are exact, samples split them: no probe in the database's path.
    #[default]
    Sampled,
    /// Time off CPU is exact for every wait event: a probe at every switch.
    Switch,
    /// Time on CPU too, and every system call is timed: probes at system calls.
    Calls,
}

impl Tier {
    /// Its name in a recording.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Tier::Sampled => "sampled",
            Tier::Switch => "exact",
            Tier::Calls => "exact-calls",
        }
    }
}

/// The loaded programs. Dropping it detaches and unloads them: nothing stays in the kernel.
pub(crate) struct Programs {
    pub(crate) sampler_kind: SamplerKind,
    pub(crate) events: MapHandle,
    targets: MapHandle,
    slots: MapHandle,
    rests: MapHandle,
    free_slots: MapHandle,
    configuration: MapHandle,
    pub(crate) current_pass: MapHandle,
    bss: MapHandle,
    latency_epoch: MapHandle,
    /// What user stacks are unwound with; taken by whoever fills them.
    pub(crate) unwind_maps: Option<UnwindMaps>,
    /// Numbers for statements with a plan.
    pub(crate) plans: Plans,
    /// What is read from sessions when they end.
    counted_sessions: MapHandle,
    others: Others,
    /// What the exact tier measures besides sums.
    pub(crate) latencies: LatencyMaps<dbt_latency_key, dbt_latency>,
    /// What commands did.
    pub(crate) commands: LatencyMaps<dbt_command_key, dbt_command_sums>,
    /// The same as `latencies`, for sessions that have a histogram of their own.
    pub(crate) histograms: Histograms,
    /// What the exact tier's probes cost.
    pub(crate) run_times: RunTimes,
    /// Timers that interrupt the running sessions.
    pub(crate) clocks: CpuClocks,
    /// `sampler_pass`, or a link to `sampler_iterate`.
    pub(crate) pass: PassHandle,
    /// What announces passes, so that a timer notes their moments; or why none does.
    pub(crate) announcements: Result<Announcements, String>,
    _links: Vec<Link>,
}

/// What the programs are loaded for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// Samples per second and session.
    pub(crate) rate_hz: u32,
    pub(crate) tier: Tier,
    /// Who ends a sleep; in the exact tiers only.
    pub(crate) wakers: bool,
    /// What the kernel counts for every task.
    pub(crate) task_counts: bool,
    /// Comments in the texts of statements.
    pub(crate) comments: bool,
    pub(crate) stacks: bool,
    /// Who ends the sleeps in which sessions are found.
    pub(crate) causes: bool,
}

/// What announces passes.
pub(crate) struct Announcements {
    pub(crate) program: OwnedFd,
    /// The timer lives as long as this is open.
    _timer: MapHandle,
}

/// What starts a pass.
pub(crate) enum PassHandle {
    Program(OwnedFd),
    Iterator(Link),
}

impl Programs {
    /// Loads the programs and attaches them, with timers of the wanted rate.
    ///
    /// # Errors
    /// The kernel refuses both engines: the message has its reason. Otherwise the second value says why the first one is not used, if it is
    /// not.
    pub(crate) fn load(
        wanted: Wanted,
        only: Option<SamplerKind>,
    ) -> Result<(Programs, Option<String>), CollectError> {
        match only {
            Some(SamplerKind::Iterator) => {
                Programs::load_engine(SamplerKind::Iterator, wanted, false).map(|programs| (programs, None))
            }
            Some(SamplerKind::PidList) => Programs::load_pid_list(wanted).map(|programs| (programs, None)),
            None => match Programs::load_pid_list(wanted) {
                Ok(programs) => Ok((programs, None)),
                Err(first) => match Programs::load_engine(SamplerKind::Iterator, wanted, false) {
                    Ok(programs) => Ok((programs, Some(verdict(&first.to_string())))),
                    Err(second) => Err(CollectError::Kernel(format!(
                        "{first}\nand with the engine of older kernels: {second}"
                    ))),
                },
            },
        }
    }

    /// With the timer that notes the moments of passes, if they count and the kernel accepts it.
    fn load_pid_list(wanted: Wanted) -> Result<Programs, CollectError> {
        if wanted.tier != Tier::Sampled {
            return Programs::load_engine(SamplerKind::PidList, wanted, false);
        }
        Programs::load_engine(SamplerKind::PidList, wanted, true).or_else(|refused| {
            let programs = Programs::load_engine(SamplerKind::PidList, wanted, false)?;
            Ok(Programs {
                announcements: Err(verdict(&refused.to_string())),
                ..programs
            })
        })
    }

    fn load_engine(engine: SamplerKind, wanted: Wanted, notes: bool) -> Result<Programs, CollectError> {
        let Wanted { rate_hz, tier, .. } = wanted;
        let failed = refusals("the kernel rejected dbtime's BPF programs");
        let mut storage = MaybeUninit::uninit();
        let mut open = RecorderSkelBuilder::default()
            .open(&mut storage)
            .map_err(|e| failed("open", e))?;
        open.progs
            .sampler_pass
            .set_autoload(engine == SamplerKind::PidList);
        open.progs
            .sampler_iterate
            .set_autoload(engine == SamplerKind::Iterator);
        open.progs.announce_moment.set_autoload(notes);
        open.maps
            .announced
            .set_autocreate(notes)
            .map_err(|e| failed("maps", e))?;
        for map in [
            &mut open.maps.targets,
            &mut open.maps.slots,
            &mut open.maps.rests,
            &mut open.maps.awake_slots,
            &mut open.maps.slots_to_take,
            &mut open.maps.counted_sessions,
        ] {
            map.set_max_entries(MAX_SESSIONS).map_err(|e| failed("maps", e))?;
        }
        open.maps
            .free_slots
            .set_max_entries(READY_SLOTS)
            .map_err(|e| failed("maps", e))?;
        open.maps
            .events
            .set_max_entries(ring_bytes(rate_hz))
            .map_err(|e| failed("maps", e))?;
        open.maps
            .planned
            .set_max_entries(MAX_PLANNED)
            .map_err(|e| failed("maps", e))?;
        let (exact, calls) = (tier != Tier::Sampled, tier == Tier::Calls);
        let wakers = exact && wanted.wakers;
        open.progs.on_switch.set_autoload(exact);
        open.progs.on_waking.set_autoload(wakers);
        for program in [
            &mut open.progs.on_call,
            &mut open.progs.on_return,
            &mut open.progs.on_bio,
            &mut open.progs.on_block_queue,
            &mut open.progs.on_block_insert,
            &mut open.progs.on_block_issue,
            &mut open.progs.on_block_requeue,
            &mut open.progs.on_block_merge,
            &mut open.progs.on_block_complete,
        ] {
            program.set_autoload(calls);
        }
        for map in [&mut open.maps.latency_even, &mut open.maps.latency_odd] {
            let most = if exact { MAX_LATENCIES } else { 1 };
            map.set_max_entries(most).map_err(|e| failed("maps", e))?;
        }
        for map in [&mut open.maps.commands_even, &mut open.maps.commands_odd] {
            let most = if calls { MAX_COMMANDS } else { 1 };
            map.set_max_entries(most).map_err(|e| failed("maps", e))?;
        }
        let most = if exact { MAX_HISTOGRAMS } else { 1 };
        open.maps
            .histograms
            .set_max_entries(most)
            .map_err(|e| failed("maps", e))?;
        open.maps
            .free_histograms
            .set_max_entries(most)
            .map_err(|e| failed("maps", e))?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.exact = exact;
            constants.text_seed = fastrand::u64(..);
            constants.trace_calls = calls;
            // A quarter of the latencies is left for those that belong to no single statement.
            for (share, room) in [
                (dbt_latency_share::SHARE_EVENTS, MAX_LATENCIES / 2),
                (dbt_latency_share::SHARE_COMMANDS, MAX_LATENCIES / 4),
                (dbt_latency_share::SHARE_COMMAND_SUMS, MAX_COMMANDS / 2),
            ] {
                constants.latency_room[share.0 as usize] = room;
            }
            constants.trace_wakers = wakers;
            constants.count_tasks = wanted.task_counts;
            constants.read_comments = wanted.comments;
            constants.note_moments = notes;
            constants.take_stacks = wanted.stacks;
            constants.follow_sleeps = wanted.causes;
            for (calls, its_use) in [
                (&READS[..], CALL_READS),
                (&WORK, CALL_WORKS),
                (&SLEEPS, CALL_SLEEPS),
                (&SLEEPS_AND_ENDS, CALL_SLEEPS | CALL_ENDS_WAIT),
                (&SLEEPS_WITH_TIMEOUT, CALL_SLEEPS),
                (&OF_SIGNALS, CALL_OF_SIGNAL),
                (&SENDS, CALL_SENDS),
                (&RECEIVES, CALL_RECEIVES),
                (&[libc::SYS_connect], CALL_CONNECTS),
            ] {
                for &call in calls {
                    if let Some(uses) = constants.call_uses.get_mut(call as usize) {
                        *uses |= its_use;
                    }
                }
            }
        }
        let skel = open.load().map_err(|e| failed("load", e))?;

        let handle = |map: &libbpf_rs::MapMut<'_>| MapHandle::try_from(map).map_err(|e| failed("maps", e));
        let mut links = vec![
            skel.progs
                .on_fork
                .attach()
                .map_err(|e| failed("sched_process_fork", e))?,
            skel.progs
                .on_exit
                .attach()
                .map_err(|e| failed("sched_process_exit", e))?,
            skel.progs
                .on_waking_sampled
                .attach()
                .map_err(|e| failed("sched_waking", e))?,
        ];
        // Only older kernels need it; if they have no kprobes, the counts of sessions that end lack their last second.
        links.extend(skel.progs.on_exit_signals.attach());
        let progs = &skel.progs;
        let mut probes: Vec<(&str, &libbpf_rs::ProgramMut<'_>)> = Vec::new();
        if calls {
            // A request that is seen to begin must be seen to end, hence completion first; the same for calls.
            probes.extend([
                ("block_rq_complete", &progs.on_block_complete),
                ("block_rq_merge", &progs.on_block_merge),
                ("block_rq_requeue", &progs.on_block_requeue),
                ("block_rq_issue", &progs.on_block_issue),
                ("block_rq_insert", &progs.on_block_insert),
                // These run in this order: a call's first request is not older than what the call notes of it.
                ("block_bio_queue", &progs.on_bio),
                ("block_bio_queue", &progs.on_block_queue),
                ("sys_exit", &progs.on_return),
                ("sys_enter", &progs.on_call),
            ]);
        }
        if wakers {
            probes.push(("sched_waking", &progs.on_waking));
        }
        if exact {
            probes.push(("sched_switch", &progs.on_switch));
        }
        let mut run_times = RunTimes::new(monotonic_ns());
        for (name, program) in probes {
            links.push(program.attach().map_err(|e| failed(name, e))?);
            run_times
                .watch(name, program)
                .map_err(|e| CollectError::Kernel(e.to_string()))?;
        }
        let pass = match engine {
            SamplerKind::PidList => {
                let fd = skel.progs.sampler_pass.as_fd().try_clone_to_owned();
                PassHandle::Program(fd.map_err(|e| CollectError::Kernel(e.to_string()))?)
            }
            SamplerKind::Iterator => PassHandle::Iterator(
                attach_iterator(&skel.progs.sampler_iterate).map_err(|e| failed("iterator", e))?,
            ),
        };
        let announcements = match notes {
            true => Ok(Announcements {
                program: skel
                    .progs
                    .announce_moment
                    .as_fd()
                    .try_clone_to_owned()
                    .map_err(|e| CollectError::Kernel(e.to_string()))?,
                _timer: handle(&skel.maps.announced)?,
            }),
            false => Err(String::new()),
        };
        let mut programs = Programs {
            sampler_kind: engine,
            announcements,
            events: handle(&skel.maps.events)?,
            targets: handle(&skel.maps.targets)?,
            slots: handle(&skel.maps.slots)?,
            rests: handle(&skel.maps.rests)?,
            free_slots: handle(&skel.maps.free_slots)?,
            configuration: handle(&skel.maps.configuration)?,
            current_pass: handle(&skel.maps.current_pass)?,
            bss: handle(&skel.maps.bss)?,
            run_times,
            clocks: CpuClocks::new(rate_hz),
            latency_epoch: handle(&skel.maps.data_epoch)?,
            unwind_maps: Some(UnwindMaps {
                tables: handle(&skel.maps.unwind_tables)?,
                spaces: handle(&skel.maps.unwind_spaces)?,
                versions: 0,
            }),
            histograms: Histograms::new(
                &handle(&skel.maps.histograms)?,
                handle(&skel.maps.free_histograms)?,
            )
            .map_err(|e| CollectError::Kernel(format!("histograms: {e}")))?,
            plans: Plans::new(handle(&skel.maps.planned)?),
            counted_sessions: handle(&skel.maps.counted_sessions)?,
            others: Others::new(handle(&skel.maps.others)?),
            latencies: LatencyMaps::new(handle(&skel.maps.latency_even)?, handle(&skel.maps.latency_odd)?),
            commands: LatencyMaps::new(
                handle(&skel.maps.commands_even)?,
                handle(&skel.maps.commands_odd)?,
            ),
            pass,
            _links: links,
        };
        for cpu in online_cpus()? {
            let timer = match programs.clocks.open(cpu) {
                Ok(timer) => timer,
                // It went offline a moment ago.
                Err(e) if matches!(e.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => continue,
                Err(e) => {
                    let what = format!("perf_event_open(cpu-clock, {rate_hz} Hz, CPU {cpu}): {e}");
                    return Err(CollectError::Kernel(what));
                }
            };
            // The link closes the timer's descriptor.
            let link = skel.progs.sample_running.attach_perf_event(timer.into_raw_fd());
            programs._links.push(link.map_err(|e| failed("perf_event", e))?);
        }
        Ok(programs)
    }

    /// Makes the timer sample this task, and its children too if it is a parent.
    pub(crate) fn add_target(
        &self,
        pid: u32,
        source: WaitSource,
        is_parent: bool,
        slot: Option<u32>,
        space: u32,
    ) -> Result<(), CollectError> {
        let slot = slot.map_or(0, |index| index + 1);
        let target = dbt_target {
            source: source_to(source),
            is_parent: is_parent.into(),
            slot,
            space: self.target(pid).map_or(space, |forked| forked.space),
            ..dbt_target::default()
        };
        put(&self.targets, pid, &target)
    }

    /// Sets the address space of a target.
    pub(crate) fn set_space(&self, pid: u32, space: u32) {
        // It may have ended in this very moment: then nothing is written.
        if let Some(target) = self.target(pid) {
            let target = dbt_target { space, ..target };
            let _ = self
                .targets
                .update(&pid.to_ne_bytes(), as_bytes(&target), MapFlags::EXIST);
        }
    }

    fn target(&self, pid: u32) -> Option<dbt_target> {
        look_up(&self.targets, pid)
    }

    /// The task is no longer a target.
    pub(crate) fn remove_target(&self, pid: u32) {
        // It is already gone if the kernel saw its exit.
        let _ = self.targets.delete(&pid.to_ne_bytes());
        let _ = self.counted_sessions.delete(&pid.to_ne_bytes());
    }

    /// Makes the sampler visit this task, or empties the slot.
    pub(crate) fn set_slot(
        &self,
        index: u32,
        task: Option<(u32, u64)>,
        source: WaitSource,
    ) -> Result<(), CollectError> {
        let (pid, start_ns) = task.unwrap_or((0, 0));
        let mut slot = dbt_slot {
            source: source_to(source),
            switches: u64::MAX,
            ..dbt_slot::default()
        };
        slot.task.pid = pid;
        slot.task.start_ns = start_ns;
        // First, so that the sampler does not count what it finds in the slot as another session's rest.
        put(&self.rests, index, &dbt_rest::default())?;
        put(&self.slots, index, &slot)
    }

    /// Gives this empty slot to the next child that a parent forks.
    pub(crate) fn make_slot_ready(&self, index: u32) -> Result<(), CollectError> {
        self.free_slots
            .update(&[], &index.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| CollectError::Kernel(format!("BPF map of free slots: {e}")))
    }

    /// The slot that a target has.
    pub(crate) fn slot_of(&self, pid: u32) -> Option<u32> {
        self.target(pid)?.slot.checked_sub(1)
    }

    /// The task in a slot; none while it is empty.
    pub(crate) fn task_in(&self, index: u32) -> Option<u32> {
        let slot: dbt_slot = look_up(&self.slots, index)?;
        (slot.task.pid != 0).then_some(slot.task.pid)
    }

    /// Sessions that can be recorded at the same time.
    pub(crate) fn capacity(&self) -> u32 {
        MAX_SESSIONS
    }

    /// What the sampler has counted in a slot since the last totals, for a session that has ended and will not be visited again: passes
    /// that found it unchanged, and unusable ones.
    pub(crate) fn read_slot(&self, index: u32) -> (u32, Unused) {
        let Some(slot) = look_up::<dbt_slot>(&self.slots, index) else {
            return (0, Unused::default());
        };
        let rested = look_up::<dbt_rest>(&self.rests, index).map_or(0, |rest| rest.repeats);
        (
            slot.repeats + rested,
            Unused {
                torn: slot.torn,
                torn_stacks: slot.torn_stacks,
                displaced: slot.displaced,
                stood_in: slot.stood_in,
            },
        )
    }

    /// Sets the traits of the database's waits.
    pub(crate) fn set_waits(&self, waits: &WaitTraits) -> Result<(), CollectError> {
        let mask = |classes: &[u8]| classes.iter().fold(0, |mask, class| mask | 1 << class);
        let mut config = dbt_config {
            no_stack_classes: mask(&waits.no_stack_classes),
            resumed_classes: mask(&waits.resumed_classes),
            client_wait: waits.client.unwrap_or_default(),
            executing_state: waits.executing,
            ..dbt_config::default()
        };
        for (place, wait) in config.no_stack_waits.iter_mut().zip(&waits.no_stack) {
            *place = *wait;
        }
        for (place, wait) in config.several_calls.iter_mut().zip(&waits.several_calls) {
            *place = *wait;
        }
        put(&self.configuration, 0, &config)
    }

    /// Sets which of the two maps of latencies is filled from now on.
    pub(crate) fn set_latency_epoch(&self, epoch: u64) -> Result<(), CollectError> {
        self.latency_epoch
            .update(&0u32.to_ne_bytes(), &epoch.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| CollectError::Kernel(format!("BPF map of the epoch: {e}")))
    }

    /// Makes the kernel read the number at this address of the session's memory when the session ends.
    pub(crate) fn read_at_end(&self, pid: u32, address: u64) {
        let counter = dbt_counter {
            address,
            ..dbt_counter::default()
        };
        // Without it, what the session did after the last read is missing.
        let _ = put(&self.counted_sessions, pid, &counter);
    }

    /// What was there when the session ended. None: it was not requested, or it could not be read.
    pub(crate) fn number_at_end(&self, pid: u32) -> Option<u32> {
        let counter: dbt_counter = look_up(&self.counted_sessions, pid)?;
        (counter.has_ended != 0).then_some(counter.last)
    }

    /// Samples since the last call of processes that are not targets, by name.
    pub(crate) fn take_others(&self) -> Vec<(String, u64)> {
        self.others.take()
    }

    /// What the kernel had no room for so far.
    pub(crate) fn losses(&self) -> Losses {
        self.read_bss().map_or(Losses::default(), |bss| Losses {
            events: bss.lost,
            sessions: bss.targets_full,
            latencies: bss.latency_lost,
            plans: bss.plans_lost,
        })
    }

    /// What the programs have cost so far: all of the timer's samples of targets and notes of moments, and the probes' runs that were
    /// measured.
    pub(crate) fn costs(&self) -> Vec<ProgramCost> {
        let counted = self.read_bss().map_or_else(Vec::new, |bss| {
            vec![
                ("timer sample", bss.running_samples, bss.running_ns),
                ("moment", bss.notes, bss.notes_ns),
            ]
        });
        counted
            .into_iter()
            .filter(|(_, runs, _)| *runs > 0)
            .map(|(name, runs, ns)| ProgramCost {
                name: name.to_string(),
                runs,
                ns,
            })
            .chain(self.run_times.costs())
            .collect()
    }

    fn read_bss(&self) -> Option<bss> {
        globals(&self.bss)
    }
}

impl Plain for bss {}
impl Plain for dbt_counter {}
impl Plain for dbt_rest {}
impl Plain for dbt_slot {}
impl Plain for dbt_target {}
impl Plain for dbt_wait_source {}

/// What the kernel had no room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Events: user space was too slow.
    pub(crate) events: u64,
    /// Sessions.
    pub(crate) sessions: u64,
    /// Single latencies.
    pub(crate) latencies: u64,
    /// Statements seen with a plan, each time.
    pub(crate) plans: u64,
}

/// Value of a map whose layout libbpf-cargo made from the C struct.
pub(super) trait MapValue {}
impl MapValue for dbt_target {}
impl MapValue for dbt_rest {}
impl MapValue for dbt_slot {}
impl MapValue for dbt_counter {}
impl MapValue for dbt_config {}
impl MapValue for dbt_pass {}
impl MapValue for dbt_space {}

pub(super) fn as_bytes<V: MapValue>(value: &V) -> &[u8] {
    // SAFETY: V is a struct of integers without padding (bpf/dbtime.h names its padding), read as bytes.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<V>()) }
}

fn put<V: MapValue>(map: &MapHandle, key: u32, value: &V) -> Result<(), CollectError> {
    map.update(&key.to_ne_bytes(), as_bytes(value), MapFlags::ANY)
        .map_err(|e| CollectError::Kernel(format!("BPF map {}: {e}", map.name().to_string_lossy())))
}

/// Sets the argument of the next pass of the iterator.
pub(super) fn set_pass(map: &MapHandle, pass: &dbt_pass) -> Result<(), CollectError> {
    put(map, 0, pass)
}

pub(super) fn attach_iterator(program: &libbpf_rs::ProgramMut<'_>) -> libbpf_rs::Result<Link> {
    // SAFETY: the program is loaded; without options it iterates over all tasks.
    let link = unsafe {
        libbpf_sys::bpf_program__attach_iter(program.as_libbpf_object().as_ptr(), std::ptr::null())
    };
    match std::ptr::NonNull::new(link) {
        // SAFETY: libbpf made the link and hands over its ownership.
        Some(link) => Ok(unsafe { Link::from_ptr(link) }),
        None => Err(libbpf_rs::Error::from_raw_os_error(
            io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL),
        )),
    }
}

/// Runs the program of an iterator over everything once.
pub(super) fn run_iterator(link: &impl AsFd) -> io::Result<()> {
    // SAFETY: the link's descriptor is open while it is borrowed.
    let fd: RawFd = unsafe { libbpf_sys::bpf_iter_create(link.as_fd().as_raw_fd()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    let mut iterator = fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    // The programs write nothing: reading to the end is what makes them visit everything.
    let mut nothing = [0u8; 64];
    while iterator.read(&mut nothing)? > 0 {}
    Ok(())
}

/// Room for half a second of full samples of all CPUs and some hundred sleepers: 16 to 64 MB.
fn ring_bytes(rate_hz: u32) -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let wanted = u64::from(rate_hz) * cpus * 1_200 * 2;
    wanted.next_power_of_two().clamp(16 << 20, 64 << 20) as u32
}
