//! The spool of the script that `dbtime oracle-snap` prints: two or more readings of statistics, time model and waits of Oracle sessions.
//!
//! # Format
//! Lines of comma-separated fields, text in quotes; the last field is a point, so that a truncated line shows.
//! ```text
//! dbtime-oracle-snap 1
//! instance,"NAME","VERSION",.
//! session,TIME,SID,SERIAL#,SECONDS SINCE LOGON,"TYPE","USERNAME","PROGRAM",.
//! stat,TIME,SID,SERIAL#,"NAME",VALUE,.
//! time,TIME,SID,SERIAL#,"NAME",MICROSECONDS,.
//! wait,TIME,SID,SERIAL#,"EVENT","WAIT CLASS",MICROSECONDS,WAITS,.
//! waiting,TIME,SID,SERIAL#,"EVENT","WAIT CLASS",MICROSECONDS,.
//! read,.
//! ```
//! TIME is that of the reading, in UTC, to the microsecond. Numbers are totals since logon; zeros are left out. `waiting` is the wait that
//! has not ended, which the database has not added to `wait` yet.
//!
//! # Rows
//! See [`crate::session_growth`]: what grew between a reading and the next. A session that logged on in between starts at 0. One that
//! logged off is not in the second reading. Statistics may shrink (memory, open cursors); times and waits do not, so those that did are
//! left out.

mod reading;
mod record;

use std::io::Read;
use std::path::Path;

use dbtime_model::recording::ImportedFile;

use crate::import::unknown_line;
use crate::lines::Line;
use crate::oracle_spool::Heading;
use crate::{Import, ImportError, Importer, Lines, Measure};
use reading::Readings;
use record::{Record, record};

const HEADING: &[u8] = b"dbtime-oracle-snap ";
const VERSION: &[u8] = b"1";

/// The importer of this format.
#[derive(Debug)]
pub(crate) struct OracleSnap;

impl Importer for OracleSnap {
    fn name(&self) -> &'static str {
        "readings of dbtime oracle-snap"
    }

    fn detect(&self, head: &[u8]) -> bool {
        head.split(|byte| *byte == b'\n')
            .any(|line| line.starts_with(HEADING))
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
            version: String::new(),
            heading: Heading::new(HEADING, VERSION),
            readings: Readings::new(path),
        };
        while let Some(line) = lines.next_line() {
            reader.line(line);
        }
        reader.finish(lines.number());
        Ok(())
    }
}

struct Reader<'a> {
    into: &'a mut Import,
    file: ImportedFile,
    version: String,
    heading: Heading,
    readings: Readings,
}

impl Reader<'_> {
    fn line(&mut self, line: Line<'_>) {
        let text = line.bytes.trim_ascii();
        if self.heading.takes(text) {
            return;
        }
        match record(text) {
            Some(Record::Instance { version }) => self.version = version,
            Some(Record::Read { time_us, sid, what }) => self.readings.read(time_us, sid, &what, self.into),
            Some(Record::End) => self.readings.end(true, self.into),
            None => {
                self.readings.is_damaged();
                unknown_line(&mut self.file, line.number, line.bytes);
            }
        }
    }

    fn finish(mut self, lines: u64) {
        self.file.lines = lines;
        self.into.database("Oracle Database", &self.version);
        self.into.set_measure(Measure::default());
        if self.heading.is_known(&self.file.path, self.into) {
            self.readings.finish(&self.file.path, self.into);
        }
        self.into.file(self.file);
    }
}
