//! Turns rows into answers, and answers into text, JSON and flame graphs. Reads no `/proc` and touches no terminal.
//!
//! ```text
//! Source ──report()───▶ Report ────────▶ text::render, json::render
//!        ──stacks()───▶ StackReport ───▶ text::render_stacks, json::render_stacks
//!        ──diff()─────▶ Diff ──────────▶ text::render_diff, json::render_diff, diff_export, html::difference
//!        ──flame()────▶ Folded ────────▶ export::write (SVG, folded stacks, pprof …)
//!        ──dive()─────▶ DiveReport ────▶ text::render_dive, json::render_dive
//!        ──html::dive_page()▶ DivePage ▶ html::write_dive
//! Sources ──dive_diff()▶ DiveDiff ──────▶ text::render_dive_diff, json::render_dive_diff, html::dive_difference
//!        ──latency()──▶ LatencyReport ─▶ text::render_latency, json::render_latency
//!        ──heat_map()─▶ HeatMap ───────▶ heat_map_svg::render
//!        ──causes()───▶ CauseReport ───▶ text::render_causes, text::render_chains, text::render_blockers, json::render_causes,
//!                                         json::render_blockers
//!        ──chains_over_time()▶ ChainTimeline ▶ chains_svg::render
//!        ──latches()──▶ LatchReport ───▶ text::render_latches, json::render_latches
//!        ──snapshot()─▶ Snapshot ──────▶ text::render_snapshot, json::render_snapshot, snapshot_csv::render
//!        ──commands()─▶ CommandReport ─▶ text::render_commands, json::render_commands
//!        ──timeline()─▶ Timeline ──────▶ text::render_timeline, json::render_timeline, timeline_svg
//!        ──switches()─▶ SwitchLine ────▶ text::render_switch, json::render_switch
//!        ──html()─────▶ HtmlPage ──────▶ html::write
//!        ──io()───────▶ IoReport ──────▶ text::render_io, json::render_io
//!        ──tui::Answers::of()▶ Answers ▶ tui::draw
//! Sources ──compare()──▶ Comparison ────▶ text::render_comparison, json::render_comparison
//! ```
//!
//! Analysis and presentation are separate: everything that is computed is in the answer ([`Report`] and so on), and renderers
//! compute nothing. Names (symbols, users, statements) are kept as they were recorded; text, SVG and folded stacks make them
//! safe when they are written.

mod alike_statements;
mod block_io;
mod block_io_json;
mod causes;
pub mod chains_svg;
mod code_module;
#[cfg(test)]
mod colour_vision;
mod commands;
mod comparison;
mod connecting;
mod cost_of_looking;
mod database_view;
mod diff;
pub mod diff_export;
mod dimensions;
mod dive;
mod drawing;
mod explanation;
pub mod export;
mod fast_map;
mod fields;
mod filter;
mod firefox;
mod flame;
mod folded;
mod function;
mod group;
pub mod heat_map_svg;
mod histogram;
mod host_cpu;
pub mod html;
mod io;
pub mod json;
mod kernel_layers;
mod known_frame;
mod known_stacks;
mod lanes;
mod latches;
mod latency;
mod ledger;
mod letters;
mod load;
mod locks;
mod next_step;
mod number;
mod numbered;
mod otlp;
mod palette;
mod perfetto;
mod pprof;
mod preemption;
mod printable;
mod product;
mod quality;
mod recent;
mod report;
mod round_seconds;
mod saturation;
mod scan;
mod sched;
mod server_start;
mod session_work;
mod sessions;
mod size_label;
mod snapshot;
pub mod snapshot_csv;
mod speedscope;
mod stack_views;
mod stacks;
mod statement_counts;
mod statement_text;
mod sums;
mod svg;
mod system_calls;
pub mod text;
mod time_axis;
mod timeline;
pub mod timeline_svg;
mod top_sql;
mod trace;
mod transactions;
pub mod tui;
mod waits_in_calls;
mod what_if;
mod who_was_there;
mod work;
mod xml;

