//! From lines of functions to calls: each task has a stack of the functions it has entered; when the outermost one returns, the call is
//! complete, and all that was measured in it counts. A call with a part missing does not count.
//!
//! # Time
//! A function's duration is what the tracer says. Its own time is that, less what it called, less its time off CPU. Interrupts and
//! preemption have paths of their own and are subtracted from the durations of all functions around them. Time off CPU lasts from
//! `sched_switch` to `sched_switch` if these events were traced; otherwise it is the gap before `finish_task_switch`, the first function of
//! a task that is back. If the tracer's clock stood still in the meantime (option `sleep-time` off), that time is added to the durations of
//! the functions around it.

use dbtime_model::recording::KernelTrace;
use dbtime_model::{CounterRow, SpanRow, StackId, State, Wait, counter, span};

use super::line::{Place, argument};
use super::paths::{Function, Path, Paths};
use super::role::{INTERRUPT, Role, call_name};
use super::step::{Inside, Interval, LastLeaf, Open, Step};
use super::tasks::{Task, Tasks};
use crate::Import;
use crate::sched_fields::{switch, woken};
use crate::text::decimal;

/// Rows of spans kept of a file, and as many again for calls longer than all before.
const KEPT_SPANS: u64 = 400_000;
/// A call of more steps than this is dropped: bounds the memory of one that never ends.
const MOST_STEPS: usize = 2_000_000;
/// A deeper call is not a call, but a trace with ends missing.
const DEEPEST: usize = 1_000;
/// Tolerance between two clocks: durations have nanoseconds, moments microseconds.
const CLOCKS_NS: u64 = 10_000;

/// Tracer of a file that only has tracepoints.
pub(super) const TRACEPOINTS: &str = "tracepoints";
/// Tracer of a file that has functions.
pub(super) const FUNCTION_GRAPH: &str = "function_graph";

const SECOND_NS: i64 = 1_000_000_000;

/// All calls of a trace.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) paths: Paths,
    pub(super) summary: KernelTrace,
    pub(super) tasks: Tasks,
    second: Option<i64>,
    spans: u64,
    longest_ns: u64,
    deepest: u32,
    saw_switches: bool,
    /// Functions that took less time than what they called.
    pub(super) too_short: u64,
    /// Functions whose end is missing.
    pub(super) without_end: u64,
    has_time: bool,
}

impl Calls {
    /// True if lines have times.
    pub(super) fn has_time(&self) -> bool {
        self.has_time
    }

    /// Events of this CPU (of all, if it is not known) are missing: calls that are open there are cut.
    pub(super) fn lost(&mut self, cpu: Option<u32>, events: Option<u64>) {
        self.summary.lost_events = self.summary.lost_events.saturating_add(events.unwrap_or(0));
        for task in self.tasks.iter_mut() {
            if !task.open.is_empty() && (cpu.is_none() || task.cpu.is_none() || task.cpu == cpu) {
                task.is_cut = true;
            }
        }
    }

    /// Switches are traced: a task that is not seen leaving its CPU stays on it.
    pub(super) fn switches_are_traced(&mut self) {
        self.summary.has_switches = true;
        self.saw_switches = true;
    }

    /// A tracepoint among functions; only switches and wakeups count here. False if it is one of those and cannot be read.
    pub(super) fn event(&mut self, place: &Place<'_>, name: &[u8], arguments: &[u8]) -> bool {
        let Some(at) = place.at_ns else { return true };
        match name {
            b"sched_switch" => {
                let Some(switch) = switch(arguments) else {
                    return false;
                };
                self.switches_are_traced();
                if let Some(task) = self.tasks.with_pid(switch.prev.tid) {
                    self.tasks[task].off_since = Some((at, switch.state));
                    self.tasks[task].off_until = None;
                }
                if let Some(task) = self.tasks.with_pid(switch.next.tid) {
                    self.tasks[task].off_until = Some(at);
                }
            }
            b"sched_wakeup" | b"sched_waking" | b"sched_wakeup_new" => {
                let Some(woken) = woken(arguments) else {
                    return false;
                };
                if let Some(task) = self.tasks.with_pid(woken.tid) {
                    self.tasks[task].woken = Some(at);
                }
            }
            _ => {}
        }
        true
    }

