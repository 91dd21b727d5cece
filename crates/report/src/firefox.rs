//! A profile for the Firefox Profiler, in its "processed" JSON format: a thread per session, levels below the frames.
//!
//! See [`crate::timeline`] for what the moments mean. The weight of a sample is milliseconds with fractions, or what the
//! recording counts.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use dbtime_model::recording::{Clock, Unit};
use fxprof_processed_profile::{
    CategoryColor, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, SamplingInterval, Timestamp, WeightType,
};
use serde_json::Value;

use crate::export::Exporter;
use crate::flame::Folded;
use crate::group::Dimension;
use crate::printable::printable;
use crate::timeline::{self, lanes};

/// Writes a profile.
pub(crate) struct Firefox;

impl Exporter for Firefox {
    fn endings(&self) -> &'static [&'static str] {
        &["firefox.json"]
    }

    fn dimensions(&self) -> &'static [Dimension] {
        timeline::DIMENSIONS
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
        let mut weights = Vec::new();
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
            let mut of_thread = Vec::with_capacity(lane.stacks.len());
            for placed in &lane.stacks {
                let stack = placed.stack;
                let levels = timeline::levels(folded, stack).map(|name| (name, level));
                let users = stack.user.iter().map(|name| (name.as_ref(), user));
                let kernels = stack.kernel.iter().map(|name| (name.as_ref(), kernel));
                let frames: Vec<FrameInfo> = levels
                    .chain(users)
                    .chain(kernels)
                    .map(|(name, category)| FrameInfo {
                        frame: Frame::Label(profile.intern_string(&printable(name))),
                        category_pair: category.into(),
                        flags: FrameFlags::empty(),
                    })
                    .collect();
                let frames = profile.intern_stack_frames(thread, frames.into_iter());
                profile.add_sample(thread, moment(placed.begin_ns), frames, CpuDelta::ZERO, 1);
                of_thread.push(match unit {
                    Unit::Time => Value::from(stack.ns as f64 / 1e6),
                    Unit::Samples | Unit::Counts => Value::from(u64::try_from(stack.ns).unwrap_or(u64::MAX)),
                });
            }
            weights.push(of_thread);
        }
        let mut document = serde_json::to_value(&profile).map_err(io::Error::from)?;
        // The library keeps weights as whole numbers, and a stack can have less than a millisecond.
        let threads = document["threads"].as_array_mut();
        for (thread, weights) in threads.into_iter().flatten().zip(weights) {
            thread["samples"]["weight"] = Value::Array(weights);
        }
        serde_json::to_writer(out, &document).map_err(io::Error::from)
    }
}
