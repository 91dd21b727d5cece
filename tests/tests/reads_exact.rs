//! Where the data of a read came from, against what mincore says of the page cache and what the kernel counted.

use std::time::Duration;

use dbtime::throwaway::{Cluster, Options, page_cache};
use dbtime_tests::{
    BLOCK_BYTES, Latencies, Recorder, Session, SessionTime, TableOfBlocks, assert_between, assert_seen,
    distribution, io, needs_recording, say,
};

/// Blocks of the table, fifty times the shared buffers.
const BLOCKS: u64 = 6400;
/// Single blocks that a run reads.
const READS: u64 = 1600;

fn cluster() -> Cluster {
    let options = Options::default()
        .set("shared_buffers", "1MB")
        .set("autovacuum", "off")
        .set("max_parallel_workers_per_gather", "0");
    distribution().start(options)
}

/// What one session did, by the recording and by the kernel.
struct Run {
    session: SessionTime,
    read_bytes: u64,
    /// Pages of the table that came into the kernel's page cache.
    pages_read: usize,
    /// Requests that the kernel put together with others meanwhile, of all sessions.
    merged: u64,
}

/// Reads that the kernel has put together with others on any disk (Documentation/admin-guide/iostats.rst).
fn merged_reads() -> u64 {
    let disks = std::fs::read_to_string("/proc/diskstats").expect("/proc is mounted");
    let merged = disks
        .lines()
        .filter_map(|disk| disk.split_ascii_whitespace().nth(4)?.parse::<u64>().ok());
    merged.sum()
}

/// Records sessions, each with its statement, on a table that is all in the page cache or all out of it.
fn record(cluster: &Cluster, table: &TableOfBlocks, cold: bool, statements: &[String]) -> Vec<Run> {
    let mut sessions: Vec<Session> = statements.iter().map(|_| Session::connect(cluster)).collect();
    for session in &mut sessions {
        session.run("SET effective_io_concurrency = 0; SELECT FROM wide LIMIT 0");
    }
    let recorder = Recorder::server(cluster, &["--exact=calls"]);
    // Accounts of idle sessions begin with the sampler's first pass.
    std::thread::sleep(Duration::from_millis(100));
    if cold {
        page_cache::evict(&table.files).expect("its own files");
    } else {
        page_cache::warm(&table.files).expect("its own files");
    }
    let counted: Vec<u64> = sessions
        .iter()
        .map(|session| io(session.pid()).read_bytes)
        .collect();
    let before = page_cache::residency(&table.files).expect("its own files");
    let merged = merged_reads();
    std::thread::scope(|scope| {
        for (session, statement) in sessions.iter_mut().zip(statements) {
            scope.spawn(|| session.run(statement));
        }
    });
    let after = page_cache::residency(&table.files).expect("its own files");
    sessions.iter().for_each(Session::wait_until_idle);
    let merged = merged_reads() - merged;
    let counted: Vec<u64> = sessions
        .iter()
        .zip(counted)
        .map(|(session, before)| io(session.pid()).read_bytes - before)
        .collect();
    let recorded = recorder.stop();
    let wanted = if cold { 0 } else { before.total };
    assert_eq!(
        before.resident, wanted,
        "{before:?}: the table was to be cold {cold}"
    );
    assert!(
        after.resident >= before.resident,
        "pages went while they were read: {before:?}, {after:?}"
    );
    let runs = sessions.iter().zip(counted).map(|(session, read_bytes)| Run {
        session: recorded.session(session.pid()),
        read_bytes,
        pages_read: after.resident - before.resident,
        merged,
    });
    runs.collect()
}

impl Run {
    /// Events of the table's file: the system's own tables are read too.
    fn of(&self, kind: &str, table: &TableOfBlocks) -> Latencies {
        self.session
            .latencies
            .kind(kind)
            .only(|row| *row.file == *table.file)
    }

    fn from(&self, source: &str, table: &TableOfBlocks) -> Latencies {
        self.of("read", table).only(|row| *row.source == *source)
    }

    fn text(&self) -> String {
        let kinds = [
            "read",
            "read_cpu",
            "read_queue",
            "read_device",
            "block",
            "block_queue",
        ];
        let events = self.session.latencies.only(|row| kinds.contains(&&*row.kind));
        events.by(|row| {
            format!(
                "{} '{}' {} {} {}",
                row.kind, row.source, row.device, row.file, row.bytes
            )
        })
    }
}

