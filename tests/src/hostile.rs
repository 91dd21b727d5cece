//! Files that are made to do harm.

use std::fs::{self, OpenOptions};
use std::path::Path;

const SECTION: usize = 64;

/// Makes the headers of an ELF file claim that each of these sections has so many bytes, and makes the file that long: the added part is a
/// hole, which takes no disk space.
///
/// # Panics
/// When it is not an ELF file, or lacks a section.
#[track_caller]
pub fn claim_size(file: &Path, sections: &[&str], bytes: u64) {
    let mut elf = fs::read(file).expect("it can be read");
    let number = |elf: &[u8], at: usize, size: usize| {
        elf[at..at + size]
            .iter()
            .rev()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    };
    let table = number(&elf, 40, 8);
    let (count, names) = (number(&elf, 60, 2), number(&elf, 62, 2));
    let names = number(&elf, table + names * SECTION + 24, 8);
    for wanted in sections {
        let header = (0..count).map(|n| table + n * SECTION).find(|header| {
            let name = &elf[names + number(&elf, *header, 4)..];
            name.starts_with(wanted.as_bytes()) && name[wanted.len()] == 0
        });
        let header = header.unwrap_or_else(|| panic!("it has no {wanted}"));
        elf[header + 32..header + 40].copy_from_slice(&bytes.to_le_bytes());
    }
    let length = elf.len() as u64 + bytes;
    fs::write(file, elf).expect("it can be written");
    let file = OpenOptions::new().write(true).open(file).expect("it was written");
    file.set_len(length).expect("files may have holes");
}

/// Debug information of a few megabytes that would take hours to read: every unit has its own abbreviation table, which runs on through
/// those of all later ones.
///
/// # Panics
/// When it cannot be written.
pub fn endless_debug_information(info: &Path, abbreviations: &Path) {
    const UNITS: u32 = 200_000;
    // A repeated code would end the reading, so all differ; three bytes each (LEB128).
    let code = |n: u32| {
        let code = n + 0x4000;
        [
            code as u8 | 0x80,
            (code >> 7) as u8 | 0x80,
            (code >> 14) as u8 & 0x7f,
        ]
    };
    // A compile unit without children and attributes.
    let table = (0..UNITS).flat_map(|n| [&code(n)[..], &[0x11, 0, 0, 0]].concat());
    fs::write(abbreviations, table.chain([0]).collect::<Vec<u8>>()).expect("there is room");
    let units = (0..UNITS).flat_map(|n| {
        // Length of what follows, version of DWARF, offset of the abbreviations, bytes of an address, the one entry.
        let parts: [&[u8]; 5] = [
            &10u32.to_le_bytes(),
            &4u16.to_le_bytes(),
            &(n * 7).to_le_bytes(),
            &[8],
            &code(n),
        ];
        parts.concat()
    });
    fs::write(info, units.collect::<Vec<u8>>()).expect("there is room");
}
