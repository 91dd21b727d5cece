//! Block I/O of an interval as one line of JSON. Field names are stable: new ones may be added, existing ones keep their
//! meaning. Times are in nanoseconds, except the bounds of the buckets, which are in microseconds, as their names say.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::block_io::{BlockIo, BlockRequests};
use crate::fields::timestamp;
use crate::printable::escaped_json;
use crate::text::BlockIoOptions;

/// One line, with a line feed at the end.
pub fn render_block_io_json(io: &BlockIo, options: BlockIoOptions) -> String {
    let tables = io.tables(options.per_disk);
    let line = Line {
        time: timestamp(io.begin_us),
        elapsed_ns: io.elapsed_ns,
        whole: options.is_whole,
        from: if options.with_queue { "queue" } else { "issue" },
        tables: tables
            .iter()
            .map(|table| Table {
                disk: table.disk.as_deref(),
                operations: table
                    .operations
                    .iter()
                    .map(|(operation, requests)| requests_json(operation.as_str(), requests))
                    .collect(),
            })
            .collect(),
        left_out: &io.left_out,
        without_begin: io.without_begin,
        lost: io.lost,
    };
    let mut text = serde_json::to_string(&line)
        // Only a map with non-string keys or a failing `Serialize` could get here: there is neither.
        .unwrap_or_else(|e| format!("{{\"error\": {:?}}}", e.to_string()));
    text.push('\n');
    escaped_json(text)
}

#[derive(Serialize)]
struct Line<'a> {
    time: Option<String>,
    elapsed_ns: u64,
    whole: bool,
    from: &'static str,
    tables: Vec<Table<'a>>,
    left_out: &'a BTreeMap<String, u64>,
    without_begin: u64,
    lost: u64,
}

#[derive(Serialize)]
struct Table<'a> {
    disk: Option<&'a str>,
    operations: Vec<Requests>,
}

#[derive(Serialize)]
struct Requests {
    operation: &'static str,
    count: u128,
    bytes: u128,
    sum_ns: u128,
    max_ns: u64,
    p50_ns: Option<u64>,
    p95_ns: Option<u64>,
    p99_ns: Option<u64>,
    buckets: Vec<Bucket>,
}

#[derive(Serialize)]
struct Bucket {
    from_us: u64,
    to_us: u64,
    count: u128,
    sum_ns: u128,
}

fn requests_json(operation: &'static str, requests: &BlockRequests) -> Requests {
    let latencies = &requests.latencies;
    Requests {
        operation,
        count: latencies.count(),
        bytes: requests.bytes,
        sum_ns: latencies.sum_ns(),
        max_ns: latencies.max_ns(),
        p50_ns: latencies.quantile(0.5),
        p95_ns: latencies.quantile(0.95),
        p99_ns: latencies.quantile(0.99),
        buckets: latencies
            .power_of_two_us()
            .into_iter()
            .map(|bucket| Bucket {
                from_us: bucket.from_us,
                to_us: bucket.to_us,
                count: bucket.count,
                sum_ns: bucket.sum_ns,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_io::tests::row;

    #[test]
    fn a_line_is_one_object() {
        let mut io = BlockIo::new(1_500_000, 1_000_000_000);
        io.add(&row("sd\na", "read", 3_000, 4));
        io.add_bytes("sd\na", "read", 4 * 512);
        let options = BlockIoOptions {
            per_disk: true,
            with_queue: true,
            is_whole: false,
        };
        let text = render_block_io_json(&io, options);
        assert_eq!(text.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["time"], "1970-01-01T00:00:01.5Z");
        assert_eq!(value["from"], "queue");
        let read = &value["tables"][0]["operations"][0];
        assert_eq!(
            (&read["count"], &read["bytes"], &read["sum_ns"]),
            (&4.into(), &2048.into(), &12_000.into())
        );
        assert_eq!(
            (&read["buckets"][0]["from_us"], &read["buckets"][0]["count"]),
            (&2.into(), &4.into())
        );
    }
}
