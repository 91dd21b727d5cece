//! Folded stacks after twenty that show the format: all values that were understood are in the rows.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut file = b"a;b 1\n".repeat(20);
    file.extend_from_slice(bytes);
    let mut sum = 0u64;
    let stream = Box::new(Cursor::new(file));
    let imported = dbtime_import::Options::default().import_stream(stream, Path::new("fuzzed"), |rows| {
        sum = rows.activity.iter().fold(sum, |sum, row| sum.saturating_add(row.count));
        Ok(())
    });
    if imported.is_ok_and(|imported| imported.meta.collector.engine.contains("folded")) {
        assert!(sum >= 20);
    }
});
