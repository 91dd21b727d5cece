//! `dbtime dive`: calls are captured into a file, which is then imported and reported like any other.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dbtime_collect::{
    Dive, DiveEngine, DiveFacts, DiveOptions, DiveRemains, DiveStatus, DiveWait, KernelTracing, Options,
    Scratch, SystemCall, Target, Tier,
};
use dbtime_import::CallOptions;
use dbtime_model::latency::kind;
use dbtime_report::{DiveView, Filter, LatencyOptions, Source};

use crate::arguments::{DiveArguments, EngineKind};
use crate::import::{self, Detail};
use crate::options::FileOptions;
use crate::output::{self, ProgressLine, say};
use crate::record::{Output, Plan, record};
use crate::remains::mend_folders;

/// How often the trace is read: well before 16 MB of events have come in.
const STEP: Duration = Duration::from_millis(20);
/// Calls to wait for when nothing is said.
const CALLS: u64 = 20;
/// How long they are waited for, and how long calls are listed, when nothing is said.
const PATIENCE: Duration = Duration::from_secs(10);
/// Samples per second while calls are listed: they are not what is asked for.
const RATE_HZ: u32 = 99;
/// Calls to list.
const LISTED: usize = 100;
/// Programs that the kernel gives up at once.
const AT_ONCE: usize = 10;
/// Functions and call paths to show: the rest can be asked of a recording.
const FUNCTIONS: usize = 15;
const PATHS: usize = 60;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// What was asked for has been shown or written.
    Done,
    /// There was no call.
    NothingSeen,
}

/// Looks into calls, lists them, or restores what an earlier dive has left behind.
///
/// # Errors
/// Nothing can be traced, what was traced cannot be read, or something of the kernel's could not be given back.
pub fn run(arguments: &DiveArguments, stop: &Arc<AtomicBool>) -> anyhow::Result<Ended> {
    // A name that does not exist is told before anything is touched.
    let call = arguments.call.as_deref().map(SystemCall::named).transpose()?;
    let tracing = KernelTracing::claim()?;
    for what in tracing.restored() {
        say(format_args!("note: {what}"));
    }
    mend_folders();
    let (Some(pid), Some(call)) = (arguments.pid, call) else {
        drop(tracing);
        return match (arguments.list, arguments.pid) {
            (true, Some(pid)) => list(pid, arguments.duration.unwrap_or(PATIENCE), stop),
            _ => Ok(Ended::Done),
        };
    };
    // Removed with what is in it, unless the text itself is wanted.
    let folder = Scratch::new(Scratch::DIVE)?;
    let file = arguments
        .raw
        .clone()
        .unwrap_or_else(|| folder.path().join(format!("{}-{pid}.ftrace", call.name())));
    let options = DiveOptions {
        pid,
        call,
        engines: match arguments.engine {
            None => DiveEngine::ALL.to_vec(),
            Some(EngineKind::FunctionGraph) => vec![DiveEngine::FunctionGraph, DiveEngine::OwnFunctionGraph],
            Some(EngineKind::OwnFunctionGraph) => vec![DiveEngine::OwnFunctionGraph],
            Some(EngineKind::Fentry) => vec![DiveEngine::Fentry],
            Some(EngineKind::Probes) => vec![DiveEngine::Probes],
            Some(EngineKind::Tracepoints) => vec![DiveEngine::Tracepoints],
        },
        functions: arguments.functions.clone(),
        wait: arguments.wait.clone().map(|event| DiveWait {
            database: match &arguments.oracle {
                Some(map) => Target::Oracle(map.clone()),
                None => Target::Process(pid),
            },
            event,
        }),
        file: output::place(&file)?,
    };
    let (facts, remains) = capture(tracing, &options, arguments, stop)?;
    let ended = show(&facts, &file, call, arguments);
    if remains.programs() > AT_ONCE {
        say(format_args!(
            "note: {} programs are taken out of the kernel's functions, which takes some seconds",
            remains.programs()
        ));
    }
    drop(remains);
    ended
}

/// Shows what was captured, or says why there is nothing to be seen.
fn show(
    facts: &DiveFacts,
    file: &Path,
    call: SystemCall,
    arguments: &DiveArguments,
) -> anyhow::Result<Ended> {
    let pid = arguments.pid.unwrap_or_default();
    if facts.calls == 0 {
        let in_wait = match &arguments.wait {
            None => String::new(),
            Some(wait) => format!(" in the wait event '{}'", wait.escape_debug()),
        };
        say(format_args!(
            "dbtime: pid {pid} ended no call of {}{in_wait} meanwhile; 'dbtime dive -p {pid} --list' shows which calls it makes",
            call.name()
        ));
        return Ok(Ended::NothingSeen);
    }
    if let Some(raw) = &arguments.raw {
        let raw = raw.display();
        say(format_args!("wrote {raw}: see it with 'dbtime report {raw}'"));
        return Ok(Ended::Done);
    }
    report(file, call, arguments)
}

