//! Recording changes neither the host nor the database.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dbtime::throwaway::Options;
use dbtime_tests::{
    Recorder, Session, children, distribution, needs_recording, program_is_loaded, programs_of,
    state_and_tracer,
};

/// Everything of the kernel that a tracer might be tempted to switch.
const SETTINGS: [&str; 13] = [
    "/proc/sys/kernel/bpf_stats_enabled",
    "/proc/sys/kernel/ftrace_enabled",
    "/proc/sys/kernel/kptr_restrict",
    "/proc/sys/kernel/perf_event_max_stack",
    "/proc/sys/kernel/perf_event_mlock_kb",
    "/proc/sys/kernel/perf_event_paranoid",
    "/proc/sys/kernel/sched_rt_runtime_us",
    "/proc/sys/kernel/sched_schedstats",
    "/proc/sys/kernel/task_delayacct",
    "/proc/sys/kernel/unprivileged_bpf_disabled",
    "/proc/sys/net/core/bpf_jit_enable",
    "/sys/kernel/tracing/current_tracer",
    "/sys/kernel/tracing/tracing_on",
];

fn settings() -> BTreeMap<&'static str, Option<String>> {
    SETTINGS
        .iter()
        .map(|&path| (path, fs::read_to_string(path).ok()))
        .collect()
}

#[test]
fn no_setting_of_the_kernel_is_changed_and_no_program_stays_loaded() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    for killed in [false, true] {
        let before = settings();
        let recorder = Recorder::server(&cluster, &[]);
        let programs = programs_of(recorder.pid());
        assert!(
            !programs.is_empty(),
            "the recorder has BPF programs while it records"
        );
        assert!(programs.iter().all(|&id| program_is_loaded(id)));
        std::thread::sleep(Duration::from_millis(500));
        let after_life = if killed { "was killed" } else { "ended" };
        if killed {
            recorder.signal(libc::SIGKILL);
            drop(recorder.outcome());
        } else {
            drop(recorder.stop());
        }
        assert_eq!(settings(), before, "after a recorder {after_life}");
        let give_up = Instant::now() + Duration::from_secs(5);
        while let Some(id) = programs.iter().find(|&&id| program_is_loaded(id)) {
            // The kernel frees programs a moment after the last reference is gone.
            assert!(
                Instant::now() < give_up,
                "BPF program {id} is loaded after its recorder {after_life}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn no_process_of_the_server_is_ever_stopped_or_traced() {
    needs_recording!();
    let cluster = distribution().start(Options::default());
    let mut session = Session::connect(&cluster);
    let mut pids = children(cluster.postmaster_pid());
    pids.push(cluster.postmaster_pid());
    assert!(pids.contains(&session.pid()), "{pids:?}");

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut looks = 0u32;
            while !done.load(Ordering::Relaxed) {
                for &pid in &pids {
                    let (state, tracer) = state_and_tracer(pid).expect("the server lives");
                    assert_eq!(tracer, 0, "process {pid} is traced");
                    assert!(!"Tt".contains(state), "process {pid} is stopped");
                }
                looks += 1;
                std::thread::sleep(Duration::from_micros(500));
            }
            looks
        });
        let recorder = Recorder::server(&cluster, &["-F", "999"]);
        session.burn(Duration::from_secs(1));
        session.run("SELECT pg_sleep(0.5)");
        drop(recorder.stop());
        done.store(true, Ordering::Relaxed);
        let looks = watcher.join().expect("no process was stopped or traced");
        assert!(looks > 500, "{looks} looks are too few");
    });
}
