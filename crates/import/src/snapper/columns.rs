//! The columns of Snapper's tables, by their heading, and the rows below it.
//!
//! Columns have fixed widths and end in commas. A row is split where the heading has its commas; if it has none there (its blanks were lost
//! on the way, or a name is not ASCII), it is split at its own.

use std::borrow::Cow;

use super::length::{Length, Rounded};
use crate::oracle_trace::wall_clock;
use crate::text::{decimal, printed_billionths};

/// Columns of version 1, which can be told not to print headings.
const FIRST_VERSION: &[u8] =
    b"HEAD,     SID, SNAPSHOT START   ,  SECONDS, TYPE, STATISTIC                               ,\
      \x20        DELTA,  DELTA/SEC,     HDELTA, HDELTA/SEC";

/// Prefixes of lines in output that is meant to be filtered. All are as long as the heading's.
const MARKS: [&[u8]; 3] = [b"HEAD,", b"DATA,", b"SID= "];

/// What Snapper counts. Later versions may count more; then the rest of the row shows that it is one.
const TYPES: [&[u8]; 9] = [
    b"STAT", b"TIME", b"WAIT", b"LATC", b"LATG", b"ENQ", b"ENQG", b"BUFG", b"BUFW",
];

/// A longer line is no heading, a longer text no name.
const MAX_HEADING: usize = 4096;
const MAX_TEXT: usize = 256;

/// Most commas within the name of a statistic.
const MAX_COMMAS: usize = 4;

/// Where the columns are.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    /// Positions of the commas in the heading.
    commas: Vec<usize>,
    sid: Option<usize>,
    instance: Option<usize>,
    user: Option<usize>,
    start: Option<usize>,
    seconds: Option<usize>,
    kind: usize,
    statistic: usize,
    /// Growth, exact if the table has that.
    delta: usize,
    is_rounded: bool,
    waits: Option<usize>,
    per_second: Option<usize>,
    percent: Option<usize>,
    waits_per_second: Option<usize>,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row<'a> {
    pub session: Session<'a>,
    /// When the snapshot began, microseconds since the Unix epoch, and how long it was, if rows have both.
    pub taken: Option<(i64, i64)>,
    pub kind: &'a [u8],
    pub statistic: &'a [u8],
    pub delta: i64,
    /// The growth is rounded to about three digits.
    pub is_rounded: bool,
    pub waits: Option<i64>,
    /// What the row says about the length of the snapshot.
    pub length: Length,
}

/// Whose row it is, as it is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Session<'a> {
    pub sid: &'a [u8],
    pub instance: &'a [u8],
    pub user: &'a [u8],
}

/// What a line is.
#[derive(Debug, PartialEq)]
pub(super) enum Meaning<'a> {
    Row(Row<'a>),
    /// A row, but not all of it.
    Damaged,
    Other,
}

impl Columns {
    /// The columns of version 1.
    pub(super) fn of_first_version() -> Option<Columns> {
        Columns::of(FIRST_VERSION)
    }

    /// The columns of a heading; none if the line is no heading, or one of a table without growth.
    pub(super) fn of(line: &[u8]) -> Option<Columns> {
        if line.len() > MAX_HEADING || memchr::memmem::find(line, b"STATISTIC").is_none() {
            return None;
        }
        let line = without_mark(line);
        let names: Vec<&[u8]> = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
        let at = |name: &str| names.iter().position(|of| *of == name.as_bytes());
        let columns = Columns {
            commas: memchr::memchr_iter(b',', line).collect(),
            sid: at("SID").or_else(|| at("SID @INST")),
            instance: at("INST"),
            user: at("USERNAME"),
            start: at("SNAPSHOT START"),
            seconds: at("SECONDS"),
            kind: at("TYPE")?,
            statistic: at("STATISTIC")?,
            delta: at("DELTA").or_else(|| at("HDELTA"))?,
            is_rounded: at("DELTA").is_none(),
            waits: at("NUM_WAITS"),
            per_second: at("HDELTA/SEC"),
            percent: at("%TIME"),
            waits_per_second: at("WAITS/SEC"),
        };
        (columns.kind < columns.statistic && columns.statistic < columns.delta).then_some(columns)
    }

