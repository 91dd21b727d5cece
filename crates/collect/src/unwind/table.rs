//! The unwinding table of a module: its .eh_frame as rows of eight bytes with an index, as bpf/unwind_rows.h defines it.

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, LittleEndian, Operation, Reader, RegisterRule,
    UnwindContext, UnwindExpression, UnwindSection, UnwindTableRow, X86_64,
};
use object::{Object, ObjectSection};

use crate::bpf::{dbt_unwind_kind, dbt_unwind_number, thread_cpu_ns};

/// Maximum number of rows of one module: a hostile file cannot make more.
const MAX_ROWS: usize = 6_000_000;
/// CPU time for one module, in nanoseconds: the largest real one takes a tenth of it. Descriptions can refer to the same
/// instructions again and again, so that their size says little about their time.
const MAX_NS: u64 = 3_000_000_000;

/// The frame descriptions take more time or memory than any real file's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMuch;
/// The index has an entry for every block of this many bytes, as a power of two.
const BLOCK_BITS: u32 = dbt_unwind_number::UNWIND_BLOCK_BITS.0 as u32;
/// Maximum bytes of a module's code.
const MAX_CODE: u64 = 1 << 30;

/// By the BPF programs' numbers for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    None = dbt_unwind_kind::UNWIND_NONE.0 as u8,
    End = dbt_unwind_kind::UNWIND_END.0 as u8,
    Sp = dbt_unwind_kind::UNWIND_SP.0 as u8,
    Bp = dbt_unwind_kind::UNWIND_BP.0 as u8,
    BpDeref = dbt_unwind_kind::UNWIND_BP_DEREF.0 as u8,
    SpDeref = dbt_unwind_kind::UNWIND_SP_DEREF.0 as u8,
    Plt = dbt_unwind_kind::UNWIND_PLT.0 as u8,
    Signal = dbt_unwind_kind::UNWIND_SIGNAL.0 as u8,
    Unknown = dbt_unwind_kind::UNWIND_UNKNOWN.0 as u8,
    Search = dbt_unwind_kind::UNWIND_SEARCH.0 as u8,
}

/// The caller's frame pointer is not known.
pub(super) const BP_LOST: i8 = dbt_unwind_number::UNWIND_BP_LOST.0 as i8;
/// It is where this one points to.
pub(super) const BP_AT_BP: i8 = dbt_unwind_number::UNWIND_BP_AT_BP.0 as i8;

/// How the caller's frame is found: `struct dbt_unwind_row` without its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) kind: Kind,
    /// In words.
    pub(super) cfa: i16,
    /// In words from the CFA; 0 = unchanged.
    pub(super) bp: i8,
}

impl Rule {
    const fn of(kind: Kind) -> Rule {
        Rule { kind, cfa: 0, bp: 0 }
    }
}

/// A row, by address in the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) address: u64,
    pub(super) rule: Rule,
}

/// The table of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// Address in the module at which it begins.
    pub(crate) begin: u64,
    /// Bytes of code that it covers.
    pub(crate) size: u32,
    /// Index and rows: the elements of the map, `struct dbt_unwind_row` as the 64 bits that it is.
    pub(crate) elements: Vec<u64>,
}

impl Table {
    /// Builds the table of an ELF file; None if it has no frame descriptions, or none that can be read.
    ///
    /// # Errors
    /// It would take too much.
    pub(crate) fn of_file(file: &object::File<'_>) -> Result<Option<Table>, TooMuch> {
        let section = |name: &str| {
            let section = file.section_by_name(name)?;
            // Not decompressed: what the program itself needs at run time is never compressed.
            Some((section.address(), section.data().ok()?))
        };
        let mut bases = BaseAddresses::default();
        if let Some((address, _)) = section(".text") {
            bases = bases.set_text(address);
        }
        if let Some((address, _)) = section(".got") {
            bases = bases.set_got(address);
        }
        let mut rows = Vec::new();
        if let Some((address, data)) = section(".eh_frame") {
            let bases = bases.clone().set_eh_frame(address);
            read_frames(&EhFrame::new(data, LittleEndian), &bases, &mut rows)?;
        }
        if rows.is_empty()
            && let Some((_, data)) = section(".debug_frame")
        {
            let mut section = DebugFrame::new(data, LittleEndian);
            section.set_address_size(8);
            read_frames(&section, &bases, &mut rows)?;
        }
        Ok(Table::of_rows(rows))
    }

    /// Bytes of kernel memory.
    pub(crate) fn bytes(&self) -> usize {
        self.elements.len() * size_of::<u64>()
    }

