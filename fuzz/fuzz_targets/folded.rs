//! Folded stacks behind twenty that show the format: all values that were understood are in the rows.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut file = b"a;b 1\n".repeat(20);
    file.extend_from_slice(bytes);
    let Ok(imported) = dbtime_import::import_stream(Box::new(Cursor::new(file)), Path::new("fuzzed")) else {
        return;
    };
    if imported.meta.collector.engine.contains("folded") {
        let sum = imported.rows.activity.iter().fold(0u64, |sum, row| sum.saturating_add(row.count));
        assert!(sum >= 20);
    }
});
