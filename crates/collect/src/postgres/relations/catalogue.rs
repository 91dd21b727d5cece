//! Names of the relations of one database, from the files of its catalogue.
//!
//! ```text
//! pg_filenode.map   which file pg_class is in
//! pg_class          relations: id, name, schema, tablespace, file
//! pg_namespace      names of schemas
//! pg_xact           which row versions are valid
//! ```

use std::collections::HashMap;
use std::ffi::CString;
use std::io::{self, Read};

use arcstr::ArcStr;

use super::commit_log::CommitLog;
use super::filenodes::mapped;
use super::heap::{page_size, tuples};
use crate::target_file::{TargetDirectory, TargetFile};

// Ids that never change (src/include/catalog/pg_class.h, pg_namespace.h).
const PG_CLASS: u32 = 1259;
const PG_NAMESPACE: u32 = 2615;
const PG_CATALOG: u32 = 11;
const PG_TOAST: u32 = 99;

// Offsets of columns in a row of pg_class and pg_namespace, which begin alike in PostgreSQL 14 to 18.
const ID: usize = 0;
const NAME: usize = 4;
const SCHEMA: usize = 68;
const FILE: usize = 88;
const TABLESPACE: usize = 92;

/// Bytes read of pg_class: enough for 300,000 relations and more.
const MOST_BYTES: u64 = 64 << 20;
/// Relations kept of a database at most.
const MOST_RELATIONS: usize = 200_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    /// By id.
    names: HashMap<u32, ArcStr>,
    /// By the number of the file: tablespaces (0 = that of the database) and relations.
    files: HashMap<u32, Vec<(u32, u32)>>,
}

struct Relation {
    id: u32,
    name: String,
    schema: u32,
    file: u32,
    tablespace: u32,
}

impl Catalogue {
    /// Of the database with these files. `transactions`: the directory `pg_xact`.
    ///
    /// # Errors
    /// A file is missing, or is not what it should be.
    pub(super) fn read(
        database: &TargetDirectory,
        transactions: Option<&TargetDirectory>,
    ) -> io::Result<Catalogue> {
        let mapped = mapped(database).ok_or_else(|| io::Error::other("no pg_filenode.map"))?;
        let node = *mapped
            .get(&PG_CLASS)
            .ok_or_else(|| io::Error::other("pg_class is not mapped"))?;
        let table = content(&numbered(database, node)?)?;
        let size = page_size(&table).ok_or_else(|| io::Error::other("pg_class is not a table"))?;
        let mut log = CommitLog::new(transactions, size);
        let mut relations = Vec::new();
        for tuple in tuples(&table, size) {
            if !tuple.is_there(&mut log) {
                continue;
            }
            let file = tuple.id(FILE);
            if let (Some(id), Some(name), Some(schema)) = (tuple.id(ID), tuple.name(NAME), tuple.id(SCHEMA))
                && let (Some(file), Some(tablespace)) = (file, tuple.id(TABLESPACE))
            {
                relations.push(Relation {
                    file: match file {
                        0 => mapped.get(&id).copied().unwrap_or(0),
                        file => file,
                    },
                    id,
                    name,
                    schema,
                    tablespace,
                });
            }
            if relations.len() >= MOST_RELATIONS {
                break;
            }
        }
        // The layout is checked against what is the same in every database.
        let is_itself = |relation: &Relation| {
            relation.id == PG_CLASS && relation.name == "pg_class" && relation.schema == PG_CATALOG
        };
        if !relations.iter().any(is_itself) {
            return Err(io::Error::other("pg_class does not contain its own name"));
        }
        let schemas = schemas(database, &relations, &mut log)?;
        Ok(Catalogue::of(&relations, &schemas))
    }

