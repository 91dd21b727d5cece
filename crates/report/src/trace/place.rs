//! Waits by the object and the file that they were for. All times in microseconds.

use serde::Serialize;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use dbtime_model::CounterRow;
use dbtime_model::counter::oracle;

/// Waits of one event for one object or file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WaitPlace {
    /// `obj#` or `file#`; objects: −1 = none, 0 = undo.
    pub number: i64,
    /// Name of the event.
    pub event: String,
    /// Waits.
    pub waits: i128,
    /// Their time.
    pub us: i128,
    /// Blocks transferred, if the waits say so.
    pub blocks: i128,
}

/// Adds up counters to places.
#[derive(Default)]
pub(super) struct PlacesBuilder {
    objects: BTreeMap<(i64, String), WaitPlace>,
    files: BTreeMap<(i64, String), WaitPlace>,
}

impl PlacesBuilder {
    pub(super) fn add(&mut self, row: &CounterRow) {
        let sum = |place: &mut WaitPlace, which: usize| {
            *[&mut place.waits, &mut place.us, &mut place.blocks][which] += i128::from(row.value);
        };
        let kinds = [
            (
                &mut self.objects,
                [
                    oracle::OBJECT_WAITS,
                    oracle::OBJECT_WAIT_US,
                    oracle::OBJECT_BLOCKS,
                ],
            ),
            (
                &mut self.files,
                [oracle::FILE_WAITS, oracle::FILE_WAIT_US, oracle::FILE_BLOCKS],
            ),
        ];
        for (places, names) in kinds {
            for (which, name) in names.into_iter().enumerate() {
                let Some((number, event)) = row.name.strip_prefix(name).and_then(|rest| rest.split_once(':'))
                else {
                    continue;
                };
                let Ok(number) = number.parse() else { continue };
                let key = (number, event.to_string());
                sum(places.entry(key).or_default(), which);
            }
        }
    }

    /// Objects and files, longest time first.
    pub(super) fn finish(self) -> (Vec<WaitPlace>, Vec<WaitPlace>) {
        let sorted = |places: BTreeMap<(i64, String), WaitPlace>| {
            let mut places: Vec<WaitPlace> = places
                .into_iter()
                .map(|((number, event), place)| WaitPlace {
                    number,
                    event,
                    ..place
                })
                .collect();
            places.sort_by_key(|place| Reverse((place.us, place.waits)));
            places
        };
        (sorted(self.objects), sorted(self.files))
    }
}
