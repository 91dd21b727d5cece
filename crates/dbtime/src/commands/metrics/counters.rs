//! The counters. Few labels, each with few values: wait classes, states, session states; never a statement or a name.
//!
//! The numbers are those of `dbtime report` for the same seconds: each second is asked what a report asks.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use dbtime_collect::Mechanism;
use dbtime_model::recording::{Cost, Quality};
use dbtime_model::{SessionState, State, Wait};
use dbtime_report::{Dimension, LedgerRow, Options, Report, Section, printable, report};
use prometheus::core::{AtomicF64, AtomicU64, GenericCounter};
use prometheus::{CounterVec, Gauge, GaugeVec, IntGauge, Opts, Registry, TextEncoder};

use crate::live::Snapshot;

type Seconds = GenericCounter<AtomicF64>;
type Count = GenericCounter<AtomicU64>;

/// Wait classes with a label of their own. Databases have about ten; classes from files and extensions are bounded too.
const MOST_CLASSES: usize = 50;
/// Most characters of a label's value.
const MOST_CHARACTERS: usize = 256;
/// The class in which PostgreSQL's background processes wait for work, and no client session does.
const ACTIVITY: &str = "Activity";
/// The class in which client sessions wait for a command.
const CLIENT: &str = "Client";
/// All others.
const OTHER_CLASSES: &str = "other";

/// See the module.
pub(super) struct Counters {
    registry: Registry,
    mechanism: Mechanism,
    db_time: CounterVec,
    idle: CounterVec,
    background: CounterVec,
    seconds: Seconds,
    not_counted: Seconds,
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
    until: Gauge,
    before: Mutex<Before>,
}

/// Totals up to the last second.
#[derive(Default)]
struct Before {
    quality: Quality,
    cost: Cost,
    missing_ns: u128,
    classes: BTreeSet<String>,
}

