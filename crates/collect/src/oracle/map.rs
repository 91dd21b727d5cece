//! Reads a MAP: the file that the script of `dbtime oracle-map` makes in SQL*Plus. docs/oracle-live.md describes it.
//!
//! SQL*Plus writes more than what was selected: blank lines, headings, errors, lines cut at its LINESIZE. A record begins with a line that
//! names its kind and ends with a mark; what follows belongs to it until then. Everything else is not a record.

use std::fs;
use std::path::Path;

use super::event_names::EventNames;
use crate::CollectError;

/// A MAP of a large instance has some megabytes.
const LARGEST: u64 = 256 << 20;
/// Fields of each kind of record, with its name and the mark of its end.
const KINDS: [(&str, usize); 4] = [("instance", 4), ("session", 13), ("event", 5), ("end", 4)];
/// Last field of every record: a line that was cut does not have it.
const END: &str = ".";
/// More than all fields of a session can have.
const LONGEST_RECORD: usize = 4096;
/// Bad lines that are reported one by one.
const TOLD: usize = 5;

/// A session as the database describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MapSession {
    /// Line in the file, from 1.
    pub(crate) line: usize,
    pub(crate) sid: u32,
    pub(crate) serial: u32,
    pub(crate) pid: u32,
    /// `USER` or `BACKGROUND`.
    pub(crate) kind: String,
    pub(crate) user: String,
    pub(crate) program: String,
    pub(crate) module: String,
    /// Addresses of KSUSEOPC, KSUSETIM, KSUSESQH and KSUSENUM.
    pub(crate) event: u64,
    pub(crate) on_cpu: u64,
    pub(crate) statement: u64,
    pub(crate) number: u64,
}

/// What a MAP says.
#[derive(Debug, Default)]
pub(crate) struct Map {
    pub(crate) instance: String,
    pub(crate) version: String,
    pub(crate) sessions: Vec<MapSession>,
    pub(crate) names: EventNames,
    /// It has its last line.
    pub(crate) complete: bool,
    /// What is wrong with it, with file and line.
    pub(crate) problems: Vec<String>,
    /// Lines that were cut, and joined again.
    cut: usize,
}

impl Map {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is not a MAP.
    pub(crate) fn read(path: &Path) -> Result<Map, CollectError> {
        let metadata = fs::metadata(path).map_err(|e| CollectError::io(path, e))?;
        if !metadata.is_file() || metadata.len() > LARGEST {
            let error = std::io::Error::other("not a plain file of less than 256 MB");
            return Err(CollectError::io(path, error));
        }
        let bytes = fs::read(path).map_err(|e| CollectError::io(path, e))?;
        let map = Map::parse(&String::from_utf8_lossy(&bytes), &path.display().to_string());
        if map.sessions.is_empty() {
            return Err(CollectError::Map {
                path: path.to_path_buf(),
                problems: map
                    .problems
                    .iter()
                    .map(|problem| format!("\n  {problem}"))
                    .collect(),
            });
        }
        Ok(map)
    }

