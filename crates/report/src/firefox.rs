//! A profile for the Firefox Profiler, in its "processed" JSON format: a thread per session, levels below the frames.
//!
//! See [`crate::lanes`] for what the timestamps mean. The weight of a sample is in milliseconds with fractions, or in what the
//! recording counts.

use std::io::{self, BufWriter, Write};
use std::time::{Duration, SystemTime};

use dbtime_model::recording::{Clock, Unit};
use fxprof_processed_profile::{
    CategoryColor, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, SamplingInterval, Timestamp, WeightType,
};
use serde_json::Value;

use crate::export::Exporter;
use crate::flame::Folded;
use crate::group::Dimension;
use crate::lanes::{self, lanes};
use crate::printable::printable;

/// Writes a profile.
pub(crate) struct Firefox;

impl Exporter for Firefox {
    fn endings(&self) -> &'static [&'static str] {
        &["firefox.json"]
    }

    fn dimensions(&self) -> &'static [Dimension] {
        lanes::DIMENSIONS
    }

    fn write(&self, folded: &Folded, out: &mut dyn Write) -> io::Result<()> {
        let unit = folded.meta.collector.unit;
        let lanes = lanes(folded);
        let begins = lanes
            .iter()
            .filter_map(|lane| lane.stacks.first())
            .map(|placed| placed.begin_ns);
        let begin_ns = begins.min().unwrap_or(0);
        let moment = |ns: u64| Timestamp::from_nanos_since_reference(ns.saturating_sub(begin_ns));
        let reference = match folded.meta.collector.clock {
            Clock::Utc => SystemTime::UNIX_EPOCH + Duration::from_nanos(begin_ns),
            Clock::Relative | Clock::None => SystemTime::UNIX_EPOCH,
        };
        let interval = match folded.meta.collector.rate_hz {
            0 => SamplingInterval::from_millis(1),
            hz => SamplingInterval::from_nanos(1_000_000_000 / u64::from(hz)),
        };
        let product = match folded.meta.database.product.as_str() {
            "" => "dbtime",
            product => product,
        };
        let product = printable(product);
        let mut profile = Profile::new(&product, reference.into(), interval);
        profile.set_symbolicated(true);
        let [level, user, kernel] = [
            ("Wait and state", CategoryColor::Blue),
            ("User", CategoryColor::Green),
            ("Kernel", CategoryColor::Orange),
        ]
        .map(|(name, color)| profile.add_category(name, color));
        let process = profile.add_process(&product, 0, moment(begin_ns));
        for (lane, number) in lanes.iter().zip(1u32..) {
            let begin = lane.stacks.first().map_or(begin_ns, |placed| placed.begin_ns);
            let tid = if lane.pid == 0 { number } else { lane.pid };
            let thread = profile.add_thread(process, tid, moment(begin), false);
            profile.set_thread_name(thread, &printable(&format!("session {}", lane.session)));
            profile.set_thread_samples_weight_type(
                thread,
                match unit {
                    Unit::Time => WeightType::TracingMs,
                    Unit::Samples | Unit::Counts => WeightType::Samples,
                },
            );
            for placed in &lane.stacks {
                let stack = placed.stack;
                let levels = lanes::levels(folded, stack).map(|name| (name, level));
                let of_code = stack
                    .frames()
                    .map(|(is_kernel, name)| (name, if is_kernel { kernel } else { user }));
                let frames: Vec<FrameInfo> = levels
                    .chain(of_code)
                    .map(|(name, category)| FrameInfo {
                        frame: Frame::Label(profile.intern_string(&printable(name))),
                        category_pair: category.into(),
                        flags: FrameFlags::empty(),
                    })
                    .collect();
                let frames = profile.intern_stack_frames(thread, frames.into_iter());
                profile.add_sample(thread, moment(placed.begin_ns), frames, CpuDelta::ZERO, 1);
            }
        }
        let weight = |ns: u128| match unit {
            Unit::Time => Value::from(ns as f64 / 1e6),
            Unit::Samples | Unit::Counts => Value::from(u64::try_from(ns).unwrap_or(u64::MAX)),
        };
        let weights = lanes
            .iter()
            .map(|lane| lane.stacks.iter().map(|placed| weight(placed.stack.ns)));
        let mut out = WithWeights {
            out: BufWriter::new(out),
            weights,
            matched: 0,
            skips: false,
        };
        serde_json::to_writer(&mut out, &profile).map_err(io::Error::from)?;
        out.flush()
    }
}

/// The library keeps weights as integers, but a stack can have less than a millisecond: while a profile is written, this replaces
/// the weights of each thread.
struct WithWeights<W, T> {
    out: W,
    /// Weights of the threads, in the order in which the threads are written.
    weights: T,
    /// How many bytes of [`WEIGHTS`] were matched so far.
    matched: usize,
    /// Skipping the library's numbers.
    skips: bool,
}

/// Precedes the weights of a thread and nothing else: in a string its quotes would be escaped.
const WEIGHTS: &[u8] = b"\"weight\":[";

impl<W: Write, T: Iterator<Item = N>, N: Iterator<Item = Value>> Write for WithWeights<W, T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for &byte in bytes {
            if self.skips && byte != b']' {
                continue;
            }
            self.skips = false;
            self.out.write_all(&[byte])?;
            self.matched = match WEIGHTS.get(self.matched) == Some(&byte) {
                true => self.matched + 1,
                false => usize::from(WEIGHTS.first() == Some(&byte)),
            };
            if self.matched == WEIGHTS.len() {
                self.matched = 0;
                self.skips = true;
                for (number, weight) in self.weights.next().into_iter().flatten().enumerate() {
                    if number > 0 {
                        self.out.write_all(b",")?;
                    }
                    serde_json::to_writer(&mut self.out, &weight)?;
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
