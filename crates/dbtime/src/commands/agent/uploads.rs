//! From the spool into the store, the oldest recording first; and what goes because it is too much or too old.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use dbtime_collect::host_description;

use super::backoff::Backoff;
use super::child::Child;
use super::config::Config;
use super::spool::{Contents, Ended, Spool};
use crate::output::say;
use crate::time_of_day::now_us;

/// How often it is looked what has ended.
const LOOK: Duration = Duration::from_secs(5);
/// After a recording could not be removed nothing is removed for so long.
const REMOVAL_PAUSE: Duration = Duration::from_secs(300);
/// A put or a prune that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(6 * 3_600);
/// How often old recordings are sought in the store.
const PRUNE: Duration = Duration::from_secs(3_600);
/// How long one that is under way may take to end when the agent ends. It does it again next time.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct Uploads {
    store: Option<String>,
    host: String,
    most_bytes: u64,
    oldest: Option<Duration>,
    next_look: Instant,
    /// None until something is known to be in the store.
    next_prune: Option<Instant>,
    put: Option<(Child, Ended)>,
    prune: Option<Child>,
    backoff: Backoff,
    /// Recordings that failed since one succeeded: the others are tried before them.
    failed: Vec<PathBuf>,
    /// Recordings that are in the store.
    done: HashSet<PathBuf>,
    next_removal: Instant,
}

impl Uploads {
    pub(super) fn new(config: &Config) -> Uploads {
        let now = Instant::now();
        Uploads {
            store: config.store.clone(),
            host: config.host.clone().unwrap_or_else(|| host_description().name),
            most_bytes: config.keep.spool,
            oldest: config.keep.age,
            next_look: now,
            next_prune: None,
            put: None,
            prune: None,
            backoff: Backoff::default(),
            failed: Vec::new(),
            done: HashSet::new(),
            next_removal: now,
        }
    }

    /// Goes on.
    ///
    /// `recorded`: folders into which recorders write now.
    pub(super) fn look(&mut self, spool: &Spool, recorded: &HashSet<PathBuf>) {
        let has_put = self.look_at_put();
        if let Some(prune) = &mut self.prune {
            prune.limit(LONGEST);
            if !matches!(prune.ended(), Ok(None)) {
                self.prune = None;
            }
        }
        if !has_put && Instant::now() < self.next_look {
            return;
        }
        self.next_look = Instant::now() + LOOK;
        let mut contents = spool.look(recorded);
        self.remove_what_is_done(spool, &mut contents);
        self.remove_old(spool, &mut contents);
        self.make_room(spool, &mut contents);
        if let Some(store) = self.store.clone() {
            self.begin_put(contents, &store);
            self.begin_prune(&store);
        }
    }

    /// Nothing is begun any more.
    pub(super) fn end(self) {
        let until = Instant::now() + PATIENCE;
        for child in self.put.map(|(child, _)| child).into_iter().chain(self.prune) {
            child.ask_to_end();
            child.wait(until);
        }
    }

    /// True when a recording has just come into the store.
    fn look_at_put(&mut self) -> bool {
        let Some((child, _)) = &mut self.put else {
            return false;
        };
        let is_put = match child.ended() {
            Ok(None) => {
                child.limit(LONGEST);
                return false;
            }
            Ok(Some(status)) => status.success(),
            Err(_) => false,
        };
        let Some((_, ended)) = self.put.take() else {
            return false;
        };
        if is_put {
            self.backoff.worked();
            self.failed.clear();
            self.next_prune.get_or_insert_with(Instant::now);
            self.done.insert(ended.path);
        } else {
            let pause = self.backoff.failed();
            say(format_args!(
                "{}: upload failed, kept in the spool; next attempt in {} s",
                ended.path.display(),
                pause.as_secs()
            ));
            self.failed.push(ended.path);
        }
        is_put
    }

