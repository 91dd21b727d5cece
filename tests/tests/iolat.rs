//! `dbtime iolat` against what the kernel, its tracer and the program that does the I/O say of the same requests.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use dbtime_tests::{
    BlockTrace, DiskStat, Iolat, LoopDevice, NO_BTF, assert_close, assert_seen, dbtime, dbtime_after,
    dbtime_as_nobody, dbtime_binary, needs_recording,
};
use tempfile::TempDir;

/// Room on the disks of the tests.
const MEGABYTES: u64 = 64;

/// Runs fio on a disk to its end; gives its report.
#[track_caller]
fn fio(disk: &LoopDevice, arguments: &[&str]) -> serde_json::Value {
    let output = Command::new("fio")
        .args(["--name=test", "--direct=1", "--output-format=json"])
        .arg(format!("--filename={}", disk.path().display()))
        .args(arguments)
        .current_dir("/")
        .output()
        .expect("fio is installed: make deps");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let begin = text.find('{').expect("JSON");
    serde_json::from_str(&text[begin..]).expect("JSON")
}

fn reads<'a>(number: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["--rw=randread", "--bs=4k", "--ioengine=psync", number], more].concat()
}

#[test]
fn counts_and_bytes_are_those_of_the_kernel() {
    needs_recording!();
    let Some(disk) = LoopDevice::new(MEGABYTES) else {
        return;
    };
    let measured = Iolat::start(&["--device", disk.name()]);
    let before = disk.stat();
    fio(&disk, &reads("--number_ios=5000", &[]));
    fio(
        &disk,
        &[
            "--rw=write",
            "--bs=64k",
            "--ioengine=psync",
            "--size=32m",
            "--end_fsync=1",
        ],
    );
    let discarded = Command::new("blkdiscard")
        .args(["--offset", "0", "--length", "1048576"])
        .arg(disk.path())
        .status();
    assert!(discarded.is_ok_and(|status| status.success()), "blkdiscard works");
    let truth: DiskStat = disk.stat().since(before);
    // So that the last of it is in an interval that is shown.
    std::thread::sleep(Duration::from_millis(500));
    let (intervals, whole) = measured.stop();

    // Whoever opens a disk to write may read its partition table, too.
    assert!(truth.requests[0] >= 5000 && truth.requests[1] >= 512, "{truth:?}");
    let operations = ["read", "write", "discard", "flush"];
    let found = operations.map(|operation| whole.operation(operation));
    assert!(truth.requests.iter().all(|count| *count > 0), "{truth:?}");
    // The kernel counts a write that only asks for a flush, and is never sent, as a write and as a flush.
    let writes = truth.requests[1];
    assert!((512..=512 + truth.requests[3]).contains(&writes), "{truth:?}");
    let [reads, _, discards, flushes] = truth.requests;
    for ((requests, truth_requests), truth_bytes) in found
        .iter()
        .zip([reads, 512, discards, flushes])
        .zip(truth.bytes.into_iter().chain([0]))
    {
        let missed = assert_seen("requests", requests.count, truth_requests, 1);
        assert!(
            if missed == 0 {
                requests.bytes == truth_bytes
            } else {
                requests.bytes < truth_bytes
            },
            "{requests:?} {truth:?}"
        );
    }
    for operation in operations {
        let sum = |value: fn(&dbtime_tests::BlockRequests) -> u64| -> u64 {
            intervals
                .iter()
                .map(|interval| value(&interval.operation(operation)))
                .sum()
        };
        let whole = whole.operation(operation);
        // The interval that Ctrl-C cuts short is shown in the whole time only; nothing was done in it.
        assert_eq!(
            (sum(|r| r.count), sum(|r| r.sum_ns), sum(|r| r.bytes)),
            (whole.count, whole.sum_ns, whole.bytes)
        );
        assert_eq!(
            whole.buckets.iter().map(|bucket| bucket.count).sum::<u64>(),
            whole.count
        );
        assert_eq!(
            whole.buckets.iter().map(|bucket| bucket.sum_ns).sum::<u64>(),
            whole.sum_ns
        );
    }
}