impl Counters {
    /// # Errors
    /// Two metrics have the same name, which tests would show.
    pub(super) fn new(mechanism: Mechanism) -> prometheus::Result<Counters> {
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
                "Time in which client sessions worked or waited, by wait class and OS state. Its rate is the average \
                number of active sessions.",
                &["wait_class", "state"],
            )?,
            idle: times(
                "idle_seconds_total",
                "Time in which client sessions waited for a command, by the state that the database reports for them.",
                &["session_state"],
            )?,
            background: times(
                "background_seconds_total",
                "Time of the server's background processes, idle or not.",
                &["wait_class", "state"],
            )?,
            seconds: seconds("recorded_seconds_total", "Seconds counted.")?,
            not_counted: seconds(
                "time_not_counted_seconds_total",
                "Time of sessions that is in no other counter because there was no room.",
            )?,
            sessions: gauges(
                "sessions",
                "Sessions seen during the last second: client sessions, and others.",
                &["kind"],
            )?,
            cpus: gauge("cpus", "CPUs of the host.")?,
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
            recorder_cpu: seconds(
                "recorder_cpu_seconds_total",
                "CPU time used by the recorder itself.",
            )?,
            recorder_memory: gauge(
                "recorder_memory_max_bytes",
                "Largest resident set size of the recorder.",
            )?,
            until: {
                let until = Gauge::new(
                    "recorded_until_timestamp_seconds",
                    "The end of the last second that has been counted, seconds since the Unix epoch.",
                )?;
                registry.register(Box::new(until.clone()))?;
                until
            },
            before: Mutex::default(),
            registry,
            mechanism,
        })
    }

    /// Counts one second.
    ///
    /// # Errors
    /// The time asked for does not exist, which never happens.
    pub(super) fn add(&self, second: &Snapshot) -> anyhow::Result<()> {
        let now = SystemTime::now();
        let options = Options {
            filter: second.time.clone(),
            by: vec![Dimension::WaitClass, Dimension::SessionState],
            stacks: 0,
            ..Options::default()
        };
        let report = report(&second.source, &options)?;
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        self.begin_series(&second.wait_classes, &mut before.classes);
        for row in &report.ledger.rows {
            self.add_row(row, &mut before.classes);
        }
        if let (Some(from_us), Some(to_us)) = (second.time.from_us, second.time.to_us) {
            self.seconds.inc_by((to_us - from_us) as f64 / 1e6);
            // Seconds are named by the clock as of dbtime's start, which stands still while the host is suspended and is not set with the
            // host's: only their age is taken from it.
            let age_us = report.meta.end_us - to_us;
            let now_us = now
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_micros() as i64);
            self.until.set(((now_us - age_us) as f64 / 1e3).round() / 1e3);
        }
        let missing_ns = second.missing_ns.saturating_sub(before.missing_ns);
        self.not_counted.inc_by(missing_ns as f64 / 1e9);
        before.missing_ns = second.missing_ns;
        self.tell(&report);
        self.add_growth(&report, &mut before);
        Ok(())
    }

    /// Series that are known to be possible begin with 0: the first growth of a series is only visible if it was 0 before.
    fn begin_series(&self, wait_classes: &[String], classes: &mut BTreeSet<String>) {
        if wait_classes.iter().all(|class| classes.contains(class)) && !classes.is_empty() {
            return;
        }
        let states: &[State] = match self.mechanism {
            Mechanism::Bpf => &[
                State::User,
                State::Kernel,
                State::Runnable,
                State::Disk,
                State::Sleep,
            ],
            Mechanism::Proc => &[State::Cpu, State::Runnable, State::Disk, State::Sleep],
        };
        let begin = |counter: &CounterVec, class: &str, states: &[State]| {
            for state in states {
                counter.with_label_values(&[class, state.as_str()]);
            }
        };
        for class in wait_classes.iter().map(String::as_str).chain([Wait::NONE]) {
            classes.insert(class.to_string());
            begin(&self.background, class, states);
            if class != ACTIVITY {
                begin(&self.db_time, class, states);
            }
        }
        // Time without a sample; and the postmaster, which has no wait event.
        classes.insert(Wait::UNKNOWN.to_string());
        let not_sampled = [State::Cpu, State::Runnable, State::Unknown];
        begin(&self.db_time, Wait::UNKNOWN, &not_sampled);
        begin(&self.background, Wait::UNKNOWN, &not_sampled);
        begin(&self.background, Wait::UNKNOWN, states);
        if wait_classes.is_empty() {
            // A process of no database has no others; the classes of a database that names its own are not known.
            begin(&self.db_time, Wait::UNKNOWN, states);
            return;
        }
        let without_cpu = Wait::event(CLIENT, "", true).without_cpu();
        begin(&self.db_time, &without_cpu.class_by_cpu(), &[State::Runnable]);
        for state in [
            SessionState::Idle,
            SessionState::IdleInTransaction,
            SessionState::IdleInFailedTransaction,
            SessionState::Active,
            SessionState::Disabled,
        ] {
            self.idle.with_label_values(&[state.as_str()]);
        }
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

    /// Sets the gauges.
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
        // After an upgrade, the server has another version.
        let version = meta.database.versions().last().unwrap_or_default();
        let about = [
            meta.dbtime.as_str(),
            product.as_str(),
            version,
            meta.database.target.as_str(),
            meta.collector.tier.as_str(),
        ]
        .map(label);
        self.about.reset();
        self.about
            .with_label_values(&about.each_ref().map(String::as_str))
            .set(1.0);
        let memory = i64::try_from(meta.cost.max_rss_bytes).unwrap_or(i64::MAX);
        self.recorder_memory.set(memory);
    }

    /// Adds what the recorder counted about itself.
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

    /// All metrics, in Prometheus's text format.
    ///
    /// # Errors
    /// A metric has no values, which tests would show.
    pub(super) fn text(&self) -> prometheus::Result<String> {
        // Not in the middle of adding a second.
        let _before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

/// Text from outside as the value of a label: it may be printed on a terminal.
fn label(text: &str) -> String {
    printable(text).chars().take(MOST_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use dbtime_model::Rows;
    use dbtime_model::recording::Meta;
    use dbtime_report::{Filter, Source};

    use super::*;

    /// Counts the second before the last of a recorder that was started at this time of the host's clock and has run for 7.5 s.
    fn counted(started_us: i64, missing_ns: u128) -> Counters {
        let meta = Meta {
            start_us: started_us,
            end_us: started_us + 7_500_000,
            ..Meta::default()
        };
        let classes = ["Activity", "BufferPin", "Client", "Extension", "IO", "IPC"];
        let more = ["InjectionPoint", "LWLock", "Lock", "Timeout"];
        let second = Snapshot {
            source: Source::memory(meta, Rows::default()),
            time: Filter {
                from_us: Some(started_us + 5_000_000),
                to_us: Some(started_us + 6_000_000),
                ..Filter::default()
            },
            missing_ns,
            wait_classes: [&classes[..], &more[..]]
                .concat()
                .into_iter()
                .map(str::to_string)
                .collect(),
            lock_uses: None,
        };
        let counters = Counters::new(Mechanism::Bpf).expect("names that differ");
        counters.add(&second).expect("a second");
        counters.add(&second).expect("a second");
        counters
    }

    #[test]
    fn the_end_of_the_last_second_goes_by_the_clock_as_it_is_now() {
        // A host whose clock was wrong when dbtime was started: it was 2001, or will be 2100.
        for started_us in [1_000_000_000_000_000, 4_102_444_800_000_000] {
            let counters = counted(started_us, 0);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            let age = now.as_secs_f64() - counters.until.get();
            assert!((1.499..10.0).contains(&age), "{age} s");
        }
    }

    #[test]
    fn what_is_missing_is_counted_once() {
        assert_eq!(counted(0, 2_500_000_000).not_counted.get(), 2.5);
    }

    #[test]
    fn series_that_can_come_are_there_before_they_have_any_time_and_are_not_too_many() {
        let text = counted(0, 0).text().expect("text");
        for series in [
            "dbtime_db_time_seconds_total{state=\"sleep\",wait_class=\"Lock\"} 0",
            "dbtime_db_time_seconds_total{state=\"runnable\",wait_class=\"Client (no CPU)\"} 0",
            "dbtime_db_time_seconds_total{state=\"unknown\",wait_class=\"unknown\"} 0",
            "dbtime_background_seconds_total{state=\"sleep\",wait_class=\"Activity\"} 0",
            "dbtime_idle_seconds_total{session_state=\"idle in transaction\"} 0",
            "dbtime_time_not_counted_seconds_total 0",
        ] {
            assert!(
                text.lines().any(|line| line == series),
                "{series} is not in {text}"
            );
        }
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        assert!(series <= 150, "{series}");
    }
}
