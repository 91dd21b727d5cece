//! Oracle SQL trace (event 10046), releases 8i to 23ai, as one session wrote it or as trcsess merged it.
//!
//! # Rows
//! Per session (`*** SESSION ID`, or the process of a trcsess merge) and per second of `tim`:
//!
//! * every wait is a row of `activity` in the second in which it **ended** (an `ela` of ten seconds is in one second), with
//!   the statement of its cursor and the state `unknown`, because a trace does not know that of the operating system. Classes
//!   are Oracle's if they are certain, otherwise `unclassified`;
//! * the CPU `c` of a call, less that of the calls in it, as far as they and its waits leave room for it in its elapsed time
//!   `e`: no wait, state `cpu`. CPU beyond that was used inside the waits, and at least that much is counted twice if CPU and
//!   waits are added: counter `cpu_inside_waits_ns`;
//! * what is left of `e`: class `unknown`, event `unaccounted`;
//! * every wait is counted in `latency`, by event and number of blocks;
//! * calls and waits of a statement and plan are summed up in `counters`. A wait, or a parse without a plan, belongs to the
//!   plan that its cursor runs next, otherwise to the one it ran last.
//!
//! If single seconds are not needed ([`crate::Options::summed`]), activity and counters are summed over them: only the first second of a
//! session, and I/O, stay where they were.
//!
//! When the application says what it does (`*** MODULE NAME` and so on), what follows is a session of its own.
//!
//! CPU and the rest of a call are its own, less those of the calls in it (its `c` and `e` include them), and are with its statement; waits
//! are with the statement that waited.
//!
//! # Invariant
//! A wait is inside a call as far as it overlaps `tim − e … tim` (a wait without `tim`, before 10g: unless its name says
//! that it is between calls). To the microsecond, for every session:
//!
//! ```text
//! Σ activity = Σ e of outermost calls + Σ waits between calls + Σ waits beyond their call
//! ```
//!
//! The last term is 0 unless waits of one call add up to more than its `e` (clocks of low resolution); it is the counter
//! `waits_beyond_calls_ns`. LOB calls have no depth: one inside a later call of depth 0 is part of it. A recursive call whose parent is not
//! in the trace is an outermost call (see `elapsed.rs`).
//!
//! # Times
//! `tim` is turned into a time of day by the first `***` line of the session that has one; without an offset from UTC it is
//! taken for UTC. A `tim` that counts microseconds since 1970 is taken as it is.

mod binds;
mod clock;
mod cpu_clock;
mod cursors;
mod dense;
mod elapsed;
pub(crate) mod events;
mod gaps;
mod header;
mod latencies;
mod number;
mod parts;
mod pieces;
mod preview;
mod reader;
mod record;
mod seconds;
mod session;
mod statements;
mod usual;
mod views;
mod wall_clock;

use std::io::Read;
use std::path::Path;
use std::sync::mpsc;

use xxhash_rust::xxh3::xxh3_64;

pub(crate) use binds::MAX_BOUND_EXECUTIONS;
pub(crate) use parts::continued_file;
use pieces::{Piece, Recogniser};
use preview::Preview;
use reader::Reader;
use record::{Mark, Record, parse};
pub(crate) use session::backend_type;
pub(crate) use statements::{MAX_STATEMENTS, MAX_TEXTS, MAX_UNLIKE};
pub(crate) use wall_clock::wall_clock;

use crate::{Import, ImportError, Importer, Lines};

/// Most pieces waiting to be counted.
const WAITING: usize = 4;

/// The importer of this format.
#[derive(Debug)]
pub(crate) struct OracleTrace;

impl Importer for OracleTrace {
    fn name(&self) -> &'static str {
        "Oracle SQL trace (event 10046)"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = head.split(|byte| *byte == b'\n');
        lines.any(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            match parse(line) {
                Some(Record::Wait(_) | Record::Call(_) | Record::Parsing(_) | Record::ParseError(_)) => true,
                Some(Record::Mark(Mark::Session(sid))) => sid.contains(&b'.'),
                _ => false,
            }
        })
    }

    fn import(
        &self,
        lines: &mut Lines<Box<dyn Read + '_>>,
        path: &Path,
        into: &mut Import,
    ) -> Result<(), ImportError> {
        let preview = Preview::of(lines.head());
        let has_idle_cpu = into.has_idle_cpu();
        let mut reader = Reader::new(path, preview, into);
        if has_idle_cpu {
            reader = side_by_side(lines, Recogniser::new(), reader);
        } else {
            while let Some(line) = lines.next_line() {
                reader.line(line);
            }
        }
        reader.finish(lines.number());
        Ok(())
    }
}

