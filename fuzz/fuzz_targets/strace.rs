//! Lines and summaries of strace: any bytes after a well-formed beginning give an error or rows, never a panic.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;

/// Shows the format.
const BEGIN: &[u8] = b"read(3, \"\", 1) = 0 <0.000007>\n% time     seconds  usecs/call     calls    errors syscall\n  1.00    0.000003           3         1           read\n100.00    0.000003           3         1           total\n";

fuzz_target!(|bytes: &[u8]| {
    let file = [BEGIN, bytes].concat();
    // Bytes that look like another format may give an error of that one.
    let stream = Box::new(Cursor::new(file));
    let _ = dbtime_import::Options::default().import_stream(stream, Path::new("fuzzed"), |_| Ok(()));
});
