//! Confines a process that reads untrusted input: it may do next to nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::{Pid, Resource, Rlimit, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use crate::priority;

/// System calls that stay allowed: reading open files, memory, messages through the one socket, exiting.
const CALLS: [libc::c_long; 34] = [
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_newfstatat,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendmsg,
    libc::SYS_sigaltstack,
    libc::SYS_statx,
    libc::SYS_tgkill,
];

/// Confines this process for the rest of its life: it dies with the process that started it; has no files but this socket;
/// `memory` more bytes of address space than now; no raised priority; no signals; no capabilities, and no way to get any; no
/// system calls but those listed above.
///
/// # Errors
/// One of these restrictions cannot be set up.
pub(crate) fn enter(socket: &OwnedFd, parent: Pid, memory: u64) -> io::Result<()> {
    block_signals()?;
    // What a hostile file makes it compute must not take precedence over the database.
    priority::give_up()?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() != Some(parent) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let limit = |bytes| Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    rustix::process::setrlimit(Resource::As, limit(address_space()? + memory))?;
    rustix::process::setrlimit(Resource::Core, limit(0))?;
    rustix::process::setrlimit(Resource::Fsize, limit(0))?;
    close_all_but(socket)?;
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    rustix::thread::set_no_new_privs(true)?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none)?;
    let rules = CALLS
        .iter()
        .map(|call| (*call, Vec::new()))
        .collect::<BTreeMap<_, _>>();
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        architecture,
    );
    let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}

/// Signals of the terminal go to all processes of a command: its first process decides what to do about them.
fn block_signals() -> io::Result<()> {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised by the first call and only read by the second.
    let result = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut())
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Bytes of address space that this process has now.
fn address_space() -> io::Result<u64> {
    const PAGE: u64 = 4096;
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages = text.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
    pages
        .map(|pages| pages * PAGE)
        .ok_or(io::ErrorKind::InvalidData.into())
}

fn close_all_but(socket: &OwnedFd) -> io::Result<()> {
    let kept = socket.as_raw_fd().unsigned_abs();
    for (first, last) in [(0, kept.checked_sub(1)), (kept + 1, Some(u32::MAX))] {
        let Some(last) = last else { continue };
        // SAFETY: this is a forked process that shares no descriptors with its parent; nothing that runs from here on uses
        // what is closed.
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
