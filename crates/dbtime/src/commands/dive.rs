//! `dbtime dive`: captures calls into a file, which is then imported and reported like any other.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use dbtime_collect::{
    Dive, DiveEngine, DiveFacts, DiveOptions, DiveRemains, DiveStatus, DiveWait, KernelTracing, Options,
    Scratch, SystemCall, Target, Tier,
};
use dbtime_import::CallOptions;
use dbtime_model::latency::kind;
use dbtime_model::output::Place;
use dbtime_report::{DiveView, Filter, LatencyOptions, Source};

use crate::exit_code::NOTHING_RECORDED;
use crate::import::{self, Detail};
use crate::options::time::parse_seconds;
use crate::options::{FileOptions, NewRecording};
use crate::output::{self, ProgressLine, say};
use crate::record::{Output, Plan, record};
use crate::remains::mend_folders;
use crate::signals::{Second, stop_on_signals};

/// How often the trace is read: well before 16 MB of events have accumulated.
const STEP: Duration = Duration::from_millis(20);
/// Calls to wait for by default.
const CALLS: u64 = 20;
/// How long to wait for them, and how long to list calls, by default.
const PATIENCE: Duration = Duration::from_secs(10);
/// Samples per second while listing calls: they are not what is asked for.
const RATE_HZ: u32 = 99;
/// Calls to list.
const LISTED: usize = 100;
/// BPF programs that the kernel detaches without a noticeable delay.
const AT_ONCE: usize = 10;
/// Functions and call paths to show: a recording can show the rest.
const FUNCTIONS: usize = 15;
const PATHS: usize = 60;

/// `dbtime dive`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo dbtime dive -p 4711 --list\n  sudo dbtime dive -p 4711 --call pread64"
)]
pub struct DiveArguments {
    /// Process or thread to trace; of a process with many threads, only the thread with this id
    #[arg(short, long, value_name = "PID", required_unless_present = "restore",
          value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// System call to trace, named as in section 2 of the manual: pread64, io_submit, futex, epoll_wait …
    #[arg(long, value_name = "NAME", required_unless_present_any = ["list", "restore"])]
    call: Option<String>,
    /// Stop after this many calls [default: 20, or as many as come in the time of -d]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    calls: Option<u64>,
    /// Stop after this time: seconds, or 30s, 1m [default: 10]
    #[arg(short, long, value_name = "TIME", value_parser = parse_seconds)]
    duration: Option<Duration>,
    /// Use this engine and no other [default: the best that the kernel allows]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<EngineKind>,
    /// Trace only functions with these names, * is a wildcard; not with the tracepoints engine
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',', value_parser = parse_pattern)]
    functions: Vec<String>,
    /// Only calls made in this wait event of a PostgreSQL session (Class:Event, or either of the two; CPU for none)
    #[arg(long, value_name = "WAIT")]
    wait: Option<String>,
    /// The same for an Oracle session; MAP is the file made by the script of 'dbtime oracle-map'
    #[arg(long, value_name = "MAP", requires = "wait")]
    oracle: Option<PathBuf>,
    /// List the system calls that the process makes in -d seconds, instead of tracing one
    #[arg(long, conflicts_with_all = ["call", "calls", "engine", "functions", "wait", "raw", "output"])]
    list: bool,
    /// Only restore the kernel settings that a killed dive left changed (every dive does this first)
    #[arg(long, conflicts_with_all = ["pid", "call", "calls", "duration", "engine", "functions", "wait", "list", "raw", "output"])]
    restore: bool,
    /// Write the trace as text to this file instead of showing a report
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    raw: Option<PathBuf>,
    #[command(flatten)]
    recording: NewRecording,
}

/// What `dive` traces with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineKind {
    /// Every function, in a private trace instance or else in the kernel's top-level one
    FunctionGraph,
    /// Every function, in the kernel's top-level trace instance: less text for a busy process
    OwnFunctionGraph,
    /// Functions that the call reaches, each with a BPF program of its own (fentry/fexit), alongside other tracers
    Fentry,
    /// The same with probes (kprobe.multi, or kprobes one by one)
    Probes,
    /// Tracepoints with stacks, in a private instance, and timer samples of the kernel stack
    Tracepoints,
}

/// What ftrace accepts as a pattern of function names; it also accepts commands, which contain a colon.
fn parse_pattern(text: &str) -> Result<String, String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_.*?[]".contains(c);
    if !text.is_empty() && text.chars().all(is_of_name) {
        Ok(text.to_string())
    } else {
        Err("not a pattern for function names, such as vfs_*".to_string())
    }
}

