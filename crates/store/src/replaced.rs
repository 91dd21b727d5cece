//! Tests: what replaces what, and that nothing is removed or overwritten that may still be needed.

use std::fs;
use std::path::{Path, PathBuf};

use dbtime_model::recording::{HostMeta, Meta, Recording, RecordingWriter, SCHEMA_VERSION};
use dbtime_model::{CounterRow, Rows, SessionId};

use crate::address::Choice;
use crate::catalog::Store;
use crate::error::StoreError;
use crate::killed::{address, found, objects, record};
use crate::put::{Outcome, Put, PutOptions};

fn put(recording: &Path, store: &Path, damaged: bool) -> Result<Put, StoreError> {
    let options = PutOptions {
        damaged,
        ..PutOptions::default()
    };
    let recording = Recording::open(recording)?;
    Store::open_or_make(&address(store))?.put(&recording, "it", &options)
}

fn put_whole(recording: &Path, store: &Path) -> Put {
    put(recording, store, false).expect("put")
}

/// Truncates a segment; returns its path and its original content.
fn damage(recording: &Path) -> (PathBuf, Vec<u8>) {
    let segment = recording.join("counters/000002.parquet");
    let whole = fs::read(&segment).expect("a segment");
    fs::write(&segment, &whole[..whole.len() / 2]).expect("our own file");
    (segment, whole)
}

/// Manifests in a store.
fn manifests(store: &Path) -> Vec<PathBuf> {
    let names = objects(store).into_iter().map(|(path, _)| path);
    names
        .filter(|path| path.starts_with("recordings/"))
        .map(|path| store.join(path))
        .collect()
}

/// A manifest's path with a different end of the period.
fn ending(manifest: &Path, end: &str) -> PathBuf {
    let name = manifest
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a name");
    let mut parts: Vec<&str> = name.split('-').collect();
    parts[1] = end;
    manifest.with_file_name(parts.join("-"))
}

#[test]
fn a_whole_reading_replaces_a_damaged_one_and_never_the_other_way_round() {
    let home = tempfile::tempdir().expect("a folder");
    let recording = home.path().join("a.dbt");
    record(&recording, 3, true);
    let store = home.path().join("store");
    let (segment, whole) = damage(&recording);
    assert!(matches!(
        put(&recording, &store, false),
        Err(StoreError::Damaged { .. })
    ));
    assert_eq!(
        put(&recording, &store, true).expect("put").outcome,
        Outcome::Stored
    );
    assert_eq!(found(&store), [0, 2]);
    assert_eq!(
        put(&recording, &store, true).expect("put").outcome,
        Outcome::WasThere
    );
    // What was read counts, not what was asked for.
    fs::write(&segment, whole).expect("our own file");
    let mended = put(&recording, &store, true).expect("put");
    assert_eq!((mended.outcome, mended.replaced), (Outcome::Stored, 1));
    assert_eq!(found(&store), [0, 1, 2]);
    assert_eq!(put_whole(&recording, &store).outcome, Outcome::WasThere);
    let before = objects(&store);
    damage(&recording);
    assert_eq!(
        put(&recording, &store, true).expect("put").outcome,
        Outcome::LaterIsThere
    );
    assert_eq!(objects(&store), before);
}

#[test]
fn what_could_be_read_whole_is_not_removed_for_what_could_not() {
    let home = tempfile::tempdir().expect("a folder");
    let (early, late) = (home.path().join("early.dbt"), home.path().join("late.dbt"));
    record(&early, 2, false);
    record(&late, 3, true);
    let store = home.path().join("store");
    put_whole(&early, &store);
    let (segment, whole) = damage(&late);
    assert_eq!(put(&late, &store, true).expect("put").replaced, 0);
    assert_eq!(manifests(&store).len(), 2);
    let listing = Store::open(&address(&store)).expect("a store");
    let listing = listing.list(&Choice::default()).expect("a list");
    assert_eq!(listing.left, (0, 0));
    fs::write(segment, whole).expect("our own file");
    assert_eq!(put_whole(&late, &store).replaced, 2);
    assert_eq!(found(&store), [0, 1, 2]);
}

#[test]
fn files_that_another_manifest_names_are_not_removed() {
    let home = tempfile::tempdir().expect("a folder");
    let recording = home.path().join("a.dbt");
    record(&recording, 3, true);
    let store = home.path().join("store");
    put_whole(&recording, &store);
    let before = objects(&store);
    let manifest = manifests(&store).pop().expect("a manifest");
    // With the same files but a lower rank, as if less of it could be read.
    let text = fs::read_to_string(&manifest).expect("a manifest");
    let lower = text.replace("\"damaged\":[]", "\"damaged\":[\"a segment\"]");
    assert_ne!(lower, text);
    fs::write(ending(&manifest, "19700101T010000Z"), lower).expect("a file");
    let again = put_whole(&recording, &store);
    assert_eq!((again.outcome, again.replaced), (Outcome::WasThere, 1));
    assert_eq!(objects(&store), before);
    assert_eq!(found(&store), [0, 1, 2]);
}

#[test]
fn nothing_is_removed_as_long_as_it_cannot_be_told_what_a_manifest_names() {
    let home = tempfile::tempdir().expect("a folder");
    let (early, late) = (home.path().join("early.dbt"), home.path().join("late.dbt"));
    record(&early, 2, false);
    record(&late, 3, true);
    let store = home.path().join("store");
    put_whole(&early, &store);
    let manifest = manifests(&store).pop().expect("a manifest");
    // One that covers more than what is put, and one written by another dbtime.
    let other = fs::read_to_string(&manifest).expect("a manifest");
    let other = other.replace("\"store\":\"1.1\"", "\"store\":\"2.0\"");
    for (end, text) in [("19720101T010000Z", "{"), ("19700101T010000Z", other.as_str())] {
        let broken = ending(&manifest, end);
        fs::write(&broken, text).expect("a file");
        let before = objects(&store);
        assert_eq!(put_whole(&late, &store).replaced, 0, "{end}");
        for object in before {
            assert!(objects(&store).contains(&object), "{end}: {}", object.0);
        }
        fs::remove_file(broken).expect("our own file");
    }
    assert_eq!(put_whole(&late, &store).replaced, 1);
    assert_eq!(found(&store), [0, 1, 2]);
}

