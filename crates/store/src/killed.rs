//! Tests: a put is killed at any step, and what the store has then.
//!
//! In an object store, a step puts or removes one object, completely or not at all. In a folder it is several system calls, each of which
//! leaves one of these: folders with nothing in them yet (`mkdirat`, one after the other); a file with a hidden name, complete or partial
//! (between `linkat` and `renameat` if an object is replaced, and from `openat` on if the file system does not support files without a
//! name); the object (`linkat`, `renameat`). `fsync` makes no difference to a killed process. So a killed put leaves the folders and a
//! hidden file ([`Leaves::Traces`]), or nothing; that the calls leave nothing else is tested separately (`output::killed` of the model).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use dbtime_model::recording::{HostMeta, Meta, Recording, RecordingWriter, SCHEMA_VERSION};
use dbtime_model::{CounterRow, Rows, SessionId, SessionRow};

use crate::address::{Address, Choice};
use crate::catalog::Store;
use crate::error::StoreError;
use crate::layout::StateName;
use crate::objects::{Entry, Objects};
use crate::prune::Pruned;
use crate::put::{Outcome, PutOptions};

/// Carries out the given number of changing steps, and none after that.
#[derive(Debug)]
struct Dying {
    inner: Box<dyn Objects>,
    left: AtomicUsize,
    leaves: Leaves,
    is_dead: AtomicBool,
}

/// What the step in which it is killed leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaves {
    Nothing,
    /// In a folder: what a put creates before the object.
    Traces,
}

impl Dying {
    fn step(&self) -> io::Result<()> {
        let one_less = |left: usize| left.checked_sub(1);
        match self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
        {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("killed")),
        }
    }

    fn leave(&self, path: &str, bytes: &Bytes) {
        if self.is_dead.swap(true, Ordering::Relaxed) || self.leaves == Leaves::Nothing {
            return;
        }
        let object = Path::new(self.inner.address()).join(path);
        let folder = object.parent().expect("it is in a folder");
        std::fs::create_dir_all(folder).expect("a folder");
        let part = &bytes[..bytes.len() / 2];
        std::fs::write(folder.join(".dbtime-0000000000000000.tmp"), part).expect("a file");
    }
}

impl Objects for Dying {
    fn list(&self, folder: &str) -> io::Result<Vec<Entry>> {
        self.inner.list(folder)
    }

    fn folders(&self, folder: &str) -> io::Result<Vec<String>> {
        self.inner.folders(folder)
    }

    fn length(&self, path: &str) -> io::Result<Option<u64>> {
        self.inner.length(path)
    }

    fn get(&self, path: &str, most: u64) -> io::Result<Bytes> {
        self.inner.get(path, most)
    }

    fn put(&self, path: &str, bytes: Bytes) -> io::Result<()> {
        self.step().inspect_err(|_| self.leave(path, &bytes))?;
        self.inner.put(path, bytes)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.step()?;
        self.inner.remove(path)
    }

    fn is_near(&self) -> bool {
        self.inner.is_near()
    }

    fn address(&self) -> &str {
        self.inner.address()
    }
}

pub(crate) const HOUR_US: i64 = 3_600_000_000;

/// Writes a recording with a counter in each of the first hours.
pub(crate) fn record(path: &Path, hours: i64, complete: bool) {
    record_of("db1", path, 0..hours, complete);
}

fn record_of(host: &str, path: &Path, hours: Range<i64>, complete: bool) {
    write(path, meta(host, hours), complete);
}

/// The metadata of a recording of these hours.
pub(crate) fn meta(host: &str, hours: Range<i64>) -> Meta {
    Meta {
        schema: SCHEMA_VERSION.to_string(),
        start_us: hours.start * HOUR_US,
        end_us: hours.end * HOUR_US,
        host: HostMeta {
            name: host.to_string(),
            ..HostMeta::default()
        },
        ..Meta::default()
    }
}

/// Writes a recording with this metadata, and with a counter in each of its hours.
pub(crate) fn write(path: &Path, meta: Meta, complete: bool) {
    let hours = meta.start_us / HOUR_US..meta.end_us / HOUR_US;
    let mut writer = RecordingWriter::create(path, meta).expect("a new recording");
    for hour in hours {
        let rows = Rows {
            counters: vec![CounterRow {
                time: hour * HOUR_US,
                session: SessionId(1),
                value: hour,
                ..CounterRow::default()
            }],
            sessions: vec![SessionRow {
                id: SessionId(1),
                ..SessionRow::default()
            }],
            ..Rows::default()
        };
        writer.write(&rows).expect("it can be written");
    }
    if complete {
        writer.finish().expect("it can be written");
    }
}

pub(crate) fn address(path: &Path) -> Address {
    Address::to_put(path.as_os_str()).expect("an address")
}

