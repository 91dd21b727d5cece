//! Events that the BPF programs send, in the order in which they happened.

use std::mem::{offset_of, size_of};

use dbtime_model::{Frame, State};
use libbpf_rs::MapHandle;

use super::plain::{Plain, read};
use super::recorder::types::{
    dbt_activity, dbt_begin, dbt_comment, dbt_counted, dbt_event, dbt_event_kind, dbt_exact_state,
    dbt_lock_bits, dbt_locks, dbt_sample, dbt_sample_flag, dbt_sums, dbt_task_counts, dbt_totals,
    dbt_unwind_end, dbt_wait_mark, dbt_wait_sums, dbt_woken,
};
use super::ring::Ring;
use super::wait_source::source_from;

use crate::alike::Numbers;
use crate::causes::Waker;
use crate::database::{Executing, RawRoutine, WaitSource};
use crate::held_locks::{RawLock, RawPage};
use crate::task_counts::{Bytes, Calls, TaskCounts};

const RUNNING: u32 = dbt_event_kind::EVENT_RUNNING.0;
const WAITING: u32 = dbt_event_kind::EVENT_WAITING.0;
const TOTALS: u32 = dbt_event_kind::EVENT_TOTALS.0;
const BEGIN: u32 = dbt_event_kind::EVENT_BEGIN.0;
const END: u32 = dbt_event_kind::EVENT_END.0;
const WOKEN: u32 = dbt_event_kind::EVENT_WOKEN.0;
const COUNTS: u32 = dbt_event_kind::EVENT_COUNTS.0;
const COMMENT: u32 = dbt_event_kind::EVENT_COMMENT.0;
const USER_MODE: u32 = dbt_sample_flag::SAMPLE_USER_MODE.0;
const WAIT_NOT_READ: u32 = dbt_sample_flag::SAMPLE_WAIT_NOT_READ.0;
const STACK_TORN: u32 = dbt_sample_flag::SAMPLE_STACK_TORN.0;
const IN_IOWAIT: u32 = dbt_sample_flag::SAMPLE_IN_IOWAIT.0;
const IN_CALL: u32 = dbt_sample_flag::SAMPLE_IN_CALL.0;
const NEW_CODE: u32 = dbt_sample_flag::SAMPLE_NEW_CODE.0;
const RAN_SINCE: u32 = dbt_sample_flag::SAMPLE_RAN_SINCE.0;
const COUNTED_CALLS: u64 = dbt_counted::COUNTED_CALLS.0 as u64;
const COUNTED_BYTES: u64 = dbt_counted::COUNTED_BYTES.0 as u64;
const COUNTED_BLKIO_DELAY: u64 = dbt_counted::COUNTED_BLKIO_DELAY.0 as u64;
/// All bits, as in bpf/dbtime.h.
const COMMENT_NOT_READ: u64 = u64::MAX;
const NOT_READ: u32 = dbt_wait_mark::WAIT_NOT_READ.0;

/// What /proc says about the state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listed {
    /// On a CPU or in the run queue.
    Ready,
    Off(State),
}