#[test]
fn an_older_manifest_that_is_broken_is_named_and_goes_with_its_files_when_the_recording_is_put_again() {
    let home = tempfile::tempdir().expect("a folder");
    let (early, late) = (home.path().join("early.dbt"), home.path().join("late.dbt"));
    record(&early, 2, false);
    record(&late, 3, true);
    let whole = home.path().join("whole");
    put_whole(&late, &whole);
    let store = home.path().join("store");
    put_whole(&early, &store);
    let manifest = manifests(&store).pop().expect("a manifest");
    fs::write(&manifest, "{").expect("our own file");
    let opened = Store::open(&address(&store)).expect("a store");
    let listing = opened.list(&Choice::default()).expect("a list");
    assert_eq!(
        (listing.hosts.len(), listing.left, listing.broken.len()),
        (0, (0, 0), 1)
    );
    assert!(
        listing.broken[0].contains(manifest.to_str().expect("a path"))
            && listing.broken[0].contains("put its recording again"),
        "{:?}",
        listing.broken
    );
    assert_eq!(put_whole(&late, &store).replaced, 1);
    assert_eq!(objects(&store), objects(&whole));
}

#[test]
fn a_bit_that_has_changed_is_found_and_mended() {
    let home = tempfile::tempdir().expect("a folder");
    let recording = home.path().join("a.dbt");
    record(&recording, 3, true);
    let store = home.path().join("store");
    put_whole(&recording, &store);
    let whole = objects(&store);
    for (path, bytes) in whole.iter().filter(|(path, _)| path.starts_with("table=")) {
        let mut changed = bytes.to_vec();
        changed[bytes.len() / 2] ^= 1;
        fs::write(store.join(path), changed).expect("our own file");
        assert_eq!(put_whole(&recording, &store).outcome, Outcome::Stored, "{path}");
        assert_eq!(objects(&store), whole);
    }
}

#[test]
fn good_files_are_not_written_over_with_less() {
    let home = tempfile::tempdir().expect("a folder");
    let recording = home.path().join("a.dbt");
    record(&recording, 3, true);
    let store = home.path().join("store");
    put_whole(&recording, &store);
    let objects_before = objects(&store);
    let (lost, _) = objects_before
        .iter()
        .find(|(path, _)| path.starts_with("table=sessions"))
        .expect("a file");
    fs::remove_file(store.join(lost)).expect("our own file");
    let left = objects(&store);
    damage(&recording);
    assert!(matches!(
        put(&recording, &store, false),
        Err(StoreError::Damaged { .. })
    ));
    assert_eq!(objects(&store), left);
}

#[test]
fn a_manifest_that_names_a_file_twice_or_none_that_there_can_be_is_refused() {
    let home = tempfile::tempdir().expect("a folder");
    let recording = home.path().join("a.dbt");
    record(&recording, 3, true);
    let store = home.path().join("store");
    put_whole(&recording, &store);
    let manifest = manifests(&store).pop().expect("a manifest");
    let good: serde_json::Value =
        serde_json::from_slice(&fs::read(&manifest).expect("a manifest")).expect("JSON");
    let with = |change: &dyn Fn(&mut Vec<serde_json::Value>)| {
        let mut changed = good.clone();
        change(changed["files"].as_array_mut().expect("files"));
        fs::write(&manifest, changed.to_string()).expect("our own file");
        let opened = Store::open(&address(&store)).expect("a store");
        let said = opened.select(&Choice::default(), None).map(drop);
        said.expect_err("it is refused").to_string()
    };
    let twice = with(&|files| files.push(files[0].clone()));
    assert!(
        twice.contains("twice") && twice.contains("table=counters"),
        "{twice}"
    );
    let large = with(&|files| files[0]["bytes"] = (1_u64 << 40).into());
    assert!(large.contains("wrong length"), "{large}");
    let many = with(&|files| {
        let first = files[0].clone();
        files.extend(std::iter::repeat_n(first, 1 << 18));
    });
    assert!(many.contains("files, and"), "{many}");
    assert!(many.contains("put its recording again"), "{many}");
}

#[test]
fn an_hour_of_more_text_than_is_read_of_a_file_has_several() {
    let home = tempfile::tempdir().expect("a folder");
    let recording = home.path().join("a.dbt");
    let meta = Meta {
        schema: SCHEMA_VERSION.to_string(),
        host: HostMeta {
            name: "db1".to_string(),
            ..HostMeta::default()
        },
        ..Meta::default()
    };
    let mut writer = RecordingWriter::create(&recording, meta).expect("a new recording");
    // 600 MB in all, which compress well.
    for segment in 0..5 {
        let row = |n| CounterRow {
            time: n,
            session: SessionId(1),
            name: "x".repeat(1 << 20).into(),
            value: segment * 120 + n,
            ..CounterRow::default()
        };
        let rows = Rows {
            counters: (0..120).map(row).collect(),
            ..Rows::default()
        };
        writer.write(&rows).expect("it can be written");
    }
    writer.finish().expect("it can be written");
    let store = home.path().join("store");
    assert!(put_whole(&recording, &store).files > 1);
    let mut values = found(&store);
    values.sort_unstable();
    assert_eq!(values, (0..600).collect::<Vec<i64>>());
}
