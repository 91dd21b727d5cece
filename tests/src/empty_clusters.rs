//! What `initdb` makes, made once per build: the hundreds of clusters that the tests start are copies, which takes less than a tenth of the time.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Mutex;

use dbtime::throwaway::Cluster;

use crate::folder::copy_with_owners;
use crate::host::repository;
use crate::servers::Server;

/// One thread makes it while the others wait.
static MAKING: Mutex<()> = Mutex::new(());

/// The data directory of an empty cluster that never ran. It stays in `target` for test programs that run later.
///
/// # Panics
/// When it cannot be made.
pub(crate) fn initialised(server: &Server, checksums: bool) -> PathBuf {
    let initdb = fs::metadata(server.program("initdb")).expect("each build has initdb");
    // A copy of a build keeps the files' times, so it shares the cluster. Root's servers run as another user than those of anybody else.
    let (major, bytes, time) = (server.major, initdb.len(), initdb.mtime());
    // SAFETY: geteuid reads the caller's credentials and cannot fail.
    let user = unsafe { libc::geteuid() };
    let checked = if checksums { "-checksums" } else { "" };
    let kept = repository().join(format!("target/clusters/{major}-{bytes}-{time}-{user}{checked}"));
    let _one = MAKING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if kept.is_dir() {
        return kept;
    }
    let mut options = server.options();
    options.checksums = checksums;
    let cluster = Cluster::make(&options).unwrap_or_else(|e| panic!("{}: {e:#}", server.name));
    // Renamed into place when complete, because another program may be making the same one.
    let parent = kept.parent().expect("it is below target");
    fs::create_dir_all(parent).expect("target can be written to");
    let unfinished = tempfile::tempdir_in(parent).expect("target can be written to");
    let copy = unfinished.path().join("data");
    copy_with_owners(cluster.data_dir(), &copy);
    let renamed = fs::rename(&copy, &kept);
    assert!(
        renamed.is_ok() || kept.is_dir(),
        "{}: {renamed:?}",
        kept.display()
    );
    kept
}