/// The hours that have rows, each row once.
pub(crate) fn found(store: &Path) -> Vec<i64> {
    let store = match Store::open(&address(store)) {
        Err(StoreError::NotThere(_)) => return vec![],
        other => other.expect("a store"),
    };
    hours(store, &Choice::default())
}

/// The same for a part of a store.
pub(crate) fn hours(store: Store, choice: &Choice) -> Vec<i64> {
    let recording = match store.select(choice, None) {
        Err(StoreError::Nothing { .. }) => return vec![],
        other => other.expect("a recording").0,
    };
    let mut values = Vec::new();
    let problems = recording.read::<CounterRow>(|rows| values.extend(rows.iter().map(|row| row.value)));
    assert_eq!(problems, []);
    values
}

pub(crate) fn objects(store: &Path) -> Vec<(String, Bytes)> {
    let objects = address(store).open().expect("a folder");
    let all = objects.list("").expect("a list");
    let content = |entry: Entry| {
        let bytes = objects.get(&entry.path, u64::MAX).expect("an object");
        (entry.path, bytes)
    };
    all.into_iter().map(content).collect()
}

/// States of recordings that count: as engines tell by names alone (`docs/store.md`), and as reports tell by manifests.
fn counted(store: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    let names: Vec<String> = objects(store).into_iter().map(|(path, _)| path).collect();
    let host_of = |path: &str| {
        let (_, host) = path.split_once("/host=").expect("a host");
        host.split('/').next().expect("a name").to_string()
    };
    let manifests: BTreeSet<String> = names
        .iter()
        .filter(|path| path.starts_with("recordings/"))
        .map(|path| {
            let name = path.strip_suffix(".json").expect("a manifest");
            format!("{} {}", host_of(path), &name[name.len() - 33..])
        })
        .collect();
    let mut last: BTreeMap<String, (String, String)> = BTreeMap::new();
    for path in names.iter().filter(|path| path.starts_with("table=recordings/")) {
        let (_, name) = path.rsplit_once('/').expect("a name");
        let parts: Vec<&str> = name.trim_end_matches(".parquet").split('-').collect();
        let recording = format!("{} {}-{}", host_of(path), parts[0], parts[2]);
        if manifests.contains(&recording) {
            let of = last.entry(format!("{} {}", host_of(path), parts[0])).or_default();
            *of = of.clone().max((name.to_string(), recording));
        }
    }
    let by_names = last.into_values().map(|(_, recording)| recording).collect();
    let store = match Store::open(&address(store)) {
        Err(StoreError::NotThere(_)) => return (by_names, BTreeSet::new()),
        other => other.expect("a store"),
    };
    let by_manifests = store.recordings(&Choice::default()).expect("recordings");
    let by_manifests = by_manifests.iter().map(|manifest| &manifest.name);
    let name = |name: &StateName| format!("{} {}", name.host.name(), name.recording());
    (by_names, by_manifests.map(name).collect())
}

/// Checks that engines and reports agree on which recordings there are. Returns how many.
fn agreed(store: &Path, when: &str) -> usize {
    let (by_names, by_manifests) = counted(store);
    assert_eq!(by_names, by_manifests, "{when}");
    by_names.len()
}

fn dying_after(steps: usize, store: &Path) -> Result<Store, StoreError> {
    dying(Leaves::Nothing, steps, store)
}

fn dying(leaves: Leaves, steps: usize, store: &Path) -> Result<Store, StoreError> {
    let whole = Store::open_or_make(&address(store))?;
    Ok(Store::of(Box::new(Dying {
        inner: whole.into_objects(),
        left: AtomicUsize::new(steps),
        leaves,
        is_dead: AtomicBool::new(false),
    })))
}

fn put_until(steps: usize, recording: &Path, store: &Path) -> Result<Outcome, StoreError> {
    put_leaving(Leaves::Nothing, steps, recording, store)
}

fn put_leaving(leaves: Leaves, steps: usize, recording: &Path, store: &Path) -> Result<Outcome, StoreError> {
    let recording = Recording::open(recording)?;
    let put = dying(leaves, steps, store)?.put(&recording, "it", &PutOptions::default())?;
    Ok(put.outcome)
}

