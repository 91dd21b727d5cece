//! Parses one line of a trace into one record. No allocation: names and texts are borrowed from the line.

use super::number::{unsigned, unsigned_prefix, unsigned_suffix};

/// What a line says. Times are in the units of the file (microseconds, or centiseconds of old releases).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Record<'a> {
    /// `WAIT #N: nam='…' ela= …`
    Wait(WaitLine<'a>),
    /// `PARSE #N:c=…,e=…`, `EXEC`, `FETCH`, `CLOSE`, `UNMAP`, `SORT UNMAP`, `LOBREAD: …` and the like.
    Call(CallLine<'a>),
    /// `PARSING IN CURSOR #N …`: SQL text follows.
    Parsing(ParsingLine<'a>),
    /// `END OF STMT`
    EndOfStatement,
    /// `PARSE ERROR #N:len=…`: SQL text follows, without an end mark.
    ParseError(ParsingLine<'a>),
    /// `BINDS #N:`: values follow, which may be of any shape.
    Binds(u64),
    /// `*** …`
    Mark(Mark<'a>),
    /// `STAT #N id=…`
    Stat(StatLine<'a>),
    /// `XCTEND rlbk=…, rd_only=…`
    TransactionEnd {
        rolled_back: bool,
        read_only: bool,
        /// Releases before 11g do not say when.
        tim: Option<u64>,
    },
    /// `ERROR #N:err=…`
    Error {
        cursor: u64,
        code: u64,
        tim: Option<u64>,
    },
    /// Known but not needed: rulers, blank lines.
    Passed,
    /// First line of the header that every trace file starts with.
    Header,
}

/// A wait event that ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WaitLine<'a> {
    pub cursor: u64,
    pub event: &'a [u8],
    pub ela: u64,
    /// When it ended; older releases do not say.
    pub tim: Option<u64>,
    /// What follows `tim`: another record, if two writers shared the line.
    pub rest: &'a [u8],
    /// What is between `ela` and `tim`: its parameters.
    pub parameters: &'a [u8],
    /// What they say, if it was read already.
    pub at: Option<Where>,
}

/// A database call that ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CallLine<'a> {
    pub kind: CallKind,
    pub cursor: u64,
    /// CPU.
    pub c: u64,
    /// Elapsed.
    pub e: u64,
    /// Blocks read.
    pub p: u64,
    /// Blocks got in consistent mode.
    pub cr: u64,
    /// Blocks got in current mode.
    pub cu: u64,
    /// Misses in the library cache.
    pub mis: u64,
    /// Rows.
    pub r: u64,
    /// Hash of the plan; 0 = none, or not given.
    pub plh: u64,
    pub dep: Option<u32>,
    pub tim: Option<u64>,
    /// See [`WaitLine::rest`].
    pub rest: &'a [u8],
}

/// Kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    Parse,
    Exec,
    Fetch,
    Close,
    /// `UNMAP`, `SORT UNMAP`.
    Other,
    /// `LOBREAD` and the like: they have neither cursor nor depth.
    Lob,
}

impl CallKind {
    /// True for what parsetrc.pl adds up.
    pub(super) fn is_parse_exec_fetch(self) -> bool {
        matches!(self, CallKind::Parse | CallKind::Exec | CallKind::Fetch)
    }
}

/// A step of a plan, with what it did in one execution, or in all since the cursor was parsed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct StatLine<'a> {
    pub cursor: u64,
    pub id: u64,
    pub parent: u64,
    pub operation: &'a [u8],
    pub rows: u64,
    pub consistent_gets: u64,
    pub physical_reads: u64,
    pub physical_writes: u64,
    /// Microseconds.
    pub elapsed_us: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct ParsingLine<'a> {
    pub cursor: u64,
    pub len: u64,
    pub dep: u32,
    pub tim: Option<u64>,
    pub sql_id: Option<&'a [u8]>,
    /// The user who parsed it (`uid`), by its number.
    pub user: Option<u32>,
    /// Kind of command (`oct`).
    pub command: Option<u32>,
    /// `hv`, which identified it before 10g.
    pub hash_value: u64,
    /// Why it could not be parsed (`err`).
    pub error: u64,
}

/// `*** KEY:(value) time`, `*** time (container)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Mark<'a> {
    /// `SESSION ID:(sid.serial)`
    Session(&'a [u8]),
    /// `[ Unix process pid: N ]`: trcsess changes from one file to another.
    Process(u32),
    Service(&'a [u8]),
    Module(&'a [u8]),
    Action(&'a [u8]),
    ClientId(&'a [u8]),
    /// `APPNAME mod='…' … act='…'`, before 10g.
    ModuleAndAction(&'a [u8], &'a [u8]),
    /// The file is not complete.
    SizeLimited,
    /// `TRACE CONTINUED FROM FILE …`: what came before is in another file.
    ContinuedFrom(&'a [u8]),
    /// `TRACE CONTINUES IN FILE …`: what follows is in another file.
    ContinuesIn(&'a [u8]),
    /// A time of day, or anything else.
    Other,
}

/// What the line says; none if it is not understood.
pub(super) fn parse(line: &[u8]) -> Option<Record<'_>> {
    const PASSED: Record<'_> = Record::Passed;
    let Some(&first) = line.first() else {
        return Some(PASSED);
    };
    match first {
        b'W' => wait(line.strip_prefix(b"WAIT #")?),
        b'E' => {
            if let Some(rest) = line.strip_prefix(b"EXEC #") {
                return call(CallKind::Exec, rest);
            }
            if line.starts_with(b"END OF STMT") {
                return Some(Record::EndOfStatement);
            }
            error(line.strip_prefix(b"ERROR #")?)
        }
        b'F' => call(CallKind::Fetch, line.strip_prefix(b"FETCH #")?),
        b'P' => {
            if let Some(rest) = line.strip_prefix(b"PARSE #") {
                return call(CallKind::Parse, rest);
            }
            if let Some(rest) = line.strip_prefix(b"PARSING IN CURSOR #") {
                return parsing(rest, b' ').map(Record::Parsing);
            }
            let rest = line.strip_prefix(b"PARSE ERROR #")?;
            parsing(rest, b':').map(Record::ParseError)
        }
        b'C' => call(CallKind::Close, line.strip_prefix(b"CLOSE #")?),
        b'U' => call(CallKind::Other, line.strip_prefix(b"UNMAP #")?),
        b'S' => {
            if let Some(rest) = line.strip_prefix(b"SORT UNMAP #") {
                return call(CallKind::Other, rest);
            }
            stat(line.strip_prefix(b"STAT #")?).map(Record::Stat)
        }
        b'L' => lob(line),
        b'B' => {
            let (cursor, _) = unsigned_prefix(line.strip_prefix(b"BINDS #")?)?;
            Some(Record::Binds(cursor))
        }
        b'X' => line.strip_prefix(b"XCTEND ").map(transaction_end),
        b'=' => line.iter().all(|byte| *byte == b'=').then_some(PASSED),
        b'*' => line.strip_prefix(b"*** ").map(|rest| Record::Mark(mark(rest))),
        b'T' => line.starts_with(b"Trace file ").then_some(Record::Header),
        b'D' => line.starts_with(b"Dump file ").then_some(Record::Header),
        b'A' => app_name(line.strip_prefix(b"APPNAME ")?),
        b'R' => (line.starts_with(b"RPC ")).then_some(PASSED),
        _ => line.iter().all(u8::is_ascii_whitespace).then_some(PASSED),
    }
}

/// Everything after `WAIT #`.
fn wait(line: &[u8]) -> Option<Record<'_>> {
    let (cursor, rest) = unsigned_prefix(line)?;
    let rest = rest.strip_prefix(b": nam=")?;
    let quote = *rest.first().filter(|byte| matches!(byte, b'\'' | b'"'))?;
    let rest = &rest[1..];
    let end = memchr::memchr(quote, rest)?;
    let event = &rest[..end];
    let rest = rest[end + 1..].trim_ascii_start().strip_prefix(b"ela=")?;
    let (ela, rest) = unsigned_prefix(rest.trim_ascii_start())?;
    if event.is_empty() {
        return None;
    }
    if rest.is_empty() {
        // The number may be truncated.
        return None;
    }
    let (tim, parameters, rest) = match find_tim(rest) {
        Some((tim, parameters, rest)) => (Some(tim), parameters, rest),
        None => (None, rest, &rest[rest.len()..]),
    };
    Some(Record::Wait(WaitLine {
        cursor,
        event,
        ela,
        tim,
        rest,
        parameters,
        at: None,
    }))
}

/// What comes before the `tim=N` that the line ends with, and its number.
fn last_tim(line: &[u8]) -> Option<(&[u8], u64)> {
    let (before, tim) = unsigned_suffix(line)?;
    Some((before.strip_suffix(b"tim=")?, tim))
}

/// The first `tim=N`, what comes before it and what follows its number.
fn find_tim(line: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    // Usually it is the last on the line. A second record on it would begin with a capital letter.
    if let Some((before, tim)) = last_tim(line)
        && !has_capital_letter(before)
    {
        return Some((tim, before, &line[line.len()..]));
    }
    for at in memchr::memchr_iter(b'=', line) {
        if let Some(before) = line[..at].strip_suffix(b"tim") {
            let (tim, rest) = unsigned_prefix(&line[at + 1..])?;
            return Some((tim, before, rest));
        }
    }
    None
}

/// True if there is a capital letter in it.
#[inline]
pub(super) fn has_capital_letter(text: &[u8]) -> bool {
    const MANY: usize = 16;
    // Without an early exit, the loop handles many bytes at a time.
    let is_in = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(false, |found, byte| found | byte.is_ascii_uppercase())
    };
    let (chunks, rest) = text.as_chunks::<MANY>();
    let in_rest = match text.last_chunk::<MANY>() {
        Some(chunk) => is_in(chunk),
        None => is_in(rest),
    };
    chunks.iter().fold(in_rest, |found, chunk| found | is_in(chunk))
}

/// What the parameters of a wait say about where it was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Where {
    /// File: the first parameter.
    pub file: Option<u64>,
    /// Object: the last parameter; −1 = none.
    pub object: Option<i64>,
    /// Blocks of an I/O.
    pub blocks: Option<u64>,
}

impl WaitLine<'_> {
    /// `place`: the name of the number of blocks in releases without names for parameters; `p1_is_file`: there, the first one is the file.
    pub(super) fn place(&self, place: Option<&[u8]>, p1_is_file: bool) -> Where {
        self.at.unwrap_or_else(|| Where {
            file: file(self.parameters, p1_is_file),
            object: object(self.parameters),
            blocks: place.and_then(|place| blocks(self.parameters, place)),
        })
    }
}

/// Blocks that a wait for I/O was about, by the name of the parameter, or by its place in releases without names.
fn blocks(parameters: &[u8], place: &[u8]) -> Option<u64> {
    let equals = memchr::memrchr_iter(b'=', parameters).find(|at| {
        let name = &parameters[..*at];
        name.ends_with(b" blocks") || name.ends_with(b" block cnt") || name.ends_with(place)
    })?;
    unsigned_prefix(&parameters[equals + 1..]).map(|(blocks, _)| blocks)
}

/// `N id=1 cnt=1 pid=0 pos=1 obj=0 op='SORT AGGREGATE (cr=3 pr=0 pw=0 str=1 time=29 us)'`
fn stat(line: &[u8]) -> Option<StatLine<'_>> {
    let (cursor, rest) = unsigned_prefix(line)?;
    let rest = rest.strip_prefix(b" ")?;
    let at = memchr::memmem::find(rest, b"op='")?;
    let (fields, operation) = (&rest[..at], &rest[at + 4..]);
    let mut step = StatLine {
        cursor,
        ..StatLine::default()
    };
    for field in fields.split(|byte| *byte == b' ') {
        let Some(equals) = memchr::memchr(b'=', field) else {
            continue;
        };
        let value = unsigned(&field[equals + 1..]);
        match &field[..equals] {
            b"id" => step.id = value?,
            b"cnt" => step.rows = value?,
            b"pid" => step.parent = value?,
            _ => {}
        }
    }
    if step.id == 0 {
        return None;
    }
    let operation = operation.strip_suffix(b"'").unwrap_or(operation);
    let numbers = memchr::memmem::rfind(operation, b"(cr=");
    let (name, numbers) = operation.split_at(numbers.unwrap_or(operation.len()));
    step.operation = name.trim_ascii();
    let numbers = numbers.strip_prefix(b"(").unwrap_or(numbers);
    for field in numbers.split(|byte| *byte == b' ') {
        let Some(equals) = memchr::memchr(b'=', field) else {
            continue;
        };
        let value = unsigned_prefix(&field[equals + 1..]).map_or(0, |(value, _)| value);
        match &field[..equals] {
            b"cr" => step.consistent_gets = value,
            b"pr" | b"r" => step.physical_reads = value,
            b"pw" | b"w" => step.physical_writes = value,
            b"time" => step.elapsed_us = value,
            _ => {}
        }
    }
    Some(step)
}

/// Everything after `EXEC #` and the like.
fn call(kind: CallKind, line: &[u8]) -> Option<Record<'_>> {
    let (cursor, rest) = unsigned_prefix(line)?;
    call_fields(kind, cursor, rest.strip_prefix(b":")?)
}