    /// Reads a line below the heading.
    pub(super) fn line<'a>(&self, line: &'a [u8]) -> Meaning<'a> {
        let line = without_mark(line);
        if memchr::memchr(b',', line).is_none() {
            return Meaning::Other;
        }
        let cells = Cells::by_position(self, line).or_else(|| Cells::by_comma(self, line));
        let kind = match &cells {
            Some(cells) => cells.cell(self.kind),
            None => line
                .split(|byte| *byte == b',')
                .nth(self.kind)
                .unwrap_or_default(),
        };
        let row = cells.as_ref().and_then(|cells| self.row(cells));
        match row {
            Some(row) => Meaning::Row(row),
            None if TYPES.contains(&kind.trim_ascii()) => Meaning::Damaged,
            None => Meaning::Other,
        }
    }

    /// The growth in a cell.
    fn growth(&self, text: &[u8]) -> Option<i64> {
        match self.is_rounded {
            true => Rounded::short(text).map(|rounded| rounded.value.round() as i64),
            false => integer(text),
        }
    }

    fn row<'a>(&self, cells: &Cells<'a, '_>) -> Option<Row<'a>> {
        let optional = |column: Option<usize>| column.map_or(&b""[..], |column| cells.cell(column));
        let kind = cells.cell(self.kind);
        let session = Session {
            sid: optional(self.sid),
            instance: optional(self.instance),
            user: optional(self.user),
        };
        let statistic = cells.cell(self.statistic);
        let is_row = kind.len() <= 4
            && !kind.is_empty()
            && kind.iter().all(u8::is_ascii_uppercase)
            && (self.sid.is_none() || is_sid(session.sid))
            && !statistic.is_empty()
            && statistic.len() <= MAX_TEXT
            && session.user.len() <= MAX_TEXT
            && session.instance.len() <= MAX_TEXT;
        let taken = match (self.start, self.seconds) {
            (Some(start), Some(seconds)) => Some((
                moment(cells.cell(start))?,
                printed_billionths(cells.cell(seconds))?,
            )),
            _ => None,
        };
        let delta = self.growth(cells.cell(self.delta))?;
        let waits = integer(optional(self.waits));
        let mut length = Length::default();
        if !self.is_rounded {
            length.divides(delta, Rounded::short(optional(self.per_second)));
            length.divides(delta, Rounded::percent(optional(self.percent)));
        }
        if let Some(waits) = waits {
            length.divides(waits, Rounded::short(optional(self.waits_per_second)));
        }
        is_row.then_some(Row {
            session,
            taken,
            kind,
            statistic,
            delta,
            is_rounded: self.is_rounded,
            waits,
            length,
        })
    }
}

/// A row in pieces.
struct Cells<'a, 'c> {
    line: &'a [u8],
    columns: &'c Columns,
    commas: Cow<'c, [usize]>,
}

impl<'a, 'c> Cells<'a, 'c> {
    /// Split where the heading is.
    fn by_position(columns: &'c Columns, line: &'a [u8]) -> Option<Cells<'a, 'c>> {
        let begin = columns.commas.get(columns.delta.checked_sub(1)?)?;
        // A number without a comma after it may be truncated, unless it is in the last column.
        let end = columns.commas.get(columns.delta).unwrap_or(begin);
        let mut inside = columns.commas.iter().take_while(|at| **at < line.len());
        (line.len() > *end && inside.all(|at| line[*at] == b',')).then_some(Cells {
            line,
            columns,
            commas: Cow::Borrowed(&columns.commas),
        })
    }

    /// Split at its own commas: those that the heading does not have belong to the name of the statistic, up to the first whole number.
    fn by_comma(columns: &'c Columns, line: &'a [u8]) -> Option<Cells<'a, 'c>> {
        let most = columns.commas.len() + MAX_COMMAS;
        let commas: Vec<usize> = memchr::memchr_iter(b',', line).take(most).collect();
        let delta = |own: usize| {
            let begin = commas.get(columns.delta.checked_sub(1)? + own)?;
            let is_last = columns.delta == columns.commas.len();
            let end = commas.get(columns.delta + own).copied();
            let end = end.or(is_last.then_some(line.len()))?;
            Some(line[begin + 1..end].trim_ascii())
        };
        let own = (0..=MAX_COMMAS)
            // A number that was too wide (`####`) is not part of a name, and what follows it is another number.
            .take_while(|own| {
                delta(*own).is_none_or(|cell| cell.is_empty() || cell.iter().any(|byte| *byte != b'#'))
            })
            .find(|own| delta(*own).is_some_and(|cell| columns.growth(cell).is_some()))?;
        let (left, right) = commas.split_at(columns.statistic.min(commas.len()));
        let commas = [left, right.get(own..)?].concat();
        Some(Cells {
            line,
            columns,
            commas: Cow::Owned(commas),
        })
    }

    /// The text in a column; empty if the row is shorter.
    fn cell(&self, column: usize) -> &'a [u8] {
        let begin = match column.checked_sub(1) {
            None => 0,
            Some(before) => match self.commas.get(before) {
                Some(comma) => comma + 1,
                None => return b"",
            },
        };
        // What follows the last column of the heading belongs to it.
        let is_last = column >= self.columns.commas.len();
        let end = self.commas.get(column).copied().filter(|_| !is_last);
        let end = end.unwrap_or(self.line.len()).min(self.line.len());
        self.line.get(begin..end).unwrap_or_default().trim_ascii()
    }
}

fn without_mark(line: &[u8]) -> &[u8] {
    match MARKS.iter().any(|mark| line.starts_with(mark)) {
        true => &line[5..],
        false => line,
    }
}

