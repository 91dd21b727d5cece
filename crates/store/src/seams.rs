//! Where the recordings of a host do not join: gaps that none covers, and time that two cover.

use std::collections::BTreeMap;

use dbtime_model::recording::{Meta, Note};

use crate::address::Choice;
use crate::manifest::Manifest;

/// A gap of up to this, in microseconds, is only the time it takes to start the next recording.
const NO_GAP_US: i64 = 2_000_000;
/// A shorter overlap, in microseconds, is only the second in which one recording ended and the next began.
const NO_OVERLAP_US: i64 = 1_000_000;
/// Most notes of one kind in a report.
const MOST_NOTES: usize = 20;

/// Start and end, microseconds since the Unix epoch.
pub(crate) type Period = (i64, i64);

/// Gaps of more than `longest_us` between these periods, which are sorted by start.
pub(crate) fn gaps(periods: impl Iterator<Item = Period>, longest_us: i64) -> Vec<Period> {
    let mut gaps = Vec::new();
    let mut covered: Option<i64> = None;
    for (start, end) in periods {
        if let Some(covered) = covered
            && start.saturating_sub(covered) > longest_us
        {
            gaps.push((covered, start));
        }
        covered = Some(covered.map_or(end, |covered| covered.max(end)));
    }
    gaps
}

/// What a report of several recordings, sorted by start, says about the chosen period: gaps, and time that is counted twice.
pub(crate) fn notes(manifests: &[Manifest], choice: &Choice) -> [Vec<Note>; 2] {
    let mut hosts: BTreeMap<&str, Vec<&Manifest>> = BTreeMap::new();
    for manifest in manifests {
        hosts.entry(manifest.name.host.name()).or_default().push(manifest);
    }
    let (mut empty, mut twice) = (Vec::new(), Vec::new());
    for (host, recordings) in &hosts {
        let servers = servers(recordings);
        for (directory, period) in gaps_by_server(&servers) {
            if let Some((from, to)) = chosen(period, choice) {
                let of = match servers.len() > 1 && !directory.is_empty() {
                    true => format!("{host}, server on {directory}"),
                    false => (*host).to_string(),
                };
                let text = format!(
                    "{of}: nothing was recorded from {} to {}",
                    moment(from),
                    moment(to)
                );
                empty.push(Note { time_us: from, text });
            }
        }
        for (one, other, period) in overlaps(recordings) {
            if let Some((from, to)) = chosen(period, choice) {
                let text = format!(
                    "{host}: two recordings of one server overlap from {} to {}, and that time is counted twice: {} \
                    and {}; choose one of them with recording=",
                    moment(from),
                    moment(to),
                    one.name.recording(),
                    other.name.recording()
                );
                twice.push(Note { time_us: from, text });
            }
        }
    }
    bound(&mut empty, "times without a recording");
    bound(&mut twice, "overlaps");
    [empty, twice]
}

/// Recordings grouped by server, in the given order.
pub(crate) fn servers<'a>(recordings: &[&'a Manifest]) -> Vec<Vec<&'a Manifest>> {
    let mut servers: Vec<Vec<&Manifest>> = Vec::new();
    for recording in recordings {
        let of_same = |of: &&mut Vec<&Manifest>| is_same_server(&of[0].meta, &recording.meta);
        match servers.iter_mut().find(of_same) {
            Some(of_server) => of_server.push(recording),
            None => servers.push(vec![recording]),
        }
    }
    servers
}

/// Gaps of all servers, each with the data directory, sorted by start.
pub(crate) fn gaps_by_server<'a>(servers: &[Vec<&'a Manifest>]) -> Vec<(&'a str, Period)> {
    let mut all: Vec<(&str, Period)> = Vec::new();
    for of_server in servers {
        let directory = of_server[0].meta.database.data_directory.as_str();
        let gaps = gaps(of_server.iter().map(|recording| period(recording)), NO_GAP_US);
        all.extend(gaps.into_iter().map(|gap| (directory, gap)));
    }
    all.sort_by_key(|(_, gap)| *gap);
    all
}

/// From its start to its end.
pub(crate) fn period(manifest: &Manifest) -> Period {
    (manifest.meta.start_us, manifest.meta.end_us)
}

/// Pairs of recordings of one server that overlap, and when.
fn overlaps<'a>(recordings: &[&'a Manifest]) -> Vec<(&'a Manifest, &'a Manifest, Period)> {
    let mut found = Vec::new();
    // Recordings that have not ended when the next one starts.
    let mut open: Vec<&Manifest> = Vec::new();
    for recording in recordings {
        let (start, end) = period(recording);
        open.retain(|earlier| earlier.meta.end_us.saturating_sub(start) >= NO_OVERLAP_US);
        for earlier in &open {
            let until = earlier.meta.end_us.min(end);
            if until.saturating_sub(start) >= NO_OVERLAP_US && is_same_server(&earlier.meta, &recording.meta)
            {
                found.push((*earlier, *recording, (start, until)));
            }
        }
        open.push(recording);
    }
    found
}

