//! What statements of PostgreSQL 18 wait for in their reads: the I/O worker that reads for them, against the server's own I/O times
//! and against reads without I/O workers.

use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options, page_cache};
use dbtime_model::State;
use dbtime_tests::{
    Part, Recorded, Recorder, Session, assert_between, assert_close, builds, causes, needs_recording, number,
    parts, sampling_error, say,
};

/// Samples per second and session.
const RATE_HZ: f64 = 99.0;
/// Scans of each table.
const SCANS: usize = 12;

/// A server with two tables that do not fit into its buffers.
fn server(io_method: &str) -> Option<Cluster> {
    let build = builds(&[18]).pop()?;
    let cluster = build.start(
        Options::default()
            .set("compute_query_id", "on")
            .set("track_io_timing", "on")
            .set("max_parallel_workers_per_gather", "0")
            .set("shared_buffers", "16MB")
            .set("io_method", io_method),
    );
    let mut session = Session::connect(&cluster);
    for table in ["one", "other"] {
        session.run(&format!(
            "CREATE TABLE {table} AS SELECT id, repeat('x', 900) AS filler FROM generate_series(1, 100000) id"
        ));
        session.run(&format!("VACUUM ANALYZE {table}"));
        session.run("CHECKPOINT");
    }
    Some(cluster)
}

/// Scans a table again and again; returns the seconds that the server says it waited for reads.
fn scan(session: &mut Session, table: &str) -> f64 {
    let mut read = 0.0;
    for _ in 0..SCANS {
        let plan = session.ask(&format!(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT count(filler) FROM {table}"
        ));
        let plan: serde_json::Value = serde_json::from_str(&plan).expect("a plan");
        read += number(&plan[0]["Plan"]["Shared I/O Read Time"]) / 1e3;
    }
    read
}

/// Seconds of a session in the waits of its reads.
fn in_reads(recorded: &Recorded, pid: u32) -> f64 {
    let report = recorded.json(&["--session", &pid.to_string()]);
    let rows = report["ledger"].as_array().expect("rows");
    let of_reads = rows
        .iter()
        .filter(|row| row["section"] == "db_time" && (row["wait_class"] == "IO"));
    of_reads.map(|row| number(&row["total_ns"]) / 1e9).sum()
}

fn seconds(parts: &[&Part], wanted: impl Fn(&Part) -> bool) -> f64 {
    parts
        .iter()
        .filter(|part| wanted(part))
        .map(|part| part.seconds)
        .sum()
}

/// Both statements at once, with the files in the page cache or out of it, in both tiers.
fn compare(cluster: &Cluster, is_cold: bool, waits_in: &str) -> Vec<Recorded> {
    let [mut one, mut other] = std::array::from_fn(|_| Session::connect(cluster));
    let files: Vec<_> = ["one", "other"]
        .iter()
        .flat_map(|table| cluster.relation_files(table).expect("it has files"))
        .collect();
    page_cache::warm(&files).expect("its own files");
    let recorders = [&[][..], &["--exact=calls"]].map(|tier| Recorder::server(cluster, tier));
    let keep_out = is_cold
        .then(|| page_cache::KeepOut::start(&files, Duration::from_millis(20)).expect("its own files"));
    let pids = [one.pid(), other.pid()];
    let begin = Instant::now();
    let read = std::thread::scope(|scope| {
        let of_one = scope.spawn(|| scan(&mut one, "one"));
        let of_other = scope.spawn(|| scan(&mut other, "other"));
        [of_one, of_other].map(|of| of.join().expect("it does not panic"))
    });
    let took = begin.elapsed().as_secs_f64();
    drop(keep_out);
    let of_tier = |recorder: Recorder| {
        let recorded = recorder.stop();
        for (pid, truth) in pids.into_iter().zip(read) {
            let found = in_reads(&recorded, pid);
            say(&format!(
                "{waits_in}, {}, {}: {found:.3} s in the waits of reads, {truth:.3} s by EXPLAIN ({:+.1} %)",
                if is_cold { "cold" } else { "warm" },
                recorded.meta.collector.tier,
                100.0 * (found / truth - 1.0)
            ));
            // The server times parts that are probably in no wait event (not tried): asking for a read, and, where it reads itself,
            // checking what was read (checksums). Bounds as measured.
            let beside = if is_cold { 0.08 } else { 0.35 };
            let error = if recorded.meta.collector.tier == "sampled" {
                sampling_error(truth, took, RATE_HZ)
            } else {
                0.0
            };
            let (least, most) = ((1.0 - beside) * truth - error, 1.03 * truth + error);
            assert_between("in reads, s", found, least, most, 0.0, 0.02 + recorded.stolen);
        }
        recorded
    };
    recorders.map(of_tier).into()
}

