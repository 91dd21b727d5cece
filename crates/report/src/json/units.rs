//! Amounts that are not times lose the names of times: if a recording counts samples, `total_ns` becomes `total_samples`.
//! So nobody mistakes a number of samples for nanoseconds.

use dbtime_model::recording::Unit;
use serde_json::{Map, Value};

/// Fields that are times, whatever the recording counts.
const ALWAYS_TIMES: [&str; 3] = ["elapsed_ns", "recorded_ns", "recorder_cpu_ns"];

/// What the recording says about itself: its times are times.
const META: &str = "meta";

/// Renames the fields of amounts.
pub(super) fn rename(value: Value, unit: Unit) -> Value {
    let name = match unit {
        Unit::Time => return value,
        Unit::Samples => "samples",
        Unit::Counts => "counts",
    };
    match value {
        Value::Array(values) => values.into_iter().map(|value| rename(value, unit)).collect(),
        Value::Object(fields) => {
            let mut renamed = Map::new();
            for (field, value) in fields {
                let is_time = ALWAYS_TIMES.contains(&field.as_str());
                let (field, value) = match field.strip_suffix("ns") {
                    _ if field == META => (field, value),
                    Some(stem) if !is_time && (stem.is_empty() || stem.ends_with('_')) => {
                        (format!("{stem}{name}"), value)
                    }
                    _ => (field, rename(value, unit)),
                };
                renamed.insert(field, value);
            }
            Value::Object(renamed)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_named_by_their_unit_and_times_stay_times() {
        let document = || json!({"meta": {"cost": {"cpu_ns": 1}}, "elapsed_ns": 2, "rows": [{"total_ns": 3, "ns": 4, "columns": 5}]});
        assert_eq!(
            rename(document(), Unit::Samples),
            json!({"meta": {"cost": {"cpu_ns": 1}}, "elapsed_ns": 2, "rows": [{"total_samples": 3, "samples": 4, "columns": 5}]})
        );
        assert_eq!(rename(document(), Unit::Time), document());
    }
}
