//! What to ask next: another view that an answer points to, if the recording has what it needs.

use dbtime_model::latency::kind;
use dbtime_model::recording::{Clock, Meta};
use dbtime_model::{CauseRow, HeldLockRow, LatencyRow, LockRow, SessionState, StackRow, State, Table};

use crate::causes::CauseReport;
use crate::commands::CommandReport;
use crate::cost_of_looking::CALLS_TIER;
use crate::diff::Diff;
use crate::filter::{Filter, SECOND_US, whole_second};
use crate::group::query_id;
use crate::io::IoReport;
use crate::latches::LatchReport;
use crate::latency::LatencyReport;
use crate::ledger::Section;
use crate::number::Amounts;
use crate::report::Report;
use crate::snapshot::Snapshot;
use crate::stack_views::StackReport;
use crate::sums::percent;
use crate::timeline::Timeline;
use crate::what_if::WhatIfReport;

/// Maximum number of steps: more would be a manual.
const MOST: usize = 2;
/// Shares of DB time, in percent, from which a view is worth looking at.
const LOCKS: f64 = 10.0;
const READS_AND_WRITES: f64 = 20.0;
const ON_CPU: f64 = 50.0;
const ONE_STATEMENT: f64 = 50.0;
/// A peak is this many times the average.
const PEAK: f64 = 1.5;

/// A command, and why it is worth running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextStep {
    command: &'static str,
    options: String,
    /// What it answers, and how much time that is about.
    pub why: String,
}

impl NextStep {
    fn new(command: &'static str, options: &str, why: String) -> NextStep {
        NextStep {
            command,
            options: options.to_string(),
            why,
        }
    }

    /// The command to type, for recordings of these names.
    pub fn command_line(&self, recordings: &[&str]) -> String {
        let names: Vec<String> = recordings.iter().map(|name| shell_word(name)).collect();
        let names = names.join(" ");
        match self.options.as_str() {
            "" => format!("dbtime {} {names}", self.command),
            options => format!("dbtime {} {options} {names}", self.command),
        }
    }
}

/// Quotes a text as one word for a shell: for commands that users copy.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/+:@%=,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// True when the recording has rows of this table.
fn has<T: Table>(meta: &Meta) -> bool {
    meta.segments.rows.get(T::NAME).is_some_and(|rows| *rows > 0)
}

/// Whether it is the whole of a recording by this program: users who have chosen a part know what to ask.
fn is_whole(meta: &Meta, filter: &Filter) -> bool {
    *filter == Filter::default() && meta.files.is_empty() && Amounts::of(meta).are_times()
}

/// What the ledger points to, the step about the most time first.
pub fn next_steps(report: &Report) -> Vec<NextStep> {
    let meta = &report.meta;
    if let Some(step) = code_of_a_part(report) {
        return vec![step];
    }
    if !is_whole(meta, &report.filter) {
        return Vec::new();
    }
    let db_time = report.db_time_ns();
    let share = |ns: u128| percent(ns, db_time).unwrap_or(0.0);
    let of_classes = |classes: &[&str]| {
        let events = report.database_view.by_event.iter();
        let taken = events.filter(|event| classes.contains(&&*event.wait.class));
        share(taken.map(|event| event.wait_ns).sum())
    };
    let mut steps = Vec::new();
    let locks = of_classes(&["Lock", "LWLock", "BufferPin"]);
    let latches = of_classes(&["LWLock"]);
    let knows_holders = latches >= LOCKS && has::<HeldLockRow>(meta);
    // Of LWLocks alone, `--latches` says more, and points to `--causes` itself.
    let is_of_latches = knows_holders && of_classes(&["Lock", "BufferPin"]) < LOCKS;
    if locks >= LOCKS && has::<CauseRow>(meta) && !is_of_latches {
        let why = format!("who held what others waited for (waits for locks: {locks:.0} % of DB time)");
        steps.push((locks, NextStep::new("report", "--causes", why)));
    }
    if knows_holders {
        let why = format!(
            "who held LWLocks, doing what and where in the code ({latches:.0} % of DB time was spent waiting for them)"
        );
        steps.push((latches, NextStep::new("report", "--latches", why)));
    }
    let io = of_classes(&["IO", "User I/O", "System I/O"]);
    if io >= READS_AND_WRITES && has::<LatencyRow>(meta) {
        // Where reads came from is known only if every call was timed.
        let (options, what) = match meta.collector.tier == CALLS_TIER {
            true => ("--io", "where reads came from, page cache or device"),
            false => ("--latency --kind wait", "how long single waits took"),
        };
        let why = format!("{what} (waits for I/O: {io:.0} % of DB time)");
        steps.push((io, NextStep::new("report", options, why)));
    }
    let sums = report.ledger.sum(Section::DbTime);
    let on_cpu = [State::User, State::Kernel, State::Cpu].map(|state| sums.state_ns(state));
    let on_cpu = share(on_cpu.iter().sum());
    if on_cpu >= ON_CPU && has::<StackRow>(meta) {
        let why = format!("which code used the CPU ({on_cpu:.0} % of DB time)");
        steps.push((on_cpu, NextStep::new("flame", "", why)));
    }
    if let Ok(top) = &report.top_sql
        && let [first, _, ..] = top.statements.as_slice()
        && first.id != 0
        && share(first.sums.total_ns()) >= ONE_STATEMENT
    {
        let part = share(first.sums.total_ns());
        let why = format!("the one statement with {part:.0} % of DB time");
        let options = format!("--query {}", query_id(first.id));
        steps.push((part, NextStep::new("report", &options, why)));
    }
    steps.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    steps.into_iter().take(MOST).map(|(_, step)| step).collect()
}