/// Recognises lines in this thread, and counts them in another one.
fn side_by_side<'a>(
    lines: &mut Lines<Box<dyn Read + '_>>,
    mut recogniser: Recogniser,
    mut reader: Reader<'a>,
) -> Reader<'a> {
    let (to, pieces) = mpsc::sync_channel::<Piece>(WAITING);
    let (used_to, used) = mpsc::sync_channel::<Piece>(WAITING);
    std::thread::scope(|scope| {
        let counting = scope.spawn(move || {
            let mut numbers = Vec::new();
            for piece in pieces {
                reader.piece(&piece, &mut numbers);
                // Nobody takes it once everything has been recognised.
                let _ = used_to.try_send(piece);
            }
            reader
        });
        loop {
            let line = lines.next_line();
            let is_end = line.is_none();
            if let Some(line) = line {
                recogniser.line(line);
            }
            if recogniser.is_full() || is_end {
                let piece = recogniser.take(used.try_recv().unwrap_or_default());
                if to.send(piece).is_err() || is_end {
                    break;
                }
            }
        }
        drop(to);
        match counting.join() {
            Ok(reader) => reader,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Identity of a statement: hash of its `sql_id`, or of its text if the trace has no `sql_id`.
pub fn statement_id(name: &[u8]) -> u64 {
    xxh3_64(name).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::pieces::Recognised;
    use super::*;
    use crate::Options;
    use crate::lines::Line;

    /// Returns so many bytes at a time: lines are split anywhere.
    struct Dribble<'a>(&'a [u8], usize);

    impl Read for Dribble<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let n = self.1.min(buffer.len());
            self.0.read(&mut buffer[..n])
        }
    }

    /// Everything made of a trace, line by line or in pieces of about so many bytes.
    fn imported(text: &[u8], options: &Options, at_a_time: usize, piece: Option<usize>) -> String {
        let (to, from) = mpsc::sync_channel(1_024);
        let mut into = Import::new(options, to);
        let source: Box<dyn Read + '_> = Box::new(Dribble(text, at_a_time));
        let mut lines = Lines::new(source);
        let preview = Preview::of(lines.head());
        let mut reader = Reader::new(Path::new("made.trc"), preview, &mut into);
        match piece {
            Some(bytes) => reader = side_by_side(&mut lines, Recogniser::of_pieces(bytes), reader),
            None => {
                while let Some(line) = lines.next_line() {
                    reader.line(line);
                }
            }
        }
        reader.finish(lines.number());
        let mut about = into.finish("a trace");
        let named = about.take_rows();
        let rows: Vec<_> = from.into_iter().collect();
        format!("{rows:?}\n{named:?}\n{about:?}")
    }

    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![
            6 => 0u64..300,
            3 => 65_000u64..66_000,
            1 => (1u64 << 32) - 3..(1u64 << 32) + 3,
            1 => any::<u64>(),
        ]
    }

    /// A moment, usually near the others.
    fn tim() -> impl Strategy<Value = u64> {
        let base = 1_377_520_823_034_521u64;
        prop_oneof![
            12 => base..base + 5_000_000,
            2 => base - 9_000_000..base + 9_000_000_000,
            1 => any::<u64>(),
        ]
    }

    fn cursor() -> impl Strategy<Value = u64> {
        prop_oneof![8 => 0u64..4, 2 => (1u64..200).prop_map(|n| 139_623_166_535_000 + 8 * n)]
    }

    fn line() -> impl Strategy<Value = String> {
        let event = prop::sample::select(vec![
            "db file sequential read",
            "direct path read",
            "SQL*Net message from client",
            "gc cr block 2-way",
            "of tomorrow",
        ]);
        let parameters = prop_oneof![
            4 => [number(), number(), number(), number()]
                .prop_map(|[file, block, blocks, object]| format!("file#={file} block#={block} blocks={blocks} obj#={object}")),
            2 => number().prop_map(|n| format!("driver id={n} #bytes=1 p3=8 obj#=-1")),
            1 => number().prop_map(|n| format!("p1={n} p2=5 p3=0 tim=9WAIT #1: nam='x' ela= 3")),
        ];
        let wait = (cursor(), event, number(), parameters, tim()).prop_map(
            |(cursor, event, ela, parameters, tim)| {
                format!("WAIT #{cursor}: nam='{event}' ela= {ela} {parameters} tim={tim}")
            },
        );
        let kind = prop::sample::select(vec!["EXEC", "FETCH", "PARSE", "CLOSE"]);
        let call = (kind, cursor(), [number(), number(), number(), number()], 0u64..3, tim()).prop_map(
            |(kind, cursor, [c, e, cr, r], dep, tim)| match kind {
                "CLOSE" => format!("CLOSE #{cursor}:c={c},e={e},dep={dep},type=3,tim={tim}"),
                _ => format!("{kind} #{cursor}:c={c},e={e},p=1,cr={cr},cu=0,mis=1,r={r},dep={dep},og=1,plh={r},tim={tim}"),
            },
        );
        let others = prop::sample::select(vec![
            "",
            "END OF STMT",
            "select 1 from dual",
            "=====================",
            " Bind#0",
            "  value=7",
            "*** SESSION ID:(1.2) 2013-08-26 14:40:23.034",
            "*** SESSION ID:(3.4) 2013-08-26 14:40:24.034",
            "*** MODULE NAME:(batch) 2013-08-26 14:40:25.034",
            "STAT #1 id=1 cnt=1 pid=0 pos=1 obj=0 op='TABLE ACCESS FULL T (cr=3 pr=0 pw=0 time=29 us)'",
            "Trace file other.trc",
            "something else",
            "\0\0",
        ]);
        prop_oneof![
            8 => wait,
            6 => call,
            1 => (cursor(), 0u64..200, tim()).prop_map(|(cursor, length, tim)| format!(
                "PARSING IN CURSOR #{cursor} len={length} dep=0 uid=9 oct=3 lid=9 tim={tim} hv=7 ad='1' sqlid='id{length}'"
            )),
            1 => cursor().prop_map(|cursor| format!("BINDS #{cursor}:")),
            1 => (cursor(), tim()).prop_map(|(cursor, tim)| format!("ERROR #{cursor}:err=942 tim={tim}")),
            1 => tim().prop_map(|tim| format!("XCTEND rlbk=0, rd_only=1, tim={tim}")),
            4 => others.prop_map(str::to_string),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

        #[test]
        fn pieces_of_any_size_say_what_the_lines_say_one_by_one(
            lines in prop::collection::vec((line(), any::<bool>()), 1..80),
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            (binds, summed, is_whole) in any::<(bool, bool, bool)>(),
            (at_a_time, piece) in (1usize..500, 1usize..3_000),
        ) {
            let mut text = Vec::new();
            for (line, is_dos) in lines {
                text.extend_from_slice(line.as_bytes());
                text.extend_from_slice(if is_dos { b"\r\n" } else { b"\n" });
            }
            for (at, byte) in damage {
                let at = at.index(text.len());
                text[at] = byte;
            }
            if !is_whole {
                text.truncate(text.len() - text.len().min(9));
            }
            let options = Options { binds, summed, ..Options::default() };
            let one_by_one = imported(&text, &options, at_a_time, None);
            prop_assert_eq!(&imported(&text, &options, at_a_time, Some(piece)), &one_by_one);
        }
    }

    /// So that the test above tests something: nearly all lines of a usual trace are handed on as numbers.
    #[test]
    fn usual_lines_are_recognised() {
        let mut recogniser = Recogniser::of_pieces(usize::MAX);
        for n in 0..100 {
            let tim = 1_377_520_823_034_521u64 + 100 * n;
            let wait = format!(
                "WAIT #7: nam='db file sequential read' ela= {n} file#=1 block#=2 blocks=3 obj#=4 tim={tim}"
            );
            let call = format!("EXEC #7:c=0,e=9,p=1,cr=2,cu=0,mis=0,r=0,dep=0,og=1,plh={n},tim={tim}");
            for text in [wait, call, "select".to_string()] {
                recogniser.line(Line {
                    number: n + 1,
                    bytes: text.as_bytes(),
                    ended: true,
                });
            }
        }
        let (mut waits, mut calls, mut others) = (0, 0, 0);
        recogniser
            .take(Piece::default())
            .each(|line, recognised| match recognised {
                Recognised::Wait(wait, _) => {
                    assert_eq!(
                        parse(line.bytes).map(
                            |of| matches!(of, Record::Wait(of) if of.tim == wait.tim && of.ela == wait.ela)
                        ),
                        Some(true)
                    );
                    waits += 1;
                }
                Recognised::Call(call) => {
                    assert_eq!(parse(line.bytes), Some(Record::Call(call)));
                    calls += 1;
                }
                Recognised::Other => others += 1,
            });
        assert_eq!((waits, calls, others), (100, 100, 100));
    }
}
