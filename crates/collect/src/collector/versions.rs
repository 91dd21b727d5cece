//! Which version the database had since when: a server may come back as another one.

use dbtime_model::recording::{DatabaseMeta, LaterVersion};

/// Changes that are kept: the owner of a server may cause many.
const MOST: usize = 1_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Versions(DatabaseMeta);

impl Versions {
    /// As it was at the beginning.
    pub(super) fn begin(described: DatabaseMeta) -> Versions {
        Versions(described)
    }

    /// The database is as described from this moment on (microseconds since the Unix epoch).
    pub(super) fn see(&mut self, now_us: i64, described: &DatabaseMeta) {
        let Versions(known) = self;
        let is_same = known.versions().last() == Some(described.version.as_str());
        if is_same || known.later_versions.len() >= MOST {
            return;
        }
        // What was not known has become known.
        if known.version.is_empty() {
            known.version.clone_from(&described.version);
            known.executable.clone_from(&described.executable);
            return;
        }
        known.later_versions.push(LaterVersion {
            from_us: now_us,
            version: described.version.clone(),
            executable: described.executable.clone(),
        });
    }

    /// Drops what was before this moment.
    pub(super) fn forget_before(&mut self, us: i64) {
        let Versions(known) = self;
        *known = std::mem::take(known).between(us, i64::MAX);
    }

    /// Adds the versions to a description of the database as it is now.
    pub(super) fn add_to(&self, described: DatabaseMeta) -> DatabaseMeta {
        let Versions(known) = self;
        DatabaseMeta {
            version: known.version.clone(),
            executable: known.executable.clone(),
            later_versions: known.later_versions.clone(),
            ..described
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(version: &str) -> DatabaseMeta {
        DatabaseMeta {
            version: version.to_string(),
            executable: format!("/{version}/postgres"),
            ..DatabaseMeta::default()
        }
    }

    fn told(versions: &Versions) -> Vec<(i64, String)> {
        let meta = versions.add_to(described("as it is now"));
        let later = meta.later_versions.into_iter();
        let later = later.map(|later| (later.from_us, later.version));
        std::iter::once((0, meta.version)).chain(later).collect()
    }

    #[test]
    fn only_another_version_is_a_later_one() {
        let mut versions = Versions::begin(described("17.2"));
        versions.see(10, &described("17.2"));
        versions.see(20, &described("18.1"));
        versions.see(30, &described("18.1"));
        versions.see(40, &described("17.2"));
        let expected = |all: &[(i64, &str)]| -> Vec<(i64, String)> {
            all.iter()
                .map(|(us, version)| (*us, (*version).to_string()))
                .collect()
        };
        assert_eq!(
            told(&versions),
            expected(&[(0, "17.2"), (20, "18.1"), (40, "17.2")])
        );
        // A recording that begins then.
        versions.forget_before(30);
        assert_eq!(told(&versions), expected(&[(0, "18.1"), (40, "17.2")]));
        assert_eq!(
            versions.add_to(DatabaseMeta::default()).executable,
            "/18.1/postgres"
        );
    }

    #[test]
    fn what_was_not_known_is_no_other_version() {
        let mut versions = Versions::begin(described(""));
        versions.see(10, &described("19.0"));
        assert_eq!(told(&versions), [(0, "19.0".to_string())]);
    }
}
