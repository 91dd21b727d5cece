//! Exact recordings of a flight recorder: next to the continuous recording, they would count time twice.

use dbtime_model::recording::Note;

use crate::address::Choice;
use crate::manifest::Manifest;
use crate::seams::{bound, chosen, moment, period};

/// Leaves them out, with notes that say where they are, unless recordings were selected by name or there are no others.
pub(crate) fn set_aside(manifests: Vec<Manifest>, choice: &Choice) -> (Vec<Manifest>, Vec<Note>) {
    let is_flight = |manifest: &Manifest| !manifest.meta.collector.flight.is_empty();
    if !choice.recordings.is_empty() || manifests.iter().all(is_flight) {
        return (manifests, Vec::new());
    }
    let (flights, others): (Vec<Manifest>, Vec<Manifest>) = manifests.into_iter().partition(is_flight);
    let mut notes = flights
        .iter()
        .filter_map(|flight| {
            let (from, to) = chosen(period(flight), choice)?;
            let text = format!(
                "{}: there is an exact recording from {} to {}, triggered by {}: see it with recording={}",
                flight.name.host.name(),
                moment(from),
                moment(to),
                flight.meta.collector.flight,
                flight.name.recording()
            );
            Some(Note { time_us: from, text })
        })
        .collect();
    bound(&mut notes, "exact recordings");
    (others, notes)
}

#[cfg(test)]
mod tests {
    use dbtime_model::recording::Meta;

    use super::*;
    use crate::layout::{Host, StateName};

    fn recording(start_s: i64, end_s: i64, flight: &str) -> Manifest {
        let mut meta = Meta {
            start_us: start_s * 1_000_000,
            end_us: end_s * 1_000_000,
            ..Meta::default()
        };
        meta.collector.flight = flight.to_string();
        Manifest {
            name: StateName {
                host: Host::new("db1").expect("a name"),
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

    #[test]
    fn they_count_only_where_they_are_meant() {
        let all = || {
            vec![
                recording(0, 3600, ""),
                recording(60, 120, "active 9"),
                recording(3600, 7200, ""),
            ]
        };
        let begins = |manifests: &[Manifest]| {
            manifests
                .iter()
                .map(|m| m.meta.start_us / 1_000_000)
                .collect::<Vec<_>>()
        };
        let (left, notes) = set_aside(all(), &Choice::default());
        assert_eq!(begins(&left), [0, 3600]);
        assert_eq!(notes.len(), 1);
        for words in [
            "db1",
            "00:01:00Z to 1970-01-01T00:02:00Z",
            "active 9",
            "recording=000000000000003c-",
        ] {
            assert!(notes[0].text.contains(words), "{words}: {}", notes[0].text);
        }
        // For another period, if selected by name, or if there are no others.
        let later = Choice {
            from_us: Some(200_000_000),
            ..Choice::default()
        };
        assert_eq!(set_aside(all(), &later).1, []);
        let chosen = Choice {
            recordings: vec!["0000".to_string()],
            ..Choice::default()
        };
        assert_eq!(begins(&set_aside(all(), &chosen).0), [0, 60, 3600]);
        let flights = vec![recording(60, 120, "active 9"), recording(200, 260, "active 8")];
        let (left, notes) = set_aside(flights, &Choice::default());
        assert_eq!((begins(&left), notes), (vec![60, 200], vec![]));
    }
}