/// From one session or one statement to its code.
fn code_of_a_part(report: &Report) -> Option<NextStep> {
    let filter = &report.filter;
    let (option, rest) = match (filter.sessions.as_slice(), filter.statements.as_slice()) {
        ([pid], []) => (
            format!("--session {pid}"),
            Filter {
                sessions: Vec::new(),
                ..filter.clone()
            },
        ),
        ([], [id]) => (
            format!("--query {}", query_id(*id)),
            Filter {
                statements: Vec::new(),
                ..filter.clone()
            },
        ),
        _ => return None,
    };
    let why = "the code its time was spent in".to_string();
    let has_code = has::<StackRow>(&report.meta) && report.db_time_ns() > 0;
    (is_whole(&report.meta, &rest) && has_code).then(|| NextStep::new("flame", &option, why))
}

/// From who was waited for to what that one did.
pub fn next_steps_of_causes(report: &CauseReport) -> Vec<NextStep> {
    let of_all_time = Filter {
        from_us: None,
        to_us: None,
        ..report.filter.clone()
    };
    if !is_whole(&report.meta, &of_all_time) {
        return Vec::new();
    }
    let first = report.blockers.first().map(|blocker| {
        let pid = blocker.who.pid;
        let did = blocker.doing.first().map(|meanwhile| meanwhile.did.session_state);
        // It did nothing that a report on it would show.
        if did.is_some_and(SessionState::is_idle_in_transaction) && has::<LockRow>(&report.meta) {
            let why = "which locks were held by the session that others waited for longest".to_string();
            return NextStep::new("report", &format!("--latches --session {pid}"), why);
        }
        let why = "what the session that others waited for longest was doing".to_string();
        NextStep::new("report", &format!("--session {pid}"), why)
    });
    first.into_iter().collect()
}

/// From the sources of reads to the tables and indexes that were read.
pub fn next_steps_of_reads(report: &IoReport) -> Vec<NextStep> {
    if !is_whole(&report.meta, &report.filter) || report.relations.iter().all(Option::is_none) {
        return Vec::new();
    }
    let why = "which tables and indexes were read, and from where".to_string();
    let options = "--latency --kind read --by relation,source";
    vec![NextStep::new("report", options, why)]
}

/// From latencies to the same over time; from commands to what slow ones did.
pub fn next_steps_of_latencies(report: &LatencyReport) -> Vec<NextStep> {
    if !is_whole(&report.meta, &report.filter) {
        return Vec::new();
    }
    let kinds = report.kinds.iter();
    let Some(longest) = kinds.max_by_key(|kind| kind.total.sum_ns()) else {
        return Vec::new();
    };
    if longest.kind == kind::COMMAND && report.meta.collector.tier == CALLS_TIER {
        let why = "what the slowest 1 % of commands did differently".to_string();
        return vec![NextStep::new("report", "--tail", why)];
    }
    let options = format!("--latency --kind {} -o latency.svg", shell_word(&longest.kind));
    let why = "the same over time, as a heat map".to_string();
    vec![NextStep::new("report", &options, why)]
}

/// From slow commands to the statement with most of their time.
pub fn next_steps_of_commands(report: &CommandReport) -> Vec<NextStep> {
    let first = report.statements.first().filter(|first| first.id != 0);
    let (Some(first), true) = (first, is_whole(&report.meta, &report.filter)) else {
        return Vec::new();
    };
    let why = "where the time of the first of these statements went".to_string();
    let options = format!("--query {}", query_id(first.id));
    vec![NextStep::new("report", &options, why)]
}

