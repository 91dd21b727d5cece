//! Ftrace text, functions and tracepoints: any bytes after a well-formed beginning give an error or rows, never a panic.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;

/// Shows the format; the first byte of the input selects one of the two.
const BEGINS: [&[u8]; 2] = [
    b"# tracer: function_graph\n   20.949637 |   1)     tb-143     |               |  __x64_sys_nanosleep() {\n",
    b"# tracer: nop\n  tb-9 [001] .....  3.061349: sys_enter: NR 17 (3, 7f, 2000, 0, 0, 0)\n",
];

fuzz_target!(|bytes: &[u8]| {
    let which = usize::from(bytes.first().is_some_and(|byte| byte % 2 == 1));
    let file = [BEGINS[which], bytes].concat();
    let stream = Box::new(Cursor::new(file));
    let _ = dbtime_import::Options::default().import_stream(stream, Path::new("fuzzed"), |_| Ok(()));
});
