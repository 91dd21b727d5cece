//! Oracle SQL trace (event 10046), releases 8i to 23ai, as one session wrote it or as trcsess merged it.
//!
//! # Rows
//! Per session (`*** SESSION ID`, or the process of a trcsess merge) and per second of `tim`:
//!
//! * every wait is a row of `activity` in the second in which it **ended** (an `ela` of ten seconds stands in one
//!   second), with the statement of its cursor and the state `unknown`, because a trace does not know the operating
//!   system. Classes are Oracle's where they are certain, else `unclassified`;
//! * the CPU `c` of a call of depth 0, as far as its waits leave room for it in its elapsed time `e`: no wait, state
//!   `cpu`. What they leave no room for was burnt inside the waits, and at least that much is counted twice by
//!   whoever adds CPU and waits: counter `cpu_inside_waits_ns`;
//! * what is left of `e`: class `unknown`, event `unaccounted`.
//!
//! CPU and the rest of a call stand with the statement of depth 0, its recursive statements included, because `c` and
//! `e` of a parent include those of its children; waits stand with the statement that waited.
//!
//! # Invariant
//! A wait is inside a call as far as it overlaps `tim − e … tim` (a wait without `tim`, before 10g: unless its name says
//! that it is between calls). To the microsecond, for every session:
//!
//! ```text
//! Σ activity = Σ e of calls of depth 0 + Σ waits between calls + Σ waits beyond their call
//! ```
//!
//! The last term is 0 unless waits of one call add up to more than its `e` (clocks of low resolution); it is the counter
//! `waits_beyond_calls_ns`. LOB calls say no depth: one that lies inside a later call of depth 0 is part of it. A recursive
//! call whose parent had not ended when the trace did is present with its waits only.
//!
//! # Times
//! `tim` is turned into a time of day by the first `***` line of the session that has one; without an offset from UTC it is
//! taken for UTC. A `tim` that counts microseconds since 1970 is taken as it is.

mod elapsed;
pub(crate) mod events;
mod number;
mod preview;
mod record;
mod seconds;
mod session;
mod views;
mod wall_clock;

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use dbtime_model::{BackendType, SessionRow};
use xxhash_rust::xxh3::xxh3_64;

use crate::lines::Line;
use crate::{Import, ImportError, Importer, Lines, TraceFile};
use events::Events;
use preview::{Preview, Unit};
use record::{CallLine, Mark, ParsingLine, Record, WaitLine, parse};
use session::{Call, Cursor, TracedSession, Wait};
pub use views::{CallView, IntervalView};
use wall_clock::wall_clock;

/// Names of the counters that this importer makes.
pub mod counter {
    /// Source of all of them.
    pub const ORACLE: &str = "oracle";
    /// See [`super::CallView::elapsed_us`].
    pub const CALL_ELAPSED_US: &str = "call_elapsed_us";
    /// See [`super::CallView::cpu_us`].
    pub const CALL_CPU_US: &str = "call_cpu_us";
    /// See [`super::CallView::wait_us`].
    pub const CALL_WAIT_US: &str = "call_wait_us";
    /// See [`super::CallView::idle_us`].
    pub const CALL_IDLE_US: &str = "call_idle_us";
    /// See [`super::IntervalView::duration_us`]. All of the interval stands in the last second of the session.
    pub const INTERVAL_DURATION_US: &str = "interval_duration_us";
    /// See [`super::IntervalView::cpu_us`].
    pub const INTERVAL_CPU_US: &str = "interval_cpu_us";
    /// See [`super::IntervalView::wait_us`].
    pub const INTERVAL_WAIT_US: &str = "interval_wait_us";
    /// See [`super::IntervalView::unaccounted_us`].
    pub const INTERVAL_UNACCOUNTED_US: &str = "interval_unaccounted_us";
    /// CPU of calls for which their waits leave no room: it was burnt inside them.
    pub const CPU_INSIDE_WAITS_NS: &str = "cpu_inside_waits_ns";
    /// Waits that add up to more than the call they are in.
    pub const WAITS_BEYOND_CALLS_NS: &str = "waits_beyond_calls_ns";
}

/// Longer times are damage: it is more than thirty years.
const MAX_US: u64 = 1_000_000_000_000_000;

