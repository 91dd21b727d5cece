//! The memory map of a process, as /proc/PID/maps gives it.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::fd::FromRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use crate::process;

/// Name of the code that the kernel maps into every process.
const VDSO: &str = "[vdso]";
/// It has a page or two.
const MAX_VDSO: u64 = 1 << 20;

/// One mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// First address.
    pub(crate) start: u64,
    /// First address after it.
    pub(crate) end: u64,
    /// Offset of `start` in the file.
    pub(crate) offset: u64,
    /// True when code can be executed from it.
    pub(crate) executable: bool,
    /// Device of the file, `major << 32 | minor`.
    device: u64,
    /// Inode of the file; 0 = no file.
    pub(crate) inode: u64,
    /// Path, or a name such as `[vdso]`.
    pub(crate) name: String,
}

impl Mapping {
    /// True when it maps this file. Some file systems report another device in maps than in stat: the inode and the
    /// device must not both differ.
    pub(crate) fn is_file(&self, file: &Metadata) -> bool {
        self.inode != 0 && self.inode == file.ino()
    }

    /// True when it maps code that comes from a module: a file, or the kernel's own.
    pub(crate) fn is_module(&self) -> bool {
        self.executable && (self.inode != 0 || self.name == VDSO)
    }

    /// Opens the module, also when its file is deleted; of the kernel's own module a copy.
    pub(crate) fn open(&self, pid: u32) -> Option<File> {
        if self.inode == 0 {
            return self.copy_of_vdso(pid).ok();
        }
        // A device or a FIFO under this path would block or answer for ever: only plain files are opened.
        let link = self.link(pid);
        let is_file = fs::metadata(&link).is_ok_and(|m| m.is_file());
        is_file.then(|| File::open(&link).ok())?
    }

    fn copy_of_vdso(&self, pid: u32) -> io::Result<File> {
        let size = self.end - self.start;
        if self.name != VDSO || size > MAX_VDSO {
            return Err(io::Error::other("not the vDSO"));
        }
        let mut code = vec![0; size as usize];
        File::open(process::path(pid, "mem"))?.read_exact_at(&mut code, self.start)?;
        // SAFETY: the name is a C string; the descriptor that is returned is ours.
        let fd = unsafe { libc::memfd_create(c"vdso".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us.
        let mut copy = unsafe { File::from_raw_fd(fd) };
        copy.write_all(&code)?;
        Ok(copy)
    }

    /// Identity of the mapped file on this host.
    pub(crate) fn file(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Link in /proc that opens the mapped file itself, also when it is deleted or in another mount namespace.
    pub(super) fn link(&self, pid: u32) -> PathBuf {
        process::path(pid, &format!("map_files/{:x}-{:x}", self.start, self.end))
    }
}

/// Reads the mappings of a process, by address.
///
/// # Errors
/// The process is gone, or may not be looked at.
pub(crate) fn read(pid: u32) -> io::Result<Vec<Mapping>> {
    let bytes = fs::read(process::path(pid, "maps"))?;
    Ok(String::from_utf8_lossy(&bytes)
        .lines()
        .filter_map(parse)
        .collect())
}

/// `start-end perms offset major:minor inode      name`; the name may contain spaces.
fn parse(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let offset = fields.next()?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let inode = fields.next()?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset: hex(offset)?,
        executable: permissions.as_bytes().get(2) == Some(&b'x'),
        device: hex(major)? << 32 | hex(minor)?,
        inode: inode.parse().ok()?,
        name: fields.next().unwrap_or_default().trim_start().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps() {
        let line = "7f12a0000000-7f12a0021000 r-xp 00002000 fe:10 1234                       /a dir/lib x.so (deleted)";
        let mapping = parse(line).unwrap();
        assert_eq!(
            (mapping.start, mapping.end, mapping.offset),
            (0x7f12a0000000, 0x7f12a0021000, 0x2000)
        );
        assert!(mapping.executable);
        assert_eq!(mapping.file(), (0xfe << 32 | 0x10, 1234));
        assert_eq!(mapping.name, "/a dir/lib x.so (deleted)");
        assert_eq!(
            parse("7ffd0000-7ffe0000 rw-p 00000000 00:00 0 ").unwrap().name,
            ""
        );
        assert_eq!(parse("garbage"), None);
    }

    #[test]
    fn this_process_has_its_executable_mapped() {
        let exe = fs::metadata("/proc/self/exe").unwrap();
        let maps = read(std::process::id()).unwrap();
        assert!(maps.iter().any(|m| m.is_file(&exe) && m.executable));
    }
}
