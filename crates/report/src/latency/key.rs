//! Groups of events.

use dbtime_model::{LatencyRow, Session, SessionId};

use crate::dimensions::Dimensions;
use crate::group::{Dimension, NONE, Value};

/// Values of the dimensions that events are grouped by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LatencyKey(Vec<Value>);

impl LatencyKey {
    /// The group that a row belongs to. `session`: none = it belongs to none.
    pub(super) fn of(by: &[Dimension], row: &LatencyRow, session: Option<&Session>) -> LatencyKey {
        let text = |text: &str| Value::Text(text.to_string());
        let value = |dimension: &Dimension| match dimension {
            Dimension::Name => text(&row.name),
            Dimension::Kind => text(&row.kind),
            Dimension::Device => text(&row.device),
            Dimension::Session => Value::Session(row.session),
            Dimension::IoSize => Value::Bytes(row.bytes),
            Dimension::Blocks => Value::Blocks(row.blocks),
            Dimension::Source => text(&row.source),
            Dimension::File => text(&row.file),
            Dimension::Relation => text(&row.relation),
            Dimension::Second => Value::Second(row.time),
            Dimension::Statement => Value::Statement(row.statement),
            Dimension::Query => Value::Query(row.statement),
            Dimension::Plan => Value::Plan(row.plan),
            Dimension::SqlId => Value::SqlId(row.statement),
            fact => {
                let known = session.and_then(|session| fact.of_session(session));
                text(known.unwrap_or_default())
            }
        };
        LatencyKey(by.iter().map(value).collect())
    }

    /// The second, if it is one of the dimensions.
    pub(super) fn second(&self) -> Option<i64> {
        self.0.iter().find_map(|value| match value {
            Value::Second(second) => Some(*second),
            _ => None,
        })
    }

    /// One text per dimension. `[none]`: does not apply; `[unknown]`: not known.
    pub(super) fn labels(&self, dimensions: &mut Dimensions) -> Vec<String> {
        let label = |value: &Value| match value {
            // Events seen on the host belong to no session.
            Value::Session(SessionId::RECORDER) => NONE.to_string(),
            value => value.label(dimensions),
        };
        self.0.iter().map(label).collect()
    }
}
