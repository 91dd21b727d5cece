//! What the recorder must be allowed to do, checked before anything is touched, so that the error can name it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::CollectError;

/// A capability, its bit in `CapEff` (`linux/capability.h`), and whether `CAP_SYS_ADMIN`, bit 21, stands for it.
type Capability = (&'static str, u32, bool);

/// To load programs into the kernel.
const PROGRAMS: [Capability; 2] = [("CAP_BPF", 39, true), ("CAP_PERFMON", 38, true)];
/// To read other processes, besides.
const PROCESSES: [Capability; 2] = [("CAP_SYS_PTRACE", 19, false), ("CAP_DAC_READ_SEARCH", 2, false)];
/// To write the files of tracefs, which are root's.
const TRACE_FILES: Capability = ("CAP_DAC_OVERRIDE", 1, false);
const SYS_ADMIN: u32 = 21;
/// Inode of the initial pid namespace (`PROC_PID_INIT_INO` in `linux/proc_ns.h`).
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Checks what recording sessions needs: capabilities, kernel type information and pid namespace.
///
/// # Errors
/// Names what is missing.
pub(crate) fn check() -> Result<(), CollectError> {
    check_capabilities(&[PROGRAMS, PROCESSES].concat())?;
    check_type_information()?;
    check_pid_namespace()
}

/// Checks what reading other processes needs without any program in the kernel.
///
/// # Errors
/// Names what is missing.
pub(crate) fn check_processes() -> Result<(), CollectError> {
    check_capabilities(&PROCESSES)
}

/// Checks what programs in the kernel need that look at no process.
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

fn check_type_information() -> Result<(), CollectError> {
    let btf = Path::new("/sys/kernel/btf/vmlinux");
    if !btf.exists() {
        return Err(CollectError::Kernel(format!(
            "{} is missing: dbtime needs a kernel with type information (CONFIG_DEBUG_INFO_BTF=y)",
            btf.display()
        )));
    }
    Ok(())
}

/// Checks that pids are those that the kernel's programs see.
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
            "dbtime runs in a pid namespace of its own and cannot name the host's processes: run it on the host, or in \
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