/// Whether both are of one server. Imported files may be of different sessions: they are only if they are the same file.
fn is_same_server(one: &Meta, other: &Meta) -> bool {
    let (a, b) = (&one.database, &other.database);
    if !one.files.is_empty() || !other.files.is_empty() {
        return !one.files.is_empty() && !other.files.is_empty() && a.target == b.target;
    }
    let is_pid = |target: &str| target.starts_with("pid ");
    if a.target != b.target && is_pid(&a.target) && is_pid(&b.target) {
        return false;
    }
    match a.data_directory.is_empty() || b.data_directory.is_empty() {
        true => (&a.product, &a.executable) == (&b.product, &b.executable),
        false => a.data_directory == b.data_directory,
    }
}

/// The chosen part of a period.
pub(crate) fn chosen((from, to): Period, choice: &Choice) -> Option<Period> {
    let from = choice.from_us.map_or(from, |chosen| chosen.max(from));
    let to = choice.to_us.map_or(to, |chosen| chosen.min(to));
    (from < to).then_some((from, to))
}

/// Keeps the first notes, and adds how many more there are.
pub(crate) fn bound(notes: &mut Vec<Note>, what: &str) {
    let more = notes.len().saturating_sub(MOST_NOTES);
    if more > 0 {
        notes.truncate(MOST_NOTES);
        let time_us = notes.last().map_or(0, |note| note.time_us);
        let text = format!("and {more} more {what}: 'dbtime store list' shows all recordings");
        notes.push(Note { time_us, text });
    }
}

/// A moment as a user would type it.
pub(crate) fn moment(us: i64) -> String {
    jiff::Timestamp::from_microsecond(us).map_or_else(|_| us.to_string(), |moment| moment.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Host, StateName};

    const SECOND_US: i64 = 1_000_000;

    fn recording(host: &str, directory: &str, start_s: i64, end_s: i64) -> Manifest {
        let mut meta = Meta {
            start_us: start_s * SECOND_US,
            end_us: end_s * SECOND_US,
            ..Meta::default()
        };
        meta.database.data_directory = directory.to_string();
        Manifest {
            name: StateName {
                host: Host::new(host).expect("a name"),
                from_s: start_s,
                to_s: end_s,
                identity: start_s.cast_unsigned(),
                version: 0,
            },
            meta,
            damaged: vec![],
            files: vec![],
        }
    }

    fn texts(manifests: &[Manifest], choice: &Choice) -> Vec<String> {
        notes(manifests, choice)
            .into_iter()
            .flatten()
            .map(|note| note.text)
            .collect()
    }

    #[test]
    fn a_gap_is_time_in_which_no_recording_was_made() {
        assert_eq!(gaps([].into_iter(), NO_GAP_US), []);
        let all = [(0, 100), (10, 20), (101, 200), (300, 400)];
        let all = all.map(|(from, to)| (from * SECOND_US, to * SECOND_US));
        assert_eq!(
            gaps(all.into_iter(), NO_GAP_US),
            [(200 * SECOND_US, 300 * SECOND_US)]
        );
    }

    #[test]
    fn gaps_of_a_host_are_said_of_the_period_that_was_chosen() {
        let all = [
            recording("db1", "/a", 0, 100),
            recording("db2", "/a", 0, 400),
            recording("db1", "/a", 300, 400),
        ];
        let found = texts(&all, &Choice::default());
        assert_eq!(
            found,
            ["db1: nothing was recorded from 1970-01-01T00:01:40Z to 1970-01-01T00:05:00Z"]
        );
        let part = |from_s: i64, to_s: i64| Choice {
            from_us: Some(from_s * SECOND_US),
            to_us: Some(to_s * SECOND_US),
            ..Choice::default()
        };
        let found = texts(&all, &part(200, 350));
        assert!(
            found[0].ends_with("00:03:20Z to 1970-01-01T00:05:00Z"),
            "{found:?}"
        );
        assert!(texts(&all, &part(300, 400)).is_empty());
    }

    #[test]
    fn a_gap_of_one_server_is_said_though_another_one_was_recorded() {
        let all = [
            recording("db1", "/a", 0, 100),
            recording("db1", "/b", 0, 400),
            recording("db1", "/a", 300, 400),
        ];
        assert_eq!(
            texts(&all, &Choice::default()),
            ["db1, server on /a: nothing was recorded from 1970-01-01T00:01:40Z to 1970-01-01T00:05:00Z"]
        );
    }

    #[test]
    fn time_that_is_counted_twice_is_said() {
        let two = |other: &str, start_s| {
            [
                recording("db1", "/a", 0, 100),
                recording("db1", other, start_s, 200),
            ]
        };
        let found = texts(&two("/a", 90), &Choice::default());
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("counted twice") && found[0].contains("00:01:30Z to 1970-01-01T00:01:40Z"),
            "{found:?}"
        );
        assert!(
            texts(&two("/b", 90), &Choice::default()).is_empty(),
            "another server"
        );
        assert!(
            texts(&two("/a", 100), &Choice::default()).is_empty(),
            "one after the other"
        );
        let many: Vec<Manifest> = (0..30).map(|n| recording("db1", "/a", n, 1_000)).collect();
        let found = texts(&many, &Choice::default());
        assert_eq!(found.len(), MOST_NOTES + 1);
        assert!(found[MOST_NOTES].starts_with("and 415 more"), "{found:?}");
    }
}
