//! A profile for speedscope (its own JSON format): one sampled profile, levels below the frames.
//!
//! Format: <https://www.speedscope.app/file-format-schema.json>. Weights are nanoseconds, or what the recording counts.

use std::collections::HashMap;
use std::io::{self, Write};

use dbtime_model::recording::Unit;
use serde::Serialize;

use crate::export::Exporter;
use crate::flame::Folded;
use crate::folded::names;
use crate::printable::printable;

/// Writes a profile.
pub(crate) struct Speedscope;

impl Exporter for Speedscope {
    fn endings(&self) -> &'static [&'static str] {
        &["speedscope.json"]
    }

    fn write(&self, folded: &Folded, out: &mut dyn Write) -> io::Result<()> {
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let mut frames = Vec::new();
        let mut samples = Vec::with_capacity(folded.stacks.len());
        let mut weights = Vec::with_capacity(folded.stacks.len());
        let mut sum = 0u128;
        for stack in &folded.stacks {
            let stack_frames = names(stack).into_iter().map(|name| {
                *numbers.entry(name).or_insert_with_key(|name| {
                    frames.push(Frame { name: name.clone() });
                    frames.len() - 1
                })
            });
            samples.push(stack_frames.collect::<Vec<_>>());
            weights.push(stack.ns);
            sum += stack.ns;
        }
        let name = match folded.meta.database.target.as_str() {
            "" => "dbtime".to_string(),
            target => format!("dbtime {}", printable(target)),
        };
        let document = Document {
            schema: "https://www.speedscope.app/file-format-schema.json",
            exporter: concat!("dbtime ", env!("CARGO_PKG_VERSION")),
            name: &name,
            shared: Shared { frames },
            profiles: [Profile {
                kind: "sampled",
                name: &name,
                unit: match folded.meta.collector.unit {
                    Unit::Time => "nanoseconds",
                    Unit::Samples | Unit::Counts => "none",
                },
                start_value: 0,
                end_value: sum,
                samples,
                weights,
            }],
        };
        serde_json::to_writer(out, &document).map_err(io::Error::from)
    }
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: &'a str,
    shared: Shared,
    profiles: [Profile<'a>; 1],
}

#[derive(Serialize)]
struct Shared {
    frames: Vec<Frame>,
}

#[derive(Serialize)]
struct Frame {
    name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    unit: &'static str,
    start_value: u128,
    end_value: u128,
    samples: Vec<Vec<usize>>,
    weights: Vec<u128>,
}
