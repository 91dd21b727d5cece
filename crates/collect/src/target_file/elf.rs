//! An ELF file of a traced process, read in part into memory of our own.
//!
//! The result is an ELF file again, which `object` reads like any other: headers, program headers and section headers, and the
//! contents of the sections that were asked for, decompressed. All others read as sections without contents. Its parts are at other
//! offsets than in the file; the offsets in program headers are the file's.

use std::io::{self, Read};

use super::TargetFile;

/// Maximum number of program headers, of section headers, and bytes of the sections' names.
const MAX_SEGMENTS: usize = 4_096;
const MAX_SECTIONS: usize = 65_536;
const MAX_NAMES: usize = 4 << 20;
/// Maximum bytes of all notes, among them the build id.
const MAX_NOTES: usize = 256 << 10;

const HEADER: usize = 64;
const SEGMENT: usize = 56;
const SECTION: usize = 64;

const SHT_NULL: u32 = 0;
const SHT_NOTE: u32 = 7;
const SHT_NOBITS: u32 = 8;
const SHF_COMPRESSED: u64 = 1 << 11;
const ELFCOMPRESS_ZLIB: u32 = 1;

/// Reads the sections of these names, as long as together they have no more than `most` bytes.
///
/// # Errors
/// It is not a 64-bit little-endian ELF file, is shorter than it says, or has more of these sections than fits.
pub(crate) fn read(file: &TargetFile, wanted: impl Fn(&[u8]) -> bool, most: usize) -> io::Result<Vec<u8>> {
    let header = file.read_at(0, HEADER)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Err(bad("not a 64-bit little-endian ELF file"));
    }
    let segments = table(
        file,
        u64_at(&header, 32),
        usize::from(u16_at(&header, 56)),
        u16_at(&header, 54),
        SEGMENT,
        MAX_SEGMENTS,
    )?;
    let at = u64_at(&header, 40);
    let (mut count, mut names_index) = (usize::from(u16_at(&header, 60)), usize::from(u16_at(&header, 62)));
    if at != 0 && (count == 0 || names_index == 0xffff) {
        // More than fit into 16 bits: the first section header says how many.
        let first = file.read_at(at, SECTION)?;
        if count == 0 {
            count = usize::try_from(u64_at(&first, 32)).map_err(io::Error::other)?;
        }
        if names_index == 0xffff {
            names_index = u32_at(&first, 40) as usize;
        }
    }
    let mut sections = match at {
        0 => Vec::new(),
        _ => table(file, at, count, u16_at(&header, 58), SECTION, MAX_SECTIONS)?,
    };
    let names = match sections.chunks_exact(SECTION).nth(names_index) {
        Some(section) => contents(file, section, MAX_NAMES)?,
        None => Vec::new(),
    };

    let mut image = header;
    image.extend(&segments);
    let (mut left, mut left_for_notes) = (most, MAX_NOTES);
    for (index, section) in sections.chunks_exact_mut(SECTION).enumerate() {
        let kind = u32_at(section, 4);
        let bytes = if index == names_index {
            Some(names.clone())
        } else if kind == SHT_NULL || kind == SHT_NOBITS {
            None
        } else if wanted(name(&names, u32_at(section, 0))) {
            let bytes = contents(file, section, left)?;
            left -= bytes.len();
            Some(bytes)
        } else if kind == SHT_NOTE {
            let bytes = contents(file, section, left_for_notes).ok();
            left_for_notes -= bytes.as_ref().map_or(0, Vec::len);
            bytes
        } else {
            None
        };
        match bytes {
            Some(bytes) => {
                image.resize(image.len().next_multiple_of(16), 0);
                put_u64(section, 8, u64_at(section, 8) & !SHF_COMPRESSED);
                put_u64(section, 24, image.len() as u64);
                put_u64(section, 32, bytes.len() as u64);
                image.extend(bytes);
            }
            None if kind != SHT_NULL => put_u32(section, 4, SHT_NOBITS),
            None => {}
        }
    }
    image.resize(image.len().next_multiple_of(16), 0);
    let at = if sections.is_empty() {
        0
    } else {
        image.len() as u64
    };
    put_u64(&mut image, 40, at);
    put_u64(&mut image, 32, HEADER as u64);
    image.extend(sections);
    Ok(image)
}

