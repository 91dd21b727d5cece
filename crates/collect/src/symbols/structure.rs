//! Where the members of a C structure are, according to debug information (DWARF).
//!
//! It is read where names are read, in a process of its own ([`super::namer`]): a crafted file may take for ever.

use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, Dwarf, EntriesTreeNode, Reader, Unit,
    UnitOffset,
};

/// Maximum number of types between a member and a type with a size: typedefs, `const`, `volatile`.
const MOST_BETWEEN: usize = 16;

/// A member of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    /// Bytes from the start of the structure.
    pub(crate) offset: u64,
    /// Its size.
    pub(crate) bytes: u64,
}

/// These members of the first structure with this name that is fully described; None for one that does not exist or has no known size.
/// None: there is no such structure, or the debug information is damaged.
pub(super) fn members<R: Reader>(
    dwarf: &Dwarf<R>,
    structure: &str,
    wanted: &[&str],
) -> Option<Vec<Option<Member>>> {
    // What files share is in a file of its own, in units like theirs.
    [Some(dwarf), dwarf.sup()]
        .into_iter()
        .flatten()
        .find_map(|dwarf| members_in(dwarf, structure, wanted))
}

fn members_in<R: Reader>(dwarf: &Dwarf<R>, structure: &str, wanted: &[&str]) -> Option<Vec<Option<Member>>> {
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let Ok(unit) = dwarf.unit(header) else { continue };
        // A damaged unit costs only its own contents.
        if let Ok(Some(found)) = members_in_unit(dwarf, &unit, structure, wanted) {
            return Some(found);
        }
    }
    None
}

/// Members of the structure, if it is fully described in this unit.
fn members_in_unit<R: Reader>(
    dwarf: &Dwarf<R>,
    unit: &Unit<R>,
    structure: &str,
    wanted: &[&str],
) -> gimli::Result<Option<Vec<Option<Member>>>> {
    let mut tree = unit.entries_tree(None)?;
    let mut children = tree.root()?.children();
    while let Some(child) = children.next()? {
        let entry = child.entry();
        if entry.tag() == gimli::DW_TAG_structure_type
            && entry.attr_value(gimli::DW_AT_declaration).is_none()
            && is_called(dwarf, unit, entry, structure)
        {
            return members_of(dwarf, unit, child, wanted).map(Some);
        }
    }
    Ok(None)
}

/// Members of the structure at a node.
fn members_of<R: Reader>(
    dwarf: &Dwarf<R>,
    unit: &Unit<R>,
    structure: EntriesTreeNode<'_, '_, R>,
    wanted: &[&str],
) -> gimli::Result<Vec<Option<Member>>> {
    let mut found = vec![None; wanted.len()];
    let mut children = structure.children();
    while let Some(child) = children.next()? {
        let entry = child.entry();
        if entry.tag() != gimli::DW_TAG_member {
            continue;
        }
        let Some(n) = wanted.iter().position(|name| is_called(dwarf, unit, entry, name)) else {
            continue;
        };
        let offset = entry.attr_value(gimli::DW_AT_data_member_location);
        found[n] = offset
            .and_then(|offset| offset.udata_value())
            .zip(entry.attr_value(gimli::DW_AT_type))
            .and_then(|(offset, of_type)| {
                let bytes = size(dwarf, unit, of_type, MOST_BETWEEN)?;
                Some(Member { offset, bytes })
            });
    }
    Ok(found)
}

fn is_called<R: Reader>(
    dwarf: &Dwarf<R>,
    unit: &Unit<R>,
    entry: &DebuggingInformationEntry<R>,
    name: &str,
) -> bool {
    let text = entry
        .attr_value(gimli::DW_AT_name)
        .and_then(|value| dwarf.attr_string(unit, value).ok());
    text.is_some_and(|text| text.to_slice().is_ok_and(|text| *text == *name.as_bytes()))
}

/// Bytes of a referenced type.
fn size<R: Reader>(
    dwarf: &Dwarf<R>,
    unit: &Unit<R>,
    of_type: AttributeValue<R>,
    most_between: usize,
) -> Option<u64> {
    match of_type {
        AttributeValue::UnitRef(at) => size_at(dwarf, unit, at, most_between),
        AttributeValue::DebugInfoRef(at) => size_elsewhere(dwarf, at, most_between),
        AttributeValue::DebugInfoRefSup(at) => size_elsewhere(dwarf.sup()?, at, most_between),
        _ => None,
    }
}

/// Of a type in another unit.
fn size_elsewhere<R: Reader>(
    dwarf: &Dwarf<R>,
    at: DebugInfoOffset<R::Offset>,
    most_between: usize,
) -> Option<u64> {
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        if let Some(at) = at.to_unit_offset(&header) {
            return size_at(dwarf, &dwarf.unit(header).ok()?, at, most_between);
        }
    }
    None
}

