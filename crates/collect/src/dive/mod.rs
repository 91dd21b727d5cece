//! A dive: what one system call of one task does inside the kernel, captured to a file in ftrace's own text format.
//!
//! ```text
//! KernelTracing::claim ──▶ Dive::start ──step…──▶ Dive::stop
//!   lock; undo what a          arm an engine:        stop, drain,
//!   killed dive left           the best that works   give everything back
//! ```
//!
//! Engines are tried until one works. Nothing is required of the traced process, and nothing is written to it. Settings of the
//! kernel's own trace are changed only while nobody uses it, and restored whatever happens: see `tracefs`.

mod call;
mod function_graph;
mod functions;
mod kernel_code;
mod probes;
mod samples;
mod source;
mod spool;
mod state_file;
mod tracefs;
mod tracepoints;
mod waits;

use std::fmt;
use std::time::{Duration, Instant};

pub use call::SystemCall;
use dbtime_model::output::Place;
use probes::Probes;
use samples::Samples;
use source::Source;
use spool::Spool;
use state_file::Owner;
use tracefs::{Changes, Trace, TraceFs};
use waits::NotedCalls;

use crate::{CollectError, Target, host, privilege, process};

/// The clock of all engines; BPF programs have it too.
const CLOCK: &str = "mono";
/// Maximum characters of a process title that says whose calls these are.
const LONGEST_TITLE: usize = 200;
/// Buffer space for events: maximum per CPU, maximum in all, minimum per CPU.
const ROOM_KB: (u64, u64, u64) = (16_384, 262_144, 1_024);

/// The ways to look into a call, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiveEngine {
    /// Every function, from a private instance of ftrace.
    FunctionGraph,
    /// Every function, from the kernel's own trace.
    OwnFunctionGraph,
    /// The functions that the call reaches, each calling a program of its own.
    Fentry,
    /// The same, with probes.
    Probes,
    /// Tracepoints with stacks, and timer samples of the kernel stack.
    Tracepoints,
}

impl DiveEngine {
    /// All of them, in the order in which they are tried.
    pub const ALL: [DiveEngine; 5] = [
        DiveEngine::FunctionGraph,
        DiveEngine::OwnFunctionGraph,
        DiveEngine::Fentry,
        DiveEngine::Probes,
        DiveEngine::Tracepoints,
    ];
}

impl fmt::Display for DiveEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DiveEngine::FunctionGraph => "function_graph in a private instance",
            DiveEngine::OwnFunctionGraph => "function_graph in the top-level instance",
            DiveEngine::Fentry => "fentry/fexit",
            DiveEngine::Probes => "probes",
            DiveEngine::Tracepoints => "tracepoints",
        })
    }
}

/// What to look into.
#[derive(Debug, Clone)]
pub struct DiveOptions {
    /// The task: in a process with many threads, only the one with this id.
    pub pid: u32,
    /// Which of its calls.
    pub call: SystemCall,
    /// The engines to try, in this order.
    pub engines: Vec<DiveEngine>,
    /// Patterns (`vfs_*`) of the functions to trace; empty: all. For all engines but tracepoints.
    pub functions: Vec<String>,
    /// Calls of one wait event only.
    pub wait: Option<DiveWait>,
    /// Where to put the file.
    pub file: Place,
}

/// A wait event, and where it can be read.
#[derive(Debug, Clone)]
pub struct DiveWait {
    /// The database that the task is a session of.
    pub database: Target,
    /// `Class:Event`, or either of the two; `CPU` for calls outside of waits.
    pub event: String,
}

/// What was used, what it has seen, and what it cost.
#[derive(Debug, Clone)]
pub struct DiveFacts {
    /// The engine.
    pub engine: String,
    /// Engines that would have been better, each with why it was refused.
    pub refused: Vec<String>,
    /// Functions of the kernel that are traced, where an engine traces functions and the kernel says how many.
    pub functions: Option<u64>,
    /// How long the setup took.
    pub arming: Duration,
    /// Calls that have ended, approximately: the exact number is counted by whoever reads the text. Only those of one wait event,
    /// if that was asked for.
    pub calls: u64,
    /// Bytes of text.
    pub bytes: u64,
    /// Events that the kernel dropped before they could be read.
    pub lost: u64,
    /// CPU time that this process has used, arming included.
    pub cpu: Duration,
    /// Other remarks.
    pub notes: Vec<String>,
}

