//! The kernel's own trace of a disk's requests, added up independently of BPF.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::LoopDevice;

const EVENTS: [&str; 2] = ["block_rq_issue", "block_rq_complete"];

/// An instance of the kernel's tracer, for one disk; removed when dropped.
#[derive(Debug)]
pub struct BlockTrace {
    mount: TempDir,
    instance: PathBuf,
}

impl BlockTrace {
    /// Begins to trace.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn start(disk: &LoopDevice) -> BlockTrace {
        let mount = TempDir::with_prefix("dbtime-test-").expect("a temporary directory");
        let mounted = Command::new("mount")
            .args(["-t", "tracefs", "dbtime-test"])
            .arg(mount.path())
            .status();
        assert!(
            mounted.is_ok_and(|status| status.success()),
            "tracefs can be mounted"
        );
        let instance = mount
            .path()
            .join(format!("instances/dbtime-test-{}", std::process::id()));
        let trace = BlockTrace { mount, instance };
        fs::create_dir(&trace.instance).expect("an instance of the tracer");
        trace.write("buffer_size_kb", "16384");
        trace.write("trace_clock", "mono");
        for event in EVENTS {
            trace.write(
                &format!("events/block/{event}/filter"),
                &format!("dev == {}", disk.number()),
            );
            trace.write(&format!("events/block/{event}/enable"), "1");
        }
        trace
    }

    /// Latencies from issue to completion in nanoseconds, in ascending order.
    ///
    /// # Panics
    /// When events were lost, or cannot be understood.
    pub fn stop(self) -> Vec<u64> {
        for event in EVENTS {
            self.write(&format!("events/block/{event}/enable"), "0");
        }
        let text = fs::read_to_string(self.instance.join("trace")).expect("a trace");
        let written = text
            .lines()
            .find(|line| line.contains("entries-in-buffer/entries-written"));
        let numbers = written.and_then(|line| {
            line.split_ascii_whitespace()
                .find_map(|word| word.split_once('/').filter(|(a, _)| a.parse::<u64>().is_ok()))
        });
        assert!(
            numbers.is_some_and(|(kept, written)| kept == written),
            "{written:?}"
        );
        let mut issued = HashMap::new();
        let mut latencies = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            // `fio-123 [000] ..... 1234.567890: block_rq_issue: 7,0 R 4096 () 128 + 8 be,0,4 [fio]`
            let Some(event) = EVENTS.iter().find(|event| line.contains(&format!(" {event}: "))) else {
                continue;
            };
            let (before, after) = line.split_once(&format!(": {event}: ")).expect("an event");
            let time = before.split_ascii_whitespace().next_back().expect("a time");
            let (seconds, micros) = time.split_once('.').expect("microseconds");
            let ns =
                (seconds.parse::<u64>().expect("s") * 1_000_000 + micros.parse::<u64>().expect("µs")) * 1_000;
            let (_, place) = after.split_once(") ").expect("a command");
            let sector = place.split_once(" + ").expect("a sector").0.to_string();
            if *event == EVENTS[0] {
                issued.insert(sector, ns);
            } else if let Some(begin) = issued.remove(&sector) {
                latencies.push(ns - begin);
            }
        }
        latencies.sort_unstable();
        latencies
    }

    fn write(&self, file: &str, value: &str) {
        let path = self.instance.join(file);
        fs::write(&path, value).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

impl Drop for BlockTrace {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.instance);
        let _ = Command::new("umount").arg(self.mount.path()).status();
    }
}