/// A sample of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SampleEvent {
    pub(crate) pid: u32,
    pub(crate) time_ns: u64,
    /// Number of the pass that found it off CPU.
    pub(crate) pass: u32,
    /// The database's 32-bit wait event; none if it could not be read.
    pub(crate) wait: Option<u32>,
    pub(crate) executing: Executing,
    /// When its statement began, if that has a comment, which has been sent before; 0 = it has none. None: that could not be read.
    pub(crate) comment: Option<u64>,
    /// The internal locks that it holds; none if they could not be read.
    pub(crate) locks: Option<Vec<RawLock>>,
    /// Raw `__state` of a task that was off CPU; none for one on a CPU.
    pub(crate) off_cpu_state: Option<u32>,
    /// If /proc was read: in place of the above and of what follows about the mode.
    pub(crate) listed: Option<Listed>,
    pub(crate) user_mode: bool,
    /// It went to sleep for block I/O.
    pub(crate) in_iowait: bool,
    /// It was blocked in this wait event at the drawn moment, and on a CPU by the time it was examined: its state is not known.
    pub(crate) ran_since: bool,
    pub(crate) stack_torn: bool,
    /// In a system call; known if these are traced.
    pub(crate) in_call: bool,
    /// Passes in which the previous row still held.
    pub(crate) repeats: u32,
    /// How far its user stack goes; none if none was taken.
    pub(crate) user_end: Option<StackEnd>,
    /// An address of the user stack is in no mapping that the BPF programs know.
    pub(crate) new_code: bool,
    /// Leaf first.
    pub(crate) kernel: Vec<u64>,
    /// Leaf first.
    pub(crate) user: Vec<u64>,
    /// Functions of a procedural language that the session is in, the innermost first.
    pub(crate) routines: Vec<RawRoutine>,
    /// The kernel stack if it comes with names, leaf first.
    pub(crate) kernel_names: Vec<Frame>,
}

/// Where a user stack ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StackEnd {
    /// At the outermost function.
    Complete,
    /// It has more frames than are kept.
    Truncated,
    /// At a frame whose caller is not known.
    Broken,
}

impl StackEnd {
    fn decode(end: u32) -> Option<StackEnd> {
        match dbt_unwind_end(end) {
            dbt_unwind_end::UNWIND_COMPLETE => Some(StackEnd::Complete),
            dbt_unwind_end::UNWIND_TRUNCATED => Some(StackEnd::Truncated),
            dbt_unwind_end::UNWIND_BROKEN => Some(StackEnd::Broken),
            _ => None,
        }
    }
}

/// All time of a session since its account was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ExactSums {
    /// Time on a CPU, unless it is in `waits`.
    pub(crate) cpu_ns: u64,
    /// Switches that were not seen.
    pub(crate) missed: u64,
    /// How often `waits` began anew, after all of them had been sent.
    pub(crate) epoch: u32,
    /// If the session reports them.
    pub(crate) numbers: Option<Numbers>,
    pub(crate) waits: Vec<WaitSums>,
}

/// All time of a session in a wait event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WaitSums {
    /// As [`SampleEvent::wait`].
    pub(crate) wait: Option<u32>,
    pub(crate) executing: Executing,
    /// By [`ExactState`].
    pub(crate) ns: [u64; ExactState::ALL.len()],
    /// By [`ExactState`].
    pub(crate) count: [u64; ExactState::ALL.len()],
}

/// With the numbers that the BPF programs use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum ExactState {
    /// On a CPU, in no system call.
    Outside = dbt_exact_state::EXACT_OUTSIDE.0,
    /// On a CPU in a system call.
    Call = dbt_exact_state::EXACT_CALL.0,
    Runnable = dbt_exact_state::EXACT_RUNNABLE.0,
    Disk = dbt_exact_state::EXACT_DISK.0,
    Sleep = dbt_exact_state::EXACT_SLEEP.0,
    Stopped = dbt_exact_state::EXACT_STOPPED.0,
}

impl ExactState {
    pub(crate) const ALL: [ExactState; dbt_exact_state::EXACT_STATES.0 as usize] = [
        ExactState::Outside,
        ExactState::Call,
        ExactState::Runnable,
        ExactState::Disk,
        ExactState::Sleep,
        ExactState::Stopped,
    ];

    /// The state of time that was not sampled.
    pub(crate) fn of_time(self) -> State {
        match self {
            // In user code most likely; it was not sampled.
            ExactState::Outside => State::Cpu,
            ExactState::Call => State::Kernel,
            ExactState::Runnable => State::Runnable,
            ExactState::Disk => State::Disk,
            ExactState::Sleep => State::Sleep,
            ExactState::Stopped => State::Stopped,
        }
    }
}