#[test]
fn killed_between_any_two_objects_nothing_is_there_and_the_same_once_more_is_as_if_nothing_had_been() {
    let home = tempfile::tempdir().expect("a folder");
    let recording = home.path().join("a.dbt");
    record(&recording, 3, true);
    let whole = home.path().join("whole");
    assert_eq!(
        put_until(usize::MAX, &recording, &whole).expect("put"),
        Outcome::Stored
    );
    assert_eq!(found(&whole), [0, 1, 2]);
    for leaves in [Leaves::Nothing, Leaves::Traces] {
        for steps in 0.. {
            let store = home.path().join(format!("{leaves:?}-{steps}"));
            if put_leaving(leaves, steps, &recording, &store).is_ok() {
                assert_eq!(steps, objects(&whole).len() - 1, "the mark is there before");
                break;
            }
            assert!(found(&store).is_empty(), "after {steps} objects");
            assert_eq!(agreed(&store, &format!("after {steps} objects")), 0);
            assert_eq!(
                put_until(usize::MAX, &recording, &store).expect("put"),
                Outcome::Stored
            );
            assert_eq!(objects(&store), objects(&whole), "after {steps} objects");
        }
    }
    assert_eq!(
        put_until(0, &recording, &whole).expect("nothing is to be done"),
        Outcome::WasThere
    );
}

#[test]
fn a_later_state_takes_the_place_of_the_earlier_whenever_who_puts_it_is_killed() {
    let home = tempfile::tempdir().expect("a folder");
    let (early, late) = (home.path().join("early.dbt"), home.path().join("late.dbt"));
    record(&early, 2, false);
    record(&late, 3, true);
    let whole = home.path().join("whole");
    put_until(usize::MAX, &late, &whole).expect("put");
    for leaves in [Leaves::Nothing, Leaves::Traces] {
        for steps in 0.. {
            let store = home.path().join(format!("{leaves:?}-{steps}"));
            assert_eq!(
                put_until(usize::MAX, &early, &store).expect("put"),
                Outcome::Stored
            );
            assert_eq!(found(&store), [0, 1]);
            let ended = put_leaving(leaves, steps, &late, &store).is_ok();
            let rows = found(&store);
            assert!(
                rows == [0, 1] || rows == [0, 1, 2],
                "after {steps} steps: {rows:?}"
            );
            assert_eq!(agreed(&store, &format!("after {steps} steps")), 1);
            put_until(usize::MAX, &late, &store).expect("put");
            assert_eq!(objects(&store), objects(&whole), "after {steps} steps");
            assert_eq!(
                put_until(usize::MAX, &early, &store).expect("put"),
                Outcome::LaterIsThere
            );
            assert_eq!(objects(&store), objects(&whole));
            if ended {
                assert!(steps > objects(&whole).len(), "{steps}");
                break;
            }
        }
    }
}

#[test]
fn killed_while_it_is_made_a_store_is_made_by_the_next_one() {
    let home = tempfile::tempdir().expect("a folder");
    let recording = home.path().join("a.dbt");
    record(&recording, 2, true);
    let whole = home.path().join("whole");
    put_until(usize::MAX, &recording, &whole).expect("put");
    let store = home.path().join("store");
    std::fs::create_dir(&store).expect("a folder");
    std::fs::write(store.join(".dbtime-0000000000000000.tmp"), "{").expect("a file");
    assert!(found(&store).is_empty());
    put_until(usize::MAX, &recording, &store).expect("put");
    assert_eq!(objects(&store), objects(&whole));
}

#[test]
fn a_recording_is_the_same_however_its_segments_lie() {
    let home = tempfile::tempdir().expect("a folder");
    let recording = home.path().join("a.dbt");
    record(&recording, 3, true);
    let store = home.path().join("store");
    put_until(usize::MAX, &recording, &store).expect("put");
    let before = objects(&store);
    dbtime_model::recording::compact(&recording).expect("it can be merged");
    assert_eq!(
        put_until(0, &recording, &store).expect("nothing is to be done"),
        Outcome::WasThere
    );
    assert_eq!(objects(&store), before);
}

#[test]
fn an_object_that_was_lost_is_put_again() {
    let home = tempfile::tempdir().expect("a folder");
    let recording = home.path().join("a.dbt");
    record(&recording, 3, true);
    let store = home.path().join("store");
    put_until(usize::MAX, &recording, &store).expect("put");
    let whole = objects(&store);
    for (lost, _) in whole.iter().filter(|(path, _)| path.starts_with("table=")) {
        std::fs::remove_file(store.join(lost)).expect("a file");
        assert_eq!(
            put_until(usize::MAX, &recording, &store).expect("put"),
            Outcome::Stored
        );
        assert_eq!(objects(&store), whole);
    }
}

#[test]
fn two_who_put_at_once_make_the_same_objects() {
    let home = tempfile::tempdir().expect("a folder");
    let (early, late) = (home.path().join("early.dbt"), home.path().join("late.dbt"));
    record(&early, 20, false);
    record(&late, 30, true);
    let whole = home.path().join("whole");
    put_until(usize::MAX, &late, &whole).expect("put");
    let store = home.path().join("store");
    std::thread::scope(|scope| {
        for recording in [&early, &late, &early, &late] {
            scope.spawn(|| put_until(usize::MAX, recording, &store).expect("put"));
        }
    });
    assert_eq!(found(&store), (0..30).collect::<Vec<i64>>());
    // If the earlier state was put late, what it left is removed by the next put.
    put_until(usize::MAX, &late, &store).expect("put");
    assert_eq!(objects(&store), objects(&whole));
}

