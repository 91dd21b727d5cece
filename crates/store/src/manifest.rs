//! The manifest of a recording: which files are part of it. Written last, it is what makes the recording part of the store.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use dbtime_model::Whose;
use dbtime_model::recording::{LARGEST_FILE, Meta, TABLES};
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::StoreError;
use crate::layout::{StateName, VERSION, is_known_layout};
use crate::objects::Objects;

/// Most bytes of a manifest; what dbtime writes is a thousandth of that.
const LARGEST: u64 = 64 << 20;
/// Most files of a recording: the hours of several years.
const MOST_FILES: usize = 1 << 18;

/// A manifest as it is written. `docs/store.md` is its contract.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    /// Version of the layout.
    store: String,
    host: String,
    /// As in the column of this name, and in the names of the files.
    recording: String,
    /// The same for all states of a recording.
    identity: String,
    /// The recorder has ended.
    complete: bool,
    start: String,
    end: String,
    /// Rows of the recording, before duplicates were left out.
    rows: u64,
    /// Bytes of all files.
    bytes: u64,
    /// What could not be read of the recording when it was put.
    #[serde(default)]
    damaged: Vec<String>,
    files: Vec<WrittenFile>,
    /// `meta.json` of the recording.
    meta: Value,
}

#[derive(Debug, Serialize, Deserialize)]
struct WrittenFile {
    table: String,
    date: String,
    /// None: the rows of the table have no moment.
    hour: Option<i8>,
    part: u32,
    rows: u64,
    bytes: u64,
    /// XXH3 of the file, in hex.
    xxh3: String,
    /// First and last moment of the rows, microseconds since the Unix epoch.
    from_us: Option<i64>,
    to_us: Option<i64>,
}

/// A file with rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredFile {
    pub(crate) table: &'static str,
    pub(crate) date: Date,
    /// None: the rows of the table have no moment.
    pub(crate) hour: Option<i8>,
    /// Number among the files of an hour, from 1.
    pub(crate) part: u32,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) xxh3: u64,
    /// First and last moment, microseconds since the Unix epoch.
    pub(crate) moments_us: Option<(i64, i64)>,
}

/// A recording in a store, in one of its states.
#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    pub(crate) name: StateName,
    pub(crate) meta: Meta,
    /// What could not be read of it when it was put.
    pub(crate) damaged: Vec<String>,
    pub(crate) files: Vec<StoredFile>,
}

/// Of two states of a recording, the one with the higher rank counts: one of a recorder that has ended, then one that could be read
/// completely, then one with more rows, a later end, fewer damages; finally one of them, always the same.
pub(crate) type Rank = (bool, bool, u64, i64, Reverse<usize>, u64);

/// The rank of a recording in its current state; `damages` is how many things could not be read of it.
pub(crate) fn rank(meta: &Meta, damages: usize, version: u64) -> Rank {
    let is_whole = damages == 0;
    (
        meta.complete,
        is_whole,
        recorded_rows(meta),
        meta.end_us,
        Reverse(damages),
        version,
    )
}

/// Rows of a recording, before duplicates were left out.
pub(crate) fn recorded_rows(meta: &Meta) -> u64 {
    meta.segments.rows.values().copied().fold(0, u64::saturating_add)
}

impl Manifest {
    pub(crate) fn bytes(&self) -> u64 {
        self.files
            .iter()
            .map(|file| file.bytes)
            .fold(0, u64::saturating_add)
    }

    pub(crate) fn rank(&self) -> Rank {
        rank(&self.meta, self.damaged.len(), self.name.version)
    }

    /// What its rows are marked with if it is read together with others.
    pub(crate) fn whose(&self) -> Whose {
        Whose {
            number: self.name.identity,
            host: self.name.host.name().to_string(),
            server: self.meta.database.data_directory.clone(),
        }
    }

    pub(crate) fn path_of(&self, file: &StoredFile) -> String {
        self.name.file(file.table, file.date, file.hour, file.part)
    }

    /// Paths of all its objects except this manifest: its files and its row.
    pub(crate) fn paths(&self) -> impl Iterator<Item = String> {
        let files = self.files.iter().map(|file| self.path_of(file));
        files.chain([self.entry_path()])
    }

