//! The configuration: a TOML file, accepted as a whole or rejected with the line that is wrong.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use dbtime_collect::{RATES_HZ, wait_classes};
use dbtime_model::choice::did_you_mean;
use dbtime_store::{Address, check_host};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::conditions::{Condition, LONGEST};
use super::flights::SHORTEST;
use crate::options::time::{parse_age, parse_resolution, parse_rotation, parse_seconds};
use crate::options::{ExactLevel, TextKind};
use crate::record::Measure;

/// Most bytes of the file.
const LARGEST: u64 = 1 << 20;
/// Each costs something for each row.
const MOST_CONDITIONS: usize = 20;
/// Half of the default of `dbtime record`: recording never stops, so there are enough samples, at two thirds of the cost.
const FREQUENCY: u32 = 49;

/// See the module.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// Where recordings are made, and wait for the store.
    pub(super) spool: PathBuf,
    /// Where they are uploaded; none: they stay in the spool.
    pub(super) store: Option<String>,
    /// The host's name in the store.
    pub(super) host: Option<String>,
    /// Data directories of the servers that are recorded; none: all.
    pub(super) servers: Option<Vec<PathBuf>>,
    #[serde(default)]
    pub(super) record: Record,
    #[serde(default)]
    pub(super) keep: Keep,
    /// Exact recordings for a while; none: sampled ones only.
    pub(super) flight: Option<Flight>,
}

/// How to record: as with the options of `dbtime record`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Record {
    /// Length of a recording.
    #[serde(deserialize_with = "rotation")]
    pub(super) rotate: Duration,
    #[serde(deserialize_with = "frequency")]
    pub(super) frequency: u32,
    #[serde(deserialize_with = "resolution")]
    pub(super) resolution: u32,
    #[serde(deserialize_with = "text")]
    pub(super) text: TextKind,
}

impl Record {
    /// As an argument of `dbtime record`.
    pub(super) fn text_option(&self) -> Option<String> {
        name(&self.text)
    }
}

impl Default for Record {
    fn default() -> Record {
        Record {
            rotate: Duration::from_secs(3_600),
            frequency: FREQUENCY,
            resolution: 10,
            text: TextKind::Normalized,
        }
    }
}

/// What is too much to keep. Only recordings that have ended are removed, the oldest first.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Keep {
    /// Bytes of all recordings in the spool.
    #[serde(deserialize_with = "bytes")]
    pub(super) spool: u64,
    /// Bytes left to others on the spool's file system; none: see [`super::retention`].
    #[serde(deserialize_with = "free")]
    pub(super) free: Option<u64>,
    /// How old recordings may get in the store or, without one, in the spool; none: no limit.
    #[serde(deserialize_with = "age")]
    pub(super) age: Option<Duration>,
}

impl Default for Keep {
    fn default() -> Keep {
        Keep {
            spool: 2_000_000_000,
            free: None,
            age: None,
        }
    }
}

/// When exact recordings are made, how, and for how long.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Flight {
    /// Of a single one.
    #[serde(default = "a_minute", deserialize_with = "length")]
    pub(super) length: Duration,
    /// Of all on the host within any hour.
    #[serde(default = "five_minutes", deserialize_with = "budget")]
    pub(super) budget: Duration,
    /// After one, there is none of the same server for this long.
    #[serde(default = "ten_minutes", deserialize_with = "pause")]
    pub(super) pause: Duration,
    #[serde(default = "at_switches", deserialize_with = "exact")]
    exact: ExactLevel,
    /// Note who ends each sleep.
    #[serde(default)]
    pub(super) wakers: bool,
    /// One of them is enough.
    pub(super) when: Vec<Condition>,
}

impl Flight {
    /// What has to be watched, each once.
    pub(super) fn measures(&self) -> Vec<Measure> {
        let mut measures: Vec<Measure> = Vec::new();
        for Condition { what, .. } in &self.when {
            if !measures.contains(what) {
                measures.push(what.clone());
            }
        }
        measures
    }

    /// As an argument of `dbtime record`.
    pub(super) fn exact_option(&self) -> String {
        name(&self.exact).unwrap_or_default()
    }
}

fn a_minute() -> Duration {
    Duration::from_secs(60)
}

fn five_minutes() -> Duration {
    Duration::from_secs(300)
}

fn ten_minutes() -> Duration {
    Duration::from_secs(600)
}

fn at_switches() -> ExactLevel {
    ExactLevel::Switch
}

/// Its name on the command line.
fn name(value: &impl clap::ValueEnum) -> Option<String> {
    value
        .to_possible_value()
        .map(|value| value.get_name().to_string())
}

