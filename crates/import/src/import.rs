//! What an import has gathered so far. Importers add to it; [`crate::import`] makes the result of it.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use dbtime_model::recording::{
    CollectorMeta, Cost, DatabaseMeta, HostMeta, Meta, Note, Quality, SCHEMA_VERSION, Segments,
};
use dbtime_model::{ActivityRow, CounterRow, Rows, SessionId, SessionRow, StatementRow};

use crate::TraceFile;

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

/// Rows of several files under one roof: sessions and statements once.
#[derive(Debug, Default)]
pub struct Import {
    rows: Rows,
    sessions: HashMap<String, SessionId>,
    statements: HashSet<u64>,
    files: Vec<TraceFile>,
    problems: Vec<String>,
    host: HostMeta,
    database: DatabaseMeta,
}

impl Import {
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
            self.rows.statements.push(StatementRow {
                id,
                text,
                ..StatementRow::default()
            });
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
        let end_us = ends.max().map_or(start_us, |last| last.saturating_add(SECOND_US));
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
                tier: "exact".to_string(),
                rate_hz: 0,
                engine: format!("imported: {engine}"),
                reasons: Vec::new(),
            },
            segments: Segments::default(),
            quality: Quality::default(),
            cost: Cost::default(),
            notes: self.problems.iter().map(note).collect(),
            ..Meta::default()
        };
        Imported {
            meta,
            rows: self.rows,
            files: self.files,
            problems: self.problems,
        }
    }
}
