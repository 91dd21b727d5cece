//! Executables, libraries and kernel modules: what frames belong to.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSegment, ReadCache};

use super::maps::Mapping;
use crate::process;

/// An executable or library that is mapped by a recorded process. It is kept open, so that its symbols can be read
/// after the process has ended or the file was replaced by an upgrade.
#[derive(Debug)]
pub(super) struct Module {
    /// File name without its directory.
    pub(super) name: String,
    /// In hex; empty when the file has none.
    pub(super) build_id: String,
    file: Option<File>,
    debug: Option<DebugFile>,
}

/// What a distribution installs beside a stripped file: its symbols and debug information, at the same virtual addresses.
#[derive(Debug)]
struct DebugFile {
    file: File,
    /// Where the segments of the stripped file lie: offset, size, virtual address. The debug file has none of its own.
    segments: Vec<(u64, u64, u64)>,
}

/// Where debug files lie that are named by build id (GDB manual, "Separate Debug Files").
const DEBUG_FILES: &str = "usr/lib/debug/.build-id";

impl Module {
    pub(super) fn open(mapping: &Mapping, pid: u32) -> Module {
        let name = mapping.name.strip_suffix(" (deleted)").unwrap_or(&mapping.name);
        let name = Path::new(name)
            .file_name()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let file = mapping.open(pid);
        let build_id = file.as_ref().and_then(build_id).unwrap_or_default();
        let debug = file.as_ref().and_then(|file| DebugFile::of(file, &build_id, pid));
        Module {
            name,
            build_id,
            file,
            debug,
        }
    }

    /// Path under which the symbolizer can open the file for as long as this value lives.
    pub(super) fn symbol_path(&self) -> Option<PathBuf> {
        let file = self.file.as_ref()?;
        Some(own_path(file))
    }

    /// The same of its debug file, with the virtual address at which an offset in the module lies there; none when no debug
    /// file is installed.
    pub(super) fn debug_path(&self, offset: u64) -> Option<(PathBuf, u64)> {
        let debug = self.debug.as_ref()?;
        let address = debug.segments.iter().find_map(|(begin, size, address)| {
            let inside = offset.checked_sub(*begin).filter(|inside| inside < size)?;
            address.checked_add(inside)
        })?;
        Some((own_path(&debug.file), address))
    }
}

impl DebugFile {
    /// The debug file of a file: where the process itself would find it, else the host's.
    fn of(file: &File, id: &str, pid: u32) -> Option<DebugFile> {
        let (folder, rest) = id.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
        let name = format!("{DEBUG_FILES}/{folder}/{rest}.debug");
        let debug = [
            process::path(pid, &format!("root/{name}")),
            Path::new("/").join(&name),
        ]
        .into_iter()
        .filter_map(|path| open_without_waiting(&path))
        .find(|debug| {
            debug.metadata().is_ok_and(|about| about.is_file()) && build_id(debug).as_deref() == Some(id)
        })?;
        let data = ReadCache::new(file);
        let file = object::File::parse(&data).ok()?;
        let segments = file.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            (offset, size, segment.address())
        });
        Some(DebugFile {
            segments: segments.collect(),
            file: debug,
        })
    }
}

/// Opens a file that others may have put there: a pipe would make its reader wait.
fn open_without_waiting(path: &Path) -> Option<File> {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()
}

/// A path under which an open file can be opened anew.
fn own_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn build_id(file: &File) -> Option<String> {
    // Only the parts that are needed are read: a library may have hundreds of megabytes.
    let data = ReadCache::new(file);
    let file = object::File::parse(&data).ok()?;
    let id = file.build_id().ok()??;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Address ranges of the loaded kernel modules.
#[derive(Debug)]
pub(super) struct KernelModules {
    /// (start, end, name), by start.
    ranges: Vec<(u64, u64, String)>,
}

impl KernelModules {
    /// Name for what belongs to no module.
    const CORE: &'static str = "[kernel]";

    pub(super) fn read() -> KernelModules {
        KernelModules::parse(&fs::read_to_string("/proc/modules").unwrap_or_default())
    }

    /// True when /proc/kallsyms shows no addresses to this process.
    pub(super) fn addresses_are_hidden(&self) -> bool {
        // The first symbols are offsets into per-CPU data and zero for everybody.
        let mut text = String::new();
        let read = File::open("/proc/kallsyms").and_then(|file| file.take(1 << 20).read_to_string(&mut text));
        read.is_err() || !text.lines().any(|line| line.starts_with("ffff"))
    }

    /// `name size uses users state address`; the address is 0 for those who may not see it.
    fn parse(text: &str) -> KernelModules {
        let mut ranges: Vec<_> = text
            .lines()
            .filter_map(|line| {
                let mut fields = line.split(' ');
                let name = fields.next()?;
                let size: u64 = fields.next()?.parse().ok()?;
                let start = u64::from_str_radix(fields.nth(3)?.strip_prefix("0x")?, 16).ok()?;
                (start != 0).then(|| (start, start.saturating_add(size), name.to_string()))
            })
            .collect();
        ranges.sort();
        KernelModules { ranges }
    }

    pub(super) fn name(&self, address: u64) -> &str {
        let after = self.ranges.partition_point(|(start, ..)| *start <= address);
        match self.ranges[..after].last() {
            Some((_, end, name)) if address < *end => name,
            _ => KernelModules::CORE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_module_whose_range_holds_it() {
        let modules = KernelModules::parse(
            "xfs 1000 1 - Live 0xffffffffc0200000\next4 4096 2 mbcache,jbd2, Live 0xffffffffc0100000 (E)\nbroken line\n",
        );
        assert_eq!(modules.name(0xffff_ffff_c010_0000), "ext4");
        assert_eq!(modules.name(0xffff_ffff_c010_0fff), "ext4");
        assert_eq!(modules.name(0xffff_ffff_c010_1000), "[kernel]");
        assert_eq!(modules.name(0xffff_ffff_c020_03e7), "xfs");
        assert_eq!(modules.name(0), "[kernel]");
    }

    #[test]
    fn without_the_right_to_see_addresses_all_is_kernel() {
        let modules = KernelModules::parse("xfs 1000 1 - Live 0x0000000000000000\n");
        assert_eq!(modules.name(10), "[kernel]");
    }
}