impl Config {
    /// Reads the file. Only root, or whoever runs the agent, may have write access: it says where root writes.
    ///
    /// # Errors
    /// It cannot be read or understood, or others can write it.
    pub(super) fn read(path: &Path) -> anyhow::Result<Config> {
        let name = || path.display().to_string();
        let file = match File::open(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => bail!(
                "{}: no such file: name the configuration with --config (docs/agent.md)",
                name()
            ),
            opened => opened.with_context(name)?,
        };
        let metadata = file.metadata().with_context(name)?;
        let own = rustix::process::geteuid().as_raw();
        if !metadata.is_file() {
            bail!("{}: not a file", name());
        }
        if ![0, own].contains(&metadata.uid()) || metadata.mode() & 0o022 != 0 {
            bail!(
                "{}: must be owned by root and not writable by group or others (owner uid {}, mode {:o})",
                name(),
                metadata.uid(),
                metadata.mode() & 0o7777
            );
        }
        let mut text = String::new();
        file.take(LARGEST + 1)
            .read_to_string(&mut text)
            .with_context(name)?;
        if text.len() as u64 > LARGEST {
            bail!("{}: longer than {} MB", name(), LARGEST >> 20);
        }
        Config::of(&text).with_context(name)
    }

    fn of(text: &str) -> anyhow::Result<Config> {
        let config: Config = toml::from_str(text)?;
        if !config.spool.is_absolute() {
            bail!("spool: must be an absolute path, as in \"/var/lib/dbtime\"");
        }
        if let Some(store) = &config.store {
            Address::to_put(store.as_ref()).context("store")?;
        }
        if let Some(host) = &config.host {
            check_host(host).map_err(anyhow::Error::msg).context("host")?;
        }
        if config.servers.as_ref().is_some_and(Vec::is_empty) {
            bail!("servers: the list is empty; leave it out to record every server of the host");
        }
        if config
            .servers
            .iter()
            .flatten()
            .any(|directory| !directory.is_absolute())
        {
            bail!("servers: must be absolute paths, as in [\"/var/lib/postgresql/15/main\"]");
        }
        if !config
            .record
            .rotate
            .as_secs()
            .is_multiple_of(config.record.resolution.into())
        {
            bail!("record.rotate: must be a multiple of record.resolution");
        }
        if let Some(flight) = &config.flight {
            if !(1..=MOST_CONDITIONS).contains(&flight.when.len()) {
                bail!("flight.when: must have 1 to {MOST_CONDITIONS} conditions");
            }
            if flight.length >= flight.budget {
                bail!("flight.length: must be less than flight.budget");
            }
        }
        Ok(config)
    }
}

/// Whole seconds in this range.
fn seconds<'de, D: Deserializer<'de>>(from: D, range: RangeInclusive<u64>) -> Result<u64, D::Error> {
    understood(from, |text| {
        let time = parse_seconds(text)?;
        match time.subsec_nanos() == 0 && range.contains(&time.as_secs()) {
            true => Ok(time.as_secs()),
            false => Err(format!("must be {}s to {}s", range.start(), range.end())),
        }
    })
}

fn length<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    seconds(from, SHORTEST.as_secs()..=1_800).map(Duration::from_secs)
}

fn budget<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    seconds(from, SHORTEST.as_secs() + 1..=3_600).map(Duration::from_secs)
}

fn pause<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    seconds(from, 1..=86_400).map(Duration::from_secs)
}

/// Seconds that a condition is averaged over.
pub(super) fn short<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let seconds = seconds(from, 1..=LONGEST.into())?;
    u32::try_from(seconds).map_err(D::Error::custom)
}

fn exact<'de, D: Deserializer<'de>>(from: D) -> Result<ExactLevel, D::Error> {
    understood(from, |text| clap::ValueEnum::from_str(text, false))
}

pub(super) fn watched<'de, D: Deserializer<'de>>(from: D) -> Result<Measure, D::Error> {
    understood(from, |text| {
        let measure: Measure = text.parse()?;
        let classes = wait_classes();
        match &measure {
            Measure::Wait { class, .. } if !classes.iter().any(|known| known.eq_ignore_ascii_case(class)) => {
                let classes: Vec<&str> = classes.into_iter().collect();
                let guess = did_you_mean(class, &classes);
                Err(format!(
                    "no wait class '{class}'; choose from {}{guess}",
                    classes.join(", ")
                ))
            }
            _ => Ok(measure),
        }
    })
}

/// Sessions that are too many.
pub(super) fn over<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    number(from, 0.0)
}

pub(super) fn times<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    number(from, 1.0).map(Some)
}

fn number<'de, D: Deserializer<'de>>(from: D, least: f64) -> Result<f64, D::Error> {
    let number = f64::deserialize(from)?;
    match number.is_finite() && number >= least {
        true => Ok(number),
        false => Err(D::Error::custom(format!("must be {least} or more"))),
    }
}

fn understood<'de, D: Deserializer<'de>, T>(
    from: D,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map_err(D::Error::custom)
}

fn rotation<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    understood(from, parse_rotation)
}

fn resolution<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    understood(from, parse_resolution)
}

fn text<'de, D: Deserializer<'de>>(from: D) -> Result<TextKind, D::Error> {
    understood(from, |text| clap::ValueEnum::from_str(text, false))
}

fn frequency<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let rate = u32::deserialize(from)?;
    match RATES_HZ.contains(&rate) {
        true => Ok(rate),
        false => Err(D::Error::custom(format!(
            "must be {} to {}",
            RATES_HZ.start(),
            RATES_HZ.end()
        ))),
    }
}

