//! A timeline: average active sessions by one dimension, bucket by bucket.
//!
//! Time is conserved: the buckets, and what is before the first (an imported wait that began before the period), add up to the ledger's DB
//! time for the same rows. Seconds in which nothing was recorded do not count towards a bucket's length.

mod buckets;
mod marks;
mod placement;
mod recorded;
mod told;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use dbtime_model::recording::{Clock, Meta};
use dbtime_model::{State, Wait, counter};

pub(crate) use buckets::Buckets;
pub use buckets::{BucketWidth, WidthError};

pub(crate) use marks::Marks;
pub use marks::{Mark, MarkKind};

use crate::causes::ByCause;
use crate::fast_map::FastMap;
use crate::filter::{Filter, SECOND_US};
use crate::group::{Dimension, GroupKey, not_recorded};
use crate::ledger::Section;
use crate::load::Source;
use crate::number::{Amounts, counted};
use crate::numbered::Numbered;
use crate::report::{ReportError, load};
use crate::scan::{Period, scan};
use crate::sums::{FidelityMix, Sums};
use crate::trace::alike_by;
use placement::{Placement, Reach};
use recorded::{RecordedSeconds, recorded_ns};
use told::ToldTimes;

/// What a timeline shows.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineOptions {
    /// Which rows count.
    pub filter: Filter,
    /// What sessions are grouped by.
    pub by: Dimension,
    /// How wide the buckets are.
    pub width: BucketWidth,
    /// How many values to show individually: those with the most time.
    pub top: usize,
    /// Shows statements of an SQL trace that differ only in literals one by one.
    pub each_literal: bool,
}

impl Default for TimelineOptions {
    fn default() -> TimelineOptions {
        TimelineOptions {
            filter: Filter::default(),
            by: Dimension::WaitClass,
            width: BucketWidth::AtMost(60),
            top: 8,
            each_literal: false,
        }
    }
}

/// Average active sessions over time. Amounts are nanoseconds, or what the recording counts instead.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// What the recording says about itself.
    pub meta: Meta,
    /// Which rows count.
    pub filter: Filter,
    /// The time it covers.
    pub period: Period,
    /// What sessions are grouped by.
    pub by: Dimension,
    /// Width of a whole bucket, seconds.
    pub width_s: i64,
    /// From the bottom of a picture to its top; the sum of those left out comes last.
    pub values: Vec<TimelineValue>,
    /// In order and contiguous.
    pub buckets: Vec<TimelineBucket>,
    /// Times in which nothing was recorded.
    pub gaps: Vec<Period>,
    /// What the server did for itself, and what was noted, whichever sessions the filter lets through.
    pub marks: Vec<Mark>,
    /// The maximum of the buckets of which at least a tenth was recorded: average active sessions, or samples (counts) per second.
    pub peak: f64,
    /// DB time of all buckets, and [`Timeline::before_ns`].
    pub db_time_ns: u128,
    /// Of that, what is before the first bucket: intervals that began before the period, and ended in it.
    pub before_ns: u128,
    /// How much of the period was recorded.
    pub recorded_ns: u128,
    /// CPUs of the host; none when they are not known, or the recording counts no time.
    pub cpus: Option<u32>,
    /// The recording says nothing about the dimension.
    pub is_not_recorded: bool,
    /// How the times were measured.
    pub fidelity: Option<FidelityMix>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// A value of the dimension, or the sum of those left out.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineValue {
    /// As it was recorded.
    pub label: String,
    /// Text of a statement that is labelled by its id.
    pub text: Option<String>,
    /// It stands for all that are left out.
    pub is_other: bool,
    /// Values that it stands for.
    pub count: usize,
    /// Its time.
    pub ns: u128,
    /// Its maximum in these buckets (see [`Timeline::peak`]), and in which.
    pub peak: Option<(f64, usize)>,
}

