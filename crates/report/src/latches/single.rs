//! Which one it is of several locks of the same name.

use arcstr::ArcStr;
use dbtime_model::HeldLockRow;
use serde::{Serialize, Serializer};

/// One lock.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SingleLock {
    /// Which of them, if the database numbers them.
    pub number: Option<u32>,
    /// Its address in the server's memory; 0 = not known or distinguished, or of a page, which may have been in several buffers.
    #[serde(serialize_with = "hexadecimal")]
    pub address: u64,
    /// The relation of its page, as `schema.name`; empty = none, or not known.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub relation: ArcStr,
    /// The file with its page, without segment number; empty = none, or not known.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub file: ArcStr,
    /// The number of its page in that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
}

fn hexadecimal<S: Serializer>(address: &u64, to: S) -> Result<S::Ok, S::Error> {
    (*address != 0).then(|| format!("{address:#x}")).serialize(to)
}

impl SingleLock {
    pub(super) fn of_row(row: &HeldLockRow) -> SingleLock {
        SingleLock {
            number: row.number,
            address: if row.block.is_some() { 0 } else { row.address },
            relation: ArcStr::clone(&row.relation),
            file: ArcStr::clone(&row.file),
            block: row.block,
        }
    }

    /// Whether it may be any of the locks of its name.
    pub(super) fn is_any(&self) -> bool {
        *self == SingleLock::default()
    }

    /// What its page belongs to; none if it has no page, or that is not known.
    pub(super) fn relation_or_file(&self) -> Option<String> {
        if self.file.is_empty() {
            return None;
        }
        if self.relation.is_empty() {
            return Some(self.file.to_string());
        }
        let fork = match self.file.rsplit_once('_') {
            Some((_, "vm")) => " (visibility map)",
            Some((_, "fsm")) => " (free space map)",
            Some((_, "init")) => " (init fork)",
            _ => "",
        };
        Some(format!("{}{fork}", self.relation))
    }

    /// Its name in texts: by number, else by page, else by address.
    pub fn label(&self) -> String {
        match (self.number, self.relation_or_file(), self.block, self.address) {
            (Some(number), ..) => format!("[{number}]"),
            (None, Some(of), Some(block), _) => format!("{of} block {block}"),
            (None, _, _, 0) => "[not told apart]".to_string(),
            (None, _, _, address) => format!("{address:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_called_by_its_relation_and_fork() {
        let page = |relation: &str, file: &str| SingleLock {
            relation: relation.into(),
            file: file.into(),
            block: Some(7),
            ..SingleLock::default()
        };
        let label = |relation, file| page(relation, file).label();
        assert_eq!(label("public.t", "base/5/16384"), "public.t block 7");
        assert_eq!(
            label("public.t", "base/5/16384_vm"),
            "public.t (visibility map) block 7"
        );
        // As long as it has no name.
        assert_eq!(label("", "base/5/16384_fsm"), "base/5/16384_fsm block 7");
        // The directory of a tablespace contains another '_'.
        assert_eq!(
            label("public.t", "pg_tblspc/1/PG_17_2/5/16384"),
            "public.t block 7"
        );
    }
}
