//! What an import has gathered so far. Importers add to it; [`crate::import`] makes the result of it.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use dbtime_model::recording::{
    Clock, CollectorMeta, Cost, DatabaseMeta, HostMeta, Meta, Note, Quality, SCHEMA_VERSION, Segments, Unit,
};
use dbtime_model::{
    ActivityRow, CounterRow, Frame, Rows, SessionId, SessionRow, StackId, StackRow, StatementRow, stack_id,
};

use crate::{Options, TraceFile};

/// What was imported.
#[derive(Debug)]
pub struct Imported {
    /// What is said about the rows.
    pub meta: Meta,
    /// The rows.
    pub rows: Rows,
    /// What is known of each file.
    pub files: Vec<TraceFile>,
    /// What could not be read or understood, in sentences; also in the notes of `meta`.
    pub problems: Vec<String>,
}

/// What the rows of a file are: those of files that differ in it cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nature {
    /// Samples, not what was measured from begin to end.
    pub sampled: bool,
    /// What they count.
    pub unit: Unit,
    /// What their moments are.
    pub clock: Clock,
}

impl Default for Nature {
    /// Exact times of day.
    fn default() -> Nature {
        Nature {
            sampled: false,
            unit: Unit::Time,
            clock: Clock::Utc,
        }
    }
}

/// Rows of several files under one roof: sessions, statements and stacks once.
#[derive(Debug, Default)]
pub struct Import {
    options: Options,
    nature: Option<Nature>,
    rate_hz: Option<u32>,
    reasons: Vec<String>,
    stacks: HashSet<StackId>,
    rows: Rows,
    sessions: HashMap<String, SessionId>,
    statements: HashSet<u64>,
    files: Vec<TraceFile>,
    problems: Vec<String>,
    host: HostMeta,
    database: DatabaseMeta,
}

impl Import {
    pub(crate) fn new(options: Options) -> Import {
        Import {
            options,
            ..Import::default()
        }
    }

    /// What the person who imports knows.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Says what the rows of the present file are; exact times of day when an importer does not say.
    pub(crate) fn set_nature(&mut self, nature: Nature) {
        self.nature = Some(nature);
    }

    /// Takes what the rows of the file before are, so that it can be held against the next one.
    pub(crate) fn take_nature(&mut self) -> Option<Nature> {
        self.nature.take()
    }

    /// Samples per second of the present file; files that differ leave none.
    pub(crate) fn rate(&mut self, hz: u32) {
        let known = *self.rate_hz.get_or_insert(hz);
        self.rate_hz = Some(if known == hz { hz } else { 0 });
    }

    /// Something that a reader of the numbers should know, once.
    pub(crate) fn reason(&mut self, reason: &str) {
        if !self.reasons.iter().any(|known| known == reason) {
            self.reasons.push(reason.to_string());
        }
    }

    /// Adds a stack, root first, once.
    pub(crate) fn stack(&mut self, frames: Vec<Frame>) -> StackId {
        let id = stack_id(&frames);
        if !frames.is_empty() && self.stacks.insert(id) {
            self.rows.stacks.push(StackRow { id, frames });
        }
        id
    }

    /// Adds rows of a session. `identity` tells sessions apart: a second file of the same session continues it.
    pub(crate) fn session(
        &mut self,
        identity: &str,
        mut row: SessionRow,
        activity: Vec<ActivityRow>,
        counters: Vec<CounterRow>,
    ) {
        let next = SessionId(self.sessions.len() as u64 + 1);
        let id = *self.sessions.entry(identity.to_string()).or_insert(next);
        match self.rows.sessions.iter_mut().find(|known| known.id == id) {
            Some(known) => known.started = known.started.min(row.started),
            None => {
                row.id = id;
                self.rows.sessions.push(row);
            }
        }
        let activity = activity.into_iter().map(|row| ActivityRow { session: id, ..row });
        self.rows.activity.extend(activity);
        let counters = counters.into_iter().map(|row| CounterRow { session: id, ..row });
        self.rows.counters.extend(counters);
    }

    /// Adds a statement, once.
    pub(crate) fn statement(&mut self, id: u64, text: &[u8]) {
        if self.statements.insert(id) {
            let text = String::from_utf8_lossy(text).trim_end().to_string();
            self.rows.statements.push(StatementRow { id, text });
        }
    }

    /// The host that the files speak of.
    pub(crate) fn host(&mut self) -> &mut HostMeta {
        &mut self.host
    }

    /// The database that the files speak of.
    pub(crate) fn database(&mut self, product: &str, version: &str) {
        self.database.product = product.to_string();
        self.database.version = version.to_string();
    }

    /// A file is done.
    pub(crate) fn file(&mut self, file: TraceFile) {
        self.problems.extend(file.problems());
        self.files.push(file);
    }

    /// Something could not be read.
    pub(crate) fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    pub(crate) fn finish(mut self, paths: &[PathBuf], engine: &str) -> Imported {
        const SECOND_US: i64 = 1_000_000;
        // Rows stand where their time ended: what was imported began earlier.
        let begins = self.rows.sessions.iter().map(|row| row.started);
        let start_us = begins
            .min()
            .map_or(0, |begin| begin.div_euclid(SECOND_US) * SECOND_US);
        let ends = self.rows.activity.iter().map(|row| row.time);
        let nature = self.nature.unwrap_or_default();
        let end_us = match nature.clock {
            Clock::None => start_us,
            Clock::Utc | Clock::Relative => {
                ends.max().map_or(start_us, |last| last.saturating_add(SECOND_US))
            }
        };
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        self.database.target = names.join(" ");
        let note = |text: &String| Note {
            time_us: start_us,
            text: text.clone(),
        };
        let meta = Meta {
            schema: SCHEMA_VERSION.to_string(),
            dbtime: env!("CARGO_PKG_VERSION").to_string(),
            start_us,
            end_us,
            complete: true,
            host: self.host,
            database: self.database,
            collector: CollectorMeta {
                tier: if nature.sampled { "sampled" } else { "exact" }.to_string(),
                rate_hz: self.rate_hz.unwrap_or(0),
                engine: format!("imported: {engine}"),
                reasons: self.reasons,
                unit: nature.unit,
                clock: nature.clock,
            },
            segments: Segments::default(),
            quality: Quality::default(),
            cost: Cost::default(),
            notes: self.problems.iter().map(note).collect(),
        };
        Imported {
            meta,
            rows: self.rows,
            files: self.files,
            problems: self.problems,
        }
    }
}
