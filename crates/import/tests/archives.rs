//! Files inside .zip archives: the same as unpacked; damage and malice cost no more than the archive.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice::from_ref;

use crate::whole::{Whole, of_files};
use dbtime_import::ImportError;
use dbtime_model::Rows;
use proptest::prelude::*;
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn contents(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).expect("a fixture")
}

/// An archive of these files.
fn packed(files: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        let options = SimpleFileOptions::default().compression_method(method);
        zip.start_file(*name, options).expect("memory");
        zip.write_all(bytes).expect("memory");
    }
    zip.finish().expect("memory").into_inner()
}

/// A file with these bytes in a folder that goes with it.
fn written(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("traces.bin");
    std::fs::write(&path, bytes).expect("room");
    (folder, path)
}

fn import(bytes: &[u8]) -> Result<Whole, ImportError> {
    let (_folder, path) = written(bytes);
    of_files(&[path])
}

/// Nanoseconds and events of activity, whatever the session is called: in traces without its number, it has the name of the file.
fn activity(rows: &Rows) -> BTreeMap<(i64, u64, String), (u64, u64)> {
    let mut sums = BTreeMap::new();
    for row in &rows.activity {
        let key = (row.time, row.statement, row.wait_event.to_string());
        let sum: &mut (u64, u64) = sums.entry(key).or_default();
        *sum = (sum.0 + row.ns, sum.1 + row.count);
    }
    sums
}

fn same(found: &Whole, expected: &Whole) {
    assert!(!expected.rows.activity.is_empty());
    assert_eq!(activity(&found.rows), activity(&expected.rows));
    assert_eq!(found.rows.statements, expected.rows.statements);
    assert_eq!(found.rows.sessions.len(), expected.rows.sessions.len());
    assert_eq!(
        found.problems.len(),
        expected.problems.len(),
        "{:?}",
        found.problems
    );
    let facts = |whole: &Whole| -> Vec<_> {
        let files = whole.meta.files.iter();
        files
            .map(|file| (file.lines, file.unknown_lines, file.sql_trace.clone()))
            .collect()
    };
    assert_eq!(facts(found), facts(expected));
}

#[test]
fn files_in_an_archive_are_those_files() {
    let names = ["two_sessions.trc", "statements.trc", "release_8.trc"];
    let plain = of_files(&names.map(fixture)).expect("rows");
    let texts = names.map(|name| (name, contents(name)));
    let files = texts.each_ref().map(|(name, text)| (*name, &text[..]));
    for method in [CompressionMethod::Deflated, CompressionMethod::Stored] {
        same(&import(&packed(&files, method)).expect("rows"), &plain);
    }
    // Compressed again inside, in a folder, next to a folder and next to what is not a trace.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&texts[0].1).expect("memory");
    let gzip = gzip.finish().expect("memory");
    let nested = [
        ("trace/", &b""[..]),
        ("trace/two_sessions.trc.gz", &gzip),
        ("trace/../../statements.trc", &texts[1].1),
        ("/release_8.trc", &texts[2].1),
        ("README", b"how this came to be\n"),
    ];
    let (_folder, path) = written(&packed(&nested, CompressionMethod::Deflated));
    let mut found = of_files(from_ref(&path)).expect("rows");
    let told = found
        .problems
        .iter()
        .position(|problem| problem.contains("traces.bin/README"));
    found
        .problems
        .remove(told.expect("it is told that the README is none"));
    same(&found, &plain);
    let paths: Vec<&str> = found.meta.files.iter().map(|file| file.path.as_str()).collect();
    let path = path.display();
    assert_eq!(
        paths,
        [
            format!("{path}/trace/two_sessions.trc.gz"),
            format!("{path}/trace/../../statements.trc"),
            format!("{path}//release_8.trc")
        ]
    );
    // Next to a plain file.
    let (_folder, archive) = written(&packed(&files[..1], CompressionMethod::Deflated));
    let mixed = of_files(&[archive, fixture(names[1]), fixture(names[2])]).expect("rows");
    same(&mixed, &plain);
}

/// Archives of Python and of Info-ZIP, the latter written into a pipe: then sizes come after the files.
#[test]
fn archives_of_other_programs_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = of_files(&[fixture("statements.trc")]).expect("rows");
    let script = "import sys, zipfile\n\
                  with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as archive: archive.write(sys.argv[2], 'x.trc')\n\
                  with zipfile.ZipFile(sys.argv[1] + '64', 'w', zipfile.ZIP_DEFLATED) as archive:\n\
                  \x20   with archive.open('x.trc', 'w', force_zip64=True) as out: out.write(open(sys.argv[2], 'rb').read())\n";
    let python = folder.path().join("python");
    let status = Command::new("python3")
        .args(["-c", script])
        .args([&python, &fixture("statements.trc")])
        .status();
    match status {
        Ok(status) => {
            assert!(status.success());
            same(&of_files(from_ref(&python)).expect("rows"), &plain);
            same(
                &of_files(&[folder.path().join("python64")]).expect("rows"),
                &plain,
            );
        }
        Err(e) => crate::samples::say(&format!("SKIPPED: python3: {e}")),
    }
    let piped = folder.path().join("piped.zip");
    let pack = format!(
        "zip -q - - < '{}' | cat > '{}'",
        fixture("statements.trc").display(),
        piped.display()
    );
    match Command::new("zip").arg("-v").output() {
        Ok(_) => {
            assert!(
                Command::new("sh")
                    .args(["-c", &pack])
                    .status()
                    .expect("a shell")
                    .success()
            );
            same(&of_files(&[piped]).expect("rows"), &plain);
        }
        Err(e) => crate::samples::say(&format!("SKIPPED: zip: {e}")),
    }
}