    pub(super) fn of_rows(mut rows: Vec<Row>) -> Option<Table> {
        // Where one function ends and the next one begins, the beginning counts, whether it was added later or earlier.
        rows.sort_by_key(|row| (row.address, row.rule.kind != Kind::None));
        let mut kept: Vec<Row> = Vec::with_capacity(rows.len());
        for row in rows {
            match kept.last_mut() {
                Some(last) if last.address == row.address => *last = row,
                Some(last) if last.rule == row.rule => {}
                _ => kept.push(row),
            }
        }
        // Replacing a row may have made it equal to the one before.
        kept.dedup_by(|later, earlier| later.rule == earlier.rule);
        let begin = kept.first()?.address & !((1 << BLOCK_BITS) - 1);
        let size = kept.last()?.address - begin;
        if size == 0 || size > MAX_CODE {
            return None;
        }
        let size = size as u32;
        let blocks = (size as usize).div_ceil(1 << BLOCK_BITS);
        let mut elements = Vec::with_capacity(blocks + kept.len());
        let (mut in_effect, mut next) = (None, 0);
        for block in 0..blocks {
            let start = begin + ((block as u64) << BLOCK_BITS);
            while kept.get(next).is_some_and(|row| row.address <= start) {
                in_effect = Some(next);
                next += 1;
            }
            let first = next;
            let mut after = next;
            while kept
                .get(after)
                .is_some_and(|row| row.address < start.saturating_add(1 << BLOCK_BITS))
            {
                after += 1;
            }
            elements.push(match (in_effect, after - first) {
                (Some(row), 0) => bits(0, kept[row].rule),
                // Only the first block may begin before its first row: what is before it has that row's rule, but is not code.
                (row, count) => {
                    let low = row.unwrap_or(first);
                    let more = count - usize::from(row.is_none());
                    bits(
                        (blocks + low) as u32,
                        Rule {
                            kind: Kind::Search,
                            cfa: more as i16,
                            bp: 0,
                        },
                    )
                }
            });
        }
        elements.extend(
            kept.iter()
                .map(|row| bits((row.address - begin) as u32, row.rule)),
        );
        Some(Table {
            begin,
            size,
            elements,
        })
    }
}

/// `struct dbt_unwind_row` on a little-endian machine.
fn bits(pc: u32, rule: Rule) -> u64 {
    u64::from(pc)
        | u64::from(rule.cfa.cast_unsigned()) << 32
        | u64::from(rule.bp.cast_unsigned()) << 48
        | (rule.kind as u64) << 56
}

/// Adds the rows of all functions. Stops at what cannot be parsed: rows before it stay good.
fn read_frames<R: Reader<Offset = usize>, S: UnwindSection<R>>(
    section: &S,
    bases: &BaseAddresses,
    rows: &mut Vec<Row>,
) -> Result<(), TooMuch>
where
    S::Offset: gimli::UnwindOffset<usize>,
{
    let deadline = thread_cpu_ns() + MAX_NS;
    let mut context = UnwindContext::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        if thread_cpu_ns() > deadline || rows.len() >= MAX_ROWS {
            return Err(TooMuch);
        }
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(function) = partial.parse(|section, bases, offset| section.cie_from_offset(bases, offset))
        else {
            continue;
        };
        // Functions that the linker has dropped are at 0.
        if function.initial_address() == 0 || function.len() == 0 {
            continue;
        }
        let signal = function.is_signal_trampoline();
        if let Ok(mut table) = function.rows(section, bases, &mut context) {
            let mut complete = true;
            loop {
                match table.next_row() {
                    Ok(Some(row)) => {
                        let rule = rule(row, section, signal);
                        // A signal handler returns to the first byte of its trampoline: the byte before belongs to it too.
                        let address = row.start_address().saturating_sub(u64::from(signal));
                        rows.push(Row { address, rule });
                    }
                    Ok(None) => break,
                    Err(_) => {
                        complete = false;
                        break;
                    }
                }
                if rows.len() >= MAX_ROWS {
                    return Err(TooMuch);
                }
            }
            if !complete {
                rows.push(Row {
                    address: function.initial_address(),
                    rule: Rule::of(Kind::Unknown),
                });
            }
        }
        rows.push(Row {
            address: function.initial_address().saturating_add(function.len()),
            rule: Rule::of(Kind::None),
        });
    }
    Ok(())
}

