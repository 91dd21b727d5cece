//! What is counted. Few labels, each with few values: wait classes, states, states of sessions; never a statement or a name.
//!
//! The numbers are those of `dbtime report` for the same seconds: each second is asked what a report asks.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use dbtime_model::State;
use dbtime_model::recording::{Cost, Quality};
use dbtime_report::{Dimension, Filter, LedgerRow, Options, Report, Section, Source, printable, report};
use prometheus::core::{AtomicF64, AtomicU64, GenericCounter};
use prometheus::{CounterVec, GaugeVec, IntGauge, Opts, Registry, TextEncoder};

type Seconds = GenericCounter<AtomicF64>;
type Count = GenericCounter<AtomicU64>;

/// Wait classes that have a label of their own. Databases have some ten; what a file or an extension calls a class is bounded too.
const MOST_CLASSES: usize = 50;
/// Characters of the value of a label.
const MOST_CHARACTERS: usize = 256;
/// All others.
const OTHER_CLASSES: &str = "other";

/// See the module.
pub(super) struct Counters {
    registry: Registry,
    db_time: CounterVec,
    idle: CounterVec,
    background: CounterVec,
    seconds: Seconds,
    sessions: GaugeVec,
    cpus: IntGauge,
    about: GaugeVec,
    samples: Count,
    lost: Count,
    late_passes: Count,
    passes: Count,
    not_recorded: Count,
    recorder_cpu: Seconds,
    recorder_memory: IntGauge,
    until: IntGauge,
    before: Mutex<Before>,
}

/// What was counted by the last second.
#[derive(Default)]
struct Before {
    quality: Quality,
    cost: Cost,
    classes: BTreeSet<String>,
}

impl Counters {
    /// # Errors
    /// Two are called alike, which tests would show.
    pub(super) fn new() -> prometheus::Result<Counters> {
        let registry = Registry::new_custom(Some("dbtime".to_string()), None)?;
        let times = |name: &str, help: &str, labels: &[&str]| -> prometheus::Result<CounterVec> {
            let counter = CounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok(counter)
        };
        let gauges = |name: &str, help: &str, labels: &[&str]| -> prometheus::Result<GaugeVec> {
            let gauge = GaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok(gauge)
        };
        let gauge = |name: &str, help: &str| -> prometheus::Result<IntGauge> {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok(gauge)
        };
        let count = |name: &str, help: &str| -> prometheus::Result<Count> {
            let counter = Count::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok(counter)
        };
        let seconds = |name: &str, help: &str| -> prometheus::Result<Seconds> {
            let counter = Seconds::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok(counter)
        };
        Ok(Counters {
            db_time: times(
                "db_time_seconds_total",
                "Time in which sessions of clients worked or waited, by wait class and what the operating system says of it. Its rate is the average number of active sessions.",
                &["wait_class", "state"],
            )?,
            idle: times(
                "idle_seconds_total",
                "Time in which sessions of clients waited for a command, by the state that the database says they were in.",
                &["session_state"],
            )?,
            background: times(
                "background_seconds_total",
                "Time of processes that work for the server itself, idle or not.",
                &["wait_class", "state"],
            )?,
            seconds: seconds("recorded_seconds_total", "Seconds that have been counted.")?,
            sessions: gauges(
                "sessions",
                "Sessions that were there during the last second: of clients, and others.",
                &["kind"],
            )?,
            cpus: gauge(
                "cpus",
                "CPUs that dbtime may use: those of the host, unless its cgroup or affinity has fewer.",
            )?,
            about: gauges(
                "recorder_info",
                "What is recorded, and how.",
                &["version", "db_system_name", "db_version", "target", "tier"],
            )?,
            samples: count("samples_total", "Samples taken.")?,
            lost: count(
                "samples_lost_total",
                "Events lost because there was no room, and samples dropped because the session ran while it was read.",
            )?,
            passes: count("passes_total", "Passes of the sampler over all sessions.")?,
            late_passes: count(
                "passes_late_total",
                "Passes of the sampler that came more than one period late.",
            )?,
            not_recorded: count(
                "sessions_not_recorded_total",
                "Sessions for which the recorder had no room.",
            )?,
            recorder_cpu: seconds("recorder_cpu_seconds_total", "CPU that the recorder itself took.")?,
            recorder_memory: gauge(
                "recorder_memory_max_bytes",
                "Largest resident set of the recorder.",
            )?,
            until: gauge(
                "recorded_until_timestamp_seconds",
                "The end of the last second that has been counted, seconds since the Unix epoch.",
            )?,
            before: Mutex::default(),
            registry,
        })
    }

