//! Lines and summaries of perf trace: any bytes after a well-formed beginning give an error or rows, never a panic.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;

/// Shows the format.
const BEGIN: &[u8] = b" 0.864 ( 0.005 ms): tb/1 brk(brk: 0xa3)  = 0xa3\n Summary of events:\n\n tb (1), 10 events, 99.6%\n\n";

fuzz_target!(|bytes: &[u8]| {
    let file = [BEGIN, bytes].concat();
    // Bytes that look like another format may give an error of that one.
    let stream = Box::new(Cursor::new(file));
    let _ = dbtime_import::Options::default().import_stream(stream, Path::new("fuzzed"), |_| Ok(()));
});
