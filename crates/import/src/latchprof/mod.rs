//! What LatchProfX and LatchProf (Tanel Poder) print: who held Oracle's latches, by samples.
//!
//! # Format
//! ```text
//! SQL> @latchprofx sid,name,hmode,func % % 100000
//!
//! -- LatchProfX 2.02 by Tanel Poder ( http://www.tanelpoder.com )
//!
//!        SID NAME                                HMODE        FUNC             …       Held       Gets  Held %     Held ms Avg hold ms
//! ---------- ----------------------------------- ------------ -----------------… ---------- ---------- ------- ----------- -----------
//!        146 cache buffers chains                exclusive    kcbgtcr: kslbegin…        125         12     .13       3.625        .302
//! ```
//! The first columns are those that were asked for. The number of samples and the time they took are not printed: see [`run`]. Anything
//! else in the file (usually the spool of a whole session) is skipped, unless it is a damaged row.
//!
//! # Rows
//! A row of the table is a row. The file has no times: its runs follow one another, on a clock of their own.

mod columns;
mod run;

use std::io::Read;
use std::path::Path;

use arcstr::ArcStr;
use dbtime_model::counter::{self, latch_samples};
use dbtime_model::recording::{Clock, ImportedFile, Unit};
use dbtime_model::{
    BackendType, CounterRow, HeldLockRow, NO_STACK, Rows, SessionId, SessionRow, State, StatementRow, Wait,
};

use crate::import::unknown_line;
use crate::latch_mode::{LatchMode, place};
use crate::lines::Line;
use crate::oracle_session::described;
use crate::oracle_trace::statement_id;
use crate::text::{decimal, without_escapes};
use crate::{Import, ImportError, Importer, Lines, Measure};
use columns::{Columns, Meaning, Row, is_heading, is_rule};
use run::{Length, Run};

const BANNER: &[u8] = b"-- LatchProf";

/// The session of rows if the table has no SID.
const NOT_TOLD: &str = "[not told apart]";

const SECOND_US: i64 = 1_000_000;

/// The importer of this format.
#[derive(Debug)]
pub(crate) struct LatchProf;

impl Importer for LatchProf {
    fn name(&self) -> &'static str {
        "tables of LatchProfX or LatchProf"
    }

    fn detect(&self, head: &[u8]) -> bool {
        head.split(|byte| *byte == b'\n')
            .any(|line| is_heading(line) || line.starts_with(BANNER))
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
            of_command: None,
            heading: Vec::new(),
            place: Place::Outside,
            last_rule: 0,
            run: Run::default(),
            is_below_row: false,
            end_us: 0,
            runs: 0,
        };
        while let Some(line) = lines.next_line() {
            reader.line(line);
        }
        reader.finish(lines.number());
        Ok(())
    }
}

/// Where in the file it is.
#[derive(Debug)]
enum Place {
    Outside,
    /// Below headings that are kept: the rule is next.
    BelowHeading,
    InTable(Box<Columns>),
}

struct Reader<'a> {
    into: &'a mut Import,
    file: ImportedFile,
    of_command: Option<u64>,
    heading: Vec<u8>,
    place: Place,
    /// The line of the last rule.
    last_rule: u64,
    run: Run,
    /// The previous line was a row: this one may have more of its name.
    is_below_row: bool,
    /// The end of the previous run.
    end_us: i64,
    runs: u64,
}

