//! The tables and indexes that rows are about, by name.

use std::sync::Arc;

use super::Collector;

impl Collector {
    /// Names those of which rows have only a file or an id, before the rows are handed on.
    pub(super) fn name_relations(&mut self) {
        // Rows of a file come one after the other.
        let mut last: Option<(Arc<str>, Option<Arc<str>>)> = None;
        for row in self.rows.latency.iter_mut().filter(|row| !row.file.is_empty()) {
            let name = match &last {
                Some((file, name)) if *file == row.file => name.clone(),
                _ => self.database.relation_of_file(&row.file),
            };
            if let Some(name) = &name {
                row.relation = Arc::clone(name);
            }
            last = Some((Arc::clone(&row.file), name));
        }
        for row in &mut self.rows.locks {
            if let (Some(database), Some(relation)) = (row.database, row.relation)
                && let Some(name) = self.database.relation_name(database, relation)
            {
                row.relation_name = name.to_string();
            }
        }
    }
}
