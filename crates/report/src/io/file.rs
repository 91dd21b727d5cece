//! What a file of a PostgreSQL server is, judged by its path.

use std::collections::BTreeSet;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// Table or index.
    Relation,
    /// Free space map of a relation.
    FreeSpaceMap,
    /// Visibility map of a relation.
    VisibilityMap,
    /// What an unlogged relation is reset to.
    InitFork,
    /// Table or index of one session.
    TemporaryRelation,
    /// Write-ahead log.
    Wal,
    /// Sorts and hashes that did not fit into memory.
    TemporaryFile,
    /// Transaction status: `pg_xact`, `pg_multixact`, `pg_subtrans`, `pg_commit_ts`.
    TransactionStatus,
    /// `global`: catalogs of the whole server, control file.
    Global,
    /// Anything else in the data directory.
    Other,
    /// Outside of the data directory and its tablespaces.
    Outside,
    /// The recording does not name it.
    Unknown,
}

impl FileKind {
    /// The words used in reports and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            FileKind::Relation => "relation",
            FileKind::FreeSpaceMap => "free space map",
            FileKind::VisibilityMap => "visibility map",
            FileKind::InitFork => "init fork",
            FileKind::TemporaryRelation => "temporary relation",
            FileKind::Wal => "WAL",
            FileKind::TemporaryFile => "temporary file",
            FileKind::TransactionStatus => "transaction status",
            FileKind::Global => "global",
            FileKind::Other => "other",
            FileKind::Outside => "outside of the data directory",
            FileKind::Unknown => "[unknown]",
        }
    }
}

/// A file, or all segments of one fork of a relation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseFile {
    /// What it holds.
    pub kind: FileKind,
    /// Path without segment number, relative to the data directory if it is in there; empty if the recording does not
    /// name it.
    pub path: String,
}

impl DatabaseFile {
    /// The file with this path, and which of its segments this is (0 = the first, or the only one).
    pub(crate) fn of(path: &str) -> (DatabaseFile, u32) {
        let components: Vec<&str> = path.split('/').collect();
        let name = components.last().copied().unwrap_or_default();
        // A tablespace may be anywhere; below its version directory it looks like `base`.
        let in_tablespace = components
            .iter()
            .any(|component| is_tablespace_version(component));
        let kind = match components[0] {
            _ if path.is_empty() => FileKind::Unknown,
            _ if components
                .iter()
                .any(|component| component.starts_with("pgsql_tmp")) =>
            {
                FileKind::TemporaryFile
            }
            "base" => relation(name),
            _ if in_tablespace => relation(name),
            "pg_wal" | "pg_xlog" => FileKind::Wal,
            "pg_xact" | "pg_multixact" | "pg_subtrans" | "pg_commit_ts" | "pg_clog" => {
                FileKind::TransactionStatus
            }
            "global" => FileKind::Global,
            "" => FileKind::Outside,
            _ => FileKind::Other,
        };
        let segment = match kind {
            FileKind::Relation
            | FileKind::FreeSpaceMap
            | FileKind::VisibilityMap
            | FileKind::InitFork
            | FileKind::TemporaryRelation
            | FileKind::Global => segment(path),
            _ => None,
        };
        let (path, segment) = segment.unwrap_or((path, 0));
        (
            DatabaseFile {
                kind,
                path: path.to_string(),
            },
            segment,
        )
    }
}

/// The segments of a file that were read.
pub(crate) type Segments = BTreeSet<u32>;

/// `PG_17_202406281`
fn is_tablespace_version(component: &str) -> bool {
    component
        .strip_prefix("PG_")
        .and_then(|version| version.split_once('_'))
        .is_some_and(|(major, catalog)| is_number(major) && is_number(catalog))
}