/// What remains to be done when everything has been read: dropping it detaches the programs from the functions, if there are any,
/// which may take the kernel some time.
#[derive(Debug)]
pub struct DiveRemains {
    programs: Option<(Box<Probes>, Changes)>,
}

impl DiveRemains {
    /// How many programs are still attached.
    pub fn programs(&self) -> usize {
        self.programs.as_ref().map_or(0, |(probes, _)| probes.programs())
    }
}

/// The right to change settings of the kernel's trace, held by one process at a time.
#[derive(Debug)]
pub struct KernelTracing {
    changes: Changes,
    restored: Vec<String>,
}

impl KernelTracing {
    /// Takes the right, after undoing what a killed dive has left behind.
    ///
    /// # Errors
    /// Missing privileges, no tracefs, another running dive, or something that cannot be undone.
    pub fn claim() -> Result<KernelTracing, CollectError> {
        privilege::check_tracing()?;
        let (changes, restored) = Changes::begin(TraceFs::find()?)?;
        Ok(KernelTracing { changes, restored })
    }

    /// What was undone.
    pub fn restored(&self) -> &[String] {
        &self.restored
    }
}

/// Undoes what a killed dive has left in the kernel, as [`KernelTracing::claim`] does, for commands that do not dive themselves:
/// without the privileges for it, without tracefs, and while another dive runs, nothing is done. Returns what was undone.
pub fn mend() -> Vec<String> {
    let Ok(fs) = TraceFs::find() else {
        return Vec::new();
    };
    if privilege::check_tracing().is_err() || !tracefs::is_left_over(&fs) {
        return Vec::new();
    }
    match Changes::begin(fs) {
        Ok((_, restored)) => restored,
        Err(CollectError::DiveRuns(_)) => Vec::new(),
        Err(e) => vec![format!(
            "settings changed by a killed dive cannot be restored: {e}"
        )],
    }
}

/// An engine that is set up.
#[derive(Debug)]
struct Armed {
    engine: String,
    functions: Option<u64>,
    took: Duration,
    notes: Vec<String>,
    /// Texts, each of which marks the end of a call.
    ends: Vec<String>,
}

/// The tracer of the kernel's own trace, if somebody is using it.
pub(crate) fn tracer_in_use() -> Option<String> {
    let tracer = TraceFs::find().ok()?.value("current_tracer")?;
    (tracer != "nop").then_some(tracer)
}

/// Whether there is anything to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiveStatus {
    /// Calls are being captured.
    Diving,
    /// The task has ended.
    Gone,
    /// The file has become as large as it may.
    Full,
}

/// A running dive. If dropped without [`Dive::stop`], it still restores everything.
#[derive(Debug)]
pub struct Dive {
    source: Source,
    spool: Spool,
    noted: Option<NotedCalls>,
    samples: Option<Samples>,
    target: Owner,
    facts: DiveFacts,
    cpu_at_start_ns: u64,
}

impl Dive {
    /// Sets up the first engine that works and begins to trace.
    ///
    /// # Errors
    /// No such task, no engine that works, or the file cannot be written.
    pub fn start(tracing: KernelTracing, options: &DiveOptions) -> Result<Dive, CollectError> {
        let cpu_at_start_ns = host::process_cpu_ns();
        let target = Owner::of(options.pid).ok_or(CollectError::NoProcess(options.pid))?;
        let mut notes = about_target(options.pid)?;
        // Before the trace begins, so that no call in it lacks its wait.
        let noted = NotedCalls::begin(options, &mut notes)?;
        let mut changes = tracing.changes;
        let mut refused = Vec::new();
        for &engine in &options.engines {
            let (mut source, armed) = match arm(engine, changes, options)? {
                Attempt::SetUp(source, armed) => (source, armed),
                Attempt::Refused(why, back) => {
                    refused.push(format!("{engine}: {why}"));
                    changes = back;
                    continue;
                }
            };
            notes.extend(armed.notes);
            let samples = match engine {
                DiveEngine::Tracepoints => sampled(options.pid, &mut source, &mut notes),
                _ => None,
            };
            let mut spool = Spool::create(options.file.clone(), &armed.ends)?;
            let header = source.start()?;
            // Formats are distinguished by their first line, which ftrace writes.
            spool.write(header.as_bytes())?;
            let facts = DiveFacts {
                engine: armed.engine,
                refused,
                functions: armed.functions,
                arming: armed.took,
                calls: 0,
                bytes: 0,
                lost: 0,
                cpu: Duration::ZERO,
                notes,
            };
            let mut dive = Dive {
                source,
                spool,
                noted,
                samples,
                target,
                facts,
                cpu_at_start_ns,
            };
            dive.describe(options)?;
            return Ok(dive);
        }
        Err(CollectError::NoDiveEngine(refused))
    }

