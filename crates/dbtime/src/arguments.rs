//! What can be typed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use dbtime_model::BlockOperation;
use dbtime_report::{
    BucketWidth, CallChoice, Dimension, DiveView, LatencyDimension, SnapshotColumn, StackView,
    TimelineOptions,
};

use crate::import::Detail;
use crate::live::Length;
use crate::options::time::{parse_age, parse_resolution, parse_rotation, parse_seconds, parse_whole_seconds};
use crate::options::{
    AnswerFormat, CollectorKind, ComparedOptions, FileOptions, LatchLayout, LiveRate, NewRecording,
    Precision, Selection, ShownTexts, StopAfter, StreamFormat, TableFormat, TargetOptions, TextKind,
    any_rate,
};
use crate::record::Measure;

/// Shows where database time really goes.
///
/// For every session of a database it splits elapsed time by wait event and by what the operating system says the
/// process was doing (user code, kernel code, waiting for a CPU, blocked on disk, asleep), with kernel and user
/// stacks below. The parts add up to the elapsed time.
#[derive(Debug, Parser)]
#[command(name = "dbtime", version, max_term_width = 100)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Record a running PostgreSQL server, one of its sessions, or an Oracle instance (needs root)
    Record(RecordArguments),
    /// Show where the time of a recording, or of a trace file, went
    Report(Box<ReportArguments>),
    /// Show on a screen, second by second, where the time of a running server goes (needs root), or that of a recording
    Top(TopArguments),
    /// Show how much statistics, times and waits of sessions grow in some seconds (needs root)
    Snap(SnapArguments),
    /// Show who holds the server's internal locks (PostgreSQL: LWLocks), doing what and where in the code (needs root)
    Latch(LatchArguments),
    /// Serve where the time of a running server goes as counters for Prometheus (needs root)
    Metrics(MetricsArguments),
    /// Draw a flame graph of a recording
    Flame(FlameArguments),
    /// Make one page of a recording, which any browser opens without a network
    Html(HtmlArguments),
    /// Show what changed between two recordings, or two files of other tools
    Diff(DiffArguments),
    /// Make a recording of the files of other tools
    Import(ImportArguments),
    /// Make few large files of the many small ones of a recording that has ended, or whose recorder was killed
    Compact(CompactArguments),
    /// Keep recordings of many hosts in one place, as plain Parquet in a directory or an object store
    Store(StoreArguments),
    /// Record every server of this host for good, and put what is recorded into a store (needs root)
    Agent(AgentArguments),
    /// Show the latency of block I/O, live, of the whole host (needs root)
    Iolat(IolatArguments),
    /// Show what a system call of a live process does inside the kernel (needs root)
    Dive(DiveArguments),
    /// Show every context switch: wait, scheduling delay, run time, who ran instead, who woke (needs root)
    Sched(SchedArguments),
    /// Measure what looking costs on this host: what a call takes under each way of watching it
    Calibrate(CalibrateArguments),
    /// Print the SQL*Plus script that makes the MAP of an Oracle instance for 'record --oracle'
    #[command(after_help = "Example: dbtime oracle-map > map.sql")]
    OracleMap,
    /// Print the SQL*Plus script that reads the statistics of Oracle sessions twice, for 'report' and 'import'
    #[command(
        after_help = "Example: dbtime oracle-snap > snap.sql; sqlplus -s / as sysdba @snap.sql all 10 > snap.csv; dbtime report snap.csv"
    )]
    OracleSnap,
    /// Tell what this host allows, and what to do about the rest (as root: what recording would meet)
    Doctor(DoctorArguments),
    /// See all of it on a throw-away PostgreSQL (needs root)
    Demo(DemoArguments),
    /// Print what a shell completes the words of dbtime with
    Completions(CompletionsArguments),
    /// Write the manual pages into a directory, as 'make install' does
    #[command(hide = true)]
    Man(ManArguments),
}

impl Command {
    /// Whether it loads programs into the kernel, or changes settings of it. (`dive` looks by itself for what others left.)
    pub fn touches_kernel(&self) -> bool {
        match self {
            Command::Record(_)
            | Command::Snap(_)
            | Command::Latch(_)
            | Command::Metrics(_)
            | Command::Iolat(_)
            | Command::Sched(_)
            | Command::Doctor(_) => true,
            Command::Top(arguments) => arguments.replay.is_none(),
            // The process that is watched for it does not.
            Command::Calibrate(arguments) => arguments.workload.is_none(),
            _ => false,
        }
    }

    /// Whether it reads files of others, which can be made to need any amount of memory.
    pub fn reads_files(&self) -> bool {
        matches!(
            self,
            Command::Report(_)
                | Command::Flame(_)
                | Command::Html(_)
                | Command::Diff(_)
                | Command::Import(_)
                | Command::Compact(_)
                | Command::Store(_)
        ) || matches!(self, Command::Top(arguments) if arguments.replay.is_some())
    }

    /// The memory that was asked for.
    pub fn max_memory(&self) -> Option<u64> {
        match self {
            Command::Report(arguments) => arguments.about.max_memory,
            Command::Flame(arguments) => arguments.about.max_memory,
            Command::Html(arguments) => arguments.about.max_memory,
            Command::Diff(arguments) => arguments.about.max_memory,
            Command::Import(arguments) => arguments.about.max_memory,
            _ => None,
        }
    }
}

