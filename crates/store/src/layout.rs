//! Names of objects. All paths in a store are built here, from checked parts; none is ever taken from an object.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::percent::{decoded, encoded};

/// Marks a store, and says which layout it has.
pub(crate) const MARK: &str = "dbtime-store.json";
/// Where manifests are.
pub(crate) const MANIFESTS: &str = "recordings";
/// The table in which each recording has a row. Since 1.1.
pub(crate) const ENTRIES: &str = "recordings";
/// Version of names and manifests. A reader accepts any minor version of its own major version.
pub(crate) const VERSION: &str = "1.1";

/// Whether names and manifests of this version can be read.
pub(crate) fn is_known_layout(version: &str) -> bool {
    let major = |version: &str| version.split('.').next().map(str::to_string);
    major(version) == major(VERSION)
}

/// Microseconds per second.
const SECOND_US: i64 = 1_000_000;
/// Microseconds per hour.
const HOUR_US: i64 = 3_600_000_000;
/// Most bytes in the name of a host: as in DNS.
const LONGEST_HOST: usize = 253;
/// How moments are written in names.
const MOMENT: &str = "%Y%m%dT%H%M%SZ";

/// Name of a host; in paths it is percent-encoded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Host(String);

impl Host {
    pub(crate) fn new(name: &str) -> Result<Host, String> {
        if name.is_empty() || name.len() > LONGEST_HOST {
            return Err(format!("a host name has 1 to {LONGEST_HOST} bytes"));
        }
        Ok(Host(name.to_string()))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    fn in_path(&self) -> String {
        encoded(&self.0)
    }

    /// The host of a folder of manifests.
    pub(crate) fn of_folder(name: &str) -> Option<Host> {
        let text = name.strip_prefix("host=")?;
        let host = Host::new(&decoded(text)?).ok()?;
        // Each name has exactly one path.
        (host.in_path() == text).then_some(host)
    }
}

/// An hour of the calendar, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hour {
    pub(crate) date: Date,
    pub(crate) hour: i8,
}

impl Hour {
    /// The hour of a moment, microseconds since the Unix epoch.
    pub(crate) fn of(us: i64) -> Result<Hour, String> {
        let moment = Timestamp::from_microsecond(us.div_euclid(HOUR_US).saturating_mul(HOUR_US));
        let moment = moment
            .map_err(|_| format!("a row has an impossible time ({us} µs since 1970)"))?
            .to_zoned(TimeZone::UTC);
        if moment.year() < 1 {
            return Err(format!("a row is of the year {}", moment.year()));
        }
        Ok(Hour {
            date: moment.date(),
            hour: moment.hour(),
        })
    }
}

/// A moment in a name: whole seconds since the Unix epoch.
fn moment(seconds: i64) -> Result<String, String> {
    let moment = Timestamp::from_second(seconds).map_err(|e| e.to_string())?;
    match moment.to_zoned(TimeZone::UTC).year() {
        1..=9999 => Ok(moment.strftime(MOMENT).to_string()),
        year => Err(format!("it is of the year {year}")),
    }
}

fn parse_moment(text: &str) -> Option<i64> {
    let time = jiff::civil::DateTime::strptime(MOMENT, text).ok()?;
    let seconds = time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
    (moment(seconds).ok()? == text).then_some(seconds)
}

/// Whether a host can have this name in a store.
///
/// # Errors
/// Why not.
pub fn check_host(name: &str) -> Result<(), String> {
    Host::new(name).map(drop)
}

/// A state of a recording: names its files and its manifest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StateName {
    pub(crate) host: Host,
    /// Whole seconds since the Unix epoch: no row is before it.
    pub(crate) from_s: i64,
    /// All rows are before it.
    pub(crate) to_s: i64,
    /// Which recording it is.
    pub(crate) identity: u64,
    /// Which state of it.
    pub(crate) version: u64,
}

impl StateName {
    /// Checks that its moments can be written.
    pub(crate) fn check(&self) -> Result<(), String> {
        moment(self.from_s).and(moment(self.to_s)).map(drop)
    }

    /// The value of the column `recording`, and what the names of its files begin with.
    pub(crate) fn recording(&self) -> String {
        format!("{:016x}-{:016x}", self.identity, self.version)
    }

    pub(crate) fn manifest(&self) -> String {
        // The moments are valid: they were checked or parsed before.
        let [from, to] = [self.from_s, self.to_s].map(|s| moment(s).unwrap_or_default());
        format!(
            "{}/{from}-{to}-{}.json",
            manifests_of(&self.host),
            self.recording()
        )
    }

    /// Parses what [`StateName::manifest`] returns.
    pub(crate) fn of_manifest(path: &str) -> Option<StateName> {
        let (host, name) = path.strip_prefix(MANIFESTS)?.strip_prefix('/')?.split_once('/')?;
        let parts: Vec<&str> = name.strip_suffix(".json")?.split('-').collect();
        let [from, to, identity, version] = parts[..] else {
            return None;
        };
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let name = StateName {
            host: Host::of_folder(host)?,
            from_s: parse_moment(from)?,
            to_s: parse_moment(to)?,
            identity: number(identity)?,
            version: number(version)?,
        };
        (name.manifest() == path).then_some(name)
    }

