//! The lines that a trace of 10g or later mostly consists of, read fast.
//!
//! Neighbouring lines are much alike: numbers of cursors, and all but the last digits of `tim`, are compared with those of the previous
//! line, and only parsed if they differ. What is not in the usual form is left to [`super::record::parse`]; what is read here gives the
//! same result.

use super::number::{CHUNK, eight_digits_of, few_digits, unsigned_prefix, unsigned_suffix};
use super::record::{CallKind, CallLine, WaitLine, Where, has_capital_letter};

/// Bytes that are compared at once.
const WIDE: usize = 16;

/// What the previous lines said.
#[derive(Debug, Default)]
pub(super) struct Usual {
    cursor: LastCursor,
    tim: LastTim,
}

impl Usual {
    /// `WAIT #N: nam='…' ela= N … tim=N`, and whether it is the event whose name is expected.
    #[inline]
    pub(super) fn wait<'a>(&mut self, line: &'a [u8], expected: &[u8]) -> Option<(WaitLine<'a>, bool)> {
        let (cursor, rest) = self.cursor.read(line.strip_prefix(b"WAIT #")?)?;
        let rest = rest.strip_prefix(b": nam='")?;
        let is_expected = rest.get(expected.len()) == Some(&b'\'') && rest.starts_with(expected);
        let end = match is_expected {
            true => expected.len(),
            false => memchr::memchr(b'\'', rest)?,
        };
        let (event, rest) = rest.split_at_checked(end).filter(|_| end > 0)?;
        let (ela, rest) = unsigned_prefix(rest.strip_prefix(b"' ela= ")?)?;
        let (parameters, tim) = self.tim.read(rest)?;
        let at = usual_where(parameters);
        // A second record on the line would begin with a capital letter.
        if at.is_none() && has_capital_letter(parameters) {
            return None;
        }
        let wait = WaitLine {
            cursor,
            event,
            ela,
            tim: Some(tim),
            rest: &[],
            parameters,
            at,
        };
        Some((wait, is_expected))
    }

    /// The fields that a call of 11g or later has, in their order.
    #[inline]
    pub(super) fn call(&mut self, line: &[u8]) -> Option<CallLine<'static>> {
        let (kind, rest) = match line {
            [b'E', b'X', b'E', b'C', b' ', b'#', rest @ ..] => (CallKind::Exec, rest),
            [b'F', b'E', b'T', b'C', b'H', b' ', b'#', rest @ ..] => (CallKind::Fetch, rest),
            [b'C', b'L', b'O', b'S', b'E', b' ', b'#', rest @ ..] => (CallKind::Close, rest),
            [b'P', b'A', b'R', b'S', b'E', b' ', b'#', rest @ ..] => (CallKind::Parse, rest),
            _ => return None,
        };
        let (cursor, rest) = self.cursor.read(rest)?;
        let (rest, tim) = self.tim.read(rest)?;
        let (c, rest) = few_digits(rest.strip_prefix(b":c=")?)?;
        let (e, rest) = few_digits(rest.strip_prefix(b",e=")?)?;
        let mut call = CallLine {
            kind,
            cursor,
            c,
            e,
            p: 0,
            cr: 0,
            cu: 0,
            mis: 0,
            r: 0,
            plh: 0,
            dep: None,
            tim: Some(tim),
            rest: &[],
        };
        let dep;
        let mut rest = rest;
        if let Some(close) = rest.strip_prefix(b",dep=") {
            (dep, rest) = few_digits(close)?;
            (_, rest) = few_digits(rest.strip_prefix(b",type=")?)?;
        } else {
            (call.p, rest) = few_digits(rest.strip_prefix(b",p=")?)?;
            (call.cr, rest) = few_digits(rest.strip_prefix(b",cr=")?)?;
            (call.cu, rest) = few_digits(rest.strip_prefix(b",cu=")?)?;
            (call.mis, rest) = few_digits(rest.strip_prefix(b",mis=")?)?;
            (call.r, rest) = few_digits(rest.strip_prefix(b",r=")?)?;
            (dep, rest) = few_digits(rest.strip_prefix(b",dep=")?)?;
            (_, rest) = few_digits(rest.strip_prefix(b",og=")?)?;
            (call.plh, rest) = unsigned_prefix(rest.strip_prefix(b",plh=")?)?;
        }
        call.dep = u32::try_from(dep).ok();
        (rest == b",").then_some(call)
    }
}