fn age<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    understood(from, parse_age).map(Some)
}

fn free<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    bytes(from).map(Some)
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    understood(from, parse_bytes)
}

/// `500MB`, `2 GB`: decimal, as in reports.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let units = [("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)];
    let (number, unit) = units
        .into_iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))
        .ok_or("not a size: give it as \"500MB\" or \"2 GB\"")?;
    number
        .trim()
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit))
        .filter(|&bytes| bytes > 0)
        .ok_or_else(|| "not a size: give it as \"500MB\" or \"2 GB\"".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_has_a_value_and_all_of_it_can_be_said() {
        let least = Config::of("spool = \"/var/lib/dbtime\"").expect("it is enough");
        assert_eq!((least.record.frequency, least.record.resolution), (49, 10));
        assert_eq!((least.store, least.keep.age, least.keep.free), (None, None, None));
        let all = Config::of(
            "spool = '/s'\nstore = 's3://bucket/fleet'\nhost = 'db1'\nservers = ['/srv/a']\n[record]\nrotate = '10m'\nfrequency = 19\n\
             resolution = '1m'\ntext = 'none'\n[keep]\nspool = '500 MB'\nfree = '3 GB'\nage = '30d'",
        )
        .expect("it is understood");
        assert_eq!(all.record.rotate, Duration::from_secs(600));
        assert_eq!((all.record.resolution, all.record.text), (60, TextKind::None));
        assert_eq!(
            (all.keep.spool, all.keep.free),
            (500_000_000, Some(3_000_000_000))
        );
        assert_eq!(all.keep.age, Some(Duration::from_secs(30 * 86_400)));
        let config = Config::of(
            "spool = '/s'\n[flight]\nlength = '30s'\nbudget = '10m'\nexact = 'calls'\nwakers = true\n[[flight.when]]\nwhat = 'active'\n\
             above = 16\n[[flight.when]]\nwhat = 'wait=io'\nabove = 0.5\ntimes_usual = 3\nfor = '1m'\n[[flight.when]]\nwhat = 'active'\nabove = 9",
        );
        let flight = config.expect("it is understood").flight.expect("it is there");
        assert_eq!(
            (flight.length, flight.budget),
            (Duration::from_secs(30), Duration::from_secs(600))
        );
        assert_eq!((flight.exact_option().as_str(), flight.wakers), ("calls", true));
        let seconds: Vec<u32> = flight.when.iter().map(|condition| condition.seconds).collect();
        assert_eq!(seconds, [5, 60, 5]);
        assert_eq!(flight.when[1].times_usual, Some(3.0));
        assert_eq!(flight.measures().len(), 2);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, said) in [
            ("", "spool"),
            ("spool = 'x'", "absolute"),
            ("spool = '/s'\nhost = ''", "host"),
            ("spool = '/s'\nservers = ['main']", "absolute"),
            ("spool = '/s'\nservers = []", "list is empty"),
            ("spool = '/s'\nspol = 1", "line 2"),
            ("spool = '/s'\n[record]\nrotate = '7m'", "line 3"),
            ("spool = '/s'\n[record]\nresolution = '7s'", "multiple"),
            ("spool = '/s'\n[record]\nfrequency = 0", "line 3"),
            ("spool = '/s'\n[keep]\nspool = '2 G'", "not a size"),
            ("spool = '/s'\n[keep]\nfree = '5 %'", "not a size"),
            ("spool = '/s'\n[keep]\nage = '5m'", "an hour or more"),
            ("spool = '/s'\nstore = 'ftp://x'", "store"),
            ("spool = '/s'\n[flight]\nlength = '30s'", "when"),
            ("spool = '/s'\n[flight]\nwhen = []", "1 to 20"),
            (
                "spool = '/s'\n[[flight.when]]\nwhat = 'wait=Lok'\nabove = 1",
                "Did you mean 'Lock'",
            ),
            (
                "spool = '/s'\n[[flight.when]]\nwhat = 'load'\nabove = 1",
                "line 3",
            ),
            ("spool = '/s'\n[[flight.when]]\nwhat = 'active'", "above"),
            (
                "spool = '/s'\n[[flight.when]]\nwhat = 'active'\nabove = -1",
                "0 or more",
            ),
            (
                "spool = '/s'\n[[flight.when]]\nwhat = 'active'\nabove = nan",
                "0 or more",
            ),
            (
                "spool = '/s'\n[[flight.when]]\nwhat = 'active'\nabove = 1\ntimes_usual = 0.5",
                "1 or more",
            ),
            (
                "spool = '/s'\n[[flight.when]]\nwhat = 'active'\nabove = 1\nfor = '10m'",
                "1s to 300s",
            ),
            (
                "spool = '/s'\n[flight]\nlength = '5m'\n[[flight.when]]\nwhat = 'active'\nabove = 1",
                "less than",
            ),
        ] {
            let e = Config::of(text).expect_err(text);
            let all = format!("{e:#}");
            assert!(all.contains(said), "{text}: {all}");
        }
    }
}
