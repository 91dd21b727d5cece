//! What BPF may not be shown.

/// Where calls are traced, a switch that BPF was not shown is repaired by the kernel's books, which are as old as its last tick: so
/// many seconds may stay on the wrong side of CPU. `missed_switch` counts them.
pub const MISSED_SWITCH: f64 = 0.012;

/// Asserts that nearly all requests (or their bytes) were seen, and none that there was not. Returns what is missing.
///
/// Some hosts let BPF see nothing that interrupts a protected process, as the end of a request may: most often one in 300 or
/// fewer on the machine that this was written on, once one in 33, while the kernel's own tracer saw all. No request is ever counted twice, or of
/// another's. `one` is the size of the largest request, in whatever is counted.
///
/// # Panics
/// When more are missing, or there are too many.
#[track_caller]
pub fn assert_seen(what: &str, found: u64, truth: u64, one: u64) -> u64 {
    assert!(
        found <= truth && truth - found <= one + truth / 20,
        "{what}: {found} of {truth}"
    );
    truth - found
}
