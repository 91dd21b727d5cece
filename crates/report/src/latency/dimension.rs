//! By what latencies are grouped.

use std::fmt;
use std::str::FromStr;

use dbtime_model::{LatencyRow, Session, SessionId};

use crate::dimensions::Dimensions;
use crate::group::{self, Dimension, NONE};

/// Something by which events can be told apart; the words of `--by` with `--latency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LatencyDimension {
    /// `name` (or `wait`): wait event, system call, block operation.
    Name,
    /// `kind`: what was measured.
    Kind,
    /// `device`: block device.
    Device,
    /// `session`: one connection or process, shown by its pid.
    Session,
    /// `io_size`: bytes of the request.
    IoSize,
    /// `blocks`: blocks of the database that were read or written.
    Blocks,
    /// `source`: where the data of a read came from.
    Source,
    /// `file`: file that was read.
    File,
    /// `relation`: table or index of that file.
    Relation,
    /// `second`: second in which they ended, UTC.
    Second,
    /// One that times have, too: what is known of the session, or the statement that it executed.
    Of(Dimension),
}

impl LatencyDimension {
    /// Every dimension, in the order of the documentation.
    pub const ALL: [LatencyDimension; 25] = [
        LatencyDimension::Name,
        LatencyDimension::Kind,
        LatencyDimension::Device,
        LatencyDimension::Session,
        LatencyDimension::IoSize,
        LatencyDimension::Blocks,
        LatencyDimension::Source,
        LatencyDimension::File,
        LatencyDimension::Relation,
        LatencyDimension::Second,
        LatencyDimension::Of(Dimension::Statement),
        LatencyDimension::Of(Dimension::Query),
        LatencyDimension::Of(Dimension::Plan),
        LatencyDimension::Of(Dimension::SqlId),
        LatencyDimension::Of(Dimension::User),
        LatencyDimension::Of(Dimension::Database),
        LatencyDimension::Of(Dimension::BackendType),
        LatencyDimension::Of(Dimension::Client),
        LatencyDimension::Of(Dimension::Program),
        LatencyDimension::Of(Dimension::Application),
        LatencyDimension::Of(Dimension::Service),
        LatencyDimension::Of(Dimension::Module),
        LatencyDimension::Of(Dimension::Action),
        LatencyDimension::Of(Dimension::ClientId),
        LatencyDimension::Of(Dimension::Sid),
    ];

    /// The word used on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            LatencyDimension::Name => "name",
            LatencyDimension::Kind => "kind",
            LatencyDimension::Device => "device",
            LatencyDimension::Session => "session",
            LatencyDimension::IoSize => "io_size",
            LatencyDimension::Blocks => "blocks",
            LatencyDimension::Source => "source",
            LatencyDimension::File => "file",
            LatencyDimension::Relation => "relation",
            LatencyDimension::Second => "second",
            LatencyDimension::Of(dimension) => dimension.as_str(),
        }
    }
}

impl fmt::Display for LatencyDimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for LatencyDimension {
    type Err = String;

    fn from_str(name: &str) -> Result<LatencyDimension, String> {
        if name == "wait" {
            return Ok(LatencyDimension::Name);
        }
        LatencyDimension::ALL
            .into_iter()
            .find(|dimension| dimension.as_str() == name)
            .ok_or_else(|| {
                format!(
                    "latencies have no dimension '{name}': choose from {}",
                    LatencyDimension::ALL.map(LatencyDimension::as_str).join(", ")
                )
            })
    }
}

/// Value of one dimension.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Value {
    Bytes(u64),
    Blocks(u64),
    /// As of the time of a session.
    Of(group::Value),
}

/// Values of the dimensions that events are grouped by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LatencyKey(Vec<Value>);

