//! The row of a recording: what query engines that read many need to know of it, as Parquet, instead of its manifest.
//!
//! Its name says which state of which recording it is, which of several states counts, and whether a flight recorder made it, so that a
//! list of names tells which rows of other tables count. It is put before the manifest and counts as long as the manifest exists: half a
//! recording never shows, and nothing has to be reconciled.

use bytes::Bytes;
use dbtime_model::recording::TableEncoder;
use dbtime_model::{Table, Whose};
use serde::{Deserialize, Serialize};

use crate::layout::ENTRIES;
use crate::manifest::{Manifest, Rank, recorded_rows};

/// `docs/store.md` is its contract.
#[derive(Debug, Serialize, Deserialize)]
struct EntryRow {
    /// The same for all states of a recording.
    identity: String,
    /// The recorder has ended.
    complete: bool,
    /// Microseconds since the Unix epoch.
    start: i64,
    /// Microseconds since the Unix epoch.
    end: i64,
    /// Rows of the recording, before duplicates were left out.
    rows: u64,
    /// Bytes of all files.
    bytes: u64,
    /// What could not be read of the recording when it was put.
    damaged: Vec<String>,
    /// What was recorded, as in `meta.json`.
    product: String,
    /// Its version, as in `meta.json`.
    version: String,
    /// CPUs of the host.
    cpus: u32,
    /// The condition on which a flight recorder made it; empty: none did.
    flight: String,
    /// `meta.json` of the recording.
    meta: String,
}

impl Table for EntryRow {
    const NAME: &'static str = ENTRIES;
    const MOMENTS: &'static [&'static str] = &["start", "end"];

    fn come_from(&mut self, _: &Whose) {}
}

impl Manifest {
    /// Path of the row.
    pub(crate) fn entry_path(&self) -> String {
        let is_flight = !self.meta.collector.flight.is_empty();
        self.name.entry(&in_order(&self.rank()), is_flight)
    }

    /// The row, as a file: the same for the same manifest.
    pub(crate) fn entry(&self) -> Result<Bytes, String> {
        let (meta, recording) = (&self.meta, self.name.recording());
        let row = EntryRow {
            identity: format!("{:016x}", self.name.identity),
            complete: meta.complete,
            start: meta.start_us,
            end: meta.end_us,
            rows: recorded_rows(meta),
            bytes: self.bytes(),
            damaged: self.damaged.clone(),
            product: meta.database.product.clone(),
            version: meta.database.version.clone(),
            cpus: meta.host.cpus,
            flight: meta.collector.flight.clone(),
            meta: serde_json::to_string(meta).map_err(|e| e.to_string())?,
        };
        let whose = [("host", self.name.host.name()), ("recording", recording.as_str())];
        let mut encoder = TableEncoder::new(&whose)?;
        encoder.write(&[row])?;
        Ok(encoder.finish()?.into())
    }
}

/// A rank as text that sorts as ranks do, without the version, which follows it in the name.
fn in_order(rank: &Rank) -> String {
    let (is_complete, is_whole, rows, end_us, damages, _) = rank;
    // So that signed numbers sort as unsigned ones.
    let end = end_us.cast_unsigned() ^ (1 << 63);
    let damages = u32::try_from(damages.0).unwrap_or(u32::MAX);
    format!(
        "{}{}{rows:016x}{end:016x}{:08x}",
        u8::from(*is_complete),
        u8::from(*is_whole),
        u32::MAX - damages
    )
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;

    #[test]
    fn texts_are_in_the_order_of_ranks() {
        let mut ranks: Vec<Rank> = Vec::new();
        for complete in [false, true] {
            for whole in [false, true] {
                for rows in [0, 9, 10, 1 << 40, u64::MAX] {
                    for end in [i64::MIN, -1, 0, 1, 1_795_410_876_000_000, i64::MAX] {
                        for damages in [0, 1, 2, 300, usize::MAX] {
                            ranks.push((complete, whole, rows, end, Reverse(damages), 7));
                        }
                    }
                }
            }
        }
        ranks.sort_unstable();
        let texts: Vec<String> = ranks.iter().map(in_order).collect();
        assert!(texts.is_sorted(), "{texts:?}");
        assert!(texts.iter().all(|text| text.len() == 42));
        let mut different = texts.clone();
        different.dedup();
        assert_eq!(different.len(), texts.len());
    }
}
