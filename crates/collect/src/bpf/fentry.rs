//! Programs that the kernel calls directly at entry (fentry) and exit (fexit) of a function. Such a program belongs to one function: once
//! loaded, it is loaded again for each.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libbpf_rs::ProgramMut;
use libbpf_rs::libbpf_sys::{self, BPF_PROG_TYPE_TRACING, bpf_link_create_opts, bpf_prog_load_opts};

use super::kernel_functions::{FunctionType, KernelFunctions};

const LICENSE: &CStr = c"Dual BSD/GPL";

/// Loads an already loaded program for another function, and attaches it with this number as its cookie. Dropping the result detaches it.
///
/// # Errors
/// The kernel refuses: it does not allow such programs, or not at this function.
pub(super) fn attach(
    program: &ProgramMut<'_>,
    types: &KernelFunctions,
    function: FunctionType,
    cookie: u64,
) -> io::Result<OwnedFd> {
    let attach_type = program.attach_type() as u32;
    let mut options = bpf_prog_load_opts {
        sz: size_of::<bpf_prog_load_opts>() as _,
        expected_attach_type: attach_type,
        attach_btf_id: function.id,
        attach_btf_obj_fd: types.module(function) as u32,
        ..bpf_prog_load_opts::default()
    };
    let instructions = program.insns();
    // SAFETY: all that is pointed to lives until the call is over; the kernel checks the instructions.
    let loaded = descriptor(unsafe {
        libbpf_sys::bpf_prog_load(
            BPF_PROG_TYPE_TRACING,
            c"dbtime_function".as_ptr(),
            LICENSE.as_ptr(),
            instructions.as_ptr(),
            instructions.len() as _,
            &mut options,
        )
    })?;
    let mut options = bpf_link_create_opts {
        sz: size_of::<bpf_link_create_opts>() as _,
        ..bpf_link_create_opts::default()
    };
    options.__bindgen_anon_1.tracing.cookie = cookie;
    // The link keeps the program loaded.
    // SAFETY: as above.
    descriptor(unsafe { libbpf_sys::bpf_link_create(loaded.as_raw_fd(), 0, attach_type, &options) })
}

/// A result of libbpf: a descriptor, or the negative number of an error.
fn descriptor(given: i32) -> io::Result<OwnedFd> {
    if given < 0 {
        return Err(io::Error::from_raw_os_error(-given));
    }
    // SAFETY: nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(given) })
}