/// `dbtime record`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo dbtime record\n  sudo dbtime record -d 60 -o slow.dbt --html\n  sudo dbtime record --postgres /var/lib/postgresql/15/main --exact=calls -d 30"
)]
pub struct RecordArguments {
    /// Whom
    #[command(flatten)]
    pub target: TargetOptions,
    /// For how long
    #[command(flatten)]
    pub stop: StopAfter,
    /// Samples per second and session
    #[arg(short = 'F', long = "frequency", value_name = "HZ", default_value_t = 99, value_parser = any_rate())]
    pub rate_hz: u32,
    /// How
    #[command(flatten)]
    pub precision: Precision,
    /// Note who ends each sleep
    #[arg(long, requires = "exact")]
    pub wakers: bool,
    /// Time Oracle's waits by probes in its functions too, and note how long the database says they were
    #[arg(long, requires = "exact", requires = "oracle")]
    pub uprobes: bool,
    /// What is kept of the texts of statements
    #[arg(long, value_name = "WHAT", default_value = "normalized")]
    pub text: TextKind,
    /// Count switches, faults, calls and bytes of each session too: 'dbtime report --snapshot' shows them
    #[arg(long)]
    pub statistics: bool,
    /// Rows of so many seconds after the first five minutes: 10s, 1m. For recordings that go on for hours
    #[arg(long = "resolution", value_name = "TIME", default_value = "1s", value_parser = parse_resolution)]
    pub resolution_s: u32,
    /// Begin a new recording every so often, without a gap: 10m, 1h, 1d. They begin at whole multiples of it, UTC
    #[arg(long, value_name = "TIME", value_parser = parse_rotation, conflicts_with = "html")]
    pub rotate: Option<Duration>,
    /// Sample by visiting all tasks of the host, as on kernels before 6.2
    #[arg(long, hide = true)]
    pub task_iterator: bool,
    /// Print a line of JSON for each second: average sessions that were active, in the run queue, in a wait, in a statement. For the agent
    #[arg(long, hide = true, value_name = "MEASURE", requires = "rotate")]
    pub watch: Vec<Measure>,
    /// The condition for which the agent starts it
    #[arg(long, hide = true, value_name = "TEXT")]
    pub flight: Option<String>,
    /// Write the page of 'dbtime html' too, beside the recording
    #[arg(long)]
    pub html: bool,
    /// Directory to create for the recording, or with --rotate for the recordings, which are named by server and time then [default:
    /// named after the server and the time, in the current directory]
    #[arg(short, long, value_name = "NAME.dbt")]
    pub output: Option<PathBuf>,
}

/// `dbtime top`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo dbtime top\n  sudo dbtime top --postgres /var/lib/postgresql/15/main --seconds 15\n  sudo dbtime top --exact=calls\n  dbtime top --replay slow.dbt --from 2m\n\nKeys: ? shows them, r records, q quits."
)]
pub struct TopArguments {
    /// Whom
    #[command(flatten)]
    pub target: TargetOptions,
    /// Play a recording, second by second, in place of what goes on now (needs no root)
    #[arg(long, value_name = "RECORDING", conflicts_with_all = ["pid", "postgres", "process", "oracle", "exact", "collector"])]
    pub replay: Option<PathBuf>,
    /// Begin to play there: seconds since the start (12, 90s, 2m) or a time (RFC 3339)
    #[arg(long, value_name = "TIME", requires = "replay")]
    pub from: Option<String>,
    /// How many seconds the tables are about: + and - change it
    #[arg(short, long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=300))]
    pub seconds: u32,
    /// Samples per second and session
    #[arg(short = 'F', long = "frequency", value_name = "HZ", default_value_t = 99, conflicts_with = "replay", value_parser = any_rate())]
    pub rate_hz: u32,
    /// How
    #[command(flatten)]
    pub precision: Precision,
    /// What is shown of the texts of statements
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "normalized",
        conflicts_with = "replay"
    )]
    pub text: TextKind,
}

/// `dbtime snap`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo dbtime snap 5 1 all\n  sudo dbtime snap 10 6 fg user=bob ash=query,wait\n  \
    sudo dbtime snap end 1 4711 --exact=calls\n\n\
    WHO is any of these words; of pids, and of values of one name, one has to fit, and all else:\n  \
    all, fg, bg                 all processes of the server; those that work for clients; the others\n  \
    4711  4711,4712             pids\n  \
    user=bob  database=shop  application=… client=… backend_type=…\n  \
    wait=IO  state=disk  query=-42    sessions that had such time\nBeside them:\n  \
    gather=stw                  s statistics, t times, w waits, l LWLocks held, a all [default: stw]\n  \
    include=TEXT                only what has this in its name\n  \
    ash=query,wait,state        average active sessions by these"
)]
pub struct SnapArguments {
    /// Length of a snapshot: seconds, or 30s, 1m; 'end' = until Ctrl-C
    #[arg(value_name = "SECONDS", value_parser = parse_length)]
    pub length: Length,
    /// How many snapshots, one after the other
    #[arg(value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// Which sessions, and what of them: see below [default: all]
    #[arg(value_name = "WHO")]
    pub who: Vec<String>,
    /// Whose
    #[command(flatten)]
    pub target: TargetOptions,
    /// How
    #[command(flatten)]
    pub precision: Precision,
    /// How often
    #[command(flatten)]
    pub rate: LiveRate,
    /// What of statements
    #[command(flatten)]
    pub texts: ShownTexts,
    /// How it is shown
    #[command(flatten)]
    pub layout: SnapLayout,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: SnapFormat,
}

/// Sessions of a snapshot that are shown where nothing else is said.
pub const SNAPSHOT_SESSIONS: usize = 10;

/// How a snapshot is shown as text.
#[derive(Debug, Args)]
pub struct SnapLayout {
    /// Columns of a snapshot: delta, delta/s, hdelta, hdelta/s, %time, graph, waits, waits/s, average
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', default_values_t = SnapshotColumn::USUAL)]
    pub columns: Vec<SnapshotColumn>,
    /// Sessions of a snapshot to show: those with the most time
    #[arg(long, value_name = "N", default_value_t = SNAPSHOT_SESSIONS)]
    pub sessions: usize,
}