    /// A function is entered.
    pub(super) fn enter(&mut self, place: &Place<'_>, name: &[u8], into: &mut Import) -> usize {
        let at = self.tasks.of(place, into);
        let function = self.paths.function(name);
        let role = self.paths.role(function);
        // As deep as the innermost function, not deeper: an interrupt hit that function on its way out, after the tracer had taken its end
        // and before it had printed it.
        self.close_lost(at, place, into);
        self.arrive(at, place, role);
        if self.tasks[at].open.len() >= DEEPEST {
            self.tasks[at].open.clear();
            self.cut(at);
        }
        self.deepest = self.deepest.max(place.indent / 2);
        let root = match self.tasks[at].open.last() {
            None => Some(self.root_of_call(at, place.at_ns)),
            Some(open) if open.role == Role::Dispatcher => Some(self.root_of_call(at, place.at_ns)),
            Some(_) => None,
        };
        let task = &mut self.tasks[at];
        let is_inside = task.is_inside_of(role);
        let path = match (role.foreign(), root, task.open.last()) {
            (Some(name), root, _) if !is_inside => {
                let root = root.unwrap_or_else(|| self.root_of_call(at, place.at_ns));
                let foreign = self.paths.function(name);
                let foreign = self.paths.first(root, foreign);
                self.paths.below(foreign, function)
            }
            (_, Some(root), _) => self.paths.first(root, function),
            (_, None, Some(open)) => self.paths.below(open.path, function),
            // If no function is open, there is a root.
            (_, None, None) => return at,
        };
        let task = &mut self.tasks[at];
        let step = (role != Role::Dispatcher).then(|| {
            let depth = task.depth();
            task.steps.push(Step {
                path,
                depth,
                start_ns: place.at_ns.unwrap_or(0),
                ns: 0,
                own_ns: 0,
                foreign_ns: 0,
                off: None,
            });
            task.steps.len() - 1
        });
        let around = task.open.last_mut();
        let around = around.filter(|around| around.indent + 2 == place.indent);
        let before_it = around
            .map(|around| std::mem::take(&mut around.before))
            .unwrap_or_default();
        task.open.push(Open {
            path,
            role,
            function,
            indent: place.indent,
            start_ns: place.at_ns,
            step,
            inside: Inside::default(),
            off_ns: 0,
            after: Inside::default(),
            before: Inside::default(),
            before_it,
            last_off: None,
        });
        task.last_leaf = None;
        task.seen(place, 0);
        at
    }

    /// A function that called nothing.
    pub(super) fn leaf(&mut self, place: &Place<'_>, name: &[u8], ns: Option<u64>, into: &mut Import) {
        let at = self.enter(place, name, into);
        let task = &mut self.tasks[at];
        let Some(open) = task.open.last() else { return };
        let leaf = open.step.map(|step| LastLeaf {
            function: open.function,
            indent: open.indent,
            step,
            ns: ns.unwrap_or(0),
        });
        let is_root = task.open.len() == 1;
        // A leaf has a single line, so its lines span no time.
        self.leave(at, ns.unwrap_or(0), Some(0), into);
        let task = &mut self.tasks[at];
        task.last_leaf = leaf.filter(|_| !is_root);
        task.seen(place, ns.unwrap_or(0));
    }