/// `16384`, `16384.1`, `16384_fsm`, `t3_16384_vm.2`
fn relation(name: &str) -> FileKind {
    let name = segment(name).map_or(name, |(name, _)| name);
    let (name, is_temporary) = match name.strip_prefix('t').and_then(|rest| rest.split_once('_')) {
        Some((backend, rest)) if is_number(backend) => (rest, true),
        _ => (name, false),
    };
    let (node, fork) = name.split_once('_').unwrap_or((name, ""));
    match fork {
        _ if !is_number(node) => FileKind::Other,
        "" if is_temporary => FileKind::TemporaryRelation,
        "" => FileKind::Relation,
        "fsm" => FileKind::FreeSpaceMap,
        "vm" => FileKind::VisibilityMap,
        "init" => FileKind::InitFork,
        _ => FileKind::Other,
    }
}

/// The path before `.1`, and the 1.
fn segment(path: &str) -> Option<(&str, u32)> {
    let (path, segment) = path.rsplit_once('.')?;
    Some((path, segment.parse().ok().filter(|_| is_number(segment))?))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_their_path() {
        let cases = [
            ("base/5/16384", FileKind::Relation, "base/5/16384", 0),
            ("base/5/16384.1", FileKind::Relation, "base/5/16384", 1),
            ("base/5/16384_fsm", FileKind::FreeSpaceMap, "base/5/16384_fsm", 0),
            ("base/5/16384_vm.2", FileKind::VisibilityMap, "base/5/16384_vm", 2),
            ("base/5/16384_init", FileKind::InitFork, "base/5/16384_init", 0),
            (
                "base/5/t3_16384.1",
                FileKind::TemporaryRelation,
                "base/5/t3_16384",
                1,
            ),
            (
                "base/5/t3_16384_fsm",
                FileKind::FreeSpaceMap,
                "base/5/t3_16384_fsm",
                0,
            ),
            ("base/5/PG_VERSION", FileKind::Other, "base/5/PG_VERSION", 0),
            (
                "base/pgsql_tmp/pgsql_tmp42.7",
                FileKind::TemporaryFile,
                "base/pgsql_tmp/pgsql_tmp42.7",
                0,
            ),
            (
                "pg_tblspc/16400/PG_17_202406281/5/16384.3",
                FileKind::Relation,
                "pg_tblspc/16400/PG_17_202406281/5/16384",
                3,
            ),
            (
                "/mnt/fast/PG_17_202406281/5/16384_vm",
                FileKind::VisibilityMap,
                "/mnt/fast/PG_17_202406281/5/16384_vm",
                0,
            ),
            (
                "/mnt/fast/PG_17_202406281/pgsql_tmp/x",
                FileKind::TemporaryFile,
                "/mnt/fast/PG_17_202406281/pgsql_tmp/x",
                0,
            ),
            (
                "pg_wal/000000010000000000000001",
                FileKind::Wal,
                "pg_wal/000000010000000000000001",
                0,
            ),
            ("pg_xact/0000", FileKind::TransactionStatus, "pg_xact/0000", 0),
            (
                "pg_multixact/offsets/0000",
                FileKind::TransactionStatus,
                "pg_multixact/offsets/0000",
                0,
            ),
            (
                "pg_subtrans/0000",
                FileKind::TransactionStatus,
                "pg_subtrans/0000",
                0,
            ),
            ("global/1260", FileKind::Global, "global/1260", 0),
            ("postgresql.conf", FileKind::Other, "postgresql.conf", 0),
            ("/etc/passwd", FileKind::Outside, "/etc/passwd", 0),
            ("/usr/lib/libc.so.6", FileKind::Outside, "/usr/lib/libc.so.6", 0),
            ("", FileKind::Unknown, "", 0),
            ("base/5/16384.", FileKind::Other, "base/5/16384.", 0),
            (
                "base/5/16384.99999999999",
                FileKind::Other,
                "base/5/16384.99999999999",
                0,
            ),
            ("base/5/\u{1b}", FileKind::Other, "base/5/\u{1b}", 0),
        ];
        for (path, kind, shown, segment) in cases {
            let file = DatabaseFile {
                kind,
                path: shown.to_string(),
            };
            assert_eq!(DatabaseFile::of(path), (file, segment), "{path}");
        }
    }
}
