//! Which recording it is, and in which state: names in a store are made from this.

use dbtime_model::recording::{Clock, Meta};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::layout::{Host, StateName, VERSION};

/// Identity of a recording: the same in all its states, and whichever dbtime wrote it.
pub(crate) fn identity_of(meta: &Meta, host: &Host) -> Result<u64, String> {
    // What a recorder writes first. For an import, the files that it is of.
    let lines: Vec<u64> = meta.files.iter().map(|file| file.lines).collect();
    let end_us = (!meta.files.is_empty()).then_some(meta.end_us);
    // Without a time of day, files that had the same name one after the other are distinguished by their content.
    let is_timeless = !meta.files.is_empty() && meta.collector.clock != Clock::Utc;
    let rows = is_timeless.then_some(&meta.segments.rows);
    let (target, tier) = (&meta.database.target, &meta.collector.tier);
    // Recorders that begin a new recording every hour all do so at the same moment.
    let series = &meta.collector.series;
    hash(&(
        meta.start_us,
        end_us,
        series,
        target,
        tier,
        host.name(),
        lines,
        rows,
    ))
}

/// The name of a recording in its current state; `damaged` is what cannot be read of it. Its period is only known once its rows are.
pub(crate) fn name_of(meta: &Meta, host: Host, damaged: &[String]) -> Result<StateName, String> {
    let mut whole = meta.clone();
    // How it is laid out on disk.
    (whole.segments.last, whole.segments.merged) = (0, Vec::new());
    let program = (VERSION, env!("CARGO_PKG_VERSION"));
    Ok(StateName {
        identity: identity_of(meta, &host)?,
        version: hash(&(program, host.name(), &whole, damaged))?,
        host,
        from_s: 0,
        to_s: 0,
    })
}

fn hash(of: &impl Serialize) -> Result<u64, String> {
    Ok(xxh3_64(&serde_json::to_vec(of).map_err(|e| e.to_string())?))
}

#[cfg(test)]
mod tests {
    use dbtime_model::recording::ImportedFile;

    use super::*;

    fn of(meta: &Meta) -> u64 {
        identity_of(meta, &Host::new("db1").expect("a name")).expect("an identity")
    }

    fn import(clock: Clock) -> Meta {
        let mut meta = Meta {
            start_us: 5,
            end_us: 9,
            files: vec![ImportedFile {
                path: "a.trc".to_string(),
                lines: 7,
                ..ImportedFile::default()
            }],
            ..Meta::default()
        };
        meta.collector.clock = clock;
        meta.segments.rows.insert("activity".to_string(), 3);
        meta
    }

    #[test]
    fn an_import_is_the_same_whichever_dbtime_has_made_it() {
        let old = import(Clock::Utc);
        let mut new = old.clone();
        new.dbtime = "9.9".to_string();
        new.schema = "1.99".to_string();
        new.collector.engine = "said in other words".to_string();
        new.files[0].format = "said in other words".to_string();
        new.segments.rows.insert("counters".to_string(), 8);
        assert_eq!(of(&old), of(&new));
        let mut other = old.clone();
        other.files[0].lines = 8;
        assert_ne!(of(&old), of(&other));
        let mut other = old.clone();
        other.start_us = 6;
        assert_ne!(of(&old), of(&other));
    }

    #[test]
    fn what_two_recorders_begin_at_the_same_moment_is_told_apart() {
        let mut one = Meta::default();
        one.collector.series = "4711-1795407276000000".to_string();
        let mut other = one.clone();
        other.collector.series = "4712-1795407276000000".to_string();
        assert_ne!(of(&one), of(&other));
    }

    #[test]
    fn what_has_no_time_of_day_is_told_apart_by_what_is_in_it() {
        let one = import(Clock::None);
        let mut other = one.clone();
        other.segments.rows.insert("activity".to_string(), 4);
        assert_ne!(of(&one), of(&other));
    }

    #[test]
    fn a_recording_that_goes_on_is_another_state_of_the_same() {
        let early = Meta {
            start_us: 5,
            end_us: 9,
            ..Meta::default()
        };
        let late = Meta {
            end_us: 19,
            ..early.clone()
        };
        assert_eq!(of(&early), of(&late));
        let name = |meta, damaged: &[String]| {
            name_of(meta, Host::new("db1").expect("a name"), damaged).expect("a name")
        };
        assert_ne!(name(&early, &[]).version, name(&late, &[]).version);
        assert_ne!(
            name(&early, &[]).version,
            name(&early, &["a segment".to_string()]).version
        );
    }
}
