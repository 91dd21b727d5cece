//! Scheduler tracepoints as perf script prints them: any bytes after a well-formed beginning give an error or rows, never a panic.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;

/// Shows the format.
const BEGIN: &[u8] =
    b" a 1 [000] 2.5: sched:sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120\n";

fuzz_target!(|bytes: &[u8]| {
    let file = [BEGIN, bytes].concat();
    // Bytes that look like another format may give an error of that one.
    let stream = Box::new(Cursor::new(file));
    let _ = dbtime_import::Options::default().import_stream(stream, Path::new("fuzzed"), |_| Ok(()));
});