/// From what changed between two whole recordings to the same as a page.
pub fn next_steps_of_diff(diff: &Diff) -> Vec<NextStep> {
    let all = Filter::default();
    let is_whole = diff.sides.iter().all(|side| is_whole(&side.meta, &all));
    if !is_whole || diff.stacks.is_empty() {
        return Vec::new();
    }
    let why = "the same as a page, with a differential flame graph".to_string();
    vec![NextStep::new("html", "", why)]
}

/// From what changed between two dives to the same as a page.
pub fn next_steps_of_dive_diff() -> Vec<NextStep> {
    let why = "the same as a page: all functions, which can be searched".to_string();
    vec![NextStep::new("html", "", why)]
}

/// From stacks as text to a picture of them.
pub fn next_steps_of_stacks(report: &StackReport) -> Vec<NextStep> {
    if !is_whole(&report.meta, &report.filter) || report.total.total_ns() == 0 {
        return Vec::new();
    }
    let why = "the same as a picture".to_string();
    vec![NextStep::new("flame", "", why)]
}

/// From who held locks inside the server to who was waited for in all waits.
pub fn next_steps_of_latches(report: &LatchReport) -> Vec<NextStep> {
    causes_of_waits(&report.meta, &report.filter)
}

/// From what would be to what was.
pub fn next_steps_of_what_if(report: &WhatIfReport) -> Vec<NextStep> {
    causes_of_waits(&report.meta, &report.filter)
}

fn causes_of_waits(meta: &Meta, filter: &Filter) -> Vec<NextStep> {
    if !is_whole(meta, filter) || !has::<CauseRow>(meta) {
        return Vec::new();
    }
    let why = "who was waited for in all waits".to_string();
    vec![NextStep::new("report", "--causes", why)]
}

/// From the growth of all sessions to the one with the most DB time.
pub fn next_steps_of_snapshot(snapshot: &Snapshot) -> Vec<NextStep> {
    let first = snapshot.sessions.first();
    let first = first.filter(|first| first.view.db_time_ns > 0 && first.session.pid != 0);
    let (Some(first), true) = (first, is_whole(&snapshot.meta, &snapshot.filter)) else {
        return Vec::new();
    };
    let why = "where the time of the busiest session went".to_string();
    let options = format!("--session {}", first.session.pid);
    vec![NextStep::new("report", &options, why)]
}

/// From a timeline to its peak.
pub fn next_steps_of_timeline(timeline: &Timeline) -> Vec<NextStep> {
    if !is_whole(&timeline.meta, &timeline.filter) || timeline.meta.collector.clock != Clock::Utc {
        return Vec::new();
    }
    let active = |ns: u128, recorded: u128| ns as f64 / recorded.max(1) as f64;
    let recorded = timeline.buckets.iter().map(|bucket| bucket.recorded_ns).sum();
    let all = timeline.buckets.iter().map(|bucket| bucket.total_ns()).sum();
    let of = |bucket: &crate::timeline::TimelineBucket| active(bucket.total_ns(), bucket.recorded_ns);
    let peak = timeline
        .buckets
        .iter()
        .filter(|bucket| bucket.recorded_ns > 0)
        .max_by(|one, other| of(one).total_cmp(&of(other)))
        .filter(|bucket| of(bucket) > PEAK * active(all, recorded));
    let step = peak.map(|bucket| {
        // `--from` and `--to` are rounded down to whole seconds, so these are rounded up.
        let round_up = |us: i64| whole_second(us.saturating_add(SECOND_US - 1));
        let since_start = |us: i64| (round_up(us.saturating_sub(timeline.meta.start_us)) / SECOND_US).max(0);
        let options = format!(
            "--from {} --to {}",
            since_start(whole_second(bucket.period.from_us)),
            since_start(round_up(bucket.period.to_us))
        );
        let why = format!("the busiest period only ({:.2} active sessions)", of(bucket));
        NextStep::new("report", &options, why)
    });
    step.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_word_to_a_shell() {
        let step = NextStep::new("report", "--causes", String::new());
        assert_eq!(
            step.command_line(&["a/b-1.dbt"]),
            "dbtime report --causes a/b-1.dbt"
        );
        assert_eq!(
            step.command_line(&["it's; rm"]),
            "dbtime report --causes 'it'\\''s; rm'"
        );
        assert_eq!(
            NextStep::new("html", "", String::new()).command_line(&["", "b"]),
            "dbtime html '' b"
        );
    }
}