    /// A function returns.
    pub(super) fn close(&mut self, place: &Place<'_>, name: &[u8], ns: Option<u64>, into: &mut Import) {
        let at = self.tasks.of(place, into);
        self.close_lost(at, place, into);
        // If nothing after a switch is traced, the next line is the return of the function that left the CPU.
        self.arrive(at, place, Role::Plain);
        let task = &mut self.tasks[at];
        let function = (!name.is_empty()).then(|| self.paths.function(name));
        let is_open = task.open.last().is_some_and(|open| open.indent == place.indent);
        if is_open {
            let open = &task.open[task.open.len() - 1];
            if function.is_some_and(|function| function != open.function) {
                task.is_cut = true;
            }
            let took = open.lasted(place.at_ns);
            let Some(ns) = ns.or(took) else {
                task.is_cut = true;
                self.leave(at, 0, None, into);
                return;
            };
            task.seen(place, 0);
            self.leave(at, ns, took, into);
            return;
        }
        task.seen(place, 0);
        // What was printed as a leaf had only returned on another CPU.
        let leaf = task.last_leaf.take().filter(|leaf| {
            leaf.indent == place.indent && function.is_none_or(|function| function == leaf.function)
        });
        match (leaf, ns) {
            (Some(leaf), Some(ns)) => {
                let step = &mut task.steps[leaf.step];
                let more = ns.saturating_sub(leaf.ns);
                step.ns += more;
                step.own_ns += more;
                if let Some(open) = task.open.last_mut() {
                    open.inside.ns += more;
                }
            }
            // An end whose start is missing.
            _ if task.open.is_empty() && place.indent <= 2 => self.summary.cut_calls += 1,
            _ => {}
        }
    }

    /// The outermost function of a task returns, at this moment.
    pub(super) fn end(&mut self, at: usize, at_ns: i64, into: &mut Import) {
        let open = self.tasks[at].open.last();
        let ns = open.and_then(|open| open.lasted(Some(at_ns)));
        self.leave(at, ns.unwrap_or(0), None, into);
    }

    /// Functions deeper than this line have returned, although no line says so: now and then, the kernel loses the end of one if its task
    /// changed CPUs in the meantime. They lasted until now at most.
    fn close_lost(&mut self, at: usize, place: &Place<'_>, into: &mut Import) {
        while let Some(open) = self.tasks[at]
            .open
            .last()
            .filter(|open| open.indent > place.indent)
        {
            let took = open.lasted(place.at_ns);
            self.without_end += 1;
            self.tasks[at].is_cut |= took.is_none();
            self.leave(at, took.unwrap_or(0), None, into);
        }
    }

    /// The task is seen: if it was gone, it was off its CPU.
    fn arrive(&mut self, at: usize, place: &Place<'_>, role: Role) {
        let task = &mut self.tasks[at];
        let left = std::mem::take(&mut task.left);
        let (Some(now), Some(last)) = (place.at_ns, task.last_ns) else {
            return;
        };
        let Some(open) = task.open.last_mut() else {
            task.off_since = None;
            return;
        };
        let is_back = role == Role::BackOnCpu;
        let (from, to, state) = match task.off_since.take() {
            Some((since, state)) => {
                let until = task
                    .off_until
                    .take()
                    .filter(|until| (since..=now).contains(until));
                (since, until.unwrap_or(now), Some(state))
            }
            None if open.role.may_leave_cpu() && (is_back || left) => (last, now, None),
            None => return,
        };
        self.saw_switches |= is_back;
        let state = state.unwrap_or_else(|| task.state_by_callers());
        self.stay_off(at, (from, to), state, None);
    }

    /// The task was off its CPU; from its wakeup on, it was in the run queue.
    fn stay_off(&mut self, at: usize, (from, to): (i64, i64), state: State, path: Option<Path>) {
        let task = &mut self.tasks[at];
        let woken = task.woken.take().filter(|woken| (from..=to).contains(woken));
        let parts = match (state, woken) {
            (State::Runnable, _) | (_, None) => [(from, to, state), (to, to, state)],
            (_, Some(woken)) => [(from, woken, state), (woken, to, State::Runnable)],
        };
        for (from, to, state) in parts.into_iter().filter(|(from, to, _)| to > from) {
            self.add_step(at, (from, to), path, Some(state));
        }
    }

    /// Time inside the innermost function, at its path or another one, on or off CPU.
    fn add_step(&mut self, at: usize, (from, to): (i64, i64), path: Option<Path>, off: Option<State>) {
        let task = &mut self.tasks[at];
        let ns = to.saturating_sub(from).max(0) as u64;
        let depth = task.depth();
        let Some(open) = task.open.last_mut() else { return };
        match off {
            Some(_) => {
                open.off_ns = open.off_ns.saturating_add(ns);
                open.last_off = Some(task.steps.len());
            }
            None => open.inside.ns = open.inside.ns.saturating_add(ns),
        }
        task.steps.push(Step {
            path: path.unwrap_or(open.path),
            depth,
            start_ns: from,
            ns,
            own_ns: if off.is_none() { ns } else { 0 },
            foreign_ns: 0,
            off,
        });
    }

