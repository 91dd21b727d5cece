//! Files under the control of a traced process, which dbtime reads with more privileges than the process has: its executable and
//! libraries, their debug files, what its compilers write for profilers, files in its working directory. They are opened here
//! and nowhere else, by these rules:
//!
//! - A name is resolved below the root of the process itself; no link leads out of there (openat2(2), `RESOLVE_IN_ROOT`).
//! - What the name leads to is checked before it is opened: only regular files are. A device is never opened, a FIFO never
//!   waited for.
//! - Contents are read into memory of this process, up to the reader's limit. They are never mapped: truncating a mapped file
//!   kills its reader with SIGBUS. No size that the file states is trusted.
//!
//! A file that breaks a rule, or cannot be read, costs only the information in it.

mod directory;
pub(crate) mod elf;

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags, ResolveFlags};

pub(crate) use self::directory::TargetDirectory;
use crate::process;

/// A regular file, open for reading.
#[derive(Debug)]
pub(crate) struct TargetFile {
    file: File,
    metadata: Metadata,
}

impl TargetFile {
    /// The executable of a process, even if it has been deleted.
    ///
    /// # Errors
    /// The process is gone, or may not be looked at.
    pub(crate) fn executable(pid: u32) -> io::Result<TargetFile> {
        TargetFile::behind(&process::path(pid, "exe"))
    }

    /// What a link of /proc leads to: the kernel resolves it, no name is looked up.
    ///
    /// # Errors
    /// It may not be followed, or does not lead to a regular file.
    pub(crate) fn behind(link: &Path) -> io::Result<TargetFile> {
        let found = rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        TargetFile::of(&found)
    }

    /// A file by its name as the process sees it.
    ///
    /// # Errors
    /// There is none, it is outside of the process's root, or not a regular file.
    pub(crate) fn below_root(pid: u32, name: &Path) -> io::Result<TargetFile> {
        TargetFile::below(&process::path(pid, "root"), name)
    }

    /// A file in the working directory of a process; links are not followed.
    ///
    /// # Errors
    /// There is none, or it is not a regular file.
    pub(crate) fn in_working_directory(pid: u32, name: &str) -> io::Result<TargetFile> {
        let directory = open_directory(&process::path(pid, "cwd"))?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = rustix::fs::openat(&directory, name, flags, Mode::empty())?;
        TargetFile::of(&found)
    }

    /// A file below a directory; no link leads out of that.
    ///
    /// # Errors
    /// As [`TargetFile::below_root`].
    pub(crate) fn below(root: &Path, name: &Path) -> io::Result<TargetFile> {
        let root = open_directory(root)?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let found = match rustix::fs::openat2(&root, name, flags, Mode::empty(), resolve) {
            // Linux before 5.6, or a container that forbids unknown system calls.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => open_without_links(root, name)?,
            other => other?,
        };
        TargetFile::of(&found)
    }

    /// Opens for reading what was only looked up before, if it is a regular file.
    fn of(found: &OwnedFd) -> io::Result<TargetFile> {
        let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(found)?.st_mode);
        if kind != rustix::fs::FileType::RegularFile {
            return Err(io::Error::other("not a regular file"));
        }
        let path = PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()));
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        TargetFile::new(File::from(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// A file that is open already.
    ///
    /// # Errors
    /// It is not a regular file.
    pub(crate) fn new(file: File) -> io::Result<TargetFile> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        Ok(TargetFile { file, metadata })
    }

    /// Its metadata when it was opened.
    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// When it was last written to, up to now.
    ///
    /// # Errors
    /// The kernel does not say.
    pub(crate) fn modified(&self) -> io::Result<SystemTime> {
        self.file.metadata()?.modified()
    }

    /// True when it belongs to one of these users, or to root.
    pub(crate) fn belongs_to(&self, users: &[u32]) -> bool {
        self.metadata.uid() == 0 || users.contains(&self.metadata.uid())
    }

    /// Exactly this many bytes at an offset.
    ///
    /// # Errors
    /// It is shorter, or cannot be read.
    pub(crate) fn read_at(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        // Memory is allocated for what is there, not for what is asked for.
        let there = self.file.metadata()?.len().saturating_sub(offset);
        if (bytes as u64) > there {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(bytes)?;
        buffer.resize(bytes, 0);
        self.file.read_exact_at(&mut buffer, offset)?;
        Ok(buffer)
    }

    /// From an offset on, at most this many bytes.
    pub(crate) fn from(&self, offset: u64, most: u64) -> impl Read + use<'_> {
        From {
            file: &self.file,
            offset,
        }
        .take(most)
    }

    /// Text of a small file: its first 4 KB.
    ///
    /// # Errors
    /// It cannot be read, or is not text.
    pub(crate) fn small_text(&self) -> io::Result<String> {
        let mut text = String::new();
        self.from(0, 4096).read_to_string(&mut text)?;
        Ok(text)
    }
}