/// `LOBREAD: type=TEMPORARY LOB,bytes=5,c=169,e=169,…`
fn lob(line: &[u8]) -> Option<Record<'_>> {
    let rest = line.strip_prefix(b"LOB")?;
    let name = rest.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    if name == 0 {
        return None;
    }
    let rest = rest[name..].trim_ascii_start();
    // Some releases print a cursor number: it is always 0.
    let rest = match rest.strip_prefix(b"#") {
        Some(rest) => unsigned_prefix(rest)?.1,
        None => rest,
    };
    call_fields(CallKind::Lob, 0, rest.strip_prefix(b":")?.trim_ascii_start())
}

fn call_fields(kind: CallKind, cursor: u64, mut line: &[u8]) -> Option<Record<'_>> {
    let (mut c, mut e) = (None, None);
    let mut call = CallLine {
        kind,
        cursor,
        c: 0,
        e: 0,
        p: 0,
        cr: 0,
        cu: 0,
        mis: 0,
        r: 0,
        plh: 0,
        dep: None,
        tim: None,
        rest: &line[line.len()..],
    };
    while let Some((field, value)) = next_field(line) {
        let number = unsigned_prefix(value);
        // Nothing follows the last number of a truncated line, which may be truncated too.
        let whole = number.filter(|(_, rest)| rest.first() == Some(&b','));
        let count = whole.map(|(value, _)| value);
        match field {
            Field::Cpu => c = count,
            Field::Elapsed => e = count,
            Field::PhysicalReads => call.p = count.unwrap_or(0),
            Field::ConsistentGets => call.cr = count.unwrap_or(0),
            Field::CurrentGets => call.cu = count.unwrap_or(0),
            Field::Misses => call.mis = count.unwrap_or(0),
            Field::Rows => call.r = count.unwrap_or(0),
            Field::Plan => call.plh = count.unwrap_or(0),
            Field::Depth => call.dep = count.and_then(|dep| u32::try_from(dep).ok()),
            Field::Tim => {
                if let Some((tim, rest)) = number {
                    call.tim = Some(tim);
                    call.rest = rest;
                    break;
                }
            }
            Field::Other => {}
        }
        line = match whole {
            Some((_, rest)) => &rest[1..],
            None => memchr::memchr(b',', value).map_or(&[], |at| &value[at + 1..]),
        };
    }
    call.c = c?;
    call.e = e?;
    Some(Record::Call(call))
}

