//! `dbtime sched`: context switches as they come, then a summary; perhaps a recording of them.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use dbtime_collect::{Status, SwitchCollector};
use dbtime_model::output::caller_of_sudo;
use dbtime_model::recording::{Clock, Meta, RecordingWriter};
use dbtime_model::{Rows, Session, SessionId};
use dbtime_report::{SchedBuilder, Source, SwitchLine, json, text};

use crate::exit_code::NOTHING_RECORDED;
use crate::options::{NewRecording, StopAfter, StreamFormat, TableFormat, TargetOptions};
use crate::output::{self, say};
use crate::remains::mend;
use crate::signals::{Second, stop_on_signals};

/// `dbtime sched`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sudo dbtime sched -d 10 --summary\n  sudo dbtime sched -p 4711")]
pub struct SchedArguments {
    /// Whom
    #[command(flatten)]
    target: TargetOptions,
    /// For how long
    #[command(flatten)]
    stop: StopAfter,
    /// Only the summary, not every switch
    #[arg(long)]
    summary: bool,
    /// Number of longest scheduling delays to show in the summary
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// For whom
    #[command(flatten)]
    stream: StreamFormat,
    /// Perhaps kept
    #[command(flatten)]
    recording: NewRecording,
}

/// What a killed recorder loses at most.
const SEGMENT: Duration = Duration::from_secs(5);
/// Sums are taken so often; single switches at every step.
const SUMS: Duration = Duration::from_secs(1);
/// Rows that wait to be written before a segment is full: some 30 MB.
const ROWS_IN_MEMORY: usize = 100_000;
/// How long one step waits for events.
const STEP: Duration = Duration::from_millis(50);
/// Switches are a flood: the heading comes again after so many.
const LINES_OF_A_PAGE: u64 = 1_000;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// All that was asked for has been shown.
    Shown,
    /// The same, but there was no switch.
    NothingSeen,
    /// Nobody reads standard output any longer.
    ReaderGone,
}

/// Shows switches, and then the summary.
///
/// # Errors
/// Nothing can be measured, or the recording or standard output cannot be written.
pub(super) fn run(arguments: &SchedArguments) -> anyhow::Result<ExitCode> {
    mend();
    let stop = stop_on_signals(Second::Ends)?;
    let ended = show_all(arguments, &stop)?;
    if let Some(path) = &arguments.recording.output {
        let path = path.display();
        say(format_args!(
            "recorded {path}: see it with 'dbtime report {path}'"
        ));
    }
    Ok(match ended {
        Ended::Shown | Ended::ReaderGone => ExitCode::SUCCESS,
        Ended::NothingSeen => {
            say(format_args!("dbtime: no context switch was seen"));
            ExitCode::from(NOTHING_RECORDED)
        }
    })
}

/// Shows switches until the time is over, `stop` is set, or the target has ended; and then the summary.
fn show_all(arguments: &SchedArguments, stop: &AtomicBool) -> anyhow::Result<Ended> {
    let place = arguments
        .recording
        .output
        .as_deref()
        .map(output::new_place)
        .transpose()?;
    let mut collector = SwitchCollector::start(&arguments.target.target())?;
    let meta = collector.meta();
    let mut shown = Shown {
        format: arguments.stream.format,
        with_lines: !arguments.summary,
        lines: 0,
        summary: SchedBuilder::new(arguments.top),
        pending: Rows::default(),
        sessions: HashMap::new(),
        writer: place
            .map(|place| RecordingWriter::create_at(place, meta.clone()))
            .transpose()?,
    };
    let until = match arguments.stop.duration {
        Some(duration) => format!("for {} s", duration.as_secs_f64()),
        None => "until Ctrl-C".to_string(),
    };
    say(format_args!(
        "context switches of {} {} ({}) {until}",
        meta.database.product, meta.database.version, meta.database.target
    ));
    for reason in &meta.collector.reasons {
        say(format_args!("note: {reason}"));
    }
    match follow(arguments, stop, &mut collector, &mut shown) {
        Ok(reader_is_there) => shown.end(collector.meta(), reader_is_there),
        Err(e) => {
            shown.give_up();
            Err(e)
        }
    }
}

