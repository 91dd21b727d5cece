//! What all CPUs of the host did: whom a session waiting for a CPU waited for.

use arcstr::literal;
use dbtime_model::{CounterRow, SessionId, counter};

use super::Collector;
use crate::clock::monotonic_ns;
use crate::host::CpuTimes;
use crate::seconds::middle;

/// Process names kept per second, those with the most samples; the rest is one sum.
const MOST_NAMES: usize = 20;
/// Stands for the others: no process has this name.
const OTHERS: &str = "";

/// What they had done when last read.
#[derive(Debug)]
pub(super) struct HostCpu {
    at_start: CpuTimes,
    looked_ns: u64,
    times: CpuTimes,
}

impl HostCpu {
    pub(super) fn begin() -> HostCpu {
        let times = CpuTimes::now();
        HostCpu {
            at_start: times,
            looked_ns: monotonic_ns(),
            times,
        }
    }

    /// From the start of the recording until they were last read.
    pub(super) fn since_start(&self) -> CpuTimes {
        self.times.since(self.at_start)
    }
}

impl Collector {
    /// Counts what they did since the last time.
    pub(super) fn count_host_cpu(&mut self) {
        let (now, times) = (monotonic_ns(), CpuTimes::now());
        let host = &mut self.host_cpu;
        let passed_ns = now.saturating_sub(host.looked_ns);
        let grown = times.since(host.times);
        let time = self.clock.second_us(middle(host.looked_ns, now));
        (host.looked_ns, host.times) = (now, times);
        let mut others = match self.engine.programs() {
            Some(programs) => programs.take_others(),
            None => Vec::new(),
        };
        others.sort_unstable_by_key(|(_, samples)| std::cmp::Reverse(*samples));
        let rest: u64 = others
            .drain(others.len().min(MOST_NAMES)..)
            .map(|(_, samples)| samples)
            .sum();
        others.push((OTHERS.to_string(), rest));
        let named = others
            .into_iter()
            .map(|(name, samples)| (format!("{}{name}", counter::host::SAMPLES).into(), samples));
        let times = [
            (literal!(counter::host::CPUS_NS), passed_ns * times.cpus),
            (literal!(counter::host::IDLE_NS), grown.idle_ns),
            (literal!(counter::host::STOLEN_NS), grown.stolen_ns),
        ];
        self.rows.counters.extend(
            times
                .into_iter()
                .chain(named)
                .filter(|(_, value)| *value > 0)
                .map(|(name, value)| CounterRow {
                    time,
                    session: SessionId::RECORDER,
                    source: literal!(counter::HOST),
                    name,
                    value: value.cast_signed(),
                    ..CounterRow::default()
                }),
        );
    }
}