/// A field of a call that is read.
enum Field {
    Cpu,
    Elapsed,
    PhysicalReads,
    ConsistentGets,
    CurrentGets,
    Misses,
    Rows,
    Plan,
    Depth,
    Tim,
    Other,
}

/// The next field of a call, and everything after its `=`.
#[inline]
fn next_field(mut line: &[u8]) -> Option<(Field, &[u8])> {
    loop {
        let known = match line {
            [b'c', b'=', value @ ..] => (Field::Cpu, value),
            [b'e', b'=', value @ ..] => (Field::Elapsed, value),
            [b'p', b'=', value @ ..] => (Field::PhysicalReads, value),
            [b'c', b'r', b'=', value @ ..] => (Field::ConsistentGets, value),
            [b'c', b'u', b'=', value @ ..] => (Field::CurrentGets, value),
            [b'm', b'i', b's', b'=', value @ ..] => (Field::Misses, value),
            [b'r', b'=', value @ ..] => (Field::Rows, value),
            [b'd', b'e', b'p', b'=', value @ ..] => (Field::Depth, value),
            [b'p', b'l', b'h', b'=', value @ ..] => (Field::Plan, value),
            [b't', b'i', b'm', b'=', value @ ..] => (Field::Tim, value),
            _ => {
                let end = memchr::memchr2(b'=', b',', line)?;
                let behind = &line[end + 1..];
                if line[end] == b',' {
                    line = behind;
                    continue;
                }
                (Field::Other, behind)
            }
        };
        return Some(known);
    }
}

