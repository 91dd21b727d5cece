//! Reads a trace line by line: what each one says goes to its session, its cursor and its statement.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use dbtime_model::recording::{ImportedFile, SqlTrace};

use super::binds::{Binds, BoundExecutions};
use super::clock::Clock;
use super::events::{EventId, Events};
use super::header::is_header;
use super::parts::{MAX_PARTS, note_file, part_name};
use super::pieces::{Piece, Recognised};
use super::preview::{Preview, Unit};
use super::record::{CallLine, Mark, ParsingLine, Record, WaitLine, parse};
use super::session::{Call, Doing, Output, TracedSession, TransactionEnd, Wait};
use super::statements::{Parsed, Statements};
use super::usual::Usual;
use super::views::IntervalView;
use super::{gaps, record, statement_id, views, wall_clock};
use crate::Import;
use crate::import::{file, unknown_line};
use crate::lines::Line;

/// Longer times are damage: it is more than thirty years.
pub(super) const MAX_US: u64 = 1_000_000_000_000_000;

const PRODUCT: &str = "Oracle Database";

/// Longest text of a statement that is kept.
const MAX_TEXT: usize = 64 * 1024;

/// Lines a header can have.
const HEADER_LINES: u64 = 60;

/// SQL text that is being read.
#[derive(Debug)]
struct Text {
    /// None: it could not be parsed.
    cursor: Option<u64>,
    dep: u32,
    sql_id: Vec<u8>,
    parsed: Parsed,
    error: u64,
    len: u64,
    seen: u64,
    text: Vec<u8>,
}

/// Lines that are expected although they are not records.
#[derive(Debug)]
enum Expected {
    /// No other ones.
    Records,
    /// The header of a file, and how many lines of it were read.
    Header(u64),
    /// Values of bind variables.
    Binds(Binds),
}

