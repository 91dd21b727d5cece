//! Names of Oracle's wait events by number: a session's memory holds the number, `V$EVENT_NAME` the name.
//!
//! Two forms of files are read: CSV (`EVENT#`, `NAME` and perhaps `WAIT_CLASS`, by headings in any order or, without
//! headings, in this one), and the script for sed that the original tools use (`s/\<event#=158\>/event=NAME/g`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use dbtime_model::Wait;

use crate::oracle_trace::events::Events;

/// Longer files are not such lists.
const MAX_BYTES: u64 = 16 << 20;

/// Class of an event whose name or class is not known.
const UNCLASSIFIED: &str = "unclassified";

/// Why there are no names.
#[derive(Debug, thiserror::Error)]
pub enum EventNamesError {
    /// The file cannot be read.
    #[error("{0}: {1}")]
    Io(PathBuf, std::io::Error),
    /// Nothing in it is an event.
    #[error(
        "{0}: no event names; it must be CSV with event# and name (select event#, name, wait_class from v$event_name) or \
         a sed script with lines such as s/\\<event#=158\\>/event=db file parallel read/g"
    )]
    None(PathBuf),
}

/// Name, and the class when the list has it, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventNames(HashMap<u64, (String, String)>);

impl EventNames {
    /// Reads a list.
    ///
    /// # Errors
    /// The file cannot be read, or holds no event.
    pub fn read(path: &Path) -> Result<EventNames, EventNamesError> {
        let io = |e| EventNamesError::Io(path.to_path_buf(), e);
        let length = std::fs::metadata(path).map_err(io)?.len();
        if length > MAX_BYTES {
            return Err(EventNamesError::None(path.to_path_buf()));
        }
        let names = EventNames::parse(&std::fs::read(path).map_err(io)?);
        if names.0.is_empty() {
            return Err(EventNamesError::None(path.to_path_buf()));
        }
        Ok(names)
    }

    /// Reads a list from memory; anything else in it is skipped.
    pub fn parse(text: &[u8]) -> EventNames {
        let sed: HashMap<_, _> = text.split(|byte| *byte == b'\n').filter_map(sed_line).collect();
        if sed.is_empty() {
            EventNames(csv(text))
        } else {
            EventNames(sed)
        }
    }

    /// The wait of an event number.
    pub(crate) fn wait(&self, number: u64, events: &mut Events) -> Wait {
        match self.0.get(&number) {
            None => Wait::event(UNCLASSIFIED, format!("event#={number}"), false),
            Some((name, class)) if class.is_empty() => {
                let id = events.id(name.as_bytes());
                events.get(id).wait.clone()
            }
            Some((name, class)) => Wait::event(class, name, class == "Idle"),
        }
    }
}

/// `s/\<event#=158\>/event=db file parallel read/g`
fn sed_line(line: &[u8]) -> Option<(u64, (String, String))> {
    let line = String::from_utf8_lossy(line);
    let (number, rest) = line
        .trim()
        .strip_prefix("s/\\<event#=")?
        .split_once("\\>/event=")?;
    // Names have slashes of their own ("Disk file operations I/O"), which the script writes as they are or as \/.
    let name = rest.strip_suffix('g').unwrap_or(rest);
    let name = name.strip_suffix('/').unwrap_or(name).replace("\\/", "/");
    Some((
        number.trim().parse().ok()?,
        (name.trim().to_string(), String::new()),
    ))
}

fn csv(text: &[u8]) -> HashMap<u64, (String, String)> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text);
    let mut columns = (0, 1, 2);
    let mut names = HashMap::new();
    for record in reader.byte_records().flatten() {
        let at = |heading: &str| {
            record
                .iter()
                .position(|field| field.eq_ignore_ascii_case(heading.as_bytes()))
        };
        if let (Some(number), Some(name)) = (at("event#"), at("name")) {
            columns = (number, name, at("wait_class").unwrap_or(usize::MAX));
            continue;
        }
        let text = |column: usize| {
            let field = record.get(column).unwrap_or_default();
            String::from_utf8_lossy(field).into_owned()
        };
        if let Ok(number) = text(columns.0).parse()
            && !text(columns.1).is_empty()
        {
            names.insert(number, (text(columns.1), text(columns.2)));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let names = EventNames::parse(text.as_bytes());
        let mut events = Events::new();
        [153, 158, 7]
            .map(|number| names.wait(number, &mut events).to_string())
            .to_vec()
    }

    #[test]
    fn names_come_from_csv_and_from_sed() {
        let all = [
            "User I/O:db file sequential read",
            "User I/O:db file parallel read",
            "unclassified:event#=7",
        ];
        let csv = "\"EVENT#\",\"NAME\",\"WAIT_CLASS\"\r\n153,\"db file sequential read\",\"User I/O\"\r\n\
                   158,\"db file parallel read\",\"User I/O\"\r\n";
        assert_eq!(names(csv), all);
        assert_eq!(
            names("153,db file sequential read\n158,db file parallel read\n"),
            all
        );
        assert_eq!(
            names(
                "WAIT_CLASS,NAME,EVENT#\nUser I/O,db file sequential read,153\nUser I/O,db file parallel read,158"
            ),
            all
        );
        assert_eq!(
            names(
                "s/\\<event#=153\\>/event=db file sequential read/g\ns/\\<event#=158\\>/event=db file parallel read/g\n"
            ),
            all
        );
    }

    #[test]
    fn a_name_with_a_slash_is_whole() {
        for slash in ["/", "\\/"] {
            let text = format!("s/\\<event#=7\\>/event=Disk file operations I{slash}O/g");
            assert_eq!(names(&text)[2], "User I/O:Disk file operations I/O");
        }
    }

    #[test]
    fn text_without_events_gives_none() {
        for text in ["", "a,b,c", "\u{0}\u{1}", "event#,name\n", "s/x/y/g"] {
            assert_eq!(
                EventNames::parse(text.as_bytes()),
                EventNames::default(),
                "{text}"
            );
        }
    }
}
