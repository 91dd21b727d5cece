//! A profile for OpenTelemetry: the request that a collector accepts at `/v1development/profiles` (OTLP over HTTP, binary).
//!
//! The profiles protocol is still in development: this is the version in the crate `opentelemetry-proto`. As for pprof, the stack is frames
//! of code alone; the dimensions of time are attributes of a sample. A profile has one kind of value, so there are two, of time and of
//! samples, or one of what the recording counts. Each value has the second that it belongs to.

use std::collections::HashMap;
use std::hash::Hash;
use std::io::{self, Write};

use dbtime_model::recording::{Clock, Meta, Unit};
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::profiles::v1development::{
    Function, KeyValueAndUnit, Line, Link, Location, Mapping, Profile, ProfilesDictionary, ResourceProfiles,
    Sample, ScopeProfiles, Stack, ValueType,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;

use crate::export::Exporter;
use crate::flame::{Folded, FoldedStack};
use crate::group::Dimension;
use crate::lanes;
use crate::numbered::Numbered;
use crate::printable::printable;

/// Writes a request of profiles.
pub(crate) struct Otlp;

impl Exporter for Otlp {
    fn endings(&self) -> &'static [&'static str] {
        &["otlp"]
    }

    fn dimensions(&self) -> &'static [Dimension] {
        lanes::DIMENSIONS
    }

    fn write(&self, folded: &Folded, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&request(folded).encode_to_vec())
    }
}

/// A table of the dictionary: the first entry stands for none.
fn table<T: Default + Eq + Hash>() -> Numbered<T> {
    let mut table = Numbered::default();
    table.number(T::default());
    table
}

/// Index of an entry in its table. It fits into 32 bits: more frames and stacks would not fit into memory.
fn index<T: Eq + Hash>(table: &mut Numbered<T>, entry: T) -> i32 {
    i32::try_from(table.number(entry)).unwrap_or(i32::MAX)
}

/// What identifies an attribute: key and value.
#[derive(Default, PartialEq, Eq, Hash)]
struct Attribute {
    key: i32,
    value: String,
}

struct Dictionary {
    strings: Numbered<String>,
    attributes: Numbered<Attribute>,
    /// By name, and whether it is the kernel's.
    functions: Numbered<(bool, i32)>,
    /// As locations, leaf first. A location has the number of its function.
    stacks: Numbered<Vec<i32>>,
}

impl Dictionary {
    fn new() -> Dictionary {
        Dictionary {
            strings: table(),
            attributes: table(),
            functions: table(),
            stacks: table(),
        }
    }