/// What a dive is asked to do.
enum Request {
    /// Only restore what an earlier one left changed.
    Restore,
    /// Which system calls a process makes.
    List { pid: u32, duration: Duration },
    /// What one of them does.
    Look(Look),
}

/// Which calls to look into, and until when.
struct Look {
    pid: u32,
    call: SystemCall,
    /// How many; none: as many as come in the time.
    calls: Option<u64>,
    patience: Duration,
    engines: Vec<DiveEngine>,
    functions: Vec<String>,
    wait: Option<DiveWait>,
    kept: Kept,
}

/// What is kept.
enum Kept {
    /// Nothing: only shown.
    Nothing,
    /// The text of the trace: not shown.
    Text(PathBuf),
    /// A recording, which is also shown.
    Recording(PathBuf),
}

impl Request {
    /// What these flags ask for.
    ///
    /// # Errors
    /// There is no such system call.
    fn of(arguments: &DiveArguments) -> anyhow::Result<Request> {
        // The parser allows no --pid with --restore, and requires --call unless --list is given.
        let Some(pid) = arguments.pid else {
            return Ok(Request::Restore);
        };
        let Some(name) = &arguments.call else {
            return Ok(Request::List {
                pid,
                duration: arguments.duration.unwrap_or(PATIENCE),
            });
        };
        // Only a time limit if only a time was given.
        let (calls, patience) = match (arguments.calls, arguments.duration) {
            (None, Some(duration)) => (None, duration),
            (calls, duration) => (Some(calls.unwrap_or(CALLS)), duration.unwrap_or(PATIENCE)),
        };
        Ok(Request::Look(Look {
            pid,
            call: SystemCall::named(name)?,
            calls,
            patience,
            engines: engines(arguments.engine),
            functions: arguments.functions.clone(),
            wait: arguments.wait.clone().map(|event| DiveWait {
                database: match &arguments.oracle {
                    Some(map) => Target::Oracle(map.clone()),
                    None => Target::Process(pid),
                },
                event,
            }),
            kept: match (&arguments.raw, &arguments.recording.output) {
                (Some(file), _) => Kept::Text(file.clone()),
                (None, Some(output)) => Kept::Recording(output.clone()),
                (None, None) => Kept::Nothing,
            },
        }))
    }
}

/// The engines to try, one after the other.
fn engines(typed: Option<EngineKind>) -> Vec<DiveEngine> {
    match typed {
        None => DiveEngine::ALL.to_vec(),
        Some(EngineKind::FunctionGraph) => vec![DiveEngine::FunctionGraph, DiveEngine::OwnFunctionGraph],
        Some(EngineKind::OwnFunctionGraph) => vec![DiveEngine::OwnFunctionGraph],
        Some(EngineKind::Fentry) => vec![DiveEngine::Fentry],
        Some(EngineKind::Probes) => vec![DiveEngine::Probes],
        Some(EngineKind::Tracepoints) => vec![DiveEngine::Tracepoints],
    }
}

/// Looks into calls, lists them, or restores what an earlier dive left changed.
///
/// # Errors
/// Nothing can be traced, what was traced cannot be read, or a kernel setting could not be restored.
pub(super) fn run(arguments: &DiveArguments) -> anyhow::Result<ExitCode> {
    // A second Ctrl-C must not interrupt restoring the kernel's settings.
    let stop = stop_on_signals(Second::Ignored)?;
    // An unknown name is reported before anything is touched.
    let request = Request::of(arguments)?;
    let tracing = KernelTracing::claim()?;
    for what in tracing.restored() {
        say(format_args!("note: {what}"));
    }
    mend_folders();
    match request {
        Request::Restore => Ok(ExitCode::SUCCESS),
        Request::List { pid, duration } => {
            drop(tracing);
            list(pid, duration, &stop)
        }
        Request::Look(look) => look_into(&look, tracing, &stop),
    }
}

fn look_into(look: &Look, tracing: KernelTracing, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    // Removed with its contents, unless the text itself is wanted.
    let folder = Scratch::new(Scratch::DIVE)?;
    let file = match &look.kept {
        Kept::Text(file) => file.clone(),
        _ => folder
            .path()
            .join(format!("{}-{}.ftrace", look.call.name(), look.pid)),
    };
    let place = output::place(&file)?;
    let (facts, remains) = capture(tracing, look, place, stop)?;
    let ended = show(&facts, &file, look);
    if remains.programs() > AT_ONCE {
        say(format_args!(
            "note: detaching {} BPF programs from kernel functions; this takes a few seconds",
            remains.programs()
        ));
    }
    drop(remains);
    ended
}