    /// What is in the store, or was never begun, goes; the last one once the next has ended.
    fn remove_what_is_done(&mut self, spool: &Spool, contents: &mut Contents) {
        let there: HashSet<&PathBuf> = contents.ended.iter().map(|ended| &ended.path).collect();
        self.done.retain(|path| there.contains(path));
        if Instant::now() < self.next_removal {
            return;
        }
        let mut removed = 0;
        let done = &self.done;
        contents.ended.retain(|ended| {
            let goes = ended.is_empty || done.contains(&ended.path) && !ended.is_needed;
            if !goes {
                return true;
            }
            if ended.is_empty {
                say(format_args!(
                    "{}: removed, its recorder was killed before it had written anything",
                    ended.path.display()
                ));
            }
            removed += ended.bytes;
            if !remove(spool, ended) {
                self.next_removal = Instant::now() + REMOVAL_PAUSE;
            }
            false
        });
        contents.bytes = contents.bytes.saturating_sub(removed);
    }

    /// Without a store the spool is all there is.
    fn remove_old(&self, spool: &Spool, contents: &mut Contents) {
        let Some(oldest) = self.oldest.filter(|_| self.store.is_none()) else {
            return;
        };
        let limit_us = now_us().saturating_sub(i64::try_from(oldest.as_micros()).unwrap_or(i64::MAX));
        while let Some(ended) = contents.ended.first()
            && ended.end_us < limit_us
        {
            say(format_args!("{}: removed, it is too old", ended.path.display()));
            contents.bytes = contents.bytes.saturating_sub(ended.bytes);
            remove(spool, &contents.ended.remove(0));
        }
    }

    fn make_room(&self, spool: &Spool, contents: &mut Contents) {
        let is_being_put = |ended: &Ended| self.put.as_ref().is_some_and(|(_, put)| put.path == ended.path);
        while contents.bytes > self.most_bytes
            && let Some(place) = contents.ended.iter().position(|ended| !is_being_put(ended))
        {
            let ended = contents.ended.remove(place);
            say(format_args!(
                "{}: removed, the spool holds {:.1} MB and its limit is {:.1}{}",
                ended.path.display(),
                contents.bytes as f64 / 1e6,
                self.most_bytes as f64 / 1e6,
                match self.store {
                    Some(_) if !self.done.contains(&ended.path) =>
                        "; it was never uploaded, so its period is lost",
                    _ => "",
                }
            ));
            contents.bytes = contents.bytes.saturating_sub(ended.bytes);
            remove(spool, &ended);
        }
    }

    fn begin_put(&mut self, contents: Contents, store: &str) {
        if self.put.is_some() || !self.backoff.is_over() {
            return;
        }
        let failed = |ended: &Ended| self.failed.iter().position(|path| *path == ended.path);
        // Those that have not failed, then those that failed longest ago.
        let Some(next) = contents
            .ended
            .into_iter()
            .filter(|ended| !self.done.contains(&ended.path))
            .min_by_key(|ended| failed(ended).map_or(0, |n| n + 1))
        else {
            return;
        };
        self.failed.retain(|path| *path != next.path);
        let path = next.path.as_os_str();
        let arguments = ["store", "put", "--host", &self.host].map(OsStr::new);
        let arguments: Vec<&OsStr> = arguments
            .into_iter()
            .chain([OsStr::new("--"), path, OsStr::new(store)])
            .collect();
        match Child::start("store", &arguments) {
            Ok(child) => self.put = Some((child, next)),
            Err(e) => say(format_args!("store: {e}")),
        }
    }

    fn begin_prune(&mut self, store: &str) {
        let is_due = self.next_prune.is_some_and(|moment| Instant::now() >= moment);
        let Some(oldest) = self.oldest.filter(|_| self.prune.is_none() && is_due) else {
            return;
        };
        self.next_prune = Some(Instant::now() + PRUNE);
        let age = format!("{}s", oldest.as_secs());
        let arguments = [
            "store",
            "prune",
            "--host",
            &self.host,
            "--older-than",
            &age,
            "--",
            store,
        ];
        match Child::start("store", &arguments.map(OsStr::new)) {
            Ok(child) => self.prune = Some(child),
            Err(e) => say(format_args!("store: {e}")),
        }
    }
}

fn remove(spool: &Spool, ended: &Ended) -> bool {
    spool
        .remove(ended)
        .inspect_err(|e| say(format_args!("{}: cannot be removed: {e}", ended.path.display())))
        .is_ok()
}
