//! The answer: what differs, by how much, and how sure that is.

use std::sync::Arc;

use arcstr::ArcStr;
use dbtime_model::recording::Meta;
use dbtime_model::{State, Wait};
use serde::{Serialize, Serializer};

use crate::causes::CausePart;
use crate::fields;
use crate::function::Function;
use crate::histogram::Histogram;
use crate::scan::Period;
use crate::statement_counts::{CountedBy, CountedStatement};
use crate::sums::FidelityMix;
use crate::work::WorkUnit;

/// Whether a difference is more than noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Beyond noise, and large enough to matter.
    Significant,
    /// Noise would show as much.
    Noise,
    /// Noise would not, but the halves of one side differ from each other by as much.
    Varies,
    /// Too small a part of DB time to be tested.
    Small,
    /// Too few slices of time to tell.
    NotTested,
    /// The host's time (run queue, scheduling, waking, interrupts): depends on what else ran there, which a recording of a
    /// database cannot tell.
    Host,
}

impl Verdict {
    /// The word used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Significant => "significant",
            Verdict::Noise => "noise",
            Verdict::Varies => "varies",
            Verdict::Small => "small",
            Verdict::NotTested => "not tested",
            Verdict::Host => "host",
        }
    }
}

/// Where a difference is.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// All of DB time.
    All,
    /// A cell of the ledger.
    Cell(Wait, State),
    /// A wait event.
    Wait(Wait),
    /// A function.
    Function(Arc<Function>),
    /// A call path, root first.
    Path(Vec<Arc<Function>>),
    /// A program, a library, a kernel module or subsystem.
    Module(String),
    /// A statement, by its id; 0 = time that belongs to none.
    Statement(u64),
}

/// A difference of time (of samples, if work is counted in them).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Where.
    #[serde(flatten, serialize_with = "crate::json::place")]
    pub place: Place,
    /// Nanoseconds (samples) of both sides, as recorded.
    #[serde(flatten, serialize_with = "recorded")]
    pub values: [u128; 2],
    /// Of these, time in the function itself, or at the end of the path; equal to `values` at other places.
    #[serde(flatten, serialize_with = "self_recorded")]
    pub self_values: [u128; 2],
    /// `values` per unit of work.
    #[serde(flatten, serialize_with = "good_and_bad")]
    pub per_unit: [f64; 2],
    /// Bad minus good, per unit of work: of `self_values` for functions, else of `values`.
    pub difference: f64,
    /// `difference` as a part of the larger DB time per unit, in percent.
    pub percent: f64,
    /// Whether that is more than noise.
    pub verdict: Verdict,
}

/// A difference of the time of one statement.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementChange {
    /// How much.
    pub change: Change,
    /// Its name in the database, if it has one (Oracle: `sql_id`).
    pub sql_id: Option<String>,
    /// Its text; none when it was not read.
    pub text: Option<String>,
    /// Where: cells of its own ledger, the largest difference first. They sum to `change`; they have no verdicts.
    pub cells: Vec<Change>,
    /// How often it was executed on each side, see [`Statements::counted_by`]; none where that is not known, or never.
    pub counted: [Option<CountedStatement>; 2],
    /// The same as calls per unit of what the times are divided by.
    pub calls_per_unit: [Option<f64>; 2],
    /// `change` per own execution, if the number of executions is known well enough on both sides.
    pub per_execution: Option<Change>,
}

/// Differences by statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Statements {
    /// What they are divided by: transactions if both sides counted them, else what everything is divided by.
    pub per: WorkUnit,
    /// Who counted the executions; none if a side does not know them.
    pub counted_by: Option<CountedBy>,
    /// Some executions of a side were not counted: the numbers are lower bounds.
    pub are_at_least: bool,
    /// What changed most and how, in a sentence; empty when no statement can be named.
    pub sentence: String,
    /// A statement is named, and changed by more than noise.
    pub is_certain: bool,
    /// DB time.
    pub total: Change,
    /// Every statement of either side, and what belongs to none; the largest difference first.
    pub changes: Vec<StatementChange>,
}

