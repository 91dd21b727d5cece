//! Statements that are treated as one because they differ only in literals.

use std::collections::HashMap;

use dbtime_model::literals::signature;

use crate::dimensions::Dimensions;

/// Which statements are treated as one because they differ only in literals.
#[derive(Debug, Default)]
pub(crate) struct AlikeStatements {
    of: HashMap<u64, u64>,
    sizes: HashMap<u64, usize>,
}

impl AlikeStatements {
    /// Every statement on its own.
    pub(crate) fn none() -> AlikeStatements {
        AlikeStatements::default()
    }

    /// Groups statements that differ only in literals. The lowest id represents its group.
    pub(crate) fn by_literals(ids: impl Iterator<Item = u64>, dimensions: &Dimensions) -> AlikeStatements {
        let mut groups = AlikeStatements::default();
        let mut first: HashMap<String, u64> = HashMap::new();
        let mut ids: Vec<u64> = ids.collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let Some(text) = dimensions.statement(id) else {
                continue;
            };
            let group = *first.entry(signature(text)).or_insert(id);
            groups.of.insert(id, group);
            *groups.sizes.entry(group).or_default() += variants(id, dimensions);
        }
        groups
    }

    /// True when nothing is grouped.
    pub(crate) fn is_none(&self) -> bool {
        self.of.is_empty()
    }

    /// The statement that represents this one.
    pub(crate) fn of(&self, id: u64) -> u64 {
        self.of.get(&id).copied().unwrap_or(id)
    }

    /// How many statements it represents.
    pub(crate) fn size(&self, id: u64, dimensions: &Dimensions) -> usize {
        let size = self.sizes.get(&id).copied();
        size.unwrap_or_else(|| variants(id, dimensions))
    }
}

/// How many statements a row represents: an importer that met too many kept only one of those that are alike.
fn variants(id: u64, dimensions: &Dimensions) -> usize {
    let alike = dimensions.statement_row(id).map_or(0, |row| row.alike);
    usize::try_from(alike).unwrap_or(usize::MAX).saturating_add(1)
}
