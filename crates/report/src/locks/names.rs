//! How databases and relations are called, as far as any of the locks on them says it.

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

    /// One lock is one, whether all that had it say how its database is called or not, and from the time before its relation had a name, too.
    pub(super) fn complete(&self, target: &mut LockTarget) {
        target.database_name = target.database.and_then(|id| self.databases.get(&id).cloned());
        target.relation_name = target
            .whose_relation()
            .and_then(|id| self.relations.get(&id).cloned());
    }
}