/// `dbtime latch`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo dbtime latch\n  sudo dbtime latch -d 30 --columns name,lock,query,where\n  \
    sudo dbtime latch --columns session,name,mode user=bob\n\n\
    WHO is any of these words; of pids, and of values of one name, one has to fit, and all else:\n  \
    4711  4711,4712             pids\n  \
    user=bob  database=shop  application=… client=… backend_type=…\n  \
    wait=IO:WALSync  state=disk  query=-42"
)]
pub struct LatchArguments {
    /// Whose locks [default: everybody's]: see below
    #[arg(value_name = "WHO")]
    pub who: Vec<String>,
    /// How long to look: seconds, or 30s, 1m
    #[arg(short = 'd', long = "duration", value_name = "TIME", default_value = "5", value_parser = parse_whole_seconds)]
    pub seconds: u32,
    /// Whose
    #[command(flatten)]
    pub target: TargetOptions,
    /// How often
    #[command(flatten)]
    pub rate: LiveRate,
    /// What of statements
    #[command(flatten)]
    pub texts: ShownTexts,
    /// How it is shown
    #[command(flatten)]
    pub layout: LatchLayout,
    /// Locks and holders, or rows, to show [default: 10]
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: TableFormat,
}

/// `dbtime metrics`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo dbtime metrics\n  sudo dbtime metrics --postgres /var/lib/postgresql/15/main --listen 10.0.0.7:9789"
)]
pub struct MetricsArguments {
    /// Whom
    #[command(flatten)]
    pub target: TargetOptions,
    /// Where to answer requests for /metrics; an address that others can reach shows them what is counted
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9789")]
    pub listen: SocketAddr,
    /// Stop after this time: seconds, or 30s, 1m [default: at Ctrl-C]
    #[arg(short = 'd', long = "duration", value_name = "TIME", value_parser = parse_whole_seconds)]
    pub seconds: Option<u32>,
    /// How often
    #[command(flatten)]
    pub rate: LiveRate,
    /// What looks at the sessions
    #[arg(long, value_name = "HOW", default_value = "bpf")]
    pub collector: CollectorKind,
}

/// Output formats of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SnapFormat {
    /// Tables for a terminal
    Text,
    /// A line for each thing that grew
    Csv,
    /// JSON, a line for each snapshot
    Json,
}

/// `dbtime import`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dbtime import db_ora_7.trc -o slow.dbt\n  perf script | dbtime import - -o cpu.dbt"
)]
pub struct ImportArguments {
    /// Files of any format that is known, plain, compressed (gzip, bzip2, xz, lzma, zstd) or in .zip archives: see docs/import.md
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// What they do not say
    #[command(flatten)]
    pub about: FileOptions,
    /// Directory to create for the recording
    #[arg(short, long, value_name = "NAME.dbt")]
    pub output: PathBuf,
}

/// `dbtime compact`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  dbtime compact killed.dbt")]
pub struct CompactArguments {
    /// The recording: afterwards each of its tables is one file
    #[arg(value_name = "RECORDING")]
    pub recording: PathBuf,
}

/// `dbtime store`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dbtime store put slow.dbt /srv/fleet\n  dbtime store put *.dbt s3://bucket/fleet\n  dbtime store list s3://bucket/fleet\n  \
    dbtime report s3://bucket/fleet --host db1 --from 2026-10-10T12:00:00Z --to 2026-10-10T13:00:00Z\n  \
    dbtime diff '/srv/fleet?host=db1&from=2026-10-09&to=2026-10-10' '/srv/fleet?host=db1&from=2026-10-10'"
)]
pub struct StoreArguments {
    /// What to do with it
    #[command(subcommand)]
    pub command: StoreCommand,
}

/// The subcommands of `dbtime store`.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Put recordings into a store; one that is there already, or an earlier state of it, is there once
    Put(StorePutArguments),
    /// Show what is in a store: hosts, recordings, periods, sizes, gaps
    List(StoreListArguments),
    /// Remove recordings of a host that ended long ago
    Prune(StorePruneArguments),
}

/// `dbtime store put`
#[derive(Debug, Args)]
#[command(after_help = "Example: dbtime store put slow.dbt s3://bucket/fleet\n\n\
    The credentials of S3 come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY …) or from ~/.aws/credentials.")]
pub struct StorePutArguments {
    /// Recordings, and behind them the store: a directory, file:///PATH or s3://BUCKET/PREFIX; made if it is not there
    #[arg(value_names = ["RECORDING", "STORE"], num_args = 2.., required = true)]
    pub paths: Vec<PathBuf>,
    /// Name of the host in the store [default: as the recording says]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Put what can be read of damaged recordings; reports of the store say what is missing
    #[arg(long)]
    pub damaged: bool,
}

/// `dbtime store prune`
#[derive(Debug, Args)]
#[command(after_help = "Example: dbtime store prune s3://bucket/fleet --host db1 --older-than 30d")]
pub struct StorePruneArguments {
    /// The store
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// Host whose recordings are removed; the newest one stays
    #[arg(long, value_name = "NAME")]
    pub host: String,
    /// Those that ended longer ago than this: 12h, 30d
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    pub older_than: Duration,
}

/// `dbtime store list`
#[derive(Debug, Args)]
#[command(after_help = "Example: dbtime store list s3://bucket/fleet")]
pub struct StoreListArguments {
    /// The store, or a part of it: STORE?host=db1&from=2026-10-10
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// For whom
    #[command(flatten)]
    pub answer: AnswerFormat,
}

/// `dbtime agent`
#[derive(Debug, Args)]
#[command(after_help = "Example: sudo dbtime agent --config /etc/dbtime/agent.toml\n\n\
    The least that the file says:\n  spool = \"/var/lib/dbtime\"\n  store = \"s3://bucket/fleet\"")]