/// The parameters that most waits for a block have: ` file#=7 block#=29 blocks=1 obj#=82 `.
#[inline]
fn usual_where(parameters: &[u8]) -> Option<Where> {
    let (file, rest) = few_digits(parameters.strip_prefix(b" file#=")?)?;
    let (_, rest) = few_digits(rest.strip_prefix(b" block#=")?)?;
    let (blocks, rest) = few_digits(rest.strip_prefix(b" blocks=")?)?;
    let (object, rest) = few_digits(rest.strip_prefix(b" obj#=")?)?;
    let object = i64::try_from(object).ok()?;
    (rest == b" ").then_some(Where {
        file: Some(file),
        object: Some(object),
        blocks: Some(blocks),
    })
}

/// The number of a cursor and the colon after it, as on the previous line.
#[derive(Debug, Default)]
struct LastCursor {
    text: u128,
    /// The bytes of `text` that count: none before there was one.
    mask: u128,
    digits: usize,
    number: u64,
}

impl LastCursor {
    /// The number that `text` begins with, and what follows it.
    #[inline]
    fn read<'a>(&mut self, text: &'a [u8]) -> Option<(u64, &'a [u8])> {
        if let Some(wide) = text.first_chunk::<WIDE>()
            && self.mask != 0
            && u128::from_le_bytes(*wide) & self.mask == self.text
        {
            return Some((self.number, &text[self.digits..]));
        }
        self.other(text)
    }

    fn other<'a>(&mut self, text: &'a [u8]) -> Option<(u64, &'a [u8])> {
        let (number, rest) = unsigned_prefix(text)?;
        let digits = text.len() - rest.len();
        if let Some(wide) = text.first_chunk::<WIDE>()
            && digits < WIDE
            && rest[0] == b':'
        {
            self.mask = u128::MAX >> (8 * (WIDE - digits - 1));
            self.text = u128::from_le_bytes(*wide) & self.mask;
            (self.digits, self.number) = (digits, number);
        }
        Some((number, rest))
    }
}

/// `tim=` and all but the last eight digits of the number after it, as they end the previous line.
#[derive(Debug, Default)]
struct LastTim {
    text: u128,
    /// The bytes of `text` that count: none before there was one.
    mask: u128,
    length: usize,
    /// The number whose last eight digits are 0.
    number: u64,
}

