//! Names of relations, by id and by file, read from the server's own files: no connection is made, and nothing is queried.
//!
//! The server writes its files at checkpoints: a relation created since the last one has no name yet, and one renamed since still has its
//! old name.

mod catalogue;
mod commit_log;
mod filenodes;
mod heap;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::io;
use std::time::{Duration, Instant};

use arcstr::ArcStr;

use self::catalogue::Catalogue;
use super::page_locks;
use crate::held_locks::RawPage;
use crate::target_file::TargetDirectory;

/// Time between two reads of a database's files, and how many times longer than a read it is at least.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const SHARE_OF_TIME: u32 = 50;
/// Databases read at most.
const MOST_DATABASES: usize = 1_000;
/// Relations kept at most, of all databases together.
const MOST_KEPT: usize = 300_000;
/// `template1`: relations that all databases share are in the catalogue of each.
const ANY_DATABASE: u32 = 1;
/// First part of the paths of tablespaces.
const TABLESPACES: &str = "pg_tblspc";

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Relations {
    databases: HashMap<u32, Database>,
    /// Relations that all databases share, by file number.
    shared: HashMap<u32, u32>,
    /// Name of the server's directory in each tablespace, once one was read.
    version_directory: OnceCell<String>,
}

#[derive(Debug)]
struct Database {
    catalogue: Catalogue,
    next_look: Instant,
}

/// What a path below the data directory says about a relation's file.
#[derive(Debug, PartialEq, Eq)]
struct RelationFile {
    /// 0 = shared by all databases.
    database: u32,
    /// 0 = the default one.
    tablespace: u32,
    number: u32,
}

impl Relations {
    /// Name of the relation with this id. `server`: the process whose working directory has the files. `database` 0: it belongs to all of
    /// them.
    pub(super) fn name(&mut self, server: u32, database: u32, id: u32) -> Option<ArcStr> {
        let database = match database {
            0 => ANY_DATABASE,
            database => database,
        };
        self.find(server, database, |catalogue| catalogue.name(id).cloned())
    }

    /// Name of the relation in this file: a path below the data directory. None also for other kinds of files.
    pub(super) fn name_of_file(&mut self, server: u32, path: &str) -> Option<ArcStr> {
        let file = RelationFile::at(path)?;
        if file.database == 0 {
            if !self.shared.contains_key(&file.number)
                && let Ok(global) =
                    TargetDirectory::working(server).and_then(|home| home.subdirectory(c"global"))
            {
                let mapped = filenodes::mapped(&global).into_iter().flatten();
                self.shared
                    .extend(mapped.map(|(relation, file)| (file, relation)));
            }
            let relation = *self.shared.get(&file.number)?;
            return self.name(server, 0, relation);
        }
        self.find(server, file.database, |catalogue| {
            catalogue.name_of_file(file.tablespace, file.number).cloned()
        })
    }

    /// The file that has a page, as [`Relations::name_of_file`] takes it, without a segment number. None: it is not known.
    pub(super) fn file_of(&self, server: u32, page: RawPage) -> Option<ArcStr> {
        let version_directory = |tablespace| {
            if let Some(known) = self.version_directory.get() {
                return Some(known.clone());
            }
            let found = version_directory(&TargetDirectory::working(server).ok()?, tablespace)?;
            Some(self.version_directory.get_or_init(|| found).clone())
        };
        page_locks::path(page, version_directory).map(ArcStr::from)
    }

    /// What `find` finds in the catalogue of a database, which is read again if it finds nothing.
    fn find(
        &mut self,
        server: u32,
        database: u32,
        find: impl Fn(&Catalogue) -> Option<ArcStr>,
    ) -> Option<ArcStr> {
        if !self.databases.contains_key(&database) && self.databases.len() >= MOST_DATABASES {
            return None;
        }
        let known = self.databases.entry(database).or_insert_with(|| Database {
            catalogue: Catalogue::default(),
            next_look: Instant::now(),
        });
        let found = find(&known.catalogue);
        let begin = Instant::now();
        if found.is_some() || begin < known.next_look {
            return found;
        }
        let kept: usize = self.databases.values().map(|known| known.catalogue.len()).sum();
        let known = self.databases.get_mut(&database)?;
        // What cannot be read, or does not fit, has no names.
        if kept <= MOST_KEPT
            && let Ok(later) = read(server, database)
        {
            known.catalogue.add(later);
        }
        known.next_look = Instant::now() + LOOK_EVERY.max(begin.elapsed() * SHARE_OF_TIME);
        find(&known.catalogue)
    }
}

