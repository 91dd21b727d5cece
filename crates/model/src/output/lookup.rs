//! From a path to an open directory, without following links that belong to somebody else.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, readlinkat};
use rustix::io::Errno;

use super::caller_of_sudo;

/// As many as the kernel follows (`MAXSYMLINKS`).
const MOST_LINKS: usize = 40;

/// A directory that is passed through: searching it is enough, reading it is not needed.
const PASSED: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// What to do about directories that do not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// They are an error.
    Refuse,
    /// They are made, for all to read.
    Make,
}

/// Opens a directory step by step. A link on the way is followed only if it can be meant for the user who runs
/// this: see [`is_trusted`].
pub(super) fn directory(path: &Path, missing: Missing) -> io::Result<OwnedFd> {
    let mut at = start(path)?;
    // The next step comes last.
    let mut left = steps(path);
    let mut links = 0;
    while let Some(name) = left.pop() {
        match openat(&at, &name, PASSED, Mode::empty()) {
            Ok(next) => at = next,
            Err(Errno::NOENT) if missing == Missing::Make => {
                // If somebody else makes it at the same time, that is as good.
                match mkdirat(&at, &name, Mode::from_raw_mode(0o755)) {
                    Err(Errno::EXIST) | Ok(()) => {}
                    Err(e) => return Err(e.into()),
                }
                at = openat(&at, &name, PASSED, Mode::empty())?;
            }
            // Which error a link causes here depends on the kernel.
            Err(e @ (Errno::NOTDIR | Errno::LOOP)) => {
                let link = openat(
                    &at,
                    &name,
                    OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                    Mode::empty(),
                )?;
                let stat = fstat(&link)?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                    return Err(e.into());
                }
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::LOOP.into());
                }
                if !is_trusted(&stat, &fstat(&at)?) {
                    return Err(io::Error::new(
                        io::ErrorKind::PermissionDenied,
                        format!(
                            "'{}' in its path is a symbolic link of another user (uid {}), which is not followed: name its target",
                            name.to_string_lossy().escape_debug(),
                            stat.st_uid
                        ),
                    ));
                }
                let target = readlinkat(&link, "", Vec::new())?;
                let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                if target.is_absolute() {
                    at = start(target)?;
                }
                left.extend(steps(target));
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(at)
}

/// Where a path begins.
fn start(path: &Path) -> io::Result<OwnedFd> {
    let begin = if path.is_absolute() { "/" } else { "." };
    Ok(openat(CWD, begin, PASSED, Mode::empty())?)
}

/// The steps of a path, the first one last.
fn steps(path: &Path) -> Vec<OsString> {
    let mut steps: Vec<OsString> = path
        .components()
        .filter(|component| matches!(component, Component::Normal(_) | Component::ParentDir))
        .map(|component| component.as_os_str().to_owned())
        .collect();
    steps.reverse();
    steps
}

/// Whether a link is root's or of the user who runs this, in a directory where nobody else can have put it.
fn is_trusted(link: &Stat, directory: &Stat) -> bool {
    let others_write = Mode::from_raw_mode(directory.st_mode).contains(Mode::WOTH);
    let is_sticky = Mode::from_raw_mode(directory.st_mode).contains(Mode::SVTX);
    is_ours(link.st_uid) && is_ours(directory.st_uid) && (!others_write || is_sticky)
}

/// Root, the user who runs this, and the one who called sudo.
fn is_ours(uid: u32) -> bool {
    let own = rustix::process::geteuid().as_raw();
    uid == 0 || uid == own || caller_of_sudo().is_some_and(|caller| caller.uid == uid)
}

/// Opens an open directory again, to read its names or to sync it.
pub(super) fn readable(directory: impl AsFd) -> io::Result<OwnedFd> {
    Ok(openat(
        directory,
        ".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}
