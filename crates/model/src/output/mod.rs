//! Where results are written: the only way to make a file or a directory that a person asked for.
//!
//! dbtime writes as root, often below a directory that belongs to somebody else, who can rename what is in it and put links
//! and FIFOs in its place at any moment. So a name is looked up once and what it leads to stays open: everything is made
//! relative to an open [`Directory`], new (`O_EXCL`), never through a link (`O_NOFOLLOW`), for its owner only.
//!
//! ```text
//! Place      an open directory and a name in it: where an output is to be
//! Directory  an open directory: what is made in it stays in it, whatever becomes of its name
//! NewFile    a file without a name, or with a temporary one: gets its name when it is whole
//! ```
//!
//! An existing file is replaced when the new one is whole, so that a full disk does not cost the old one, and the new one
//! has its own mode and owner. Anything else that is there is written to only if nobody else can have planted it: see
//! [`Place::write`].

mod caller;
mod directory;
#[cfg(test)]
pub(crate) mod killed;
mod lookup;
mod new_file;
mod place;

pub use caller::{Owner, caller_of_sudo};
pub use directory::{Directory, Lock};
pub use new_file::NewFile;
pub use place::{Place, Readers};

use rustix::fs::Mode;

/// Mode of files: recordings and reports contain SQL, user names and symbols.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Mode of directories.
const DIRECTORY_MODE: Mode = Mode::RWXU;