pub struct AgentArguments {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = "/etc/dbtime/agent.toml")]
    pub config: PathBuf,
    /// Only check the configuration
    #[arg(long)]
    pub check: bool,
}

/// What cannot be asked together with who was waited for.
const NOT_OF_WAITERS: [&str; 17] = [
    "latencies",
    "io",
    "timeline",
    "tail",
    "thresholds",
    "block_size",
    "plans",
    "each_literal",
    "stacks",
    "tree",
    "functions",
    "modules",
    "call",
    "children",
    "switches",
    "calibration",
    "by",
];

/// `dbtime report`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dbtime report\n  dbtime report slow.dbt --by query,wait\n  dbtime report slow.dbt --causes\n  dbtime report slow.dbt --blockers\n  dbtime report slow.dbt --chain -o chains.svg\n  dbtime report slow.dbt --latches\n  dbtime report slow.dbt --from 20s --to 30s --format json"
)]
pub struct ReportArguments {
    /// The recording [default: the newest in the current directory], or files that 'dbtime import' understands: several are taken as
    /// one; or a store, or a part of it (STORE?host=db1&from=2026-10-10: see docs/store.md)
    #[arg(value_name = "RECORDING")]
    pub recordings: Vec<PathBuf>,
    /// What such a file does not say
    #[command(flatten)]
    pub about: FileOptions,
    /// Which part of it
    #[command(flatten)]
    pub selection: Selection,
    /// Show latencies in place of times: a histogram per group, or a heat map (--format svg)
    #[arg(long, group = "latencies")]
    pub latency: bool,
    /// Put the latencies of two or more recordings or files side by side, and say which part of them differs
    #[arg(long, group = "latencies", conflicts_with = "by")]
    pub compare: bool,
    /// Kinds of latencies: wait, syscall, sched, read, block … [default: all that were recorded]
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', requires = "latencies")]
    pub kind: Vec<String>,
    /// Only events of this name, as Class:Event or either of the two; may be repeated
    #[arg(long, value_name = "NAME", requires = "latencies")]
    pub name: Vec<String>,
    /// Show a time line: average active sessions by wait class, or --by any other dimension, in so many buckets at most, or in
    /// buckets of so long (10s, 5m, 1h) [default: 60, 240 in a picture]
    #[arg(
        long,
        value_name = "BUCKETS|TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = parse_buckets,
        conflicts_with_all = ["latencies", "io", "thresholds", "block_size", "plans", "stacks", "tree", "functions", "modules", "call",
                              "children", "switches", "calibration"]
    )]
    pub timeline: Option<Buckets>,
    /// Show the latency of commands by query, and what the slowest 1 % did differently from the middle half (of a recording made
    /// with --exact=calls)
    #[arg(
        long,
        conflicts_with_all = ["latencies", "io", "timeline", "thresholds", "block_size", "plans", "each_literal", "stacks", "tree",
                              "functions", "modules", "call", "children", "switches", "calibration", "by"]
    )]
    pub tail: bool,
    /// Show who was waited for: blocked time followed to who ended each wait and what that one was doing meanwhile
    #[arg(long, conflicts_with_all = NOT_OF_WAITERS)]
    pub causes: bool,
    /// Of these, show those for which others waited: sessions and statements, and what they were doing meanwhile
    #[arg(long, conflicts_with_all = NOT_OF_WAITERS)]
    pub blockers: bool,
    /// Show who waited behind whom, as trees: at the root of each the one that everybody in it waited for in the end. As a picture
    /// (-o chains.svg): a lane of time for each root, coloured by what it was doing
    #[arg(long, conflicts_with_all = NOT_OF_WAITERS, conflicts_with_all = ["causes", "blockers"])]
    pub chain: bool,
    /// The same at this moment, to the second: seconds since the start (12.5, 2m) or a time (RFC 3339)
    #[arg(long, value_name = "TIME", conflicts_with_all = NOT_OF_WAITERS, conflicts_with_all = ["causes", "blockers", "from", "to"])]
    pub at: Option<String>,
    /// Show who held the server's internal locks (PostgreSQL: LWLocks), what they were doing and where in the code, and who waited
    #[arg(long, conflicts_with_all = NOT_OF_WAITERS, conflicts_with_all = ["causes", "blockers", "chain", "at"])]
    pub latches: bool,
    /// How that is shown
    #[command(flatten)]
    pub latch_layout: LatchLayout,
    /// Show how much the statistics, times and waits of each session grew, as 'dbtime snap' does
    #[arg(long, conflicts_with_all = NOT_OF_WAITERS, conflicts_with_all = ["causes", "blockers", "chain", "at", "latches"])]
    pub snapshot: bool,
    /// Show the truth about reads: page cache or device, by wait event, file and size, and what they cost in CPU
    #[arg(long, conflicts_with = "latencies")]
    pub io: bool,
    /// Reads shorter than these are guessed to come from the page cache, from the storage's cache (with --io, or of an
    /// SQL trace)
    #[arg(long, value_name = "US,US", value_parser = parse_thresholds, conflicts_with = "latencies")]
    pub thresholds: Option<[u64; 2]>,
    /// Size of a block of the database, of an SQL trace [default: 8192]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 30),
          conflicts_with_all = ["latencies", "io"])]
    pub block_size: Option<u64>,
    /// Show the plans of the statements of an SQL trace
    #[arg(long, conflicts_with_all = ["latencies", "io"])]
    pub plans: bool,
    /// Show the statements of an SQL trace one by one, also those that differ in literals only
    #[arg(long, conflicts_with_all = ["latencies", "io"])]
    pub each_literal: bool,
    /// Show the stacks, equal ones counted, the hottest last
    #[arg(long, conflicts_with_all = ["latencies", "io"])]
    pub stacks: bool,
    /// Show the call tree: every function with all that was called from there
    #[arg(long, conflicts_with_all = ["latencies", "io", "stacks"])]
    pub tree: bool,
    /// Show every function, self and total
    #[arg(long, conflicts_with_all = ["latencies", "io", "stacks", "tree"])]
    pub functions: bool,
    /// Functions by the time in them, or with all they called
    #[arg(long, value_enum, value_name = "BY", default_value_t = FunctionSort::Own, requires = "functions")]
    pub sort: FunctionSort,
    /// Show programs, libraries, kernel modules and subsystems
    #[arg(long, conflicts_with_all = ["latencies", "io", "stacks", "tree", "functions"])]
    pub modules: bool,
    /// Of a trace of the kernel: show one call from begin to end: slowest, median, or its number
    #[arg(long, value_name = "WHICH", conflicts_with_all = ["latencies", "io", "stacks", "tree", "functions", "modules", "by"])]
    pub call: Option<CallChoice>,
    /// Of a trace of the kernel: show what this function calls directly
    #[arg(long, value_name = "FUNCTION", conflicts_with_all = ["latencies", "io", "stacks", "tree", "functions", "modules", "by", "call"])]
    pub children: Option<String>,
    /// Show the context switches one by one, in the columns of 'perf sched timehist'
    #[arg(long, conflicts_with_all = ["latencies", "io", "stacks", "tree", "functions", "modules", "by"])]
    pub switches: bool,
    /// Functions from the leaf of each stack, levels from the root of the tree, links of a chain (--causes, --chain): what lies beyond
    /// is summed up [default: all; --causes: the last link]
    #[arg(long, value_name = "N", value_parser = parse_depth)]
    pub depth: Option<usize>,
    /// What looking costs, as 'dbtime calibrate' found it [default: what it kept on this host, for recordings of this host]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["latencies", "io", "stacks", "tree", "functions", "modules"])]
    pub calibration: Option<PathBuf>,
    /// Group the ledger by these [default: wait, or program in files that know no database]; a time line by one of them [default:
    /// wait_class, or program]; latencies by name, kind, device, session, io_size, blocks, source, file, second [default: name]
    #[arg(
        long,
        value_name = "DIMENSION,…",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(all_dimensions()),
        conflicts_with_all = ["io", "stacks", "tree", "functions", "modules"]
    )]
    pub by: Vec<String>,
    /// Stacks [default: 5; --stacks: 20], call paths [60], functions and modules [30], statements and events of an SQL
    /// trace, groups of latencies or files [10], values of a time line [8], queries with --tail [5], waits, causes and blockers with --causes, --blockers and --chain [10], locks and holders with --latches [10], sessions with --snapshot [10] to show
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// For people or for programs [default: by the ending of the output's name (.json, .svg), else text]
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// File to write in place of standard output
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "-",
        hide_default_value = true
    )]
    pub output: PathBuf,
}