pub(super) struct Reader<'a> {
    into: &'a mut Import,
    preview: Preview,
    usual: Usual,
    file: ImportedFile,
    trace: SqlTrace,
    statements: Statements,
    events: Events,
    bound: BoundExecutions,
    sessions: Vec<TracedSession>,
    by_identity: HashMap<(u32, String), usize>,
    last_of_process: HashMap<u32, usize>,
    current: Option<usize>,
    pid: u32,
    instance: String,
    image: String,
    text: Option<Text>,
    expected: Expected,
    /// Names of the files that have begun: parts of a trace name each other.
    parts: BTreeSet<String>,
    wall_us: Option<i64>,
    /// The session with the last moment.
    told_last: Option<usize>,
    /// Waits say when they ended, as since 10g: one that does not is truncated.
    waits_have_tim: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(path: &Path, preview: Preview, into: &'a mut Import) -> Reader<'a> {
        // A merged trace, or a truncated one, may have no header that says so.
        into.database(PRODUCT, "");
        Reader {
            into,
            preview,
            usual: Usual::default(),
            file: file(path),
            trace: SqlTrace::default(),
            statements: Statements::default(),
            events: Events::new(),
            bound: BoundExecutions::default(),
            sessions: Vec::new(),
            by_identity: HashMap::new(),
            last_of_process: HashMap::new(),
            current: None,
            pid: 0,
            instance: String::new(),
            image: String::new(),
            text: None,
            expected: Expected::Header(0),
            parts: BTreeSet::new(),
            wall_us: None,
            told_last: None,
            waits_have_tim: false,
        }
    }

    pub(super) fn line(&mut self, line: Line<'_>) {
        if self.is_taken(line) {
            return;
        }
        let (event, name) = self.events.expected();
        if let Some((wait, is_expected)) = self.usual.wait(line.bytes, name) {
            self.expect_records();
            self.wait(&wait, is_expected.then_some(event), line);
            return;
        }
        if let Some(call) = self.usual.call(line.bytes) {
            self.expect_records();
            self.call(&call, line);
            return;
        }
        self.unusual_line(line);
    }

    /// Adds recognised lines. `events`: the events met, by the recogniser's numbers.
    pub(super) fn piece(&mut self, piece: &Piece, events: &mut Vec<Option<EventId>>) {
        piece.each(|line, recognised| {
            if self.is_taken(line) {
                return;
            }
            match recognised {
                Recognised::Wait(wait, number) => match events.get(number) {
                    Some(Some(event)) => {
                        let event = *event;
                        self.expect_records();
                        self.wait(&wait, Some(event), line);
                    }
                    _ => {
                        self.unusual_line(line);
                        if events.len() <= number {
                            events.resize(number + 1, None);
                        }
                        if let Some(Record::Wait(wait)) = parse(line.bytes) {
                            events[number] = self.events.known(wait.event);
                        }
                    }
                },
                Recognised::Call(call) => {
                    self.expect_records();
                    self.call(&call, line);
                }
                Recognised::Other => self.unusual_line(line),
            }
        });
    }

    /// Reads a line of the text of a statement, or of values of bind variables, whatever it looks like. False if it is neither.
    #[inline]
    fn is_taken(&mut self, line: Line<'_>) -> bool {
        self.trace.ends_in_line = !line.ended;
        if self.text.is_some() && self.text_line(line.bytes) {
            return true;
        }
        if let Expected::Binds(binds) = &mut self.expected {
            // The time of day, which is printed if the previous one was long ago.
            if line.bytes.starts_with(b"*** ")
                && !binds.is_in_value()
                && let Some(Record::Mark(mark @ Mark::Other)) = parse(line.bytes)
            {
                self.mark(mark, line);
                return true;
            }
            if binds.line(line.bytes) {
                return true;
            }
            self.end_binds();
        }
        false
    }

    fn unusual_line(&mut self, line: Line<'_>) {
        let Some(record) = parse(line.bytes) else {
            return self.behind_nuls(line);
        };
        let mut rest = self.record(&record, line);
        // Two writers of one file can share a line.
        while let Some(bytes) = rest.filter(|rest| !rest.trim_ascii().is_empty()) {
            let line = Line { bytes, ..line };
            rest = match parse(bytes) {
                Some(record) => self.record(&record, line),
                None => {
                    self.unknown(line);
                    None
                }
            };
        }
    }

    /// In a tar archive, the first line of a file comes after the name of the file and many NULs, and NULs follow the last line. NULs also
    /// precede what is written to a file that was emptied in the meantime.
    fn behind_nuls(&mut self, line: Line<'_>) {
        match memchr::memrchr(0, line.bytes) {
            None => self.other_line(line),
            Some(last) if last + 1 == line.bytes.len() => {
                let is_filler = line.bytes.iter().all(|byte| *byte == 0);
                self.trace.ends_in_line &= !is_filler;
                if !is_filler {
                    self.unknown(line);
                }
            }
            Some(last) => {
                let bytes = &line.bytes[last + 1..];
                self.line(Line { bytes, ..line });
            }
        }
    }

    fn expect_records(&mut self) {
        if !matches!(self.expected, Expected::Records) {
            self.expected = Expected::Records;
        }
    }

    fn end_binds(&mut self) {
        let Expected::Binds(binds) = std::mem::replace(&mut self.expected, Expected::Records) else {
            return;
        };
        if self.into.options().binds {
            let cursor = binds.cursor;
            self.session().binds(cursor, binds.finish());
        }
    }

    /// Adds a record; returns what follows it on its line.
    fn record<'l>(&mut self, record: &Record<'l>, line: Line<'_>) -> Option<&'l [u8]> {
        match record {
            // A blank line ends nothing.
            Record::Passed if line.bytes.trim_ascii().is_empty() => return None,
            Record::Header => {
                let path = String::from_utf8_lossy(line.bytes);
                if self.parts.len() < MAX_PARTS {
                    self.parts.insert(part_name(path.trim_end()).to_string());
                }
                self.begin_header();
                return None;
            }
            Record::Binds(cursor) => {
                self.expected = Expected::Binds(Binds::new(*cursor, self.into.options().binds));
                return None;
            }
            _ => self.expect_records(),
        }
        match record {
            Record::Wait(wait) => return self.wait(wait, None, line),
            Record::Call(call) => return self.call(call, line),
            Record::Parsing(parsing) => self.begin_text(parsing, true, line),
            Record::ParseError(parsing) => self.begin_text(parsing, false, line),
            Record::Mark(mark) => self.mark(*mark, line),
            Record::Stat(step) => {
                if line.ended {
                    let plan = self.session().plan_of(step.cursor);
                    self.statements.step(plan, step);
                }
            }
            &Record::TransactionEnd {
                rolled_back,
                read_only,
                tim,
            } => {
                if self.is_whole(tim, line) {
                    self.told(tim, line);
                    let (session, mut out) = self.session_and_output();
                    let end = TransactionEnd {
                        rolled_back,
                        read_only,
                    };
                    session.transaction(end, &mut out);
                }
            }
            &Record::Error { cursor, code, tim } => {
                // Older releases use other units for the time of errors: it looks truncated.
                if line.ended || self.is_whole(tim, line) {
                    let clock = self.session().clock;
                    self.told(tim.filter(|tim| !clock.is_before(*tim)), line);
                    let (session, mut out) = self.session_and_output();
                    session.error(cursor, code, &mut out);
                }
            }
            Record::Passed | Record::EndOfStatement | Record::Header | Record::Binds(_) => {}
        }
        None
    }

    /// True if a record is complete. The last number of a line is its `tim`: if the line was truncated there, it has fewer digits than the
    /// previous one. Truncated lines are counted as such, and not used otherwise.
    #[inline(always)]
    fn is_whole(&mut self, tim: Option<u64>, line: Line<'_>) -> bool {
        let clock = &self.session().clock;
        let is_whole = match tim {
            Some(tim) => !clock.is_cut(tim) && (line.ended || clock.has_begun() && !clock.is_before(tim)),
            None => line.ended,
        };
        if !is_whole {
            self.cut(line);
        }
        is_whole
    }

    #[cold]
    fn cut(&mut self, line: Line<'_>) {
        if self.trace.cut_lines == 0 {
            self.trace.first_cut_line = line.number;
        }
        self.trace.cut_lines += 1;
    }

    /// `event`: the expected one, if it came.
    fn wait<'l>(&mut self, wait: &WaitLine<'l>, event: Option<EventId>, line: Line<'_>) -> Option<&'l [u8]> {
        let unit = self.preview.unit;
        let ela = unit.us(wait.ela);
        self.waits_have_tim |= wait.tim.is_some();
        if wait.tim.is_none() && (self.waits_have_tim || !record::are_whole(wait.parameters)) {
            self.cut(line);
            return None;
        }
        // What comes before the parameters is complete if there is one of them.
        if wait.tim.is_some() && !self.is_whole(wait.tim, line) {
            return None;
        }
        if ela > MAX_US {
            self.unknown(line);
            return None;
        }
        let tim = usable(wait.tim, unit).map(|tim| self.tick(tim, ela));
        let event = match event {
            Some(event) => {
                self.events.came(event);
                event
            }
            None => self.events.id(wait.event),
        };
        self.trace.waits += 1;
        let wait_of_session = Wait {
            cursor: wait.cursor,
            event,
            of: wait,
            ela,
            tim,
            line: line.number,
        };
        let (session, mut out) = self.session_and_output();
        session.wait(&wait_of_session, &mut out);
        Some(wait.rest)
    }

    fn call<'l>(&mut self, of: &CallLine<'l>, line: Line<'_>) -> Option<&'l [u8]> {
        let unit = self.preview.unit;
        let (c, e) = (unit.cpu_us(of.c), unit.us(of.e));
        if of.tim.is_none() {
            self.cut(line);
            return None;
        }
        if !self.is_whole(of.tim, line) {
            return None;
        }
        if c > MAX_US || e > MAX_US {
            self.unknown(line);
            return None;
        }
        let tim = usable(of.tim, unit).map(|tim| self.tick(tim, 0));
        self.trace.calls += 1;
        let call = Call {
            of,
            c,
            e,
            tim,
            line: line.number,
        };
        let (session, mut out) = self.session_and_output();
        session.call(&call, &mut out);
        Some(of.rest)
    }

    /// A line that is neither a wait nor a call has a `tim`.
    fn told(&mut self, tim: Option<u64>, line: Line<'_>) {
        if let Some(tim) = usable(tim, self.preview.unit) {
            let moment = self.tick(tim, 0);
            self.session().told(moment, line.number);
        }
    }

    /// A line has a `tim`; returns its moment, microseconds.
    #[inline(always)]
    fn tick(&mut self, tim: u64, us: u64) -> u64 {
        let index = self.current_index();
        let moment = self.sessions[index].tick(tim, us, &self.preview, self.wall_us);
        self.told_last = Some(index);
        if self.trace.first_tim_us.is_none() {
            self.trace.first_tim_us = Some(views::signed(moment));
        }
        moment
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
            Mark::Service(text) => self.now_does(text, |doing| &mut doing.service),
            Mark::Module(text) => self.now_does(text, |doing| &mut doing.module),
            Mark::Action(text) => self.now_does(text, |doing| &mut doing.action),
            Mark::ClientId(text) => self.now_does(text, |doing| &mut doing.client_id),
            Mark::ModuleAndAction(module, action) => {
                self.now_does(module, |doing| &mut doing.module);
                self.now_does(action, |doing| &mut doing.action);
            }
            Mark::SizeLimited => self.trace.size_limited = true,
            Mark::ContinuedFrom(path) if !self.has_read(path) => {
                note_file(&mut self.trace.continued_from, path);
            }
            Mark::ContinuedFrom(_) => {}
            Mark::ContinuesIn(path) => {
                self.forget_parts_that_came();
                note_file(&mut self.trace.continues_in, path);
            }
            Mark::Other => {}
        }
    }

    /// True if the part of this name has begun, here or in a file that is read together with this one.
    fn has_read(&self, path: &[u8]) -> bool {
        let name = part_name(&String::from_utf8_lossy(path)).to_string();
        self.parts.contains(&name)
    }

    fn forget_parts_that_came(&mut self) {
        let parts = &self.parts;
        let is_missing = |path: &String| !parts.contains(part_name(path));
        self.trace.continues_in.retain(is_missing);
    }

    fn now_does(&mut self, text: &[u8], field: impl FnOnce(&mut Doing) -> &mut String) {
        let text = String::from_utf8_lossy(text).into_owned();
        let (session, mut out) = self.session_and_output();
        session.now_does(|doing| *field(doing) = text, &mut out);
    }

    /// A line that is not a record: the header, values of bind variables, or text that is not understood.
    fn other_line(&mut self, line: Line<'_>) {
        match &mut self.expected {
            Expected::Header(lines) if *lines < HEADER_LINES && is_header(line.bytes) => {
                *lines += 1;
                self.header(line.bytes);
            }
            // The first line of a file without a name, after another file.
            _ if line.bytes.starts_with(b"Oracle")
                && memchr::memmem::find(line.bytes, b" Release ").is_some() =>
            {
                self.begin_header();
                self.header(line.bytes);
            }
            _ => self.unknown(line),
        }
    }

    fn begin_header(&mut self) {
        self.expected = Expected::Header(0);
        self.pid = 0;
        self.instance.clear();
        self.image.clear();
        self.current = None;
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
            self.into.database(PRODUCT, release);
        }
    }

    fn unknown(&mut self, line: Line<'_>) {
        unknown_line(&mut self.file, line.number, line.bytes);
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

    /// The current session, and where its rows go.
    fn session_and_output(&mut self) -> (&mut TracedSession, Output<'_>) {
        let index = self.current_index();
        let out = Output {
            into: self.into,
            events: &self.events,
            bound: &mut self.bound,
            wall_us: self.wall_us,
            path: &self.file.path,
        };
        (&mut self.sessions[index], out)
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
                    let clock = match self.told_last {
                        Some(index) => self.sessions[index].clock,
                        None => Clock::new(self.preview.unit),
                    };
                    self.sessions.push(TracedSession::new(
                        pid,
                        sid.clone(),
                        &self.instance,
                        &self.image,
                        clock.of_next_session(),
                        self.into.options().summed,
                    ));
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
        if parsing.tim.is_none_or(|_| self.is_whole(parsing.tim, line)) {
            self.told(parsing.tim, line);
        }
        if has_cursor {
            let statement = parsing
                .sql_id
                .map_or(0, |sql_id| self.statements.counted_as(statement_id(sql_id)));
            self.session().parsing(parsing.cursor, statement, parsing.dep);
        }
        self.text = Some(Text {
            cursor: has_cursor.then_some(parsing.cursor),
            dep: parsing.dep,
            sql_id: parsing.sql_id.unwrap_or_default().to_vec(),
            parsed: Parsed {
                hash_value: parsing.hash_value,
                user: parsing.user,
                depth: parsing.dep,
                command: parsing.command,
            },
            error: parsing.error,
            len: parsing.len,
            seen: 0,
            text: Vec::new(),
        });
    }

    /// Reads a line of SQL text. False if the text has ended without an end mark, and the line is something else.
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
                Some(Record::Passed) => line.starts_with(b"="),
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
        let name = if text.sql_id.is_empty() {
            &text.text
        } else {
            &text.sql_id
        };
        let statement = self
            .statements
            .text(statement_id(name), &text.sql_id, &text.text, text.parsed);
        let (session, mut out) = self.session_and_output();
        match text.cursor {
            Some(cursor) => session.parsing(cursor, statement, text.dep),
            None => session.parse_error(statement, text.error, &mut out),
        }
    }

    pub(super) fn finish(mut self, lines: u64) {
        self.trace.ends_in_text = self.text.as_ref().is_some_and(|text| text.cursor.is_some());
        self.end_text();
        self.end_binds();
        self.forget_parts_that_came();
        let mut gaps = Vec::new();
        let mut ends_us: Option<i64> = None;
        let mut cpu_step_us: Option<u64> = None;
        let mut interval = IntervalView::default();
        let mut lacks_time_of_day = false;
        for mut session in std::mem::take(&mut self.sessions) {
            let mut out = Output {
                into: self.into,
                events: &self.events,
                bound: &mut self.bound,
                wall_us: self.wall_us,
                path: &self.file.path,
            };
            let in_flight = session.finish(&mut out);
            ends_us = ends_us.max(session.latest_us());
            interval.add(&session.interval);
            cpu_step_us = cpu_step_us.into_iter().chain(session.cpu.step_us()).min();
            lacks_time_of_day |= session.lacks_time_of_day;
            let trace = &mut self.trace;
            trace.in_flight.extend(in_flight);
            trace.sessions_us = trace.sessions_us.saturating_add(session.interval.duration_us());
            trace.calls_without_outer += session.without_outer.calls;
            trace.calls_without_outer_us = trace
                .calls_without_outer_us
                .saturating_add(session.without_outer.us);
            if session.begun_before.us > trace.begun_before_us {
                (trace.begun_before_us, trace.begun_before_line) =
                    (session.begun_before.us, session.begun_before.line);
            }
            trace.clock_wraps += session.clock.wraps;
            trace.clock_steps += session.clock.steps;
            trace.clock_steps_us = trace.clock_steps_us.saturating_add(session.clock.steps_us);
            gaps.extend(session.longest_gaps());
            self.trace.gaps += session.gaps.count;
            self.trace.gaps_us = self.trace.gaps_us.saturating_add(session.gaps.us);
            let statements = &mut self.statements;
            session
                .callers
                .finish(|statement, caller| statements.called(statement, caller));
        }
        let statements = &mut self.statements;
        std::mem::take(&mut self.bound).finish(|statement, of| statements.bound(statement, of));
        self.trace.longest_gaps = gaps::longest(gaps);
        self.statements.tell(&mut self.trace);
        if let Some(end_us) = ends_us {
            self.into.ends(end_us);
        }
        let into = &mut *self.into;
        if lacks_time_of_day {
            into.problem(format!(
                "{}: no line gives a time of day (those with *** do): times are those of the trace's own \
                 clock",
                self.file.path
            ));
        }
        self.statements.finish(|row| into.statement(row));
        self.file.lines = lines;
        self.file.sql_trace = Some(SqlTrace {
            last_tim_us: interval.end_us,
            begin_us: interval.begin_us,
            cpu_us: interval.cpu_us,
            wait_us: interval.wait_us,
            cpu_step_us: cpu_step_us.unwrap_or(0),
            counts_1024_ns: self.preview.unit == Unit::Ns1024,
            ..self.trace
        });
        self.into.file(self.file);
    }
}

/// A `tim` as in the file; none if it is not a time.
fn usable(tim: Option<u64>, unit: Unit) -> Option<u64> {
    tim.filter(|tim| unit.us(*tim) <= 10 * MAX_US)
}
