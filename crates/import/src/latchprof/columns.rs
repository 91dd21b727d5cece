//! The table of LatchProfX: where its columns are, and the rows below them.
//!
//! SQL*Plus draws a rule of dashes below the headings, with a blank between columns: it shows where columns begin and end. Numbers end
//! where their column does, so a shorter row was truncated. Names that are too long continue on the next line, which has nothing else.

use std::ops::Range;

use crate::text::{decimal, printed_billionths};

/// A longer line is no heading, a longer text no name.
const MAX_HEADING: usize = 4096;
const MAX_TEXT: usize = 256;

/// Larger numbers are damage, and could overflow what is worked out from them.
const MOST: u64 = 1 << 40;

/// Where the columns are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Columns {
    width: usize,
    sid: Option<Range<usize>>,
    name: Option<Range<usize>>,
    address: Option<Range<usize>>,
    mode: Option<Range<usize>>,
    code: Option<Range<usize>>,
    label: Option<Range<usize>>,
    object: Option<Range<usize>>,
    sql_id: Option<Range<usize>>,
    held: Range<usize>,
    gets: Option<Range<usize>>,
    percent: Range<usize>,
    ms: Range<usize>,
    average: Option<Range<usize>>,
}

/// A row of the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) line: u64,
    pub(super) sid: Option<u64>,
    pub(super) name: String,
    pub(super) address: u64,
    pub(super) mode: String,
    pub(super) code: String,
    pub(super) label: String,
    pub(super) sql_id: String,
    /// Samples.
    pub(super) held: u64,
    pub(super) gets: Option<u64>,
    /// Hundredths of a percent.
    pub(super) hundredths: u64,
    /// Microseconds.
    pub(super) us: u64,
    /// Microseconds; none if the number did not fit into its column (`#####`).
    pub(super) average_us: Option<u64>,
}

/// What a line below the headings is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Row(Row),
    /// More of the name of the previous row.
    MoreOfName(String),
    /// A row, but not all of it.
    Damaged,
    Other,
}

/// True for the headings of such a table, or the last line of them.
pub(super) fn is_heading(line: &[u8]) -> bool {
    let has = |what: &[u8]| memchr::memmem::find(line, what).is_some();
    line.len() <= MAX_HEADING && has(b"Held %") && has(b"Held ms")
}

/// True for the rule below headings.
pub(super) fn is_rule(line: &[u8]) -> bool {
    line.len() <= MAX_HEADING
        && memchr::memmem::find(line, b"---").is_some()
        && line.iter().all(|byte| matches!(byte, b'-' | b' '))
}

impl Columns {
    /// The columns of these headings above this rule; none if the table lacks any that are needed.
    pub(super) fn of(heading: &[u8], rule: &[u8]) -> Option<Columns> {
        let mut spans: Vec<Range<usize>> = Vec::new();
        for (at, byte) in rule.iter().enumerate() {
            match spans.last_mut() {
                Some(span) if *byte == b'-' && span.end == at => span.end += 1,
                _ if *byte == b'-' => spans.push(at..at + 1),
                _ => {}
            }
        }
        let named = |name: &str| {
            let is_it = |span: &&Range<usize>| {
                let text = heading.get(span.start..span.end.min(heading.len()));
                text.is_some_and(|text| text.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
            };
            spans.iter().find(is_it).cloned()
        };
        Some(Columns {
            width: spans.last()?.end,
            sid: named("SID"),
            name: named("NAME"),
            address: named("LADDR"),
            mode: named("HMODE"),
            code: named("FUNC").or_else(|| named("KSLLWNAM")),
            label: named("OBJTYPE").or_else(|| named("KSLLWLBL")),
            object: named("OBJECT"),
            sql_id: named("SQLID"),
            held: named("Held")?,
            gets: named("Gets"),
            percent: named("Held %")?,
            ms: named("Held ms")?,
            average: named("Avg hold ms"),
        })
    }

    /// Reads a line below the headings.
    pub(super) fn line(&self, line: &[u8], number: u64) -> Meaning {
        let cell = |span: &Range<usize>| {
            let begin = span.start.min(line.len());
            line[begin..span.end.min(line.len())].trim_ascii()
        };
        if cell(&self.held).is_empty() {
            let outside = |span: &Range<usize>| {
                let rest = line.get(span.end..).unwrap_or_default();
                let before = &line[..span.start.min(line.len())];
                before.iter().chain(rest).all(u8::is_ascii_whitespace)
            };
            return match &self.name {
                Some(name) if !cell(name).is_empty() && outside(name) => {
                    // It may begin with the blank at which the name was cut.
                    let more = line[name.start..name.end.min(line.len())].trim_ascii_end();
                    Meaning::MoreOfName(String::from_utf8_lossy(more).into_owned())
                }
                _ => Meaning::Other,
            };
        }
        match self.row(line, number, &cell) {
            Some(row) => Meaning::Row(row),
            None => Meaning::Damaged,
        }
    }

    fn row<'a>(&self, line: &'a [u8], number: u64, cell: &dyn Fn(&Range<usize>) -> &'a [u8]) -> Option<Row> {
        if line.len() < self.width {
            return None;
        }
        let text = |span: &Option<Range<usize>>| -> String {
            let cell = span.as_ref().map(cell).unwrap_or_default();
            String::from_utf8_lossy(&cell[..cell.len().min(MAX_TEXT)]).into_owned()
        };
        let whole = |span: &Range<usize>| decimal(cell(span)).filter(|number| *number <= MOST);
        // Printed with that many decimals: in units of the last one.
        let decimals = |span: &Range<usize>, unit: i64| {
            let number = printed_billionths(cell(span)).filter(|number| number % unit == 0)?;
            u64::try_from(number / unit).ok().filter(|number| *number <= MOST)
        };
        let held = whole(&self.held).filter(|held| *held > 0)?;
        let gets = match &self.gets {
            Some(gets) => Some(whole(gets).filter(|gets| (1..=held).contains(gets))?),
            None => None,
        };
        let average_us = match &self.average {
            Some(average) if cell(average).iter().all(|byte| *byte == b'#') => None,
            Some(average) => Some(decimals(average, 1_000_000)?),
            None => None,
        };
        let address = match &self.address {
            Some(address) => u64::from_str_radix(std::str::from_utf8(cell(address)).ok()?, 16).ok()?,
            None => 0,
        };
        let sid = match &self.sid {
            Some(sid) => Some(whole(sid)?),
            None => None,
        };
        let label = [text(&self.label), text(&self.object)]
            .join(" ")
            .trim()
            .to_string();
        Some(Row {
            line: number,
            sid,
            name: text(&self.name),
            address,
            mode: text(&self.mode),
            code: text(&self.code),
            label,
            sql_id: text(&self.sql_id),
            held,
            gets,
            hundredths: decimals(&self.percent, 10_000_000)?,
            us: decimals(&self.ms, 1_000_000)?,
            average_us,
        })
    }

