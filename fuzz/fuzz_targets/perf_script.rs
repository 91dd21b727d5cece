//! Output of perf script: any bytes after a well-formed beginning give an error or rows, never a panic.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;

/// Shows the format.
const BEGIN: &[u8] = b"a 1 2.5: 7 cpu-clock: \n\t 10 g (/bin/a)\n\n";

fuzz_target!(|bytes: &[u8]| {
    let file = [BEGIN, bytes].concat();
    // Bytes that look like another format may give an error of that one.
    let stream = Box::new(Cursor::new(file));
    let _ = dbtime_import::Options::default().import_stream(stream, Path::new("fuzzed"), |_| Ok(()));
});
