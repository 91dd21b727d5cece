//! What leaders of parallel queries wait for: what their workers do, against the kernel's accounting of the workers and the
//! server's own I/O times.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dbtime::throwaway::{Cluster, Options, page_cache};
use dbtime_tests::{
    Part, Recorder, SchedStat, Session, assert_close, builds, causes, children, distribution,
    needs_recording, parts, sampling_error, say, schedstat,
};

/// Samples per second and session.
const RATE_HZ: f64 = 99.0;
/// Two workers, and a leader that does nothing itself.
const PARALLEL: &str = "SET parallel_leader_participation = off; SET max_parallel_workers_per_gather = 2;
    SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET jit = off";

/// What the workers of a leader did, each moment divided equally among those that lived: seconds by pid, and of all of them.
#[derive(Debug, Default, Clone)]
struct Workers {
    by_pid: BTreeMap<u32, f64>,
    on_cpu: f64,
    queued: f64,
}

/// Watches all parallel workers of a server until it is told to stop. By leader.
fn watch(cluster: &Cluster, stop: &AtomicBool) -> BTreeMap<u32, Workers> {
    let mut found: BTreeMap<u32, Workers> = BTreeMap::new();
    let mut leaders: BTreeMap<u32, u32> = BTreeMap::new();
    let mut last: BTreeMap<u32, SchedStat> = BTreeMap::new();
    let mut looked = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let passed = looked.elapsed().as_secs_f64();
        looked = Instant::now();
        let mut now: BTreeMap<u32, SchedStat> = BTreeMap::new();
        for pid in children(cluster.postmaster_pid()) {
            if let Entry::Vacant(unknown) = leaders.entry(pid) {
                let title = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let leader = title.split_once("parallel worker for PID ").map(|(_, pid)| pid);
                if let Some(leader) = leader.and_then(|leader| leader.split([' ', '\0']).next()?.parse().ok())
                {
                    unknown.insert(leader);
                }
            }
            if let (true, Some(stat)) = (leaders.contains_key(&pid), schedstat(pid)) {
                now.insert(pid, stat);
            }
        }
        for (pid, stat) in &now {
            let Some(before) = last.get(pid) else { continue };
            let together = now.keys().filter(|other| leaders[other] == leaders[pid]).count() as f64;
            let workers = found.entry(leaders[pid]).or_default();
            *workers.by_pid.entry(*pid).or_default() += passed / together;
            workers.on_cpu += (stat.on_cpu - before.on_cpu).as_secs_f64() / together;
            workers.queued += (stat.run_delay - before.run_delay).as_secs_f64() / together;
        }
        last = now;
        std::thread::sleep(Duration::from_millis(5));
    }
    found
}

fn seconds(parts: &[&Part], wanted: impl Fn(&Part) -> bool) -> f64 {
    parts
        .iter()
        .filter(|part| wanted(part))
        .map(|part| part.seconds)
        .sum()
}