#[test]
fn single_blocks_come_from_the_page_cache_when_warm_and_from_the_device_when_cold() {
    needs_recording!();
    let cluster = cluster();
    let table = TableOfBlocks::create(&cluster, "wide", BLOCKS);
    let statement = [table.read_singly(READS)];

    let warm = record(&cluster, &table, false, &statement).remove(0);
    let text = warm.text();
    assert_eq!(warm.of("read", &table).count(), READS, "{}\n{text}", table.file);
    assert_eq!(warm.from("page cache", &table).count(), READS, "\n{text}");
    assert_eq!(warm.of("read", &table).bytes(), READS * BLOCK_BYTES);
    // A page of a library or of a directory that had left the page cache may be read meanwhile; nothing of the table is.
    let blocks = warm.session.latencies.kind("block");
    assert_eq!(blocks.bytes(), warm.read_bytes, "\n{text}");

    let cold = record(&cluster, &table, true, &statement).remove(0);
    let text = cold.text();
    for kind in ["read", "read_cpu", "read_queue", "read_device"] {
        let from_device = cold.of(kind, &table).only(|row| *row.source == *"device");
        say(&format!(
            "{} × {kind}, {} ns",
            from_device.count(),
            from_device.sum_ns()
        ));
    }
    say(&text);
    // The kernel may take a page out of the cache again before it is looked at.
    let read = cold.pages_read as u64 * 4096;
    assert!(
        read <= READS * BLOCK_BYTES && read * 1000 >= READS * BLOCK_BYTES * 995,
        "the kernel read what was asked for, nothing ahead: {read}"
    );
    let (reads, device) = (cold.of("read", &table), cold.from("device", &table));
    assert_eq!(reads.count(), READS, "{}\n{text}", table.file);
    // A request that was done before its read went to sleep differs from reading ahead only by its time.
    let quick = cold.from("readahead", &table);
    assert_eq!(device.count() + quick.count(), READS, "\n{text}");
    assert!(quick.count() * 1000 <= READS, "\n{text}");

    // One request at a time, so a read's part on the device is the request itself.
    let block = cold.session.latencies.kind("block").name("read");
    // Whatever else the kernel read for the session meanwhile (a page of a program that had left the page cache) is a page
    // at least.
    let others = cold.read_bytes.saturating_sub(READS * BLOCK_BYTES) / 4096;
    assert!(
        block.count() <= READS + others,
        "{} requests\n{text}",
        block.count()
    );
    assert_seen("one request for each read", block.count().min(READS), READS, 1);
    assert_seen("bytes of requests", block.bytes(), cold.read_bytes, BLOCK_BYTES);
    let (queue, on_device) = (cold.of("read_queue", &table), cold.of("read_device", &table));
    assert_eq!(queue.count(), on_device.count(), "\n{text}");
    assert_seen(
        "reads of which the parts are known",
        queue.count(),
        device.count(),
        1,
    );
    assert!(
        queue.sum_ns() + on_device.sum_ns() <= device.sum_ns(),
        "the parts are more than the reads\n{text}"
    );
    let beside = block.count().saturating_sub(on_device.count() + quick.count());
    let slowest = block.0.iter().map(|row| row.to_ns).max().unwrap_or_default();
    assert_between(
        "time of requests of which no read slept, ns",
        block.sum_ns() as f64 - on_device.sum_ns() as f64,
        0.0,
        (quick.sum_ns() + beside * slowest) as f64,
        0.0,
        block.count() as f64,
    );
    let parts: u64 = [&queue, &on_device].map(Latencies::sum_ns).iter().sum();
    let cpu = cold.of("read_cpu", &table).only(|row| *row.source == *"device");
    assert_eq!(cpu.count(), device.count());
    assert!(
        cpu.sum_ns() < device.sum_ns() && parts + cpu.sum_ns() > device.sum_ns() / 2,
        "CPU, queue and device do not explain the reads\n{text}"
    );
}

/// Bytes that the kernel reads ahead at once at most, as devices are set by default, doubled.
const LARGEST_REQUEST: u64 = 1 << 20;

#[test]
fn what_the_kernel_reads_ahead_for_one_session_another_waits_for() {
    needs_recording!();
    let cluster = cluster();
    let table = TableOfBlocks::create(&cluster, "wide", BLOCKS);
    let halves = [table.read_every_second(0), table.read_every_second(1)];
    let runs = record(&cluster, &table, true, &halves);
    let (mut waited, mut requested, mut counted) = (0, 0, 0);
    for run in &runs {
        let text = run.text();
        for source in ["device", "readahead", "other task", "page cache"] {
            let reads = run.from(source, &table);
            say(&format!("{:>6} × {source}, {} ns", reads.count(), reads.sum_ns()));
        }
        say(&format!("{} requests were merged", run.merged));
        assert_eq!(run.of("read", &table).count(), BLOCKS / 2 - 1, "\n{text}");
        let block = run.session.latencies.kind("block").name("read");
        requested += block.bytes();
        counted += run.read_bytes;
        let sent = run.from("device", &table).count() + run.from("readahead", &table).count();
        // What was merged with an earlier one is no request of its own.
        if block.count() < sent {
            assert_seen(
                "requests of reads that sent some",
                block.count(),
                sent,
                1 + run.merged,
            );
        }
        assert!((sent == 0) == (run.read_bytes == 0), "\n{text}");
        waited += run.from("other task", &table).count();
    }
    // A request belongs to the session of its first part, even if the kernel merges it with the other's.
    assert_seen(
        "bytes asked of devices by both",
        requested,
        counted,
        LARGEST_REQUEST,
    );
    assert!(waited > 0, "nobody waited for what the other had asked for");
}