/// A difference of blocked time with the same cause.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseChange {
    /// How much, in which wait event.
    pub change: Change,
    /// What the waits were for: of BAD, or of GOOD if BAD has none. The session is one of several that did the same.
    pub cause: CausePart,
    /// How many such sessions each side has.
    pub sessions: [usize; 2],
    /// What the waiters executed; largest growth first. They sum to `change`.
    pub statements: Vec<WaitingStatement>,
}

/// A difference of the time that sessions waited while executing a statement.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingStatement {
    /// How much; it has no verdict.
    pub change: Change,
    /// Its text; none when it was not read.
    pub text: Option<String>,
}

/// Differences by who was waited for.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseChanges {
    /// The cause that explains the difference best, in a sentence; empty when none does.
    pub sentence: String,
    /// Blocked DB time.
    pub total: Change,
    /// Largest growth first, then what shrank most. They sum to `total`.
    pub changes: Vec<CauseChange>,
}

/// A difference of latencies of single events.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyChange {
    /// Kind of event.
    pub kind: String,
    /// Name of the event.
    pub name: String,
    /// Events per unit of work.
    #[serde(flatten, serialize_with = "per_unit")]
    pub per_unit: [f64; 2],
    /// Time per unit of work: bad minus good, nanoseconds.
    #[serde(rename = "difference_ns_per_unit")]
    pub difference: f64,
    /// Mean, p50, p95, p99.
    pub quantities: Vec<LatencyQuantity>,
    /// All events.
    #[serde(flatten, serialize_with = "histograms")]
    pub histograms: [Histogram; 2],
}

/// A quantity of a distribution.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyQuantity {
    /// `mean`, `p50`, `p95`, `p99`.
    pub name: &'static str,
    /// Nanoseconds; none without events.
    #[serde(flatten, serialize_with = "ns")]
    pub ns: [Option<f64>; 2],
    /// Whether they differ.
    pub verdict: Verdict,
}

/// A difference of a counter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CounterChange {
    /// Who counts.
    pub source: ArcStr,
    /// What.
    pub name: ArcStr,
    /// Growth on both sides.
    #[serde(flatten, serialize_with = "recorded")]
    pub values: [i128; 2],
    /// The same per unit of work.
    #[serde(flatten, serialize_with = "good_and_bad")]
    pub per_unit: [f64; 2],
    /// Whether they differ.
    pub verdict: Verdict,
}

/// Time of one stack on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct DiffStack {
    /// Wait event.
    pub wait: Wait,
    /// State.
    pub state: State,
    /// Root first.
    pub functions: Vec<Arc<Function>>,
    /// Nanoseconds (samples) of both sides, as recorded.
    pub values: [u128; 2],
    /// The same, with bad scaled to the amount of work that good did.
    pub scaled: [u64; 2],
}

/// What is known of one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DiffSide {
    /// What the recording says about itself.
    #[serde(serialize_with = "fields::meta")]
    pub meta: Meta,
    /// The time it covers.
    #[serde(flatten, serialize_with = "fields::period")]
    pub period: Period,
    /// DB time in nanoseconds.
    pub db_time_ns: u128,
    /// Samples of it.
    pub samples: u128,
    /// Units of work.
    pub work: f64,
    /// Slices of time that the test had to work with.
    pub slices: usize,
    /// How the times were obtained.
    pub fidelity: Option<FidelityMix>,
}

/// How differences were separated from noise.
#[derive(Debug, Clone, PartialEq)]
pub struct NoiseTest {
    /// Resamples of the bootstrap.
    pub resamples: usize,
    /// Probability of any false alarm.
    pub level: f64,
    /// Slices that each side must have.
    pub fewest_slices: usize,
    /// Differences below this part of the larger DB time per unit, the host's time excluded, are not tested.
    pub smallest_share: f64,
    /// Whether there were enough slices.
    pub tested: bool,
}

