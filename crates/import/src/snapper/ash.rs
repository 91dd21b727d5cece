//! Snapper's samples of active sessions: tables of average active sessions by selected columns (`ash=sql_id+event`).
//!
//! ```text
//!   ActSes   %Thread | INST | SQL_ID          | SQL_CHILD | EVENT                | WAIT_CLASS
//! ------------------------------------------------------------------------------------------
//!     2.35    (235%) |    2 | g81cbrq5yamf5   | 0         | direct path read     | User I/O
//!
//! --  End of ASH snap 1, end=2015-04-29 08:25:20, seconds=10, samples_taken=96, AAS=2.35
//! ```
//! Older versions begin with `Active%`. Several tables of a snapshot (`ash1=`, `ash2=`) come from the same samples, so only the first one
//! is read. A row's share of the samples is turned into a number of samples, each of which stands for the same amount of time.

use dbtime_model::recording::CoveredPeriod;
use dbtime_model::{
    ActivityRow, BackendType, Fidelity, NO_STACK, SessionId, SessionRow, SessionState, State, StatementRow,
    Wait,
};

use crate::Import;
use crate::oracle_trace::events::Events;
use crate::oracle_trace::statement_id;
use crate::text::printed_billionths;

/// The session of rows if the table has no SID.
const NOT_TOLD: &str = "[not told apart]";
/// What Snapper calls a session that is in no wait.
const ON_CPU: &str = "ON CPU";
/// A longer table is not one of Snapper's.
const MOST_ROWS: usize = 10_000;
/// Most bytes of a text in it.
const MOST_TEXT: usize = 256;

/// When samples were taken, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sampling {
    pub period: CoveredPeriod,
    pub samples: u64,
}

/// The tables of one snapshot.
#[derive(Debug, Default)]
pub(super) struct Ash {
    /// Of the first table; empty before it.
    names: Vec<String>,
    /// A table is open.
    is_open: bool,
    /// It is not the first one.
    is_another: bool,
    rows: Vec<Row>,
}

#[derive(Debug, PartialEq)]
struct Row {
    /// Average active sessions, in billionths.
    active: i64,
    cells: Vec<String>,
}

impl Ash {
    /// Reads a heading, or a row of a table; false for anything else.
    pub(super) fn line(&mut self, text: &[u8]) -> bool {
        if memchr::memchr(b'|', text).is_none() {
            return false;
        }
        let cells: Vec<&[u8]> = text.split(|byte| *byte == b'|').map(<[u8]>::trim_ascii).collect();
        if cells[0].starts_with(b"ActSes") || cells[0].starts_with(b"Active%") {
            self.is_another = self.is_open || !self.names.is_empty();
            self.is_open = true;
            if !self.is_another {
                self.names = cells.into_iter().map(text_of).collect();
            }
            return true;
        }
        // A statistic may have a bar in its name, and the end of the table may be missing.
        let is_row = self.is_open && !cells[0].contains(&b',');
        let (true, Some(active)) = (is_row, active(cells[0])) else {
            return false;
        };
        if !self.is_another && cells.len() == self.names.len() && self.rows.len() < MOST_ROWS {
            self.rows.push(Row {
                active,
                cells: cells.into_iter().map(text_of).collect(),
            });
        }
        true
    }

    /// Rows so far.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Turns all into rows. Returns how many samples there were.
    pub(super) fn finish(self, of: Sampling, path: &str, events: &mut Events, into: &mut Import) -> u64 {
        let mut count = 0;
        for row in &self.rows {
            let cell = |name: &str| {
                let at = self.names.iter().position(|of| of.eq_ignore_ascii_case(name))?;
                row.cells.get(at).map(String::as_str)
            };
            // Fractions of a sample are left by rounding.
            let samples = (row.active as f64 / 1e9 * of.samples as f64).round() as u64;
            if samples == 0 || of.samples == 0 {
                continue;
            }
            let ns = u128::from(of.period.elapsed_ns) * u128::from(samples) / u128::from(of.samples);
            let (wait, state) = waited(cell("EVENT"), cell("WAIT_CLASS"), events);
            let session = session(&cell, of.period.from_us, path, into);
            let statement = statement(cell("SQL_ID"), into);
            into.activity(ActivityRow {
                time: of.period.last_second_us(),
                session,
                statement,
                plan: 0,
                wait_class: wait.class.clone(),
                wait_event: wait.event.clone(),
                idle: wait.idle,
                state,
                session_state: SessionState::None,
                kernel_stack: NO_STACK,
                user_stack: NO_STACK,
                comment: 0,
                ns: u64::try_from(ns).unwrap_or(u64::MAX),
                count: 0,
                samples,
                fidelity: Fidelity::Sampled,
                pooled: false,
            });
            count += 1;
        }
        count
    }
}

