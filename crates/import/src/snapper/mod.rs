//! What Session Snapper (Tanel Poder) prints: growth of statistics, time model and waits of Oracle sessions.
//!
//! # Format
//! ```text
//! -- Session Snapper v4.15 …
//!  SID @INST, USERNAME  , TYPE, STATISTIC    ,         DELTA, HDELTA/SEC,    %TIME, GRAPH       , NUM_WAITS, …
//!   1090  @1, TANEL     , WAIT, db file …    ,      17099937,   130.85ms,    13.1%, [WW        ],         1, …
//!
//! --  End of Stats snap 1, end=2014-11-01 20:50:06, seconds=130.7
//! ```
//! The columns differ between versions and are set in the script; the heading says which they are, once for all snapshots of a run. Version
//! 1 ends its snapshots without a time: its rows say when they began and how many seconds they took. Anything else in the file (usually the
//! spool of a whole session) is skipped, unless it is a damaged row.
//!
//! # Rows
//! See [`crate::session_growth`]. A session is a SID and its user name in a file. Rows of SID -1 (latches, enqueues, buffers) are counted
//! by the whole instance, and belong to no session. If a table has no exact numbers, the rounded ones (HDELTA) are read. Each snapshot is a
//! period of its own ([`dbtime_model::recording::Meta::periods`]). Samples of active sessions (ASH) are only read if a file has nothing
//! else: next to statistics and waits, they would count the same time twice. So they are held back until the end of the file.

mod ash;
mod columns;
mod length;
mod snapshot;

use std::io::Read;
use std::path::Path;

use dbtime_model::recording::{Clock, CoveredPeriod, ImportedFile};

use crate::import::unknown_line;
use crate::lines::Line;
use crate::names::Names;
use crate::oracle_trace::events::Events;
use crate::oracle_trace::wall_clock;
use crate::periods::Periods;
use crate::session_growth::Interval;
use crate::text::{decimal, printed_billionths};
use crate::{Import, ImportError, Importer, Lines, Measure};
use ash::{Ash, Sampling};
use columns::{Columns, Meaning};
use snapshot::Snapshot;

const BANNER: &[u8] = b"-- Session Snapper v";

const END_OF_SAMPLES: &[u8] = b"--  End of ASH snap ";

const NO_ZONE: &str = "Snapper does not print a time zone: its times are taken as UTC";
const ROUNDED: &str =
    "Snapper printed rounded growth (HDELTA), not exact growth (DELTA): numbers have about three digits";
const NO_SAMPLES: &str =
    "Snapper's samples of active sessions (ASH) are left out: statistics, time model and waits are read";
const SAMPLES: &str =
    "Snapper printed only samples of active sessions (ASH): shares have two digits, and idle time is missing";

/// Most rows waiting for the end of their snapshot: one of a thousand sessions has a hundred thousand.
const MAX_ROWS: usize = 1_000_000;

const SECOND_US: i64 = 1_000_000;

/// Most rows of samples held back. If so many come before the first statistic, there will be none.
const MAX_HELD_BACK: usize = 200_000;

/// Memory of a snapshot without its rows, counted in rows.
const SNAPSHOT_WEIGHT: usize = 10;

/// The importer of this format.
#[derive(Debug)]
pub(crate) struct Snapper;

impl Importer for Snapper {
    fn name(&self) -> &'static str {
        "Snapper"
    }

    fn detect(&self, head: &[u8]) -> bool {
        let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
        let first_version = Columns::of_first_version();
        lines.any(|line| {
            let is_row = || match &first_version {
                Some(columns) if line.starts_with(b"DATA,") => matches!(columns.line(line), Meaning::Row(_)),
                _ => false,
            };
            line.starts_with(BANNER)
                || line.starts_with(END_OF_SAMPLES)
                || Columns::of(line).is_some()
                || is_row()
        })
    }

    fn import(
        &self,
        lines: &mut Lines<Box<dyn Read + '_>>,
        path: &Path,
        into: &mut Import,
    ) -> Result<(), ImportError> {
        let mut reader = Reader {
            into,
            file: crate::import::file(path),
            events: Events::new(),
            names: Names::default(),
            columns: None,
            first_version: Columns::of_first_version(),
            open: Snapshot::default(),
            ash: Ash::default(),
            held_back: Vec::new(),
            held_back_rows: 0,
            sampled: 0,
            quiet: Periods::default(),
            early: Vec::new(),
            early_rows: 0,
            first_us: None,
            last_us: None,
            covered: Covered::default(),
            read: 0,
            without_end: Told::default(),
            left_out: Told::default(),
            disappeared: Told::default(),
        };
        while let Some(line) = lines.next_line() {
            reader.line(line);
        }
        reader.finish(lines.number());
        Ok(())
    }
}