/// Longest text of a statement that is kept.
const MAX_TEXT: usize = 64 * 1024;

/// Lines a header can have.
const HEADER_LINES: u64 = 60;

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
        lines: &mut Lines<Box<dyn Read>>,
        path: &Path,
        into: &mut Import,
    ) -> Result<(), ImportError> {
        let preview = Preview::of(lines.head());
        let mut reader = Reader::new(path, preview, into);
        while let Some(line) = lines.next_line() {
            reader.line(line);
        }
        reader.finish(lines.number());
        Ok(())
    }
}

/// SQL text that is being read.
#[derive(Debug)]
struct Text {
    cursor: Option<u64>,
    dep: u32,
    id: Option<u64>,
    len: u64,
    seen: u64,
    text: Vec<u8>,
}

/// Which lines are expected though they are no records.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    /// Nothing else.
    Records,
    /// The header of a file; so many lines of it.
    Header(u64),
    /// Values of bind variables.
    Binds,
}

struct Reader<'a> {
    path: &'a Path,
    into: &'a mut Import,
    preview: Preview,
    file: TraceFile,
    events: Events,
    sessions: Vec<TracedSession>,
    by_identity: HashMap<(u32, String), usize>,
    last_of_process: HashMap<u32, usize>,
    current: Option<usize>,
    pid: u32,
    instance: String,
    image: String,
    text: Option<Text>,
    expected: Expected,
    wall_us: Option<i64>,
}