    /// Counts one second.
    ///
    /// # Errors
    /// The time that is asked for is not there, which it always is.
    pub(super) fn add(&self, source: &Source, second: &Filter) -> anyhow::Result<()> {
        let options = Options {
            filter: second.clone(),
            by: vec![Dimension::WaitClass, Dimension::SessionState],
            stacks: 0,
            ..Options::default()
        };
        let report = report(source, &options)?;
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        for row in &report.ledger.rows {
            self.add_row(row, &mut before.classes);
        }
        if let (Some(from_us), Some(to_us)) = (second.from_us, second.to_us) {
            self.seconds.inc_by((to_us - from_us) as f64 / 1e6);
            self.until.set(to_us / 1_000_000);
        }
        self.tell(&report);
        self.add_growth(&report, &mut before);
        Ok(())
    }

    fn add_row(&self, row: &LedgerRow, classes: &mut BTreeSet<String>) {
        let [class, session_state] = row.labels.as_slice() else {
            return;
        };
        let class = label(class);
        let class = match class.as_str() {
            class if classes.contains(class) => class,
            class if classes.len() < MOST_CLASSES => {
                classes.insert(class.to_string());
                class
            }
            _ => OTHER_CLASSES,
        };
        for state in State::ALL {
            let s = row.sums.state_ns(state) as f64 / 1e9;
            if s == 0.0 {
                continue;
            }
            let counter = match row.section {
                Section::DbTime => self.db_time.with_label_values(&[class, state.as_str()]),
                Section::Idle => self.idle.with_label_values(&[session_state]),
                Section::Background => self.background.with_label_values(&[class, state.as_str()]),
            };
            counter.inc_by(s);
        }
    }

    /// What is so now.
    fn tell(&self, report: &Report) {
        let meta = &report.meta;
        let of_clients = report
            .sessions
            .0
            .iter()
            .filter(|session| session.backend_type.is_foreground());
        let foreground = of_clients.count();
        let kinds = [
            ("client", foreground),
            ("background", report.sessions.0.len() - foreground),
        ];
        for (kind, sessions) in kinds {
            self.sessions.with_label_values(&[kind]).set(sessions as f64);
        }
        self.cpus.set(meta.host.cpus.into());
        let product = meta.database.product.to_lowercase();
        let about = [
            &meta.dbtime,
            &product,
            &meta.database.version,
            &meta.database.target,
            &meta.collector.tier,
        ]
        .map(|text| label(text));
        // A server that was upgraded has another version from then on.
        self.about.reset();
        self.about
            .with_label_values(&about.each_ref().map(String::as_str))
            .set(1.0);
        let memory = i64::try_from(meta.cost.max_rss_bytes).unwrap_or(i64::MAX);
        self.recorder_memory.set(memory);
    }

    /// What the recorder says of itself since it began.
    fn add_growth(&self, report: &Report, before: &mut Before) {
        let (now, cost) = (&report.meta.quality, &report.meta.cost);
        let grown = |of: fn(&Quality) -> u64| of(now).saturating_sub(of(&before.quality));
        self.samples.inc_by(grown(|quality| quality.samples));
        self.lost.inc_by(grown(|quality| quality.lost + quality.torn));
        self.passes.inc_by(grown(|quality| quality.passes));
        self.late_passes.inc_by(grown(|quality| quality.late_passes));
        self.not_recorded
            .inc_by(grown(|quality| quality.sessions_not_recorded));
        let cpu_ns = cost.cpu_ns.saturating_sub(before.cost.cpu_ns);
        self.recorder_cpu.inc_by(cpu_ns as f64 / 1e9);
        before.quality = now.clone();
        before.cost = cost.clone();
    }

    /// All of it, in the text format of Prometheus.
    ///
    /// # Errors
    /// A metric has no values, which tests would show.
    pub(super) fn text(&self) -> prometheus::Result<String> {
        // Not in the middle of a second.
        let _before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

/// What others wrote, as the value of a label: somebody may print it on a terminal.
fn label(text: &str) -> String {
    printable(text).chars().take(MOST_CHARACTERS).collect()
}