    /// Describes in the file what it contains.
    fn describe(&mut self, options: &DiveOptions) -> Result<(), CollectError> {
        let facts = &self.facts;
        self.spool.comment("engine", &facts.engine)?;
        let call = options.call;
        self.spool.comment(
            "target",
            &format!("pid={} call={} nr={}", options.pid, call.name(), call.number()),
        )?;
        if let Some(title) = process::title(options.pid) {
            let title: String = title.chars().take(LONGEST_TITLE).collect();
            self.spool
                .comment("task", &format!("pid {}, {title}", options.pid))?;
        }
        // All engines do that from the first call on: a task that is not seen leaving its CPU has not left it.
        self.spool.comment("switches", "traced")?;
        for note in facts
            .refused
            .iter()
            .map(|why| format!("refused: {why}"))
            .chain(facts.notes.clone())
        {
            self.spool.comment("note", &note)?;
        }
        Ok(())
    }

    /// What is known so far.
    pub fn facts(&self) -> &DiveFacts {
        &self.facts
    }

    /// Fetches what has been traced since the last step.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub fn step(&mut self) -> Result<DiveStatus, CollectError> {
        let begin = Instant::now();
        self.source
            .drain(&mut self.spool, || begin.elapsed() > LONGEST_STEP)?;
        self.count()?;
        Ok(if self.spool.is_full() {
            DiveStatus::Full
        } else if self.target.is_alive() {
            DiveStatus::Diving
        } else {
            DiveStatus::Gone
        })
    }

    /// Updates the counters.
    fn count(&mut self) -> Result<(), CollectError> {
        if let Some(samples) = &mut self.samples {
            samples.step()?;
        }
        self.facts.bytes = self.spool.bytes();
        let mut begun = None;
        if let Some(noted) = &mut self.noted {
            noted.step()?;
            begun = noted.matching();
        }
        // A call that has begun is in the text once it has ended.
        self.facts.calls = begun.unwrap_or(u64::MAX).min(self.spool.calls());
        Ok(())
    }

    /// Stops tracing, fetches the rest and restores all settings.
    ///
    /// # Errors
    /// The file cannot be written, or something could not be restored.
    pub fn stop(mut self) -> Result<(DiveFacts, DiveRemains), CollectError> {
        self.source.pause()?;
        if let Some(samples) = &mut self.samples {
            samples.end();
        }
        self.source.drain(&mut self.spool, || false)?;
        self.count()?;
        self.facts.lost = self.source.lost();
        if self.facts.lost > 0 {
            self.facts.notes.push(format!(
                "{} events are missing: they came faster than they could be read, or while another one was being handled",
                self.facts.lost
            ));
            self.spool.comment("lost", &self.facts.lost.to_string())?;
        }
        if self.spool.is_full() {
            let note = format!("the dive ended early: {} bytes of text", self.spool.bytes());
            self.spool.comment("note", &note)?;
            self.facts.notes.push(note);
        }
        let programs = self.source.end()?;
        let pid = self.target.pid;
        self.facts
            .notes
            .extend(self.noted.iter().flat_map(NotedCalls::notes));
        self.facts
            .notes
            .extend(self.samples.iter().flat_map(Samples::notes));
        let calls = self.noted.iter().flat_map(NotedCalls::lines);
        let samples = self.samples.iter().flat_map(|samples| samples.lines(pid));
        self.facts.bytes = self.spool.bytes();
        self.spool.finish(calls.chain(samples))?;
        self.facts.cpu = Duration::from_nanos(host::process_cpu_ns().saturating_sub(self.cpu_at_start_ns));
        Ok((self.facts, DiveRemains { programs }))
    }
}