#[test]
fn what_cannot_be_read_of_an_archive_is_told_with_its_name() {
    let text = contents("statements.trc");
    let whole = packed(&[("a.trc", &text), ("b.trc", &text)], CompressionMethod::Deflated);
    let error = |bytes: &[u8]| {
        import(bytes)
            .err()
            .map(|e| e.to_string())
            .expect("nothing is in it")
    };
    // Nothing, folders only, a truncated directory, an archive in an archive.
    let empty = packed(&[], CompressionMethod::Stored);
    assert!(import(&empty).is_err_and(|e| e.is_empty()));
    assert!(import(&packed(&[("x/", b"")], CompressionMethod::Stored)).is_err_and(|e| e.is_empty()));
    assert!(error(&whole[..whole.len() / 2]).contains("traces.bin"));
    let nested = error(&packed(&[("inner.zip", &whole)], CompressionMethod::Stored));
    assert!(
        nested.contains("traces.bin/inner.zip") && nested.contains("unzip -p"),
        "{nested}"
    );
    // One of two files is damaged: its checksum says so, the other one is whole.
    let at = whole
        .windows(5)
        .position(|five| five == b"b.trc")
        .expect("a name")
        + 30;
    let mut damaged = whole.clone();
    damaged[at..at + 20].fill(0xff);
    let found = import(&damaged).expect("the other one");
    assert!(
        found.problems.iter().any(|problem| problem.contains("b.trc")),
        "{:?}",
        found.problems
    );
    let first = import(&packed(&[("a.trc", &text)], CompressionMethod::Deflated)).expect("rows");
    assert_eq!(found.rows.statements, first.rows.statements);
    // An unknown method, and a password.
    for (field, value, told) in [(10, 97, "not supported"), (8, 1, "Password")] {
        let mut changed = whole.clone();
        for at in 0..changed.len() - 12 {
            if changed[at..].starts_with(b"PK\x01\x02") {
                changed[at + field] = value;
            }
        }
        let error = error(&changed);
        assert!(
            error.contains("traces.bin/a.trc") && error.contains(told),
            "{error}"
        );
    }
}

#[test]
fn an_archive_whose_files_lie_on_top_of_each_other_is_refused() {
    let text = contents("statements.trc").repeat(100);
    let one = packed(&[("a.trc", &text)], CompressionMethod::Deflated);
    // A directory with the same file a thousand times, under as many names.
    let at = one
        .windows(4)
        .rposition(|four| four == b"PK\x01\x02")
        .expect("a directory");
    let end = one
        .windows(4)
        .rposition(|four| four == b"PK\x05\x06")
        .expect("its end");
    let mut bomb = one[..at].to_vec();
    for n in 0..1_000 {
        let mut entry = one[at..end].to_vec();
        entry[46..51].copy_from_slice(format!("{n:05}").as_bytes());
        bomb.extend_from_slice(&entry);
    }
    let size = u32::try_from(bomb.len() - at).expect("small").to_le_bytes();
    let mut tail = one[end..].to_vec();
    tail[8..10].copy_from_slice(&1_000u16.to_le_bytes());
    tail[10..12].copy_from_slice(&1_000u16.to_le_bytes());
    tail[12..16].copy_from_slice(&size);
    bomb.extend_from_slice(&tail);
    let error = import(&bomb).expect_err("it is none to read").to_string();
    assert!(error.contains("overlap"), "{error}");
}

#[test]
fn of_very_many_files_so_many_are_read_as_are_told() {
    let text = contents("release_8.trc");
    let names: Vec<String> = (0..10_003).map(|n| format!("{n}.trc")).collect();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &text[..40])).collect();
    let mut first = files.clone();
    first[0].1 = &text;
    first[10_001].1 = &text;
    let found = import(&packed(&first, CompressionMethod::Stored)).expect("rows");
    let told = |problem: &String| problem.contains("only the first 10000 of its 10003 files");
    assert!(found.problems.iter().any(told));
    assert_eq!(found.meta.files.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_to_an_archive_makes_it_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        of_directory in any::<bool>(),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let text = contents("statements.trc");
        let mut bytes = packed(&[("a.trc", &text), ("b.trc", &text)], CompressionMethod::Deflated);
        let directory = bytes.windows(4).position(|four| four == b"PK\x01\x02").expect("a directory");
        let from = if of_directory { directory } else { 4 };
        for (at, byte) in damage {
            let length = bytes.len() - from;
            bytes[from + at.index(length)] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = import(&bytes);
    }
}
