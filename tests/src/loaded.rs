//! BPF programs: which a process holds open, and which are in the kernel.

use std::fs;
use std::io;

/// Ids of the BPF programs that a process holds open.
///
/// # Panics
/// When it is not running.
#[track_caller]
pub fn programs_of(pid: u32) -> Vec<u32> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("the process lives");
    let mut programs: Vec<u32> = descriptors
        .flatten()
        .filter_map(|descriptor| fs::read_to_string(descriptor.path()).ok())
        .flat_map(|text| {
            let ids = text
                .lines()
                .filter_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
            ids.collect::<Vec<u32>>()
        })
        .collect();
    programs.sort_unstable();
    programs.dedup();
    programs
}

/// True while the kernel has the program of this id.
///
/// # Panics
/// When the kernel refuses to say.
#[track_caller]
pub fn program_is_loaded(id: u32) -> bool {
    const BPF_PROG_GET_FD_BY_ID: libc::c_long = 13;
    let attributes: [u32; 3] = [id, 0, 0];
    // SAFETY: the pointer is to live memory of the size given; the call creates a file descriptor or fails.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_GET_FD_BY_ID,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    };
    if fd < 0 {
        let error = io::Error::last_os_error();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{error}");
        return false;
    }
    // SAFETY: the descriptor was just created and is used nowhere else.
    unsafe { libc::close(fd as libc::c_int) };
    true
}
