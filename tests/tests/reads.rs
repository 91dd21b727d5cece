//! Single-row reads: from the page cache they cost the kernel's CPU, from the device they wait for it.

use std::path::PathBuf;
use std::time::Duration;

use dbtime::throwaway::{Cluster, Options, page_cache};
use dbtime_model::State;
use dbtime_tests::{Recorded, Recorder, distribution, needs_recording, pgbench};

const READ: &str = "IO:DataFileRead";
/// About 300 MB: a hundred times the shared buffers.
const SCALE: u32 = 20;

fn cluster_with_data() -> Cluster {
    let cluster = distribution().start(Options::default().set("shared_buffers", "3MB"));
    pgbench::initialise(&cluster, SCALE);
    cluster
}

fn data_files(cluster: &Cluster) -> Vec<PathBuf> {
    let mut files = cluster
        .relation_files("pgbench_accounts")
        .expect("pgbench made it");
    files.extend(
        cluster
            .relation_files("pgbench_accounts_pkey")
            .expect("pgbench made it"),
    );
    files
}

fn record_reads(cluster: &Cluster) -> Recorded {
    let recorder = Recorder::server(cluster, &[]);
    pgbench::run(
        cluster,
        &[
            "--select-only",
            "--protocol=prepared",
            "--no-vacuum",
            "--client=2",
            "--jobs=1",
            "--time=5",
        ],
    );
    recorder.stop()
}

/// Time in reads by state, without the run queue: that one depends on what else runs on this machine.
fn shares(recorded: &Recorded) -> (f64, f64) {
    let [kernel, disk] = [State::Kernel, State::Disk].map(|state| recorded.clients_ns(READ, &[state]) as f64);
    let queued = recorded.clients_ns(READ, &[State::Runnable]);
    let all = (recorded.clients_ns(READ, &State::ALL) - queued) as f64;
    assert!(all > 1e8, "there was hardly any read: {all} ns");
    (kernel / all, disk / all)
}

#[test]
fn reads_from_the_page_cache_are_kernel_time_and_reads_from_the_device_are_disk_time() {
    needs_recording!();
    let cluster = cluster_with_data();
    let files = data_files(&cluster);

    page_cache::warm(&files).expect("its own files");
    let cached = record_reads(&cluster);
    let warm = page_cache::residency(&files).expect("its own files");
    assert!(
        warm.share() > 0.99,
        "the data did not stay in the page cache: {warm:?}"
    );
    let (kernel, disk) = shares(&cached);
    assert!(
        kernel > 0.5 && disk < 0.1,
        "cached reads: kernel {kernel:.2}, disk {disk:.2}"
    );
    torn_rows_are_few(&cached);
    the_two_views_differ(&cached);

    let keep_out = page_cache::KeepOut::start(&files, Duration::from_millis(50)).expect("its own files");
    let device = record_reads(&cluster);
    let cold = page_cache::residency(&files).expect("its own files");
    drop(keep_out);
    assert!(
        cold.share() < 0.05,
        "the data came back into the page cache: {cold:?}"
    );
    let (kernel, disk) = shares(&device);
    // Where the device is fast, submitting a read takes nearly as long as waiting for it (on a virtual disk, telling
    // the host of it).
    assert!(disk > 0.4, "device reads: kernel {kernel:.2}, disk {disk:.2}");
}

fn torn_rows_are_few(recorded: &Recorded) {
    let clients = recorded.clients();
    let torn: u64 = clients.iter().map(|session| session.torn).sum();
    let samples: u64 = clients.iter().map(|session| session.samples()).sum();
    let rate = torn as f64 / (torn + samples) as f64;
    assert!(samples > 200, "{samples} samples are too few to judge");
    assert!(rate < 0.005, "{torn} torn rows for {samples} samples");
    assert!(recorded.meta.quality.torn >= torn, "{:?}", recorded.meta.quality);
}

/// The classic: the kernel's copying counts as CPU and as wait.
fn the_two_views_differ(recorded: &Recorded) {
    let report = recorded.report(&[]);
    let view = &report.database_view;
    // How far above 100 % the sum lies depends on what else runs here: time in the run queue is in neither.
    let percent = 100.0 * (view.cpu_ns + view.wait_ns) as f64 / report.db_time_ns as f64;
    assert!(
        view.percent_of_db_time
            .is_some_and(|shown| (shown - percent).abs() < 0.01),
        "{percent}: {view:?}"
    );
    let read = report.row("IO", "DataFileRead").expect("there were reads");
    let on_cpu_in_wait = read.user_ns + read.kernel_ns;
    assert!(
        view.double_counted_ns >= on_cpu_in_wait,
        "{on_cpu_in_wait} ns on a CPU inside reads are counted twice: {view:?}"
    );
}
