//! Whether a server computes query ids.

use crate::executable::Executable;
use crate::memory;

/// What a recording lacks if it does not.
pub(crate) const NO_QUERY_IDS: &str = "the server computes no query ids (compute_query_id): statements have dbtime's fingerprint of their text instead, of its first 1023 bytes at most: longer ones that differ only after that count as one";

/// `ComputeQueryIdType` in src/include/nodes/queryjumble.h.
const OFF: u32 = 0;
const ON: u32 = 1;

/// According to the postmaster's own variables, with which its sessions begin; none if they cannot be read.
pub(crate) fn gives_query_ids(postmaster: u32, executable: &Executable) -> Option<bool> {
    let [setting, enabled] = executable
        .symbols(["compute_query_id", "query_id_enabled"])
        .ok()?;
    let setting = memory::read_u32(postmaster, setting?.address).ok()?;
    let mut is_enabled = [0];
    memory::read(postmaster, &mut [(enabled?.address, &mut is_enabled)]).ok()?;
    Some(match setting {
        OFF => false,
        ON => true,
        // auto, regress: if an extension has requested them.
        _ => is_enabled != [0],
    })
}
