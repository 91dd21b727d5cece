//! Fields of the server's records, of which bytes were read; and where in the record of a process its pid is.

/// An address in a record; 0 where it ends before.
pub(super) fn address(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |field| u64::from_ne_bytes(*field))
}

/// A 32-bit number in a record; 0 where it ends before.
pub(super) fn number(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |field| u32::from_ne_bytes(*field))
}

/// What can be the address of something in shared memory.
pub(super) fn is_pointer(address: u64) -> bool {
    address.is_multiple_of(8) && (1 << 16..1 << 47).contains(&address)
}

/// Where the records (`PGPROC`) of processes have their pids, by those of some whose pids, as the server knows them, are told: within so
/// many bytes. None where there is no such place in all of them.
pub(super) fn place_of_pid<B: AsRef<[u8]>>(
    records: impl Iterator<Item = (u32, B)>,
    within: usize,
) -> Option<usize> {
    let mut places: Option<Vec<usize>> = None;
    for (pid, bytes) in records {
        let is_pid = |place: &usize| number(bytes.as_ref(), *place) == pid;
        places = Some(match places {
            None => (0..within).step_by(4).filter(is_pid).collect(),
            Some(places) => places.into_iter().filter(is_pid).collect(),
        });
    }
    // The owner of its latch comes before it, and is the same.
    places?.pop()
}