    /// Reads a text; `name`: its name in messages.
    pub(crate) fn parse(text: &str, name: &str) -> Map {
        let mut map = Map::default();
        let mut bad = Vec::new();
        let mut pending: Option<(usize, String)> = None;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_end_matches(['\r', ' ', '\t', '\0']);
            let at = number + 1;
            if kind_of(line).is_some() {
                if let Some((begin, text)) = pending.take() {
                    bad.push((begin, missing(&text)));
                }
                pending = map.take_if_complete(at, line.to_string(), &mut bad);
            } else if let Some(error) = error_of(line) {
                bad.push((at, error));
            } else if let Some((begin, mut text)) = pending.take()
                && !line.trim().is_empty()
            {
                // Cut at LINESIZE: the rest is on the next line.
                text.push_str(line);
                map.cut += 1;
                pending = map.take_if_complete(begin, text, &mut bad);
            }
        }
        if let Some((begin, text)) = pending {
            bad.push((begin, missing(&text)));
        }
        bad.sort();
        let told = bad.iter().take(TOLD);
        map.problems
            .extend(told.map(|(line, what)| format!("{name}:{line}: {what}")));
        if bad.len() > TOLD {
            map.problems
                .push(format!("{name}: {} more lines cannot be used", bad.len() - TOLD));
        }
        if map.cut > 0 {
            map.problems.push(format!(
                "{name}: {} lines were cut, as LINESIZE is too small: blanks may be missing in names",
                map.cut
            ));
        }
        if !map.complete {
            map.problems.push(format!(
                "{name}: the last line is missing: the script did not finish, or is still running"
            ));
        }
        map
    }

    /// Takes a record, or returns it if it is incomplete.
    fn take_if_complete(
        &mut self,
        line: usize,
        text: String,
        bad: &mut Vec<(usize, String)>,
    ) -> Option<(usize, String)> {
        let (kind, wanted) = kind_of(&text)?;
        if text.len() < LONGEST_RECORD
            && (text.bytes().filter(|&b| b == b'"').count() % 2 == 1 || !text.ends_with(&format!(",{END}")))
        {
            return Some((line, text));
        }
        let fields = match fields_of(&text) {
            Ok(fields) => fields,
            Err(error) => {
                bad.push((line, error));
                return None;
            }
        };
        let taken = if fields.len() == wanted {
            self.take(line, kind, &fields)
        } else {
            Err(format!(
                "a record of type {kind} has {wanted} fields, not {}",
                fields.len()
            ))
        };
        bad.extend(taken.err().map(|error| (line, error)));
        None
    }

    fn take(&mut self, line: usize, kind: &str, fields: &[String]) -> Result<(), String> {
        let field = |n: usize| fields.get(n).map(String::as_str).unwrap_or_default();
        let number = |n: usize, what: &str| {
            field(n)
                .parse::<u32>()
                .map_err(|_| format!("{what} {:?} is not a number", field(n)))
        };
        match kind {
            "instance" => {
                self.instance = field(1).to_string();
                self.version = field(2).to_string();
            }
            "session" => {
                let pid = number(3, "spid")?;
                if pid == 0 || pid > i32::MAX.cast_unsigned() {
                    return Err(format!("spid {pid} is not a process id"));
                }
                let session = MapSession {
                    line,
                    sid: number(1, "sid")?,
                    serial: number(2, "serial#")?,
                    pid,
                    kind: field(4).to_string(),
                    user: field(5).to_string(),
                    program: field(6).to_string(),
                    module: field(7).to_string(),
                    event: address(field(8), "KSUSEOPC")?,
                    on_cpu: address(field(9), "KSUSETIM")?,
                    // Without these the wait event is still known.
                    statement: address(field(10), "KSUSESQH").unwrap_or(0),
                    number: address(field(11), "KSUSENUM").unwrap_or(0),
                };
                if let Some(other) = self.sessions.iter().find(|other| other.pid == pid) {
                    return Err(format!(
                        "process {pid} also belongs to session {},{} (line {}): only that one is recorded",
                        other.sid, other.serial, other.line
                    ));
                }
                self.sessions.push(session);
            }
            "event" => {
                let class = Some(field(3)).filter(|class| !class.is_empty());
                self.names.add(number(1, "event#")?, field(2), class);
            }
            _ => {
                self.complete = true;
                let (sessions, events) = (number(1, "count")?, number(2, "count")?);
                let found = (self.sessions.len() as u32, self.names.len() as u32);
                if found.0 < sessions || found.1 < events {
                    return Err(format!(
                        "the database has {sessions} sessions and {events} events, of which {} and {} were found",
                        found.0, found.1
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Kind of the record that a line begins, and its number of fields.
fn kind_of(line: &str) -> Option<(&'static str, usize)> {
    let line = line.trim_start().trim_start_matches('"');
    KINDS.into_iter().find(|(kind, _)| {
        line.strip_prefix(kind)
            .is_some_and(|rest| rest.trim_start_matches('"').starts_with(','))
    })
}

fn missing(text: &str) -> String {
    let (kind, _) = kind_of(text).unwrap_or_default();
    format!("this record of type {kind} is truncated: its last field must be {END}")
}

/// An error message of the database, or of SQL*Plus.
fn error_of(line: &str) -> Option<String> {
    let line = line.trim();
    let is_error = ["ORA-", "SP2-"].iter().any(|start| {
        line.strip_prefix(start)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    is_error.then(|| format!("SQL*Plus says: {line}"))
}

fn fields_of(text: &str) -> Result<Vec<String>, String> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    match reader.records().next() {
        Some(Ok(record)) => Ok(record.iter().map(str::to_string).collect()),
        Some(Err(error)) => Err(error.to_string()),
        None => Ok(Vec::new()),
    }
}

/// An address: hexadecimal with `0x`, or as Oracle shows a RAW (16 hexadecimal digits); else decimal.
fn address(text: &str, what: &str) -> Result<u64, String> {
    let hexadecimal = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))
        .or_else(|| Some(text).filter(|text| text.len() == 16));
    let parsed = match hexadecimal {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    match parsed {
        // The upper half belongs to the kernel, the first page to nobody.
        Ok(address) if (4096..1 << 63).contains(&address) => Ok(address),
        _ => Err(format!("address of {what} {text:?} is not an address")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "\
instance,ORCL,19.3.0.0.0,.
session,12,3456,4711,USER,SCOTT,\"sqlplus@dbhost (TNS V1-V3)\",\"a \"\"module\"\", of two\",0x0000000061AF8D28,0x61AF8D40,1639943528,0x61AF8D60,.
event,146,db file sequential read,User I/O,.
event,351,\"SQL*Net message from client\",Idle,.
end,1,2,.
";

    #[test]
    fn a_map_says_who_the_sessions_are_and_where_they_say_what_they_wait_for() {
        let map = Map::parse(GOOD, "m.csv");
        assert_eq!(map.problems, Vec::<String>::new());
        assert_eq!(
            (map.instance.as_str(), map.version.as_str()),
            ("ORCL", "19.3.0.0.0")
        );
        let session = &map.sessions[0];
        assert_eq!((session.sid, session.serial, session.pid), (12, 3456, 4711));
        assert_eq!(session.module, "a \"module\", of two");
        assert_eq!((session.event, session.on_cpu), (0x61AF_8D28, 0x61AF_8D40));
        assert_eq!((session.statement, session.number), (1_639_943_528, 0x61AF_8D60));
        assert_eq!(map.names.name(146), Some("db file sequential read"));
    }

    #[test]
    fn what_sqlplus_adds_is_no_record_and_what_it_cuts_is_put_together() {
        let mut text = String::from("\r\nConnected.\r\n\r\n'SESSION,'||SID\r\n--------------\r\n\r\n");
        for line in GOOD.lines() {
            // Cut as with a LINESIZE of 41, and padded with blanks.
            let characters: Vec<char> = line.chars().collect();
            for part in characters.chunks(41) {
                text.push_str(&format!("{:<44}\r\n", part.iter().collect::<String>()));
            }
            text.push_str("\r\nno rows selected\r\n");
        }
        let map = Map::parse(&text, "m.csv");
        assert_eq!(map.problems.len(), 1, "{:?}", map.problems);
        assert!(map.problems[0].contains("LINESIZE"), "{:?}", map.problems);
        assert_eq!(map.sessions, {
            let mut sessions = Map::parse(GOOD, "").sessions;
            sessions[0].line = map.sessions[0].line;
            sessions
        });
    }

    #[test]
    fn bad_lines_are_told_with_their_place_and_the_others_are_used() {
        let text = GOOD.replace(
            "event,146",
            "ORA-00942: table or view does not exist\nsession,13,1,x,USER,A,B,C,1,2,3,4,.\nsession,14,1\nsession,15,1,99,USER,A,B,C,nowhere,5000,5000,5000,.\nsession,16,1,4711,USER,A,B,C,5000,5000,5000,5000,.\nevent,146",
        );
        let map = Map::parse(&text, "m.csv");
        assert_eq!(map.sessions.len(), 1);
        for part in [
            "m.csv:3: SQL*Plus says: ORA-00942",
            "m.csv:4: spid \"x\" is not a number",
            "m.csv:5: this record of type session is truncated",
            "m.csv:6: address of KSUSEOPC \"nowhere\" is not an address",
            "m.csv:7: process 4711 also belongs to session 12,3456 (line 2)",
        ] {
            assert!(
                map.problems.iter().any(|p| p.starts_with(part)),
                "{part}: {:#?}",
                map.problems
            );
        }
        let cut = Map::parse(&GOOD[..GOOD.len() - 9], "m.csv");
        assert!(
            !cut.complete && cut.problems[0].contains("last line is missing"),
            "{:?}",
            cut.problems
        );
    }

    #[test]
    fn addresses_come_in_three_ways() {
        for (text, address) in [
            ("0x7F00", 0x7F00),
            ("0000000061AF8D28", 0x61AF_8D28),
            ("1639943464", 1_639_943_464),
        ] {
            assert_eq!(super::address(text, "A"), Ok(address));
        }
        for wrong in ["", "0", "-1", "0x", "FFFFFFFFFFFFFFFF", "123456789012345678901"] {
            assert!(address(wrong, "A").is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(session|event|end|instance|[0-9,\"x\n ]|[\\PC])*") {
            Map::parse(&text, "m.csv");
        }
    }
}
