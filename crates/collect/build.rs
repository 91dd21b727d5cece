//! Compiles the BPF programs and writes their skeletons.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use libbpf_cargo::SkeletonBuilder;

/// Objects to build: `bpf/NAME.bpf.c` becomes `NAME.skel.rs`.
const OBJECTS: [&str; 8] = [
    "recorder",
    "block",
    "oracle",
    "call_waits",
    "call_samples",
    "call_functions",
    "sched",
    "lwlocks",
];

fn main() {
    // Read at run time: in a target directory that was copied or moved, a compiled-in path would name the sources of the old place.
    let package = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let bpf = Path::new(&package).join("../../bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    let vmlinux = bpf.join(&arch);
    assert!(
        vmlinux.is_dir(),
        "dbtime has no kernel types for {arch}: make {}/vmlinux.h with bpftool",
        vmlinux.display()
    );
    println!("cargo:rerun-if-env-changed=CLANG");
    for entry in fs::read_dir(&bpf).expect("the folder bpf/ is part of the project") {
        println!(
            "cargo:rerun-if-changed={}",
            entry.expect("readable").path().display()
        );
    }
    // The unwinder for the unit tests, which link it by name: nothing else is linked with it.
    cc::Build::new()
        .file(bpf.join("unwind_in_user_space.c"))
        .warnings_into_errors(true)
        .flag("-Wno-unused-parameter")
        .cargo_metadata(false)
        .compile("unwind_in_user_space");
    println!("cargo:rustc-link-search=native={}", out.display());
    // The BPF programs and dbtime itself compute the same fingerprints of texts.
    cc::Build::new()
        .file(bpf.join("fingerprint_in_user_space.c"))
        .opt_level(2)
        .warnings_into_errors(true)
        .compile("fingerprint_in_user_space");
    let clang = clang();
    for object in OBJECTS {
        SkeletonBuilder::new()
            .source(bpf.join(format!("{object}.bpf.c")))
            .clang(&clang)
            .clang_args([
                OsString::from("-I"),
                vmlinux.clone().into_os_string(),
                // Atomic exchange: Linux 5.12.
                OsString::from("-mcpu=v3"),
                OsString::from("-Wall"),
                OsString::from("-Werror"),
            ])
            .build_and_generate(out.join(format!("{object}.skel.rs")))
            .unwrap_or_else(|e| panic!("{object}.bpf.c with {clang}: {e:#}"));
    }
}

/// The compiler: `$CLANG`, or the newest of 16 to 21 that is installed. clang 14 (Debian 12's default) emits signed divisions, which the
/// verifier's instruction set lacks.
fn clang() -> String {
    if let Ok(clang) = env::var("CLANG") {
        return clang;
    }
    (16..=21)
        .rev()
        .map(|version| format!("clang-{version}"))
        .chain(["clang".to_string()])
        .find(|name| {
            Command::new(name)
                .arg("--version")
                .output()
                .is_ok_and(|o| o.status.success())
        })
        .unwrap_or_else(|| panic!("no clang found: run 'make deps', or set CLANG"))
}
