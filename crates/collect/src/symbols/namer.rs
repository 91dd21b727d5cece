//! A process of its own that reads symbol tables and debug information, and names functions, or gives the layout of a structure.
//!
//! Whoever is recorded can craft such files so that reading them takes for ever, takes all memory, or hits a bug in a parser. All
//! of that stays in this process: its memory is limited, it has no privileges, may do little more than read files that are passed
//! to it, and is killed if an answer takes too long. The file that it was busy with then has no names; the next question starts
//! another process.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::elf_names::{AtPlace, ElfNames, Named, Unnamed};
use super::structure::Member;
use crate::ending::Ending;
use crate::target_file::TargetFile;
use crate::{confinement, process};

/// Memory of the process, beyond what it starts with.
const MAX_MEMORY: u64 = 2 << 30;
/// CPU time for one answer. The largest real files take a second.
const MAX_CPU: Duration = Duration::from_secs(3);
/// Time for one answer, even if the process gets no CPU, or waits for a disk.
const MAX_TIME: Duration = Duration::from_secs(10);
/// How often the CPU time is checked.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of one message.
const MAX_MESSAGE: usize = 64 << 10;
/// Bytes of a name.
const MAX_NAME: usize = 4096;
/// Stands for the offset of a member that is not known.
const NO_MEMBER: u64 = u64::MAX;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The file cannot be read; the process is as it was.
    Unreadable,
    /// The process died of it, or was killed.
    Killed,
    /// The recording ends: nobody waits for names any longer.
    NoTime,
}

/// Handle of the process; dropping it ends the process.
#[derive(Debug, Default)]
pub(super) struct Namer {
    running: Option<Running>,
    ending: Ending,
    /// How many processes have ended: what one had read, its successor has not.
    generation: u32,
    usage: Usage,
}

#[derive(Debug)]
struct Running {
    pid: libc::pid_t,
    socket: OwnedFd,
}

/// What the process, and those before it, have used. Clones share their state.
#[derive(Debug, Clone, Default)]
pub(super) struct Usage(Arc<Mutex<Used>>);

#[derive(Debug, Default)]
struct Used {
    /// The one that runs now, and the memory that it shared with this process when it began. It is not waited for meanwhile, so its pid
    /// stays its own.
    running: Option<(libc::pid_t, u64)>,
    /// CPU time of those that have ended, in nanoseconds.
    cpu_ns: u64,
    /// The most that one of them has used, in bytes.
    max_rss_bytes: u64,
}

impl Usage {
    /// CPU time so far, in nanoseconds, and peak memory, in bytes.
    pub(super) fn cost(&self) -> (u64, u64) {
        let used = self.used();
        let rss = used.running.map_or(0, |(pid, rss_at_start)| {
            process::memory_bytes(pid.unsigned_abs(), "VmHWM").saturating_sub(rss_at_start)
        });
        (used.cpu_ns(), used.max_rss_bytes.max(rss))
    }