/// An event. Times are CLOCK_MONOTONIC nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Sample(SampleEvent),
    /// A second has passed, or, with `ended`, the session has ended.
    Totals {
        pid: u32,
        start_ns: u64,
        time_ns: u64,
        on_cpu_ns: u64,
        run_queue_ns: u64,
        repeats: u32,
        torn: u32,
        torn_stacks: u32,
        displaced: u32,
        stood_in: u32,
        ended: bool,
        /// Exact tier: the sums of its account, unless it is not open yet or could not be read this time.
        sums: Option<Box<ExactSums>>,
    },
    /// If requested: comes before the totals of the same moment.
    Counts {
        pid: u32,
        time_ns: u64,
        counts: TaskCounts,
    },
    /// The text of a statement that seems to have a comment.
    Comment {
        pid: u32,
        /// By the database's clock.
        since: u64,
        /// Beginning of a text whose middle is missing; empty if there is no comment.
        begin: Vec<u8>,
        end: Vec<u8>,
        /// The end is the whole text.
        is_whole: bool,
    },
    /// A sleep in which a session was sampled has ended.
    Woken {
        pid: u32,
        time_ns: u64,
        by: Waker,
    },
    /// The postmaster forked.
    Begin {
        pid: u32,
        start_ns: u64,
        source: WaitSource,
        /// The slot that it got; none if none was ready.
        slot: Option<u32>,
    },
}

impl Ring<Event> {
    /// The events of the recorder's programs.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn of_events(map: &MapHandle) -> libbpf_rs::Result<Ring<Event>> {
        Ring::of("events", map, decode)
    }
}

/// Reads the C structs from the bytes of one event; none if it is cut short or of an unknown kind.
fn decode(bytes: &[u8]) -> Option<Event> {
    let event: dbt_event = read(bytes)?;
    let pid = event.task.pid;
    match event.kind {
        RUNNING | WAITING => {
            let fixed = offset_of!(dbt_sample, frames);
            // Only the frames in use are sent: the rest of the struct is filled with zeros.
            let mut whole = [0u8; size_of::<dbt_sample>()];
            whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
            let sample: dbt_sample = read(&whole)?;
            let kernel = usize::from(sample.kernel_frames);
            let user = usize::from(sample.user_frames);
            let routines = 2 * sample.routines as usize;
            if bytes.len() < fixed + (kernel + user + routines) * size_of::<u64>() {
                return None;
            }
            let is = |flag: u32| sample.flags & flag != 0;
            Some(Event::Sample(SampleEvent {
                pid,
                time_ns: event.time_ns,
                pass: sample.pass,
                wait: (!is(WAIT_NOT_READ)).then_some(sample.activity.wait),
                executing: executing(&sample.activity),
                comment: (sample.comment != COMMENT_NOT_READ).then_some(sample.comment),
                locks: locks(&sample.locks),
                listed: None,
                kernel_names: Vec::new(),
                off_cpu_state: (event.kind == WAITING).then_some(sample.state),
                user_mode: is(USER_MODE),
                in_iowait: is(IN_IOWAIT),
                stack_torn: is(STACK_TORN),
                in_call: is(IN_CALL),
                repeats: sample.repeats,
                user_end: StackEnd::decode(sample.user_end),
                new_code: is(NEW_CODE),
                ran_since: is(RAN_SINCE),
                kernel: sample.frames[..kernel].to_vec(),
                user: sample.frames[kernel..kernel + user].to_vec(),
                routines: sample.frames[kernel + user..kernel + user + routines]
                    .chunks_exact(2)
                    .map(|words| RawRoutine {
                        function: words[0],
                        id: (words[1] >> 32) as u32,
                        line: words[1] as u32,
                    })
                    .collect(),
            }))
        }
        TOTALS | END => {
            let totals: dbt_totals = read(bytes)?;
            Some(Event::Totals {
                pid,
                start_ns: event.task.start_ns,
                time_ns: event.time_ns,
                on_cpu_ns: totals.on_cpu_ns,
                run_queue_ns: totals.run_queue_ns,
                repeats: totals.repeats,
                torn: totals.torn,
                torn_stacks: totals.torn_stacks,
                displaced: totals.displaced,
                stood_in: totals.stood_in,
                ended: event.kind == END,
                sums: decode_sums(bytes),
            })
        }
        COUNTS => Some(Event::Counts {
            pid,
            time_ns: event.time_ns,
            counts: task_counts(&read(bytes)?),
        }),
        COMMENT => decode_comment(pid, bytes),
        WOKEN => {
            let woken: dbt_woken = read(bytes)?;
            Some(Event::Woken {
                pid,
                time_ns: event.time_ns,
                by: match woken.waker.pid {
                    0 => Waker::Interrupt,
                    pid => Waker::Process(pid, woken.waker.start_ns),
                },
            })
        }
        BEGIN => {
            let begin: dbt_begin = read(bytes)?;
            Some(Event::Begin {
                pid,
                start_ns: event.task.start_ns,
                source: source_from(&begin.source),
                slot: begin.slot.checked_sub(1),
            })
        }
        _ => None,
    }
}