/// A bucket of time.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineBucket {
    /// From when to when, cut to the period.
    pub period: Period,
    /// How much of that was recorded; 0 = nothing.
    pub recorded_ns: u128,
    /// Time of each of [`Timeline::values`].
    pub ns: Vec<u128>,
}

impl TimelineBucket {
    /// Time of all values.
    pub fn total_ns(&self) -> u128 {
        self.ns.iter().sum()
    }
}

impl TimelineValue {
    /// Its name.
    pub fn name(&self) -> String {
        match self.is_other {
            true => counted(self.count, "other"),
            false => self.label.clone(),
        }
    }
}

/// With more CPUs than this many times the highest bucket, a line of them would dwarf the buckets.
const CPUS_BEYOND: f64 = 3.0;

impl Timeline {
    /// What is drawn.
    pub fn title(&self) -> String {
        match self.are_sessions() {
            true => "Average active sessions".to_string(),
            false => format!("{} per second", Amounts::of(&self.meta).unit()),
        }
    }

    /// The number of CPUs, if a line of them is drawn.
    pub fn line_of_cpus(&self) -> Option<f64> {
        let cpus = self.cpus.map(f64::from);
        cpus.filter(|cpus| *cpus <= CPUS_BEYOND * self.peak)
    }

    /// Seconds since the recording began.
    pub fn since_start_s(&self, us: i64) -> f64 {
        (us as f64 - self.meta.start_us as f64) / SECOND_US as f64
    }

    /// The kinds of marks there are, in the order of pictures.
    pub fn mark_kinds(&self) -> Vec<MarkKind> {
        let is_there = |kind: &MarkKind| self.marks.iter().any(|mark| mark.kind == *kind);
        MarkKind::ALL.into_iter().filter(is_there).collect()
    }

    /// True when there is a mark of this kind in a period.
    pub fn has_mark(&self, kind: MarkKind, period: Period) -> bool {
        self.marks
            .iter()
            .any(|mark| mark.kind == kind && mark.is_in(period))
    }

    /// True when amounts are times, and their rates average active sessions.
    pub fn are_sessions(&self) -> bool {
        Amounts::of(&self.meta).are_times()
    }

    /// Average active sessions (samples, counts per second) for this much in a time; none when nothing was recorded in it.
    pub fn rate(&self, ns: u128, recorded_ns: u128) -> Option<f64> {
        let unit_ns = if self.are_sessions() { 1.0 } else { 1e9 };
        (recorded_ns > 0).then(|| ns as f64 * unit_ns / recorded_ns as f64)
    }
}

