//! What may be hidden from BPF.

/// Where calls are traced, a switch that BPF did not see is repaired from the kernel's accounting, which is as old as its last tick: so
/// many seconds may be wrongly on or off CPU. `missed_switch` counts them.
pub const MISSED_SWITCH: f64 = 0.012;

/// Asserts that nearly all requests (or their bytes) were seen, and none that did not happen. Returns how much is missing.
///
/// Some hosts hide from BPF whatever interrupts a protected process, as the end of a request may: usually one request in 300 or fewer on
/// the machine that this was written on, once one in 33, while the kernel's own tracer saw all of them. None is ever counted twice, nor one
/// of somebody else's. `one` is the size of the largest request, in whatever is counted.
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
