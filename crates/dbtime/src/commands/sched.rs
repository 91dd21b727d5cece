//! `dbtime sched`: context switches as they come, then a summary; optionally a recording of them.

use std::collections::HashMap;
use std::io;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use dbtime_collect::{Status, SwitchCollector};
use dbtime_model::output::caller_of_sudo;
use dbtime_model::recording::{Clock, Meta};
use dbtime_model::{Rows, Session, SessionId, StatementRow};
use dbtime_report::{SchedBuilder, Source, SwitchLine, json, printable_lines, text};

use crate::exit_code::NOTHING_RECORDED;
use crate::options::{
    NewRecording, ShownTexts, StopAfter, StreamFormat, TableFormat, TargetOptions, above_zero,
};
use crate::output::{self, ProgressLine, say};
use crate::printer::{Printer, Stream};
use crate::record::{Output, Part, Progress, Sink};
use crate::remains::mend;
use crate::signals::{Second, stop_on_signals};

/// `dbtime sched`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sudo dbtime sched -d 10 --summary\n  sudo dbtime sched -p 4711")]
pub struct SchedArguments {
    #[command(flatten)]
    target: TargetOptions,
    /// For how long
    #[command(flatten)]
    stop: StopAfter,
    /// Only the summary, not every switch
    #[arg(long)]
    summary: bool,
    /// What becomes of the texts of statements
    #[command(flatten)]
    texts: ShownTexts,
    /// Number of longest scheduling delays to show in the summary
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = above_zero)]
    top: usize,
    /// For whom
    #[command(flatten)]
    stream: StreamFormat,
    #[command(flatten)]
    recording: NewRecording,
}

