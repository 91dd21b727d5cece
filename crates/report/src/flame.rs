//! Folded stacks: time by a few dimensions at the bottom, then user frames, then kernel frames.
//!
//! On-CPU and off-CPU time are in one picture, and its width is DB time to the nanosecond.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arcstr::ArcStr;
use dbtime_model::recording::{Meta, Problem};
use dbtime_model::{StackId, State};

use crate::causes::{Blocked, ByCause, CauseFrames, is_blocked};
use crate::filter::Filter;
use crate::function::{NO_STACK_TAKEN, NO_USER_STACK};
use crate::group::{Dimension, GroupKey, not_recorded};
use crate::ledger::Section;
use crate::load::Source;
use crate::numbered::Numbered;
use crate::report::{ReportError, load};
use crate::scan::{Period, scan};
use crate::stacks::{frames, kernel_frames};
use crate::sums::{FidelityMix, Sums};
use crate::trace::alike_by;

/// What a flame graph shows.
#[derive(Debug, Clone, PartialEq)]
pub struct FlameOptions {
    /// Which rows count.
    pub filter: Filter,
    /// Levels below the frames, the lowest first.
    pub by: Vec<Dimension>,
    /// Idle waits of foreground sessions too: the width is then not DB time.
    pub include_idle: bool,
    /// Background processes too (idle or not): the width is then not DB time.
    pub include_background: bool,
    /// Shows statements of an SQL trace that differ only in literals one by one.
    pub each_literal: bool,
    /// Continues blocked DB time, above its own stacks, with who was waited for. The width does not change.
    pub causes: bool,
}

impl Default for FlameOptions {
    fn default() -> FlameOptions {
        FlameOptions {
            filter: Filter::default(),
            by: vec![Dimension::Wait, Dimension::State],
            include_idle: false,
            include_background: false,
            each_literal: false,
            causes: false,
        }
    }
}

/// Time per stack.
#[derive(Debug, Clone, PartialEq)]
pub struct Folded {
    /// What the recording says about itself.
    pub meta: Meta,
    /// The time it covers.
    pub period: Period,
    /// Levels below the frames, the lowest first.
    pub by: Vec<Dimension>,
    /// Contains idle waits of foreground sessions.
    pub includes_idle: bool,
    /// Contains background processes.
    pub includes_background: bool,
    /// Frames that all stacks of the server share are left out: [`Folded::without_start_of_server`].
    pub is_without_start: bool,
    /// Sorted by name; none is without time.
    pub stacks: Vec<FoldedStack>,
    /// Sum of all stacks in nanoseconds.
    pub total_ns: u128,
    /// Of that, time of sessions too short to be sampled individually: split by the samples of others of their kind.
    pub pooled_ns: u128,
    /// How the times were measured.
    pub fidelity: Option<FidelityMix>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

impl Folded {
    /// Levels about which the recording says nothing.
    pub fn not_recorded(&self) -> Vec<Dimension> {
        not_recorded(&self.by, self.stacks.iter().map(|stack| &*stack.levels))
    }
}

/// Time of one stack. Names are as they were recorded: an exporter adapts them to its format.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoldedStack {
    /// Values of [`Folded::by`].
    pub levels: Arc<[String]>,
    /// User frames, root first.
    pub user: Vec<ArcStr>,
    /// Kernel frames, root first.
    pub kernel: Vec<ArcStr>,
    /// Frames above these: who was waited for, and its stacks, each with whether it is the kernel's. With [`FlameOptions::causes`].
    pub waited_for: Vec<(bool, ArcStr)>,
    /// Second of the recording, microseconds since the Unix epoch, when stacks are grouped by it.
    pub second_us: Option<i64>,
    /// Nanoseconds.
    pub ns: u128,
    /// Samples.
    pub samples: u128,
}

impl FoldedStack {
    /// All frames, root first, each with whether it is the kernel's.
    pub(crate) fn frames(&self) -> impl Iterator<Item = (bool, &str)> {
        let user = self.user.iter().map(|name| (false, name.as_ref()));
        let kernel = self.kernel.iter().map(|name| (true, name.as_ref()));
        let waited_for = self
            .waited_for
            .iter()
            .map(|(is_kernel, name)| (*is_kernel, name.as_ref()));
        user.chain(kernel).chain(waited_for)
    }
}

/// Levels, user frames, kernel frames, and the frames of who was waited for.
type Name = (Arc<[String]>, Vec<ArcStr>, Vec<ArcStr>, Vec<(bool, ArcStr)>);

