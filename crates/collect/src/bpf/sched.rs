//! Loads and attaches the programs of `bpf/sched.bpf.c`; takes the turns that they send.

use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use dbtime_model::recording::ProgramCost;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use super::messages::refusals;
use super::plain::{Plain, globals, read, the_same};
use super::ring::Ring;
use super::run_time::RunTimes;
use super::sched_skeleton::SchedSkelBuilder;
use super::sched_skeleton::types::{
    bss, dbt_nobody, dbt_occupant, dbt_sched_event, dbt_sched_life, dbt_sched_task, dbt_turn, dbt_turn_flag,
    dbt_wait_mark, dbt_wait_source,
};
use super::wait_source::source_to;
use crate::CollectError;
use crate::clock::monotonic_ns;
use crate::database::{Executing, WaitSource};

/// Half a second at a million turns a second would take 100 MB; at the rate of two busy CPUs this is several seconds.
const RING_BYTES: u32 = 16 << 20;

const TURN: u32 = dbt_sched_event::SCHED_TURN.0;
const BEGIN: u32 = dbt_sched_event::SCHED_BEGIN.0;
const END: u32 = dbt_sched_event::SCHED_END.0;
const PUSHED_OFF: u32 = dbt_turn_flag::TURN_PUSHED_OFF.0;
const IN_IOWAIT: u32 = dbt_turn_flag::TURN_IN_IOWAIT.0;
const WAIT_PUSHED_OFF: u32 = dbt_turn_flag::TURN_WAIT_PUSHED_OFF.0;
const WAIT_IN_IOWAIT: u32 = dbt_turn_flag::TURN_WAIT_IN_IOWAIT.0;
const MOVED: u32 = dbt_turn_flag::TURN_MOVED.0;
const WOKEN: u32 = dbt_turn_flag::TURN_WOKEN.0;
/// Occupants for which there was no room.
const OTHER_TASKS: u32 = dbt_nobody::OTHER_TASKS.0;
const NOT_READ: u32 = dbt_wait_mark::WAIT_NOT_READ.0;

/// How a task left its CPU: the kernel's raw `__state`, and what else is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeftAs {
    pub(crate) raw: u32,
    pub(crate) in_iowait: bool,
    pub(crate) pushed_off: bool,
}

/// A task, by pid and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedTask {
    pub(crate) pid: u32,
    pub(crate) comm: String,
}

/// A turn of a task. Times are CLOCK_MONOTONIC nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnEvent {
    pub(crate) pid: u32,
    pub(crate) comm: String,
    pub(crate) cpu: u32,
    pub(crate) since_ns: u64,
    pub(crate) time_ns: u64,
    pub(crate) run_ns: u64,
    pub(crate) delay_ns: u64,
    /// Number of the wait event in which it had left its CPU before; none if it could not be read.
    pub(crate) wait: Option<u32>,
    /// What it executed then.
    pub(crate) wait_executing: Executing,
    /// The statement that it executes now; 0 = not known, or none.
    pub(crate) statement: u64,
    pub(crate) was: LeftAs,
    pub(crate) is: LeftAs,
    pub(crate) priority: i32,
    pub(crate) migrations: u32,
    pub(crate) moved: bool,
    /// Switches in between that were not seen.
    pub(crate) missed: u32,
    /// Who woke it, if it was woken; pid 0 = an interrupt.
    pub(crate) waker: Option<NamedTask>,
    /// Who had the CPU during the delay; none = others, for which there was no room. Pid 0 = nobody.
    pub(crate) occupants: Vec<(Option<NamedTask>, u64)>,
}

/// What the programs send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SchedEvent {
    Turn(Box<TurnEvent>),
    /// A child was forked.
    Begin {
        pid: u32,
        start_ns: u64,
    },
    /// A task exits: its last turn may follow.
    End {
        pid: u32,
    },
}

/// The loaded programs. Dropping it detaches and unloads them: nothing stays in the kernel.
pub(crate) struct SchedPrograms {
    tasks: MapHandle,
    bss: MapHandle,
    events: Ring<SchedEvent>,
    run_times: RunTimes,
    _links: Vec<Link>,
}

