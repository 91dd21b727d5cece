//! Reads the memory of other processes. Nothing is ever written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::process;

/// Bytes of a text that are read at a time, up to a multiple of them: the rest of a buffer is not touched, as reading might allocate it,
/// and the page behind the text need not exist.
const PIECE: usize = 512;

/// Fills all parts, each from an address of the process, in one system call as far as the kernel offers it.
///
/// # Errors
/// A part could not be read, or the process is gone.
pub(crate) fn read(pid: u32, parts: &mut [(u64, &mut [u8])]) -> io::Result<()> {
    let wanted: usize = parts.iter().map(|(_, bytes)| bytes.len()).sum();
    let remote: Vec<libc::iovec> = parts
        .iter()
        .map(|(address, bytes)| vector(*address as usize, bytes.len()))
        .collect();
    let local: Vec<libc::iovec> = parts
        .iter_mut()
        .map(|(_, bytes)| vector(bytes.as_mut_ptr() as usize, bytes.len()))
        .collect();
    // SAFETY: the local vectors describe exclusively borrowed slices; the remote ones are another process's addresses, which
    // the kernel checks; nothing is written there.
    let read = unsafe {
        libc::process_vm_readv(
            pid.cast_signed(),
            local.as_ptr(),
            local.len() as libc::c_ulong,
            remote.as_ptr(),
            remote.len() as libc::c_ulong,
            0,
        )
    };
    if usize::try_from(read) == Ok(wanted) {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if read < 0 && error.raw_os_error() == Some(libc::ENOSYS) {
        // A kernel without CONFIG_CROSS_MEMORY_ATTACH.
        let memory = File::open(process::path(pid, "mem"))?;
        return parts
            .iter_mut()
            .try_for_each(|(address, bytes)| memory.read_exact_at(bytes, *address));
    }
    Err(if read < 0 {
        error
    } else {
        io::Error::from_raw_os_error(libc::EFAULT)
    })
}

/// The bytes at an address, up to a NUL; at most `most`, plus less than a piece.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_text(pid: u32, address: u64, most: usize) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    while text.len() < most {
        let at = address.saturating_add(text.len() as u64);
        let mut piece = [0; PIECE];
        let piece = &mut piece[..(PIECE - at as usize % PIECE).min(most)];
        read(pid, &mut [(at, &mut *piece)])?;
        let end = memchr::memchr(0, piece);
        text.extend(&piece[..end.unwrap_or(piece.len())]);
        if end.is_some() {
            break;
        }
    }
    Ok(text)
}

/// A 32-bit number.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_u32(pid: u32, address: u64) -> io::Result<u32> {
    let mut bytes = [0; 4];
    read(pid, &mut [(address, &mut bytes)])?;
    Ok(u32::from_ne_bytes(bytes))
}

/// A 64-bit number.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_u64(pid: u32, address: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    read(pid, &mut [(address, &mut bytes)])?;
    Ok(u64::from_ne_bytes(bytes))
}

fn vector(address: usize, bytes: usize) -> libc::iovec {
    libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_together_or_not_at_all() {
        let (a, b) = (0x0102_0304_u32, 77_u32);
        let (mut first, mut second) = ([0; 4], [0; 4]);
        let own = std::process::id();
        let address = |value: &u32| std::ptr::from_ref(value) as u64;
        read(own, &mut [(address(&a), &mut first), (address(&b), &mut second)]).unwrap();
        assert_eq!((u32::from_ne_bytes(first), u32::from_ne_bytes(second)), (a, b));
        let error = read(own, &mut [(address(&a), &mut first), (16, &mut second)]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn a_text_may_end_where_the_memory_does() {
        const PAGE: usize = 4096;
        let text = b"the end\0";
        // SAFETY: two new pages of this process's own, of which the second is unmapped at once and the first is used within its bounds.
        let begin = unsafe {
            let pages = libc::mmap(
                std::ptr::null_mut(),
                2 * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(pages, libc::MAP_FAILED);
            assert_eq!(libc::munmap(pages.byte_add(PAGE), PAGE), 0);
            let begin = pages.byte_add(PAGE - text.len());
            begin.cast::<[u8; 8]>().write(*text);
            begin as u64
        };
        let read = |most| read_text(std::process::id(), begin, most).unwrap();
        assert_eq!(read(PAGE), b"the end");
        assert_eq!(read(3), b"the");
    }
}
