//! Compares the sampled tier with the exact one, recorded at the same time. `make bench-agreement` does it for many loads.

use dbtime::throwaway::Options;
use dbtime_model::State;
use dbtime_tests::{Recorder, distribution, needs_recording, pgbench, say};

const SYNC: &str = "IO:WALSync";

/// A session that syncs its commits waits for the disk for some 0.1 ms at a time, and leaves its CPU idle: that is when a timer is latest.
/// When samples were taken at moments that depend on it, or what a session slept in was guessed from what it did when it was looked at,
/// such waits got between half and twice their time.
#[test]
fn short_waits_for_the_disk_have_their_time() {
    needs_recording!();
    let cluster = distribution().start(Options::default().set("fsync", "on"));
    pgbench::initialise(&cluster, 5);
    let sampled = Recorder::server(&cluster, &["-F", "199"]);
    let exact = Recorder::server(&cluster, &["--exact=calls"]);
    pgbench::run(&cluster, &["--no-vacuum", "--client=1", "--time=15"]);
    let (sampled, exact) = (sampled.stop(), exact.stop());
    let [of_samples, truth] =
        [&sampled, &exact].map(|recorded| recorded.clients_ns(SYNC, &[State::Disk]) as f64 / 1e9);
    assert!(truth > 0.3, "there was hardly any wait for the disk: {truth} s");
    let ratio = of_samples / truth;
    say(&format!(
        "{SYNC}: sampled {of_samples:.3} s, exact {truth:.3} s: {ratio:.2}"
    ));
    assert!(
        (0.7..1.4).contains(&ratio),
        "sampled {of_samples} s, exact {truth} s: {ratio:.2}"
    );
    let clients = sampled.clients();
    let samples: u64 = clients.iter().map(|session| session.samples()).sum();
    let torn: u64 = clients.iter().map(|session| session.torn).sum();
    say(&format!("{torn} torn rows for {samples} samples"));
    assert!(samples > 1_000, "{samples} samples are too few to judge");
    assert!(torn * 200 <= samples, "{torn} torn rows for {samples} samples");
}

/// On busy CPUs the sampler's thread comes late. What each session did at the moment that was drawn is noted by then, or the
/// recording says why it is not.
#[test]
fn moments_are_noted_before_the_sampler_has_a_cpu() {
    needs_recording!();
    let cluster = distribution().start(Options::default().set("fsync", "on"));
    pgbench::initialise(&cluster, 5);
    let recorder = Recorder::server(&cluster, &["-F", "199"]);
    pgbench::run(&cluster, &["--no-vacuum", "--client=8", "--time=8"]);
    let recorded = recorder.stop();
    let quality = &recorded.meta.quality;
    let says_why = recorded
        .meta
        .collector
        .reasons
        .iter()
        .any(|reason| reason.contains("no timer that notes"));
    let programs = &recorded.meta.cost.programs;
    let Some(noted) = programs.iter().find(|program| program.name == "moment") else {
        assert!(says_why, "{:?}", recorded.meta.collector.reasons);
        assert_eq!(quality.stood_in, 0);
        return;
    };
    assert!(!says_why, "{:?}", recorded.meta.collector.reasons);
    assert!(
        noted.runs * 2 >= quality.passes,
        "{} moments noted, {} passes",
        noted.runs,
        quality.passes
    );
    // Some waits are over in the time that the sampler takes to come; most are not.
    assert!(
        quality.stood_in > 0 && quality.stood_in * 10 < quality.samples,
        "{} of {} samples stood in",
        quality.stood_in,
        quality.samples
    );
    assert_eq!(quality.lost, 0);
}