impl SchedPrograms {
    /// Loads and attaches.
    ///
    /// # Errors
    /// The kernel refuses: the message has its reason.
    pub(crate) fn load() -> Result<SchedPrograms, CollectError> {
        let failed = refusals("the kernel rejected dbtime's BPF programs");
        let mut storage = MaybeUninit::uninit();
        let mut open = SchedSkelBuilder::default()
            .open(&mut storage)
            .map_err(|e| failed("open", e))?;
        let cpus = libbpf_rs::num_possible_cpus().map_err(|e| failed("CPUs", e))?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.text_seed = fastrand::u64(..);
        }
        open.maps
            .cpus
            .set_max_entries(cpus as u32)
            .and_then(|()| open.maps.events.set_max_entries(RING_BYTES))
            .map_err(|e| failed("maps", e))?;
        let skel = open.load().map_err(|e| failed("load", e))?;
        let handle = |map: &libbpf_rs::MapMut<'_>| MapHandle::try_from(map).map_err(|e| failed("maps", e));
        let events = handle(&skel.maps.events)?;
        let mut programs = SchedPrograms {
            tasks: handle(&skel.maps.sched_tasks)?,
            bss: handle(&skel.maps.bss)?,
            events: Ring::of("events", &events, decode).map_err(|e| failed("events", e))?,
            run_times: RunTimes::new(monotonic_ns()),
            _links: Vec::new(),
        };
        // In this order, so that wakeups and migrations are known before a turn ends.
        for (tracepoint, program) in [
            ("sched_waking", &skel.progs.on_waking),
            ("sched_migrate_task", &skel.progs.on_move),
            ("sched_process_exit", &skel.progs.on_exit),
            ("sched_process_fork", &skel.progs.on_fork),
            ("sched_switch", &skel.progs.on_switch),
        ] {
            let link = program.attach_trace().map_err(|e| failed(tracepoint, e))?;
            programs._links.push(link);
            // Without it only the cost is not known.
            let _ = programs.run_times.watch(tracepoint, program);
        }
        Ok(programs)
    }

    /// Reports the turns of this process's main thread from now on; `with_children`: and of those that it forks. False if there is no such
    /// process any more.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn watch(
        &self,
        pid: u32,
        source: WaitSource,
        with_children: bool,
    ) -> Result<bool, CollectError> {
        // SAFETY: a plain system call; the descriptor it returns is ours.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let Ok(fd) = i32::try_from(fd) else {
            return Ok(false);
        };
        if fd < 0 {
            return Ok(false);
        }
        // SAFETY: the kernel has just made this descriptor for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let task = dbt_sched_task {
            source: the_same(&source_to(source)),
            is_parent: with_children.into(),
            ..dbt_sched_task::default()
        };
        // SAFETY: `dbt_sched_task` is plain integers whose padding is named (bpf/sched.h), read as bytes.
        let bytes = unsafe {
            std::slice::from_raw_parts(
                std::ptr::from_ref(&task).cast::<u8>(),
                size_of::<dbt_sched_task>(),
            )
        };
        match self
            .tasks
            .update(&fd.as_raw_fd().to_ne_bytes(), bytes, MapFlags::ANY)
        {
            Ok(()) => Ok(true),
            // It has ended in between.
            Err(e) if e.kind() == libbpf_rs::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(CollectError::Kernel(format!("BPF map of tasks: {e}"))),
        }
    }

    /// Waits at most this long, then takes what has arrived.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn wait(&mut self, longest: Duration) -> Result<Vec<SchedEvent>, CollectError> {
        let come = self.events.wait(longest);
        self.run_times.step(monotonic_ns());
        come
    }

    /// Events for which there was no room so far.
    pub(crate) fn lost(&self) -> u64 {
        globals::<bss>(&self.bss).map_or(0, |bss| bss.lost)
    }

    /// What the programs cost so far.
    pub(crate) fn costs(&self) -> Vec<ProgramCost> {
        self.run_times.costs()
    }
}