/// The beginning is not sent if there is none.
fn decode_comment(pid: u32, bytes: &[u8]) -> Option<Event> {
    let at = |offset: usize| bytes.get(offset..);
    let number = |offset: usize| read::<u32>(at(offset)?);
    let part = |offset: usize, length: u32| Some(at(offset)?.get(..length as usize)?.to_vec());
    let end_bytes = number(offset_of!(dbt_comment, end_bytes))?;
    let begin_bytes = number(offset_of!(dbt_comment, begin_bytes))?;
    let most = size_of_val(&dbt_comment::default().end);
    Some(Event::Comment {
        pid,
        since: read(at(offset_of!(dbt_comment, since))?)?,
        begin: match begin_bytes {
            0 => Vec::new(),
            length => part(offset_of!(dbt_comment, begin), length)?,
        },
        end: part(offset_of!(dbt_comment, end), end_bytes)?,
        is_whole: begin_bytes == 0 && (end_bytes as usize) < most,
    })
}

fn task_counts(counts: &dbt_task_counts) -> TaskCounts {
    let is_counted = |what: u64| counts.counted & what != 0;
    TaskCounts {
        on_cpu_ns: counts.on_cpu_ns,
        user_ns: counts.user_ns,
        kernel_ns: counts.kernel_ns,
        voluntary_switches: counts.voluntary_switches,
        involuntary_switches: counts.involuntary_switches,
        minor_faults: counts.minor_faults,
        major_faults: counts.major_faults,
        calls: is_counted(COUNTED_CALLS).then_some(Calls {
            rchar: counts.rchar,
            wchar: counts.wchar,
            syscr: counts.syscr,
            syscw: counts.syscw,
        }),
        bytes: is_counted(COUNTED_BYTES).then_some(Bytes {
            read: counts.read_bytes,
            write: counts.write_bytes,
            cancelled_write: counts.cancelled_write_bytes,
        }),
        blkio_delay_ns: is_counted(COUNTED_BLKIO_DELAY).then_some(counts.blkio_delay_ns),
    }
}

/// `LOCK_MODE`, `LOCK_ADDRESS` and `LOCK_KIND_SHIFT`.
const LOCK_MODE: u64 = dbt_lock_bits::LOCK_MODE.0 as u64;
const LOCK_ADDRESS: u64 = ((1 << LOCK_KIND_SHIFT) - 1) & !LOCK_MODE;
const LOCK_KIND_SHIFT: u32 = dbt_lock_bits::LOCK_KIND_SHIFT.0;

