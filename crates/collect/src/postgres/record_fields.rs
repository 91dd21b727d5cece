//! Reads fields from the bytes of the server's records, and finds where the record of a process has its pid.

/// An address in a record; 0 if the record ends before it.
pub(super) fn address(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |field| u64::from_ne_bytes(*field))
}

/// A 32-bit number in a record; 0 if the record ends before it.
pub(super) fn number(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |field| u32::from_ne_bytes(*field))
}

/// Whether this can be the address of something in shared memory.
pub(super) fn is_pointer(address: u64) -> bool {
    address.is_multiple_of(8) && (1 << 16..1 << 47).contains(&address)
}

/// Where the records (`PGPROC`) of processes have the pid, found from records of processes whose pid, as the server knows it, is given:
/// among the first `within` bytes. None if no place fits all of them.
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
    // The last match: the owner of its latch comes before the pid, and is the same.
    places?.pop()
}