impl Reader<'_> {
    fn line(&mut self, line: Line<'_>) {
        let text = without_escapes(line.bytes);
        let text = text.trim_ascii_end();
        if text.starts_with(BANNER) {
            self.end_run();
            self.place = Place::Outside;
        } else if let Some(samples) = samples_of_command(text) {
            self.end_run();
            self.place = Place::Outside;
            self.of_command = Some(samples);
        } else if is_heading(text) {
            // A rule in the line before: the table has two lines for each row.
            self.place = if self.last_rule > 0 && self.last_rule + 1 == line.number {
                let path = &self.file.path;
                self.into.problem(format!(
                    "{path}:{}: the table is wrapped, because the lines of SQL*Plus were too short for it, \
                     and is not read: SET LINESIZE 300 and run it again",
                    line.number
                ));
                Place::Outside
            } else {
                self.heading = text.to_vec();
                Place::BelowHeading
            };
        } else if is_rule(text) {
            self.last_rule = line.number;
            self.place = match (&self.place, Columns::of(&self.heading, text)) {
                // The same headings again are those of another page.
                (Place::BelowHeading, Some(columns)) => Place::InTable(Box::new(columns)),
                _ => Place::Outside,
            };
        } else if let Place::InTable(columns) = &self.place {
            let is_below_row = std::mem::take(&mut self.is_below_row);
            match columns.line(text, line.number) {
                Meaning::Row(row) => self.is_below_row = self.run.add(row),
                Meaning::MoreOfName(more) => {
                    if let Some(row) = self.run.rows.last_mut().filter(|_| is_below_row) {
                        row.name = columns.joined(&row.name, &more);
                        self.is_below_row = true;
                    }
                }
                Meaning::Damaged => unknown_line(&mut self.file, line.number, line.bytes),
                // A truncated last line, unless it is the prompt of SQL*Plus.
                Meaning::Other if !line.ended && !text.is_empty() && !text.starts_with(b"SQL>") => {
                    unknown_line(&mut self.file, line.number, line.bytes);
                }
                Meaning::Other => {}
            }
        }
    }

    /// Turns what was read of a run into rows.
    fn end_run(&mut self) {
        let mut run = std::mem::take(&mut self.run);
        run.of_command = self.of_command.take();
        if run.rows.is_empty() {
            return;
        }
        let path = self.file.path.clone();
        let first = run.rows[0].line;
        let (wrong, length) = run.solve();
        for line in &wrong {
            self.into.problem(format!(
                "{path}:{line}: left out, because its numbers contradict each other or those of the other \
                 rows"
            ));
        }
        if run.without_room > 0 {
            self.into.problem(format!(
                "{path}: rows left out because a table has more than LatchProfX prints: {}",
                run.without_room
            ));
        }
        let Some(length) = length else {
            if !run.rows.is_empty() {
                self.into.problem(format!(
                    "{path}:{first}: the table does not show how long was sampled: it is left out"
                ));
            }
            return;
        };
        let Length { samples, range, .. } = length;
        if range.0 != range.1 {
            self.into.problem(format!(
                "{path}:{first}: how many samples were taken is not printed: {samples} are assumed, between \
                 {} and {} by the numbers of the table",
                range.0, range.1
            ));
        }
        if run.rows.len() + wrong.len() >= 20 {
            self.into.problem(format!(
                "{path}:{first}: LatchProfX prints 20 rows at most (LatchProf 30): what else was held is not in the file"
            ));
        }
        self.rows(&run.rows, length);
    }

    fn rows(&mut self, rows: &[Row], length: Length) {
        let begin_us = self.end_us;
        let us = i64::try_from(length.us).unwrap_or(i64::MAX);
        self.end_us = begin_us.saturating_add(us);
        self.runs += 1;
        // Imported rows are in the second in which they ended.
        let second = self.end_us.saturating_sub(1).div_euclid(SECOND_US) * SECOND_US;
        for (name, value) in [
            (
                latch_samples::SAMPLES,
                i64::try_from(length.samples).unwrap_or(i64::MAX),
            ),
            (latch_samples::NS, us.saturating_mul(1000)),
        ] {
            self.into.counter(CounterRow {
                time: second,
                session: SessionId::RECORDER,
                source: counter::LATCH_SAMPLES.into(),
                name: name.into(),
                value,
                ..CounterRow::default()
            });
        }
        for row in rows {
            let held_lock = self.held_lock(row, second, length);
            self.into.rows(Rows {
                held_locks: vec![held_lock],
                ..Rows::default()
            });
        }
    }

    fn held_lock(&mut self, row: &Row, second: i64, length: Length) -> HeldLockRow {
        let sid = row.sid.map(|sid| sid.to_string()).unwrap_or_default();
        let title = if sid.is_empty() { NOT_TOLD } else { "" };
        let identity = format!("{}\0{sid}", self.file.path);
        let session = SessionRow {
            backend_type: BackendType::UNKNOWN.into(),
            started: 0,
            ..described(&sid, false, "", title)
        };
        let session = self.into.session(&identity, session);
        let statement = match row.sql_id.as_str() {
            "" => 0,
            sql_id => {
                let id = statement_id(sql_id.as_bytes());
                self.into.statement(StatementRow {
                    id,
                    sql_id: sql_id.to_string(),
                    ..StatementRow::default()
                });
                id
            }
        };
        let wait = Wait::not_recorded();
        let mode = LatchMode::of(row.mode.as_bytes());
        let by = length.samples.max(1);
        let ns = (2000 * length.us * u128::from(row.held) + by) / (2 * by);
        HeldLockRow {
            time: second,
            session,
            statement,
            lock: match row.name.as_str() {
                "" => NOT_TOLD.into(),
                name => name.into(),
            },
            number: None,
            address: row.address,
            file: ArcStr::new(),
            relation: ArcStr::new(),
            block: None,
            exclusive: mode == LatchMode::Exclusive,
            mode_unknown: mode == LatchMode::NotKnown,
            wait_class: wait.class.clone(),
            wait_event: wait.event.clone(),
            state: State::Unknown,
            kernel_stack: NO_STACK,
            user_stack: place(&row.code, &row.label, self.into),
            ns: u64::try_from(ns).unwrap_or(u64::MAX),
            samples: row.held,
            gets: row.gets.unwrap_or(0),
        }
    }

    fn finish(mut self, lines: u64) {
        self.end_run();
        self.file.lines = lines;
        self.into.database("Oracle Database", "");
        self.into.set_measure(Measure {
            sampled: true,
            unit: Unit::Time,
            clock: Clock::Relative,
        });
        self.into.begins(0);
        self.into.ends(self.end_us);
        match self.runs {
            0 => self.into.problem(format!(
                "{}: no readable table of LatchProfX: who held latches is not known",
                self.file.path
            )),
            _ => self.into.has_held_locks(),
        }
        self.into.file(self.file);
    }
}

/// The number of samples that `@latchprofx WHAT SID NAME SAMPLES` asks for.
fn samples_of_command(line: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(line, b"@latchprof")?;
    line[at..].split(u8::is_ascii_whitespace).rev().find_map(decimal)
}