    fn string(&mut self, text: &str) -> i32 {
        index(&mut self.strings, printable(text).into_owned())
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> Option<ValueType> {
        Some(ValueType {
            type_strindex: self.string(kind),
            unit_strindex: self.string(unit),
        })
    }

    fn attribute(&mut self, key: &str, value: &str) -> i32 {
        let attribute = Attribute {
            key: self.string(key),
            value: printable(value).into_owned(),
        };
        index(&mut self.attributes, attribute)
    }

    fn stack(&mut self, stack: &FoldedStack) -> i32 {
        let mut locations: Vec<i32> = stack
            .frames()
            .map(|(is_kernel, name)| {
                let name = self.string(name);
                index(&mut self.functions, (is_kernel, name))
            })
            .collect();
        locations.reverse();
        index(&mut self.stacks, locations)
    }

    fn attributes(&mut self, folded: &Folded, stack: &FoldedStack) -> Vec<i32> {
        let levels = folded.by.iter().zip(stack.levels.iter());
        levels
            .filter(|(dimension, value)| **dimension != Dimension::Second && !value.is_empty())
            .map(|(dimension, value)| self.attribute(&key_of(*dimension), value))
            .collect()
    }

    /// Stack and attributes of each of the folded stacks.
    fn places(&mut self, folded: &Folded) -> Vec<(i32, Vec<i32>)> {
        let stacks = folded.stacks.iter();
        stacks
            .map(|stack| (self.stack(stack), self.attributes(folded, stack)))
            .collect()
    }

    fn into_message(mut self) -> ProfilesDictionary {
        let kinds = ["native", "kernel"].map(|kind| self.attribute("profile.frame.type", kind));
        let functions = self.functions.into_values();
        let locations = functions.iter().zip(0..).map(|((is_kernel, _), n)| match n {
            0 => Location::default(),
            n => Location {
                lines: vec![Line {
                    function_index: n,
                    ..Line::default()
                }],
                attribute_indices: vec![kinds[usize::from(*is_kernel)]],
                ..Location::default()
            },
        });
        let attributes = self.attributes.into_values().into_iter().map(|attribute| {
            let is_none = attribute.key == 0;
            KeyValueAndUnit {
                key_strindex: attribute.key,
                value: (!is_none).then(|| text(attribute.value)),
                unit_strindex: 0,
            }
        });
        ProfilesDictionary {
            mapping_table: vec![Mapping::default()],
            location_table: locations.collect(),
            link_table: vec![Link::default()],
            attribute_table: attributes.collect(),
            stack_table: self
                .stacks
                .into_values()
                .into_iter()
                .map(|location_indices| Stack { location_indices })
                .collect(),
            function_table: functions
                .into_iter()
                .map(|(_, name)| Function {
                    name_strindex: name,
                    system_name_strindex: name,
                    ..Function::default()
                })
                .collect(),
            string_table: self.strings.into_values(),
        }
    }
}

/// The amount of a stack: time or samples.
type Amount = fn(&FoldedStack) -> u128;

fn request(folded: &Folded) -> ExportProfilesServiceRequest {
    let mut dictionary = Dictionary::new();
    let time: Amount = |stack| stack.ns;
    let samples: Amount = |stack| stack.samples;
    let kinds = match folded.meta.collector.unit {
        Unit::Time => vec![("time", "ns", time), ("samples", "{sample}", samples)],
        Unit::Samples => vec![("samples", "{sample}", time)],
        Unit::Counts => vec![("counts", "{count}", time)],
    };
    let mut places = Vec::new();
    let mut profiles = Vec::new();
    for (kind, unit, amount) in kinds {
        let sample_type = dictionary.value_type(kind, unit);
        if places.is_empty() {
            places = dictionary.places(folded);
        }
        profiles.push(Profile {
            sample_type,
            samples: samples_of(folded, &places, amount),
            ..profile(folded, &mut dictionary)
        });
    }
    ExportProfilesServiceRequest {
        resource_profiles: vec![ResourceProfiles {
            resource: Some(resource(&folded.meta)),
            scope_profiles: vec![ScopeProfiles {
                scope: Some(InstrumentationScope {
                    name: "dbtime".to_string(),
                    version: printable(&folded.meta.dbtime).into_owned(),
                    ..InstrumentationScope::default()
                }),
                profiles,
                ..ScopeProfiles::default()
            }],
            ..ResourceProfiles::default()
        }],
        dictionary: Some(dictionary.into_message()),
    }
}

/// A profile without its samples.
fn profile(folded: &Folded, dictionary: &mut Dictionary) -> Profile {
    let mut profile = Profile {
        duration_nano: u64::try_from(folded.period.elapsed_ns()).unwrap_or(u64::MAX),
        ..Profile::default()
    };
    if folded.meta.collector.clock == Clock::Utc {
        profile.time_unix_nano = nanoseconds(folded.period.from_us);
    }
    let rate = i64::from(folded.meta.collector.rate_hz);
    if rate > 0 {
        profile.period_type = dictionary.value_type("time", "ns");
        profile.period = 1_000_000_000 / rate;
    }
    profile
}

fn samples_of(folded: &Folded, places: &[(i32, Vec<i32>)], amount: Amount) -> Vec<Sample> {
    let has_times = folded.meta.collector.clock == Clock::Utc;
    let mut numbers: HashMap<&(i32, Vec<i32>), usize> = HashMap::new();
    let mut samples: Vec<Sample> = Vec::new();
    for (stack, place) in folded.stacks.iter().zip(places) {
        let value = i64::try_from(amount(stack)).unwrap_or(i64::MAX);
        if value == 0 {
            continue;
        }
        let number = *numbers.entry(place).or_insert_with(|| {
            samples.push(Sample {
                stack_index: place.0,
                attribute_indices: place.1.clone(),
                ..Sample::default()
            });
            samples.len() - 1
        });
        let Some(sample) = samples.get_mut(number) else {
            continue;
        };
        match sample.values.first_mut() {
            Some(sum) if !has_times => *sum = sum.saturating_add(value),
            _ => sample.values.push(value),
        }
        if has_times {
            // The first second began before the recording did.
            let second_us = stack.second_us.unwrap_or(0).max(folded.period.from_us);
            sample.timestamps_unix_nano.push(nanoseconds(second_us));
        }
    }
    samples
}

/// From microseconds since the Unix epoch.
fn nanoseconds(us: i64) -> u64 {
    u64::try_from(us).unwrap_or(0).saturating_mul(1_000)
}

/// What was recorded, in the names of OpenTelemetry's conventions.
fn resource(meta: &Meta) -> Resource {
    let product = meta.database.product.to_lowercase();
    let system = match product.as_str() {
        "oracle" => "oracle.db",
        other => other,
    };
    let service = if product.is_empty() {
        "unknown_service"
    } else {
        product.as_str()
    };
    let known = [
        ("service.name", service),
        ("service.version", &meta.database.versions_in_short()),
        ("db.system.name", system),
        ("host.name", &meta.host.name),
        ("host.arch", &meta.host.arch),
        ("os.type", "linux"),
        ("os.version", &meta.host.kernel),
    ];
    let attributes = known.into_iter().filter(|(_, value)| !value.is_empty());
    Resource {
        attributes: attributes
            .map(|(key, value)| KeyValue {
                key: key.to_string(),
                value: Some(text(printable(value).into_owned())),
                ..KeyValue::default()
            })
            .collect(),
        ..Resource::default()
    }
}

/// Key of an attribute: by the conventions if they have one, else prefixed with our name.
fn key_of(dimension: Dimension) -> String {
    match dimension {
        Dimension::Database => "db.namespace".to_string(),
        Dimension::Statement => "db.query.text".to_string(),
        other => format!("dbtime.{}", other.as_str()),
    }
}

fn text(value: String) -> AnyValue {
    AnyValue {
        value: Some(Value::StringValue(value)),
    }
}