/// A table of headers.
fn table(
    file: &TargetFile,
    at: u64,
    count: usize,
    size: u16,
    expected: usize,
    most: usize,
) -> io::Result<Vec<u8>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if usize::from(size) != expected || count > most {
        return Err(bad("headers that no linker writes"));
    }
    file.read_at(at, count * expected)
}

/// What a section contains, decompressed, if that is no more than `most` bytes.
fn contents(file: &TargetFile, section: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let too_large = || bad("a section that is too large to read");
    let size = usize::try_from(u64_at(section, 32)).map_err(io::Error::other)?;
    if size > most {
        return Err(too_large());
    }
    let bytes = file.read_at(u64_at(section, 24), size)?;
    if u64_at(section, 8) & SHF_COMPRESSED == 0 {
        return Ok(bytes);
    }
    let (Some(kind), Some(compressed)) = (bytes.get(..4), bytes.get(24..)) else {
        return Err(bad("a compressed section without a header"));
    };
    if u32_at(kind, 0) != ELFCOMPRESS_ZLIB {
        return Err(bad("a section with unknown compression"));
    }
    let mut plain = Vec::new();
    flate2::read::ZlibDecoder::new(compressed)
        .take(most as u64 + 1)
        .read_to_end(&mut plain)?;
    if plain.len() > most {
        return Err(too_large());
    }
    Ok(plain)
}

fn name(names: &[u8], at: u32) -> &[u8] {
    let rest = names.get(at as usize..).unwrap_or_default();
    let end = memchr::memchr(0, rest).unwrap_or(rest.len());
    &rest[..end]
}

fn bad(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    // Headers have their full size: all positions are within them.
    std::array::from_fn(|n| bytes[at + n])
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use std::fs;

    use object::{Object, ObjectSection, ObjectSymbol};

    use super::*;

    const EXECUTABLE: &str = "/proc/self/exe";

    fn own() -> TargetFile {
        TargetFile::behind(EXECUTABLE.as_ref()).unwrap()
    }

    #[test]
    fn the_part_that_is_read_is_as_in_the_whole_file() {
        let wanted = |name: &[u8]| matches!(name, b".symtab" | b".strtab" | b".eh_frame");
        let image = read(&own(), wanted, 1 << 30).unwrap();
        let whole = fs::read(EXECUTABLE).unwrap();
        let (part, whole) = (
            object::File::parse(&*image).unwrap(),
            object::File::parse(&*whole).unwrap(),
        );
        assert_eq!(part.build_id().unwrap(), whole.build_id().unwrap());
        for section in [".symtab", ".eh_frame"] {
            let of = |file: &object::File<'_>| {
                let section = file.section_by_name(section).unwrap();
                (section.address(), section.data().unwrap().to_vec())
            };
            assert!(of(&part) == of(&whole), "{section}");
        }
        assert!(part.section_by_name(".text").unwrap().data().unwrap().is_empty());
        assert_eq!(
            part.section_by_name(".text").unwrap().address(),
            whole.section_by_name(".text").unwrap().address()
        );
        let names = |file: &object::File<'_>| -> Vec<String> {
            file.symbols()
                .map(|symbol| symbol.name().unwrap_or("?").to_string())
                .collect()
        };
        assert_eq!(names(&part), names(&whole));
    }

    #[test]
    fn more_than_the_bound_is_refused() {
        let is_text = |name: &[u8]| name == b".text";
        let image = read(&own(), is_text, 1 << 30).unwrap();
        let size = object::File::parse(&*image)
            .unwrap()
            .section_by_name(".text")
            .unwrap()
            .size() as usize;
        assert!(read(&own(), is_text, size).is_ok());
        assert!(read(&own(), is_text, size - 1).is_err());
    }
}