/// Those that there was room for.
fn locks(locks: &dbt_locks) -> Option<Vec<RawLock>> {
    let count = (locks.count != NOT_READ).then_some(locks.count as usize)?;
    let lock = |(n, packed): (usize, &u64)| RawLock {
        kind: (packed >> LOCK_KIND_SHIFT) as u16,
        address: packed & LOCK_ADDRESS,
        exclusive: packed & LOCK_MODE == 0,
        page: locks.pages.get(n).and_then(|page| RawPage::of(page.numbers)),
    };
    Some(locks.locks.iter().enumerate().take(count).map(lock).collect())
}

/// The plan is still in the statement: [`Plans::tell_apart`](super::plans::Plans::tell_apart).
fn executing(activity: &dbt_activity) -> Executing {
    Executing {
        statement: activity.statement,
        plan: 0,
        session_state: activity.session_state,
    }
}

/// The sums after the totals; none if there are none, or fewer than they say.
fn decode_sums(bytes: &[u8]) -> Option<Box<ExactSums>> {
    let fixed = offset_of!(dbt_sums, waits);
    // Only the waits in use are sent, so the struct is never complete.
    let at = |offset: usize| bytes.get(offset..);
    let cpu_ns: u64 = read(at(offset_of!(dbt_sums, cpu_ns))?)?;
    let missed: u64 = read(at(offset_of!(dbt_sums, missed))?)?;
    let used: u32 = read(at(offset_of!(dbt_sums, used))?)?;
    let epoch: u32 = read(at(offset_of!(dbt_sums, epoch))?)?;
    let kind: u32 = read(at(offset_of!(dbt_sums, r#type))?)?;
    let whose: u64 = read(at(offset_of!(dbt_sums, whose))?)?;
    let waits = (0..used as usize)
        .map(|n| {
            let sums: dbt_wait_sums = read(at(fixed + n * size_of::<dbt_wait_sums>())?)?;
            Some(WaitSums {
                wait: (sums.activity.wait != NOT_READ).then_some(sums.activity.wait),
                executing: executing(&sums.activity),
                ns: sums.ns,
                count: sums.count,
            })
        })
        .collect::<Option<Vec<WaitSums>>>()?;
    Some(Box::new(ExactSums {
        cpu_ns,
        missed,
        epoch,
        numbers: (kind != 0).then_some((kind, whose)),
        waits,
    }))
}

impl Plain for dbt_event {}
impl Plain for dbt_sample {}
impl Plain for dbt_totals {}
impl Plain for dbt_task_counts {}
impl Plain for dbt_begin {}
impl Plain for dbt_woken {}
impl Plain for dbt_wait_sums {}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<T: Plain>(value: &T) -> Vec<u8> {
        // SAFETY: T is plain integers without padding that matters; the slice lives as long as `value`.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }.to_vec()
    }

    fn sample(kernel: u16, user: u16) -> Vec<u8> {
        let mut sample = dbt_sample::default();
        sample.event.kind = WAITING;
        sample.event.task.pid = 7;
        sample.kernel_frames = kernel;
        sample.user_frames = user;
        for (n, frame) in sample.frames.iter_mut().enumerate() {
            *frame = n as u64 + 1;
        }
        bytes(&sample)
    }

    #[test]
    fn frames_are_cut_at_what_the_sample_says() {
        let all = sample(2, 3);
        let used = offset_of!(dbt_sample, frames) + 5 * 8;
        let Some(Event::Sample(event)) = decode(&all[..used]) else {
            panic!()
        };
        assert_eq!((event.kernel, event.user), (vec![1, 2], vec![3, 4, 5]));
        assert_eq!(decode(&all[..used - 1]), None);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let all = sample(64, 127);
        for cut in 0..=all.len() {
            decode(&all[..cut]);
        }
        assert_eq!(decode(&sample(u16::MAX, u16::MAX)), None);
        assert_eq!(decode(&[0xff; 64]), None);
        assert_eq!(decode(&vec![1; all.len() + 9]), None);
    }
}
