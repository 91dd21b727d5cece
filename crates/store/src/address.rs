//! Where a store is and which part of it is selected: `s3://bucket/prefix?host=db1&from=2026-10-10T12:00:00Z`.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use dbtime_model::recording::Meta;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::cloud::{Bucket, Cloud};
use crate::error::StoreError;
use crate::folder::Folder;
use crate::layout::{MARK, StateName};
use crate::objects::Objects;
use crate::percent::decoded;

/// A store, and a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    place: Place,
    /// Which part of it.
    pub choice: Choice,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// A directory, by its path or as `file://…`.
    Folder(PathBuf),
    /// `s3://BUCKET/PREFIX`, `gs://…`, `az://CONTAINER/PREFIX`.
    Bucket {
        cloud: Cloud,
        bucket: String,
        prefix: String,
    },
}

/// Part of a store; all of it by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// Names of hosts; empty = all.
    pub hosts: Vec<String>,
    /// Data directories of servers; empty = all.
    pub servers: Vec<String>,
    /// Beginnings of names of recordings; empty = all.
    pub recordings: Vec<String>,
    /// First moment, microseconds since the Unix epoch; none = from the start.
    pub from_us: Option<i64>,
    /// First moment after the part; none = to the end.
    pub to_us: Option<i64>,
}

impl Address {
    /// Parses an address as typed. None: it is a recording, another file, or nothing, but no store.
    ///
    /// # Errors
    /// It names a store, but not a valid part of one; or what is there cannot be determined.
    pub fn recognise(typed: &OsStr) -> Result<Option<Address>, StoreError> {
        let Some((place, chosen)) = split(typed) else {
            return Ok(None);
        };
        if !place.contains("://") && !is_store(place)? {
            return Ok(None);
        }
        Address::of_parts(place, chosen).map(Some)
    }

    /// Parses an address that can only be that of a store, or of a part of one.
    ///
    /// # Errors
    /// The address, or the selected part, is not valid.
    pub fn to_list(typed: &OsStr) -> Result<Address, StoreError> {
        match split(typed) {
            Some((place, chosen)) => Address::of_parts(place, chosen),
            None => Address::to_put(typed),
        }
    }

    fn of_parts(place: &str, chosen: Option<&str>) -> Result<Address, StoreError> {
        Ok(Address {
            choice: chosen.map_or(Ok(Choice::default()), Choice::parse)?,
            place: Place::parse(place)?,
        })
    }

    /// Parses the address of a store that may not exist yet.
    ///
    /// # Errors
    /// It is not a valid address, or it selects a part of a store.
    pub fn to_put(typed: &OsStr) -> Result<Address, StoreError> {
        if let Some((place, Some(_))) = split(typed) {
            return Err(StoreError::Address(format!(
                "{}: this names a part of a store, for reading; to put recordings, name only the store: {place}",
                typed.display()
            )));
        }
        let place = match typed.to_str() {
            Some(text) => Place::parse(text)?,
            None => Place::Folder(typed.into()),
        };
        Ok(Address {
            place,
            choice: Choice::default(),
        })
    }

    /// Whether reading it again takes as long as reading it the first time.
    pub fn is_remote(&self) -> bool {
        match self.place {
            Place::Folder(_) => false,
            Place::Bucket { .. } => true,
        }
    }

    pub(crate) fn open(&self) -> Result<Box<dyn Objects>, StoreError> {
        let address = self.to_string();
        match &self.place {
            Place::Folder(path) => match Folder::open(path, &address) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => Err(StoreError::NotThere(address)),
                Err(e) => Err(StoreError::io(address, e)),
                Ok(folder) => Ok(Box::new(folder)),
            },
            Place::Bucket {
                cloud,
                bucket,
                prefix,
            } => match Bucket::open(*cloud, bucket, prefix, &address) {
                Err(e) => Err(StoreError::io(address, e)),
                Ok(bucket) => Ok(Box::new(bucket)),
            },
        }
    }

    /// Opens it for writing; also says whether nothing is there.
    pub(crate) fn open_or_make(&self) -> Result<(Box<dyn Objects>, bool), StoreError> {
        let address = self.to_string();
        match &self.place {
            Place::Folder(path) => {
                let failed = |e| StoreError::io(&address, e);
                let folder = Folder::open_or_make(path, &address).map_err(failed)?;
                let is_empty = folder.is_empty().map_err(failed)?;
                Ok((Box::new(folder), is_empty))
            }
            // Whatever else is in a bucket is none of our business.
            Place::Bucket { .. } => Ok((self.open()?, true)),
        }
    }
}