    /// The name joined with its continuation: it was cut at the width of the column, possibly at a blank.
    pub(super) fn joined(&self, name: &str, more: &str) -> String {
        let width = self.name.as_ref().map_or(0, ExactSizeIterator::len);
        // Lines before the last one fill the column.
        let begin = name.len() % width.max(1);
        let blanks = match begin {
            0 => 0,
            begin => width - begin,
        };
        let mut all = format!("{name}{}{more}", " ".repeat(blanks));
        let most = (0..=MAX_TEXT).rev().find(|&end| all.is_char_boundary(end));
        all.truncate(most.unwrap_or(0));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADING: &str =
        "       SID NAME            HMODE              Held       Gets  Held %     Held ms Avg hold ms";
    const RULE: &str =
        "---------- --------------- ------------ ---------- ---------- ------- ----------- -----------";

    #[test]
    fn rows_are_cut_where_the_rule_is() {
        let columns = Columns::of(HEADING.as_bytes(), RULE.as_bytes()).expect("a table");
        let line =
            "       146 cache buffers c exclusive           125         12     .13       3.625        .302";
        let Meaning::Row(row) = columns.line(line.as_bytes(), 7) else {
            panic!("a row");
        };
        assert_eq!(
            (row.sid, row.name.as_str(), row.mode.as_str()),
            (Some(146), "cache buffers c", "exclusive")
        );
        assert_eq!((row.held, row.gets, row.hundredths), (125, Some(12), 13));
        assert_eq!((row.us, row.average_us), (3625, Some(302)));
        let more = columns.line(b"           hains", 8);
        assert_eq!(more, Meaning::MoreOfName("hains".to_string()));
        assert_eq!(columns.joined("cache buffers c", "hains"), "cache buffers chains");
        assert_eq!(
            columns.line(b"            of a name", 8),
            Meaning::MoreOfName(" of a name".to_string())
        );
        assert_eq!(columns.joined("cache buffers", "chains"), "cache buffers  chains");
        let overflown = line.replace("       .302", "###########");
        assert!(
            matches!(columns.line(overflown.as_bytes(), 7), Meaning::Row(row) if row.average_us.is_none())
        );
        for cut in line.find("125").expect("held") + 1..line.len() {
            assert_eq!(
                columns.line(&line.as_bytes()[..cut], 7),
                Meaning::Damaged,
                "{cut}"
            );
        }
        for damaged in [
            line.replace("125", "1x5"),
            line.replace(".13", ".1x"),
            line.replace(" 12 ", "  0 "),
        ] {
            assert_eq!(columns.line(damaged.as_bytes(), 7), Meaning::Damaged, "{damaged}");
        }
        for other in ["", "1 row selected.", "SQL> "] {
            assert_eq!(columns.line(other.as_bytes(), 7), Meaning::Other, "{other}");
        }
    }
}
