//! The files of the catalogues that a server needs before it can read any: `pg_filenode.map` (src/backend/utils/cache/relmapper.c).

use std::collections::HashMap;

use crate::target_file::TargetDirectory;

const MAGIC: u32 = 0x0059_2717;
/// `MAX_MAPPINGS`, 62 before PostgreSQL 16.
const MOST: usize = 64;
/// The whole file: a header of 8 bytes, the list, a checksum; padded to 512 bytes before PostgreSQL 16.
const MOST_BYTES: usize = 8 + 8 * MOST + 4;

/// File numbers of these catalogues, by their ids. None: there is no such map, or it has another format.
pub(super) fn mapped(directory: &TargetDirectory) -> Option<HashMap<u32, u32>> {
    let file = directory.file(c"pg_filenode.map").ok()?;
    let length = (file.metadata().len() as usize).min(MOST_BYTES);
    let bytes = file.read_at(0, length).ok()?;
    let (head, list) = bytes.split_first_chunk::<8>()?;
    let [magic, count] = pair(head);
    let count = usize::try_from(count).ok().filter(|count| *count <= MOST)?;
    if magic != MAGIC {
        return None;
    }
    let list = list.get(..8 * count)?.as_chunks::<8>().0;
    let ids = list.iter().map(pair);
    Some(ids.map(|[relation, file]| (relation, file)).collect())
}

fn pair(bytes: &[u8; 8]) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = *bytes;
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}
