//! Tables of Snapper: any bytes after a well-formed heading give an error or rows, never a panic.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;

/// Shows the format.
const BEGIN: &[u8] = b"SID, USERNAME, TYPE, STATISTIC, DELTA, NUM_WAITS\n1, A, WAIT, b, 3, 4\n";

fuzz_target!(|bytes: &[u8]| {
    let file = [BEGIN, bytes].concat();
    // Bytes that look like another format may give an error of that one.
    let stream = Box::new(Cursor::new(file));
    let _ = dbtime_import::Options::default().import_stream(stream, Path::new("fuzzed"), |_| Ok(()));
});