fn rule<R: Reader<Offset = usize>, S: UnwindSection<R>>(
    row: &UnwindTableRow<usize>,
    section: &S,
    signal: bool,
) -> Rule {
    if signal {
        return Rule::of(Kind::Signal);
    }
    match row.register(X86_64::RA) {
        Some(RegisterRule::Undefined) => return Rule::of(Kind::End),
        Some(RegisterRule::Offset(-8)) => {}
        _ => return Rule::of(Kind::Unknown),
    }
    let (kind, cfa) = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => match *register {
            X86_64::RSP => (Kind::Sp, words(*offset)),
            X86_64::RBP => (Kind::Bp, words(*offset)),
            _ => (Kind::Unknown, None),
        },
        CfaRule::Expression(expression) => match expression_kind(expression, section) {
            Some((kind, cfa)) => (kind, Some(cfa)),
            None => (Kind::Unknown, None),
        },
    };
    let Some(cfa) = cfa else {
        return Rule::of(Kind::Unknown);
    };
    let bp = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::SameValue) => 0,
        Some(RegisterRule::Offset(offset)) => words(offset)
            .and_then(|words| i8::try_from(words).ok())
            .filter(|words| *words != 0)
            .unwrap_or(BP_LOST),
        // A function that aligns its stack keeps the caller's where its own frame pointer points to.
        Some(RegisterRule::Expression(_)) if kind == Kind::BpDeref => BP_AT_BP,
        Some(_) => BP_LOST,
    };
    Rule { kind, cfa, bp }
}

/// Bytes as whole words.
fn words(bytes: i64) -> Option<i16> {
    (bytes % 8 == 0).then(|| i16::try_from(bytes / 8).ok())?
}

/// The CFA expressions that compilers, linkers and OpenSSL write: a stub of the procedure linkage table,
/// `rsp + 8 + ((rip & 15) >= n) << 3`; a word at an offset from the frame pointer; a word at one from the stack pointer, plus 8.
fn expression_kind<R: Reader<Offset = usize>, S: UnwindSection<R>>(
    expression: &UnwindExpression<usize>,
    section: &S,
) -> Option<(Kind, i16)> {
    let encoding = gimli::Encoding {
        address_size: 8,
        format: gimli::Format::Dwarf32,
        version: 4,
    };
    let mut operations = expression.get(section).ok()?.operations(encoding);
    let mut all = Vec::new();
    while let Some(operation) = operations.next().ok()? {
        all.push(operation);
        if all.len() > 9 {
            return None;
        }
    }
    match all.as_slice() {
        [
            Operation::RegisterOffset {
                register: X86_64::RBP,
                offset,
                ..
            },
            Operation::Deref { .. },
        ] => Some((Kind::BpDeref, words(*offset)?)),
        [
            Operation::RegisterOffset {
                register: X86_64::RSP,
                offset,
                ..
            },
            Operation::Deref { .. },
            Operation::PlusConstant { value: 8 },
        ] => Some((Kind::SpDeref, words(*offset)?)),
        [
            Operation::RegisterOffset {
                register: X86_64::RSP,
                offset: 8,
                ..
            },
            Operation::RegisterOffset {
                register: X86_64::RA,
                offset: 0,
                ..
            },
            Operation::UnsignedConstant { value: 15 },
            Operation::And,
            Operation::UnsignedConstant { value },
            Operation::Ge,
            Operation::UnsignedConstant { value: 3 },
            Operation::Shl,
            Operation::Plus,
        ] => Some((Kind::Plt, i16::try_from(*value).ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A length, then an entry of .eh_frame.
    fn entry(body: &[&[u8]]) -> Vec<u8> {
        let body = body.concat();
        [&(body.len() as u32).to_le_bytes()[..], &body].concat()
    }

    #[test]
    fn descriptions_that_take_for_ever_are_given_up() {
        // Version 1, no augmentation, factors 1 and -8, return address in register 16; then a million no-ops.
        let nothing = vec![0; 1 << 20];
        let common = entry(&[&0u32.to_le_bytes(), &[1, 0, 1, 0x78, 16], &nothing]);
        let mut frames = common;
        for function in 1..100_000u64 {
            // Every function begins with the common instructions.
            let back = frames.len() as u32 + 4;
            frames.extend(entry(&[
                &back.to_le_bytes(),
                &(function << 4).to_le_bytes(),
                &16u64.to_le_bytes(),
            ]));
        }
        let bases = BaseAddresses::default().set_eh_frame(0);
        let mut rows = Vec::new();
        let mut section = EhFrame::new(&frames, LittleEndian);
        section.set_address_size(8);
        assert_eq!(read_frames(&section, &bases, &mut rows), Err(TooMuch));
        assert!(!rows.is_empty(), "as long as there was time they were read");
    }
}