    /// CPU time so far, in nanoseconds.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.used().cpu_ns()
    }

    /// The process, if it runs.
    #[cfg(test)]
    pub(super) fn running(&self) -> Option<libc::pid_t> {
        self.used().running.map(|(pid, _)| pid)
    }

    /// Ends the process at once, whatever it is asked; whoever waits for its answer sees that.
    pub(super) fn kill(&self) {
        if let Some((pid, _)) = self.used().running {
            // SAFETY: it is a child of this process that nobody has waited for: the pid is its own.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }

    /// From now on this process is meant.
    fn begin(&self, running: &Running) {
        let rss_at_start = process::memory_bytes(running.pid.unsigned_abs(), "VmRSS");
        self.used().running = Some((running.pid, rss_at_start));
    }

    /// It is about to be ended.
    fn end(&self) {
        let (cpu_ns, max_rss_bytes) = self.cost();
        *self.used() = Used {
            running: None,
            cpu_ns,
            max_rss_bytes,
        };
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Used {
    fn cpu_ns(&self) -> u64 {
        self.cpu_ns + self.running.map_or(0, |(pid, _)| cpu_ns_of(pid))
    }
}

/// What a question is about.
#[derive(Debug, Clone, Copy)]
enum Topic {
    /// Read this file: the answer is its build id.
    Open = 1,
    /// Read its debug file: whether it is that, and the build id of the file with what it shares with others.
    Debug = 2,
    /// Read that file.
    Shared = 3,
    /// Name the function at an offset.
    Name = 4,
    /// How many functions the file with that number has, and how many without a name.
    Unnamed = 5,
    /// Where members of a structure are: its name and theirs.
    Members = 6,
}

impl Namer {
    /// Starts the process: best before there are threads and much memory.
    pub(super) fn start(&mut self, ending: &Ending) {
        self.ending = ending.clone();
        // If it cannot be started now it is tried again with the first question.
        let _ = self.running();
    }

    /// Changes when everything that was read must be read again.
    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// Has a file read, under a number; the answer is its build id in hex, or nothing.
    pub(super) fn open(&mut self, number: u32, file: &TargetFile) -> Result<String, NoAnswer> {
        let answer = self.ask(Topic::Open, number, &[], Some(file))?;
        Ok(text(&answer))
    }

    /// Has the debug file of a file read. None: it is not; otherwise the build id of the file with what it shares with others, or
    /// nothing.
    pub(super) fn open_debug_file(
        &mut self,
        number: u32,
        file: &TargetFile,
    ) -> Result<Option<String>, NoAnswer> {
        let answer = self.ask(Topic::Debug, number, &[], Some(file))?;
        Ok(match answer.split_first() {
            Some((1, id)) => Some(text(id)),
            _ => None,
        })
    }

    /// Has that file read.
    pub(super) fn open_shared_debug_file(&mut self, number: u32, file: &TargetFile) -> Result<(), NoAnswer> {
        self.ask(Topic::Shared, number, &[], Some(file)).map(drop)
    }

    /// Names what is at an offset of a file.
    pub(super) fn name(&mut self, number: u32, offset: u64) -> Result<AtPlace, NoAnswer> {
        let answer = self.ask(Topic::Name, number, &offset.to_le_bytes(), None)?;
        Ok(decode(&answer)
            .filter(|found| found.same.contains(&offset))
            .unwrap_or_else(|| AtPlace::nothing(offset)))
    }

    /// Counts the functions of a file that only a debug file can name.
    pub(super) fn unnamed(&mut self, number: u32, file: &TargetFile) -> Result<Unnamed, NoAnswer> {
        let answer = self.ask(Topic::Unnamed, number, &[], Some(file))?;
        let count = |at: usize| Some(u32::from_le_bytes(*answer.get(at..)?.first_chunk()?));
        Ok(Unnamed {
            without_name: count(0).unwrap_or_default(),
            all: count(4).unwrap_or_default(),
        })
    }

    /// These members of a structure, according to the debug information of a file that was not asked for names before.
    pub(super) fn members(
        &mut self,
        number: u32,
        structure: &str,
        wanted: &[&str],
    ) -> Result<Vec<Option<Member>>, NoAnswer> {
        let names = [&[structure], wanted].concat().join("\0");
        let answer = self.ask(Topic::Members, number, names.as_bytes(), None)?;
        let (numbers, _) = answer.as_chunks::<8>();
        let (pairs, _) = numbers.as_chunks::<2>();
        let members = pairs.iter().map(|pair| {
            let [offset, bytes] = pair.map(u64::from_le_bytes);
            (offset != NO_MEMBER).then_some(Member { offset, bytes })
        });
        Ok(members.collect())
    }

    /// What it uses.
    pub(super) fn usage(&self) -> &Usage {
        &self.usage
    }

    fn ask(
        &mut self,
        topic: Topic,
        number: u32,
        about: &[u8],
        file: Option<&TargetFile>,
    ) -> Result<Vec<u8>, NoAnswer> {
        if self.ending.is_over() {
            return Err(NoAnswer::NoTime);
        }
        let ending = self.ending.clone();
        let running = self.running().map_err(|_| NoAnswer::Killed)?;
        let mut message = vec![topic as u8];
        message.extend(number.to_le_bytes());
        message.extend(about);
        let answer = running
            .send(&message, file)
            .and_then(|()| running.answer(&ending));
        match answer.as_deref().map(<[u8]>::split_first) {
            Ok(Some((1, answer))) => Ok(answer.to_vec()),
            Ok(Some((0, _))) => Err(NoAnswer::Unreadable),
            _ => {
                self.stop();
                Err(match ending.is_over() {
                    true => NoAnswer::NoTime,
                    false => NoAnswer::Killed,
                })
            }
        }
    }

    fn running(&mut self) -> io::Result<&Running> {
        if self.running.is_none() {
            let running = Running::start()?;
            self.usage.begin(&running);
            self.running = Some(running);
        }
        self.running.as_ref().ok_or(io::ErrorKind::NotFound.into())
    }

    /// Ends the process: what it has read is gone.
    pub(super) fn stop(&mut self) {
        self.usage.end();
        if let Some(running) = self.running.take() {
            self.generation += 1;
            // SAFETY: it is a child of this process that nobody else waits for: the pid stays its own until then.
            unsafe {
                libc::kill(running.pid, libc::SIGKILL);
                libc::waitpid(running.pid, std::ptr::null_mut(), 0);
            }
        }
    }
}

impl Drop for Namer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Running {
    fn start() -> io::Result<Running> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let parent = rustix::process::getpid();
        // SAFETY: the child runs nothing but what is called here, which needs no lock but the allocator's, and the C library leaves
        // that one usable in the child.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => serve(theirs, parent),
            pid => Ok(Running { pid, socket: ours }),
        }
    }

    fn send(&self, message: &[u8], file: Option<&TargetFile>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let files = file.map(|file| [file.as_fd()]);
        if let Some(files) = &files {
            ancillary.push(SendAncillaryMessage::ScmRights(files));
        }
        sendmsg(
            &self.socket,
            &[IoSlice::new(message)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }

    /// Waits for the answer, for as long as it may take.
    fn answer(&self, ending: &Ending) -> io::Result<Vec<u8>> {
        let (begin, cpu_at_begin) = (Instant::now(), cpu_ns_of(self.pid));
        loop {
            let mut wanted = [PollFd::new(&self.socket, PollFlags::IN)];
            let timeout = Timespec {
                tv_sec: 0,
                tv_nsec: LOOK.subsec_nanos().into(),
            };
            match poll(&mut wanted, Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return receive(&self.socket).map(|(message, _)| message),
                Err(e) => return Err(e.into()),
            }
            let cpu_ns = cpu_ns_of(self.pid).saturating_sub(cpu_at_begin);
            if begin.elapsed() > MAX_TIME || Duration::from_nanos(cpu_ns) > MAX_CPU || ending.is_over() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

/// CPU time of a child that nobody has waited for, in nanoseconds.
fn cpu_ns_of(pid: libc::pid_t) -> u64 {
    let mut clock = 0;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both pointers are to live locals; the clock is that of a child that nobody has waited for.
    let is_known = unsafe {
        libc::clock_getcpuclockid(pid, &mut clock) == 0 && libc::clock_gettime(clock, &mut time) == 0
    };
    if is_known {
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    } else {
        0
    }
}

/// A message, and the file that came with it.
fn receive(socket: &OwnedFd) -> io::Result<(Vec<u8>, Option<TargetFile>)> {
    let mut message = vec![0; MAX_MESSAGE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(&mut message)];
    let received = recvmsg(socket, &mut buffers, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    message.truncate(received.bytes);
    let mut file = None;
    for with in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = with {
            file = files.last();
        }
    }
    Ok((
        message,
        file.and_then(|file| TargetFile::new(File::from(file)).ok()),
    ))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Inverse of [`encode`].
fn decode(answer: &[u8]) -> Option<AtPlace> {
    let (start, rest) = answer.split_first_chunk()?;
    let (end, rest) = rest.split_first_chunk()?;
    Some(AtPlace {
        named: rest.split_first_chunk().map(|(offset, names)| Named {
            offset: u64::from_le_bytes(*offset),
            names: names.split(|byte| *byte == 0).map(text).collect(),
        }),
        same: u64::from_le_bytes(*start)..u64::from_le_bytes(*end),
    })
}

/// The process: answers until nobody asks any more.
fn serve(socket: OwnedFd, parent: rustix::process::Pid) -> ! {
    // A bug in a parser ends it silently; its parent sees that it is gone.
    std::panic::set_hook(Box::new(|_| std::process::abort()));
    if confinement::enter(&socket, parent, MAX_MEMORY).is_ok() {
        let mut files = HashMap::new();
        while let Ok((question, file)) = receive(&socket) {
            let answer = answer(&mut files, &question, file).map_or(vec![0], |mut answer| {
                answer.insert(0, 1);
                answer
            });
            let mut none = SendAncillaryBuffer::default();
            if sendmsg(&socket, &[IoSlice::new(&answer)], &mut none, SendFlags::NOSIGNAL).is_err() {
                break;
            }
        }
    }
    // SAFETY: no exit handler of the parent may run in this copy of it.
    unsafe { libc::_exit(0) }
}

fn answer(files: &mut HashMap<u32, ElfNames>, question: &[u8], file: Option<TargetFile>) -> Option<Vec<u8>> {
    let (topic, rest) = question.split_first()?;
    let (number, about) = rest.split_first_chunk()?;
    let number = u32::from_le_bytes(*number);
    if *topic == Topic::Open as u8 {
        let names = ElfNames::read(&file?).ok()?;
        let build_id = names.build_id().into_bytes();
        files.insert(number, names);
        return Some(build_id);
    }
    let names = files.get_mut(&number)?;
    if *topic == Topic::Debug as u8 {
        let is_its = names.add_debug_file(&file?).ok()?;
        let mut answer = vec![u8::from(is_its)];
        answer.extend(names.shared_debug_file().into_bytes());
        Some(answer)
    } else if *topic == Topic::Shared as u8 {
        names.add_shared_debug_file(&file?).ok().map(|()| Vec::new())
    } else if *topic == Topic::Unnamed as u8 {
        let Unnamed { without_name, all } = names.unnamed(&file?).ok()?;
        Some([without_name.to_le_bytes(), all.to_le_bytes()].concat())
    } else if *topic == Topic::Members as u8 {
        let mut about = str::from_utf8(about).ok()?.split('\0');
        let structure = about.next()?;
        let members = names.members(structure, &about.collect::<Vec<_>>())?;
        let numbers = members
            .into_iter()
            .flat_map(|member| member.map_or([NO_MEMBER; 2], |member| [member.offset, member.bytes]));
        Some(numbers.flat_map(u64::to_le_bytes).collect())
    } else {
        let offset = u64::from_le_bytes(*about.first_chunk()?);
        Some(encode(&names.find(offset)))
    }
}

/// The range that has this answer; offset and names, as far as they fit.
fn encode(found: &AtPlace) -> Vec<u8> {
    let mut answer = [found.same.start.to_le_bytes(), found.same.end.to_le_bytes()].concat();
    let Some(named) = &found.named else {
        return answer;
    };
    answer.extend(named.offset.to_le_bytes());
    for (n, name) in named.names.iter().enumerate() {
        let name = name.as_bytes();
        let name = &name[..name.len().min(MAX_NAME)];
        if answer.len() + name.len() + 2 > MAX_MESSAGE {
            break;
        }
        if n > 0 {
            answer.push(0);
        }
        answer.extend(name.iter().map(|byte| if *byte == 0 { b'?' } else { *byte }));
    }
    answer
}