/// Average active sessions over time.
///
/// # Errors
/// The filter names something that is not in the recording; the recording has no times; such buckets are not possible.
pub fn timeline(source: &Source, options: &TimelineOptions) -> Result<Timeline, ReportError> {
    let meta = source.meta();
    if meta.collector.clock == Clock::None {
        return Err(ReportError::NoMoments);
    }
    let mut dimensions = load(source, &options.filter)?;
    let reach = reach(meta);
    // Of all sessions: that nobody was active is not a gap.
    let mut recorded = RecordedSeconds::default();
    let mut marks = Marks::new(meta);
    let whole = scan(source, &mut dimensions, &Filter::default(), |activity| {
        let ns = activity.row.ns.into();
        recorded.see(activity.row.time, if reach == Reach::Back { ns } else { 0 });
        marks.see(activity);
    });
    if let Reach::Told(times) = &reach {
        times.see(&mut recorded);
    }
    // The host is counted in every second, whether there are sessions or not: a server may be down.
    let counts_each_second = meta.files.is_empty();
    source.counters(|row| {
        if row.name == counter::ELAPSED_NS {
            recorded.see(row.time, row.value.max(0).unsigned_abs().into());
        } else if counts_each_second {
            recorded.see(row.time, 0);
        }
    });
    let period = whole.period.cut(&options.filter);
    if period.elapsed_ns() == 0 {
        return Err(ReportError::NoLength);
    }
    let resolution_s = meta.collector.resolution_s;
    let buckets = Buckets::new(period, options.width, resolution_s).map_err(ReportError::Buckets)?;
    let knows_gaps = reach != Reach::Second;

    let by = [options.by];
    let by_cause = ByCause::of(source, &mut dimensions, &by);
    let mut keys: Numbered<GroupKey> = Numbered::default();
    let mut placement = Placement::new(&buckets, reach, &mut recorded);
    let mut total = Sums::default();
    let scan = scan(source, &mut dimensions, &options.filter, |activity| {
        if activity.section == Section::DbTime && activity.row.ns > 0 {
            total.take(activity);
            by_cause.each(activity, |activity| {
                let (key, row) = (GroupKey::of(&by, activity), activity.row);
                placement.add(row.session, row.time, keys.number(key), row.ns);
            });
        }
    });
    scan.check(&options.filter)?;
    let (sums, before_ns) = placement.finish();
    let gaps = match knows_gaps {
        true => recorded.gaps(&buckets, period, &meta.gaps),
        false => Vec::new(),
    };
    let (alike, more_problems) = alike_by(
        source,
        &mut dimensions,
        &options.filter,
        &by,
        options.each_literal,
    );
    let names: Vec<Name> = keys
        .into_values()
        .into_iter()
        .map(|key| {
            let key = key.grouped(&alike);
            Name {
                text: key
                    .query()
                    .and_then(|id| dimensions.statement(id))
                    .map(str::to_string),
                label: key.labels(&alike, &mut dimensions).concat(),
            }
        })
        .collect();
    let (values, places) = chosen(&names, &sums, options);
    let mut filled: Vec<TimelineBucket> = (0..buckets.len())
        .map(|bucket| {
            let period = buckets.bounds(bucket);
            TimelineBucket {
                period,
                recorded_ns: recorded_ns(period, &gaps),
                ns: vec![0; values.len()],
            }
        })
        .collect();
    for ((bucket, name), ns) in sums {
        filled[bucket].ns[places[name as usize]] += ns;
    }
    let (marks, other_marks) = marks.finish(meta, period, &dimensions);
    let mut problems = dimensions.problems;
    problems.extend(scan.problems);
    problems.extend(more_problems);
    let labels: Vec<[String; 1]> = values.iter().map(|value| [value.label.clone()]).collect();
    let mut answer = Timeline {
        period,
        by: options.by,
        width_s: buckets.width_s(),
        is_not_recorded: !not_recorded(&by, labels.iter().map(<[String; 1]>::as_slice)).is_empty(),
        values,
        recorded_ns: filled.iter().map(|bucket| bucket.recorded_ns).sum(),
        buckets: filled,
        gaps,
        marks,
        peak: 0.0,
        db_time_ns: total.total_ns(),
        before_ns,
        cpus: (meta.host.cpus > 0 && Amounts::of(meta).are_times()).then_some(meta.host.cpus),
        fidelity: total.fidelity(),
        problems: problems
            .into_iter()
            .map(|problem| problem.0)
            .chain((other_marks > 0).then(|| format!("{other_marks} shorter marks are left out")))
            .collect(),
        filter: options.filter.clone(),
        meta: meta.clone(),
    };
    find_peaks(&mut answer);
    Ok(answer)
}

/// Whether what a session has in a second beyond a second began before it. Not so in samples of other tools: several tasks may be one
/// session, and a second without a sample is not one without recording.
pub(crate) fn is_long(meta: &Meta) -> bool {
    meta.files.is_empty() || meta.collector.tier != "sampled"
}

fn reach(meta: &Meta) -> Reach {
    if is_long(meta) {
        return Reach::Back;
    }
    let times = ToldTimes::of(&meta.periods);
    match times.is_empty() {
        true => Reach::Second,
        false => Reach::Told(times),
    }
}

/// What a group is called.
struct Name {
    label: String,
    text: Option<String>,
}