#[test]
fn what_is_too_old_goes_whole_whenever_who_removes_it_is_killed_and_nothing_else_goes() {
    const HOUR_S: i64 = HOUR_US / 1_000_000;
    let home = tempfile::tempdir().expect("a folder");
    let (old, new) = (home.path().join("old.dbt"), home.path().join("new.dbt"));
    record(&old, 2, false);
    record_of("db1", &new, 5..9, true);
    let other = home.path().join("other.dbt");
    record_of("db2", &other, 0..2, true);
    let kept = home.path().join("kept");
    for recording in [&new, &other] {
        put_until(usize::MAX, recording, &kept).expect("put");
    }
    for steps in 0.. {
        let store = home.path().join(format!("{steps}"));
        for recording in [&old, &new, &other] {
            put_until(usize::MAX, recording, &store).expect("put");
        }
        // Its last row is in the second after this.
        let none = dying_after(usize::MAX, &store).and_then(|store| store.prune("db1", HOUR_S));
        assert_eq!(none.expect("nothing is that old"), Pruned::default());
        let ended = dying_after(steps, &store).and_then(|store| store.prune("db1", 3 * HOUR_S));
        let of_old = found(&store).iter().filter(|hour| **hour < 2).count();
        // The recordings of the other host are there as well.
        assert!([2, 4].contains(&of_old), "after {steps} steps: {of_old}");
        assert_eq!(agreed(&store, &format!("after {steps} steps")), 1 + of_old / 2);
        dying_after(usize::MAX, &store)
            .and_then(|store| store.prune("db1", 3 * HOUR_S))
            .expect("it goes on");
        assert_eq!(objects(&store), objects(&kept), "after {steps} steps");
        if ended.is_ok() {
            assert!(steps > 3, "{steps}");
            break;
        }
    }
}

#[test]
fn what_is_put_again_while_it_is_removed_stays() {
    let home = tempfile::tempdir().expect("a folder");
    let (recording, newest) = (home.path().join("a.dbt"), home.path().join("newest.dbt"));
    record(&recording, 2, true);
    record_of("db1", &newest, 5..6, true);
    let (store, whole) = (home.path().join("store"), home.path().join("whole"));
    for one in [&recording, &newest] {
        put_until(usize::MAX, one, &whole).expect("put");
        put_until(usize::MAX, one, &store).expect("put");
    }
    // Its manifest is gone, its files are still there. The newest one stays, whatever the clock says.
    let after_two = dying_after(2, &store).and_then(|store| store.prune("db1", i64::MAX));
    assert!(after_two.is_err());
    assert_eq!(found(&store), [5]);
    put_until(usize::MAX, &recording, &store).expect("put");
    dying_after(usize::MAX, &store)
        .and_then(|store| store.prune("db1", 0))
        .expect("nothing is that old");
    assert_eq!(objects(&store), objects(&whole));
}

#[test]
fn a_store_without_rows_of_recordings_is_upgraded_whenever_who_does_it_is_killed() {
    let home = tempfile::tempdir().expect("a folder");
    let whole = home.path().join("whole");
    for (host, hours, complete) in [("db1", 0..2, false), ("db1", 5..9, true), ("db2", 0..2, true)] {
        let recording = home.path().join(format!("{host}-{}.dbt", hours.start));
        record_of(host, &recording, hours, complete);
        put_until(usize::MAX, &recording, &whole).expect("put");
    }
    let kept = |(path, _): &(String, Bytes)| !path.starts_with("table=recordings/");
    for steps in 0.. {
        // As an older dbtime left it.
        let store = home.path().join(format!("{steps}"));
        for (path, bytes) in objects(&whole).iter().filter(|object| kept(object)) {
            let path = store.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, bytes).expect("a file");
        }
        let opened = Store::open(&address(&store)).expect("a store");
        assert_eq!(opened.list(&Choice::default()).expect("a list").without_row, 3);
        let ended = dying_after(steps, &store).and_then(|store| store.upgrade());
        assert_eq!(counted(&store).0.len(), steps.min(3));
        let upgraded = opened.upgrade().expect("it goes on");
        assert_eq!((upgraded.recordings, upgraded.kept), (3 - steps.min(3), vec![]));
        assert_eq!(objects(&store), objects(&whole), "after {steps} steps");
        assert_eq!(opened.list(&Choice::default()).expect("a list").without_row, 0);
        assert_eq!(agreed(&store, &format!("after {steps} steps")), 3);
        if ended.is_ok() {
            assert_eq!(steps, 3);
            break;
        }
    }
}