/// Workers push the statements off their CPUs for some ten microseconds, again and again: that is over before the sampler gets there, and
/// is no part of the waits before and after it.
fn assert_same_run_queue(both: &[Recorded]) {
    let of = |recorded: &Recorded, wait: Option<&str>| {
        let clients = recorded.clients();
        let ns = clients.iter().map(|session| session.ns(wait, &[State::Runnable]));
        ns.sum::<u64>() as f64 / 1e9
    };
    let [sampled, exact] =
        [&both[0], &both[1]].map(|recorded| (of(recorded, Some("CPU")), of(recorded, None)));
    say(&format!(
        "in the run queue, of that in no wait event: sampled {:.3} s, {:.3} s, exact {:.3} s, {:.3} s",
        sampled.1, sampled.0, exact.1, exact.0
    ));
    let error = sampling_error(exact.0, exact.1, RATE_HZ) + both[0].stolen;
    assert_close("in no wait event, s", sampled.0, exact.0, 0.1, error);
}

#[test]
fn a_statement_waits_for_the_io_worker_that_reads_for_it() {
    needs_recording!();
    let Some(cluster) = server("worker") else { return };
    for is_cold in [true, false] {
        let both = compare(&cluster, is_cold, "worker");
        if !is_cold {
            assert_same_run_queue(&both);
        }
        for recorded in both {
            let all = parts(&causes(&recorded));
            for table in ["one", "other"] {
                let of: Vec<&Part> = all
                    .iter()
                    .filter(|part| part.wait == "IO:AioIoCompletion" && part.text.ends_with(table))
                    .collect();
                let waited = seconds(&of, |_| true);
                let workers = seconds(&of, |part| {
                    part.backend_type == "io worker" && part.kind != "unknown"
                });
                let device = seconds(&of, |part| part.kind == "device");
                let unknown = seconds(&of, |part| part.kind == "unknown");
                say(&format!(
                    "{} {table}: {waited:.3} s blocked, {workers:.3} s of it I/O workers, on the device {device:.3} s; not known \
                     {unknown:.3} s",
                    recorded.meta.collector.tier
                ));
                assert!(waited > 0.05, "{all:#?}");
                // Of waits of some ten microseconds, as for pages in the page cache, more are over before they are looked at. For a sample
                // for which another wait stands in, it is not known who ended it.
                let least = match (is_cold, recorded.meta.collector.tier.as_str()) {
                    (true, "sampled") => 0.45,
                    (true, _) => 0.6,
                    (false, _) => 0.2,
                };
                assert!(workers > least * waited, "{of:#?}");
            }
        }
    }
}

#[test]
fn without_io_workers_a_statement_reads_itself() {
    needs_recording!();
    let Some(cluster) = server("sync") else { return };
    for recorded in compare(&cluster, true, "sync") {
        let all = parts(&causes(&recorded));
        let of: Vec<&Part> = all.iter().filter(|part| part.wait == "IO:DataFileRead").collect();
        let (waited, device) = (seconds(&of, |_| true), seconds(&of, |part| part.kind == "device"));
        say(&format!(
            "{}: {waited:.3} s blocked in reads, {device:.3} s on the device",
            recorded.meta.collector.tier
        ));
        assert!(device >= 0.97 * waited, "{of:#?}");
    }
    // Pages that are in the page cache are copied: nobody is blocked.
    compare(&cluster, false, "sync");
}
