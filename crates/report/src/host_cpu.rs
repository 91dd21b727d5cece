//! Who used the host's CPUs: the server, other processes, the hypervisor, or nobody.

use std::collections::BTreeMap;

use dbtime_model::{CounterRow, counter};
use serde::Serialize;

use crate::filter::Filter;
use crate::sums::percent;

/// A smaller share of the CPUs' time, in percent, is not mentioned.
const WORTH_NAMING: f64 = 1.0;
/// Maximum number of processes that are named.
const NAMED: usize = 3;

/// What the CPUs of the host did in the period, whichever sessions the report is about. Nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostCpu {
    /// Elapsed time, summed over all CPUs.
    pub cpus_ns: u128,
    /// Used by recorded processes.
    pub server_ns: u128,
    /// Other processes, and interrupts: the remainder.
    pub others_ns: u128,
    /// Stolen by the hypervisor.
    pub stolen_ns: u128,
    /// Idle.
    pub idle_ns: u128,
    /// `others_ns` by samples, largest first; an empty name stands for all processes that have few. Empty without samples.
    pub others: Vec<OtherProcess>,
}

/// Processes of one name that are not recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OtherProcess {
    /// As the kernel has it (/proc/PID/comm).
    pub name: String,
    /// Samples in which they were on a CPU.
    pub samples: u128,
    /// Their share of the others' time.
    pub ns: u128,
}

impl HostCpu {
    /// For the first lines of a report.
    pub(crate) fn sentence(&self) -> String {
        let share = |ns| percent(ns, self.cpus_ns).unwrap_or(0.0);
        let named: Vec<String> = self
            .others
            .iter()
            .filter(|of| !of.name.is_empty() && share(of.ns) >= WORTH_NAMING)
            .take(NAMED)
            .map(|of| format!("{} {:.0} %", of.name, share(of.ns)))
            .collect();
        let named = match &named[..] {
            [] => String::new(),
            named => format!(" ({})", named.join(", ")),
        };
        let stolen = match share(self.stolen_ns) {
            few if few < WORTH_NAMING => String::new(),
            share => format!(", the hypervisor {share:.0} %"),
        };
        format!(
            "The server used {:.0} % of the host's CPUs, other processes {:.0} %{named}{stolen}; {:.0} % \
             was idle.",
            share(self.server_ns),
            share(self.others_ns),
            share(self.idle_ns),
        )
    }
}

/// Adds counters up to a [`HostCpu`].
#[derive(Default)]
pub(crate) struct HostCpuBuilder {
    cpus_ns: u128,
    idle_ns: u128,
    stolen_ns: u128,
    server_ns: u128,
    samples: BTreeMap<String, u128>,
}

impl HostCpuBuilder {
    /// The sessions that the filter chooses do not matter: CPUs are shared.
    pub(crate) fn add_counter(&mut self, row: &CounterRow, filter: &Filter) {
        if !filter.takes_time(row.time) {
            return;
        }
        let value = u128::try_from(row.value).unwrap_or(0);
        match (row.source.as_str(), row.name.as_str()) {
            (counter::KERNEL, counter::ON_CPU_NS) => self.server_ns += value,
            (counter::HOST, counter::host::CPUS_NS) => self.cpus_ns += value,
            (counter::HOST, counter::host::IDLE_NS) => self.idle_ns += value,
            (counter::HOST, counter::host::STOLEN_NS) => self.stolen_ns += value,
            (counter::HOST, name) => {
                if let Some(process) = name.strip_prefix(counter::host::SAMPLES) {
                    *self.samples.entry(process.to_string()).or_default() += value;
                }
            }
            _ => {}
        }
    }

    /// None when the host's CPU time was not recorded.
    pub(crate) fn finish(self) -> Option<HostCpu> {
        if self.cpus_ns == 0 {
            return None;
        }
        // The parts may exceed the whole: the clocks differ, and idle time comes in hundredths of a second.
        let left_ns = self
            .cpus_ns
            .saturating_sub(self.idle_ns + self.stolen_ns + self.server_ns);
        let all: u128 = self.samples.values().sum();
        let mut others: Vec<OtherProcess> = self
            .samples
            .into_iter()
            .map(|(name, samples)| OtherProcess {
                name,
                samples,
                ns: left_ns * samples / all.max(1),
            })
            .collect();
        others.sort_by_key(|of| std::cmp::Reverse(of.samples));
        Some(HostCpu {
            cpus_ns: self.cpus_ns,
            server_ns: self.server_ns,
            others_ns: left_ns,
            stolen_ns: self.stolen_ns,
            idle_ns: self.idle_ns,
            others,
        })
    }
}

#[cfg(test)]
mod tests {
    use dbtime_model::SessionId;

    use super::*;

    fn row(source: &str, name: &str, value: i64) -> CounterRow {
        CounterRow {
            source: source.into(),
            name: name.into(),
            value,
            session: SessionId::RECORDER,
            ..CounterRow::default()
        }
    }

    #[test]
    fn what_is_left_is_split_by_samples() {
        let mut builder = HostCpuBuilder::default();
        for (source, name, value) in [
            (counter::HOST, "cpus_ns", 10_000),
            (counter::HOST, "idle_ns", 500),
            (counter::HOST, "stolen_ns", 300),
            (counter::HOST, "samples:gzip", 80),
            (counter::HOST, "samples:dbtime", 3),
            (counter::HOST, "samples:", 1),
            (counter::KERNEL, "on_cpu_ns", 5_000),
            (counter::KERNEL, "run_queue_ns", 9_000),
        ] {
            builder.add_counter(&row(source, name, value), &Filter::default());
        }
        let host = builder.finish().expect("it was recorded");
        assert_eq!(
            host.sentence(),
            "The server used 50 % of the host's CPUs, other processes 42 % (gzip 40 %, dbtime 2 %), the \
             hypervisor 3 %; 5 % was idle."
        );
        assert_eq!(
            host.server_ns + host.others_ns + host.stolen_ns + host.idle_ns,
            host.cpus_ns
        );
        assert!(host.others.iter().map(|of| of.ns).sum::<u128>() <= host.others_ns);
    }

    #[test]
    fn nothing_is_said_where_it_was_not_recorded() {
        let mut builder = HostCpuBuilder::default();
        builder.add_counter(&row(counter::KERNEL, "on_cpu_ns", 5_000), &Filter::default());
        assert_eq!(builder.finish(), None);
    }
}
