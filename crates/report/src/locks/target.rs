//! What a lock is on.

use std::fmt;

use arcstr::ArcStr;
use dbtime_model::{LockRow, Session};
use serde::Serialize;

/// The database's name for a lock on a row.
pub(super) const ROW: &str = "tuple";
/// The same for a transaction, by its number and before it has one.
pub(super) const TRANSACTION: &str = "transactionid";
pub(super) const VIRTUAL_TRANSACTION: &str = "virtualxid";

/// What a lock is on, in the columns of `pg_locks`; none: not applicable.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LockTarget {
    /// As the database calls it.
    #[serde(rename = "type")]
    pub kind: ArcStr,
    /// Id of the database; 0 = of all databases.
    pub database: Option<u32>,
    /// Its name, if one of its sessions held the lock or waited for it.
    pub database_name: Option<String>,
    /// Id of the relation.
    pub relation: Option<u32>,
    /// Its name, if the recording has it.
    pub relation_name: Option<String>,
    /// Page.
    pub page: Option<u32>,
    /// Row on the page.
    pub tuple: Option<u32>,
    /// Virtual transaction.
    pub virtualxid: Option<String>,
    /// Transaction.
    pub transactionid: Option<u32>,
    /// Catalogue of an object; upper half of the key of an advisory lock.
    pub classid: Option<u32>,
    /// Object; lower half of that key.
    pub objid: Option<u32>,
    /// Part of an object; 1 = the advisory lock has one key, 2 = it has two.
    pub objsubid: Option<u32>,
}

impl LockTarget {
    pub(crate) fn of(row: &LockRow) -> LockTarget {
        LockTarget {
            kind: row.kind.clone(),
            database: row.database,
            database_name: None,
            relation: row.relation,
            relation_name: (!row.relation_name.is_empty()).then(|| row.relation_name.clone()),
            page: row.page,
            tuple: row.tuple,
            virtualxid: (!row.virtualxid.is_empty()).then(|| row.virtualxid.clone()),
            transactionid: row.transactionid,
            classid: row.classid,
            objid: row.objid,
            objsubid: row.objsubid,
        }
    }

    /// The same for a session that held it or waited for it, with the name of its database: sessions only have locks of their own
    /// database, and of none.
    pub(crate) fn of_session(row: &LockRow, session: &Session) -> LockTarget {
        let mut target = LockTarget::of(row);
        if row.database.is_some_and(|id| id != 0) && !session.database.is_empty() {
            target.database_name = Some(session.database.clone());
        }
        target
    }

    /// What two rows have in common: the row itself, or some row of the relation. None: they are of two relations.
    pub(super) fn row_in_common(self, other: &LockTarget) -> Option<LockTarget> {
        if self.whose_relation() != other.whose_relation() {
            return None;
        }
        match (self.page, self.tuple) == (other.page, other.tuple) {
            true => Some(self),
            false => self.seen_briefly(),
        }
    }

    /// Whether a waiter waits for it only once: it is gone when the wait is over.
    fn is_passing(&self) -> bool {
        matches!(self.kind.as_str(), TRANSACTION | VIRTUAL_TRANSACTION)
    }

    /// Stands for it and others met too briefly to say for how long: transactions, or rows of a relation. None: it is neither.
    pub(super) fn seen_briefly(&self) -> Option<LockTarget> {
        (self.is_passing() || self.kind == ROW).then(|| LockTarget {
            page: None,
            tuple: None,
            virtualxid: None,
            transactionid: None,
            ..self.clone()
        })
    }

    /// Whether samples that met it stand for far more than the longest time it was held or waited for; nanoseconds.
    pub(super) fn is_met_briefly(&self, ns: u128, looks: u128, longest_ns: u128) -> bool {
        longest_ns.saturating_mul(2) < ns && (self.is_passing() || looks <= 1)
    }

    /// False: it stands for several, see [`LockTarget::seen_briefly`].
    pub(super) fn is_one(&self) -> bool {
        self.seen_briefly().is_none_or(|several| several != *self)
    }

    /// Database and relation.
    pub(super) fn whose_relation(&self) -> Option<(u32, u32)> {
        Some((self.database?, self.relation?))
    }

