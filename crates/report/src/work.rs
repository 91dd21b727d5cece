//! Units of work: what times are divided by, so that recordings of different length and load can be compared.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use dbtime_model::latency::kind;
use dbtime_model::{CounterRow, LatencyRow, counter};

/// The wait whose ends count as requests.
const WAIT_FOR_CLIENT: &str = "Client:ClientRead";

/// What one unit of work is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkUnit {
    /// A transaction: counted by the database, or given by the user.
    Transaction,
    /// An execution of a statement that a client asked for, counted by the database or in an SQL trace.
    Execution,
    /// A request of a client: an end of its wait for the client, counted in the exact tiers.
    Request,
    /// A system call in a kernel trace.
    Call,
    /// A second of elapsed time.
    Second,
    /// A sample, if the source has no times.
    Sample,
    /// The whole recording.
    Run,
}

impl WorkUnit {
    /// Every unit, the preferred first.
    pub const ALL: [WorkUnit; 7] = [
        WorkUnit::Transaction,
        WorkUnit::Execution,
        WorkUnit::Request,
        WorkUnit::Call,
        WorkUnit::Second,
        WorkUnit::Sample,
        WorkUnit::Run,
    ];

    /// The word used on the command line and in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            WorkUnit::Transaction => "transaction",
            WorkUnit::Execution => "execution",
            WorkUnit::Request => "request",
            WorkUnit::Call => "call",
            WorkUnit::Second => "second",
            WorkUnit::Sample => "sample",
            WorkUnit::Run => "run",
        }
    }
}

impl fmt::Display for WorkUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for WorkUnit {
    type Err = String;

    fn from_str(name: &str) -> Result<WorkUnit, String> {
        WorkUnit::ALL
            .into_iter()
            .find(|unit| unit.as_str() == name)
            .ok_or_else(|| {
                format!(
                    "unknown unit of work '{name}': choose from {}",
                    WorkUnit::ALL.map(WorkUnit::as_str).join(", ")
                )
            })
    }
}

/// Work that a recording counted, by second. Only units that occur.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CountedWork(BTreeMap<WorkUnit, BTreeMap<i64, u128>>);

impl CountedWork {
    /// Adds a counter, if it counts work.
    pub(crate) fn add_counter(&mut self, row: &CounterRow) {
        let unit = match row.name.as_str() {
            counter::TRANSACTIONS => WorkUnit::Transaction,
            // Those of a trace include every depth.
            counter::EXECUTIONS if row.source != counter::ORACLE => WorkUnit::Execution,
            counter::oracle::OUTER_EXECUTIONS => WorkUnit::Execution,
            counter::TRACED_CALLS => WorkUnit::Call,
            _ => return,
        };
        self.add(unit, row.time, row.value.max(0).unsigned_abs());
    }

    /// Adds latencies, if they count work.
    pub(crate) fn add_latency(&mut self, row: &LatencyRow) {
        if *row.kind == *kind::WAIT && *row.name == *WAIT_FOR_CLIENT {
            self.add(WorkUnit::Request, row.time, row.count);
        }
    }

    fn add(&mut self, unit: WorkUnit, time: i64, count: u64) {
        if count > 0 {
            *self.0.entry(unit).or_default().entry(time).or_default() += u128::from(count);
        }
    }

    /// Drops a unit that is not counted well enough.
    pub(crate) fn drop(&mut self, unit: WorkUnit) {
        self.0.remove(&unit);
    }

    /// How much of it; 0 when it was not counted.
    pub(crate) fn count(&self, unit: WorkUnit) -> u128 {
        self.0.get(&unit).map_or(0, |seconds| seconds.values().sum())
    }

    /// How much of it in every second that had any.
    pub(crate) fn seconds(&self, unit: WorkUnit) -> Option<&BTreeMap<i64, u128>> {
        self.0.get(&unit)
    }

    /// The preferred unit that was counted.
    pub(crate) fn preferred(&self) -> Option<(WorkUnit, u128)> {
        self.0.keys().next().map(|unit| (*unit, self.count(*unit)))
    }
}
