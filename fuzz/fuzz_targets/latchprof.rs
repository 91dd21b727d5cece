//! Tables of LatchProfX: any bytes after well-formed headings and a row give an error or rows, never a panic.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;

/// Shows the format.
const BEGIN: &[u8] = b"\
       SID NAME       Held       Gets  Held %     Held ms Avg hold ms
---------- ---- ---------- ---------- ------- ----------- -----------
        12 a           500        100    5.00      15.500        .155
";

fuzz_target!(|bytes: &[u8]| {
    let file = [BEGIN, bytes].concat();
    // Bytes that look like another format may give an error of that one.
    let stream = Box::new(Cursor::new(file));
    let _ = dbtime_import::Options::default().import_stream(stream, Path::new("fuzzed"), |_| Ok(()));
});