/// How often something happened, and where first.
#[derive(Debug, Default)]
struct Told {
    count: u64,
    line: u64,
}

impl Told {
    fn at(&mut self, line: u64) {
        if self.count == 0 {
            self.line = line;
        }
        self.count += 1;
    }
}

/// How much of the time from the first to the last snapshot they cover.
#[derive(Debug, Default)]
struct Covered {
    snapshots: u64,
    us: i64,
}

struct Reader<'a> {
    into: &'a mut Import,
    file: ImportedFile,
    events: Events,
    names: Names,
    columns: Option<Columns>,
    first_version: Option<Columns>,
    /// The snapshot whose rows are being read.
    open: Snapshot,
    /// Samples that are being read.
    ash: Ash,
    /// Samples, as long as there is nothing else in the file.
    held_back: Vec<(Sampling, Ash)>,
    held_back_rows: usize,
    /// Rows of samples.
    sampled: u64,
    /// Snapshots in which nothing grew, before the first statistic.
    quiet: Periods,
    /// Snapshots without a time, from before the first time in the file.
    early: Vec<Snapshot>,
    early_rows: usize,
    /// When the first snapshot began.
    first_us: Option<i64>,
    /// When the last snapshot ended.
    last_us: Option<i64>,
    covered: Covered,
    read: u64,
    without_end: Told,
    left_out: Told,
    disappeared: Told,
}