pub use block_io::{BlockIo, BlockRequests, BlockTable};
pub use block_io_json::render_block_io_json;
pub use causes::{
    Beyond, Blocker, BlockingStatement, CauseGroup, CauseOptions, CausePart, CauseReport, CausedWait, Chain,
    ChainLane, ChainLink, ChainTimeline, Meanwhile, NotKnown, Root, RootActivity, Waiting, Who, causes,
    chains_over_time,
};
pub use commands::{
    Cause, CauseTime, CommandOptions, CommandReport, Commands, RangeLedger, RangeRow, StatementCommands,
    commands,
};
pub use comparison::{
    BucketDifference, ComparedEvent, ComparedSize, ComparedSource, Comparison, ComparisonOptions, Difference,
    Tail, ToCompare, compare,
};
pub use connecting::{Connecting, Phase};
pub use cost_of_looking::{CalibrationOf, CostOfLooking};
pub use database_view::{DatabaseView, EventView, Step};
pub use diff::{
    CauseChange, CauseChanges, Change, CounterChange, Diff, DiffError, DiffOptions, DiffSide, DiffStack,
    LatencyChange, LatencyQuantity, NoiseTest, Place, StatementChange, Statements, Verdict, WaitingStatement,
    diff,
};
pub use dimensions::Dimensions;
pub use dive::{
    CallChoice, CallSummary, ChildOf, ChildrenOf, DiveAnswer, DiveChange, DiveDiff, DiveOptions, DiveReport,
    DiveSide, DiveView, Durations, FunctionDurations, LayerPart, PathDurations, PathTree, SampledFunction,
    SampledInterval, SampledPath, SpanLine, TimerSamples, TracedCall, dive, dive_diff, has_kernel_trace,
};
pub use filter::{Filter, Whose, parse_fact, parse_moment};
pub use flame::{FlameOptions, Folded, FoldedStack, flame};
pub use function::Function;
pub use group::{Dimension, GroupKey};
pub use histogram::{Bucket, Histogram};
pub use host_cpu::{HostCpu, OtherProcess};
pub use html::{HtmlPage, html};
pub use io::{
    CallCpu, DatabaseFile, DeviceReads, FileKind, Guess, Guessed, IoOptions, IoReport, LayerTime, ReadCpu,
    ReadGroup, ReadGroups, ReadParts, ReadSource, ReadSums, ReadWaits, Reads, USUAL_THRESHOLDS_US, io,
};
pub use kernel_layers::{KernelLayer, kernel_layer, layer_of_frame};
pub use known_frame::KnownFrame;
pub use latches::{
    CodeTime, ExactLatch, ExactLatches, ExactPlace, ExactSession, ExactSingle, ExactStatement, HoldMode,
    Holding, Latch, LatchColumn, LatchOptions, LatchReport, LatchSamples, LatchWaiting, ProfileRow,
    SingleLatch, SingleLock, UseSums, is_for_latch, latches, latches_and_uses,
};
pub use latency::{
    HeatMap, HeatMapCell, KindLatencies, LatencyGroup, LatencyOptions, LatencyReport, heat_map, latency,
};
pub use ledger::{Ledger, LedgerRow, Rest, Section};
pub use load::{Part, Source};
pub use locks::{HeavyLock, LockReport, LockRequest, LockShare, LockTarget, WaitedLock};
pub use next_step::{
    NextStep, next_steps, next_steps_of_causes, next_steps_of_commands, next_steps_of_diff,
    next_steps_of_dive_diff, next_steps_of_latches, next_steps_of_latencies, next_steps_of_reads,
    next_steps_of_snapshot, next_steps_of_stacks, next_steps_of_timeline, next_steps_of_what_if, shell_word,
};
pub use printable::{printable, printable_lines};
pub use quality::{Probe, Quality, StackCounts};
pub use recent::{MoreTables, Recent};
pub use report::{Options, Report, ReportError, report};
pub use saturation::Saturation;
pub use scan::Period;
pub use sched::{OtherTask, Sched, SchedBuilder, SchedStatement, SchedSums, SchedTask, SwitchLine, switches};
pub use session_work::{SessionWork, sessions_work};
pub use sessions::{SessionTime, SessionTotals, Sessions};
pub use snapshot::{
    Average, LineKind, LineUnit, SessionSnapshot, Snapshot, SnapshotColumn, SnapshotLine, SnapshotOptions,
    is_for_snapshot, snapshot, snapshots,
};
pub use stack_views::{
    CallTree, CallTreeNode, CountedStack, CountedStacks, FunctionTime, FunctionTimes, ModuleTime,
    ModuleTimes, Sort, StackAnswer, StackOptions, StackReport, StackView, Work, stacks,
};
pub use stacks::{StackProfile, StackTime};
pub use statement_counts::{CountedBy, CountedStatement, StatementCounts};
pub use sums::{FidelityMix, Sums, percent};
pub use system_calls::{SystemCall, SystemCalls};
pub use timeline::{
    BucketWidth, Mark, MarkKind, Timeline, TimelineBucket, TimelineOptions, TimelineValue, WidthError,
    timeline,
};
pub use top_sql::{NoStatements, StatementTime, TopSql};
pub use trace::{
    Application, ApplicationTime, CallSums, CallView, CallerCalls, DoubleCounted, EventGuess, FileGap,
    FileInFlight, IntervalView, IoSize, IoSizes, PARSETRC_LABELS, PlanStepTime, ProfileEvent, RecursiveCall,
    StatementError, StatementPlan, StatementProfile, Throughput, ThroughputSecond, ThroughputSpan, Trace,
    TraceFacts, TraceFile, TraceOptions, TracedEvent, TracedStatement, Transactions, WaitPlace,
    parsetrc_counts,
};
pub use transactions::EndedTransactions;
pub use waits_in_calls::{Alignment, CallTime, Matrix, Pair, Unnamed, WaitCalls, WaitsInCalls};
pub use what_if::{Changed, LoadFigures, Prediction, WhatIf, WhatIfOptions, WhatIfReport, what_if};
pub use work::WorkUnit;
