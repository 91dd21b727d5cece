//! `dbtime iolat`: the latency of block I/O, interval by interval.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dbtime_collect::{BlockInterval, BlockLatency, BlockOptions};
use dbtime_report::text::{BlockIoOptions, render_block_io};
use dbtime_report::{BlockIo, render_block_io_json};

use crate::arguments::IolatArguments;
use crate::options::TableFormat;
use crate::output::{self, say};

/// How long Ctrl-C may take to be noticed.
const STEP: Duration = Duration::from_millis(50);

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All that was asked for has been shown.
    Shown,
    /// The same, but there was nothing in it.
    NothingSeen,
    /// Nobody reads standard output any longer.
    ReaderGone,
}

/// Shows intervals until there were enough of them, or until `stop` is set, and then the whole time.
///
/// # Errors
/// Nothing can be measured, or standard output cannot be written.
pub fn run(arguments: &IolatArguments, stop: &AtomicBool) -> anyhow::Result<Ended> {
    let mut measured = BlockLatency::start(&BlockOptions {
        devices: arguments.device.clone(),
        operations: arguments.operation.clone(),
        pids: arguments.pid.clone(),
        with_queue: arguments.queue,
    })?;
    for reason in measured.reasons() {
        say(format_args!("note: {reason}"));
    }
    let options = BlockIoOptions {
        per_disk: arguments.per_disk,
        with_queue: measured.with_queue(),
        is_whole: false,
    };
    let mut whole: Option<BlockIo> = None;
    let mut shown = 0;
    let mut next = Instant::now();
    loop {
        // A late table shortens the time to the next one, so that they stay in step.
        next = (next + arguments.interval).max(Instant::now());
        let is_last = sleep_until(next, stop);
        let io = block_io(measured.interval()?);
        match &mut whole {
            None => whole = Some(io.clone()),
            Some(whole) => whole.append(&io),
        }
        if is_last {
            break;
        }
        if !show(&io, arguments.stream.format, options)? {
            return Ok(Ended::ReaderGone);
        }
        shown += 1;
        if arguments.count == Some(shown) {
            return Ok(ended(whole.as_ref()));
        }
    }
    let whole = whole.unwrap_or_default();
    let options = BlockIoOptions {
        is_whole: true,
        ..options
    };
    if show(&whole, arguments.stream.format, options)? {
        Ok(ended(Some(&whole)))
    } else {
        Ok(Ended::ReaderGone)
    }
}

fn ended(whole: Option<&BlockIo>) -> Ended {
    if whole.is_none_or(BlockIo::is_empty) {
        Ended::NothingSeen
    } else {
        Ended::Shown
    }
}

/// True when it was told to stop before.
fn sleep_until(moment: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return true;
        }
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(left.min(STEP));
    }
}

fn block_io(interval: BlockInterval) -> BlockIo {
    let mut io = BlockIo::new(interval.begin_us, interval.elapsed_ns);
    for row in &interval.rows {
        io.add(row);
    }
    for volume in &interval.volumes {
        io.add_bytes(&volume.device, &volume.name, volume.bytes);
    }
    io.left_out = interval.left_out;
    io.without_begin = interval.without_begin;
    io.lost = interval.lost;
    io
}

/// False when nobody reads any longer.
fn show(io: &BlockIo, format: TableFormat, options: BlockIoOptions) -> anyhow::Result<bool> {
    let text = match format {
        TableFormat::Text => render_block_io(io, options, output::width()),
        TableFormat::Json => render_block_io_json(io, options),
    };
    output::print_on(&text)
}