    /// What `intervals.rs` found between two tracepoints of the call that the task is in: at these functions, root first.
    pub(super) fn interval(&mut self, at: usize, found: &Interval<'_>) {
        let Some(open) = self.tasks[at].open.last() else {
            return;
        };
        let mut path = open.path;
        if found.in_interrupt {
            let root = self.root_of_call(at, None);
            let interrupt = self.paths.function(INTERRUPT);
            path = self.paths.first(root, interrupt);
        }
        for name in found.functions {
            let function = self.paths.function(name);
            path = self.paths.below(path, function);
        }
        match found.off {
            Some(state) => self.stay_off(at, (found.from_ns, found.to_ns), state, Some(path)),
            None => {
                let label = self.paths.function(found.label);
                let path = self.paths.below(path, label);
                self.add_step(at, (found.from_ns, found.to_ns), Some(path), None);
                self.take_samples(at, found, label);
            }
        }
        if found.in_interrupt
            && let Some(open) = self.tasks[at].open.last_mut()
        {
            open.inside.foreign_ns += found.to_ns.saturating_sub(found.from_ns).max(0) as u64;
        }
    }

    /// `pid=TID at=SECONDS stack=ROOT;…;LEAF`: a timer sample.
    pub(super) fn note_sample(&mut self, sample: &[u8]) -> Option<()> {
        self.tasks.samples.note(sample, &mut self.paths)
    }

    /// `period_ns=NANOSECONDS missing=COUNT`: that there was a timer, and how many of its samples are missing.
    pub(super) fn note_sampling(&mut self, sampling: &[u8]) -> Option<()> {
        let period_ns = decimal(argument(sampling, b"period_ns")?).filter(|ns| *ns > 0)?;
        let missing = decimal(argument(sampling, b"missing")?)?;
        self.summary.sample_period_ns = period_ns;
        self.summary.samples_missing = self.summary.samples_missing.saturating_add(missing);
        Some(())
    }

    /// Timer samples that fell between two tracepoints of the call that the task is in. Earlier ones are in no call.
    fn take_samples(&mut self, at: usize, found: &Interval<'_>, label: Function) {
        let Some((call, start_ns)) = self.tasks[at].open.last().map(|open| (open.path, open.start_ns)) else {
            return;
        };
        while self.tasks[at].next_sample(found.from_ns).is_some() {}
        while let Some(sample) = self.tasks[at].next_sample(found.to_ns) {
            let mut path = match sample.stack.apart {
                Some(apart) => {
                    let root = self.root_of_call(at, start_ns);
                    self.paths.first(root, apart)
                }
                None => call,
            };
            for function in &sample.stack.functions {
                path = self.paths.below(path, *function);
            }
            let path = self.paths.below(path, label);
            self.tasks[at].sampled.push((sample.at_ns, path));
        }
    }

