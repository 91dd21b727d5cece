//! An Oracle SQL trace of any bytes: an error or rows, never a panic.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Bytes of no known format are an error: that is one of the two good ends.
    let stream = Box::new(Cursor::new(bytes.to_vec()));
    let _ = dbtime_import::Options::default().import_stream(stream, Path::new("fuzzed"), |_| Ok(()));
});