impl Reader<'_> {
    fn line(&mut self, line: Line<'_>) {
        let text = line.bytes.trim_ascii_end();
        if let Some(about) = text.strip_prefix(b"--") {
            if line.ended {
                self.comment(about.trim_ascii_start());
            }
            return;
        }
        if line.ended && self.ash.line(text) {
            return;
        }
        let of_first_version = self.first_version.as_ref().filter(|_| text.starts_with(b"DATA,"));
        let Some(columns) = self.columns.as_ref().or(of_first_version) else {
            self.heading(text);
            return;
        };
        match columns.line(text) {
            // The last number of a truncated line may be truncated, too.
            Meaning::Row(_) | Meaning::Damaged if !line.ended => {
                unknown_line(&mut self.file, line.number, line.bytes);
            }
            Meaning::Row(row) => {
                if self.open.is_another(&row) {
                    self.end_by_rows(true);
                }
                if self.early_rows + self.open.len() >= MAX_ROWS
                    || !self.open.add(&row, line.number, &mut self.names)
                {
                    // What is left out may be waits.
                    self.open.is_damaged = true;
                    self.left_out.at(line.number);
                } else {
                    self.read += 1;
                }
            }
            Meaning::Damaged => {
                self.open.is_damaged = true;
                unknown_line(&mut self.file, line.number, line.bytes);
            }
            Meaning::Other if text.starts_with(b"WARN, Session has disappeared") => {
                self.disappeared.at(line.number);
            }
            Meaning::Other => self.heading(text),
        }
    }

    /// A heading starts a run: a snapshot that is still open was cut off.
    fn heading(&mut self, text: &[u8]) {
        if let Some(columns) = Columns::of(text) {
            self.end_by_rows(false);
            self.columns = Some(columns);
        }
    }

    /// A line that begins with `--`.
    fn comment(&mut self, about: &[u8]) {
        if about.starts_with(b"Session Snapper v") {
            self.end_by_rows(false);
        } else if about.starts_with(b"End of ASH snap") {
            self.end_samples(about);
        } else if about.starts_with(b"End of Stats snap") || about.starts_with(b"End of snap") {
            match end(about) {
                Some((end_us, printed_ns)) => {
                    let elapsed_ns = self.open.length.finish(printed_ns);
                    self.end(end_us.saturating_sub(elapsed_ns / 1000), end_us, elapsed_ns, true)
                }
                // Version 1: its rows have the time.
                None => self.end_by_rows(true),
            }
        }
    }

    /// The open snapshot ends, and only its rows can say when it was.
    fn end_by_rows(&mut self, is_whole: bool) {
        if let Some((begin_us, elapsed_ns)) = self.open.taken {
            self.end(
                begin_us,
                begin_us.saturating_add(elapsed_ns / 1000),
                elapsed_ns,
                is_whole,
            );
        } else if self.open.len() > 0 {
            self.without_end.at(self.open.line);
            let snapshot = std::mem::take(&mut self.open);
            match self.last_us {
                Some(last_us) => self.add_without_time(snapshot, last_us.saturating_sub(1)),
                None => {
                    self.early_rows += snapshot.len() + SNAPSHOT_WEIGHT;
                    self.early.push(snapshot);
                }
            }
        }
    }

    fn end(&mut self, begin_us: i64, end_us: i64, elapsed_ns: i64, is_whole: bool) {
        let snapshot = std::mem::take(&mut self.open);
        let period = CoveredPeriod {
            from_us: begin_us,
            to_us: end_us,
            elapsed_ns: elapsed_ns.unsigned_abs(),
        };
        if snapshot.len() == 0 {
            // Nothing grew, but the time passed. In a file of samples only, their ends say so.
            match is_whole {
                true if self.read > 0 => self.into.period(period),
                true => self.quiet.add(period),
                false => {}
            }
            return;
        }
        for period in std::mem::take(&mut self.quiet).finish() {
            self.into.period(period);
        }
        self.early_are_at(begin_us);
        if snapshot.is_rounded {
            self.into.reason(ROUNDED);
        }
        self.into.period(period);
        let interval = Interval {
            begin_us,
            end_us,
            elapsed_ns: Some(elapsed_ns),
            is_whole: is_whole && !snapshot.is_damaged,
        };
        snapshot.finish(
            &interval,
            &self.names,
            &mut self.events,
            &self.file.path,
            self.into,
        );
        self.takes(begin_us, end_us);
        self.covered.snapshots += 1;
        self.covered.us = self.covered.us.saturating_add(elapsed_ns / 1000);
    }

    /// The end of the tables of samples.
    fn end_samples(&mut self, about: &[u8]) {
        let ash = std::mem::take(&mut self.ash);
        let samples = after(about, b"samples_taken=").and_then(|text| {
            let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            decimal(&text[..digits])
        });
        if samples == Some(0) {
            return;
        }
        let end = end(about);
        let (0, Some(samples), Some((end_us, elapsed_ns))) = (self.read, samples, end) else {
            self.into.reason(NO_SAMPLES);
            return;
        };
        let period = CoveredPeriod {
            from_us: end_us.saturating_sub(elapsed_ns / 1000),
            to_us: end_us,
            elapsed_ns: elapsed_ns.unsigned_abs(),
        };
        self.held_back_rows += ash.len() + SNAPSHOT_WEIGHT;
        self.held_back.push((Sampling { period, samples }, ash));
        if self.held_back_rows >= MAX_HELD_BACK {
            self.take_samples();
        }
    }

    /// The file has only samples.
    fn take_samples(&mut self) {
        self.held_back_rows = 0;
        for (of, ash) in std::mem::take(&mut self.held_back) {
            let rate_hz = of.samples as f64 / (of.period.elapsed_ns as f64 / 1e9);
            if rate_hz.is_finite() {
                self.into.rate(rate_hz.round() as u32);
            }
            self.into.period(of.period);
            self.into.reason(SAMPLES);
            self.sampled += ash.finish(of, &self.file.path, &mut self.events, self.into);
            self.takes(of.period.from_us, of.period.to_us);
        }
    }

    /// Extends the time that the file covers.
    fn takes(&mut self, begin_us: i64, end_us: i64) {
        self.first_us = Some(self.first_us.map_or(begin_us, |first| first.min(begin_us)));
        self.last_us = Some(self.last_us.map_or(end_us, |last| last.max(end_us)));
    }

    fn early_are_at(&mut self, us: i64) {
        self.early_rows = 0;
        for snapshot in std::mem::take(&mut self.early) {
            self.add_without_time(snapshot, us);
        }
    }

    fn add_without_time(&mut self, snapshot: Snapshot, us: i64) {
        let interval = Interval {
            begin_us: us,
            end_us: us,
            elapsed_ns: None,
            is_whole: false,
        };
        snapshot.finish(
            &interval,
            &self.names,
            &mut self.events,
            &self.file.path,
            self.into,
        );
    }

    /// Anyone who divides by the time of the whole file has to know how little of it the snapshots cover.
    fn tell_gaps(&mut self, last_us: i64) {
        let all_us = last_us.saturating_sub(self.first_us.unwrap_or(last_us));
        let Covered { snapshots, us } = self.covered;
        // End and length are rounded: consecutive snapshots may seem a second apart.
        if snapshots > 1
            && all_us.saturating_sub(us)
                > i64::try_from(snapshots)
                    .unwrap_or(i64::MAX)
                    .saturating_mul(SECOND_US)
        {
            self.into.reason(&format!(
                "Snapper took {snapshots} snapshots of {:.1} s in total within {:.1} s: nothing is known about the \
                time between them",
                seconds(us),
                seconds(all_us)
            ));
        }
    }

    fn finish(mut self, lines: u64) {
        self.file.lines = lines;
        self.end_by_rows(false);
        self.early_are_at(0);
        if self.read == 0 {
            self.take_samples();
        } else if !self.held_back.is_empty() {
            self.into.reason(NO_SAMPLES);
        }
        let path = &self.file.path;
        if self.without_end.count > 0 {
            self.into.problem(format!(
                "{path}: snapshots without an end: {}, the first begins at line {}: how long they took is not known, \
                and rows may be missing",
                self.without_end.count, self.without_end.line
            ));
        }
        if self.left_out.count > 0 {
            self.into.problem(format!(
                "{path}: {} rows are left out, the first is line {}: {MAX_ROWS} rows of a snapshot are kept, and more \
                names than any database has",
                self.left_out.count, self.left_out.line
            ));
        }
        if self.disappeared.count > 0 {
            self.into.problem(format!(
                "{path}: sessions that disappeared during a snapshot: {}, the first at line {}: what they did is not in the file",
                self.disappeared.count, self.disappeared.line
            ));
        }
        if self.read == 0 && self.sampled == 0 {
            self.into.no_period();
            self.into.problem(format!(
                "{path}: it has no statistics with exact numbers (DELTA): run Snapper with 'stats' or 'all'"
            ));
        }
        self.into.database("Oracle Database", "");
        let clock = match self.last_us {
            Some(last_us) => {
                self.into.reason(NO_ZONE);
                self.tell_gaps(last_us);
                self.into.ends(last_us);
                Clock::Utc
            }
            None => Clock::None,
        };
        self.into.set_measure(Measure {
            sampled: self.sampled > 0,
            clock,
            ..Measure::default()
        });
        self.into.file(self.file);
    }
}