/// `N len=… dep=… uid=… tim=… sqlid='…'`
fn parsing(line: &[u8], behind_number: u8) -> Option<ParsingLine<'_>> {
    let (cursor, rest) = unsigned_prefix(line)?;
    if rest.first() != Some(&behind_number) {
        return None;
    }
    let mut parsing = ParsingLine {
        cursor,
        ..ParsingLine::default()
    };
    for field in rest[1..].split(|byte| *byte == b' ') {
        let Some(equals) = memchr::memchr(b'=', field) else {
            continue;
        };
        let (name, value) = (&field[..equals], &field[equals + 1..]);
        match name {
            b"len" => parsing.len = unsigned(value).unwrap_or(0),
            b"dep" => {
                parsing.dep = unsigned(value)
                    .and_then(|dep| u32::try_from(dep).ok())
                    .unwrap_or(0)
            }
            b"tim" => parsing.tim = unsigned(value),
            b"uid" => parsing.user = unsigned(value).and_then(|uid| u32::try_from(uid).ok()),
            b"oct" => parsing.command = unsigned(value).and_then(|oct| u32::try_from(oct).ok()),
            b"hv" => parsing.hash_value = unsigned(value).unwrap_or(0),
            b"err" => parsing.error = unsigned(value).unwrap_or(0),
            b"sqlid" => {
                parsing.sql_id = value
                    .strip_prefix(b"'")
                    .and_then(|value| value.strip_suffix(b"'"))
                    .filter(|value| !value.is_empty());
            }
            _ => {}
        }
    }
    Some(parsing)
}

