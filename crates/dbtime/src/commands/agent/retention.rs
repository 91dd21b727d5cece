//! Which recordings leave the spool, and why: nothing else removes one.
//!
//! 1. Empty ones, and those in the store, once no recorder needs them.
//! 2. Without a store, those older than `keep.age` ([`super::ages`]).
//! 3. Beyond `keep.spool` bytes of recordings, or with less than `keep.free` bytes left on the file system, whoever uses the rest: first
//!    those in the store, then the others; the oldest first, those that a recorder needs last. To free space on the file system, nothing
//!    is removed that the store accepts: it is uploaded first. While uploads fail, removal begins at half of `keep.free`.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::ages::Ages;
use super::config::Keep;
use super::spool::{Contents, Ended, Room, Spool};
use crate::output::say;

/// How long a recording that could not be removed is left alone.
const REMOVAL_PAUSE: Duration = Duration::from_secs(300);
/// How long a file system may take until what was removed is free.
const ROOM_PAUSE: Duration = Duration::from_secs(30);
/// With an upload that fails or does not end for this long, making room no longer waits for it.
const AWAY: Duration = Duration::from_secs(300);
/// Left to others by default: one part in this many of the file system, but no more than this many bytes.
const FREE_SHARE: u64 = 20;
const MOST_FREE: u64 = 1_000_000_000;

/// See the module.
pub(super) struct Retention {
    has_store: bool,
    most_bytes: u64,
    least_free: Option<u64>,
    oldest: Option<Duration>,
    /// Those that could not be removed, and until when they are left alone.
    stuck: HashMap<PathBuf, Instant>,
    next_for_room: Instant,
    told: Scarcity,
}

/// How far uploads have got.
#[derive(Debug, Clone, Copy)]
pub(super) struct Uploaded<'a> {
    /// Recordings that are in the store.
    pub(super) done: &'a HashSet<PathBuf>,
    /// The one that is being put.
    pub(super) under_way: Option<&'a Path>,
    /// Outlook for the others.
    pub(super) prospect: Prospect,
}

/// Whether recordings that have ended will be in the store soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prospect {
    /// Nothing suggests otherwise.
    Good,
    /// The last upload has just failed.
    Doubtful,
    /// There is no store, or it has accepted none for minutes.
    None,
}

impl Prospect {
    /// With a store: by how long an upload has been running, and for how long they have failed.
    pub(super) fn of(put_for: Option<Duration>, failing_for: Option<Duration>) -> Prospect {
        match (put_for, failing_for) {
            (Some(put_for), _) if put_for >= AWAY => Prospect::None,
            // Earlier failures may be hours old: the upload in progress will soon show how things are now.
            (Some(_), _) | (None, None) => Prospect::Good,
            (None, Some(failing_for)) if failing_for >= AWAY => Prospect::None,
            (None, Some(_)) => Prospect::Doubtful,
        }
    }
}

/// Why a recording is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Empty,
    Stored,
    Old,
    /// This many bytes are in the spool.
    TooMany(u64),
    /// This many bytes are free, and this is the minimum.
    NoRoom(u64, u64),
}

/// How little room there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scarcity {
    Enough,
    /// Less than twice the minimum.
    Near,
    /// Less than the minimum.
    Low,
}

impl Retention {
    pub(super) fn new(keep: &Keep, has_store: bool) -> Retention {
        Retention {
            has_store,
            most_bytes: keep.spool,
            least_free: keep.free,
            oldest: keep.age,
            stuck: HashMap::new(),
            next_for_room: Instant::now(),
            told: Scarcity::Enough,
        }
    }

    /// Removes what has to go. `contents` is sorted, the oldest first.
    pub(super) fn look(&mut self, spool: &Spool, contents: &Contents, ages: &Ages, uploaded: Uploaded<'_>) {
        let now = Instant::now();
        self.stuck.retain(|_, until| *until > now);
        let room = spool.room();
        let usable = room.filter(|_| now >= self.next_for_room);
        let chosen = self.choose(contents, |ended| ages.of(ended), uploaded, usable);
        if let Some(text) = room.and_then(|room| self.tell(room, &chosen, uploaded)) {
            say(format_args!("{text}"));
        }
        for (ended, reason) in chosen {
            if let Some(why) = self.words(ended, reason, uploaded) {
                say(format_args!("{}: removed, {why}", ended.path.display()));
            }
            if let Err(e) = spool.remove(ended) {
                say(format_args!("{}: cannot be removed: {e}", ended.path.display()));
                self.stuck.insert(ended.path.clone(), now + REMOVAL_PAUSE);
            }
            if matches!(reason, Reason::NoRoom(..)) {
                self.next_for_room = now + ROOM_PAUSE;
            }
        }
    }

