//! Programs that keep step with the sampling rate: what they do has its true share all the same.

use dbtime_model::State;
use dbtime_tests::{Programs, Recorder, Running, assert_close, needs_recording};

#[test]
fn functions_that_take_turns_at_the_sampling_rate_have_half_each() {
    needs_recording!();
    let programs = Programs::default();
    let program = programs.compile("gcc", "in_step.c", "in_step", &[]);
    for rate_hz in [99_u32, 499] {
        let period_ns = 1_000_000_000 / rate_hz;
        let running = Running::start(&program, &[&period_ns.to_string()]);
        let pid = running.pid();
        let rate = rate_hz.to_string();
        let recorded = Recorder::start(&["--process", &pid.to_string(), "-d", "10", "-F", &rate]).finish();
        let stacks = recorded.user_stacks(pid);
        let samples = |function: &str| -> f64 {
            stacks
                .iter()
                .filter(|(frames, state, _)| {
                    *state != State::Runnable && frames.iter().any(|frame| frame.symbol == function)
                })
                .map(|(_, _, samples)| *samples as f64)
                .sum()
        };
        let [first, second] = ["first_half", "second_half"].map(samples);
        let expected = 10.0 * f64::from(rate_hz);
        // As often as the rate says: at most another program of the test has a CPU as well.
        assert_close("samples", first + second, expected, 0.1, 0.0);
        // A rate that happens to be drawn within 1 % of this program's, one in ten, sees one of the two for most of a second: the standard
        // error is 0.045. In step with a fixed rate it would be 0 or 1.
        assert_close("first half, share", first / (first + second), 0.5, 0.0, 0.2);
    }
}
