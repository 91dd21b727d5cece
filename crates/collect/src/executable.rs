//! The executable of a process: where its symbols lie, in the file and in memory.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, ReadCache, ReadRef};

use crate::process;

/// Where a symbol lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// Address in the memory of the process.
    pub(crate) address: u64,
    /// Place in the file.
    pub(crate) offset: u64,
    /// Bytes; 0 = not known.
    pub(crate) size: u64,
}

/// An executable, of which only the parts that are asked for are read.
pub(crate) struct Executable {
    pid: u32,
    cache: ReadCache<File>,
}

impl Executable {
    /// Of a process, also when the file has been deleted.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn of(pid: u32) -> io::Result<Executable> {
        let cache = ReadCache::new(File::open(path(pid))?);
        Ok(Executable { pid, cache })
    }

    /// The symbols of these names; none for one that is not there.
    ///
    /// # Errors
    /// It is no ELF file of this machine, or is not mapped.
    pub(crate) fn symbols<const N: usize>(&self, names: [&str; N]) -> io::Result<[Option<Symbol>; N]> {
        let elf = ElfFile64::<Endianness, _>::parse(&self.cache).map_err(io::Error::other)?;
        let bias = load_bias(self.pid, &elf)?;
        let mut found = [None; N];
        for symbol in elf.dynamic_symbols().chain(elf.symbols()) {
            let Ok(name) = symbol.name() else { continue };
            let wanted = names.iter().position(|wanted| *wanted == name);
            if let Some(n) = wanted
                && found[n].is_none()
                && symbol.is_definition()
            {
                let address = symbol.address();
                let header = elf.elf_program_headers().iter().find(|header| {
                    let begin = header.p_vaddr(elf.endian());
                    header.p_type(elf.endian()) == object::elf::PT_LOAD
                        && (begin..begin + header.p_memsz(elf.endian())).contains(&address)
                });
                found[n] = header.map(|header| Symbol {
                    address: address.wrapping_add(bias),
                    offset: address - header.p_vaddr(elf.endian()) + header.p_offset(elf.endian()),
                    size: symbol.size(),
                });
            }
        }
        Ok(found)
    }

    /// Bytes of the file.
    ///
    /// # Errors
    /// It has no such place.
    pub(crate) fn bytes(&self, offset: u64, count: u64) -> io::Result<Vec<u8>> {
        let bytes = (&self.cache).read_bytes_at(offset, count);
        bytes
            .map(<[u8]>::to_vec)
            .map_err(|()| io::ErrorKind::UnexpectedEof.into())
    }
}

/// Where the executable of a process can be opened.
pub(crate) fn path(pid: u32) -> PathBuf {
    process::path(pid, "exe")
}

/// Difference between the addresses in memory and in the file.
///
/// # Errors
/// Its mapping is not found.
pub(crate) fn load_bias<'data, R: ReadRef<'data>>(
    pid: u32,
    elf: &ElfFile64<'data, Endianness, R>,
) -> io::Result<u64> {
    const PAGE: u64 = 4096;
    let maps = crate::symbols::maps::read(pid)?;
    let exe = fs::metadata(path(pid))?;
    let endian = elf.endian();
    for mapping in &maps {
        if !mapping.is_file(&exe) {
            continue;
        }
        for header in elf.elf_program_headers() {
            let (offset, address) = (header.p_offset(endian), header.p_vaddr(endian));
            if header.p_type(endian) == object::elf::PT_LOAD && offset / PAGE * PAGE == mapping.offset {
                return Ok(mapping.start.wrapping_sub(address / PAGE * PAGE));
            }
        }
    }
    Err(io::Error::other("its mapping in memory was not found"))
}
