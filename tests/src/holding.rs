//! A server with functions that hold or take one of its internal locks, hold the lock of a page or a spinlock, or run under a given plan.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use dbtime::throwaway::{Cluster, Options};

use crate::Server;

/// A server with a function `hold(exclusive, us, spins)` that returns for how long it has held the lock, and one `take(exclusive, times)`
/// that returns for how long it has waited for it; both in microseconds. `hold_page(relation, fork, block, exclusive, us)` does with the
/// lock of a page what `hold` does. `by_plan(plan, us, spins)` reports the id of a plan (since PostgreSQL 18), and returns for how long it
/// then slept, or spun. `spin(us)` holds a spinlock, and returns for how long it has waited for it.
///
/// # Panics
/// When it cannot be built.
#[track_caller]
pub fn server_with_hold(server: &Server, options: Options) -> Cluster {
    let cluster = server.start(options);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("hold_lock.c");
    let library = cluster.data_dir().join("hold_lock.so");
    let built = Command::new("cc")
        .args([
            "-shared",
            "-fPIC",
            "-O1",
            "-fno-omit-frame-pointer",
            "-Wl,-z,lazy",
        ])
        .arg(format!("-DPG={}", server.major))
        .arg("-o")
        .args([&library, &source])
        .status();
    assert!(
        built.is_ok_and(|status| status.success()),
        "{source:?} can be built"
    );
    let all = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&library, all).expect("it is ours");
    cluster
        .psql(&format!(
            "CREATE FUNCTION hold(exclusive bool, us int8, spins bool) RETURNS int8 \
             AS '{library}', 'hold_lock' LANGUAGE C STRICT; \
             CREATE FUNCTION take(exclusive bool, times int8) RETURNS int8 \
             AS '{library}', 'take_lock' LANGUAGE C STRICT; \
             CREATE FUNCTION hold_page(relation regclass, fork int4, block int4, exclusive bool, us int8) RETURNS int8 \
             AS '{library}', 'hold_page' LANGUAGE C STRICT; \
             CREATE FUNCTION by_plan(plan int8, us int8, spins bool) RETURNS int8 \
             AS '{library}', 'by_plan' LANGUAGE C STRICT; \
             CREATE FUNCTION spin(us int8) RETURNS int8 \
             AS '{library}', 'spin_lock' LANGUAGE C STRICT",
            library = library.display()
        ))
        .unwrap_or_else(|e| panic!("{}: {e:#}", server.name));
    cluster
}
