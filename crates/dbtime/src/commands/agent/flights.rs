//! The flight recorder: exact recordings for a while, when a condition is met, within a budget.
//!
//! One at a time: exact recording costs the database something (docs/safety.md), and the budget is per host.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use dbtime_collect::{RunningServer, running_servers};
use dbtime_model::output::Directory;

use super::budget::Budget;
use super::child::Child;
use super::conditions::{Condition, Recent};
use super::config::{Config, Flight};
use super::recorders::Recorded;
use super::spool::Spool;
use super::usual::Usual;
use crate::output::say;
use crate::record::{Measure, Watched};

/// With less of the budget left, attaching is not worthwhile.
pub(super) const SHORTEST: Duration = Duration::from_secs(10);
/// How much later than told a recorder may stop.
const ROUNDING: Duration = Duration::from_secs(1);
/// How long a recorder may take to attach, and to write what it knows.
const BESIDE: Duration = Duration::from_secs(120);
/// How long it may take to end when the agent ends.
const PATIENCE: Duration = Duration::from_secs(30);

/// See the module.
pub(super) struct Flights {
    flight: Flight,
    /// As an argument of `dbtime record`.
    text: Option<String>,
    /// Those of all conditions, each once.
    measures: Vec<Measure>,
    home: Directory,
    budget: Budget,
    usual: Usual,
    servers: HashMap<(u64, u64), Watch>,
    current: Option<Current>,
    told_of_budget: Option<Instant>,
}

#[derive(Default)]
struct Watch {
    recent: Recent,
    /// When the last exact recording was begun.
    last: Option<Instant>,
}

struct Current {
    child: Child,
    name: String,
    folder: PathBuf,
    length: Duration,
}

impl Flights {
    /// None if the configuration wants none.
    pub(super) fn new(config: &Config, spool: &Spool) -> anyhow::Result<Option<Flights>> {
        let Some(flight) = config.flight.clone() else {
            return Ok(None);
        };
        let home = spool.home()?;
        Ok(Some(Flights {
            text: config.record.text_option(),
            measures: flight.measures(),
            budget: Budget::new(flight.budget, &home),
            usual: Usual::new(&home),
            servers: HashMap::new(),
            current: None,
            told_of_budget: None,
            home,
            flight,
        }))
    }

    /// Adds a second of a server.
    pub(super) fn add(&mut self, server: &Recorded<'_>, second: Watched, spool: &Spool) {
        let folder = server.folder.file_name().unwrap_or_default().to_string_lossy();
        self.usual.add(&folder, &self.measures, &second, &self.home);
        let second_us = second.second_us;
        let watch = self.servers.entry(server.id).or_default();
        watch.recent.add(second);
        let is_over = |last: Instant| last.elapsed() >= self.flight.pause;
        if self.current.is_some() || !watch.last.is_none_or(is_over) {
            return;
        }
        let met = |condition: &Condition| {
            let number = self
                .measures
                .iter()
                .position(|measure| *measure == condition.what)?;
            let average = watch.recent.average(number, condition.seconds)?;
            let usual = self.usual.at(&folder, &condition.what, second_us);
            condition.met(average, usual)
        };
        let Some(why) = self.flight.when.iter().find_map(met) else {
            return;
        };
        let left = self.budget.left().saturating_sub(ROUNDING);
        let length = Duration::from_secs(self.flight.length.min(left).as_secs());
        if length < SHORTEST {
            return self.say_no_budget(server.name, &why);
        }
        // Also after a failure, which would repeat each second.
        watch.last = Some(Instant::now());
        match self.begin(server, &why, length, spool) {
            Ok(current) => {
                say(format_args!(
                    "{}: {why}: exact recording for {} s (pid {}), {} s of this hour's budget left",
                    server.name,
                    length.as_secs(),
                    current.child.pid(),
                    self.budget.left().as_secs()
                ));
                self.current = Some(current);
                self.told_of_budget = None;
            }
            Err(e) => say(format_args!("{}: {why}: no exact recording: {e:#}", server.name)),
        }
    }

    /// Checks whether the current one has ended. `has_recorder`: whether a server is still recorded.
    pub(super) fn look(&mut self, has_recorder: impl Fn((u64, u64)) -> bool) {
        self.servers.retain(|id, _| has_recorder(*id));
        let Some(current) = &mut self.current else {
            return;
        };
        let how = match current.child.ended() {
            Ok(None) => {
                current.child.limit(current.length + BESIDE);
                return;
            }
            Ok(Some(status)) if status.success() => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(e) => Some(e.to_string()),
        };
        if let Some(how) = how {
            say(format_args!(
                "{}: the exact recording failed ({how})",
                current.name
            ));
        }
        self.current = None;
    }

    /// The folder of the current one.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.current.as_ref().map(|current| current.folder.as_path())
    }

    /// Ends the current one, in good order.
    pub(super) fn end(self) {
        if let Some(current) = self.current {
            current.child.ask_to_end();
            current.child.wait(Instant::now() + PATIENCE);
        }
    }

    fn begin(
        &mut self,
        recorded: &Recorded<'_>,
        why: &str,
        length: Duration,
        spool: &Spool,
    ) -> anyhow::Result<Current> {
        // The server may have been restarted since its recorder was, with another pid.
        let is_it = |running: &RunningServer| running.directory_id == recorded.id;
        let running = running_servers();
        let server = running.iter().find(|running| is_it(running));
        let server = server.context("the server is not running")?;
        let name = recorded.name;
        let folder = spool.flights_of(server)?;
        self.budget.take(length + ROUNDING, &self.home)?;
        let begun = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
        let output = folder.join(format!("flight-{begun}.dbt"));
        let mut arguments = vec![
            "record".to_string(),
            "--pid".to_string(),
            server.pid.to_string(),
            format!("--exact={}", self.flight.exact_option()),
            "--duration".to_string(),
            format!("{}s", length.as_secs()),
            "--flight".to_string(),
            why.to_string(),
        ];
        if self.flight.wakers {
            arguments.push("--wakers".to_string());
        }
        if let Some(text) = &self.text {
            arguments.extend(["--text".to_string(), text.clone()]);
        }
        let arguments: Vec<&OsStr> = arguments
            .iter()
            .map(OsStr::new)
            .chain([OsStr::new("--output"), output.as_os_str()])
            .collect();
        Ok(Current {
            child: Child::start(&format!("{name}: exact"), &arguments)?,
            name: name.to_string(),
            folder,
            length,
        })
    }

    fn say_no_budget(&mut self, name: &str, why: &str) {
        const AN_HOUR: Duration = Duration::from_secs(3_600);
        if self.told_of_budget.is_none_or(|told| told.elapsed() >= AN_HOUR) {
            say(format_args!(
                "{name}: {why}: no exact recording: the {} s of this hour's budget are used up",
                self.flight.budget.as_secs()
            ));
            self.told_of_budget = Some(Instant::now());
        }
    }
}
