//! Uploads from the spool to the store, the oldest recording first; and removes from the store what is too old.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use dbtime_collect::host_description;

use super::ages::Ages;
use super::backoff::Backoff;
use super::child::Child;
use super::config::Config;
use super::retention::{Prospect, Retention, Uploaded};
use super::spool::{Contents, Ended, Spool};
use crate::output::say;

/// How often to look for recordings that have ended.
const LOOK: Duration = Duration::from_secs(5);
/// A put or a prune that takes longer is stuck.
const LONGEST: Duration = Duration::from_secs(6 * 3_600);
/// How often to look for old recordings in the store.
const PRUNE: Duration = Duration::from_secs(3_600);
/// How long one may take to end when the agent ends. It is repeated next time.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct Uploads {
    store: Option<String>,
    host: String,
    oldest: Option<Duration>,
    ages: Ages,
    retention: Retention,
    next_look: Instant,
    /// None until something is known to be in the store.
    next_prune: Option<Instant>,
    put: Option<(Child, Ended)>,
    prune: Option<Child>,
    backoff: Backoff,
    /// Recordings that failed since one succeeded: the others are tried first.
    failed: Vec<PathBuf>,
    /// Recordings that are in the store.
    done: HashSet<PathBuf>,
}

impl Uploads {
    /// # Errors
    /// There are too many open files.
    pub(super) fn new(config: &Config, spool: &Spool) -> anyhow::Result<Uploads> {
        Ok(Uploads {
            store: config.store.clone(),
            host: config.host.clone().unwrap_or_else(|| host_description().name),
            oldest: config.keep.age,
            ages: Ages::read(spool.home()?),
            retention: Retention::new(&config.keep, config.store.is_some()),
            next_look: Instant::now(),
            next_prune: None,
            put: None,
            prune: None,
            backoff: Backoff::default(),
            failed: Vec::new(),
            done: HashSet::new(),
        })
    }

    /// Takes the next step.
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
        let there: HashSet<&PathBuf> = contents.ended.iter().map(|ended| &ended.path).collect();
        self.done.retain(|path| there.contains(path));
        self.ages.look(&mut contents, self.oldest);
        // Before anything is removed to make room: only trying shows what the store accepts.
        if let Some(store) = self.store.clone() {
            self.begin_put(&mut contents, &store);
            self.begin_prune(&store);
        }
        let uploaded = Uploaded {
            done: &self.done,
            under_way: self.put.as_ref().map(|(_, ended)| ended.path.as_path()),
            prospect: match self.store {
                Some(_) => {
                    let put_for = self.put.as_ref().map(|(child, _)| child.age());
                    Prospect::of(put_for, self.backoff.failing_for())
                }
                None => Prospect::None,
            },
        };
        self.retention.look(spool, &contents, &self.ages, uploaded);
    }

    /// Nothing new is begun.
    pub(super) fn end(self) {
        let until = Instant::now() + PATIENCE;
        for child in self.put.map(|(child, _)| child).into_iter().chain(self.prune) {
            child.ask_to_end();
            child.wait(until);
        }
        self.ages.end();
    }

    /// True if a recording has just arrived in the store.
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

    /// Starts the next upload, and takes its recording out of the contents.
    fn begin_put(&mut self, contents: &mut Contents, store: &str) {
        if self.put.is_some() || !self.backoff.is_over() {
            return;
        }
        let failed = |ended: &Ended| self.failed.iter().position(|path| *path == ended.path);
        let waits = |ended: &Ended| !ended.is_empty && !self.done.contains(&ended.path);
        // Those that have not failed, then those that failed longest ago.
        let Some((place, _)) = contents
            .ended
            .iter()
            .enumerate()
            .filter(|(_, ended)| waits(ended))
            .min_by_key(|(_, ended)| failed(ended).map_or(0, |n| n + 1))
        else {
            return;
        };
        let next = contents.ended.remove(place);
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
        let age = format!("{}s", self.ages.older_than(oldest).as_secs());
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
