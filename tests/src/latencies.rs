//! Single events of a session, as its recording has them.

use dbtime_model::LatencyRow;

/// Rows of the table `latency`.
#[derive(Debug, Clone, Default)]
pub struct Latencies(pub Vec<LatencyRow>);

impl Latencies {
    /// Those of a kind (`read`, `syscall`, `wait` …).
    pub fn kind(&self, kind: &str) -> Latencies {
        self.only(|row| *row.kind == *kind)
    }

    /// Those with a name (`pread64`, `Timeout:PgSleep` …).
    pub fn name(&self, name: &str) -> Latencies {
        self.only(|row| *row.name == *name)
    }

    /// Those for which this holds.
    pub fn only(&self, holds: impl Fn(&LatencyRow) -> bool) -> Latencies {
        Latencies(self.0.iter().filter(|row| holds(row)).cloned().collect())
    }

    /// How many events.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|row| row.count).sum()
    }

    /// Sum of their times.
    pub fn sum_ns(&self) -> u64 {
        self.0.iter().map(|row| row.sum_ns).sum()
    }

    /// Sum of their bytes.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|row| row.bytes * row.count).sum()
    }

    /// The latency that this share of the events does not exceed, as the middle of its bucket.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut rows: Vec<&LatencyRow> = self.0.iter().collect();
        rows.sort_by_key(|row| row.from_ns);
        let rank = share * self.count() as f64;
        let mut below = 0;
        for row in rows {
            below += row.count;
            if below as f64 >= rank {
                return (row.from_ns + row.to_ns - 1) as f64 / 2.0;
            }
        }
        f64::NAN
    }

    /// Counts by a text made of each row, for messages.
    pub fn by(&self, text: impl Fn(&LatencyRow) -> String) -> String {
        let mut counts = std::collections::BTreeMap::new();
        for row in &self.0 {
            let sum = counts.entry(text(row)).or_insert((0, 0));
            *sum = (sum.0 + row.count, sum.1 + row.sum_ns);
        }
        let lines = counts.iter().map(|(text, (count, ns))| {
            format!(
                "{count:>8} × {text}, mean {:.1} µs",
                *ns as f64 / 1e3 / *count as f64
            )
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}
