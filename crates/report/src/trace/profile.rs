//! The own time of each statement by wait event, with its own CPU. All times in microseconds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use dbtime_model::{Wait, WaitKind};
use serde::Serialize;

use crate::alike_statements::AlikeStatements;
use crate::dimensions::Dimensions;
use crate::fields;
use crate::scan::Activity;

/// A statement and where its own time went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatementProfile {
    /// See [`super::TracedStatement::id`].
    #[serde(serialize_with = "fields::id_if_known")]
    pub id: u64,
    /// Its name in the database.
    pub sql_id: Option<String>,
    /// See [`super::TracedStatement::hash_value`].
    #[serde(serialize_with = "fields::known")]
    pub hash_value: u64,
    /// CPU, unaccounted time and waits, longest first.
    pub events: Vec<ProfileEvent>,
}

/// Time of a statement in one event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProfileEvent {
    /// Name of the event; `CPU`; `unaccounted`.
    pub name: String,
    /// Whether it is a wait, not CPU or unaccounted.
    pub is_wait: bool,
    /// Whether the session waited for work.
    pub idle: bool,
    /// Waits.
    pub count: u128,
    /// Time.
    pub us: u128,
}

impl StatementProfile {
    /// Own time outside of idle waits.
    pub fn busy_us(&self) -> u128 {
        self.events
            .iter()
            .filter(|event| !event.idle)
            .map(|event| event.us)
            .sum()
    }

    /// Own time in idle waits.
    pub fn idle_us(&self) -> u128 {
        self.events
            .iter()
            .filter(|event| event.idle)
            .map(|event| event.us)
            .sum()
    }
}

/// Adds up activity to profiles.
#[derive(Default)]
pub(super) struct ProfilesBuilder(HashMap<(u64, Wait), (u128, u128)>);

impl ProfilesBuilder {
    pub(super) fn add(&mut self, activity: &Activity<'_>) {
        let key = (activity.row.statement, activity.wait.clone());
        let (ns, count) = self.0.entry(key).or_default();
        *ns += u128::from(activity.row.ns);
        *count += u128::from(activity.row.count);
    }

    /// Profiles, longest busy time first, then longest idle time.
    pub(super) fn finish(self, groups: &AlikeStatements, dimensions: &Dimensions) -> Vec<StatementProfile> {
        let mut of_statements: BTreeMap<u64, BTreeMap<Wait, (u128, u128)>> = BTreeMap::new();
        for ((statement, wait), (ns, count)) in self.0 {
            let waits = of_statements.entry(groups.of(statement)).or_default();
            let sum = waits.entry(wait).or_default();
            sum.0 += ns;
            sum.1 += count;
        }
        let event = |(wait, (ns, count)): (Wait, (u128, u128))| ProfileEvent {
            name: wait.event.to_string(),
            is_wait: wait.kind() == WaitKind::Event,
            idle: wait.idle,
            count,
            us: ns / 1_000,
        };
        let mut profiles: Vec<StatementProfile> = of_statements
            .into_iter()
            .map(|(id, waits)| {
                let mut events: Vec<ProfileEvent> = waits.into_iter().map(event).collect();
                events.sort_by_key(|event| Reverse((event.us, event.count)));
                StatementProfile {
                    id,
                    sql_id: dimensions.sql_id(id).map(str::to_string),
                    hash_value: dimensions.hash_value(id),
                    events,
                }
            })
            .collect();
        profiles.sort_by_key(|profile| Reverse((profile.busy_us(), profile.idle_us())));
        profiles
    }
}
