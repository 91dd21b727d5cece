//! A PostgreSQL whose sessions keep their query ids at another offset than usual.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::build_id;
use crate::{DebugFile, Programs, Server, run};

/// Offset of `st_query_id` in the status entries of PostgreSQL 16, as instructions encode it.
const USUAL: [u8; 4] = 424_u32.to_le_bytes();
/// Offset of a command's last progress parameter (`st_progress_param`): no command of 16 uses that many.
const MOVED: [u8; 4] = 416_u32.to_le_bytes();
/// The functions that read or write it, and how many instructions of each do.
const FUNCTIONS: [(&str, usize); 4] = [
    ("pgstat_report_activity", 2),
    ("pgstat_report_query_id", 2),
    ("pgstat_get_my_query_id", 1),
    ("pg_stat_get_activity", 1),
];

/// A copy of a build of PostgreSQL 16 whose machine code was patched to use the other offset. It works like any other server; it has no
/// debug information, and a build id of its own.
#[derive(Debug)]
pub struct Moved {
    /// The build.
    pub server: Server,
    postgres: PathBuf,
}

impl Moved {
    /// Makes one from this build.
    ///
    /// # Panics
    /// When its code is not as it was compiled for the tests.
    #[track_caller]
    pub fn of(build: &Server) -> Moved {
        let server = build.copy("PostgreSQL 16 with its query ids elsewhere");
        let postgres = server.program("postgres");
        let mut bytes = fs::read(&postgres).expect("the copy can be read");
        for (function, count) in FUNCTIONS {
            assert_eq!(
                move_in(&mut bytes, place_of(&postgres, function)),
                count,
                "{function} of {}",
                build.name
            );
        }
        let id = digits(&build_id(&postgres));
        let at = bytes.windows(id.len()).position(|window| window == id);
        let at = at.expect("the build id stands in the file");
        for byte in &mut bytes[at..at + id.len()] {
            *byte = !*byte;
        }
        fs::write(&postgres, bytes).expect("the copy is ours");
        Moved { server, postgres }
    }

    /// Installs a debug file for it, which says where the ids are.
    ///
    /// # Panics
    /// When the compiler refuses it, or the folder of debug files cannot be written.
    #[track_caller]
    pub fn install_debug_file(&self) -> DebugFile {
        let programs = Programs::default();
        let id = format!("-Wl,--build-id=0x{}", build_id(&self.postgres));
        let arguments = ["-g", "-shared", "-fPIC", "-nostdlib", &id];
        let described = programs.compile("cc", "status_entry.c", "status_entry", &arguments);
        programs.move_debug_file(&described)
    }
}

/// Where a function's code is in the file: in the first segment, addresses are file offsets.
#[track_caller]
fn place_of(program: &Path, function: &str) -> std::ops::Range<usize> {
    let symbols = run(Command::new("nm")
        .args(["--dynamic", "--print-size"])
        .arg(program));
    let line = symbols.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields[..] {
            [address, size, _, name] if name == function => Some((address.to_string(), size.to_string())),
            _ => None,
        }
    });
    let (address, size) = line.unwrap_or_else(|| panic!("{function} is exported"));
    let [address, size] =
        [address, size].map(|number| usize::from_str_radix(&number, 16).expect("a hexadecimal number"));
    address..address + size
}

/// Makes the instructions of a function use the other offset; returns how many there were. The same offset from the stack pointer is
/// something else: the byte before it says which register it is relative to (ModRM).
fn move_in(bytes: &mut [u8], function: std::ops::Range<usize>) -> usize {
    let code = &mut bytes[function];
    let places: Vec<usize> = code
        .windows(5)
        .enumerate()
        .filter(|(_, window)| window[1..] == USUAL && window[0] & 0xc0 == 0x80 && window[0] & 7 != 4)
        .map(|(at, _)| at + 1)
        .collect();
    for &at in &places {
        code[at..at + 4].copy_from_slice(&MOVED);
    }
    places.len()
}

fn digits(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            let pair = str::from_utf8(pair).expect("digits");
            u8::from_str_radix(pair, 16).expect("digits")
        })
        .collect()
}