/// `mod='SQL*Plus' mh=3669949024 act='' ah=4029777240`
fn app_name(line: &[u8]) -> Option<Record<'_>> {
    let value = |name: &[u8]| {
        let rest = &line[memchr::memmem::find(line, name)? + name.len()..];
        memchr::memchr(b'\'', rest).map(|end| &rest[..end])
    };
    Some(Record::Mark(Mark::ModuleAndAction(
        value(b"mod='")?,
        value(b"act='").unwrap_or_default(),
    )))
}

/// `N:err=1403 tim=…`
fn error(line: &[u8]) -> Option<Record<'_>> {
    let (cursor, rest) = unsigned_prefix(line)?;
    let (code, _) = unsigned_prefix(rest.strip_prefix(b":err=")?)?;
    Some(Record::Error {
        cursor,
        code,
        tim: find_tim(rest).map(|(tim, ..)| tim),
    })
}

/// `rlbk=0, rd_only=1, tim=…`
fn transaction_end(line: &[u8]) -> Record<'_> {
    let is_set = |name: &[u8]| {
        let rest = memchr::memmem::find(line, name).map(|at| &line[at + name.len()..]);
        rest.and_then(unsigned_prefix)
            .is_some_and(|(value, _)| value != 0)
    };
    Record::TransactionEnd {
        rolled_back: is_set(b"rlbk="),
        read_only: is_set(b"rd_only="),
        tim: find_tim(line).map(|(tim, ..)| tim),
    }
}

