//! `dbtime iolat`: the latency of block I/O, interval by interval.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use dbtime_collect::{BlockInterval, BlockLatency, BlockOptions};
use dbtime_model::BlockOperation;
use dbtime_report::text::{BlockIoOptions, render_block_io};
use dbtime_report::{BlockIo, render_block_io_json};

use crate::exit_code::NOTHING_RECORDED;
use crate::options::time::parse_seconds;
use crate::options::{StreamFormat, TableFormat};
use crate::output::{self, say};
use crate::remains::mend;
use crate::signals::{Second, stop_on_signals};

/// `dbtime iolat`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo dbtime iolat\n  sudo dbtime iolat 1 10 --device nvme0n1 --per-disk"
)]
pub struct IolatArguments {
    /// Seconds between two tables, at least 0.1
    #[arg(value_name = "INTERVAL", default_value = "1", value_parser = parse_seconds_between)]
    interval: Duration,
    /// Tables to show [default: until Ctrl-C, which shows the whole time]
    #[arg(value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Only this disk; may be repeated
    #[arg(long, value_name = "NAME")]
    device: Vec<String>,
    /// Only this operation: read, write, flush, discard, other; may be repeated
    #[arg(long, value_name = "OPERATION")]
    operation: Vec<BlockOperation>,
    /// Only I/O that this process submitted; may be repeated
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// Latency from queueing to completion, not from issue to completion
    #[arg(long)]
    queue: bool,
    /// A table for each disk
    #[arg(long)]
    per_disk: bool,
    /// For whom
    #[command(flatten)]
    stream: StreamFormat,
}

/// With shorter ones, reading the numbers would become part of what is measured.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
/// Longer ones are typos.
const LONGEST_INTERVAL: Duration = Duration::from_secs(86_400);

fn parse_seconds_between(text: &str) -> Result<Duration, String> {
    let interval = parse_seconds(text)?;
    if (SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&interval) {
        Ok(interval)
    } else {
        Err("must be between 0.1 and 86400 seconds".to_string())
    }
}

/// How long it may take to notice Ctrl-C.
const STEP: Duration = Duration::from_millis(50);

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Everything asked for has been shown.
    Shown,
    /// The same, but it was empty.
    NothingSeen,
    /// Nobody reads standard output any more.
    ReaderGone,
}

/// Shows intervals, and then the whole time.
///
/// # Errors
/// Nothing can be measured, or standard output cannot be written.
pub(super) fn run(arguments: &IolatArguments) -> anyhow::Result<ExitCode> {
    mend();
    let stop = stop_on_signals(Second::Ends)?;
    Ok(match show_all(arguments, &stop)? {
        Ended::Shown | Ended::ReaderGone => ExitCode::SUCCESS,
        Ended::NothingSeen => {
            say(format_args!("dbtime: no block I/O was seen"));
            ExitCode::from(NOTHING_RECORDED)
        }
    })
}

/// Shows intervals until there are enough, or until `stop` is set, and then the whole time.
fn show_all(arguments: &IolatArguments, stop: &AtomicBool) -> anyhow::Result<Ended> {
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

/// True if it was told to stop before that.
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

/// False if nobody reads any more.
fn show(io: &BlockIo, format: TableFormat, options: BlockIoOptions) -> anyhow::Result<bool> {
    let text = match format {
        TableFormat::Text => render_block_io(io, options, output::width()),
        TableFormat::Json => render_block_io_json(io, options),
    };
    output::print_on(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_neither_too_short_nor_without_end() {
        assert_eq!(parse_seconds_between("0.1"), Ok(Duration::from_millis(100)));
        for wrong in ["0", "0.09", "86401", "1e300", "-1", "one"] {
            assert!(parse_seconds_between(wrong).is_err(), "{wrong}");
        }
    }
}