impl LastTim {
    /// What comes before the `tim=N` that the line ends with, and its number.
    #[inline]
    fn read<'a>(&mut self, line: &'a [u8]) -> Option<(&'a [u8], u64)> {
        if let Some((head, last)) = line.split_last_chunk::<CHUNK>()
            && let Some(wide) = head.last_chunk::<WIDE>()
            && self.mask != 0
            && u128::from_le_bytes(*wide) & self.mask == self.text
            && let Some(digits) = eight_digits_of(*last)
        {
            return Some((&head[..head.len() - self.length], self.number + digits));
        }
        self.other(line)
    }

    fn other<'a>(&mut self, line: &'a [u8]) -> Option<(&'a [u8], u64)> {
        const NAME: &[u8] = b"tim=";
        let (before, tim) = unsigned_suffix(line)?;
        let digits = line.len() - before.len();
        let before = before.strip_suffix(NAME)?;
        if let Some((head, last)) = line.split_last_chunk::<CHUNK>()
            && let Some(wide) = head.last_chunk::<WIDE>()
            && let Some(last) = eight_digits_of(*last)
            && digits > CHUNK
        {
            self.length = NAME.len() + digits - CHUNK;
            self.mask = u128::MAX << (8 * (WIDE - self.length));
            self.text = u128::from_le_bytes(*wide) & self.mask;
            self.number = tim - last;
        }
        Some((before, tim))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::record::{Record, parse};
    use super::*;

    /// A number as in a trace, or something that is not one.
    fn number() -> impl Strategy<Value = String> {
        prop_oneof![
            8 => (0u64..20).prop_map(|n| n.to_string()),
            8 => (0u64..100_000).prop_map(|n| n.to_string()),
            4 => (999_999_000u64..1_000_001_000).prop_map(|n| n.to_string()),
            4 => (139_623_166_535_000u64..139_623_166_535_003).prop_map(|n| n.to_string()),
            2 => any::<u64>().prop_map(|n| n.to_string()),
            1 => "0{0,3}[0-9]{0,24}[a-z ,:]?",
        ]
    }

    fn wait() -> impl Strategy<Value = String> {
        let event = prop::sample::select(vec!["a", "", "db file sequential read", "b: nam="]);
        let parameters = prop_oneof![
            (number(), number(), number(), number())
                .prop_map(|(a, b, c, d)| format!("file#={a} block#={b} blocks={c} obj#={d}")),
            (number(), number()).prop_map(|(a, b)| format!("driver id={a} #bytes=1 p3=0 obj#={b}")),
            number().prop_map(|a| format!("p1={a} tim=7WAIT #1: nam='x' ela= {a}")),
        ];
        (number(), event, number(), parameters, number()).prop_map(|(cursor, event, ela, parameters, tim)| {
            format!("WAIT #{cursor}: nam='{event}' ela= {ela} {parameters} tim={tim}")
        })
    }

    fn call() -> impl Strategy<Value = String> {
        let kind = prop::sample::select(vec!["EXEC", "FETCH", "PARSE", "CLOSE", "UNMAP"]);
        let numbers = prop::collection::vec(number(), 12);
        (kind, any::<bool>(), numbers).prop_map(|(kind, long, of)| {
            let fields = if long {
                format!(
                    "p={},cr={},cu={},mis={},r={},dep={},og={},plh={}",
                    of[3], of[4], of[5], of[6], of[7], of[8], of[9], of[10]
                )
            } else {
                format!("dep={},type={}", of[3], of[4])
            };
            format!(
                "{kind} #{}:c={},e={},{fields},tim={}",
                of[0], of[1], of[2], of[11]
            )
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn what_is_read_is_what_the_parser_of_all_lines_reads(
            lines in prop::collection::vec(prop_oneof![wait(), call()], 1..12),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 0..3),
        ) {
            let mut lines: Vec<Vec<u8>> = lines.into_iter().map(String::into_bytes).collect();
            for (line, at, byte) in damage {
                let line = line.index(lines.len());
                let at = at.index(lines[line].len());
                lines[line][at] = byte;
            }
            let mut usual = Usual::default();
            let mut expected = Vec::new();
            for line in &lines {
                let wait = usual.wait(line, &expected);
                if let Some((wait, is_expected)) = &wait {
                    prop_assert_eq!(*is_expected, wait.event == expected);
                    expected = wait.event.to_vec();
                }
                let (wait, call) = (wait.map(|(wait, _)| wait), usual.call(line));
                let record = parse(line);
                let same = match (wait, call, record) {
                    (None, None, _) => true,
                    (Some(wait), None, Some(Record::Wait(of))) => {
                        (wait.cursor, wait.event, wait.ela, wait.tim, wait.rest)
                            == (of.cursor, of.event, of.ela, of.tim, of.rest)
                            && wait.place(Some(b" p3"), true) == of.place(Some(b" p3"), true)
                    }
                    (None, Some(call), Some(Record::Call(of))) => call == of,
                    _ => false,
                };
                prop_assert!(same, "{}: {wait:?} {call:?} {record:?}", String::from_utf8_lossy(line));
            }
        }
    }

    /// Lines of every kind that is usual, so that the test above tests something.
    #[test]
    fn usual_lines_are_read_whether_the_line_before_was_alike_or_not() {
        let mut usual = Usual::default();
        for (cursor, tim) in [
            (139_623_166_535_008, 1_000_012_345_678),
            (139_623_166_535_008, 1_000_099_999_999),
            (7, 1_000_100_000_000),
            (139_623_166_535_016, 1_377_520_823_034_521),
            (139_623_166_535_016, 99_999_999),
            (1, 5),
        ] {
            let line = format!(
                "WAIT #{cursor}: nam='direct path read' ela= 12 file#=7 block#=29 blocks=8 obj#=82 tim={tim}"
            );
            let wait = usual.wait(line.as_bytes(), b"log").expect("it is usual").0;
            assert_eq!((wait.cursor, wait.ela, wait.tim), (cursor, 12, Some(tim)));
            let at = wait.at.expect("where it was");
            assert_eq!((at.file, at.object, at.blocks), (Some(7), Some(82), Some(8)));
            let line = format!("WAIT #{cursor}: nam='log file sync' ela= 9 buffer#=7 p3=0 obj#=-1 tim={tim}");
            let wait = usual.wait(line.as_bytes(), b"log").expect("it is usual").0;
            assert_eq!((wait.at, wait.tim), (None, Some(tim)));
            let line =
                format!("EXEC #{cursor}:c=1,e=20,p=3,cr=4,cu=5,mis=0,r=7,dep=0,og=1,plh=272502803,tim={tim}");
            let call = usual.call(line.as_bytes()).expect("it is usual");
            assert_eq!(
                (call.cursor, call.e, call.cu, call.plh, call.tim),
                (cursor, 20, 5, 272_502_803, Some(tim))
            );
            let line = format!("CLOSE #{cursor}:c=1,e=2,dep=3,type=0,tim={tim}");
            let call = usual.call(line.as_bytes()).expect("it is usual");
            assert_eq!(
                (call.kind, call.dep, call.tim),
                (CallKind::Close, Some(3), Some(tim))
            );
        }
    }
}
