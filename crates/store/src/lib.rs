//! Recordings of many hosts in one place, a directory or an object store, readable by anything that reads Parquet. No server of our own.
//!
//! ```text
//! dbtime-store.json                                                       what this is, and the version of the layout
//! table=activity/date=2026-10-10/hour=12/host=db1/RECORDING.1.parquet     rows of a recording, by hour
//! table=stacks/date=2026-10-10/host=db1/RECORDING.1.parquet               what ids stand for, by the day on which the recording began
//! table=recordings/date=2026-10-10/host=db1/IDENTITY-RANK-VERSION.parquet  a row per recording, for queries over many, see [`entry`]
//! recordings/host=db1/START-END-IDENTITY-VERSION.json                     written last: from then on the recording exists
//! ```
//!
//! A recording is put table by table; readers go by the manifests in `recordings/`, so nobody sees half of one. Names follow from what is
//! put: putting the same recording again makes the same objects, whoever does it and however often. A later state of a recording has other
//! names; of several manifests of one recording, that of the latest state counts ([`manifest::Rank`]) until the others are removed. No lock
//! is needed, and nothing more of an object store than that an object exists completely or not at all.
//!
//! Nothing that is read is trusted: paths are built from checked parts and never taken from a file, sizes are bounded, contents are decoded
//! as those of any recording.

mod address;
mod catalog;
mod cloud;
mod combined;
mod copies;
mod entry;
mod error;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod faulty;
mod flights;
mod folder;
mod identity;
#[cfg(test)]
mod killed;
mod layout;
mod listing;
mod manifest;
mod objects;
mod percent;
mod prune;
mod put;
mod removal;
#[cfg(test)]
mod replaced;
mod seams;
mod selection;
mod shape;
mod sheaf;
mod text;
mod upgrade;

pub use address::{Address, Choice};
pub use catalog::Store;
pub use error::StoreError;
pub use layout::check_host;
pub use listing::{HostListing, Listing, RecordingListing};
pub use prune::Pruned;
pub use put::{Outcome, Put, PutOptions};
pub use selection::ReadSoFar;
pub use upgrade::Upgraded;