impl ReportArguments {
    /// What is written.
    pub fn format(&self) -> Format {
        let ending = self.output.extension().and_then(|ending| ending.to_str());
        self.format
            .unwrap_or_else(|| match ending.map(str::to_ascii_lowercase).as_deref() {
                Some("json") => Format::Json,
                Some("svg") => Format::Svg,
                _ => Format::Text,
            })
    }

    /// True when trees of those who waited are to be shown.
    pub fn chains(&self) -> bool {
        self.chain || self.at.is_some()
    }

    /// True when it is asked who was waited for, in whatever way.
    pub fn waiters(&self) -> bool {
        self.causes || self.blockers || self.chains()
    }

    /// What a time line is told apart by; none typed = none here.
    ///
    /// # Errors
    /// There is no such dimension, or more than one, or one that a time line has anyhow.
    pub fn timeline_by(&self) -> Result<Option<Dimension>, String> {
        match self.by()?.as_slice() {
            [] => Ok(None),
            [Dimension::Second] => {
                Err("a time line has its seconds already: choose another dimension".to_string())
            }
            [by] => Ok(Some(*by)),
            _ => Err("a time line is by one dimension: choose one of them".to_string()),
        }
    }

    /// How stacks are to be read, if they are, and how many of the hottest are shown when nothing else is said.
    pub fn stack_view(&self) -> Option<(StackView, usize)> {
        [
            (self.stacks, StackView::Stacks, 20),
            (self.tree, StackView::Tree, 60),
            (self.functions, StackView::Functions, 30),
            (self.modules, StackView::Modules, 30),
        ]
        .into_iter()
        .find_map(|(wanted, view, top)| wanted.then_some((view, top)))
    }

    /// How a trace of the kernel is to be looked at, and how much of it is shown when nothing else is said; none when what was
    /// asked for is asked of any recording.
    pub fn dive_view(&self) -> Option<(DiveView, usize)> {
        if self.stacks || self.modules || !self.by.is_empty() {
            return None;
        }
        Some(match (&self.call, &self.children) {
            (Some(call), _) => (DiveView::Call(*call), 0),
            (None, Some(function)) => (DiveView::Children(function.clone()), 0),
            (None, None) if self.tree => (DiveView::Tree, 200),
            (None, None) if self.functions => (DiveView::Functions, 60),
            (None, None) => (DiveView::Summary, 20),
        })
    }

    /// What is needed of files that are read for it.
    pub fn detail(&self) -> Detail {
        let by_second = || self.by().is_ok_and(|by| by.contains(&Dimension::Second));
        let cuts = self.selection.from.is_some() || self.selection.to.is_some();
        if cuts
            || self.latency
            || self.io
            || self.switches
            || self.tail
            || self.waiters()
            || self.latches
            || self.snapshot
            || self.timeline.is_some()
            || by_second()
        {
            Detail::Seconds
        } else {
            Detail::Sums
        }
    }

    /// What the ledger is grouped by; none typed = none here.
    ///
    /// # Errors
    /// There is no such dimension; the message lists those there are.
    pub fn by(&self) -> Result<Vec<Dimension>, String> {
        self.by.iter().map(|name| name.parse()).collect()
    }