fn text_of(cell: &[u8]) -> String {
    String::from_utf8_lossy(&cell[..cell.len().min(MOST_TEXT)]).into_owned()
}

/// `2.35    (235%)`, `235%`: billionths of a session.
fn active(cell: &[u8]) -> Option<i64> {
    let first = cell.split(u8::is_ascii_whitespace).next()?;
    match first.strip_suffix(b"%") {
        Some(percent) => printed_billionths(percent).map(|value| value / 100),
        None => printed_billionths(first),
    }
}

/// The wait, and whether it was on a CPU, as far as the table says.
fn waited(event: Option<&str>, class: Option<&str>, events: &mut Events) -> (Wait, State) {
    match (event, class) {
        (Some(ON_CPU), _) | (None, Some(ON_CPU)) => (Wait::none(), State::Cpu),
        (Some(event), class) if !event.is_empty() => {
            let id = events.id(event.as_bytes());
            let known = events.get(id).wait.clone();
            match class.filter(|class| !class.is_empty()) {
                Some(class) => (Wait::event(class, event, known.idle), State::Unknown),
                None => (known, State::Unknown),
            }
        }
        _ => (Wait::not_recorded(), State::Unknown),
    }
}

fn session<'a>(
    cell: &impl Fn(&str) -> Option<&'a str>,
    begin_us: i64,
    path: &str,
    into: &mut Import,
) -> SessionId {
    let known = |name: &str| cell(name).filter(|text| !text.is_empty());
    let sid = known("SID").map(|sid| match known("INST").or(known("INST_ID")) {
        Some(instance) => format!("{sid}@{instance}"),
        None => sid.to_string(),
    });
    let user = known("USERNAME").unwrap_or_default().to_string();
    let title = match &sid {
        Some(sid) => [sid.as_str(), &user].join(" ").trim_end().to_string(),
        None => NOT_TOLD.to_string(),
    };
    let sid = sid.unwrap_or_default();
    let identity = format!("{path}\0{sid}\0{user}");
    let row = SessionRow {
        backend_type: BackendType::CLIENT.into(),
        started: begin_us,
        user,
        title,
        sid,
        ..SessionRow::default()
    };
    into.session(&identity, row)
}

/// A sql_id of zeros means none.
fn statement(sql_id: Option<&str>, into: &mut Import) -> u64 {
    let sql_id = sql_id.unwrap_or_default();
    if sql_id.bytes().all(|byte| byte == b'0') {
        return 0;
    }
    let id = statement_id(sql_id.as_bytes());
    into.statement(StatementRow {
        id,
        sql_id: sql_id.to_string(),
        ..StatementRow::default()
    });
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_table_of_a_snapshot_is_read_and_nothing_else() {
        let mut ash = Ash::default();
        assert!(!ash.line(b"|  1 |   SORT AGGREGATE  |  1 |"));
        assert!(!ash.line(b"    1.00    (100%) | x"));
        assert!(ash.line(b"  ActSes   %Thread | SQL_ID | EVENT"));
        assert!(!ash.line(b"-------------------"));
        assert!(ash.line(b"    2.35    (235%) | g81cbrq5yamf5 | direct path read"));
        assert!(ash.line(b"     .02      (2%) |               | ON CPU"));
        // A statistic with a bar in its name.
        assert!(!ash.line(b"  1090  @1, TANEL     , STAT, a | b      ,             7"));
        // Truncated.
        assert!(ash.line(b"     .94     (94%) | 8zz6y2yz"));
        assert!(ash.line(b"  ActSes   %Thread | EVENT"));
        assert!(ash.line(b"    2.35    (235%) | direct path read"));
        let active: Vec<i64> = ash.rows.iter().map(|row| row.active).collect();
        assert_eq!(active, [2_350_000_000, 20_000_000]);
        assert_eq!(ash.rows[0].cells[1..], ["g81cbrq5yamf5", "direct path read"]);
        assert_eq!(super::active(b"  12%".trim_ascii()), Some(120_000_000));
        assert_eq!(super::active(b"x"), None);
    }
}
