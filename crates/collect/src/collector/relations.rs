//! The tables and indexes that rows are about, by name.

use std::collections::HashMap;

use arcstr::ArcStr;

use super::Collector;

/// How many rows of each kind, from the first on, are from a server that has ended, on another directory than the current one, in which
/// their numbers mean something else.
#[derive(Debug, Default)]
pub(super) struct Unnamed {
    latency: usize,
    held_locks: usize,
    locks: usize,
}

impl Collector {
    /// Names those that rows have only as a file or an id, before the rows are passed on.
    pub(super) fn name_relations(&mut self) {
        let Collector {
            database,
            rows,
            unnamed,
            ..
        } = self;
        let mut known: HashMap<ArcStr, Option<ArcStr>> = HashMap::new();
        let latency = rows.latency.iter_mut().skip(unnamed.latency);
        let latency = latency.map(|row| (&row.file, &mut row.relation));
        let held = rows.held_locks.iter_mut().skip(unnamed.held_locks);
        let held = held.map(|row| (&row.file, &mut row.relation));
        for (file, relation) in latency.chain(held).filter(|(file, _)| !file.is_empty()) {
            let name = known
                .entry(ArcStr::clone(file))
                .or_insert_with(|| database.relation_of_file(file));
            if let Some(name) = name {
                *relation = ArcStr::clone(name);
            }
        }
        for row in rows.locks.iter_mut().skip(unnamed.locks) {
            if let (Some(of), Some(relation)) = (row.database, row.relation)
                && let Some(name) = database.relation_name(of, relation)
            {
                row.relation_name = name.to_string();
            }
        }
    }

    /// The waiting rows keep the names that they have: their files can no longer be read.
    pub(super) fn name_no_more(&mut self) {
        self.unnamed = Unnamed {
            latency: self.rows.latency.len(),
            held_locks: self.rows.held_locks.len(),
            locks: self.rows.locks.len(),
        };
    }
}