/// Splits an address into a place and the selected part. None: not UTF-8, so no part is selected.
fn split(typed: &OsStr) -> Option<(&str, Option<&str>)> {
    let text = typed.to_str()?;
    Some(match text.split_once('?') {
        // An existing path with a question mark in its name.
        Some(_) if Path::new(text).exists() => (text, None),
        Some((place, chosen)) => (place, Some(chosen)),
        None => (text, None),
    })
}

/// Whether a directory is marked as a store.
fn is_store(path: &str) -> Result<bool, StoreError> {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    match std::fs::metadata(Path::new(path).join(MARK)) {
        Ok(mark) => Ok(mark.is_file()),
        Err(e) if matches!(e.kind(), NotFound | NotADirectory | InvalidFilename) => Ok(false),
        // Other files in that directory could not be read either.
        Err(e) => Err(StoreError::io(path, e)),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Folder(path) => path.display().fmt(f),
            Place::Bucket {
                cloud,
                bucket,
                prefix,
            } => {
                let slash = if prefix.is_empty() { "" } else { "/" };
                write!(f, "{}://{bucket}{slash}{prefix}", cloud.scheme())
            }
        }
    }
}

impl Place {
    fn parse(text: &str) -> Result<Place, StoreError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Ok(Place::Folder(text.into()));
        };
        let cloud = Cloud::ALL.into_iter().find(|cloud| cloud.scheme() == scheme);
        match (scheme, cloud) {
            ("file", _) if rest.starts_with('/') => Ok(Place::Folder(rest.into())),
            ("file", _) => Err(StoreError::Address(format!("{text}: write file:///PATH"))),
            (_, Some(cloud)) => {
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
                if bucket.is_empty() || !bucket.chars().all(is_plain) {
                    return Err(StoreError::Address(format!(
                        "{text}: write {scheme}://BUCKET/PREFIX"
                    )));
                }
                Ok(Place::Bucket {
                    cloud,
                    bucket: bucket.to_string(),
                    prefix: prefix.trim_matches('/').to_string(),
                })
            }
            _ => Err(StoreError::Address(format!(
                "{text}: a store is a directory, file:///PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"
            ))),
        }
    }
}

impl Choice {
    /// Reads `host=db1&server=…&from=…&to=…&recording=…`; host, server and recording may be repeated.
    fn parse(text: &str) -> Result<Choice, StoreError> {
        let mut choice = Choice::default();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = decoded(value)
                .filter(|value| !value.is_empty())
                .ok_or_else(|| StoreError::Address(format!("'{part}' is empty")))?;
            match name {
                "host" => choice.hosts.push(value),
                "server" => choice.servers.push(value),
                "recording" => choice.recordings.push(value),
                "from" => choice.from_us = Some(moment(&value)?),
                "to" => choice.to_us = Some(moment(&value)?),
                _ => {
                    return Err(StoreError::Address(format!(
                        "'{part}': a part of a store is selected by host=, server=, from=, to= and recording="
                    )));
                }
            }
        }
        Ok(choice)
    }

    /// Narrowed by these options, as typed.
    ///
    /// # Errors
    /// `from` or `to` is not a time, or hosts or servers are selected twice.
    pub fn narrowed(
        mut self,
        hosts: &[String],
        servers: &[String],
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<Choice, StoreError> {
        for (what, typed, chosen) in [
            ("host", hosts, &mut self.hosts),
            ("server", servers, &mut self.servers),
        ] {
            if !typed.is_empty() {
                if !chosen.is_empty() {
                    return Err(StoreError::Address(format!(
                        "select {what}s with --{what} or in the address, not both"
                    )));
                }
                *chosen = typed.to_vec();
            }
        }
        if let Some(text) = from {
            let from = moment(text)?;
            self.from_us = Some(self.from_us.map_or(from, |other| other.max(from)));
        }
        if let Some(text) = to {
            let to = moment(text)?;
            self.to_us = Some(self.to_us.map_or(to, |other| other.min(to)));
        }
        Ok(self)
    }

    /// Whether a recording is of a selected server.
    pub(crate) fn takes_server(&self, meta: &Meta) -> bool {
        let directory = meta.database.data_directory.as_str();
        let is_it = |server: &String| server.trim_end_matches('/') == directory.trim_end_matches('/');
        self.servers.is_empty() || !directory.is_empty() && self.servers.iter().any(is_it)
    }

    /// Whether a recording, by its name, can have any of this part.
    pub(crate) fn takes(&self, name: &StateName) -> bool {
        const SECOND_US: i64 = 1_000_000;
        let is_named = |recording: &String| name.recording().starts_with(recording.as_str());
        (self.recordings.is_empty() || self.recordings.iter().any(is_named))
            && self
                .from_us
                .is_none_or(|from| from < name.to_s.saturating_mul(SECOND_US))
            && self
                .to_us
                .is_none_or(|to| to > name.from_s.saturating_mul(SECOND_US))
    }
}