/// The kernel's time starts when the request is made, and ends when it has been accounted: for each, some 5 to 20 us that are not between
/// issue and completion. So requests are large here, and take ten times longer.
#[test]
fn time_is_that_of_the_kernel() {
    needs_recording!();
    let Some(disk) = LoopDevice::new(MEGABYTES) else {
        return;
    };
    let measured = Iolat::start(&["--device", disk.name()]);
    let before = disk.stat();
    fio(
        &disk,
        &[
            "--rw=randrw",
            "--bs=1m",
            "--ioengine=psync",
            "--size=64m",
            "--io_size=1g",
        ],
    );
    let truth: DiskStat = disk.stat().since(before);
    let (_, whole) = measured.stop();
    for (operation, ticks_ms) in ["read", "write"].into_iter().zip(truth.ticks_ms) {
        let requests = whole.operation(operation);
        let sum_ms = requests.sum_ns as f64 / 1e6;
        let ticks_ms = ticks_ms as f64;
        assert!(
            (ticks_ms * 0.75..=ticks_ms + 1.0).contains(&sum_ms),
            "{sum_ms} {ticks_ms} {requests:?}"
        );
    }
}

/// Both stamp at the same two tracepoints, one after the other: a latency differs by a few microseconds at most. So at
/// every bound of a bucket the tracer's count a little before and a little after it enclose ours. The tracer shows whole
/// microseconds; our buckets are cut to 1 %. A few requests may be stamped across an interrupt.
#[test]
fn buckets_are_those_of_the_kernels_tracer() {
    const APART_NS: u64 = 4_000;
    needs_recording!();
    let Some(disk) = LoopDevice::new(MEGABYTES) else {
        return;
    };
    let measured = Iolat::start(&["--device", disk.name()]);
    let trace = BlockTrace::start(&disk);
    fio(
        &disk,
        &[
            "--rw=randread",
            "--bs=64k",
            "--ioengine=libaio",
            "--iodepth=2",
            "--number_ios=4000",
        ],
    );
    let truth = trace.stop();
    let (_, whole) = measured.stop();
    let read = whole.operation("read");
    let outliers = assert_seen("requests", read.count, truth.len() as u64, 1) + read.count / 500 + 3;
    let mut below = 0;
    for bucket in &read.buckets {
        below += bucket.count;
        let bound = bucket.to_us * 1_000;
        let apart = APART_NS + bound / 100;
        let before = truth.partition_point(|ns| *ns < bound.saturating_sub(apart)) as u64;
        let after = truth.partition_point(|ns| *ns < bound + apart) as u64;
        assert!(
            before.saturating_sub(outliers) <= below && below <= after + outliers,
            "below {} µs: {below}, the tracer has {before} to {after}",
            bucket.to_us
        );
    }
    let mean = truth.iter().sum::<u64>() as f64 / truth.len() as f64;
    assert_close(
        "mean",
        read.sum_ns as f64 / read.count as f64,
        mean,
        0.01,
        3_000.0,
    );
}

/// Large reads, so that the device takes longer than the way to it and back.
#[test]
fn a_reader_waits_a_little_longer_than_its_requests() {
    needs_recording!();
    let Some(disk) = LoopDevice::new(MEGABYTES) else {
        return;
    };
    let measured = Iolat::start(&["--device", disk.name(), "--operation", "read"]);
    let report = fio(
        &disk,
        &[
            "--rw=randread",
            "--bs=512k",
            "--ioengine=psync",
            "--iodepth=1",
            "--loops=8",
        ],
    );
    let (_, whole) = measured.stop();
    let read = whole.operation("read");
    assert_seen("requests", read.count, 8 * MEGABYTES * 2, 1);
    let fio_ns = report["jobs"][0]["read"]["clat_ns"]["percentile"]["50.000000"]
        .as_u64()
        .expect("a percentile");
    let ours_ns = read.p50_ns.expect("reads");
    // fio's has the system call, the pages to be pinned and the wake-up besides; both are cut to buckets of 1 %.
    assert!(ours_ns as f64 <= fio_ns as f64 * 1.02, "{ours_ns} {fio_ns}");
    assert!(ours_ns as f64 >= fio_ns as f64 * 0.3, "{ours_ns} {fio_ns}");
}

#[test]
fn with_the_queue_a_request_takes_longer() {
    needs_recording!();
    let Some(disk) = LoopDevice::new(MEGABYTES) else {
        return;
    };
    // A scheduler keeps requests back while the device has its fill.
    disk.set("scheduler", "mq-deadline");
    let before = disk.stat();
    let device_only = Iolat::start(&["--device", disk.name()]);
    let with_queue = Iolat::start(&["--device", disk.name(), "--queue"]);
    fio(
        &disk,
        &[
            "--rw=randread",
            "--bs=4k",
            "--ioengine=libaio",
            "--iodepth=256",
            "--iodepth_batch=64",
            "--number_ios=20000",
        ],
    );
    // Some reads were merged.
    let [reads, ..] = disk.stat().since(before).requests;
    let (_, device_only) = device_only.stop();
    let (_, with_queue) = with_queue.stop();
    assert_eq!(
        (device_only.from.as_str(), with_queue.from.as_str()),
        ("issue", "queue")
    );
    let (device_only, with_queue) = (device_only.operation("read"), with_queue.operation("read"));
    assert_seen("requests", device_only.count, reads, 1);
    assert_seen("requests", with_queue.count, reads, 1);
    assert!(
        with_queue.sum_ns as f64 > device_only.sum_ns as f64 * 1.02,
        "{with_queue:?} {device_only:?}"
    );
    assert!(
        with_queue.p99_ns >= device_only.p99_ns,
        "{with_queue:?} {device_only:?}"
    );
}