fn read(server: u32, database: u32) -> io::Result<Catalogue> {
    let home = TargetDirectory::working(server)?;
    let transactions = home.subdirectory(c"pg_xact").ok();
    Catalogue::read(&directory_of(&home, database)?, transactions.as_ref())
}

/// The directory of a database's catalogue: in the database's default tablespace, which may differ from the server's.
fn directory_of(home: &TargetDirectory, database: u32) -> io::Result<TargetDirectory> {
    let name = CString::new(database.to_string())?;
    let usual = home
        .subdirectory(c"base")
        .and_then(|base| base.subdirectory(&name));
    if let Ok(usual) = usual {
        return Ok(usual);
    }
    let prefix = version_prefix(home)?;
    let tablespaces = home.subdirectory(c"pg_tblspc")?;
    for entry in tablespaces.entries()?.flatten() {
        let Ok(tablespace) = tablespace(&tablespaces, entry.file_name()) else {
            continue;
        };
        for version in tablespace.entries()?.flatten() {
            if version.file_name().to_bytes().starts_with(prefix.as_bytes())
                && let Ok(of_version) = tablespace.subdirectory(version.file_name())
                && let Ok(there) = of_version.subdirectory(&name)
                && there.file(c"pg_filenode.map").is_ok()
            {
                return Ok(there);
            }
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// The tablespace with this name: a directory of the server's own, or a link to one.
fn tablespace(tablespaces: &TargetDirectory, name: &CStr) -> io::Result<TargetDirectory> {
    tablespaces
        .subdirectory(name)
        .or_else(|_| tablespaces.behind_link(name))
}

/// A tablespace has a directory for each server version that uses it: the beginning of the names of this version's.
fn version_prefix(home: &TargetDirectory) -> io::Result<String> {
    let major = home.file(c"PG_VERSION")?.small_text()?;
    Ok(format!("PG_{}_", major.trim()))
}

/// Name of that directory in this tablespace.
fn version_directory(home: &TargetDirectory, tablespace: u32) -> Option<String> {
    let prefix = version_prefix(home).ok()?;
    let name = CString::new(tablespace.to_string()).ok()?;
    let tablespaces = home.subdirectory(c"pg_tblspc").ok()?;
    let there = self::tablespace(&tablespaces, &name).ok()?;
    let names = there.entries().ok()?.flatten();
    let mut names = names.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_string));
    names.find(|name| {
        let catalogue = name.strip_prefix(&prefix).unwrap_or_default();
        !catalogue.is_empty() && catalogue.bytes().all(|byte| byte.is_ascii_digit())
    })
}

impl RelationFile {
    /// `base/5/16384.1`, `global/1260`, `pg_tblspc/16400/PG_17_202406281/5/t3_16384_fsm`
    fn at(path: &str) -> Option<RelationFile> {
        let parts: Vec<&str> = path.split('/').collect();
        let (database, tablespace, name) = match *parts.as_slice() {
            ["global", name] => (0, 0, name),
            ["base", database, name] => (database.parse().ok()?, 0, name),
            [TABLESPACES, tablespace, _version, database, name] => {
                (database.parse().ok()?, tablespace.parse().ok()?, name)
            }
            _ => return None,
        };
        // t3_: of one session; .1, _fsm: further segments, and forks.
        let name = match name.strip_prefix('t').and_then(|rest| rest.split_once('_')) {
            Some((session, name)) if session.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => name,
        };
        let end = name.find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len());
        let is_whole = name[end..].is_empty() || name[end..].starts_with(['_', '.']);
        Some(RelationFile {
            database,
            tablespace,
            number: name[..end].parse().ok().filter(|_| is_whole)?,
        })
    }
}