fn seconds(us: i64) -> f64 {
    us as f64 / 1e6
}

/// What follows a key.
fn after<'a>(about: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    memchr::memmem::find(about, key).map(|at| &about[at + key.len()..])
}

/// `End of Stats snap 1, end=2014-11-01 20:50:06, seconds=130.7`: microseconds since the Unix epoch, and nanoseconds.
fn end(about: &[u8]) -> Option<(i64, i64)> {
    let moment = wall_clock(after(about, b"end=")?.get(..19)?)?;
    // In ends of samples, more follows.
    let seconds = after(about, b"seconds=")?;
    let end = memchr::memmem::find(seconds, b", ").unwrap_or(seconds.len());
    Some((moment, printed_billionths(seconds[..end].trim_ascii())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_snapshot_says_when_it_was() {
        // Checked with `date -u -d … +%s`.
        assert_eq!(
            end(b"End of Stats snap 1, end=2014-11-01 20:50:06, seconds=130.7"),
            Some((1_414_875_006_000_000, 130_700_000_000))
        );
        assert_eq!(
            end(b"End of ASH snap 1, end=2014-11-01 20:50:06, seconds=10, samples_taken=96, AAS=1"),
            Some((1_414_875_006_000_000, 10_000_000_000))
        );
        for nothing in [
            "End of snap 1",
            "End of Stats snap 1, end=, seconds=",
            "End of Stats snap 1, end=2014-11-01 20:50:06",
            "End of Stats snap 1, end=2014-11-01 20:50:06, seconds=x",
        ] {
            assert_eq!(end(nothing.as_bytes()), None, "{nothing}");
        }
    }
}