fn size_at<R: Reader>(
    dwarf: &Dwarf<R>,
    unit: &Unit<R>,
    at: UnitOffset<R::Offset>,
    most_between: usize,
) -> Option<u64> {
    let entry = unit.entry(at).ok()?;
    if let Some(bytes) = entry.attr_value(gimli::DW_AT_byte_size) {
        return bytes.udata_value();
    }
    match entry.tag() {
        gimli::DW_TAG_pointer_type => Some(unit.encoding().address_size.into()),
        gimli::DW_TAG_typedef
        | gimli::DW_TAG_const_type
        | gimli::DW_TAG_volatile_type
        | gimli::DW_TAG_atomic_type => {
            let of_type = entry.attr_value(gimli::DW_AT_type)?;
            size(dwarf, unit, of_type, most_between.checked_sub(1)?)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use object::{Object, ObjectSection};

    use super::super::elf_names::ElfNames;
    use super::*;
    use crate::target_file::TargetFile;

    /// As PostgreSQL writes structures: with typedefs, enumerations, pointers, and declarations before the definition.
    const SOURCE: &str = "
        typedef unsigned int Oid; typedef long Timestamp; typedef Timestamp TimestampTz;
        typedef enum Kind { A, B } Kind;
        struct Wanted; struct Other { char wanted[3]; int count; };
        typedef struct Wanted {
            int count; Kind kind; char flag; volatile Oid owner; TimestampTz since;
            struct Other other; const char *text; long parameters[20]; unsigned long id;
        } Wanted;
        struct Wanted *here; struct Other *there; struct Never *nowhere;";

    const NAMES: [&str; 8] = [
        "count", "kind", "owner", "since", "other", "text", "id", "missing",
    ];

    fn compiled(name: &str, options: &[&str]) -> PathBuf {
        let base = std::env::temp_dir().join(format!("dbtime-structure-{name}-{}", std::process::id()));
        let source = base.with_extension("c");
        fs::write(&source, SOURCE).unwrap();
        let compiler = Command::new("cc")
            .args(["-shared", "-fPIC", "-nostdlib"])
            .args(options)
            .arg("-o")
            .args([&base, &source])
            .status();
        assert!(
            compiler
                .expect("a C compiler: run scripts/deps.sh build")
                .success()
        );
        fs::remove_file(source).unwrap();
        base
    }

    fn found(path: &Path, structure: &str) -> Option<Vec<Option<Member>>> {
        let file = TargetFile::new(File::open(path).unwrap()).unwrap();
        ElfNames::read(&file).unwrap().members(structure, &NAMES)
    }

    #[test]
    fn members_lie_where_the_compiler_has_put_them() {
        #[repr(C)]
        struct Other {
            wanted: [u8; 3],
            count: i32,
        }
        #[repr(C)]
        struct Wanted {
            count: i32,
            kind: u32,
            flag: u8,
            owner: u32,
            since: i64,
            other: Other,
            text: *const u8,
            parameters: [i64; 20],
            id: u64,
        }
        let member = |offset: usize, bytes: u64| {
            Some(Member {
                offset: offset as u64,
                bytes,
            })
        };
        let expected = [
            member(std::mem::offset_of!(Wanted, count), 4),
            member(std::mem::offset_of!(Wanted, kind), 4),
            member(std::mem::offset_of!(Wanted, owner), 4),
            member(std::mem::offset_of!(Wanted, since), 8),
            member(std::mem::offset_of!(Wanted, other), size_of::<Other>() as u64),
            member(std::mem::offset_of!(Wanted, text), 8),
            member(std::mem::offset_of!(Wanted, id), 8),
            None,
        ];
        for version in ["-gdwarf-4", "-gdwarf-5"] {
            let path = compiled(version, &["-O1", version]);
            assert_eq!(
                found(&path, "Wanted").as_deref(),
                Some(expected.as_slice()),
                "{version}"
            );
            let other = found(&path, "Other").expect("it is described");
            assert_eq!(other[0], member(std::mem::offset_of!(Other, count), 4));
            // One that is only declared, and one that is not there.
            assert_eq!(found(&path, "Never"), None);
            assert_eq!(found(&path, "Nothing"), None);
            fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn without_debug_information_nothing_is_known_and_damage_is_survived() {
        let path = compiled("none", &["-g0"]);
        assert_eq!(found(&path, "Wanted"), None);
        fs::remove_file(path).unwrap();
        let path = compiled("damaged", &["-g"]);
        let whole = fs::read(&path).unwrap();
        let object = object::File::parse(&*whole).unwrap();
        let sections = [".debug_info", ".debug_abbrev", ".debug_str"];
        let ranges = sections
            .iter()
            .filter_map(|name| object.section_by_name(name)?.file_range());
        let mut tried = 0;
        for (begin, bytes) in ranges {
            for at in (begin..begin + bytes).step_by(3) {
                let mut damaged = whole.clone();
                damaged[at as usize] ^= 0xff;
                fs::write(&path, damaged).unwrap();
                let file = TargetFile::new(File::open(&path).unwrap()).unwrap();
                let names = ElfNames::read(&file).unwrap();
                names.members("Wanted", &NAMES);
                tried += 1;
            }
        }
        assert!(tried > 100, "{tried}");
        fs::remove_file(path).unwrap();
    }
}