    /// What goes now, in order. Without `room`, nothing goes to free space.
    fn choose<'a>(
        &self,
        contents: &'a Contents,
        age_of: impl Fn(&Ended) -> Duration,
        uploaded: Uploaded<'_>,
        room: Option<Room>,
    ) -> Vec<(&'a Ended, Reason)> {
        let is_done = |ended: &Ended| uploaded.done.contains(&ended.path);
        let is_too_old = |ended: &Ended| self.oldest.is_some_and(|oldest| age_of(ended) > oldest);
        let (mut chosen, mut others) = (Vec::new(), Vec::new());
        for ended in &contents.ended {
            if self.stuck.contains_key(&ended.path)
                || uploaded.under_way.is_some_and(|path| path == ended.path)
            {
                continue;
            }
            if ended.is_empty {
                chosen.push((ended, Reason::Empty));
            } else if is_done(ended) && !ended.is_needed {
                chosen.push((ended, Reason::Stored));
            } else if !self.has_store && is_too_old(ended) {
                chosen.push((ended, Reason::Old));
            } else {
                others.push(ended);
            }
        }
        // A stable sort: of each kind the oldest stays first.
        others.sort_by_key(|ended| (!is_done(ended), ended.is_needed));
        let goes: u64 = chosen.iter().map(|(ended, _)| ended.bytes).sum();
        let mut bytes = contents.bytes.saturating_sub(goes);
        let least = room.map_or(0, |room| self.least(room));
        let mut free = room.map_or(0, |room| room.free).saturating_add(goes);
        for ended in others {
            let enough = match uploaded.prospect {
                _ if is_done(ended) => least,
                Prospect::None => least,
                Prospect::Doubtful => least / 2,
                Prospect::Good => 0,
            };
            let reason = if bytes > self.most_bytes {
                Reason::TooMany(bytes)
            } else if free < enough {
                Reason::NoRoom(free, least)
            } else {
                break;
            };
            chosen.push((ended, reason));
            bytes = bytes.saturating_sub(ended.bytes);
            free = free.saturating_add(ended.bytes);
        }
        chosen
    }

    /// Bytes to leave to others.
    fn least(&self, room: Room) -> u64 {
        self.least_free
            .unwrap_or_else(|| (room.all / FREE_SHARE).min(MOST_FREE))
    }

    /// The message about scarce space: once when it gets low and once when it is too low; again if there was plenty in between.
    fn tell(&mut self, room: Room, chosen: &[(&Ended, Reason)], uploaded: Uploaded<'_>) -> Option<String> {
        let least = self.least(room);
        let scarcity = match room.free {
            free if free < least => Scarcity::Low,
            free if free < least.saturating_mul(2) => Scarcity::Near,
            _ => Scarcity::Enough,
        };
        if room.free >= least.saturating_mul(3) {
            self.told = Scarcity::Enough;
        }
        if scarcity <= self.told {
            return None;
        }
        self.told = scarcity;
        let removes = chosen
            .iter()
            .any(|(_, reason)| matches!(reason, Reason::NoRoom(..)));
        let consequence = match scarcity {
            Scarcity::Low if removes => "less than keep.free: the oldest recordings are removed",
            Scarcity::Low => match uploaded.prospect {
                Prospect::None => "less than keep.free, and there is no recording that could be removed",
                _ => "less than keep.free: recordings are removed once they are uploaded",
            },
            _ => "with less than keep.free the oldest recordings are removed",
        };
        Some(format!(
            "the spool's file system has {:.1} MB free, keep.free is {:.1} MB; {consequence}",
            megabytes(room.free),
            megabytes(least)
        ))
    }

    /// Why it is removed, if that is reported.
    fn words(&self, ended: &Ended, reason: Reason, uploaded: Uploaded<'_>) -> Option<String> {
        let lost = match self.has_store && !uploaded.done.contains(&ended.path) {
            true => "; it was never uploaded, so its period is lost",
            false => "",
        };
        match reason {
            Reason::Stored => None,
            Reason::Empty => Some("its recorder was killed before it wrote anything".to_string()),
            Reason::Old => Some("it is too old".to_string()),
            Reason::TooMany(bytes) => Some(format!(
                "the spool holds {:.1} MB and its limit is {:.1}{lost}",
                megabytes(bytes),
                megabytes(self.most_bytes)
            )),
            Reason::NoRoom(free, least) => Some(format!(
                "the spool's file system has {:.1} MB free and keep.free is {:.1}{lost}",
                megabytes(free),
                megabytes(least)
            )),
        }
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;
    const HOUR: Duration = Duration::from_secs(3_600);

    /// Recordings of 10 MB each, the oldest first.
    fn contents(names: &[&str]) -> Contents {
        let ended = names.iter().map(|name| Ended::made_up(name, 10 * MB, 0));
        Contents {
            bytes: 10 * MB * names.len() as u64,
            ended: ended.collect(),
        }
    }

    fn paths(names: &[&str]) -> HashSet<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    /// A file system of 10 GB with this much free space. By default a twentieth, 500 MB, is left to others.
    fn room(free: u64) -> Option<Room> {
        Some(Room {
            free,
            all: 10_000 * MB,
        })
    }

    const ALL_THE_ROOM: u64 = 9_000 * MB;

    /// Names of what is removed, each with its reason.
    fn goes(
        retention: &Retention,
        contents: &Contents,
        uploaded: Uploaded<'_>,
        free: u64,
    ) -> Vec<(String, Reason)> {
        let chosen = retention.choose(contents, |_| Duration::ZERO, uploaded, room(free));
        let named = |(ended, reason): (&Ended, Reason)| (ended.path.display().to_string(), reason);
        chosen.into_iter().map(named).collect()
    }

    fn names(chosen: &[(String, Reason)]) -> Vec<&str> {
        chosen.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn with_too_little_room_what_is_uploaded_goes_first_then_the_oldest_and_no_more_than_is_missing() {
        let retention = Retention::new(&Keep::default(), true);
        let mut contents = contents(&["a", "b", "c", "d"]);
        // The last one in the store is kept for the running recorder.
        contents.ended[2].is_needed = true;
        let done = paths(&["c"]);
        let away = Uploaded {
            done: &done,
            under_way: None,
            prospect: Prospect::None,
        };
        let goes = |free: u64| goes(&retention, &contents, away, free);
        assert_eq!(goes(ALL_THE_ROOM), []);
        assert_eq!(goes(500 * MB), []);
        assert_eq!(
            goes(499 * MB),
            [("c".to_string(), Reason::NoRoom(499 * MB, 500 * MB))]
        );
        assert_eq!(names(&goes(485 * MB)), ["c", "a"]);
        assert_eq!(names(&goes(480 * MB)), ["c", "a"]);
        assert_eq!(names(&goes(479 * MB)), ["c", "a", "b"]);
        assert_eq!(names(&goes(0)), ["c", "a", "b", "d"]);
    }

    #[test]
    fn with_too_little_room_nothing_goes_that_the_store_takes() {
        let retention = Retention::new(&Keep::default(), true);
        let contents = contents(&["a", "b", "c"]);
        let done = paths(&[]);
        let under_way = Uploaded {
            done: &done,
            under_way: Some(Path::new("a")),
            prospect: Prospect::Good,
        };
        assert_eq!(goes(&retention, &contents, under_way, 0), []);
        let fails = |prospect: Prospect, free: u64| {
            let uploaded = Uploaded {
                under_way: None,
                prospect,
                ..under_way
            };
            goes(&retention, &contents, uploaded, free)
        };
        assert_eq!(fails(Prospect::Doubtful, 250 * MB), []);
        assert_eq!(names(&fails(Prospect::Doubtful, 249 * MB)), ["a"]);
        assert_eq!(names(&fails(Prospect::Doubtful, 0)), ["a", "b", "c"]);
        assert_eq!(names(&fails(Prospect::None, 499 * MB)), ["a"]);
        // The upload hangs, and the one being uploaded stays.
        let hangs = Uploaded {
            prospect: Prospect::None,
            ..under_way
        };
        assert_eq!(names(&goes(&retention, &contents, hangs, 0)), ["b", "c"]);
        // Too many of them are still too many.
        let keep = Keep {
            spool: 20 * MB,
            ..Keep::default()
        };
        let retention = Retention::new(&keep, true);
        let waits = Uploaded {
            under_way: None,
            ..under_way
        };
        assert_eq!(
            goes(&retention, &contents, waits, 0),
            [("a".to_string(), Reason::TooMany(30 * MB))]
        );
    }

    #[test]
    fn a_put_is_waited_for_minutes_and_an_earlier_failure_says_nothing_of_the_one_that_is_under_way() {
        let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
        for (put_for, failing_for, expected) in [
            (None, None, Prospect::Good),
            (minutes(4), None, Prospect::Good),
            (minutes(5), None, Prospect::None),
            (None, minutes(4), Prospect::Doubtful),
            (None, minutes(5), Prospect::None),
            (minutes(0), minutes(90), Prospect::Good),
            (minutes(5), minutes(90), Prospect::None),
        ] {
            assert_eq!(
                Prospect::of(put_for, failing_for),
                expected,
                "{put_for:?} {failing_for:?}"
            );
        }
    }

    #[test]
    fn beyond_its_size_what_a_recorder_needs_goes_last() {
        let keep = Keep {
            spool: 20 * MB,
            ..Keep::default()
        };
        let retention = Retention::new(&keep, false);
        let mut contents = contents(&["a", "b", "c", "d"]);
        contents.ended[0].is_needed = true;
        let done = paths(&[]);
        let none = Uploaded {
            done: &done,
            under_way: None,
            prospect: Prospect::None,
        };
        assert_eq!(
            names(&goes(&retention, &contents, none, ALL_THE_ROOM)),
            ["b", "c"]
        );
    }

    #[test]
    fn what_goes_anyway_makes_room_for_the_others() {
        let keep = Keep {
            spool: 20 * MB,
            ..Keep::default()
        };
        let retention = Retention::new(&keep, true);
        let mut contents = contents(&["a", "b", "c", "d"]);
        contents.ended[3].is_empty = true;
        let done = paths(&["b"]);
        let away = Uploaded {
            done: &done,
            under_way: None,
            prospect: Prospect::None,
        };
        assert_eq!(
            goes(&retention, &contents, away, 480 * MB),
            [
                ("b".to_string(), Reason::Stored),
                ("d".to_string(), Reason::Empty)
            ]
        );
        let chosen = retention.choose(&contents, |_| Duration::ZERO, away, None);
        assert_eq!(chosen.len(), 2, "unknown room is no reason");
    }

    #[test]
    fn without_a_store_what_is_too_old_goes_and_with_one_it_waits_for_it() {
        let keep = Keep {
            age: Some(HOUR),
            ..Keep::default()
        };
        let contents = contents(&["old", "at its age", "young"]);
        let age_of = |ended: &Ended| match ended.path.to_str() {
            Some("old") => HOUR + Duration::from_secs(1),
            Some("at its age") => HOUR,
            _ => Duration::ZERO,
        };
        let done = paths(&[]);
        let none = Uploaded {
            done: &done,
            under_way: None,
            prospect: Prospect::None,
        };
        let of = |has_store: bool| {
            let retention = Retention::new(&keep, has_store);
            let chosen = retention.choose(&contents, age_of, none, room(ALL_THE_ROOM));
            let named = |(ended, reason): (&Ended, Reason)| (ended.path.display().to_string(), reason);
            chosen.into_iter().map(named).collect::<Vec<_>>()
        };
        assert_eq!(of(false), [("old".to_string(), Reason::Old)]);
        assert_eq!(of(true), []);
    }

    #[test]
    fn the_least_room_is_a_twentieth_a_gigabyte_or_what_is_configured() {
        let of = |free: Option<u64>, all: u64| {
            let keep = Keep {
                free,
                ..Keep::default()
            };
            Retention::new(&keep, true).least(Room { free: 0, all })
        };
        assert_eq!(of(None, 10_000 * MB), 500 * MB);
        assert_eq!(of(None, 10_000_000 * MB), MOST_FREE);
        assert_eq!(of(Some(7 * MB), 10_000 * MB), 7 * MB);
    }

    #[test]
    fn scarce_room_is_told_early_and_once() {
        let mut retention = Retention::new(&Keep::default(), true);
        let done = paths(&[]);
        let works = Uploaded {
            done: &done,
            under_way: None,
            prospect: Prospect::Good,
        };
        let away = Uploaded {
            prospect: Prospect::None,
            ..works
        };
        let one = contents(&["a"]);
        let removes = [(&one.ended[0], Reason::NoRoom(0, 0))];
        let mut tell = |free: u64, chosen: &[(&Ended, Reason)], uploaded| {
            let room = room(free * MB).expect("it is known");
            retention.tell(room, chosen, uploaded).unwrap_or_default()
        };
        assert_eq!(tell(1_000, &[], works), "");
        let early = tell(999, &[], works);
        assert!(
            early.contains("999.0 MB free, keep.free is 500.0 MB; with less"),
            "{early}"
        );
        assert_eq!(tell(600, &[], works), "");
        let late = tell(499, &removes, away);
        assert!(late.ends_with("the oldest recordings are removed"), "{late}");
        assert_eq!(tell(400, &[], away), "");
        // There has not been plenty in between.
        assert_eq!(tell(1_200, &[], works), "");
        assert_eq!(tell(400, &[], works), "");
        assert_eq!(tell(1_500, &[], works), "");
        assert!(tell(400, &[], works).ends_with("once they are uploaded"));
        assert_eq!(tell(1_500, &[], works), "");
        assert!(tell(400, &[], away).ends_with("no recording that could be removed"));
    }
}
