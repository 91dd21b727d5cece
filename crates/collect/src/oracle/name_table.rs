//! The names of wait events in the executable: the table `ksledt_`.
//!
//! Its layout is not documented. As little as possible is assumed: elements of one size, by event number, whose first word points to the
//! name. This is checked against every name in the MAP; a table that does not agree with all of them is not used.

use std::io;

use super::event_names::EventNames;
use crate::executable::Executable;
use crate::memory;

const TABLE: &str = "ksledt_";
/// Names that must agree, to rule out chance.
const AGREEING: usize = 5;
/// Sizes that an element may have.
const SIZES: std::ops::RangeInclusive<usize> = 8..=256;
/// Largest table that is read.
const LARGEST: usize = 4 << 20;
/// Longest name of an event.
const LONGEST_NAME: usize = 64;

/// Adds the names that the executable of a process has and the MAP lacks. Returns how many; none = it has no table that agrees with the
/// MAP.
pub(super) fn complete(names: &mut EventNames, pid: u32) -> io::Result<Option<usize>> {
    let [Some(table)] = Executable::of(pid)?.symbols([TABLE])? else {
        return Ok(None);
    };
    let bytes = table.size as usize;
    if bytes == 0 || bytes > LARGEST {
        return Ok(None);
    }
    let mut words = vec![0; bytes / 8 * 8];
    memory::read(pid, &mut [(table.address, &mut words)])?;
    let word = |at: usize| {
        let bytes = words.get(at..at + 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    let name_at = |size: usize, number: u32| text(pid, word(number as usize * size)?);
    let known: Vec<(u32, String)> = names
        .iter()
        .map(|(number, name)| (number, name.to_string()))
        .collect();
    if known.len() < AGREEING {
        return Ok(None);
    }
    let agrees = |&size: &usize| {
        known
            .iter()
            .all(|(number, name)| name_at(size, *number).as_ref() == Some(name))
    };
    let Some(size) = SIZES.step_by(8).find(agrees) else {
        return Ok(None);
    };
    let mut added = 0;
    for number in 0..(bytes / size) as u32 {
        if names.name(number).is_none()
            && let Some(name) = name_at(size, number)
        {
            names.add(number, &name, None);
            added += 1;
        }
    }
    Ok(Some(added))
}

/// The text that a pointer of the process points to; none if it cannot be a name.
fn text(pid: u32, pointer: u64) -> Option<String> {
    let mut bytes = [0; LONGEST_NAME + 1];
    // A name may be the last thing on the last page that is mapped.
    let readable = (bytes.len() as u64).min(4096 - pointer % 4096) as usize;
    memory::read(pid, &mut [(pointer, &mut bytes[..readable])]).ok()?;
    if !bytes[..readable].contains(&0) && readable < bytes.len() {
        memory::read(pid, &mut [(pointer + readable as u64, &mut bytes[readable..])]).ok()?;
    }
    let end = bytes.iter().position(|&b| b == 0)?;
    let name = std::str::from_utf8(&bytes[..end]).ok()?;
    (end > 0 && name.bytes().all(|b| b.is_ascii_graphic() || b == b' ')).then(|| name.to_string())
}