/// Object that a wait was about: the last of its parameters; −1 = none.
fn object(parameters: &[u8]) -> Option<i64> {
    let (name, value) = parameters.split_at(memchr::memrchr(b'=', parameters)?);
    if !name.ends_with(b" obj#") {
        return None;
    }
    let value = &value[1..];
    match value.strip_prefix(b"-") {
        Some(rest) => unsigned_prefix(rest)
            .and_then(|(value, _)| i64::try_from(value).ok())
            .map(|value| -value),
        None => unsigned_prefix(value).and_then(|(value, _)| i64::try_from(value).ok()),
    }
}

/// File that a wait was about: the first of its parameters, by its name or, in releases without names for them, as `p1`.
fn file(parameters: &[u8], p1_is_file: bool) -> Option<u64> {
    let parameters = parameters.trim_ascii_start();
    let (name, value) = parameters.split_at(memchr::memchr(b'=', parameters)?);
    let is_file = matches!(name, b"file#" | b"file number") || name == b"p1" && p1_is_file;
    unsigned_prefix(&value[1..])
        .filter(|_| is_file)
        .map(|(file, _)| file)
}

/// True if a wait that does not say when it ended has all its parameters: otherwise its line is truncated.
pub(super) fn are_whole(parameters: &[u8]) -> bool {
    memchr::memmem::find(parameters, b" p3=").is_some()
}