    fn of(relations: &[Relation], schemas: &HashMap<u32, String>) -> Catalogue {
        let mut catalogue = Catalogue::default();
        let mut names: HashMap<u32, String> = HashMap::new();
        for relation in relations.iter().filter(|relation| relation.schema != PG_TOAST) {
            if let Some(schema) = schemas.get(&relation.schema) {
                let name = format!("{}.{}", quoted(schema), quoted(&relation.name));
                // Two versions of a row that both seem valid: it is not known which one is.
                match names.get(&relation.id) {
                    Some(other) if *other != name => names.insert(relation.id, String::new()),
                    _ => names.insert(relation.id, name),
                };
            }
        }
        for relation in relations {
            let name = match relation.schema {
                PG_TOAST => of_toast(&relation.name, &names),
                _ => names.get(&relation.id).cloned(),
            };
            let Some(name) = name.filter(|name| !name.is_empty()) else {
                continue;
            };
            catalogue.names.insert(relation.id, name.into());
            if relation.file != 0 {
                let of_file = catalogue.files.entry(relation.file).or_default();
                of_file.push((relation.tablespace, relation.id));
            }
        }
        catalogue
    }

    /// Adds what a later read found. A relation that is gone since keeps its name: records of its use may still arrive.
    pub(super) fn add(&mut self, later: Catalogue) {
        if self.names.len() > MOST_RELATIONS {
            *self = Catalogue::default();
        }
        self.names.extend(later.names);
        self.files.extend(later.files);
    }

    /// Relations that have a name.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Name of the relation with this id.
    pub(super) fn name(&self, id: u32) -> Option<&ArcStr> {
        self.names.get(&id)
    }

    /// Name of the relation in the file with this number. `tablespace`: where the file is, 0 = in the default one. Files in two tablespaces
    /// may have the same number.
    pub(super) fn name_of_file(&self, tablespace: u32, number: u32) -> Option<&ArcStr> {
        let of_file = self.files.get(&number)?;
        let only = match of_file.as_slice() {
            [(_, id)] => *id,
            several => {
                let mut here = several.iter().filter(|(place, _)| *place == tablespace);
                let (_, id) = here.next()?;
                here.all(|(_, other)| other == id).then_some(*id)?
            }
        };
        self.name(only)
    }
}

fn schemas(
    database: &TargetDirectory,
    relations: &[Relation],
    log: &mut CommitLog,
) -> io::Result<HashMap<u32, String>> {
    let of = relations.iter().find(|relation| relation.id == PG_NAMESPACE);
    let of = of.ok_or_else(|| io::Error::other("pg_class does not contain pg_namespace"))?;
    let table = content(&numbered(database, of.file)?)?;
    let size = page_size(&table).ok_or_else(|| io::Error::other("pg_namespace is not a table"))?;
    let schemas: HashMap<u32, String> = tuples(&table, size)
        .filter(|tuple| tuple.is_there(log))
        .filter_map(|tuple| Some((tuple.id(ID)?, tuple.name(NAME)?)))
        .collect();
    match schemas.get(&PG_CATALOG).map(String::as_str) {
        Some("pg_catalog") => Ok(schemas),
        _ => Err(io::Error::other("pg_namespace does not contain pg_catalog")),
    }
}

/// The table that this TOAST table, or TOAST index, belongs to: `pg_toast_16384`, `pg_toast_16384_index`.
fn of_toast(name: &str, names: &HashMap<u32, String>) -> Option<String> {
    let of = name.strip_prefix("pg_toast_")?;
    let (of, what) = match of.strip_suffix("_index") {
        Some(of) => (of, "toast index"),
        None => (of, "toast"),
    };
    let table = names.get(&of.parse().ok()?).filter(|name| !name.is_empty());
    Some(match table {
        Some(table) => format!("{table} ({what})"),
        None => format!("pg_toast.{name}"),
    })
}

/// A name as it has to be written in a statement.
fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    match is_plain {
        true => name.to_string(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

fn numbered(directory: &TargetDirectory, number: u32) -> io::Result<TargetFile> {
    directory.file(&CString::new(number.to_string())?)
}

/// The content of a file, read again if the server wrote to it meanwhile.
fn content(file: &TargetFile) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    for _ in 0..2 {
        let before = file.modified()?;
        content.clear();
        file.from(0, MOST_BYTES).read_to_end(&mut content)?;
        if file.modified()? == before {
            break;
        }
    }
    Ok(content)
}
