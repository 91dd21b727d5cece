//! The account that server and client programs run as, and making sure that they do not outlive their owner.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// An account of the system that is not root.
#[derive(Debug, Clone)]
pub(super) struct Account {
    /// Login name.
    pub(super) name: String,
    uid: libc::uid_t,
    gid: libc::gid_t,
}

impl Account {
    /// PostgreSQL refuses to run as root: root runs it as `postgres`, or as `nobody` if there is no such user. Anyone
    /// else runs it under their own account (`None`).
    pub(super) fn for_server() -> Result<Option<Account>> {
        // SAFETY: geteuid reads the caller's credentials and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return Ok(None);
        }
        match Account::lookup("postgres")?.or(Account::lookup("nobody")?) {
            Some(account) => Ok(Some(account)),
            None => {
                bail!("PostgreSQL cannot run as root, and there is neither a user 'postgres' nor 'nobody'")
            }
        }
    }

    fn lookup(name: &str) -> Result<Option<Account>> {
        let c_name = CString::new(name)?;
        let mut buffer = vec![0u8; 16 * 1024];
        // SAFETY: all-zero bytes are a valid `passwd` (null pointers and zero numbers).
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found: *mut libc::passwd = std::ptr::null_mut();
        // SAFETY: every pointer is to memory that is alive and of the length given.
        let code = unsafe {
            libc::getpwnam_r(
                c_name.as_ptr(),
                &mut entry,
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &mut found,
            )
        };
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code))
                .with_context(|| format!("cannot look up the user {name}"));
        }
        if found.is_null() || entry.pw_uid == 0 {
            return Ok(None);
        }
        // SAFETY: the call succeeded, so pw_name points to a terminated string inside `buffer`.
        let name = unsafe { CStr::from_ptr(entry.pw_name) };
        Ok(Some(Account {
            name: name.to_string_lossy().into_owned(),
            uid: entry.pw_uid,
            gid: entry.pw_gid,
        }))
    }
}

/// Makes the account the owner of `path`.
pub(super) fn give(account: Option<&Account>, path: &Path) -> Result<()> {
    if let Some(account) = account {
        chown(path, Some(account.uid), Some(account.gid))
            .with_context(|| format!("cannot give {} to user {}", path.display(), account.name))?;
    }
    Ok(())
}

/// Makes `command` run as the account, in its own process group (Ctrl-C is for its owner to handle), in a neutral
/// environment, and get `death_signal` when the calling thread ends.
pub(super) fn prepare(command: &mut Command, account: Option<&Account>, death_signal: libc::c_int) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C").env("TZ", "UTC").process_group(0);
    if let Some(account) = account {
        // With a uid set, the standard library also drops all supplementary groups.
        command.gid(account.gid).uid(account.uid);
    }
    // SAFETY: getpid reads and cannot fail.
    let owner = unsafe { libc::getpid() };
    // SAFETY: between fork and exec the closure only calls prctl and getppid, both async-signal-safe. It runs
    // after the change of user, which would clear the setting.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, death_signal as libc::c_ulong) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The owner may have died before the setting was made.
            if libc::getppid() != owner {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}