/// Shows what was captured, or says why there is nothing to see.
fn show(facts: &DiveFacts, file: &Path, look: &Look) -> anyhow::Result<ExitCode> {
    let (pid, name) = (look.pid, look.call.name());
    if facts.calls == 0 {
        let in_wait = match &look.wait {
            None => String::new(),
            Some(wait) => format!(" in the wait event '{}'", wait.event.escape_debug()),
        };
        say(format_args!(
            "dbtime: pid {pid} completed no call of {name}{in_wait} in this time; 'dbtime dive -p {pid} --list' shows \
            which calls it makes"
        ));
        return Ok(ExitCode::from(NOTHING_RECORDED));
    }
    if let Kept::Text(raw) = &look.kept {
        let raw = raw.display();
        say(format_args!("wrote {raw}: see it with 'dbtime report {raw}'"));
        return Ok(ExitCode::SUCCESS);
    }
    report(file, look)
}

/// Captures until there are enough calls, the time is over, there is nothing more to come, or `stop` is set.
fn capture(
    tracing: KernelTracing,
    look: &Look,
    place: Place,
    stop: &AtomicBool,
) -> anyhow::Result<(DiveFacts, DiveRemains)> {
    let (calls, patience) = (look.calls, look.patience);
    let (pid, name) = (look.pid, look.call.name());
    let options = DiveOptions {
        pid,
        call: look.call,
        engines: look.engines.clone(),
        functions: look.functions.clone(),
        wait: look.wait.clone(),
        file: place,
    };
    let mut dive = Dive::start(tracing, &options)?;
    let begin = Instant::now();
    let facts = dive.facts();
    say(format_args!("tracing {name} of pid {pid} with {}", facts.engine));
    for why in &facts.refused {
        say(format_args!("note: cannot use {why}"));
    }
    if let Some(functions) = facts.functions {
        say(format_args!(
            "note: {functions} kernel functions are traced, set up in {:.1} s; until the dive ends, each slows every \
            process a little",
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
        say(format_args!(
            "note: only {} calls were seen, not {calls}",
            facts.calls
        ));
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

/// Makes a recording of the text if one is wanted, and shows its contents.
fn report(file: &Path, look: &Look) -> anyhow::Result<ExitCode> {
    let about = FileOptions {
        calls: CallOptions {
            name: Some(look.call.name().to_string()),
            wait: look.wait.as_ref().map(|wait| wait.event.clone()),
            most: look.calls,
        },
        ..FileOptions::default()
    };
    let files = [file.to_path_buf()];
    let source = match &look.kept {
        Kept::Nothing | Kept::Text(_) => import::open(&files, &about, Detail::Seconds)?,
        Kept::Recording(output) => {
            import::import(&files, &about, output)?;
            say(format_args!(
                "wrote {0}: see it again with 'dbtime report {0}'",
                output.display()
            ));
            Source::open(output)?
        }
    };
    let asked = |view, top| {
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
    let (summary, tree) = (
        asked(DiveView::Summary, FUNCTIONS)?,
        asked(DiveView::Tree, PATHS)?,
    );
    let width = output::width();
    let text = dbtime_report::text::render_dive(&summary, width)
        + &dbtime_report::text::render_dive_answer(&tree, width);
    output::print(&text)?;
    Ok(match summary.trace.calls {
        0 => ExitCode::from(NOTHING_RECORDED),
        _ => ExitCode::SUCCESS,
    })
}

/// Shows which calls a process makes: what `record --exact=calls` times.
fn list(pid: u32, duration: Duration, stop: &Arc<AtomicBool>) -> anyhow::Result<ExitCode> {
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
        "listing the system calls of pid {pid} for {} s",
        duration.as_secs_f64()
    ));
    let nothing = || {
        say(format_args!(
            "dbtime: pid {pid} completed no system call in this time"
        ));
        Ok(ExitCode::from(NOTHING_RECORDED))
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
        // A missing kind is not an error here: the process made no call.
        Ok(latencies) if !latencies.kinds.is_empty() => latencies,
        _ => return nothing(),
    };
    let text = dbtime_report::text::render_latency_table(&latencies, output::width());
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_functions_hold_no_command() {
        assert_eq!(parse_pattern("vfs_*"), Ok("vfs_*".to_string()));
        for wrong in ["", "vfs_read:traceoff", "a b", "!x", "a\nb"] {
            assert!(parse_pattern(wrong).is_err(), "{wrong}");
        }
    }
}
