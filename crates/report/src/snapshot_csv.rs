//! A snapshot of sessions as CSV: one line for everything that grew. Amounts are integers, in the unit next to them.

use crate::group::exact_moment;
use crate::snapshot::{LineUnit, Snapshot};

/// The first line.
const HEAD: [&str; 17] = [
    "from",
    "to",
    "tier",
    "seconds",
    "pid",
    "sid",
    "backend_type",
    "user",
    "database",
    "application",
    "type",
    "statistic",
    "delta",
    "unit",
    "percent_of_time",
    "waits",
    "average_wait_us",
];

/// The names of the columns, with a line feed at the end.
pub fn head() -> String {
    HEAD.join(",") + "\n"
}

/// The lines of a snapshot.
///
/// # Errors
/// None are expected: it only writes to memory.
pub fn render(snapshot: &Snapshot) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for one in &snapshot.sessions {
        let session = &one.session;
        for line in &one.lines {
            let unit = match line.unit {
                LineUnit::Nanoseconds => "ns",
                LineUnit::Amount if line.is_level => "level",
                LineUnit::Amount => "",
            };
            let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
            writer.write_record([
                exact_moment(snapshot.period.from_us),
                exact_moment(snapshot.period.to_us),
                snapshot.meta.collector.tier.clone(),
                format!("{:.3}", one.elapsed_ns as f64 / 1e9),
                session.pid.to_string(),
                session.sid.clone(),
                session.backend_type.0.to_string(),
                session.user.clone(),
                session.database.clone(),
                session.application.clone(),
                line.kind.as_str().to_string(),
                line.name.clone(),
                line.growth.to_string(),
                unit.to_string(),
                number(line.percent_of_time(one.elapsed_ns)),
                line.waits.map_or_else(String::new, |waits| waits.to_string()),
                number(line.average_wait_ns().map(|ns| ns / 1e3)),
            ])?;
        }
    }
    let bytes = writer.into_inner().map_err(|e| e.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