impl LatencyKey {
    /// The group to which a row belongs. `session`: none = it is of none.
    pub(super) fn of(by: &[LatencyDimension], row: &LatencyRow, session: Option<&Session>) -> LatencyKey {
        let text = |text: &str| Value::Of(group::Value::Text(text.to_string()));
        let value = |dimension: &LatencyDimension| match dimension {
            LatencyDimension::Name => text(&row.name),
            LatencyDimension::Kind => text(&row.kind),
            LatencyDimension::Device => text(&row.device),
            LatencyDimension::Session => Value::Of(group::Value::Session(row.session)),
            LatencyDimension::IoSize => Value::Bytes(row.bytes),
            LatencyDimension::Blocks => Value::Blocks(row.blocks),
            LatencyDimension::Source => text(&row.source),
            LatencyDimension::File => text(&row.file),
            LatencyDimension::Relation => text(&row.relation),
            LatencyDimension::Second => Value::Of(group::Value::Second(row.time)),
            LatencyDimension::Of(Dimension::Statement) => Value::Of(group::Value::Statement(row.statement)),
            LatencyDimension::Of(Dimension::Query) => Value::Of(group::Value::Query(row.statement)),
            LatencyDimension::Of(Dimension::Plan) => Value::Of(group::Value::Plan(row.plan)),
            LatencyDimension::Of(Dimension::SqlId) => Value::Of(group::Value::SqlId(row.statement)),
            LatencyDimension::Of(fact) => {
                let known = session.and_then(|session| fact.of_session(session));
                text(known.unwrap_or_default())
            }
        };
        LatencyKey(by.iter().map(value).collect())
    }

    /// The second, when it is one of the dimensions.
    pub(super) fn second(&self) -> Option<i64> {
        self.0.iter().find_map(|value| match value {
            Value::Of(group::Value::Second(second)) => Some(*second),
            _ => None,
        })
    }

    /// One text per dimension. `[none]` stands for what does not apply, `[unknown]` for what nobody knows.
    pub(super) fn labels(&self, dimensions: &mut Dimensions) -> Vec<String> {
        let label = |value: &Value| match value {
            Value::Bytes(bytes) => bytes_label(*bytes),
            Value::Blocks(blocks) => blocks_label(*blocks),
            // What was seen on the host is of no session.
            Value::Of(group::Value::Session(SessionId::RECORDER)) => NONE.to_string(),
            Value::Of(value) => value.label(dimensions),
        };
        self.0.iter().map(label).collect()
    }
}

/// Bytes of a request, as short as they can be said exactly: `8 kB`, `1 MB`, `100 B`.
pub(crate) fn bytes_label(bytes: u64) -> String {
    const KB: u64 = 1 << 10;
    const MB: u64 = 1 << 20;
    match bytes {
        0 => "[none]".to_string(),
        _ if bytes.is_multiple_of(MB) => format!("{} MB", bytes / MB),
        _ if bytes.is_multiple_of(KB) => format!("{} kB", bytes / KB),
        _ => format!("{bytes} B"),
    }
}

/// Blocks of a request: `8 blocks`.
pub(crate) fn blocks_label(blocks: u64) -> String {
    match blocks {
        0 => "[none]".to_string(),
        1 => "1 block".to_string(),
        _ => format!("{blocks} blocks"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dimension_is_read_as_it_is_written() {
        for dimension in LatencyDimension::ALL {
            assert_eq!(dimension.to_string().parse(), Ok(dimension));
        }
        assert_eq!("wait".parse(), Ok(LatencyDimension::Name));
        let error = "state".parse::<LatencyDimension>().expect_err("no dimension");
        assert!(error.contains("'state'") && error.contains("io_size"), "{error}");
    }

    #[test]
    fn sizes_are_said_exactly() {
        let labels = [0, 1, 512, 1024, 8192, 8193, 1 << 20, (1 << 20) + 1024].map(bytes_label);
        assert_eq!(
            labels,
            [
                "[none]", "1 B", "512 B", "1 kB", "8 kB", "8193 B", "1 MB", "1025 kB"
            ]
        );
    }
}