    /// Rows of each table in these files.
    pub(crate) fn rows_by_table<'a>(files: impl Iterator<Item = &'a StoredFile>) -> BTreeMap<String, u64> {
        let mut rows: BTreeMap<String, u64> = BTreeMap::new();
        for file in files {
            let sum = rows.entry(file.table.to_string()).or_default();
            *sum = sum.saturating_add(file.rows);
        }
        rows
    }

    /// One line of JSON, which engines read as a table of one row.
    pub(crate) fn to_json(&self) -> Result<Vec<u8>, String> {
        if self.files.len() > MOST_FILES {
            return Err(format!(
                "it would need {} files, and {MOST_FILES} is the maximum: put recordings of hours or days",
                self.files.len()
            ));
        }
        let moment =
            |us| jiff::Timestamp::from_microsecond(us).map_or_else(|_| String::new(), |t| t.to_string());
        let written = Written {
            store: VERSION.to_string(),
            host: self.name.host.name().to_string(),
            recording: self.name.recording(),
            identity: format!("{:016x}", self.name.identity),
            complete: self.meta.complete,
            start: moment(self.meta.start_us),
            end: moment(self.meta.end_us),
            rows: recorded_rows(&self.meta),
            bytes: self.bytes(),
            damaged: self.damaged.clone(),
            files: self.files.iter().map(WrittenFile::from).collect(),
            meta: serde_json::to_value(&self.meta).map_err(|e| e.to_string())?,
        };
        let mut text = serde_json::to_vec(&written).map_err(|e| e.to_string())?;
        text.push(b'\n');
        Ok(text)
    }

    /// Reads the manifest of this name, and checks what it says.
    pub(crate) fn read(objects: &dyn Objects, name: &StateName) -> Result<Manifest, StoreError> {
        Manifest::read_at(objects, name, &name.manifest())
    }

    /// As [`Manifest::read`], but from another path.
    pub(crate) fn read_at(
        objects: &dyn Objects,
        name: &StateName,
        path: &str,
    ) -> Result<Manifest, StoreError> {
        let text = objects
            .get(path, LARGEST)
            .map_err(|e| StoreError::io(objects.where_is(path), e))?;
        Manifest::of_json(&text, name, &objects.where_is(path))
    }

    fn of_json(text: &[u8], name: &StateName, path: &str) -> Result<Manifest, StoreError> {
        let wrong = |what: String| {
            StoreError::format(
                path,
                format!("damaged: put its recording again, or remove it ({what})"),
            )
        };
        let written: Written = serde_json::from_slice(text).map_err(|e| wrong(e.to_string()))?;
        if !is_known_layout(&written.store) {
            return Err(StoreError::OtherLayout {
                path: path.to_string(),
                version: written.store,
            });
        }
        if written.host != name.host.name() || written.recording != name.recording() {
            return Err(wrong("it does not match its name".to_string()));
        }
        let count = written.files.len();
        if count > MOST_FILES {
            return Err(wrong(format!("{count} files, and {MOST_FILES} is the maximum")));
        }
        let meta = Meta::of_json(Path::new(path), written.meta)?;
        // A later minor version may have further tables.
        let is_known = |file: &&WrittenFile| TABLES.contains(&file.table.as_str());
        let files = written.files.iter().filter(is_known);
        let files: Vec<StoredFile> = files
            .map(|file| StoredFile::new(file).map_err(&wrong))
            .collect::<Result<_, _>>()?;
        // One that is named twice would be counted twice.
        let mut met = HashSet::with_capacity(files.len());
        for file in &files {
            if !met.insert((file.table, file.date, file.hour, file.part)) {
                let twice = name.file(file.table, file.date, file.hour, file.part);
                return Err(wrong(format!("it names {twice} twice")));
            }
        }
        Ok(Manifest {
            name: name.clone(),
            meta,
            damaged: written.damaged,
            files,
        })
    }
}

impl From<&StoredFile> for WrittenFile {
    fn from(file: &StoredFile) -> WrittenFile {
        WrittenFile {
            table: file.table.to_string(),
            date: file.date.to_string(),
            hour: file.hour,
            part: file.part,
            rows: file.rows,
            bytes: file.bytes,
            xxh3: format!("{:016x}", file.xxh3),
            from_us: file.moments_us.map(|(from, _)| from),
            to_us: file.moments_us.map(|(_, to)| to),
        }
    }
}

impl StoredFile {
    fn new(written: &WrittenFile) -> Result<StoredFile, String> {
        let wrong = |what: &str| format!("{what} of a file of the table '{}'", written.table);
        let table = TABLES.into_iter().find(|table| *table == written.table);
        // Names are built from it, so only the canonical form is accepted.
        let date = written.date.parse::<Date>().ok();
        let date = date.filter(|date| date.to_string() == written.date && date.year() > 0);
        if written.hour.is_some_and(|hour| !(0..24).contains(&hour)) {
            return Err(wrong("wrong hour"));
        }
        if written.bytes > LARGEST_FILE {
            return Err(wrong("wrong length"));
        }
        if written.part == 0 {
            return Err(wrong("wrong number"));
        }
        Ok(StoredFile {
            table: table.ok_or_else(|| wrong("unknown name"))?,
            date: date.ok_or_else(|| wrong("wrong date"))?,
            hour: written.hour,
            part: written.part,
            rows: written.rows,
            bytes: written.bytes,
            xxh3: u64::from_str_radix(&written.xxh3, 16).map_err(|_| wrong("wrong checksum"))?,
            moments_us: written.from_us.zip(written.to_us),
        })
    }

    /// Whether it can have a row of this period; both ends in microseconds since the Unix epoch.
    pub(crate) fn may_have(&self, from_us: Option<i64>, to_us: Option<i64>) -> bool {
        self.moments_us.is_none_or(|(first, last)| {
            from_us.is_none_or(|from| last >= from) && to_us.is_none_or(|to| first < to)
        })
    }
}