/// Parses a moment, or a day, meaning its start in UTC. Microseconds since the Unix epoch.
fn moment(text: &str) -> Result<i64, StoreError> {
    let day = || -> Option<jiff::Timestamp> {
        // Anything after the day would be silently ignored.
        let date = text
            .parse::<Date>()
            .ok()
            .filter(|date| date.to_string() == text)?;
        Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    text.parse::<jiff::Timestamp>()
        .ok()
        .or_else(day)
        .map(|moment| moment.as_microsecond())
        .ok_or_else(|| {
            StoreError::Address(format!(
                "'{text}' is not a time: give one such as 2026-10-10T12:00:00Z, or a day (2026-10-10, from 0:00 UTC)"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_chosen_by_its_data_directory() {
        let on = |directory: &str| {
            let mut meta = Meta::default();
            meta.database.data_directory = directory.to_string();
            meta
        };
        let choice = Choice::parse("server=/srv/a/&server=/srv/b").expect("a choice");
        assert!(choice.takes_server(&on("/srv/a")) && choice.takes_server(&on("/srv/b")));
        assert!(!choice.takes_server(&on("/srv/ab")) && !choice.takes_server(&on("")));
        assert!(Choice::default().takes_server(&on("")));
    }

    #[test]
    fn parts_are_chosen_by_name() {
        let choice = Choice::parse(
            "host=db1&host=a%26b&server=/srv/a&from=2026-10-10&to=2026-10-10T12:00:00Z&recording=01",
        )
        .expect("a choice");
        assert_eq!(
            choice,
            Choice {
                hosts: vec!["db1".to_string(), "a&b".to_string()],
                servers: vec!["/srv/a".to_string()],
                recordings: vec!["01".to_string()],
                from_us: Some(1_791_590_400_000_000),
                to_us: Some(1_791_633_600_000_000),
            }
        );
        for wrong in [
            "hosts=db1",
            "host",
            "host=",
            "from=noon",
            "from=12s",
            "from=2026-10-10T12:00",
            "host=%4",
            "host=%FF",
        ] {
            let error = Choice::parse(wrong).expect_err(wrong).to_string();
            assert!(error.len() > 10, "{error}");
        }
    }

    #[test]
    fn what_is_typed_beside_leaves_more_out() {
        let choice = Choice::parse("host=db1&from=2026-10-10").expect("a choice");
        let narrowed = choice
            .clone()
            .narrowed(&[], &[], Some("2026-10-09"), Some("2026-10-11"));
        let narrowed = narrowed.expect("it can be narrowed");
        assert_eq!(narrowed.from_us, choice.from_us);
        assert!(narrowed.to_us.is_some());
        assert!(choice.narrowed(&["db2".to_string()], &[], None, None).is_err());
    }
}