impl<'a> Reader<'a> {
    fn new(path: &'a Path, preview: Preview, into: &'a mut Import) -> Reader<'a> {
        Reader {
            path,
            into,
            preview,
            file: TraceFile::new(path),
            events: Events::new(),
            sessions: Vec::new(),
            by_identity: HashMap::new(),
            last_of_process: HashMap::new(),
            current: None,
            pid: 0,
            instance: String::new(),
            image: String::new(),
            text: None,
            expected: Expected::Header(0),
            wall_us: None,
        }
    }

    fn line(&mut self, line: Line<'_>) {
        if self.text.is_some() && self.text_line(line.bytes) {
            return;
        }
        match parse(line.bytes) {
            Some(record) => self.record(record, line),
            None => self.other_line(line),
        }
    }

    fn record(&mut self, record: Record<'_>, line: Line<'_>) {
        match record {
            // A blank line ends nothing.
            Record::Passed { tim: None } if line.bytes.trim_ascii().is_empty() => return,
            Record::Header => {
                self.expected = Expected::Header(0);
                self.pid = 0;
                self.instance.clear();
                self.image.clear();
                self.current = None;
                return;
            }
            Record::Binds => {
                self.expected = Expected::Binds;
                return;
            }
            _ => self.expected = Expected::Records,
        }
        let rest = match record {
            Record::Wait(wait) => self.wait(wait, line),
            Record::Call(call) => self.call(call, line),
            Record::Parsing(parsing) => {
                self.begin_text(&parsing, true, line);
                None
            }
            Record::ParseError(parsing) => {
                self.begin_text(&parsing, false, line);
                None
            }
            Record::Mark(mark) => {
                self.mark(mark, line);
                None
            }
            Record::Passed { tim } => {
                if line.ended {
                    self.tick(tim);
                }
                None
            }
            Record::EndOfStatement | Record::Header | Record::Binds => None,
        };
        // Two writers of one file can share a line.
        if let Some(bytes) = rest.filter(|rest| !rest.trim_ascii().is_empty()) {
            let line = Line { bytes, ..line };
            match parse(bytes) {
                Some(record) => self.record(record, line),
                None => self.unknown(line),
            }
        }
    }

    /// True when the times of a record can be trusted: the last line of a file that was cut may end in the middle of
    /// a number, and such a `tim` has fewer digits than the one before.
    fn is_whole(&mut self, tim: Option<u64>, line: Line<'_>, otherwise: bool) -> bool {
        if line.ended {
            return true;
        }
        let unit = self.preview.unit;
        match (tim, self.session().last_tim()) {
            (Some(tim), Some(last)) => unit.us(tim) >= last,
            (Some(_), None) => false,
            (None, _) => otherwise,
        }
    }

    fn wait<'l>(&mut self, wait: WaitLine<'l>, line: Line<'_>) -> Option<&'l [u8]> {
        let unit = self.preview.unit;
        let ela = unit.us(wait.ela);
        if ela > MAX_US || !self.is_whole(wait.tim, line, wait.ela_is_whole) {
            self.unknown(line);
            return None;
        }
        let tim = usable(wait.tim, unit);
        self.tick(tim);
        let event = self.events.id(wait.event);
        let from_client = self.events.get(event).from_client;
        let us = views::signed(ela);
        let view = &mut self.file.call_view;
        let sum = if from_client {
            &mut view.idle_us
        } else {
            &mut view.wait_us
        };
        *sum = sum.saturating_add(us);
        self.file.interval_view.wait_us = self.file.interval_view.wait_us.saturating_add(us);
        let index = self.current_index();
        let wait_of_session = Wait {
            cursor: wait.cursor,
            event,
            ela,
            tim,
        };
        self.sessions[index].wait(wait_of_session, self.wall_us, &self.events);
        Some(wait.rest)
    }

    fn call<'l>(&mut self, line_call: CallLine<'l>, line: Line<'_>) -> Option<&'l [u8]> {
        let unit = self.preview.unit;
        let call = Call {
            kind: line_call.kind,
            cursor: line_call.cursor,
            c: unit.us(line_call.c),
            e: unit.us(line_call.e),
            dep: line_call.dep,
            tim: usable(line_call.tim, unit),
        };
        if call.c > MAX_US || call.e > MAX_US || !self.is_whole(line_call.tim, line, false) {
            self.unknown(line);
            return None;
        }
        self.tick(call.tim);
        if let (None, Some(tim)) = (self.file.interval_view.begin_us, call.tim) {
            self.file.interval_view.begin_us = Some(views::signed(tim).saturating_sub(views::signed(call.e)));
        }
        let index = self.current_index();
        let counts = self.sessions[index].call(call, self.wall_us, &self.events);
        let add = |sum: &mut i64, us: u64| *sum = sum.saturating_add(views::signed(us));
        if counts.in_call_view {
            add(&mut self.file.call_view.elapsed_us, call.e);
            add(&mut self.file.call_view.cpu_us, call.c);
        }
        if counts.is_top {
            add(&mut self.file.interval_view.cpu_us, call.c);
        }
        Some(line_call.rest)
    }

    fn tick(&mut self, tim: Option<u64>) {
        let Some(tim) = tim else { return };
        let us = Some(views::signed(tim));
        self.file.first_tim_us = self.file.first_tim_us.or(us);
        self.file.interval_view.end_us = us;
        let index = self.current_index();
        self.sessions[index].tick(Some(tim), &self.preview, self.wall_us);
    }

    fn mark(&mut self, mark: Mark<'_>, line: Line<'_>) {
        if let Some(wall) = wall_clock(line.bytes) {
            self.wall_us = Some(wall);
        }
        match mark {
            Mark::Session(sid) => {
                let sid = String::from_utf8_lossy(sid).into_owned();
                self.switch_to(self.pid, sid);
            }
            Mark::Process(pid) => {
                self.pid = pid;
                match self.last_of_process.get(&pid) {
                    Some(index) => self.current = Some(*index),
                    None => self.switch_to(pid, String::new()),
                }
            }
            Mark::Service(text) => self.session().service = String::from_utf8_lossy(text).into_owned(),
            Mark::Module(text) => self.session().module = String::from_utf8_lossy(text).into_owned(),
            Mark::Action(text) => self.session().action = String::from_utf8_lossy(text).into_owned(),
            Mark::SizeLimited => self.file.size_limited = true,
            Mark::Other => {}
        }
    }

    /// A line that is no record: the header, values of bind variables, or text that is not understood.
    fn other_line(&mut self, line: Line<'_>) {
        match &mut self.expected {
            Expected::Binds => {}
            Expected::Header(lines) if *lines < HEADER_LINES && is_header(line.bytes) => {
                *lines += 1;
                self.header(line.bytes);
            }
            _ => self.unknown(line),
        }
    }

    fn header(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let about = |name: &str| text.strip_prefix(name).map(|rest| rest.trim().to_string());
        let host = self.into.host();
        if let Some(name) = about("Node name:") {
            host.name = name;
        } else if let Some(release) = about("Release:") {
            host.kernel = release;
        } else if let Some(machine) = about("Machine:") {
            host.arch = machine;
        } else if let Some(instance) = about("Instance name:") {
            self.instance = instance;
        } else if let Some(process) = about("Unix process pid:") {
            let (pid, image) = process.split_once(',').unwrap_or((&process, ""));
            self.pid = pid.trim().parse().unwrap_or(0);
            self.image = image.trim().trim_start_matches("image:").trim().to_string();
        } else if let Some((_, release)) = text.split_once("Release ").filter(|_| text.starts_with("Oracle"))
        {
            let release = release.split([' ', ',']).next().unwrap_or_default();
            self.into.database("Oracle Database", release);
        }
    }

    fn unknown(&mut self, line: Line<'_>) {
        self.file.unknown_line(line.number, line.bytes);
    }

    fn current_index(&mut self) -> usize {
        match self.current {
            Some(index) => index,
            None => {
                self.switch_to(self.pid, String::new());
                self.current.unwrap_or(0)
            }
        }
    }

    fn session(&mut self) -> &mut TracedSession {
        let index = self.current_index();
        &mut self.sessions[index]
    }

    /// Makes a session the current one. The first session id of a process names what was recorded of it before.
    fn switch_to(&mut self, pid: u32, sid: String) {
        let known = self.by_identity.get(&(pid, sid.clone())).copied();
        let index = known.unwrap_or_else(|| {
            let unnamed = self.by_identity.remove(&(pid, String::new()));
            let index = match unnamed {
                Some(index) => {
                    self.sessions[index].sid = sid.clone();
                    index
                }
                None => {
                    self.sessions.push(TracedSession::new(pid, sid.clone()));
                    self.sessions.len() - 1
                }
            };
            self.by_identity.insert((pid, sid), index);
            index
        });
        self.last_of_process.insert(pid, index);
        self.current = Some(index);
    }

    fn begin_text(&mut self, parsing: &ParsingLine<'_>, has_cursor: bool, line: Line<'_>) {
        if line.ended {
            self.tick(usable(parsing.tim, self.preview.unit));
        }
        let id = parsing.sql_id.map(statement_id);
        if has_cursor {
            let cursor = Cursor {
                statement: id.unwrap_or(0),
                dep: parsing.dep,
            };
            self.session().parsing(parsing.cursor, cursor);
        }
        self.text = Some(Text {
            cursor: has_cursor.then_some(parsing.cursor),
            dep: parsing.dep,
            id,
            len: parsing.len,
            seen: 0,
            text: Vec::new(),
        });
    }

    /// Takes a line of SQL text. False when the text has ended without saying so, and the line is something else.
    fn text_line(&mut self, line: &[u8]) -> bool {
        let Some(text) = &mut self.text else { return false };
        if text.cursor.is_some() && line.starts_with(b"END OF STMT") {
            self.end_text();
            return true;
        }
        // Within its length everything is text; the text of a parse error has no end mark and can be shorter.
        let may_end = text.seen >= text.len || text.cursor.is_none();
        let ends = may_end
            && match parse(line) {
                Some(Record::Passed { .. }) => line.starts_with(b"="),
                Some(_) => true,
                None => text.cursor.is_none() && text.seen >= text.len,
            };
        if ends {
            self.end_text();
            return false;
        }
        if text.text.len() + line.len() < MAX_TEXT {
            if text.seen > 0 {
                text.text.push(b'\n');
            }
            text.text.extend_from_slice(line);
        }
        text.seen += line.len() as u64 + 1;
        true
    }

    fn end_text(&mut self) {
        let Some(text) = self.text.take() else { return };
        let Some(cursor) = text.cursor else { return };
        let statement = text.id.unwrap_or_else(|| statement_id(&text.text));
        self.into.statement(statement, &text.text);
        self.session().parsing(
            cursor,
            Cursor {
                statement,
                dep: text.dep,
            },
        );
    }

    fn finish(mut self, lines: u64) {
        self.end_text();
        self.file.lines = lines;
        self.file.last_tim_us = self.file.interval_view.end_us;
        for mut session in std::mem::take(&mut self.sessions) {
            session.seconds.close(&self.events);
            self.emit(session);
        }
        self.into.file(self.file);
    }

    fn emit(&mut self, mut session: TracedSession) {
        let interval = session.interval;
        session.seconds.count([
            (counter::INTERVAL_DURATION_US, interval.duration_us()),
            (counter::INTERVAL_CPU_US, interval.cpu_us),
            (counter::INTERVAL_WAIT_US, interval.wait_us),
            (counter::INTERVAL_UNACCOUNTED_US, interval.unaccounted_us()),
        ]);
        let (activity, counters) = (session.seconds.activity_rows, session.seconds.counter_rows);
        if activity.is_empty() && counters.is_empty() {
            return;
        }
        // The next file of the same session continues it.
        let identity = match (session.pid, session.sid.as_str()) {
            (0, "") => self.path.display().to_string(),
            (pid, sid) => format!("{}/{pid}/{sid}", self.instance),
        };
        let about = [&session.sid, &session.service, &session.module, &session.action];
        let title: Vec<&str> = about
            .into_iter()
            .map(String::as_str)
            .filter(|s| !s.is_empty())
            .collect();
        let row = SessionRow {
            id: dbtime_model::SessionId::RECORDER,
            pid: session.pid,
            started: session.begin_us.unwrap_or(0),
            backend_type: backend_type(&self.image),
            user: String::new(),
            database: self.instance.clone(),
            client: String::new(),
            leader_pid: 0,
            title: title.join(" "),
        };
        self.into.session(&identity, row, activity, counters);
    }
}

