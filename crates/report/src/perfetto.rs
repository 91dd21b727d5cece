//! A trace for Perfetto: a track per session, on it the levels and frames of its stacks as nested slices.
//!
//! See [`crate::lanes`] for what the timestamps mean. Messages and field numbers are those of the published protos
//! (<https://github.com/google/perfetto/tree/main/protos/perfetto/trace>).

use std::io::{self, Write};

use prost::Message;

use crate::export::Exporter;
use crate::flame::Folded;
use crate::folded::{KERNEL_SUFFIX, frame_name};
use crate::group::Dimension;
use crate::lanes::{self, lanes};
use crate::printable::printable;

/// Writes a trace.
pub(crate) struct Perfetto;

/// All packets come from one writer.
const SEQUENCE: u32 = 1;
/// `SEQ_INCREMENTAL_STATE_CLEARED`
const STATE_CLEARED: u32 = 1;
/// `TYPE_SLICE_BEGIN`, `TYPE_SLICE_END`
const BEGIN: i32 = 1;
const END: i32 = 2;
/// Track of the process that holds the sessions.
const PROCESS_TRACK: u64 = 1;

impl Exporter for Perfetto {
    fn endings(&self) -> &'static [&'static str] {
        &["pftrace", "perfetto-trace"]
    }

    fn dimensions(&self) -> &'static [Dimension] {
        lanes::DIMENSIONS
    }

    fn write(&self, folded: &Folded, out: &mut dyn Write) -> io::Result<()> {
        let title = match folded.meta.database.product.as_str() {
            "" => "dbtime",
            product => product,
        };
        put(
            out,
            TracePacket {
                sequence_flags: Some(STATE_CLEARED),
                track_descriptor: Some(TrackDescriptor {
                    uuid: PROCESS_TRACK,
                    parent_uuid: None,
                    name: printable(title).into_owned(),
                }),
                ..TracePacket::default()
            },
        )?;
        for (lane, number) in lanes(folded).iter().zip(PROCESS_TRACK + 1..) {
            put(
                out,
                TracePacket {
                    track_descriptor: Some(TrackDescriptor {
                        uuid: number,
                        parent_uuid: Some(PROCESS_TRACK),
                        name: printable(&format!("session {}", lane.session)).into_owned(),
                    }),
                    ..TracePacket::default()
                },
            )?;
            for placed in &lane.stacks {
                let levels = lanes::levels(folded, placed.stack).map(|name| frame_name(name).into_owned());
                let frames = placed.stack.frames().map(|(is_kernel, name)| {
                    frame_name(name).into_owned() + if is_kernel { KERNEL_SUFFIX } else { "" }
                });
                let mut depth = 0;
                for name in levels.chain(frames) {
                    put(out, slice(number, placed.begin_ns, BEGIN, name))?;
                    depth += 1;
                }
                for _ in 0..depth {
                    put(out, slice(number, placed.end_ns, END, String::new()))?;
                }
            }
        }
        Ok(())
    }
}

fn slice(track: u64, ns: u64, kind: i32, name: String) -> TracePacket {
    TracePacket {
        timestamp: Some(ns),
        track_event: Some(TrackEvent {
            kind,
            track,
            name: (kind == BEGIN).then_some(name),
        }),
        ..TracePacket::default()
    }
}

/// Writes one packet of the trace: a trace is the same bytes whether its packets are written at once or one by one.
fn put(out: &mut dyn Write, mut packet: TracePacket) -> io::Result<()> {
    packet.sequence = Some(SEQUENCE);
    let trace = Trace { packet: vec![packet] };
    out.write_all(&trace.encode_to_vec())
}

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    sequence: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(int32, tag = "9")]
    kind: i32,
    #[prost(uint64, tag = "11")]
    track: u64,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
}