    /// The innermost function returns after `ns`; `shown_ns` is how long it took by the times of its lines.
    fn leave(&mut self, at: usize, ns: u64, shown_ns: Option<u64>, into: &mut Import) {
        let task = &mut self.tasks[at];
        let Some(mut open) = task.open.pop() else { return };
        if open.after.ns > 0 {
            // Its duration tells whether the interrupt came before or after its end.
            let is_inside = ns + CLOCKS_NS >= open.inside.ns + open.off_ns + open.after.ns;
            match (is_inside, task.open.last_mut()) {
                (false, Some(around)) => around.inside.add(open.after),
                _ => open.inside.add(open.after),
            }
        }
        if open.before_it.ns > 0 && shown_ns.is_some_and(|shown| ns + CLOCKS_NS >= shown + open.before_it.ns)
        {
            // It took longer than its lines say, by an interrupt that was attributed to its caller.
            open.inside.add(open.before_it);
            if let Some(around) = task.open.last_mut() {
                around.inside.subtract(open.before_it);
            }
        }
        let inside_ns = open.inside.ns.saturating_add(open.off_ns);
        let excess = inside_ns.saturating_sub(ns);
        let mut ns = ns;
        if excess > 0 {
            let stood_still = open.off_ns > 0 && excess > open.off_ns / 2 || task.off_inside(&open);
            match open.last_off.filter(|_| excess <= CLOCKS_NS) {
                Some(off) => task.steps[off].ns = task.steps[off].ns.saturating_sub(excess),
                None => {
                    // The clock stood still while it slept; otherwise children cannot take longer than their parent.
                    self.too_short += u64::from(excess > CLOCKS_NS && !stood_still);
                    ns = inside_ns;
                }
            }
        }
        let own_ns = ns.saturating_sub(inside_ns);
        let is_foreign = open.role.foreign().is_some() && !task.is_inside_of(open.role);
        if let Some(around) = task.open.last_mut() {
            let taken = Inside {
                ns,
                foreign_ns: if is_foreign { ns } else { open.inside.foreign_ns },
            };
            // Two blanks for each function around it: what is not deeper came after the end of that function.
            if open.indent <= around.indent {
                around.after.add(taken);
            } else {
                around.inside.add(taken);
                if open.indent > around.indent + 2 {
                    around.before.add(taken);
                }
            }
        }
        match open.step {
            Some(step) => {
                let step = &mut task.steps[step];
                step.ns = ns;
                step.own_ns = own_ns;
                step.foreign_ns = open.inside.foreign_ns;
            }
            None if !task.is_cut => self.paths.add_call(open.path, ns, own_ns, State::Kernel),
            None => {}
        }
        let ends = task.open.iter().all(|open| open.role == Role::Dispatcher);
        if ends && open.step.is_some() {
            self.end_call(at, &open, ns, into);
        } else if self.tasks[at].steps.len() > MOST_STEPS {
            self.cut(at);
        }
    }

    fn end_call(&mut self, at: usize, root: &Open, ns: u64, into: &mut Import) {
        let task = &mut self.tasks[at];
        task.last_leaf = None;
        if std::mem::take(&mut task.is_cut) {
            task.forget_call();
            self.summary.cut_calls += u64::from(is_call(root.role));
            return;
        }
        if !self.is_wanted(root, into) {
            self.tasks[at].forget_call();
            return;
        }
        let end = root
            .start_ns
            .map(|start| start.saturating_add(i64::try_from(ns).unwrap_or(i64::MAX)));
        self.has_time |= end.is_some();
        let second = end.unwrap_or(0).div_euclid(SECOND_NS);
        if self.second.is_some_and(|before| before != second) {
            self.hand_on(into);
        }
        self.second = Some(second);
        // What a function shown as a leaf did inside is unknown if nothing deeper was traced.
        let on_cpu = match self.saw_switches || self.deepest > 4 {
            true => State::Kernel,
            false => State::Unknown,
        };
        for step in &self.tasks[at].steps {
            match step.off {
                Some(state) => self.paths.add_stay(step.path, step.ns, state),
                None => {
                    let duration = step.ns.saturating_sub(step.foreign_ns);
                    self.paths.add_call(step.path, duration, step.own_ns, on_cpu);
                }
            }
        }
        if is_call(root.role) {
            self.summary.calls += 1;
            self.tasks[at].calls += 1;
            self.count_samples(at);
            self.keep(at, ns, into);
        }
        self.tasks[at].forget_call();
    }

    fn count_samples(&mut self, at: usize) {
        let sampled = &self.tasks[at].sampled;
        self.summary.samples += sampled.len() as u64;
        self.summary.sampled_calls += u64::from(!sampled.is_empty());
        for (_, path) in sampled {
            self.paths.add_sample(*path);
        }
    }

    /// True if the options ask for this call.
    fn is_wanted(&self, root: &Open, into: &Import) -> bool {
        let wanted = &into.options().calls;
        let name = || call_name(self.paths.symbol(root.function));
        let is_of_wait = |wanted: &String| self.paths.wait_of(root.path).is_called(wanted);
        wanted.name.as_deref().is_none_or(|wanted| name() == Some(wanted))
            && wanted.wait.as_ref().is_none_or(is_of_wait)
            && wanted.most.is_none_or(|most| self.summary.calls < most)
    }