    /// Path of a file with rows of a table; `hour` for tables whose rows have a moment.
    pub(crate) fn file(&self, table: &str, date: Date, hour: Option<i8>, part: u32) -> String {
        let host = self.host.in_path();
        let recording = self.recording();
        let hour = hour.map(|hour| format!("/hour={hour:02}")).unwrap_or_default();
        format!("table={table}/date={date}{hour}/host={host}/{recording}.{part}.parquet")
    }

    /// Path of the row of the recording, under the day of the first moment in its name. Of several states of a recording, the one whose
    /// rank is last in text order counts, so a reader need not open anything to know which.
    pub(crate) fn entry(&self, rank: &str, is_flight: bool) -> String {
        // Valid, as in [`StateName::manifest`].
        let first = Hour::of(self.from_s.saturating_mul(SECOND_US));
        let date = first.map(|hour| hour.date).unwrap_or_default();
        let host = self.host.in_path();
        let (identity, version) = (self.identity, self.version);
        let flight = if is_flight { ".flight" } else { "" };
        format!(
            "table={ENTRIES}/date={date}/host={host}/{identity:016x}-{rank}-{version:016x}{flight}.parquet"
        )
    }

    /// Whether an object is a file of this state, or its row, by its path.
    pub(crate) fn has_file(&self, path: &str) -> bool {
        let is_own = || {
            let (folder, name) = path.strip_prefix("table=")?.rsplit_once('/')?;
            let (table, host) = folder.rsplit_once("/host=")?;
            let name = name.strip_suffix(".parquet")?;
            let is_own = match table.strip_prefix(ENTRIES) {
                Some(rest) if rest.starts_with('/') => {
                    let name = name.strip_suffix(".flight").unwrap_or(name);
                    let rank = name.strip_prefix(&format!("{:016x}-", self.identity))?;
                    rank.ends_with(&format!("-{:016x}", self.version))
                }
                _ => {
                    let part = name.strip_prefix(&self.recording())?.strip_prefix('.')?;
                    part.parse::<u32>().is_ok()
                }
            };
            Some(is_own && host == self.host.in_path())
        };
        is_own().unwrap_or(false)
    }
}

/// Folder of the manifests of a host.
pub(crate) fn manifests_of(host: &Host) -> String {
    format!("{MANIFESTS}/host={}", host.in_path())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From 2026-11-23 04:14:36 on, for an hour.
    fn name(host: &str) -> StateName {
        StateName {
            host: Host::new(host).expect("a name"),
            from_s: 1_795_407_276,
            to_s: 1_795_410_876,
            identity: 0x0123_4567_89ab_cdef,
            version: 7,
        }
    }

    #[test]
    fn names_are_read_as_they_were_written() {
        for host in ["db1", "db-1.example.org", "../../etc", "a/b c%", "grün", "."] {
            let name = name(host);
            let path = name.manifest();
            assert_eq!(path.matches('/').count(), 2, "{path}");
            assert_eq!(StateName::of_manifest(&path), Some(name), "{path}");
        }
    }

    #[test]
    fn what_was_not_written_so_is_no_name() {
        let good = name("db1").manifest();
        assert!(StateName::of_manifest(&good).is_some());
        for bad in [
            good.replace("db1", ""),
            good.replace("db1", "d%62"),
            good.replace("db1", "%2"),
            good.replace("db1", "%FF"),
            good.replace("db1", "a/../b"),
            good.replace("-0000000000000007", "-7"),
            good.replace("-0000000000000007", "-+000000000000007"),
            good.replace("cdef-", "CDEF-"),
            good.replace(".json", ""),
            good.replace("recordings", "table=activity"),
            good.replace('T', "t"),
        ] {
            assert_eq!(StateName::of_manifest(&bad), None, "{bad}");
        }
    }

    #[test]
    fn rows_lie_in_the_hour_of_their_moment() {
        let hour = |us| Hour::of(us).map(|hour| (hour.date.to_string(), hour.hour));
        assert_eq!(hour(0), Ok(("1970-01-01".to_string(), 0)));
        assert_eq!(hour(-1), Ok(("1969-12-31".to_string(), 23)));
        assert_eq!(hour(3_599_999_999), Ok(("1970-01-01".to_string(), 0)));
        assert_eq!(hour(3_600_000_000), Ok(("1970-01-01".to_string(), 1)));
        assert!(hour(i64::MAX).is_err() && hour(i64::MIN).is_err());
        let hour = Hour::of(1_795_407_276_000_000).expect("an hour");
        let file = name("db1").file("activity", hour.date, Some(hour.hour), 1);
        assert_eq!(
            file,
            "table=activity/date=2026-11-23/hour=04/host=db1/0123456789abcdef-0000000000000007.1.parquet"
        );
        assert!(name("db1").has_file(&file));
        let later = StateName {
            version: 8,
            ..name("db1")
        };
        assert!(!later.has_file(&file) && !name("db").has_file(&file));
        let entry = name("db1").entry("1f", false);
        assert_eq!(
            entry,
            "table=recordings/date=2026-11-23/host=db1/0123456789abcdef-1f-0000000000000007.parquet"
        );
        for entry in [entry, name("db1").entry("1f", true)] {
            assert!(name("db1").has_file(&entry), "{entry}");
            assert!(!later.has_file(&entry) && !name("db").has_file(&entry), "{entry}");
        }
        for other in [".1.parquet.x", ".x.parquet", "0.1.parquet"] {
            assert!(
                !name("db1").has_file(&file.replace(".1.parquet", other)),
                "{other}"
            );
        }
    }
}
