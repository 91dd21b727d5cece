//! A profile for pprof: `profile.proto`, compressed with gzip.
//!
//! The stack is frames of code alone; wait event, state, session and all other dimensions are labels of a sample (`pprof
//! -tagroot=wait,state` puts them below the stacks). Values are samples and nanoseconds, or only what the recording counts
//! if that is not time. Kernel functions have the file name `[kernel]`.

use std::collections::HashMap;
use std::io::{self, Write};

use dbtime_model::recording::{Clock, Unit};
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use crate::export::Exporter;
use crate::flame::Folded;
use crate::group::Dimension;
use crate::printable::printable;

/// Writes a profile.
pub(crate) struct Pprof;

impl Exporter for Pprof {
    fn endings(&self) -> &'static [&'static str] {
        &["pb.gz", "pprof"]
    }

    fn dimensions(&self) -> &'static [Dimension] {
        &[Dimension::Session]
    }

    fn write(&self, folded: &Folded, out: &mut dyn Write) -> io::Result<()> {
        let mut gzip = GzEncoder::new(out, Compression::default());
        gzip.write_all(&profile(folded).encode_to_vec())?;
        gzip.finish().map(|_| ())
    }
}

/// Texts of the profile, each once; the first is empty.
struct Strings {
    numbers: HashMap<String, i64>,
    all: Vec<String>,
}

impl Strings {
    fn new() -> Strings {
        Strings {
            numbers: HashMap::from([(String::new(), 0)]),
            all: vec![String::new()],
        }
    }

    fn number(&mut self, text: &str) -> i64 {
        let text = printable(text);
        if let Some(number) = self.numbers.get(&*text) {
            return *number;
        }
        let number = self.all.len() as i64;
        self.all.push(text.to_string());
        self.numbers.insert(text.into_owned(), number);
        number
    }
}

fn profile(folded: &Folded) -> Profile {
    let mut strings = Strings::new();
    let unit = folded.meta.collector.unit;
    let mut value_type = |kind: &str, unit: &str| ValueType {
        kind: strings.number(kind),
        unit: strings.number(unit),
    };
    let sample_type = match unit {
        Unit::Time => vec![value_type("samples", "count"), value_type("time", "nanoseconds")],
        Unit::Samples => vec![value_type("samples", "count")],
        Unit::Counts => vec![value_type("counts", "count")],
    };
    let keys: Vec<i64> = folded
        .by
        .iter()
        .map(|dimension| strings.number(dimension.as_str()))
        .collect();
    let mut functions: HashMap<(bool, &str), u64> = HashMap::new();
    let mut profile = Profile::default();
    for stack in &folded.stacks {
        let frames: Vec<(bool, &str)> = stack.frames().collect();
        let location_id = frames
            .iter()
            // Leaf first.
            .rev()
            .map(|frame| {
                let next = functions.len() as u64 + 1;
                *functions.entry(*frame).or_insert_with(|| {
                    let (is_kernel, name) = *frame;
                    let name = strings.number(name);
                    profile.function.push(Function {
                        id: next,
                        name,
                        system_name: name,
                        filename: if is_kernel { strings.number("[kernel]") } else { 0 },
                        start_line: 0,
                    });
                    profile.location.push(Location {
                        id: next,
                        line: vec![Line { function_id: next }],
                    });
                    next
                })
            })
            .collect();
        let amount = clamped(stack.ns);
        profile.sample.push(Sample {
            location_id,
            value: match unit {
                Unit::Time => vec![clamped(stack.samples), amount],
                Unit::Samples | Unit::Counts => vec![amount],
            },
            label: keys
                .iter()
                .zip(stack.levels.iter())
                .map(|(key, value)| Label {
                    key: *key,
                    str: strings.number(value),
                })
                .collect(),
        });
    }
    profile.sample_type = sample_type;
    profile.default_sample_type = strings.number(match unit {
        Unit::Time => "time",
        Unit::Samples => "samples",
        Unit::Counts => "counts",
    });
    if folded.meta.collector.clock == Clock::Utc {
        profile.time_nanos = folded.period.from_us.saturating_mul(1_000);
    }
    profile.duration_nanos = clamped(folded.period.elapsed_ns());
    profile.string_table = strings.all;
    profile
}

fn clamped(value: u128) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

// The messages of profile.proto that are written, with the numbers of its fields
// (https://github.com/google/pprof/blob/main/proto/profile.proto).

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
    #[prost(int64, tag = "5")]
    start_line: i64,
}
