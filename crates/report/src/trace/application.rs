//! Time by what applications say they are doing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use dbtime_model::counter::oracle;
use dbtime_model::{CounterRow, SessionId};
use serde::Serialize;

use super::CallView;
use crate::dimensions::Dimensions;

/// Sessions that give the same information about themselves; empty = not given.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Application {
    /// What they connected to.
    pub service: String,
    /// The program.
    pub module: String,
    /// What it is doing.
    pub action: String,
    /// For whom.
    pub client_id: String,
    /// Its part.
    #[serde(flatten)]
    pub time: ApplicationTime,
}

/// The part of an application. Parts sum to the whole trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ApplicationTime {
    /// PARSE, EXEC and FETCH calls of any depth.
    pub calls: i128,
    /// Its time.
    #[serde(flatten)]
    pub call_view: CallView,
}

impl Application {
    /// Whether it gives no information about itself.
    pub fn is_nameless(&self) -> bool {
        [&self.service, &self.module, &self.action, &self.client_id]
            .into_iter()
            .all(String::is_empty)
    }
}

/// Adds up counters to applications.
#[derive(Default)]
pub(super) struct ApplicationsBuilder(HashMap<SessionId, ApplicationTime>);

impl ApplicationsBuilder {
    pub(super) fn add(&mut self, row: &CounterRow) {
        let time = self.0.entry(row.session).or_default();
        time.call_view.add(row);
        if row.name == oracle::CALLS {
            time.calls += i128::from(row.value);
        }
    }

    pub(super) fn finish(self, dimensions: &mut Dimensions) -> Vec<Application> {
        let mut groups: BTreeMap<[String; 4], ApplicationTime> = BTreeMap::new();
        for (id, time) in self.0 {
            let session = dimensions.session(id);
            let names = [
                &session.service,
                &session.module,
                &session.action,
                &session.client_id,
            ];
            let group = groups.entry(names.map(String::clone)).or_default();
            group.calls += time.calls;
            group.call_view.merge(&time.call_view);
        }
        let mut applications: Vec<Application> = groups
            .into_iter()
            .map(|([service, module, action, client_id], time)| Application {
                service,
                module,
                action,
                client_id,
                time,
            })
            .collect();
        applications.sort_by_key(|one| Reverse((one.time.call_view.elapsed_us, one.time.call_view.idle_us)));
        applications
    }
}
