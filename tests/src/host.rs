//! Whether this host lets anyone record, found out by trying.

use std::io;
use std::path::Path;
use std::time::Duration;

/// True when recording is possible here. If not, says so loudly; under `CI=true` that is a failure.
///
/// # Panics
/// In CI, when recording is not possible.
pub fn can_record() -> bool {
    match obstacle() {
        None => true,
        Some(why) => {
            skip(&why);
            false
        }
    }
}

/// CPU time that a hypervisor has stolen from this machine since it booted, in whole hundredths of a second.
///
/// # Panics
/// When /proc is not mounted.
pub fn stolen() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").expect("/proc is mounted");
    let all = text
        .lines()
        .next()
        .expect("the first line is the sum of all CPUs");
    let ticks: u64 = all
        .split_ascii_whitespace()
        .nth(8)
        .and_then(|field| field.parse().ok())
        .unwrap_or(0);
    Duration::from_millis(10 * ticks)
}

/// The root of the repository.
///
/// # Panics
/// Never: the tests are in a folder of it.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ is inside the repository")
}

/// Prints what a test has measured; seen with `--nocapture`, or when it fails.
#[expect(
    clippy::print_stderr,
    reason = "measured numbers are for whoever runs the test"
)]
pub fn say(text: &str) {
    eprintln!("{text}");
}

/// Says that a test does not run, and why.
///
/// # Panics
/// In CI: there every test has to run.
#[expect(clippy::print_stderr, reason = "a skipped test has nowhere else to say so")]
pub fn skip(why: &str) {
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "SKIPPED: {why}; in CI every test must run"
    );
    let test = std::thread::current().name().unwrap_or("?").to_string();
    eprintln!("SKIPPED: {test}: {why}");
}

fn obstacle() -> Option<String> {
    // SAFETY: geteuid reads the caller's credentials and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Some("recording needs root".to_string());
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Some("the kernel has no BTF".to_string());
    }
    bpf_map()
        .and_then(|()| cpu_clock())
        .err()
        .map(|e| format!("the kernel refuses BPF or perf_event here: {e}"))
}

/// Creates a BPF map of one element and closes it.
fn bpf_map() -> io::Result<()> {
    const BPF_MAP_CREATE: libc::c_long = 0;
    const BPF_MAP_TYPE_ARRAY: u32 = 2;
    // The first fields of `union bpf_attr`: type, key size, value size, entries.
    let attributes: [u32; 4] = [BPF_MAP_TYPE_ARRAY, 4, 4, 1];
    // SAFETY: the pointer is to live memory of the size given; the call creates a file descriptor or fails.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_MAP_CREATE,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    };
    close(fd)
}

/// Opens the software clock event of perf on the first CPU and closes it.
fn cpu_clock() -> io::Result<()> {
    const PERF_TYPE_SOFTWARE: u32 = 1;
    /// `PERF_ATTR_SIZE_VER0`: the oldest layout, which every kernel takes.
    const SIZE: usize = 64;
    let mut attributes = [0u32; SIZE / 4];
    attributes[0] = PERF_TYPE_SOFTWARE;
    attributes[1] = SIZE as u32;
    let (every_process, first_cpu, no_group, no_flags) = (-1, 0, -1, 0);
    // SAFETY: the pointer is to live memory of the size it states; the call creates a file descriptor or fails.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            every_process,
            first_cpu,
            no_group,
            no_flags,
        )
    };
    close(fd)
}

fn close(fd: libc::c_long) -> io::Result<()> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and is used nowhere else.
    unsafe { libc::close(fd as libc::c_int) };
    Ok(())
}