/// The values that are shown, in order, and for each name the index of its value.
fn chosen(
    names: &[Name],
    sums: &FastMap<(usize, u32), u128>,
    options: &TimelineOptions,
) -> (Vec<TimelineValue>, Vec<usize>) {
    // Different groups may read the same, for example sessions of one pid.
    let mut by_label: BTreeMap<&str, (u128, Option<&String>)> = BTreeMap::new();
    for ((_, name), ns) in sums {
        let name = &names[*name as usize];
        let of_label = by_label.entry(&name.label).or_default();
        of_label.0 += ns;
        of_label.1 = of_label.1.or(name.text.as_ref());
    }
    let mut by_time: Vec<(&str, (u128, Option<&String>))> = by_label.into_iter().collect();
    by_time.sort_by_key(|(label, (ns, _))| (Reverse(*ns), *label));
    let others = by_time.split_off(options.top.max(1).min(by_time.len()));
    by_time.sort_by_key(|(label, _)| layer(options.by, label));
    let mut values: Vec<TimelineValue> = by_time
        .into_iter()
        .map(|(label, (ns, text))| TimelineValue {
            label: label.to_string(),
            text: text.cloned(),
            is_other: false,
            count: 1,
            ns,
            peak: None,
        })
        .collect();
    if !others.is_empty() {
        values.push(TimelineValue {
            label: "other".to_string(),
            text: None,
            is_other: true,
            count: others.len(),
            ns: others.iter().map(|(_, (ns, _))| ns).sum(),
            peak: None,
        });
    }
    let last = values.len().saturating_sub(1);
    let place = |name: &Name| {
        let is_it = |value: &TimelineValue| !value.is_other && value.label == name.label;
        values.iter().position(is_it).unwrap_or(last)
    };
    let places = names.iter().map(place).collect();
    (values, places)
}

/// What is drawn lower: time in no wait event, and time waiting for a CPU, so that both can be compared with the line of the CPUs; states
/// in the order of the ledger's columns.
fn layer(by: Dimension, label: &str) -> usize {
    match by {
        Dimension::Wait | Dimension::WaitClass => match label {
            Wait::NONE => 0,
            no_cpu if no_cpu.ends_with(Wait::NO_CPU) => 1,
            _ => 2,
        },
        Dimension::State => State::ALL
            .into_iter()
            .position(|state| state.as_str() == label)
            .unwrap_or(State::ALL.len()),
        _ => 0,
    }
}

/// The maximum of each value, and of all, in buckets of which at least a tenth was recorded. In shorter ones, a tick of the kernel's
/// accounting would be a peak.
fn find_peaks(timeline: &mut Timeline) {
    let least_ns = u128::from(timeline.width_s.unsigned_abs()) * 100_000_000;
    let is_long = |bucket: &&TimelineBucket| bucket.recorded_ns >= least_ns;
    let has_long = timeline.buckets.iter().any(|bucket| is_long(&bucket));
    let counts = |bucket: &&TimelineBucket| bucket.recorded_ns > 0 && (is_long(bucket) || !has_long);
    let highest = |of: &dyn Fn(&TimelineBucket) -> u128| {
        let buckets = timeline.buckets.iter().enumerate();
        buckets
            .filter(|(_, bucket)| counts(bucket))
            .filter_map(|(number, bucket)| Some((timeline.rate(of(bucket), bucket.recorded_ns)?, number)))
            .fold(None, |highest: Option<(f64, usize)>, one| match highest {
                Some(highest) if highest.0 >= one.0 => Some(highest),
                _ => Some(one),
            })
    };
    let peaks: Vec<Option<(f64, usize)>> = (0..timeline.values.len())
        .map(|value| highest(&|bucket| bucket.ns[value]))
        .collect();
    let peak = highest(&TimelineBucket::total_ns).map_or(0.0, |(rate, _)| rate);
    for (value, peak) in timeline.values.iter_mut().zip(peaks) {
        value.peak = peak;
    }
    timeline.peak = peak;
}