/// Microseconds; none when it is no time.
fn usable(tim: Option<u64>, unit: Unit) -> Option<u64> {
    tim.map(|tim| unit.us(tim)).filter(|tim| *tim <= 10 * MAX_US)
}

/// Identity of a statement: hash of its `sql_id`, or of its text when the trace says no `sql_id`.
fn statement_id(name: &[u8]) -> u64 {
    xxh3_64(name).max(1)
}

/// True for the lines between `Trace file` and the first `***`.
fn is_header(line: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 11] = [
        b"/",
        b"Oracle",
        b"With the ",
        b"and ",
        b"Advanced ",
        b"Build label:",
        b"ORACLE_HOME",
        b"JServer Release",
        b"PL/SQL Release",
        b"CLID:",
        b"Redo thread mounted",
    ];
    if BEGINNINGS.iter().any(|beginning| line.starts_with(beginning)) {
        return true;
    }
    // `Name of something: value`
    let name = line
        .iter()
        .take_while(|byte| byte.is_ascii_alphabetic() || **byte == b' ')
        .count();
    name > 0 && name <= 40 && (line.get(name) == Some(&b':') || line.starts_with(b"Version "))
}

/// `oracle@host (J003)`: job and shared server processes work for users, parallel servers for another session; every
/// other name in parentheses is that of a background process.
fn backend_type(image: &str) -> String {
    let name = image
        .rsplit_once('(')
        .map_or("", |(_, name)| name.trim_end_matches(')'));
    let numbered = |letter: char| {
        name.len() == 4
            && name.starts_with(letter)
            && name[1..].bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    if name.is_empty() || name.starts_with("TNS") || numbered('S') && name != "SMON" || numbered('J') {
        BackendType::CLIENT.to_string()
    } else if numbered('P') && name[1..].bytes().any(|byte| byte.is_ascii_digit()) {
        BackendType::PARALLEL_WORKER.to_string()
    } else {
        name.to_ascii_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_says_whether_users_wait_for_the_process() {
        for (image, expected) in [
            ("oracle@host", "client backend"),
            ("oracle@host (TNS V1-V3)", "client backend"),
            ("oracle@host (J003)", "client backend"),
            ("oracle@host (P00A)", "parallel worker"),
            ("oracle@host (LGWR)", "lgwr"),
            ("oracle@host (PMON)", "pmon"),
            ("oracle@host (SMON)", "smon"),
        ] {
            assert_eq!(backend_type(image), expected, "{image}");
        }
    }
}
