//! The size of a store, by its manifests; and an estimate of what a month of a larger fleet would take and cost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// For the estimate.
const HOSTS: f64 = 1_000.0;
const DAYS: f64 = 30.0;
/// List prices of Amazon S3 Standard, as assumed here, in US dollars (look them up before you rely on them): a GB for a month (of the first
/// 50 TB), and 1,000 requests.
const GB_MONTH: f64 = 0.023;
const PER_1000_PUTS: f64 = 0.005;
const PER_1000_GETS: f64 = 0.0004;
/// Requests of a put besides its files, as a stand-in for S3 counts them: lists and the manifest cost as much as a put.
const PUTS_OF_A_PUT: f64 = 3.0;
/// The mark of the store, and its own manifest.
const GETS_OF_A_PUT: f64 = 2.0;

#[derive(Deserialize)]
struct Manifest {
    host: String,
    start: String,
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    table: String,
    rows: u64,
    bytes: u64,
}

#[derive(Default)]
struct Sum {
    files: u64,
    rows: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, rows: u64, bytes: u64) {
        self.files += 1;
        self.rows += rows;
        self.bytes += bytes;
    }
}

/// Tables, as Markdown, of a store in a directory.
///
/// # Errors
/// There is none, or a manifest cannot be read.
pub(crate) fn table(store: &Path) -> Result<String> {
    let mut tables: BTreeMap<String, Sum> = BTreeMap::new();
    let mut host_days = BTreeSet::new();
    let mut manifests = Sum::default();
    let recordings = store.join("recordings");
    for host in fs::read_dir(&recordings).with_context(|| recordings.display().to_string())? {
        for manifest in fs::read_dir(host?.path())? {
            let text = fs::read(manifest?.path())?;
            let manifest: Manifest = serde_json::from_slice(&text)?;
            let day = manifest.start.get(..10).context("a moment")?.to_string();
            host_days.insert((manifest.host, day));
            manifests.add(1, text.len() as u64);
            for file in manifest.files {
                tables.entry(file.table).or_default().add(file.rows, file.bytes);
            }
        }
    }
    // One for each manifest, which manifests do not name.
    let rows = tables.entry("(rows of recordings)".to_string()).or_default();
    let folder = store.join("table=recordings");
    for date in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        for host in fs::read_dir(date?.path())? {
            for file in fs::read_dir(host?.path())? {
                rows.add(1, file?.metadata()?.len());
            }
        }
    }
    let days = host_days.len() as f64;
    ensure!(days > 0.0, "{}: no recordings", store.display());
    let recordings = manifests.files as f64 / days;
    tables.insert("(manifests)".to_string(), manifests);
    let mut text = format!(
        "{} host-days, {recordings:.1} recordings in each\n\n\
         | table | files of a host and day | rows | kB | bytes a row |\n|---|---:|---:|---:|---:|\n",
        host_days.len()
    );
    let mut all = Sum::default();
    for (name, sum) in &tables {
        let (files, rows, bytes) = (
            sum.files as f64 / days,
            sum.rows as f64 / days,
            sum.bytes as f64 / days,
        );
        text += &format!(
            "| {name} | {files:.1} | {rows:.0} | {:.1} | {:.1} |\n",
            bytes / 1e3,
            bytes / rows
        );
        all.files += sum.files;
        all.bytes += sum.bytes;
    }
    let (files, bytes) = (all.files as f64 / days, all.bytes as f64 / days);
    text += &format!("| **all** | {files:.1} | | {:.1} | |\n", bytes / 1e3);
    Ok(text + &paper(files, recordings, bytes))
}

/// What a month of a larger fleet would take.
fn paper(files: f64, recordings: f64, bytes: f64) -> String {
    let month = HOSTS * DAYS;
    let stored_gb = month * bytes / 1e9;
    // Files include the manifests.
    let puts = month * (files + (PUTS_OF_A_PUT - 1.0) * recordings);
    let gets = month * GETS_OF_A_PUT * recordings;
    let lines = [
        ("objects", month * files / 1e6, "million", None),
        (
            "stored, a month of them kept",
            stored_gb,
            "GB",
            Some(stored_gb * GB_MONTH),
        ),
        (
            "PUT and LIST of the agents",
            puts / 1e6,
            "million a month",
            Some(puts / 1e3 * PER_1000_PUTS),
        ),
        (
            "GET of the agents",
            gets / 1e6,
            "million a month",
            Some(gets / 1e3 * PER_1000_GETS),
        ),
    ];
    let mut text = "\n| 1,000 hosts × 30 days | | | $ a month |\n|---|---:|---|---:|\n".to_string();
    for (what, number, unit, dollars) in lines {
        let dollars = dollars.map(|dollars| format!("{dollars:.2}")).unwrap_or_default();
        text += &format!("| {what} | {number:.2} | {unit} | {dollars} |\n");
    }
    text
}
