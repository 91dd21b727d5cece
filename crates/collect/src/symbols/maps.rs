//! The memory map of a process, as /proc/PID/maps gives it.

use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::process;
use crate::target_file::TargetFile;

/// Name of the code that the kernel maps into every process.
const VDSO: &str = "[vdso]";
/// Maximum bytes read of a map: 65,530 mappings, as many as a process may have, with names of ordinary length.
const MAX_MAPS: u64 = 32 << 20;
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
    /// True when other processes see what is written there.
    pub(crate) shared: bool,
    /// Device of the file, `major << 32 | minor`.
    device: u64,
    /// Inode of the file; 0 = no file.
    pub(crate) inode: u64,
    /// Path, or a name such as `[vdso]`.
    pub(crate) name: String,
}

impl Mapping {
    /// True if it maps this file. Only the inode is compared: some file systems report another device in maps than in
    /// stat.
    pub(crate) fn is_file(&self, file: &Metadata) -> bool {
        self.inode != 0 && self.inode == file.ino()
    }

    /// True when it maps code that comes from a module: a file, or the kernel's own.
    pub(crate) fn is_module(&self) -> bool {
        self.executable && (self.inode != 0 || self.name == VDSO)
    }

    /// Name of the file without its directory.
    pub(crate) fn file_name(&self) -> String {
        let name = self.name.strip_suffix(" (deleted)").unwrap_or(&self.name);
        let name = Path::new(name).file_name();
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Opens the module, even if its file is deleted; of the kernel's own module a copy.
    ///
    /// # Errors
    /// It is not a regular file; or it is deleted, or outside of the process's root, and this process may not follow
    /// /proc/PID/map_files (that needs CAP_CHECKPOINT_RESTORE).
    pub(crate) fn open(&self, pid: u32) -> io::Result<TargetFile> {
        if self.inode == 0 {
            return TargetFile::new(self.copy_of_vdso(pid)?);
        }
        match TargetFile::behind(&self.link(pid)) {
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => self.open_by_name(pid),
            other => other,
        }
    }

    /// By the name that the kernel reports, if that still leads to the mapped file.
    fn open_by_name(&self, pid: u32) -> io::Result<TargetFile> {
        let file = TargetFile::below_root(pid, Path::new(&self.name))?;
        if !self.is_file(file.metadata()) {
            return Err(io::Error::other("another file has its name now"));
        }
        Ok(file)
    }

    fn copy_of_vdso(&self, pid: u32) -> io::Result<File> {
        let size = self.end - self.start;
        if self.name != VDSO || size > MAX_VDSO {
            return Err(io::Error::other("not the vDSO"));
        }
        let mut code = vec![0; size as usize];
        File::open(process::path(pid, "mem"))?.read_exact_at(&mut code, self.start)?;
        let copy = rustix::fs::memfd_create("vdso", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut copy = File::from(copy);
        copy.write_all(&code)?;
        Ok(copy)
    }

    /// Identity of the mapped file on this host.
    pub(crate) fn file(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Link in /proc that opens the mapped file itself, even if it is deleted or in another mount namespace.
    pub(super) fn link(&self, pid: u32) -> PathBuf {
        process::path(pid, &format!("map_files/{:x}-{:x}", self.start, self.end))
    }
}

/// Reads the mappings of a process, by address.
///
/// # Errors
/// The process is gone, or may not be looked at.
pub(crate) fn read(pid: u32) -> io::Result<Vec<Mapping>> {
    let mut bytes = Vec::new();
    let maps = File::open(process::path(pid, "maps"))?;
    maps.take(MAX_MAPS).read_to_end(&mut bytes)?;
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
        shared: permissions.as_bytes().get(3) == Some(&b's'),
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
        let exe = std::fs::metadata("/proc/self/exe").unwrap();
        let maps = read(std::process::id()).unwrap();
        assert!(maps.iter().any(|m| m.is_file(&exe) && m.executable));
    }
}