/// Shows and writes switches until the end. False when nobody reads any longer.
fn follow(
    arguments: &SchedArguments,
    stop: &AtomicBool,
    collector: &mut SwitchCollector,
    shown: &mut Shown,
) -> anyhow::Result<bool> {
    let start = Instant::now();
    let mut next_segment = start + SEGMENT;
    let mut next_sums = start + SUMS;
    let mut told = 0;
    let mut reader_is_there = true;
    loop {
        let status = collector.step(STEP)?;
        reader_is_there = shown.switches(collector)? && reader_is_there;
        if Instant::now() >= next_sums {
            next_sums += SUMS;
            shown.sums(collector);
        }
        for note in &collector.notes()[told..] {
            say(format_args!("note: {}", note.text));
        }
        told = collector.notes().len();
        if Instant::now() >= next_segment || shown.pending.len() >= ROWS_IN_MEMORY {
            next_segment = Instant::now() + SEGMENT;
            shown.write(collector.meta())?;
        }
        let time_is_over = arguments
            .stop
            .duration
            .is_some_and(|duration| start.elapsed() >= duration);
        if time_is_over || status == Status::Ended || !reader_is_there || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    collector.finish();
    reader_is_there = shown.switches(collector)? && reader_is_there;
    shown.sums(collector);
    shown.write(collector.meta())?;
    Ok(reader_is_there)
}

/// What becomes of the rows.
struct Shown {
    format: TableFormat,
    with_lines: bool,
    lines: u64,
    summary: SchedBuilder,
    /// Not written yet.
    pending: Rows,
    sessions: HashMap<SessionId, Session>,
    writer: Option<RecordingWriter>,
}

impl Shown {
    /// Takes the sums.
    fn sums(&mut self, collector: &mut SwitchCollector) {
        let rows = collector.take_rows();
        rows.latency.iter().for_each(|row| self.summary.add_latency(row));
        rows.counters.iter().for_each(|row| self.summary.add_counter(row));
        let described = rows.sessions.iter().cloned().map(Session::from);
        self.sessions
            .extend(described.map(|session| (session.id, session)));
        if self.writer.is_some() {
            self.pending.append(rows);
        }
    }

    /// Takes the switches that have come. False when nobody reads any longer.
    fn switches(&mut self, collector: &mut SwitchCollector) -> anyhow::Result<bool> {
        let switches = collector.take_switches();
        switches.iter().for_each(|row| self.summary.add_switch(row));
        let mut text = String::new();
        if self.with_lines {
            for row in &switches {
                let known = collector.session(row.session);
                let known = known.or_else(|| self.sessions.get(&row.session));
                let unknown = Session::default();
                let line = SwitchLine::of(row, known.unwrap_or(&unknown));
                match self.format {
                    TableFormat::Json => text += &json::render_switch(&line),
                    TableFormat::Text => {
                        if self.lines.is_multiple_of(LINES_OF_A_PAGE) {
                            text += &text::render_switch_heading(output::width());
                        }
                        text += &text::render_switch(&line, Clock::Utc);
                    }
                }
                self.lines += 1;
            }
        }
        if self.writer.is_some() {
            self.pending.switches.extend(switches);
        }
        output::print_on(&text)
    }

    /// Writes a segment of the recording, if there is to be one.
    fn write(&mut self, meta: Meta) -> anyhow::Result<()> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        let (segments, bytes) = (writer.meta().segments.clone(), writer.meta().cost.bytes_written);
        *writer.meta() = meta;
        writer.meta().segments = segments;
        writer.meta().cost.bytes_written = bytes;
        writer.write(&self.pending)?;
        self.pending = Rows::default();
        Ok(())
    }

    /// Leaves what was written, for there is an error. Nothing is left of a recording that has nothing in it: it would only block
    /// the name.
    fn give_up(self) {
        if let Some(mut writer) = self.writer
            && writer.meta().segments.last == 0
            && let Err(e) = writer.discard()
        {
            say(format_args!("note: {e}"));
        }
    }

    fn end(mut self, meta: Meta, reader_is_there: bool) -> anyhow::Result<Ended> {
        if let Some(writer) = self.writer.take() {
            let directory = writer.directory()?;
            writer.finish()?;
            if let Some(text) = output::give(&directory, caller_of_sudo()) {
                say(format_args!("note: {text}"));
            }
        }
        let facts = meta.scheduling.clone().unwrap_or_default();
        let sessions = self.sessions.drain().map(|(_, session)| session.into()).collect();
        let described = Source::memory(
            meta,
            Rows {
                sessions,
                ..Rows::default()
            },
        );
        let sched = self.summary.finish(&facts, &mut described.dimensions());
        let text = match self.format {
            TableFormat::Json => json::render_sched(&sched),
            TableFormat::Text => text::render_sched(&sched, Clock::Utc, output::width()),
        };
        Ok(
            match (facts.switches, reader_is_there && output::print_on(&text)?) {
                (0, _) => Ended::NothingSeen,
                (_, true) => Ended::Shown,
                (_, false) => Ended::ReaderGone,
            },
        )
    }
}