    /// What latencies are grouped by.
    ///
    /// # Errors
    /// There is no such dimension; the message lists those there are.
    pub fn latency_by(&self) -> Result<Vec<LatencyDimension>, String> {
        or_default(&self.by, LatencyDimension::Name)
    }
}

/// The dimensions that were typed, or one if none were.
fn or_default<T: FromStr<Err = String>>(names: &[String], default: T) -> Result<Vec<T>, String> {
    if names.is_empty() {
        return Ok(vec![default]);
    }
    names.iter().map(|name| name.parse()).collect()
}

/// In which order functions stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FunctionSort {
    /// By the time in them
    #[value(name = "self")]
    Own,
    /// By the time in them and in all they called
    Total,
}

/// Output formats of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for a terminal
    Text,
    /// JSON
    Json,
    /// A picture: with --latency, a heat map of one kind; with --timeline, the time line; with --chain, the roots over time
    Svg,
}

/// How a time line is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buckets {
    /// As is usual.
    Usual,
    /// As was typed.
    Typed(BucketWidth),
}

impl Buckets {
    /// Buckets of a text, or of a picture.
    pub fn width(self, is_picture: bool) -> BucketWidth {
        match self {
            Buckets::Typed(width) => width,
            Buckets::Usual if is_picture => BucketWidth::AtMost(240),
            Buckets::Usual => TimelineOptions::default().width,
        }
    }
}

/// `dbtime flame`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dbtime flame slow.dbt\n  dbtime flame slow.dbt --by query,wait -o slow.svg\n  perf script | dbtime flame - -o cpu.svg"
)]
pub struct FlameArguments {
    /// The recording [default: the newest in the current directory], or a file that 'dbtime import' understands
    #[arg(value_name = "RECORDING")]
    pub recording: Option<PathBuf>,
    /// What such a file does not say
    #[command(flatten)]
    pub about: FileOptions,
    /// Which part of it
    #[command(flatten)]
    pub selection: Selection,
    /// Levels below the stacks, from the bottom [default: wait,state, or program,state in files that know no database]
    #[arg(long, value_name = "DIMENSION,…", value_delimiter = ',', value_parser = dimension_parser())]
    pub by: Vec<Dimension>,
    /// Draw idle waits too
    #[arg(long)]
    pub idle: bool,
    /// Draw background processes too
    #[arg(long)]
    pub background: bool,
    /// SQL traces: tell statements apart that differ in literals only
    #[arg(long)]
    pub each_literal: bool,
    /// Let blocked time go on in the stacks of who was waited for; the width stays what it is
    #[arg(long)]
    pub causes: bool,
    /// File to write; its ending chooses the format (see docs/export.md: .svg, .folded, .pb.gz, .speedscope.json …); - writes folded
    /// stacks to standard output [default: beside the recording, slow.svg of slow.dbt; - where standard output is no terminal]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `dbtime html`
#[derive(Debug, Args)]
#[command(
    after_help = "Example: dbtime html slow.dbt -o slow.html, and mail slow.html to whoever asked.\n\n\
                  The page has the ledger, a time line, who was waited for, a flame graph, statements, sessions, functions and latencies; a click \
                  on any of it chooses, and its address keeps what was chosen. 'dbtime html good.dbt bad.dbt' shows what changed. It has the texts of statements and the names of users in it: \
                  treat it as the recording."
)]
pub struct HtmlArguments {
    /// The recording [default: the newest in the current directory], or a file that 'dbtime import' understands; two of them, GOOD and
    /// BAD, to see what changed
    #[arg(value_name = "RECORDING", num_args = 0..=2)]
    pub recordings: Vec<PathBuf>,
    /// What such a file does not say
    #[command(flatten)]
    pub about: FileOptions,
    /// Which part of it; of two, --from and --to in seconds count from the start of each
    #[command(flatten)]
    pub selection: Selection,
    /// How two are compared
    #[command(flatten)]
    pub compared: ComparedOptions,
    /// File to write, - for standard output [default: beside the recording, slow.html of slow.dbt; of two slow-against-fast.html]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `dbtime diff`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  dbtime diff\n  dbtime diff good.dbt slow.dbt\n  dbtime diff good.dbt slow.dbt -o diff.svg"
)]
pub struct DiffArguments {
    /// The recording, or a file that 'dbtime import' understands, of the good time [default: the newest but one in the current
    /// directory]
    #[arg(value_name = "GOOD")]
    pub good: Option<PathBuf>,
    /// The same of the bad time [default: the newest in the current directory]
    #[arg(value_name = "BAD")]
    pub bad: Option<PathBuf>,
    /// What files of other tools do not say
    #[command(flatten)]
    pub about: FileOptions,
    /// Which part of both; --from and --to in seconds count from the start of each
    #[command(flatten)]
    pub selection: Selection,
    /// How they are compared
    #[command(flatten)]
    pub compared: ComparedOptions,
    /// Changes of each kind to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Side that gives the widths of a flame graph: what BAD does more of, or what GOOD did and has gone
    #[arg(long, value_enum, value_name = "SIDE", default_value_t = WidthsOf::Bad)]
    pub widths: WidthsOf,
    /// File to write; its ending chooses the format (.txt, .json, .folded, .svg) [default: text on standard output]
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "-",
        hide_default_value = true
    )]
    pub output: PathBuf,
    /// For people or for programs, on standard output
    #[arg(long, value_enum, conflicts_with = "output")]
    pub format: Option<TableFormat>,
}

/// Sides of a differential flame graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WidthsOf {
    /// BAD
    Bad,
    /// GOOD
    Good,
}

