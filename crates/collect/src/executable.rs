//! The executable of a process: where its symbols are, in the file and in memory.

use std::io;
use std::path::PathBuf;

use object::read::elf::{ElfFile64, ProgramHeader, Sym};
use object::{Endianness, Object, ObjectSection};

use crate::process;
use crate::target_file::{TargetFile, elf};

/// Maximum bytes of the symbol tables of an executable: Oracle's, the largest known, has 40 MB.
const MAX_SYMBOLS: usize = 256 << 20;

/// Where a symbol is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// Address in the memory of the process.
    pub(crate) address: u64,
    /// Offset in the file.
    pub(crate) offset: u64,
    /// Bytes; 0 = not known.
    pub(crate) size: u64,
}

/// The executable of a process: the file, and its headers and symbols in memory.
pub(crate) struct Executable {
    pid: u32,
    file: TargetFile,
    headers: Vec<u8>,
}

impl Executable {
    /// The executable of a process, even if the file has been deleted.
    ///
    /// # Errors
    /// It cannot be opened, or is not an ELF file for this machine.
    pub(crate) fn of(pid: u32) -> io::Result<Executable> {
        let file = TargetFile::executable(pid)?;
        let is_symbols = |name: &[u8]| matches!(name, b".symtab" | b".strtab" | b".dynsym" | b".dynstr");
        let headers = elf::read(&file, is_symbols, MAX_SYMBOLS)?;
        Ok(Executable { pid, file, headers })
    }

    /// The symbols with these names; None for one that does not exist.
    ///
    /// # Errors
    /// It is not an ELF file for this machine, or is not mapped.
    pub(crate) fn symbols<const N: usize>(&self, names: [&str; N]) -> io::Result<[Option<Symbol>; N]> {
        let elf = ElfFile64::<Endianness>::parse(&*self.headers).map_err(io::Error::other)?;
        let (endian, headers) = (elf.endian(), elf.elf_program_headers());
        let mut seen: [Option<(u64, u64)>; N] = [None; N];
        for (table, names_section) in [
            (elf.elf_dynamic_symbol_table(), ".dynstr"),
            (elf.elf_symbol_table(), ".strtab"),
        ] {
            let strings = elf.section_by_name(names_section);
            let strings = strings
                .and_then(|section| section.data().ok())
                .unwrap_or_default();
            for symbol in table.iter() {
                // Names are compared in place: the end of one without a terminator would be searched for again and again.
                let text = strings.get(symbol.st_name(endian) as usize..).unwrap_or_default();
                let is_name = |name: &str| {
                    let rest = text.strip_prefix(name.as_bytes());
                    rest.is_some_and(|rest| rest.first() == Some(&0))
                };
                if let Some(n) = names.iter().position(|name| is_name(name))
                    && seen[n].is_none()
                    && symbol.st_shndx(endian) != object::elf::SHN_UNDEF
                {
                    seen[n] = Some((symbol.st_value(endian), symbol.st_size(endian)));
                }
            }
        }
        if seen.iter().all(Option::is_none) {
            return Ok([None; N]);
        }
        let bias = self.load_bias(&elf)?;
        Ok(seen.map(|symbol| {
            let (address, size) = symbol?;
            let header = headers.iter().find(|header| {
                let begin = header.p_vaddr(endian);
                let end = begin.saturating_add(header.p_memsz(endian));
                header.p_type(endian) == object::elf::PT_LOAD && (begin..end).contains(&address)
            })?;
            Some(Symbol {
                address: address.wrapping_add(bias),
                offset: (address - header.p_vaddr(endian)).wrapping_add(header.p_offset(endian)),
                size,
            })
        }))
    }

    /// Where its data is in the memory of the process, including .bss: start and length in bytes.
    ///
    /// # Errors
    /// It is not an ELF file for this machine, is not mapped, or has no data.
    pub(crate) fn data(&self) -> io::Result<(u64, u64)> {
        let elf = ElfFile64::<Endianness>::parse(&*self.headers).map_err(io::Error::other)?;
        let (endian, bias) = (elf.endian(), self.load_bias(&elf)?);
        let header = elf.elf_program_headers().iter().find(|header| {
            header.p_type(endian) == object::elf::PT_LOAD
                && (header.p_flags(endian) & object::elf::PF_W).0 != 0
        });
        let header = header.ok_or_else(|| io::Error::other("it has no data"))?;
        // Numbers are aligned.
        let begin = header.p_vaddr(endian).saturating_add(3) & !3;
        let end = header.p_vaddr(endian).saturating_add(header.p_memsz(endian));
        Ok((begin.wrapping_add(bias), end.saturating_sub(begin)))
    }

    /// Bytes of the file.
    ///
    /// # Errors
    /// It is shorter than that.
    pub(crate) fn bytes(&self, offset: u64, count: usize) -> io::Result<Vec<u8>> {
        self.file.read_at(offset, count)
    }

    /// The file itself.
    pub(crate) fn file(&self) -> &TargetFile {
        &self.file
    }

    /// Difference between the addresses in memory and in the file.
    fn load_bias(&self, elf: &ElfFile64<'_>) -> io::Result<u64> {
        const PAGE: u64 = 4096;
        let maps = crate::symbols::maps::read(self.pid)?;
        let endian = elf.endian();
        for mapping in &maps {
            if !mapping.is_file(self.file.metadata()) {
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
}

/// Where the executable of a process can be opened.
pub(crate) fn path(pid: u32) -> PathBuf {
    process::path(pid, "exe")
}
