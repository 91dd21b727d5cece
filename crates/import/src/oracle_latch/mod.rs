//! The spool of the script that `dbtime oracle-latch` prints: samples of who holds which latch of an Oracle instance.
//!
//! # Format
//! Lines of comma-separated fields, text in quotes; the last field is a point, so that a truncated line shows.
//! ```text
//! dbtime-oracle-latch 1
//! instance,"NAME","VERSION",.
//! held,TIME,SID,SERIAL#,ADDRESS,GETS,"LATCH","MODE","PLACE","WHAT FOR","SQL_ID","WAIT CLASS","WAIT EVENT",.
//! taken,BEGIN,END,SAMPLES,HELD,.
//! child,ADDRESS,CHILD#,.
//! sampled,SAMPLES,HELD,.
//! session,SID,SERIAL#,"TYPE","USERNAME","PROGRAM",.
//! end,.
//! ```
//! Times are in UTC, to the microsecond. A line `held` is one holder in one sample. `taken` comes at the end of each second, and before a
//! gap: between BEGIN and END there were SAMPLES samples, and HELD of the lines above are from them. Without SYS, MODE, PLACE and WHAT FOR
//! are empty.
//!
//! # Rows
//! As for `LatchProfX`: every sample stands for the same time, that of all stretches divided by the number of samples. `gets` counts a hold
//! in the first sample that met it: GETS of the latch is not what it was when the session was last seen to hold it. Simultaneous shared
//! holders of a latch see each other's gets.

mod holds;
mod record;

use std::io::Read;
use std::path::Path;

use dbtime_model::recording::{Clock, ImportedFile, Unit};

use crate::import::unknown_line;
use crate::lines::Line;
use crate::oracle_spool::Heading;
use crate::text::without_escapes;
use crate::{Import, ImportError, Importer, Lines, Measure};
use holds::Holds;
use record::{Record, record};

const HEADING: &[u8] = b"dbtime-oracle-latch ";
const VERSION: &[u8] = b"1";

/// The importer of this format.
#[derive(Debug)]
pub(crate) struct OracleLatch;

impl Importer for OracleLatch {
    fn name(&self) -> &'static str {
        "samples of dbtime oracle-latch"
    }

    fn detect(&self, head: &[u8]) -> bool {
        head.split(|byte| *byte == b'\n')
            .any(|line| without_escapes(line).trim_ascii_start().starts_with(HEADING))
    }

    fn import(
        &self,
        lines: &mut Lines<Box<dyn Read + '_>>,
        path: &Path,
        into: &mut Import,
    ) -> Result<(), ImportError> {
        let mut reader = Reader {
            file: crate::import::file(path),
            version: String::new(),
            heading: Heading::new(HEADING, VERSION),
            is_whole: false,
            holds: Holds::default(),
        };
        while let Some(line) = lines.next_line() {
            reader.line(line);
        }
        reader.finish(lines.number(), into);
        Ok(())
    }
}

struct Reader {
    file: ImportedFile,
    version: String,
    heading: Heading,
    is_whole: bool,
    holds: Holds,
}

impl Reader {
    fn line(&mut self, line: Line<'_>) {
        let text = without_escapes(line.bytes);
        let text = text.trim_ascii();
        if self.heading.takes(text) {
            return;
        }
        match record(text) {
            Some(Record::Instance { version }) => self.version = version,
            Some(Record::Held(held)) => self.holds.held(&held),
            Some(Record::Taken(taken)) => self.holds.taken(&taken),
            Some(Record::Child { address, number }) => self.holds.child(address, number),
            Some(Record::Sampled { samples, .. }) => self.holds.sampled(samples),
            Some(Record::Session {
                sid,
                is_background,
                user,
                program,
            }) => self.holds.session(sid, is_background, &user, &program),
            Some(Record::End) => self.is_whole = true,
            None => unknown_line(&mut self.file, line.number, line.bytes),
        }
    }

    fn finish(mut self, lines: u64, into: &mut Import) {
        self.file.lines = lines;
        into.database("Oracle Database", &self.version);
        into.set_measure(Measure {
            sampled: true,
            unit: Unit::Time,
            clock: Clock::Utc,
        });
        if self.heading.is_known(&self.file.path, into) {
            self.holds.finish(&self.file.path, self.is_whole, into);
        }
        into.file(self.file);
    }
}