/// Captures until there are enough calls, the time is over, there is nothing more to come, or `stop` is set.
fn capture(
    tracing: KernelTracing,
    options: &DiveOptions,
    arguments: &DiveArguments,
    stop: &AtomicBool,
) -> anyhow::Result<(DiveFacts, DiveRemains)> {
    let (calls, patience) = bounds(arguments);
    let (pid, name) = (options.pid, options.call.name());
    let mut dive = Dive::start(tracing, options)?;
    let begin = Instant::now();
    let facts = dive.facts();
    say(format_args!(
        "looking into {name} of pid {pid} with {}",
        facts.engine
    ));
    for why in &facts.refused {
        say(format_args!("note: not with {why}"));
    }
    if let Some(functions) = facts.functions {
        say(format_args!(
            "note: {functions} functions of the kernel are traced, set up in {:.1} s; meanwhile each costs every process a \
             little",
            facts.arming.as_secs_f64()
        ));
    }
    for note in &facts.notes {
        say(format_args!("note: {note}"));
    }
    let known_notes = facts.notes.len();
    let mut line = ProgressLine::new();
    let mut shown = None;
    loop {
        let status = dive.step()?;
        let seen = dive.facts().calls;
        if status != DiveStatus::Diving
            || calls.is_some_and(|calls| seen >= calls)
            || begin.elapsed() >= patience
            || stop.load(Ordering::Relaxed)
        {
            break;
        }
        if shown != Some(seen) {
            shown = Some(seen);
            line.show(&format!("{seen} calls"));
        }
        std::thread::sleep(STEP.min(patience.saturating_sub(begin.elapsed())));
    }
    drop(line);
    let traced = begin.elapsed();
    let (facts, remains) = dive.stop()?;
    for note in &facts.notes[known_notes..] {
        say(format_args!("note: {note}"));
    }
    if let Some(calls) = calls
        && facts.calls > 0
        && facts.calls < calls
    {
        say(format_args!("note: only {} calls came, not {calls}", facts.calls));
    }
    say(format_args!(
        "traced {} calls in {:.1} s, {} KB of text; dbtime used {:.2} s of CPU",
        facts.calls,
        traced.as_secs_f64(),
        facts.bytes.div_ceil(1_000),
        facts.cpu.as_secs_f64()
    ));
    Ok((facts, remains))
}

/// How many calls and how long: time alone when only a time was typed.
fn bounds(arguments: &DiveArguments) -> (Option<u64>, Duration) {
    match (arguments.calls, arguments.duration) {
        (None, Some(duration)) => (None, duration),
        (calls, duration) => (Some(calls.unwrap_or(CALLS)), duration.unwrap_or(PATIENCE)),
    }
}

/// Makes a recording of the text if one is wanted, and shows what is in it.
fn report(file: &Path, call: SystemCall, arguments: &DiveArguments) -> anyhow::Result<Ended> {
    let about = FileOptions {
        calls: CallOptions {
            name: Some(call.name().to_string()),
            wait: arguments.wait.clone(),
            most: bounds(arguments).0,
        },
        ..FileOptions::default()
    };
    let files = [file.to_path_buf()];
    let source = match &arguments.recording.output {
        None => import::open(&files, &about, Detail::Seconds)?,
        Some(output) => {
            import::import(&files, &about, output)?;
            say(format_args!(
                "wrote {0}: see it again with 'dbtime report {0}'",
                output.display()
            ));
            Source::open(output)?
        }
    };
    let look = |view, top| {
        dbtime_report::dive(
            &source,
            &dbtime_report::DiveOptions {
                filter: Filter::default(),
                view,
                top,
                depth: None,
            },
        )
    };
    let (summary, tree) = (look(DiveView::Summary, FUNCTIONS)?, look(DiveView::Tree, PATHS)?);
    let width = output::width();
    let text = dbtime_report::text::render_dive(&summary, width)
        + &dbtime_report::text::render_dive_answer(&tree, width);
    output::print(&text)?;
    Ok(match summary.trace.calls {
        0 => Ended::NothingSeen,
        _ => Ended::Done,
    })
}

/// Shows which calls a process makes: what `record --exact=calls` times.
fn list(pid: u32, duration: Duration, stop: &Arc<AtomicBool>) -> anyhow::Result<Ended> {
    let folder = Scratch::new(Scratch::DIVE)?;
    let output: PathBuf = folder.path().join("calls.dbt");
    let plan = Plan {
        collect: Options {
            tier: Tier::Calls,
            ..Options::sampled(Target::AnyProcess(pid), RATE_HZ)
        },
        duration: Some(duration),
        output: Output::At(output::place(&output)?),
        rotate: None,
        watch: Vec::new(),
        flight: String::new(),
        owner: None,
        alone: false,
    };
    say(format_args!(
        "listing the calls of pid {pid} for {} s",
        duration.as_secs_f64()
    ));
    let nothing = || {
        say(format_args!("dbtime: pid {pid} ended no system call meanwhile"));
        Ok(Ended::NothingSeen)
    };
    if record(&plan, stop, &mut |_| {})?.activity_rows == 0 {
        return nothing();
    }
    let source = Source::open(&output)?;
    let options = LatencyOptions {
        filter: Filter {
            sessions: vec![pid],
            ..Filter::default()
        },
        kinds: vec![kind::SYSCALL.to_string()],
        top: LISTED,
        ..LatencyOptions::default()
    };
    let latencies = match dbtime_report::latency(&source, &options) {
        // A kind that is not there is no error here: the process made no call.
        Ok(latencies) if !latencies.kinds.is_empty() => latencies,
        _ => return nothing(),
    };
    let text = dbtime_report::text::render_latency_table(&latencies, output::width());
    output::print(&text)?;
    Ok(Ended::Done)
}
