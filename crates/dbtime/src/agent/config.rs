//! What is wanted: a file of TOML, understood as a whole or refused with the line that is wrong.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use dbtime_collect::RATES_HZ;
use dbtime_store::{Address, check_host};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::arguments::{TextKind, parse_age, parse_resolution, parse_rotation};

/// Bytes of the file.
const LARGEST: u64 = 1 << 20;

/// See the module.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// Where recordings are made, and wait for the store.
    pub(super) spool: PathBuf,
    /// Where they are put; none: they stay in the spool.
    pub(super) store: Option<String>,
    /// The host's name in the store.
    pub(super) host: Option<String>,
    /// Data directories of the servers that are recorded; none: all.
    pub(super) servers: Option<Vec<PathBuf>>,
    #[serde(default)]
    pub(super) record: Record,
    #[serde(default)]
    pub(super) keep: Keep,
}

/// How it is recorded: as by the options of `dbtime record`.
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

impl Default for Record {
    fn default() -> Record {
        Record {
            rotate: Duration::from_secs(3_600),
            frequency: 99,
            resolution: 10,
            text: TextKind::Normalized,
        }
    }
}

/// What is too much. Only recordings that have ended are removed, the oldest first.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Keep {
    /// Bytes of all recordings in the spool.
    #[serde(deserialize_with = "bytes")]
    pub(super) spool: u64,
    /// How old recordings in the store, or without one in the spool, may be; none: as old as they get.
    #[serde(deserialize_with = "age")]
    pub(super) age: Option<Duration>,
}

impl Default for Keep {
    fn default() -> Keep {
        Keep {
            spool: 2_000_000_000,
            age: None,
        }
    }
}

impl Config {
    /// Reads the file. Nobody but root, or who runs the agent, may be able to write it: it says where root writes.
    ///
    /// # Errors
    /// It cannot be read or understood, or others may write it.
    pub(super) fn read(path: &Path) -> anyhow::Result<Config> {
        let name = || path.display().to_string();
        let file = File::open(path).with_context(name)?;
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
        Ok(config)
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

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    understood(from, parse_bytes)
}

/// `500MB`, `2 GB`: decimal, as reports count.
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
        assert_eq!((least.record.frequency, least.record.resolution), (99, 10));
        assert_eq!((least.store, least.keep.age), (None, None));
        let all = Config::of(
            "spool = '/s'\nstore = 's3://bucket/fleet'\nhost = 'db1'\nservers = ['/srv/a']\n[record]\nrotate = '10m'\nfrequency = 19\n\
             resolution = '1m'\ntext = 'none'\n[keep]\nspool = '500 MB'\nage = '30d'",
        )
        .expect("it is understood");
        assert_eq!(all.record.rotate, Duration::from_secs(600));
        assert_eq!((all.record.resolution, all.record.text), (60, TextKind::None));
        assert_eq!(all.keep.spool, 500_000_000);
        assert_eq!(all.keep.age, Some(Duration::from_secs(30 * 86_400)));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, said) in [
            ("", "spool"),
            ("spool = 'x'", "absolute"),
            ("spool = '/s'\nhost = ''", "host"),
            ("spool = '/s'\nservers = ['main']", "absolute"),
            ("spool = '/s'\nspol = 1", "line 2"),
            ("spool = '/s'\n[record]\nrotate = '7m'", "line 3"),
            ("spool = '/s'\n[record]\nresolution = '7s'", "multiple"),
            ("spool = '/s'\n[record]\nfrequency = 0", "line 3"),
            ("spool = '/s'\n[keep]\nspool = '2 G'", "not a size"),
            ("spool = '/s'\n[keep]\nage = '5m'", "an hour or more"),
            ("spool = '/s'\nstore = 'ftp://x'", "store"),
        ] {
            let e = Config::of(text).expect_err(text);
            let all = format!("{e:#}");
            assert!(all.contains(said), "{text}: {all}");
        }
    }
}