impl AsFd for TargetFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

struct From<'f> {
    file: &'f File,
    offset: u64,
}

impl Read for From<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// If the kernel cannot keep links below a root, none is followed: name by name from the root.
fn open_without_links(root: OwnedFd, name: &Path) -> io::Result<OwnedFd> {
    let mut parts = Vec::new();
    for part in name.components() {
        match part {
            Component::Normal(part) => parts.push(part),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(io::Error::other("a name with .. in it"));
            }
        }
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    parts.into_iter().try_fold(root, |directory, part: &OsStr| {
        Ok(rustix::fs::openat(
            &directory,
            part.as_bytes(),
            flags,
            Mode::empty(),
        )?)
    })
}

/// The host's own file of this name.
///
/// # Errors
/// As [`TargetFile::below_root`].
pub(crate) fn of_host(name: &Path) -> io::Result<TargetFile> {
    TargetFile::below(Path::new("/"), name)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A root with a file, and a file next to it that must not be reachable from inside.
    fn root() -> (PathBuf, PathBuf) {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let base = std::env::temp_dir().join(format!("dbtime-root-{}-{number}", std::process::id()));
        fs::create_dir_all(base.join("root/usr/lib")).unwrap();
        fs::write(base.join("root/usr/lib/file"), "inside").unwrap();
        fs::write(base.join("secret"), "outside").unwrap();
        (base.clone(), base.join("root"))
    }

    fn text(root: &Path, name: &str) -> io::Result<String> {
        TargetFile::below(root, Path::new(name))?.small_text()
    }

    #[test]
    fn links_stay_below_the_root() {
        let (base, root) = root();
        symlink("/usr/lib/file", root.join("absolute")).unwrap();
        symlink("usr/lib/../lib/file", root.join("relative")).unwrap();
        symlink("../secret", root.join("up")).unwrap();
        symlink(base.join("secret"), root.join("host")).unwrap();
        symlink("..", root.join("usr/parent")).unwrap();
        symlink("/proc/self/fd", root.join("magic")).unwrap();
        for inside in ["usr/lib/file", "/usr/lib/file", "absolute", "relative"] {
            assert_eq!(text(&root, inside).unwrap(), "inside", "{inside}");
        }
        for outside in [
            "up",
            "host",
            "../secret",
            "usr/parent/../../secret",
            "magic/0",
            "none",
        ] {
            assert!(text(&root, outside).is_err(), "{outside}");
        }
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn without_openat2_no_link_is_followed() {
        let (base, root) = root();
        symlink("usr/lib/file", root.join("link")).unwrap();
        symlink("usr", root.join("folder")).unwrap();
        let open = |name: &str| {
            let found = open_without_links(open_directory(&root)?, Path::new(name))?;
            TargetFile::of(&found)?.small_text()
        };
        assert_eq!(open("/usr/lib/file").unwrap(), "inside");
        for bad in ["link", "folder/lib/file", "usr/../usr/lib/file"] {
            assert!(open(bad).is_err(), "{bad}");
        }
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn only_regular_files_are_opened() {
        let (base, root) = root();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("fifo"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR,
            0,
        )
        .unwrap();
        let _listener = UnixListener::bind(root.join("socket")).unwrap();
        for other in ["fifo", "socket", "usr"] {
            assert!(text(&root, other).is_err(), "{other}");
        }
        for device in ["dev/null", "dev/zero", "dev/tty"] {
            assert!(of_host(Path::new(device)).is_err(), "{device}");
        }
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn no_size_is_believed() {
        let (base, root) = root();
        let path = root.join("sparse");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let file = TargetFile::below(&root, Path::new("sparse")).unwrap();
        assert_eq!(file.small_text().unwrap().len(), 4096);
        assert_eq!(file.read_at(1 << 39, 16).unwrap(), vec![0; 16]);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(8)
            .unwrap();
        let error = file.read_at(0, 1 << 30).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        fs::remove_dir_all(base).unwrap();
    }
}
