//! What the recorder must be allowed to do, checked before anything is touched, so that the error can name it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::CollectError;

/// A capability, its bit in `CapEff` (`linux/capability.h`), and whether `CAP_SYS_ADMIN`, bit 21, implies it.
type Capability = (&'static str, u32, bool);

/// To load BPF programs.
const PROGRAMS: [Capability; 2] = [("CAP_BPF", 39, true), ("CAP_PERFMON", 38, true)];
/// To read other processes, too.
const PROCESSES: [Capability; 2] = [("CAP_SYS_PTRACE", 19, false), ("CAP_DAC_READ_SEARCH", 2, false)];
/// To write the files of tracefs, which are root's.
const TRACE_FILES: Capability = ("CAP_DAC_OVERRIDE", 1, false);
const SYS_ADMIN: u32 = 21;
/// To open files that a process has mapped even if they have been deleted.
const CHECKPOINT_RESTORE: u32 = 40;
/// Inode of the initial pid namespace (`PROC_PID_INIT_INO` in `linux/proc_ns.h`).
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Checks what recording sessions needs: capabilities, kernel type information and pid namespace.
///
/// # Errors
/// Names what is missing.
pub(crate) fn check() -> Result<(), CollectError> {
    check_recording()?;
    check_type_information()?;
    check_pid_namespace()
}

/// Checks the capabilities that recording sessions needs.
///
/// # Errors
/// Names what is missing.
pub(crate) fn check_recording() -> Result<(), CollectError> {
    check_capabilities(&[PROGRAMS, PROCESSES].concat())
}

/// Checks what reading other processes without any BPF program needs.
///
/// # Errors
/// Names what is missing.
pub(crate) fn check_processes() -> Result<(), CollectError> {
    check_capabilities(&PROCESSES)
}

/// Checks what BPF programs that look at no process need.
///
/// # Errors
/// Names what is missing.
pub(crate) fn check_programs() -> Result<(), CollectError> {
    check_capabilities(&PROGRAMS)?;
    check_type_information()
}

/// Checks what changing settings of the kernel's trace needs.
///
/// # Errors
/// Names what is missing.
pub(crate) fn check_tracing() -> Result<(), CollectError> {
    check_capabilities(&[TRACE_FILES])?;
    check_pid_namespace()
}

fn check_capabilities(needed: &[Capability]) -> Result<(), CollectError> {
    let effective = effective_capabilities()?;
    let has = |bit: u32| effective & (1 << bit) != 0;
    let missing: Vec<&str> = needed
        .iter()
        .filter(|(_, bit, admin)| !(has(*bit) || *admin && has(SYS_ADMIN)))
        .map(|(name, ..)| *name)
        .collect();
    if !missing.is_empty() {
        return Err(CollectError::Privilege(missing));
    }
    Ok(())
}

/// Whether mapped files that have been deleted or replaced can be opened.
pub(crate) fn can_open_deleted_files() -> bool {
    effective_capabilities().is_ok_and(|has| has & (1 << CHECKPOINT_RESTORE | 1 << SYS_ADMIN) != 0)
}

/// What a thread keeps to read the files that processes have mapped.
pub(crate) const READS_FILES: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::CHECKPOINT_RESTORE);
/// What it keeps besides to read what the kernel's programs found, and to tell them what to look at.
pub(crate) const READS_PROCESSES: CapabilitySet = CapabilitySet::BPF.union(READS_FILES);
/// What it keeps besides to write a recording into somebody else's directory.
pub(crate) const WRITES: CapabilitySet = CapabilitySet::DAC_OVERRIDE;
/// What it keeps besides to give a recording to somebody else once it has ended.
pub(crate) const GIVES_AWAY: CapabilitySet = CapabilitySet::CHOWN;
/// What it keeps besides to read /proc/PID/stack.
pub(crate) const READS_KERNEL_STACKS: CapabilitySet = CapabilitySet::SYS_ADMIN;

/// Gives up all capabilities but these for good, and all ways to get one back (`no_new_privs`), for this thread and those that it
/// starts from now on.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn keep_only(kept: CapabilitySet) -> Result<(), CollectError> {
    let refused = |e: rustix::io::Errno| CollectError::Kernel(format!("cannot drop privileges: {e}"));
    let has = rustix::thread::capabilities(None).map_err(refused)?;
    let left = CapabilitySets {
        effective: has.effective & kept,
        permitted: has.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, left).map_err(refused)?;
    rustix::thread::set_no_new_privs(true).map_err(refused)
}

/// Gives up all capabilities for good, for this thread and those that it starts from now on: for code that talks to strangers.
///
/// # Errors
/// The kernel refuses.
pub fn give_up_all_privileges() -> Result<(), CollectError> {
    keep_only(CapabilitySet::empty())
}

/// The kernel's type information (BTF).
pub(crate) const TYPE_INFORMATION: &str = "/sys/kernel/btf/vmlinux";

/// Checks that the kernel says where its fields are.
///
/// # Errors
/// It does not.
pub(crate) fn check_type_information() -> Result<(), CollectError> {
    if !Path::new(TYPE_INFORMATION).exists() {
        return Err(CollectError::Kernel(format!(
            "{TYPE_INFORMATION} is missing: dbtime needs a kernel with type information (CONFIG_DEBUG_INFO_BTF=y)"
        )));
    }
    Ok(())
}

/// Checks that pids are those that BPF programs see.
///
/// # Errors
/// This process has a pid namespace of its own.
pub(crate) fn check_pid_namespace() -> Result<(), CollectError> {
    let namespace = Path::new("/proc/self/ns/pid");
    let inode = fs::metadata(namespace)
        .map_err(|e| CollectError::io(namespace, e))?
        .ino();
    if inode != INITIAL_PID_NAMESPACE {
        return Err(CollectError::Kernel(
            "dbtime runs in its own pid namespace and cannot name the host's processes: run it on the host, or in \
             a container that shares the host's pids (--pid=host)"
                .to_string(),
        ));
    }
    Ok(())
}

fn effective_capabilities() -> Result<u64, CollectError> {
    let path = Path::new("/proc/self/status");
    let status = fs::read_to_string(path).map_err(|e| CollectError::io(path, e))?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .ok_or_else(|| CollectError::Kernel("/proc/self/status has no line CapEff".to_string()))
}