/// `dbtime iolat`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo dbtime iolat\n  sudo dbtime iolat 1 10 --device nvme0n1 --per-disk"
)]
pub struct IolatArguments {
    /// Seconds between two tables, 0.1 at least
    #[arg(value_name = "INTERVAL", default_value = "1", value_parser = parse_seconds_between)]
    pub interval: Duration,
    /// Tables to show [default: until Ctrl-C, which shows the whole time]
    #[arg(value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Only this disk; may be repeated
    #[arg(long, value_name = "NAME")]
    pub device: Vec<String>,
    /// Only this operation: read, write, flush, discard, other; may be repeated
    #[arg(long, value_name = "OPERATION")]
    pub operation: Vec<BlockOperation>,
    /// Only I/O that this process submitted; may be repeated
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Vec<u32>,
    /// Latency from the queue until done, not from the issue to the device
    #[arg(long)]
    pub queue: bool,
    /// A table for each disk
    #[arg(long)]
    pub per_disk: bool,
    /// For whom
    #[command(flatten)]
    pub stream: StreamFormat,
}

/// `dbtime dive`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  sudo dbtime dive -p 4711 --list\n  sudo dbtime dive -p 4711 --call pread64"
)]
pub struct DiveArguments {
    /// Process, or thread, to look into: of many threads only the one with this id
    #[arg(short, long, value_name = "PID", required_unless_present = "restore",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// System call to look into, as in the manual's section 2: pread64, io_submit, futex, epoll_wait …
    #[arg(long, value_name = "NAME", required_unless_present_any = ["list", "restore"])]
    pub call: Option<String>,
    /// Stop after this many calls [default: 20, or as many as come in the time of -d]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub calls: Option<u64>,
    /// Stop after this time: seconds, or 30s, 1m [default: 10]
    #[arg(short, long, value_name = "TIME", value_parser = parse_seconds)]
    pub duration: Option<Duration>,
    /// Look with this, or not at all [default: the best that the kernel allows]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineKind>,
    /// Trace only functions of these names, for all engines but tracepoints; * stands for anything
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',', value_parser = parse_pattern)]
    pub functions: Vec<String>,
    /// Only calls made in this wait event of a PostgreSQL session (Class:Event, or either of the two; CPU for none)
    #[arg(long, value_name = "WAIT")]
    pub wait: Option<String>,
    /// The same of an Oracle session: MAP is the file that the script of 'dbtime oracle-map' makes
    #[arg(long, value_name = "MAP", requires = "wait")]
    pub oracle: Option<PathBuf>,
    /// Show which system calls the process makes, for -d seconds, in place of looking into one
    #[arg(long, conflicts_with_all = ["call", "calls", "engine", "functions", "wait", "raw", "output"])]
    pub list: bool,
    /// Only give back what a dive that was killed has left changed in the kernel (every dive does this first)
    #[arg(long, conflicts_with_all = ["pid", "call", "calls", "duration", "engine", "functions", "wait", "list", "raw", "output"])]
    pub restore: bool,
    /// File for the text of the trace, to be read elsewhere, in place of a report
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    pub raw: Option<PathBuf>,
    /// Perhaps kept
    #[command(flatten)]
    pub recording: NewRecording,
}

/// `dbtime sched`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sudo dbtime sched -d 10 --summary\n  sudo dbtime sched -p 4711")]
pub struct SchedArguments {
    /// Whom
    #[command(flatten)]
    pub target: TargetOptions,
    /// For how long
    #[command(flatten)]
    pub stop: StopAfter,
    /// Only the summary, not every switch
    #[arg(long)]
    pub summary: bool,
    /// The longest scheduling delays to show in the summary
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// For whom
    #[command(flatten)]
    pub stream: StreamFormat,
    /// Perhaps kept
    #[command(flatten)]
    pub recording: NewRecording,
}

/// What `dive` looks with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineKind {
    /// Every function, in a private trace instance or else in the kernel's own trace
    FunctionGraph,
    /// Every function, in the kernel's own trace: less text of a busy process
    OwnFunctionGraph,
    /// Functions that the call reaches, each calling a program of its own (fentry/fexit), beside whoever else traces
    Fentry,
    /// The same by probes (kprobe.multi, or kprobes one by one)
    Probes,
    /// Tracepoints with stacks, in a private instance, and timer samples of the kernel stack
    Tracepoints,
}

/// `dbtime calibrate`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sudo dbtime calibrate\n  sudo dbtime calibrate --quick -o -")]
pub struct CalibrateArguments {
    /// Fewer rounds and calls: some seconds, and more noise
    #[arg(long)]
    pub quick: bool,
    /// File to keep it in, - for standard output [default: dbtime/calibration.json in $XDG_STATE_HOME, for root in
    /// /var/lib]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// For whom
    #[command(flatten)]
    pub answer: AnswerFormat,
    /// Be the process that is watched, and read this file
    #[arg(long, value_name = "FILE", hide = true)]
    pub workload: Option<PathBuf>,
}

/// `dbtime doctor`
#[derive(Debug, Args)]
#[command(after_help = "Example: sudo dbtime doctor\n\n\
                  Every server is recorded for a moment. The exit status is 0 when recording works, 1 when it does not.")]
pub struct DoctorArguments {
    /// For whom
    #[command(flatten)]
    pub answer: AnswerFormat,
}

