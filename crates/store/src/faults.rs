//! Tests: the store refuses any one request, or carries it out but the answer is lost; somebody else puts between any two requests; and how
//! much of a large store is read.

use std::io::ErrorKind;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::address::Choice;
use crate::faulty::{Content, Fault, Memory, put, put_with_fault};
use crate::killed::{HOUR_US, hours, meta, record, write};
use crate::put::Outcome;

/// A recording of two hours that has not ended, and what it becomes: three hours.
struct Made {
    _home: TempDir,
    early: PathBuf,
    late: PathBuf,
}

impl Made {
    fn new() -> Made {
        let home = tempfile::tempdir().expect("a folder");
        let (early, late) = (home.path().join("early.dbt"), home.path().join("late.dbt"));
        record(&early, 2, false);
        record(&late, 3, true);
        Made {
            _home: home,
            early,
            late,
        }
    }

    /// Stores: an empty one; one that has the early state; and one that has the late one, of which a file was lost.
    fn stores(&self) -> [Content; 3] {
        let early = Memory::default();
        early.put_recording(&self.early);
        let mut lossy = self.whole();
        let lost = lossy.keys().find(|path| path.starts_with("table=sessions"));
        let lost = lost.cloned().expect("a file");
        lossy.remove(&lost);
        [Content::new(), early.content(), lossy]
    }

    /// A store that has the late state.
    fn whole(&self) -> Content {
        let whole = Memory::default();
        whole.put_recording(&self.late);
        whole.content()
    }
}

#[test]
fn whatever_the_store_refuses_or_does_not_answer_nothing_is_lost_or_twice_and_the_same_once_more_ends_it() {
    let made = Made::new();
    let whole = made.whole();
    let stores = made.stores();
    // The reason for a refusal is reported and makes no other difference, so the store with most to do is enough.
    let most = &stores[1..2];
    for (fault, stores) in [
        (Fault::Refused(ErrorKind::Other), &stores[..]),
        (Fault::Refused(ErrorKind::TimedOut), most),
        (Fault::Refused(ErrorKind::PermissionDenied), most),
        (Fault::AnswerLost, &stores[..]),
    ] {
        for before in stores {
            let hours_before = Memory::of(before.clone()).hours();
            for at in 0.. {
                let memory = Memory::of(before.clone());
                let Some(outcome) = put_with_fault(&memory, at, &fault, &made.late) else {
                    assert!(at > 5, "only {at} things were asked: {fault:?}");
                    break;
                };
                let when = format!("{fault:?} at {at}");
                // No fault goes unnoticed.
                let error = outcome.expect_err(&when);
                assert!(error.to_string().starts_with("s3://fleet/x"), "{when}: {error}");
                assert_eq!(
                    error.is_denied(),
                    matches!(fault, Fault::Refused(ErrorKind::PermissionDenied)),
                    "{when}: {error}"
                );
                let found = memory.hours();
                assert!(found == hours_before || found == [0, 1, 2], "{when}: {found:?}");
                put(memory.store(), &made.late).expect(&when);
                assert_eq!(memory.content(), whole, "{when}");
                assert_eq!(memory.hours(), [0, 1, 2], "{when}");
            }
        }
    }
}

#[test]
fn whoever_else_puts_between_any_two_steps_nothing_is_lost_or_twice() {
    let made = Made::new();
    let whole = made.whole();
    let (early, late) = (&made.early, &made.late);
    for (mine, other) in [(early, early), (early, late), (late, early), (late, late)] {
        for before in made.stores() {
            let has_late = [mine, other].contains(&late) || Memory::of(before.clone()).hours() == [0, 1, 2];
            let expected: &[i64] = if has_late { &[0, 1, 2] } else { &[0, 1] };
            for at in 0.. {
                let memory = Memory::of(before.clone());
                let Some(outcome) = put_with_fault(&memory, at, &Fault::After(other.clone()), mine) else {
                    break;
                };
                let when = format!("{} at {at} of {}", other.display(), mine.display());
                outcome.expect(&when);
                assert_eq!(memory.hours(), expected, "{when}");
                // If the earlier state was put late, what it left is removed by the next put.
                put(memory.store(), late).expect(&when);
                assert_eq!(memory.content(), whole, "{when}");
            }
        }
    }
}

/// As from two agents, each with a spool of its own: nobody can know which one is wanted.
#[test]
fn what_two_recorders_made_of_one_server_at_the_same_time_is_kept_and_told() {
    let home = tempfile::tempdir().expect("a folder");
    let memory = Memory::default();
    for series in ["4711-0", "4712-0"] {
        let path = home.path().join(format!("{series}.dbt"));
        let mut meta = meta("db1", 0..2);
        meta.collector.series = series.to_string();
        meta.database.data_directory = "/srv/data".to_string();
        write(&path, meta, true);
        assert_eq!(memory.put_recording(&path).outcome, Outcome::Stored);
        assert_eq!(memory.put_recording(&path).outcome, Outcome::WasThere);
    }
    let mut found = memory.hours();
    found.sort_unstable();
    assert_eq!(found, [0, 0, 1, 1]);
    let (recording, _) = memory
        .store()
        .select(&Choice::default(), None)
        .expect("recordings");
    let notes = &recording.meta().notes;
    let is_told = |text: &str| text.contains("overlap from") && text.contains("counted twice");
    assert!(notes.iter().any(|note| is_told(&note.text)), "{notes:?}");
    // One of them can be chosen.
    let listing = memory.store().list(&Choice::default()).expect("a list");
    for recording in &listing.hosts[0].recordings {
        let choice = Choice {
            recordings: vec![recording.recording.clone()],
            ..Choice::default()
        };
        assert_eq!(hours(memory.store(), &choice), [0, 1]);
    }
}

#[test]
fn for_an_hour_the_manifests_of_that_hour_are_read_however_many_there_are() {
    let home = tempfile::tempdir().expect("a folder");
    let memory = Memory::default();
    let hour = |hour: i64| Choice {
        hosts: vec!["db1".to_string()],
        from_us: Some(hour * HOUR_US),
        to_us: Some((hour + 1) * HOUR_US),
        ..Choice::default()
    };
    for n in 0..16 {
        let path = home.path().join(format!("{n}.dbt"));
        write(&path, meta("db1", n..n + 1), true);
        memory.put_recording(&path);
        // A put only reads manifests of its own recording.
        let own = memory.manifests_read();
        assert!(own <= 2, "{own} of {n}");
    }
    for asked in [0, 7, 15] {
        assert_eq!(hours(memory.store(), &hour(asked)), [asked]);
        // Names have whole seconds: the recording that ended as this one began may overlap it.
        let read = memory.manifests_read();
        assert!((1..=3).contains(&read), "{read} of 16");
    }
}
