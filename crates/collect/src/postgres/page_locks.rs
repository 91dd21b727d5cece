//! Where PostgreSQL keeps the locks of the pages in its buffers, and which file a page is in.
//!
//! Each buffer has a descriptor in an array in shared memory, to which `BufferDescriptors` points: `BufferDesc` in
//! src/include/storage/buf_internals.h. It begins with the page (`BufferTag`), followed by its own number; the lock is somewhere after
//! that, depending on the version.

use crate::database::PageLocks;
use crate::executable::Executable;
use crate::held_locks::RawPage;
use crate::memory;

/// `BUFFERDESC_PAD_TO_SIZE`.
const STEP: usize = 64;
/// Offset of the buffer's number, after the page.
const NUMBER: usize = 20;
/// Size of a lock; it begins with its kind.
const LOCK_BYTES: usize = 16;
/// Descriptors that are checked.
const LOOKED_AT: usize = 16;
/// No server has more: the maximum of `shared_buffers`.
const MOST_BUFFERS: u32 = i32::MAX as u32 / 2;

/// The tablespaces that every server has (src/include/catalog/pg_tablespace.dat).
const USUAL_TABLESPACE: u32 = 1663;
const GLOBAL_TABLESPACE: u32 = 1664;

/// For the server with this postmaster. `is_of_page`: whether locks of this kind are those of pages. None: another version, or the locks
/// cannot be found.
pub(super) fn page_locks(
    postmaster: u32,
    executable: &Executable,
    is_of_page: impl Fn(u16) -> bool,
) -> Option<PageLocks> {
    let [descriptions, count] = executable.symbols(["BufferDescriptors", "NBuffers"]).ok()?;
    let begin = memory::read_u64(postmaster, descriptions?.address).ok()?;
    let mut buffers = [0; 4];
    memory::read(postmaster, &mut [(count?.address, &mut buffers)]).ok()?;
    let count = u32::from_ne_bytes(buffers);
    if !(LOOKED_AT as u32..=MOST_BUFFERS).contains(&count) {
        return None;
    }
    // The server initializes all of them when it starts.
    let mut bytes = [0; LOOKED_AT * STEP];
    memory::read(postmaster, &mut [(begin, &mut bytes)]).ok()?;
    let offset = lock_offset(&bytes, is_of_page)?;
    Some(PageLocks {
        first: begin.checked_add(offset.into())?,
        count,
        step: STEP as u16,
        offset,
    })
}

/// Offset of the lock in each of these descriptors.
fn lock_offset(descriptions: &[u8], is_of_page: impl Fn(u16) -> bool) -> Option<u16> {
    let all = || descriptions.chunks_exact(STEP);
    let mut numbers = all().enumerate();
    if !numbers.all(|(n, one)| one[NUMBER..NUMBER + 4] == (n as u32).to_ne_bytes()) {
        return None;
    }
    let is_lock = |at: usize| all().all(|one| is_of_page(u16::from_ne_bytes([one[at], one[at + 1]])));
    let places = (NUMBER + 4..=STEP - LOCK_BYTES).step_by(4);
    let mut locks = places.filter(|at| is_lock(*at));
    let only = locks.next()?;
    locks.next().is_none().then_some(only as u16)
}

/// The file that has the page, as a path below the data directory, without a segment number. `version_directory`: the server's directory in
/// a tablespace.
pub(super) fn path(page: RawPage, version_directory: impl FnOnce(u32) -> Option<String>) -> Option<String> {
    let fork = match page.fork {
        0 => "",
        1 => "_fsm",
        2 => "_vm",
        3 => "_init",
        _ => return None,
    };
    let RawPage {
        tablespace,
        database,
        file,
        ..
    } = page;
    Some(match tablespace {
        GLOBAL_TABLESPACE => format!("global/{file}{fork}"),
        USUAL_TABLESPACE => format!("base/{database}/{file}{fork}"),
        _ => {
            let version = version_directory(tablespace)?;
            format!("pg_tblspc/{tablespace}/{version}/{database}/{file}{fork}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: u16 = 58;

    fn descriptions(lock: usize) -> Vec<u8> {
        let one = |n: u32| {
            let mut one = [0u8; STEP];
            one[NUMBER..NUMBER + 4].copy_from_slice(&n.to_ne_bytes());
            one[lock..lock + 2].copy_from_slice(&KIND.to_ne_bytes());
            one
        };
        (0..LOOKED_AT as u32).flat_map(one).collect()
    }

    #[test]
    fn the_lock_lies_at_the_only_place_where_all_have_one() {
        let find = |bytes: &[u8]| lock_offset(bytes, |kind| kind == KIND);
        assert_eq!(find(&descriptions(36)), Some(36));
        assert_eq!(find(&descriptions(48)), Some(48));
        // A second candidate, no such lock, other numbers: nothing is known of such a server.
        let mut twice = descriptions(36);
        for one in twice.chunks_exact_mut(STEP) {
            one[44..46].copy_from_slice(&KIND.to_ne_bytes());
        }
        assert_eq!(find(&twice), None);
        assert_eq!(lock_offset(&descriptions(36), |kind| kind == 1), None);
        assert_eq!(find(&descriptions(36)[STEP..]), None);
    }

    #[test]
    fn paths_are_those_of_the_server() {
        let page = |tablespace, database, fork| RawPage {
            tablespace,
            database,
            file: 16_384,
            fork,
            block: 7,
        };
        let path_of = |page| path(page, |_| Some("PG_17_202406281".to_string())).unwrap_or_default();
        assert_eq!(path_of(page(1663, 5, 0)), "base/5/16384");
        assert_eq!(path_of(page(1663, 5, 2)), "base/5/16384_vm");
        assert_eq!(path_of(page(1664, 0, 1)), "global/16384_fsm");
        assert_eq!(
            path_of(page(16_400, 5, 0)),
            "pg_tblspc/16400/PG_17_202406281/5/16384"
        );
        assert_eq!(path(page(1663, 5, 9), |_| None), None);
        assert_eq!(path(page(16_400, 5, 0), |_| None), None);
    }
}
