//! Names of databases and relations, as far as any lock on them has one.

use std::collections::BTreeMap;

use super::LockTarget;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Names {
    databases: BTreeMap<u32, String>,
    relations: BTreeMap<(u32, u32), String>,
}

impl Names {
    pub(super) fn learn(&mut self, target: &LockTarget) {
        if let (Some(id), Some(name)) = (target.database, &target.database_name) {
            self.databases.insert(id, name.clone());
        }
        if let (Some(id), Some(name)) = (target.whose_relation(), &target.relation_name) {
            self.relations.insert(id, name.clone());
        }
    }

    /// Makes a lock the same whether or not a holder has its database's name, and also from before its relation had a name.
    pub(super) fn complete(&self, target: &mut LockTarget) {
        target.database_name = target.database.and_then(|id| self.databases.get(&id).cloned());
        target.relation_name = target
            .whose_relation()
            .and_then(|id| self.relations.get(&id).cloned());
    }
}