/// `1090`, `1090  @1`; -1 stands for the instance.
fn is_sid(text: &[u8]) -> bool {
    let (sid, instance) = match memchr::memchr(b'@', text) {
        Some(at) => (text[..at].trim_ascii(), &text[at + 1..]),
        None => (text, &b"0"[..]),
    };
    integer(sid).is_some() && decimal(instance).is_some()
}

fn integer(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => Some(-i64::try_from(decimal(digits)?).ok()?),
        None => i64::try_from(decimal(text)?).ok(),
    }
}

/// `2014-11-01 20:47:55`, `20141101 20:47:55`: microseconds since the Unix epoch.
fn moment(text: &[u8]) -> Option<i64> {
    match text {
        [date @ .., b' ', _, _, b':', _, _, b':', _, _] if date.len() == 8 => {
            let (year, day) = date.split_at(4);
            let (month, day) = day.split_at(2);
            wall_clock(&[year, b"-", month, b"-", day, &text[8..]].concat())
        }
        _ if text.len() == 19 => wall_clock(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row<'a>(columns: &Columns, line: &'a str) -> Row<'a> {
        match columns.line(line.as_bytes()) {
            Meaning::Row(row) => row,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn a_name_with_commas_is_whole_in_columns_and_without_them() {
        let head =
            b" SID @INST, USERNAME  , TYPE, STATISTIC           ,         DELTA, HDELTA/SEC, NUM_WAITS";
        let columns = Columns::of(head).expect("a heading");
        for line in [
            "  1090  @1, TANEL     , WAIT, a, b, 3 and c       ,         -1234,    491,58k,         7",
            "1090 @1, TANEL, WAIT, a, b, 3 and c, -1234, 491.58k, 7",
        ] {
            let row = row(&columns, line);
            assert_eq!(row.session.sid.split(|b| *b == b' ').next(), Some(&b"1090"[..]));
            assert_eq!((row.session.user, row.kind), (&b"TANEL"[..], &b"WAIT"[..]));
            assert_eq!(row.statistic, b"a, b, 3 and c", "{line}");
            assert_eq!((row.delta, row.waits), (-1234, Some(7)), "{line}");
        }
    }

    #[test]
    fn rows_of_the_first_version_say_when() {
        let columns = Columns::of_first_version().expect("a heading");
        let line = "DATA,     117, 20080301 10:00:05,       10, STAT, session logical reads                   ,        123456,      12346,    123.46k,     12.35k";
        let row = row(&columns, line);
        assert_eq!(row.taken, Some((1_204_365_605_000_000, 10_000_000_000)));
        assert_eq!((row.session.sid, row.delta), (&b"117"[..], 123_456));
        let loose = line.replace("20080301", "2008-03-01");
        assert_eq!(self::row(&columns, &loose), row);
    }

    #[test]
    fn rounded_growth_is_read_where_there_is_no_other() {
        let columns = Columns::of(
            b" SID @INST, USERNAME  , TYPE, STATISTIC           ,     HDELTA, HDELTA/SEC,    %TIME, GRAPH",
        )
        .expect("a heading");
        for (line, delta) in [
            (
                "  1090  @1, TANEL     , STAT, session logical reads ,     64.25M,    491.58k,         ,",
                64_250_000,
            ),
            (
                "  1090  @1, TANEL     , WAIT, db file, a and b      ,     -1.5ms,     .02us,",
                -1_500,
            ),
            (
                "  1090  @1, TANEL     , TIME, DB time               ,    114.17s,   873.58ms,",
                114_170_000,
            ),
        ] {
            let row = row(&columns, line);
            assert_eq!((row.delta, row.is_rounded), (delta, true), "{line}");
        }
        assert_eq!(
            columns.line(b"  1090  @1, TANEL     , TIME, DB time               ,   ########,   873.58ms,"),
            Meaning::Damaged
        );
    }

    #[test]
    fn what_is_no_row_is_told_from_a_damaged_one() {
        let columns =
            Columns::of(b"    SID, USERNAME  , TYPE, STATISTIC ,         DELTA").expect("a heading");
        for damaged in [
            "   1136, SYSTEM    , STAT, some     , #############",
            "   1136, SYSTEM    , STAT, some     ,",
            "   1136, SYSTEM    , STAT",
            "   11x6, SYSTEM    , TIME, some     ,            12",
        ] {
            assert_eq!(columns.line(damaged.as_bytes()), Meaning::Damaged, "{damaged}");
        }
        for other in [
            "",
            ",",
            "391,579,324,969 cycles",
            "select a, b, c, d, 5 from t",
            ",,,,,,,,,",
        ] {
            assert_eq!(columns.line(other.as_bytes()), Meaning::Other, "{other}");
        }
        for no_heading in [
            "SID, TYPE, STATISTIC, HDELTA/SEC",
            "TYPE",
            "DELTA, TYPE, STATISTIC",
        ] {
            assert!(Columns::of(no_heading.as_bytes()).is_none(), "{no_heading}");
        }
    }
}