#[test]
fn a_leader_waits_for_what_its_own_workers_do() {
    needs_recording!();
    let mut servers = builds(&[18]);
    servers.push(distribution());
    for server in servers {
        let cluster = server.start(Options::default().set("compute_query_id", "on"));
        let [mut one, mut other] = std::array::from_fn(|_| Session::connect(&cluster));
        one.run(
            "CREATE FUNCTION work(n int) RETURNS float LANGUAGE plpgsql PARALLEL SAFE AS $$
               DECLARE x float := n; BEGIN FOR i IN 1..n LOOP x := x + sqrt(i); END LOOP; RETURN x; END $$;
             CREATE TABLE t AS SELECT id, repeat('x', 900) AS filler FROM generate_series(1, 4000) id;
             ANALYZE t",
        );
        one.run(PARALLEL);
        other.run(PARALLEL);
        let recorders = [&[][..], &["--exact=calls"]].map(|tier| Recorder::server(&cluster, tier));
        let stop = AtomicBool::new(false);
        let truth = std::thread::scope(|scope| {
            let watched = scope.spawn(|| watch(&cluster, &stop));
            // Two queries at once, of which each has two workers.
            std::thread::scope(|scope| {
                scope.spawn(|| one.run("SELECT count(work(5000)) FROM t"));
                scope.spawn(|| other.run("SELECT sum(work(5000)) FROM t"));
            });
            std::thread::sleep(Duration::from_millis(50));
            stop.store(true, Ordering::Relaxed);
            watched.join().expect("it does not panic")
        });
        for recorder in recorders {
            let recorded = recorder.stop();
            let all = parts(&causes(&recorded));
            for (leader, text) in [(one.pid(), "SELECT count"), (other.pid(), "SELECT sum")] {
                let workers = &truth[&leader];
                let of: Vec<&Part> = all
                    .iter()
                    .filter(|part| part.wait.starts_with("IPC:") && part.text.starts_with(text))
                    .collect();
                let waited = seconds(&of, |_| true);
                let own = seconds(&of, |part| workers.by_pid.contains_key(&part.pid));
                let queued = seconds(&of, |part| part.state == "runnable");
                let lived: f64 = workers.by_pid.values().sum();
                say(&format!(
                    "{}, {}: waited {waited:.3} s, {own:.3} s of it for its own workers ({lived:.3} s by /proc), {queued:.3} s of it \
                     in run queues ({:.3} s)",
                    recorded.meta.database.version, recorded.meta.collector.tier, workers.queued
                ));
                assert_eq!(workers.by_pid.len(), 2, "{text}: {workers:?}");
                // /proc is read every 5 ms, by a thread that waits for a CPU as the workers do.
                assert_close("waited, s", waited, lived, 0.02, 0.05 + recorded.stolen);
                // What is missing is the time in which they begin and end: some periods of the sampler.
                assert_close("for its own workers, s", own, waited, 0.0, 0.02 * waited + 0.05);
                for (&pid, &seconds_of_worker) in &workers.by_pid {
                    let found = seconds(&of, |part| part.pid == pid);
                    let error = sampling_error(seconds_of_worker, waited, RATE_HZ);
                    assert_close(
                        "of a worker, s",
                        found,
                        seconds_of_worker,
                        0.0,
                        error + 0.05 + recorded.stolen,
                    );
                }
                let error = sampling_error(workers.queued, waited, RATE_HZ);
                assert_close(
                    "in run queues, s",
                    queued,
                    workers.queued,
                    0.0,
                    error + 0.05 + recorded.stolen,
                );
                let on_cpu = seconds(&of, |part| {
                    ["cpu", "user", "kernel"].contains(&part.state.as_str())
                });
                assert_close(
                    "on CPUs, s",
                    on_cpu,
                    workers.on_cpu,
                    0.0,
                    error + 0.05 + recorded.stolen,
                );
            }
        }
    }
}

#[test]
fn a_leader_waits_for_the_device_that_its_workers_read_from() {
    needs_recording!();
    let cluster = distribution().start(
        Options::default()
            .set("compute_query_id", "on")
            .set("track_io_timing", "on")
            .set("shared_buffers", "16MB"),
    );
    let mut session = Session::connect(&cluster);
    session.run("CREATE TABLE t AS SELECT id, repeat('x', 900) AS filler FROM generate_series(1, 200000) id");
    session.run("VACUUM ANALYZE t");
    session.run("CHECKPOINT");
    session.run(PARALLEL);
    let files = cluster.relation_files("t").expect("it has files");
    let recorder = Recorder::server(&cluster, &[]);
    let mut read = 0.0;
    let keep_out = page_cache::KeepOut::start(&files, Duration::from_millis(20)).expect("its own files");
    for _ in 0..5 {
        let plan = session.ask("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT count(filler) FROM t");
        let plan: serde_json::Value = serde_json::from_str(&plan).expect("a plan");
        // Of both workers.
        let of = &plan[0]["Plan"];
        let ms = of["Shared I/O Read Time"]
            .as_f64()
            .or_else(|| of["I/O Read Time"].as_f64());
        read += ms.expect("it is timed") / 1e3 / 2.0;
    }
    drop(keep_out);
    let recorded = recorder.stop();
    let all = parts(&causes(&recorded));
    let of: Vec<&Part> = all
        .iter()
        .filter(|part| part.wait == "IPC:ExecuteGather")
        .collect();
    let waited = seconds(&of, |_| true);
    let reading = seconds(&of, |part| part.root_wait == "IO:DataFileRead");
    let device = seconds(&of, |part| part.kind == "device");
    say(&format!(
        "waited {waited:.3} s, workers in reads {reading:.3} s ({read:.3} s by the server), {device:.3} s of it on the device"
    ));
    let error = sampling_error(read, waited, RATE_HZ);
    assert_close("in reads, s", reading, read, 0.0, error + 0.1 + recorded.stolen);
    assert!(
        device > 0.0 && of.iter().all(|part| part.kind != "device" || part.pid != 0),
        "{of:#?}"
    );
}