    fn database(&self) -> String {
        match (self.database, &self.database_name) {
            (None, _) => String::new(),
            (Some(0), _) => ", shared".to_string(),
            (Some(_), Some(name)) => format!(" in {name}"),
            (Some(id), None) => format!(" in database {id}"),
        }
    }

    /// The object itself, without its kind and its database.
    fn object(&self) -> String {
        let relation = match (&self.relation_name, self.relation) {
            (Some(name), _) => name.clone(),
            (None, id) => id.unwrap_or(0).to_string(),
        };
        match (self.kind.as_str(), self.classid, self.objid, self.objsubid) {
            ("advisory", Some(class), Some(object), Some(1)) => {
                let key = u64::from(class) << 32 | u64::from(object);
                format!(" {}", key.cast_signed())
            }
            ("advisory", Some(class), Some(object), Some(2)) => {
                format!(" ({}, {})", class.cast_signed(), object.cast_signed())
            }
            (_, Some(class), Some(object), part) => match part {
                Some(0) | None => format!(" {class}/{object}"),
                Some(part) => format!(" {class}/{object}/{part}"),
            },
            _ => match (self.page, self.tuple, &self.virtualxid, self.transactionid) {
                (Some(page), Some(tuple), ..) => format!(" ({page},{tuple}) of {relation}"),
                (Some(page), None, ..) => format!(" {page} of {relation}"),
                (None, _, None, None) if self.kind == ROW => format!(" of {relation}"),
                (_, _, Some(virtualxid), _) => format!(" {virtualxid}"),
                (_, _, None, Some(transaction)) => format!(" {transaction}"),
                _ if self.relation.is_some() => format!(" {relation}"),
                _ => String::new(),
            },
        }
    }
}

/// `tuple (12,3) of public.orders in shop`
impl fmt::Display for LockTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_passing() && !self.is_one() {
            return write!(f, "{}s seen briefly", self.kind);
        }
        write!(f, "{}{}{}", self.kind, self.object(), self.database())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_said_as_people_know_it() {
        let of = |kind: &str, fill: fn(&mut LockTarget)| {
            let mut target = LockTarget {
                kind: kind.into(),
                ..LockTarget::default()
            };
            fill(&mut target);
            target.to_string()
        };
        assert_eq!(
            of("relation", |target| {
                target.database = Some(5);
                target.relation = Some(16384);
            }),
            "relation 16384 in database 5"
        );
        assert_eq!(
            of("tuple", |target| {
                target.database = Some(5);
                target.database_name = Some("shop".to_string());
                target.relation = Some(16384);
                target.page = Some(12);
                target.tuple = Some(3);
            }),
            "tuple (12,3) of 16384 in shop"
        );
        assert_eq!(
            of("relation", |target| {
                target.database = Some(0);
                target.relation = Some(1260);
                target.relation_name = Some("pg_catalog.pg_authid".to_string());
            }),
            "relation pg_catalog.pg_authid, shared"
        );
        assert_eq!(
            of("tuple", |target| {
                target.database = Some(5);
                target.relation = Some(16384);
            }),
            "tuple of 16384 in database 5"
        );
        let advisory = |part| {
            let mut target = LockTarget {
                kind: "advisory".into(),
                database: Some(5),
                classid: Some(u32::MAX),
                objid: Some(u32::MAX - 1),
                ..LockTarget::default()
            };
            target.objsubid = Some(part);
            target.to_string()
        };
        assert_eq!(advisory(1), "advisory -2 in database 5");
        assert_eq!(advisory(2), "advisory (-1, -2) in database 5");
        assert_eq!(
            of("transactionid", |target| target.transactionid = Some(741)),
            "transactionid 741"
        );
        assert_eq!(of("transactionid", |_| {}), "transactionids seen briefly");
        assert_eq!(
            of("virtualxid", |target| target.virtualxid =
                Some("3/17".to_string())),
            "virtualxid 3/17"
        );
        assert_eq!(
            of("object", |target| {
                target.database = Some(0);
                target.classid = Some(1262);
                target.objid = Some(5);
                target.objsubid = Some(0);
            }),
            "object 1262/5, shared"
        );
    }
}
