//! The tables and indexes that rows are about, by name.

use std::collections::HashMap;
use std::sync::Arc;

use super::Collector;

impl Collector {
    /// Names those of which rows have only a file or an id, before the rows are handed on.
    pub(super) fn name_relations(&mut self) {
        let Collector { database, rows, .. } = self;
        let mut known: HashMap<Arc<str>, Option<Arc<str>>> = HashMap::new();
        let latency = rows.latency.iter_mut().map(|row| (&row.file, &mut row.relation));
        let held = rows
            .held_locks
            .iter_mut()
            .map(|row| (&row.file, &mut row.relation));
        for (file, relation) in latency.chain(held).filter(|(file, _)| !file.is_empty()) {
            let name = known
                .entry(Arc::clone(file))
                .or_insert_with(|| database.relation_of_file(file));
            if let Some(name) = name {
                *relation = Arc::clone(name);
            }
        }
        for row in &mut rows.locks {
            if let (Some(of), Some(relation)) = (row.database, row.relation)
                && let Some(name) = database.relation_name(of, relation)
            {
                row.relation_name = name.to_string();
            }
        }
    }
}