fn mark(text: &[u8]) -> Mark<'_> {
    // A time of day may follow the closing parenthesis; a module may have parentheses in its name.
    let value = |name: &[u8]| {
        let rest = text.strip_prefix(name)?;
        memchr::memrchr(b')', rest).map(|end| &rest[..end])
    };
    if let Some(rest) = text.strip_prefix(b"SESSION ID:(") {
        let end = memchr::memchr(b')', rest).unwrap_or(rest.len());
        return Mark::Session(&rest[..end]);
    }
    if let Some(service) = value(b"SERVICE NAME:(") {
        return Mark::Service(service);
    }
    if let Some(module) = value(b"MODULE NAME:(") {
        return Mark::Module(module);
    }
    if let Some(action) = value(b"ACTION NAME:(") {
        return Mark::Action(action);
    }
    if let Some(client) = value(b"CLIENT ID:(") {
        return Mark::ClientId(client);
    }
    if let Some((pid, _)) = text
        .strip_prefix(b"[ Unix process pid: ")
        .and_then(unsigned_prefix)
    {
        return Mark::Process(u32::try_from(pid).unwrap_or(0));
    }
    for (name, of) in [
        (
            &b"TRACE CONTINUED FROM FILE "[..],
            Mark::ContinuedFrom as fn(_) -> _,
        ),
        (b"TRACE CONTINUES IN FILE ", Mark::ContinuesIn),
    ] {
        // A time of day may come before it.
        if let Some(at) = memchr::memmem::find(text, name) {
            let path = &text[at + name.len()..];
            let path = path.trim_ascii_end().strip_suffix(b"***").unwrap_or(path);
            return of(path.trim_ascii());
        }
    }
    if text.starts_with(b"DUMP FILE SIZE IS LIMITED") {
        return Mark::SizeLimited;
    }
    Mark::Other
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_of(line: &str) -> WaitLine<'_> {
        match parse(line.as_bytes()) {
            Some(Record::Wait(wait)) => wait,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn waits_of_all_releases_are_understood() {
        let named = wait_of(
            "WAIT #469: nam='db file sequential read' ela= 977 file#=7 block#=29 blocks=1 obj#=82 tim=136634",
        );
        assert_eq!((named.cursor, named.ela, named.tim), (469, 977, Some(136_634)));
        assert_eq!(named.event, b"db file sequential read");
        let old = wait_of("WAIT #1: nam='db file sequential read' ela= 13 p1=1 p2=2 p3=1");
        assert_eq!((old.ela, old.tim), (13, None));
        assert_eq!(
            wait_of("WAIT #0: nam='SQL*Net message to client' ela=2 p1=1 p2=1 p3=0").ela,
            2
        );
    }

    #[test]
    fn calls_are_understood_with_unknown_fields() {
        let Some(Record::Call(call)) =
            parse(b"EXEC #7:c=73,new='x,y',e=74,p=0,cr=0,dep=1,og=1,plh=2725028981,tim=834")
        else {
            panic!()
        };
        assert_eq!((call.c, call.e, call.dep, call.tim), (73, 74, Some(1), Some(834)));
        let Some(Record::Call(lob)) = parse(b"LOBWRITE: type=TEMPORARY LOB,bytes=5,c=169,e=170,p=0,tim=9")
        else {
            panic!()
        };
        assert_eq!((lob.kind, lob.c, lob.e, lob.dep), (CallKind::Lob, 169, 170, None));
    }

    #[test]
    fn two_records_on_one_line_are_both_found() {
        let Some(Record::Call(call)) = parse(b"FETCH #7:c=1,e=2,dep=0,tim=33WAIT #7: nam='a' ela= 4 tim=55")
        else {
            panic!()
        };
        assert_eq!(call.tim, Some(33));
        assert!(matches!(parse(call.rest), Some(Record::Wait(wait)) if wait.tim == Some(55)));
    }

    #[test]
    fn what_is_no_record_is_not_understood() {
        for line in [
            "WAIT #: nam='x' ela= 1",
            "WAIT #1: nam='x ela= 1",
            "WAIT #1: nam='x' ela= ",
            "WAIT #1: nam='x' ela= 12",
            "ERROR #1:err=",
            "WAIT #99999999999999999999999: nam='x' ela= 1",
            "EXEC #1:c=7",
            "EXEC #1:c=7,e=8",
            "STAT #1 (cr=0 pr=0 pw=0 str=1 time=29 us)'",
            "PARSING IN CURSOR #",
            "***************************************",
            "QUERY BLOCK TEXT",
            "kcrfw_update_adaptive_sync_mode: post->poll long#=1",
        ] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn marks_name_sessions_and_processes() {
        let marks = |line: &'static str| match parse(line.as_bytes()) {
            Some(Record::Mark(mark)) => mark,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(
            marks("*** SESSION ID:(409.215) 2013-08-26 14:40:23.035"),
            Mark::Session(b"409.215")
        );
        assert_eq!(
            marks("*** MODULE NAME:(a (b)) 2019-07-09T09:57:07.704126-07:00"),
            Mark::Module(b"a (b)")
        );
        assert_eq!(marks("*** [ Unix process pid: 9850 ]"), Mark::Process(9850));
        assert_eq!(marks("*** 2013-08-26 14:40:23.705"), Mark::Other);
    }
}