/// A step ends after this, however much there is to read: the caller has other things to do.
const LONGEST_STEP: Duration = Duration::from_millis(100);

/// What became of an engine.
enum Attempt {
    SetUp(Source, Armed),
    /// Why not, and the right to change settings.
    Refused(String, Changes),
}

/// Tries one engine.
fn arm(engine: DiveEngine, changes: Changes, options: &DiveOptions) -> Result<Attempt, CollectError> {
    let fs = changes.fs();
    let obstacle = match engine {
        DiveEngine::FunctionGraph => function_graph::obstacle_in_instance(fs),
        DiveEngine::OwnFunctionGraph => function_graph::obstacle_in_own_trace(fs),
        DiveEngine::Fentry | DiveEngine::Probes | DiveEngine::Tracepoints => None,
    };
    if let Some(why) = obstacle {
        return Ok(Attempt::Refused(why, changes));
    }
    let probes = match engine {
        DiveEngine::Fentry => Some(probes::arm_fentry(fs, options)),
        DiveEngine::Probes => Some(probes::arm(fs, options)),
        _ => None,
    };
    if let Some(probes) = probes {
        return Ok(match probes {
            Ok((probes, armed)) => Attempt::SetUp(Source::Probes(Box::new(probes), changes), armed),
            Err(e) => Attempt::Refused(e.to_string(), changes),
        });
    }
    let mut trace = match engine {
        DiveEngine::OwnFunctionGraph => Trace::global(changes),
        _ => Trace::private(changes),
    };
    let armed = trace.make().and_then(|()| match engine {
        DiveEngine::Tracepoints => tracepoints::arm(&mut trace, options),
        _ => {
            let entry = options.call.entry_function()?;
            function_graph::arm(&mut trace, options, &entry)
        }
    });
    Ok(match armed {
        Ok(armed) => Attempt::SetUp(Source::Ftrace(trace), armed),
        Err(e) => Attempt::Refused(e.to_string(), trace.end()?),
    })
}

/// Starts sampling the task in addition to its tracepoints, which are useful even without samples.
fn sampled(pid: u32, source: &mut Source, notes: &mut Vec<String>) -> Option<Samples> {
    let begun = Samples::begin(pid).and_then(|samples| {
        source.leave_out_timer(samples.timer_address())?;
        Ok(samples)
    });
    match begun {
        Ok(samples) => {
            notes.push(samples.note());
            Some(samples)
        }
        Err(e) => {
            // Only the first line: the others are what libbpf and the verifier said.
            let why = e.to_string().lines().next().unwrap_or_default().to_string();
            notes.push(format!("no timer samples of the kernel stack: {why}"));
            None
        }
    }
}

/// Checks the task, and returns remarks about it.
fn about_target(pid: u32) -> Result<Vec<String>, CollectError> {
    const PF_KTHREAD: u64 = 0x0020_0000;
    if pid == std::process::id() {
        return Err(CollectError::Kernel(format!(
            "pid {pid} is this dbtime, which cannot trace itself"
        )));
    }
    let stat = std::fs::read(process::path(pid, "stat")).map_err(|_| CollectError::NoProcess(pid))?;
    let flags: u64 = process::stat_field(&stat, 9)
        .and_then(|f| f.parse().ok())
        .unwrap_or(0);
    if flags & PF_KTHREAD != 0 {
        return Err(CollectError::Kernel(format!(
            "pid {pid} is a kernel thread: it makes no system calls"
        )));
    }
    let threads = std::fs::read_dir(process::path(pid, "task")).map_or(0, Iterator::count);
    Ok(match threads {
        0 | 1 => Vec::new(),
        _ => vec![format!(
            "process of {pid} has {threads} threads: only thread {pid} is traced; to trace another one, give its id with -p"
        )],
    })
}

/// Buffer space per CPU, in kilobytes.
fn room_kb() -> u64 {
    let (most, together, least) = ROOM_KB;
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    (together / cpus).clamp(least, most)
}