    /// Keeps the steps of a call, if there is room or it is longer than all before.
    fn keep(&mut self, at: usize, ns: u64, into: &mut Import) {
        let steps = (self.tasks[at].steps.len() + self.tasks[at].sampled.len()) as u64;
        let is_longest = ns > self.longest_ns;
        self.longest_ns = self.longest_ns.max(ns);
        let room = if is_longest { 2 * KEPT_SPANS } else { KEPT_SPANS };
        if self.spans + steps > room {
            return;
        }
        self.spans += steps;
        self.summary.kept_calls += 1;
        let task = &self.tasks[at];
        let number = self.summary.calls;
        let mut span = |kind: &str, path, depth, start_ns, ns, state| {
            let stack: StackId = self.paths.stack(path, into);
            let statement = self.paths.statement_of(path);
            into.span(SpanRow {
                session: task.session,
                kind: kind.to_string(),
                name: String::new(),
                stack,
                call: number,
                depth,
                start_ns,
                ns,
                state,
                statement,
            });
        };
        let mut samples = task.sampled.iter().peekable();
        for (place, step) in task.steps.iter().enumerate() {
            let kind = match step.off {
                Some(_) => span::kind::OFF_CPU,
                None if step.depth > 0 && self.summary.tracer == TRACEPOINTS => span::kind::INTERVAL,
                None => span::kind::FUNCTION,
            };
            let state = step.off.unwrap_or(State::Kernel);
            span(kind, step.path, step.depth, step.start_ns, step.ns, state);
            // After the interval that they fell into.
            let next = task.steps.get(place + 1).map_or(i64::MAX, |next| next.start_ns);
            while let Some((at_ns, path)) = samples.next_if(|(at_ns, _)| *at_ns < next) {
                span(span::kind::SAMPLE, *path, step.depth, *at_ns, 0, State::Kernel);
            }
        }
    }

    /// Drops the call that a task is in: its end is missing, or it is too large.
    pub(super) fn cut(&mut self, at: usize) {
        let task = &mut self.tasks[at];
        task.forget_call();
        task.open.clear();
        task.is_cut = false;
        self.summary.cut_calls += 1;
    }

    fn root_of_call(&mut self, at: usize, start: Option<i64>) -> u32 {
        let task = &self.tasks[at];
        let noted = start.and_then(|start| {
            // Times of lines have microseconds, so the recorder's may be later by up to one.
            let behind = task.noted.partition_point(|call| call.at_ns <= start + 1_000);
            task.noted.get(behind.checked_sub(1)?)
        });
        let (wait, statement) = match noted {
            Some(call) => (call.wait.clone(), call.statement),
            None => (Wait::not_recorded(), 0),
        };
        let session = task.session;
        self.paths.root(session, wait, statement)
    }

    fn hand_on(&mut self, into: &mut Import) {
        let second = match self.has_time {
            true => self.second.unwrap_or(0),
            false => 0,
        };
        let time = second.saturating_mul(1_000_000);
        self.paths.hand_on(time, into);
        for task in self.tasks.iter_mut().filter(|task| task.calls > 0) {
            into.counter(CounterRow {
                time,
                session: task.session,
                source: counter::KERNEL.into(),
                name: counter::TRACED_CALLS.into(),
                value: std::mem::take(&mut task.calls),
                ..CounterRow::default()
            });
        }
    }

    /// The end of the file: calls that are still open are cut.
    pub(super) fn finish(&mut self, into: &mut Import) {
        let is_open = |task: &Task| {
            let mut calls = task.open.iter().filter(|open| open.role != Role::Dispatcher);
            calls.next().is_some_and(|open| is_call(open.role))
        };
        self.summary.cut_calls += self.tasks.iter().filter(|task| is_open(task)).count() as u64;
        let samples = &self.tasks.samples;
        self.summary.samples_elsewhere = samples.noted().saturating_sub(self.summary.samples);
        self.summary.samples_missing = self.summary.samples_missing.saturating_add(samples.left_out());
        self.hand_on(into);
    }
}

/// Interrupts are not calls, nor is the end of a switch that was under way when tracing began.
fn is_call(role: Role) -> bool {
    role.foreign().is_none() && role != Role::BackOnCpu
}