/// Direct reads of 4 KB by a process that begins them only when told to, so that its pid is known before.
struct Reader(std::process::Child);

impl Reader {
    fn new(disk: &LoopDevice, count: u32) -> Reader {
        let script = format!(
            "read go; exec dd if={} of=/dev/null iflag=direct bs=4k count={count} status=none",
            disk.path().display()
        );
        let child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .spawn();
        Reader(child.expect("sh can be run"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn run(mut self) {
        self.0
            .stdin
            .take()
            .expect("a pipe")
            .write_all(b"\n")
            .expect("it waits");
        assert!(self.0.wait().expect("it is our child").success());
    }
}

#[test]
fn only_what_was_asked_for_counts() {
    needs_recording!();
    let Some(disk) = LoopDevice::new(MEGABYTES) else {
        return;
    };
    let Some(other) = LoopDevice::new(1) else {
        return;
    };
    let readers = [300, 70, 11].map(|count| Reader::new(&disk, count));
    let elsewhere = Reader::new(&other, 40);
    let [first, second, _] = readers.each_ref().map(Reader::pid);
    let by_pid = Iolat::start(&[
        "--device",
        disk.name(),
        "-p",
        &first,
        "-p",
        &second,
        "-p",
        &elsewhere.pid(),
    ]);
    let by_operation = Iolat::start(&[
        "--device",
        disk.name(),
        "--operation",
        "write",
        "--operation",
        "flush",
    ]);
    let by_disk = Iolat::start(&[
        "--device",
        disk.name(),
        "--device",
        &format!("/dev/{}", other.name()),
        "--per-disk",
    ]);
    let by_default = Iolat::start(&["--operation", "read"]);
    readers.into_iter().for_each(Reader::run);
    elsewhere.run();
    let [(_, by_pid), (_, by_operation), (_, by_disk), (_, by_default)] =
        [by_pid, by_operation, by_disk, by_default].map(Iolat::stop);

    let of_two = by_pid.operation("read");
    assert_seen("requests", of_two.count, 370, 1);
    assert_eq!(of_two.bytes, of_two.count * 4096);
    assert!(
        by_operation
            .tables
            .iter()
            .all(|table| table.operations.is_empty()),
        "{by_operation:?}"
    );
    let mut counts: Vec<_> = by_disk
        .tables
        .iter()
        .map(|table| (table.disk.as_deref().expect("a disk"), table.operations[0].count))
        .collect();
    counts.sort_unstable_by_key(|(_, count)| *count);
    assert_eq!([counts[0].0, counts[1].0], [other.name(), disk.name()]);
    assert_seen("requests", counts[0].1, 40, 1);
    assert_seen("requests", counts[1].1, 381, 1);
    assert_eq!(counts.len(), 2);
    // A loop device is stacked on another one: its requests do not count, and the output says so.
    assert_seen("requests", by_default.left_out[disk.name()], 381, 1);
    assert_seen("requests", by_default.left_out[other.name()], 40, 1);
    let disks = Iolat::start(&["--per-disk"]).stop().1.tables;
    assert!(
        disks
            .iter()
            .all(|table| !table.disk.as_ref().is_some_and(|disk| disk.starts_with("loop")))
    );
}

#[test]
fn wrong_usage_is_named() {
    for interval in ["0", "-1", "0.05", "nan", "x", "1e99"] {
        dbtime(&["iolat", "--", interval])
            .expect_code(2)
            .expect_stderr(&["INTERVAL"]);
    }
    dbtime(&["iolat", "1", "0"])
        .expect_code(2)
        .expect_stderr(&["COUNT"]);
    dbtime(&["iolat", "--operation", "rad"])
        .expect_code(2)
        .expect_stderr(&["rad", "read", "discard"]);
    dbtime(&["iolat", "-p", "0"])
        .expect_code(2)
        .expect_stderr(&["PID"]);
}

#[test]
fn a_disk_or_process_that_is_not_there_is_named() {
    needs_recording!();
    let Some(disk) = LoopDevice::new(1) else {
        return;
    };
    let outcome = dbtime(&["iolat", "1", "1", "--device", "no\u{1b}[2Jne"])
        .expect_code(1)
        .expect_stderr(&["no such block device", disk.name()]);
    assert!(!outcome.stderr.contains('\u{1b}'), "{outcome:?}");
    dbtime(&["iolat", "1", "1", "--device", "/dev/null"])
        .expect_code(1)
        .expect_stderr(&["/dev/null", "no such block device"]);
    dbtime(&["iolat", "1", "1", "-p", "4194304"])
        .expect_code(1)
        .expect_stderr(&["4194304", "no such process"]);
}

#[test]
fn without_privileges_or_type_information_that_is_named() {
    needs_recording!();
    let outcome = dbtime_as_nobody(&["iolat", "1", "1"])
        .expect_code(1)
        .expect_stderr(&["root", "CAP_BPF", "CAP_PERFMON"]);
    assert!(
        !outcome.stderr.contains("PTRACE"),
        "no process is looked at: {outcome:?}"
    );
    dbtime_after(NO_BTF, &["iolat", "1", "1"])
        .expect_code(1)
        .expect_stderr(&["/sys/kernel/btf/vmlinux", "BTF"]);
}

/// Shell for a host whose kernel has no such tracepoint: its type information names another one in its place.
fn without_tracepoint(name: &str, home: &Path) -> String {
    let mut types = fs::read("/sys/kernel/btf/vmlinux").expect("type information");
    let name = format!("btf_trace_{name}\0").into_bytes();
    let at = types
        .windows(name.len())
        .position(|window| window == name)
        .expect("the kernel has it");
    types[at] = b'x';
    let path = home.join("vmlinux");
    fs::write(&path, types).expect("a file of our own");
    format!("mount --bind {} /sys/kernel/btf/vmlinux", path.display())
}

#[test]
fn a_kernel_without_a_tracepoint_says_what_is_missing() {
    needs_recording!();
    let Some(disk) = LoopDevice::new(1) else {
        return;
    };
    let home = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
    for needed in ["block_rq_issue", "block_rq_complete"] {
        dbtime_after(&without_tracepoint(needed, home.path()), &["iolat", "1", "1"])
            .expect_code(1)
            .expect_stderr(&[needed]);
    }
    let pid = std::process::id().to_string();
    dbtime_after(
        &without_tracepoint("block_bio_queue", home.path()),
        &["iolat", "1", "1", "-p", &pid],
    )
    .expect_code(1)
    .expect_stderr(&["block_bio_queue"]);
    // The other tracepoints are extras: without one less is known, and the output says so.
    let arguments = ["iolat", "0.2", "1", "--queue", "--device", disk.name()];
    let outcome = dbtime_after(&without_tracepoint("block_rq_insert", home.path()), &arguments)
        .expect_code(3)
        .expect_stderr(&["block_rq_insert", "without the queue"]);
    assert!(outcome.stdout.contains("from issue until done"), "{outcome:?}");
}

#[test]
fn an_idle_disk_has_nothing_to_show() {
    needs_recording!();
    let Some(disk) = LoopDevice::new(1) else {
        return;
    };
    let begin = Instant::now();
    let outcome = dbtime(&["iolat", "0.5", "2", "--device", disk.name()])
        .expect_code(3)
        .expect_stderr(&["no block I/O was seen"]);
    assert!(begin.elapsed() >= Duration::from_secs(1), "two intervals");
    assert_eq!(outcome.stdout.matches("no requests").count(), 2, "{outcome:?}");
    assert!(!outcome.stdout.contains('\u{1b}'), "{outcome:?}");
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    needs_recording!();
    let mut child = Command::new(dbtime_binary())
        .args(["iolat", "0.1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command can be run");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe"))
        .read_line(&mut line)
        .expect("a line");
    assert!(line.contains("latency from issue until done"), "{line}");
    let give_up = Instant::now() + Duration::from_secs(10);
    while child.try_wait().expect("it is our child").is_none() && Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let output = child.wait_with_output().expect("it has ended");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_partition_is_no_disk() {
    needs_recording!();
    let Some(disk) = LoopDevice::new(4) else {
        return;
    };
    let added = Command::new("addpart")
        .arg(disk.path())
        .args(["1", "2048", "2048"])
        .status();
    assert!(
        added.is_ok_and(|status| status.success()),
        "a partition can be made"
    );
    let name = format!("{}p1", disk.name());
    dbtime(&["iolat", "1", "1", "--device", &name])
        .expect_code(1)
        .expect_stderr(&[&name, "a partition has no requests of its own", disk.name()]);
}