/// What changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// Good and bad.
    pub sides: [DiffSide; 2],
    /// By what everything is divided.
    pub unit: WorkUnit,
    /// The user said how much work there was.
    pub unit_is_told: bool,
    /// What makes the comparison doubtful.
    pub warnings: Vec<String>,
    /// The functions that both sides share take this many times as long per unit; 1 = the same, or not known.
    pub common_factor: f64,
    /// How differences were separated from noise.
    pub noise: NoiseTest,
    /// Throughput, as far as it is known, and DB time of both sides: the beginning of the first line.
    pub headline: String,
    /// The answer in a sentence.
    pub conclusion: String,
    /// By statement; none when one side does not know any.
    pub statements: Option<Statements>,
    /// By who was waited for; or the sides whose recordings do not have that.
    pub causes: Result<CauseChanges, Vec<&'static str>>,
    /// What else should be known about it; may be empty.
    pub whole: String,
    /// What only BAD does, and its part of BAD's DB time in percent.
    pub new_in_bad: Vec<(String, f64)>,
    /// DB time.
    pub total: Change,
    /// Cells of the ledger, the largest difference first.
    pub cells: Vec<Change>,
    /// Wait events, likewise.
    pub waits: Vec<Change>,
    /// Functions, by the difference in themselves.
    pub functions: Vec<Change>,
    /// Call paths below which the difference spreads out.
    pub paths: Vec<Change>,
    /// Modules.
    pub modules: Vec<Change>,
    /// Latencies of single events.
    pub latencies: Vec<LatencyChange>,
    /// Counters.
    pub counters: Vec<CounterChange>,
    /// Sources of counters that only one side recorded: these are not compared.
    pub counters_of_one_side: Vec<ArcStr>,
    /// Every stack of either side.
    pub stacks: Vec<DiffStack>,
    /// How many of each kind to show.
    pub top: usize,
    /// What could not be read.
    pub problems: Vec<String>,
}

impl Diff {
    /// What the difference is in: who was waited for, if that explains it, and what explains most of the rest.
    pub fn answer(&self) -> String {
        let cause = self.causes.as_ref().map_or("", |of| of.sentence.as_str());
        match cause {
            "" => self.conclusion.clone(),
            cause => format!("{cause} {}", self.conclusion),
        }
    }

    /// Whether anything is more than noise.
    pub fn is_significant(&self) -> bool {
        [
            &self.cells,
            &self.waits,
            &self.functions,
            &self.paths,
            &self.modules,
        ]
        .into_iter()
        .flatten()
        .chain(
            self.statements
                .iter()
                .flat_map(|of| &of.changes)
                .flat_map(|of| std::iter::once(&of.change).chain(&of.per_execution)),
        )
        .chain(
            self.causes
                .iter()
                .flat_map(|of| of.changes.iter().map(|of| &of.change)),
        )
        .any(|change| change.verdict == Verdict::Significant)
    }
}

fn recorded<T: Serialize, S: Serializer>(values: &[T; 2], to: S) -> Result<S::Ok, S::Error> {
    fields::pair(["good_recorded", "bad_recorded"], values, to)
}

fn self_recorded<S: Serializer>(values: &[u128; 2], to: S) -> Result<S::Ok, S::Error> {
    fields::pair(["good_self_recorded", "bad_self_recorded"], values, to)
}

fn good_and_bad<S: Serializer>(values: &[f64; 2], to: S) -> Result<S::Ok, S::Error> {
    fields::pair(["good", "bad"], values, to)
}

fn per_unit<S: Serializer>(values: &[f64; 2], to: S) -> Result<S::Ok, S::Error> {
    fields::pair(["good_per_unit", "bad_per_unit"], values, to)
}

fn ns<S: Serializer>(values: &[Option<f64>; 2], to: S) -> Result<S::Ok, S::Error> {
    fields::pair(["good_ns", "bad_ns"], values, to)
}

fn histograms<S: Serializer>(histograms: &[Histogram; 2], to: S) -> Result<S::Ok, S::Error> {
    let buckets = [&histograms[0], &histograms[1]].map(Histogram::power_of_two_us);
    fields::pair(["good_histogram", "bad_histogram"], &buckets, to)
}