/// Time with the same key is drawn in one place: number of the levels, user stack, kernel stack, state, and number of the blocked time
/// that is followed to its causes.
type Place = (u32, StackId, StackId, State, Option<u32>);

/// Folds the stacks of a recording.
///
/// # Errors
/// The filter names a session or a period that is not there, or causes are asked for both as frames and as levels.
pub fn flame(source: &Source, options: &FlameOptions) -> Result<Folded, ReportError> {
    if options.causes && options.by.iter().any(|dimension| dimension.is_of_causes()) {
        return Err(ReportError::CausesTwice);
    }
    let mut dimensions = load(source, &options.filter)?;
    let by_cause = ByCause::of(source, &mut dimensions, &options.by);
    // There may be millions of them: keep only what is needed, time and samples.
    let mut groups: HashMap<Place, (u128, u128)> = HashMap::new();
    let mut keys: Numbered<GroupKey> = Numbered::default();
    let mut blocked: Numbered<Blocked> = Numbered::default();
    let mut total = Sums::default();
    let scan = scan(source, &mut dimensions, &options.filter, |activity| {
        let wanted = match activity.section {
            Section::DbTime => true,
            Section::Idle => options.include_idle,
            Section::Background => options.include_background,
        };
        if wanted {
            total.take(activity);
            let is_followed = options.causes && is_blocked(activity);
            let followed = is_followed.then(|| blocked.number(Blocked::of_activity(activity.row)));
            by_cause.each(activity, |activity| {
                let row = activity.row;
                let place = (
                    keys.number(GroupKey::of(&options.by, activity)),
                    row.user_stack,
                    row.kernel_stack,
                    row.state,
                    followed,
                );
                let (ns, samples) = groups.entry(place).or_default();
                *ns += u128::from(row.ns);
                *samples += u128::from(row.samples);
            });
        }
    });
    scan.check(&options.filter)?;
    let (alike, counter_problems) = alike_by(
        source,
        &mut dimensions,
        &options.filter,
        &options.by,
        options.each_literal,
    );
    let blocked = blocked.into_values();
    let (causes, cause_problems) = match options.causes {
        true => CauseFrames::read(source),
        false => Default::default(),
    };
    // Different stacks may read the same, for example those of two builds of one program.
    let mut by_name: BTreeMap<Name, (Option<i64>, u128, u128)> = BTreeMap::new();
    let levels: Vec<(Arc<[String]>, Option<i64>)> = keys
        .into_values()
        .into_iter()
        .map(|key| {
            let key = key.grouped(&alike);
            (key.labels(&alike, &mut dimensions).into(), key.second())
        })
        .collect();
    for ((key, user, kernel, state, followed), (ns, samples)) in groups {
        if ns > 0 {
            let kernel = kernel_frames(kernel, state, &dimensions);
            let mut user = frames(user, &dimensions);
            if user.is_empty() {
                // A gap in the picture would look like a function without children.
                user.push(
                    if kernel.is_empty() {
                        NO_STACK_TAKEN
                    } else {
                        NO_USER_STACK
                    }
                    .into(),
                );
            }
            let (levels, second) = &levels[key as usize];
            let mut add = |name: Name, ns, samples| {
                let sum = by_name.entry(name).or_default();
                sum.0 = *second;
                sum.1 += ns;
                sum.2 += samples;
            };
            match followed.map(|number| &blocked[number as usize]) {
                Some(blocked) => {
                    causes.divide(
                        blocked,
                        (ns, samples),
                        &mut dimensions,
                        |waited_for, ns, samples| {
                            let name = (Arc::clone(levels), user.clone(), kernel.clone(), waited_for);
                            add(name, ns, samples);
                        },
                    );
                }
                None => add((Arc::clone(levels), user, kernel, Vec::new()), ns, samples),
            }
        }
    }
    let mut problems = dimensions.problems;
    problems.extend(scan.problems);
    problems.extend(counter_problems);
    problems.extend(cause_problems);
    Ok(Folded {
        meta: source.meta().clone(),
        period: scan.period,
        by: options.by.clone(),
        includes_idle: options.include_idle,
        includes_background: options.include_background,
        is_without_start: false,
        stacks: by_name
            .into_iter()
            .map(
                |((levels, user, kernel, waited_for), (second_us, ns, samples))| FoldedStack {
                    levels,
                    user,
                    kernel,
                    waited_for,
                    second_us,
                    ns,
                    samples,
                },
            )
            .collect(),
        total_ns: total.total_ns(),
        pooled_ns: total.pooled_ns(),
        fidelity: total.fidelity(),
        problems,
    })
}
