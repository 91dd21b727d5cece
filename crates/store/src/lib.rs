//! Recordings of many hosts in one place, readable by whatever reads Parquet: a directory, or an object store. No server of our own.
//!
//! ```text
//! dbtime-store.json                                                       what this is, and the version of the layout
//! table=activity/date=2026-10-10/hour=12/host=db1/RECORDING.1.parquet     rows of a recording, by the hour in which they are
//! table=stacks/date=2026-10-10/host=db1/RECORDING.1.parquet               what ids stand for, by the day on which it began
//! table=recordings/date=2026-10-10/host=db1/IDENTITY-RANK-VERSION.parquet  a row of it for who asks many, see [`entry`]
//! recordings/host=db1/START-END-IDENTITY-VERSION.json                     written last: from then on the recording is there
//! ```
//!
//! A recording is put table by table; who reads goes by the manifests in `recordings/`, so nobody sees half of one. Names follow
//! from what is put: the same once more makes the same objects, whoever does it and however often. A later state of a recording has
//! other names; of several manifests of one recording the one of the latest state counts ([`manifest::Rank`]), until the others
//! are removed. Nothing needs a lock, or more of an object store than that an object is there whole or not at all.
//!
//! What is read is believed nowhere: paths are made of checked parts and never taken from a file, sizes are bounded, contents are
//! decoded as those of any recording.

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
