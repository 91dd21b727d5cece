//! The truth about reads: where their data came from, how long it took, and what it cost in CPU.

mod cpu;
mod device_parts;
mod file;
mod guess;
mod reads;
mod waits;

use std::collections::HashMap;

use arcstr::ArcStr;
use dbtime_model::LatencyRow;
use dbtime_model::latency::kind;
use dbtime_model::recording::{Meta, Problem};

use crate::cost_of_looking::CALLS_TIER;
use crate::filter::Filter;
use crate::latency::scan as scan_latency;
use crate::load::Source;
use crate::report::{ReportError, load};
use crate::scan::{Period, scan};
pub use cpu::{CallCpu, LayerTime, ReadCpu};
pub use device_parts::{DeviceReads, ReadParts};
pub use file::{DatabaseFile, FileKind};
pub use guess::{Guess, Guessed, USUAL_THRESHOLDS_US};
pub use reads::{ReadGroup, ReadGroups, ReadSource, ReadSums, Reads};
pub use waits::ReadWaits;

use cpu::ReadCpuBuilder;
use device_parts::DeviceReadsBuilder;
use file::Segments;

/// Options of a report about reads.
#[derive(Debug, Clone, PartialEq)]
pub struct IoOptions {
    /// Period, sessions and statements.
    pub filter: Filter,
    /// How many files and sizes to show individually.
    pub top: usize,
    /// See [`Guess::thresholds_us`].
    pub thresholds_us: [u64; 2],
}

impl Default for IoOptions {
    fn default() -> IoOptions {
        IoOptions {
            filter: Filter::default(),
            top: 10,
            thresholds_us: USUAL_THRESHOLDS_US,
        }
    }
}

/// Read calls of the recorded sessions. Exact except for user CPU and layers of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct IoReport {
    /// What the recording says about itself.
    pub meta: Meta,
    /// Which rows count.
    pub filter: Filter,
    /// The time it covers.
    pub period: Period,
    /// The recording has reads, even if the selected part of it has none.
    pub has_reads: bool,
    /// All reads.
    pub total: Reads,
    /// By wait event, `Class:Event`; `CPU` = in none.
    pub by_event: ReadGroups<String>,
    /// What the ledger has for these events.
    pub waits: ReadWaits,
    /// By what the file holds.
    pub by_file_kind: ReadGroups<FileKind>,
    /// By file, segments of a relation merged.
    pub by_file: ReadGroups<DatabaseFile>,
    /// How many segments of each file shown were read, in the same order.
    pub segments: Vec<usize>,
    /// The relations of the files shown, as `schema.name`, in the same order; none if not known.
    pub relations: Vec<Option<String>>,
    /// By bytes that the call returned.
    pub by_size: ReadGroups<u64>,
    /// Reads that waited for a device.
    pub device: DeviceReads,
    /// The classic guess.
    pub guess: Guess,
    /// CPU of reads.
    pub cpu: ReadCpu,
    /// What could not be read.
    pub problems: Vec<String>,
}

impl IoReport {
    /// Why there are none.
    pub fn why_empty(&self) -> &'static str {
        let traces_calls = self.meta.collector.tier == CALLS_TIER && self.meta.files.is_empty();
        match (self.has_reads, traces_calls) {
            (true, _) => "There are no reads in this part of the recording.",
            (false, true) => "No session read from a file while it was recorded.",
            (false, false) => {
                "There are no reads in this recording. Record them with 'dbtime record --exact=calls'."
            }
        }
    }
}

/// What rows say about a file besides its reads.
#[derive(Debug, Default)]
struct Met {
    segments: Segments,
    /// The first name found: a file belongs to one relation.
    relation: Option<ArcStr>,
}

impl Met {
    fn add(&mut self, segment: u32, row: &LatencyRow) {
        self.segments.insert(segment);
        if self.relation.is_none() && !row.relation.is_empty() {
            self.relation = Some(ArcStr::clone(&row.relation));
        }
    }
}

/// Finds out what reads were.
///
/// # Errors
/// The filter names a session or a period that is not there.
pub fn io(source: &Source, options: &IoOptions) -> Result<IoReport, ReportError> {
    let mut dimensions = load(source, &options.filter)?;
    let mut has_reads = false;
    let mut total = Reads::default();
    let mut by_event: HashMap<String, Reads> = HashMap::new();
    let mut by_file_kind: HashMap<FileKind, Reads> = HashMap::new();
    let mut by_file: HashMap<DatabaseFile, Reads> = HashMap::new();
    let mut met: HashMap<DatabaseFile, Met> = HashMap::new();
    let mut by_size: HashMap<u64, Reads> = HashMap::new();
    let mut device = DeviceReadsBuilder::default();
    let mut guess = Guess::new(options.thresholds_us);
    let mut cpu = ReadCpuBuilder::default();
    let latency = scan_latency(source, &mut dimensions, &options.filter, |row, _, is_selected| {
        has_reads |= *row.kind == *kind::READ;
        if !is_selected {
            return;
        }
        device.add(row);
        match &*row.kind {
            kind::READ => {
                let (file, segment) = DatabaseFile::of(&row.file);
                total.add(row);
                by_event.entry(row.name.to_string()).or_default().add(row);
                by_file_kind.entry(file.kind).or_default().add(row);
                by_file.entry(file.clone()).or_default().add(row);
                met.entry(file).or_default().add(segment, row);
                by_size.entry(row.bytes).or_default().add(row);
                guess.add(row);
                cpu.add_read(row);
            }
            kind::READ_CPU => cpu.add_cpu(row),
            _ => {}
        }
    });
    let mut waits = ReadWaits::default();
    for (event, reads) in &by_event {
        waits.add_reads(event, reads.all.latency.sum_ns());
    }
    // Only now are the reading sessions and their wait events known.
    let activity = scan(source, &mut dimensions, &options.filter, |activity| {
        cpu.add_activity(activity);
        waits.add(activity, |event| by_event.contains_key(event));
    });
    activity.check_statements(&options.filter)?;
    let cpu = cpu.finish(options.top, &dimensions);
    let by_file = ReadGroups::of(by_file, options.top);
    let mut problems: Vec<String> = Vec::new();
    for Problem(problem) in [dimensions.problems, latency.problems, activity.problems].concat() {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    Ok(IoReport {
        meta: source.meta().clone(),
        filter: options.filter.clone(),
        period: latency.period,
        has_reads,
        total,
        by_event: ReadGroups::of(by_event, usize::MAX),
        waits,
        by_file_kind: ReadGroups::of(by_file_kind, usize::MAX),
        segments: by_file
            .top
            .iter()
            .map(|group| met.get(&group.key).map_or(0, |met| met.segments.len()))
            .collect(),
        relations: by_file
            .top
            .iter()
            .map(|group| met.get(&group.key)?.relation.as_deref().map(str::to_string))
            .collect(),
        by_file,
        by_size: ReadGroups::of(by_size, options.top),
        device: device.finish(options.top),
        guess,
        cpu,
        problems,
    })
}