impl Plain for bss {}
impl Plain for dbt_sched_life {}
impl Plain for dbt_turn {}
impl Plain for dbt_wait_source {}

/// A name as the kernel keeps it: up to a zero.
fn name(comm: &[libc::c_char]) -> String {
    let bytes: Vec<u8> = comm
        .iter()
        .map(|c| *c as u8)
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads the C structs from the bytes of one event; none if it is cut short or of an unknown kind.
fn decode(bytes: &[u8]) -> Option<SchedEvent> {
    match read::<u32>(bytes)? {
        TURN => {
            // Only the occupants in use are sent: the rest of the struct is filled with zeros.
            let mut whole = [0u8; size_of::<dbt_turn>()];
            whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
            let turn: dbt_turn = read(&whole)?;
            let used = turn.occupants as usize;
            if used > turn.who.len()
                || bytes.len() < offset_of!(dbt_turn, who) + used * size_of::<dbt_occupant>()
            {
                return None;
            }
            let is = |flag: u32| turn.flags & flag != 0;
            let somebody = |pid: u32, comm: &[libc::c_char]| NamedTask {
                pid,
                comm: name(comm),
            };
            Some(SchedEvent::Turn(Box::new(TurnEvent {
                pid: turn.task.pid,
                comm: name(&turn.comm),
                cpu: turn.cpu,
                since_ns: turn.since_ns,
                time_ns: turn.time_ns,
                run_ns: turn.run_ns,
                delay_ns: turn.delay_ns,
                wait: (turn.wait != NOT_READ).then_some(turn.wait),
                wait_executing: Executing {
                    statement: turn.wait_statement,
                    plan: 0,
                    session_state: turn.wait_session_state,
                },
                statement: turn.statement,
                was: LeftAs {
                    raw: turn.wait_state,
                    in_iowait: is(WAIT_IN_IOWAIT),
                    pushed_off: is(WAIT_PUSHED_OFF),
                },
                is: LeftAs {
                    raw: turn.state,
                    in_iowait: is(IN_IOWAIT),
                    pushed_off: is(PUSHED_OFF),
                },
                priority: turn.priority,
                migrations: turn.migrations,
                moved: is(MOVED),
                missed: turn.missed,
                waker: is(WOKEN).then(|| somebody(turn.waker, &turn.waker_comm)),
                occupants: turn.who[..used]
                    .iter()
                    .map(|who| {
                        (
                            (who.pid != OTHER_TASKS).then(|| somebody(who.pid, &who.comm)),
                            who.ns,
                        )
                    })
                    .collect(),
            })))
        }
        BEGIN => {
            let life: dbt_sched_life = read(bytes)?;
            Some(SchedEvent::Begin {
                pid: life.task.pid,
                start_ns: life.task.start_ns,
            })
        }
        END => {
            let life: dbt_sched_life = read(bytes)?;
            Some(SchedEvent::End { pid: life.task.pid })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bytes_make_it_panic() {
        let turn = dbt_turn {
            kind: TURN,
            occupants: 2,
            ..dbt_turn::default()
        };
        // SAFETY: plain integers; the slice lives as long as `turn`.
        let bytes = unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(&turn).cast::<u8>(), size_of::<dbt_turn>())
        };
        let used = offset_of!(dbt_turn, who) + 2 * size_of::<dbt_occupant>();
        assert!(matches!(decode(&bytes[..used]), Some(SchedEvent::Turn(turn)) if turn.occupants.len() == 2));
        assert_eq!(decode(&bytes[..used - 1]), None);
        for cut in 0..=bytes.len() {
            decode(&bytes[..cut]);
        }
        assert_eq!(decode(&[0xff; 64]), None);
        assert_eq!(decode(&vec![1; bytes.len() + 8]), None);
        let many = dbt_turn {
            kind: TURN,
            occupants: 9,
            ..dbt_turn::default()
        };
        // SAFETY: as above.
        let bytes = unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(&many).cast::<u8>(), size_of::<dbt_turn>())
        };
        assert_eq!(decode(bytes), None);
    }
}