/// The most that a killed recorder loses.
const SEGMENT: Duration = Duration::from_secs(5);
/// How often sums are taken; single switches at every step.
const SUMS: Duration = Duration::from_secs(1);
/// Rows that wait to be written before a segment is full: some 30 MB.
const ROWS_IN_MEMORY: usize = 100_000;
/// Bytes of lines that may wait for their reader: some 100,000 lines.
const MOST_TEXT: usize = 16 << 20;
/// How long one step waits for events.
const STEP: Duration = Duration::from_millis(50);
/// Switches are many: the heading is repeated after this many.
const LINES_OF_A_PAGE: u64 = 1_000;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Everything asked for has been shown.
    Shown,
    /// The same, but there was no switch.
    NothingSeen,
    /// Nobody reads standard output any more.
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
    if ended == Ended::NothingSeen {
        say(format_args!("dbtime: no context switch was seen"));
        return Ok(ExitCode::from(NOTHING_RECORDED));
    }
    if let Some(path) = &arguments.recording.output {
        let path = path.display();
        say(format_args!(
            "recorded {path}: see it with 'dbtime report {path}'"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows switches until the time is over, `stop` is set, or the target has ended; and then the summary.
fn show_all(arguments: &SchedArguments, stop: &AtomicBool) -> anyhow::Result<Ended> {
    let place = arguments
        .recording
        .output
        .as_deref()
        .map(output::new_place)
        .transpose()?;
    let mut collector = SwitchCollector::start(&arguments.target.target(), arguments.texts.text.into())?;
    let meta = collector.meta();
    // From here on this thread takes what the kernel sends, and waits for nothing else.
    let sink = place
        .map(|place| Sink::begin(Output::At(place), caller_of_sudo(), false, meta.clone()))
        .transpose()?;
    let mut line = ProgressLine::new();
    line.wait_for_nobody();
    let mut shown = Shown {
        format: arguments.stream.format,
        with_lines: !arguments.summary,
        lines: 0,
        summary: SchedBuilder::new(arguments.top),
        pending: Rows::default(),
        sessions: HashMap::new(),
        statements: Vec::new(),
        sink,
        printer: Printer::start(Stream::Output, MOST_TEXT).context("cannot start the printing thread")?,
        line,
    };
    let until = match arguments.stop.duration {
        Some(duration) => format!("for {} s", duration.as_secs_f64()),
        None => "until Ctrl-C".to_string(),
    };
    shown.line.say(format_args!(
        "context switches of {} {} ({}) {until}",
        meta.database.product, meta.database.version, meta.database.target
    ));
    for reason in &meta.collector.reasons {
        shown.line.say(format_args!("note: {reason}"));
    }
    let followed = follow(arguments, stop, &mut collector, &mut shown);
    shown.end(followed, &mut collector)
}

/// Shows and writes switches until the end.
fn follow(
    arguments: &SchedArguments,
    stop: &AtomicBool,
    collector: &mut SwitchCollector,
    shown: &mut Shown,
) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut next_segment = start + SEGMENT;
    let mut next_sums = start + SUMS;
    let mut told = 0;
    loop {
        let status = collector.step(STEP)?;
        shown.switches(collector);
        if Instant::now() >= next_sums {
            next_sums += SUMS;
            shown.sums(collector);
        }
        for note in &collector.notes()[told..] {
            shown.line.say(format_args!("note: {}", note.text));
        }
        told = collector.notes().len();
        if Instant::now() >= next_segment || shown.pending.len() >= ROWS_IN_MEMORY {
            next_segment = Instant::now() + SEGMENT;
            shown.write(collector);
        }
        let time_is_over = arguments
            .stop
            .duration
            .is_some_and(|duration| start.elapsed() >= duration);
        let is_over = time_is_over || status == Status::Ended || stop.load(Ordering::Relaxed);
        if is_over || !shown.goes_on() {
            return Ok(());
        }
    }
}

/// Where the rows go.
struct Shown {
    format: TableFormat,
    with_lines: bool,
    lines: u64,
    summary: SchedBuilder,
    /// Not written yet.
    pending: Rows,
    sessions: HashMap<SessionId, Session>,
    statements: Vec<StatementRow>,
    sink: Option<Sink>,
    /// Of standard output.
    printer: Printer,
    /// On standard error.
    line: ProgressLine,
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
        self.statements.extend(rows.statements.iter().cloned());
        if self.sink.is_some() {
            self.pending.append(rows);
        }
    }

    /// Takes the switches that have arrived.
    fn switches(&mut self, collector: &mut SwitchCollector) {
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
        if self.sink.is_some() {
            self.pending.switches.extend(switches);
        }
        if !text.is_empty() {
            self.printer.print(printable_lines(&text).to_string());
        }
    }

    /// Hands on rows for the recording, if there is one.
    fn write(&mut self, collector: &SwitchCollector) {
        if let Some(sink) = &mut self.sink {
            let part = part(std::mem::take(&mut self.pending), collector.meta());
            let mut tell = telling(&mut self.line);
            sink.take(part, &mut tell);
            sink.tell(&mut tell);
        }
    }

    /// False if nobody reads any more, or the recording cannot be written.
    fn goes_on(&self) -> bool {
        self.printer.is_printing() && self.sink.as_ref().is_none_or(Sink::is_writing)
    }

    /// What arrived before an error is still shown and written.
    fn end(mut self, followed: anyhow::Result<()>, collector: &mut SwitchCollector) -> anyhow::Result<Ended> {
        collector.finish();
        self.switches(collector);
        self.sums(collector);
        let meta = collector.meta();
        // Before waiting for the last lines, which may never be read.
        let written = match self.sink.take() {
            Some(sink) => {
                let last = part(std::mem::take(&mut self.pending), meta.clone());
                sink.finish(last, &mut telling(&mut self.line)).map(|_| ())
            }
            None => Ok(()),
        };
        match self.printer.dropped() {
            0 => {}
            lines => self.line.say(format_args!(
                "note: {lines} lines were not shown because they were not read in time; the summary has all switches"
            )),
        }
        followed.and(written)?;
        let reader_is_there = match self.printer.finish() {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => false,
            other => other.context("standard output").map(|()| true)?,
        };
        let facts = meta.scheduling.clone().unwrap_or_default();
        let sessions = self.sessions.drain().map(|(_, session)| session.into()).collect();
        let described = Source::memory(
            meta,
            Rows {
                sessions,
                statements: self.statements,
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

fn part(rows: Rows, meta: Meta) -> Part {
    Part {
        now_us: meta.end_us,
        rows,
        meta,
    }
}

/// Prints the writer's notes.
fn telling(line: &mut ProgressLine) -> impl FnMut(Progress<'_>) {
    |progress| {
        if let Progress::Note(text) = progress {
            line.say(format_args!("note: {text}"));
        }
    }
}