/// `dbtime completions`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  source <(dbtime completions bash)\n  dbtime completions zsh > ~/.zfunc/_dbtime\n  \
                  dbtime completions fish > ~/.config/fish/completions/dbtime.fish"
)]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// `dbtime man`
#[derive(Debug, Args)]
#[command(after_help = "Example: dbtime man /usr/local/share/man/man1")]
pub struct ManArguments {
    /// Where they are to be
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// `dbtime demo`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sudo dbtime demo")]
pub struct DemoArguments {
    /// Directory to create for recordings and flame graphs [default: dbtime-demo, or dbtime-demo-2 and so on]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// The words of `--by` of times.
fn dimension_parser() -> impl TypedValueParser<Value = Dimension> {
    PossibleValuesParser::new(Dimension::ALL.map(Dimension::as_str)).try_map(|name| name.parse::<Dimension>())
}

/// The words of `--by`: of times, and of latencies.
fn all_dimensions() -> Vec<&'static str> {
    let mut names: Vec<&str> = Dimension::ALL.map(Dimension::as_str).to_vec();
    for of_latencies in LatencyDimension::ALL.map(LatencyDimension::as_str) {
        if !names.contains(&of_latencies) {
            names.push(of_latencies);
        }
    }
    names
}

/// `10`, `30s`, `1m`: whole seconds; `end`.
fn parse_length(text: &str) -> Result<Length, String> {
    if text == "end" {
        return Ok(Length::UntilTheEnd);
    }
    parse_whole_seconds(text)
        .map(Length::Seconds)
        .map_err(|e| format!("{e}, or 'end'"))
}

/// What ftrace takes for a pattern of names of functions; it also takes commands, which have a colon.
fn parse_pattern(text: &str) -> Result<String, String> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_.*?[]".contains(c);
    if !text.is_empty() && text.chars().all(is_of_name) {
        Ok(text.to_string())
    } else {
        Err("not a pattern of a function's name, as in vfs_*".to_string())
    }
}

fn parse_buckets(text: &str) -> Result<Buckets, String> {
    let usage = || {
        "must be a number of buckets (60), or how long one is in whole seconds, minutes or hours (10s, 5m, 1h)".to_string()
    };
    let units = [("s", 1), ("m", 60), ("h", 3_600)];
    let with_unit = units
        .into_iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)));
    match with_unit {
        _ if text.is_empty() => Ok(Buckets::Usual),
        Some((number, unit)) => match number
            .parse::<u32>()
            .ok()
            .and_then(|number| number.checked_mul(unit))
        {
            Some(seconds) if seconds > 0 => Ok(Buckets::Typed(BucketWidth::Seconds(seconds))),
            _ => Err(usage()),
        },
        None => match text.parse() {
            Ok(most @ 1..=10_000) => Ok(Buckets::Typed(BucketWidth::AtMost(most))),
            _ => Err(usage()),
        },
    }
}

fn parse_depth(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(depth) if depth > 0 => Ok(depth),
        _ => Err("must be a number, 1 at least".to_string()),
    }
}

fn parse_thresholds(text: &str) -> Result<[u64; 2], String> {
    let numbers: Vec<u64> = text
        .split(',')
        .map(|number| number.trim().parse())
        .collect::<Result<_, _>>()
        .map_err(|_| "not two whole numbers of microseconds, as in 50,1000".to_string())?;
    match numbers.as_slice() {
        [first, second] if first < second => Ok([*first, *second]),
        _ => Err("must be two numbers of microseconds, the smaller one first, as in 50,1000".to_string()),
    }
}

/// Shorter than this, taking the numbers would be a part of what is measured.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
/// Longer ones are typing errors.
const LONGEST_INTERVAL: Duration = Duration::from_secs(86_400);

fn parse_seconds_between(text: &str) -> Result<Duration, String> {
    let interval = parse_seconds(text)?;
    if (SHORTEST_INTERVAL..=LONGEST_INTERVAL).contains(&interval) {
        Ok(interval)
    } else {
        Err("must be between 0.1 and 86400 seconds".to_string())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn dimensions_are_typed_by_their_names() {
        let by = |words: &str| match Arguments::try_parse_from(["dbtime", "flame", "x.dbt", "--by", words]) {
            Ok(Arguments {
                command: Command::Flame(arguments),
            }) => Ok(arguments.by),
            Ok(other) => panic!("{other:?}"),
            Err(e) => Err(e.to_string()),
        };
        assert_eq!(by("wait,query"), Ok(vec![Dimension::Wait, Dimension::Query]));
        let told = by("qeury").expect_err("there is no such dimension");
        assert!(told.contains("'query'") && told.contains("wait_class"), "{told}");
    }

    #[test]
    fn one_view_of_who_was_waited_for_at_a_time() {
        let is_one = |words: &[&str]| {
            Arguments::try_parse_from([&["dbtime", "report", "x.dbt"], words].concat()).is_ok()
        };
        for wrong in [
            &["--causes", "--chain"][..],
            &["--causes", "--at=3"],
            &["--blockers", "--chain"],
        ] {
            assert!(!is_one(wrong), "{wrong:?}");
        }
        assert!(is_one(&["--chain", "--at=3"]) && is_one(&["--causes", "--depth=2"]));
    }

    #[test]
    fn every_command_has_an_example() {
        for command in Arguments::command().get_subcommands() {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            let call = format!("dbtime {}", command.get_name());
            assert!(
                help.starts_with("Example") && help.contains(&call),
                "{call}: {help}"
            );
        }
    }

    #[test]
    fn thresholds_are_two_numbers_in_order() {
        assert_eq!(parse_thresholds("50, 1000"), Ok([50, 1_000]));
        for wrong in ["", "50", "50,50", "1000,50", "1,2,3", "a,b", "-1,5"] {
            assert!(parse_thresholds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn patterns_of_functions_hold_no_command() {
        assert_eq!(parse_pattern("vfs_*"), Ok("vfs_*".to_string()));
        for wrong in ["", "vfs_read:traceoff", "a b", "!x", "a\nb"] {
            assert!(parse_pattern(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn intervals_are_neither_too_short_nor_without_end() {
        assert_eq!(parse_seconds_between("0.1"), Ok(Duration::from_millis(100)));
        for wrong in ["0", "0.09", "86401", "1e300", "-1", "one"] {
            assert!(parse_seconds_between(wrong).is_err(), "{wrong}");
        }
    }
}
