//! C structs that BPF programs share with user space, read from bytes of the kernel and from maps.

use libbpf_rs::{MapCore, MapFlags, MapHandle};

/// A struct that came from C: it holds integers only, so that every bit pattern is a value of it.
pub(super) trait Plain: Copy {}
impl Plain for u32 {}
impl Plain for u64 {}

/// The same C struct of another skeleton: each skeleton has a type of its own for it.
pub(super) fn the_same<T: Plain, U: Plain>(of: &T) -> U {
    const { assert!(size_of::<T>() == size_of::<U>()) };
    // SAFETY: they are of one size, the read is unaligned, and both hold integers only.
    unsafe { std::ptr::from_ref(of).cast::<U>().read_unaligned() }
}

/// Reads a struct from the start of these bytes; none if they are too few.
pub(super) fn read<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: the length is checked, the read is unaligned, and T holds integers only.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The value of a map at this key; none if there is none, or it cannot be read.
pub(super) fn look_up<T: Plain>(map: &MapHandle, key: u32) -> Option<T> {
    read(&map.lookup(&key.to_ne_bytes(), MapFlags::ANY).ok()??)
}

/// The zero-initialized global variables of programs (`.bss`), as the skeleton names them.
pub(super) fn globals<T: Plain>(bss: &MapHandle) -> Option<T> {
    let mut bytes = bss.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??;
    // The section ends with its last variable; the struct is padded to its alignment.
    let end = bytes.len().next_multiple_of(align_of::<T>());
    bytes.resize(end, 0);
    read(&bytes)
}
