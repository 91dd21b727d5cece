//! Kernel traces, worked out by hand.

use dbtime_model::latency::{bounds_of, bucket_of, kind};
use dbtime_model::recording::{ImportedFile, KernelTrace, Meta, SCHEMA_VERSION};
use dbtime_model::{
    ActivityRow, Fidelity, Frame, LatencyRow, Rows, SessionId, SessionRow, SpanRow, StackId, StackRow, State,
    span, stack_id,
};
use dbtime_report::{
    CallChoice, DiveAnswer, DiveOptions, DiveReport, DiveView, Filter, ReportError, Source, dive, dive_diff,
    json, text,
};

/// A trace under construction.
struct Trace(Rows, KernelTrace);

impl Trace {
    fn new(calls: u64) -> Trace {
        let rows = Rows {
            sessions: vec![SessionRow {
                id: SessionId(1),
                pid: 7,
                title: "postgres".into(),
                backend_type: "process".into(),
                ..SessionRow::default()
            }],
            ..Rows::default()
        };
        let about = KernelTrace {
            tracer: "function_graph".into(),
            calls,
            kept_calls: calls,
            ..KernelTrace::default()
        };
        Trace(rows, about)
    }

    fn stack(&mut self, path: &str) -> StackId {
        let frame = |symbol: &str| Frame {
            symbol: symbol.into(),
            module: "[kernel]".into(),
            build_id: String::new(),
            offset: 0,
        };
        let frames: Vec<Frame> = path.split(';').map(frame).collect();
        let id = stack_id(&frames);
        if !self.0.stacks.iter().any(|row| row.id == id) {
            self.0.stacks.push(StackRow { id, frames });
        }
        id
    }

    /// Calls of the last function of a path: how long each took, and its own time.
    fn calls(mut self, path: &str, each: &[u64], own_ns: u64) -> Trace {
        let stack = self.stack(path);
        for ns in each {
            let (from_ns, to_ns) = bounds_of(bucket_of(*ns));
            self.0.latency.push(LatencyRow {
                session: SessionId(1),
                kind: kind::FUNCTION.into(),
                from_ns,
                to_ns,
                count: 1,
                sum_ns: *ns,
                max_ns: *ns,
                min_ns: *ns,
                stack,
                ..LatencyRow::default()
            });
        }
        self.spent(path, own_ns, State::Kernel)
    }

    fn spent(mut self, path: &str, ns: u64, state: State) -> Trace {
        let kernel_stack = self.stack(path);
        self.0.activity.push(ActivityRow {
            time: 0,
            session: SessionId(1),
            statement: 0,
            plan: 0,
            wait_class: "unknown".into(),
            wait_event: "not recorded".into(),
            idle: false,
            state,
            kernel_stack,
            user_stack: StackId(0),
            comment: 0,
            ns,
            count: 1,
            samples: 0,
            fidelity: Fidelity::Exact,
            pooled: false,
            session_state: dbtime_model::SessionState::None,
        });
        self
    }

    fn span(mut self, call: u64, path: &str, depth: u32, start_ns: i64, ns: u64) -> Trace {
        let stack = self.stack(path);
        self.0.spans.push(SpanRow {
            session: SessionId(1),
            kind: span::kind::FUNCTION.into(),
            name: String::new(),
            stack,
            call,
            depth,
            start_ns,
            ns,
            state: State::Kernel,
            statement: 0,
        });
        self
    }

    fn source(self) -> Source {
        let meta = Meta {
            schema: SCHEMA_VERSION.into(),
            end_us: 1_000_000,
            complete: true,
            files: vec![ImportedFile {
                path: "trace".into(),
                kernel_trace: Some(self.1),
                ..ImportedFile::default()
            }],
            ..Meta::default()
        };
        Source::memory(meta, self.0)
    }
}

fn look(source: &Source, view: DiveView) -> Result<DiveReport, ReportError> {
    let options = DiveOptions {
        filter: Filter::default(),
        view,
        top: 100,
        depth: None,
    };
    dive(source, &options)
}

/// A read of 100 ns in statement 42, and one of 300 ns in 43.
fn reads_of_statements() -> Source {
    let mut trace = Trace::new(2);
    for (call, statement, ns) in [(1, 42, 100), (2, 43, 300)] {
        let [activity, latency, spans] = [trace.0.activity.len(), trace.0.latency.len(), trace.0.spans.len()];
        trace = trace
            .calls("__x64_sys_pread64", &[ns], ns)
            .span(call, "__x64_sys_pread64", 0, 1_000, ns);
        let rows = &mut trace.0;
        rows.activity[activity..]
            .iter_mut()
            .for_each(|row| row.statement = statement);
        rows.latency[latency..]
            .iter_mut()
            .for_each(|row| row.statement = statement);
        rows.spans[spans..]
            .iter_mut()
            .for_each(|row| row.statement = statement);
    }
    trace.source()
}

#[test]
fn of_a_query_there_are_its_own_calls() {
    let source = reads_of_statements();
    let of = |id, view| {
        let options = DiveOptions {
            filter: Filter {
                statements: vec![id],
                ..Filter::default()
            },
            view,
            top: 100,
            depth: None,
        };
        dive(&source, &options)
    };
    for (id, ns) in [(42, 100), (43, 300)] {
        let summary = of(id, DiveView::Summary).expect("a trace");
        assert_eq!(summary.calls.len(), 1);
        assert_eq!(summary.calls[0].durations.histogram.sum_ns(), ns);
        let slowest = of(id, DiveView::Call(CallChoice::Slowest)).expect("a trace");
        let DiveAnswer::Call(call) = &slowest.answer else {
            panic!("one call: {slowest:#?}");
        };
        assert_eq!((call.statement, u128::from(call.ns)), (id, ns));
        let json = json::render_dive(&slowest);
        let text = text::render_dive(&slowest, 200);
        let (in_json, in_text) = (format!("\"query\": \"{id}\""), format!("in query {id}"));
        assert!(json.contains(&in_json), "{json}");
        assert!(
            text.contains(&in_text) && text.contains(&format!("Only query {id}")),
            "{text}"
        );
    }
    let error = of(44, DiveView::Summary).expect_err("it is none");
    assert!(
        error.to_string().contains("44") && error.to_string().contains("43"),
        "{error}"
    );
}

/// Two reads, 100 and 300 ns: vfs_read 80 and 250 of it, which calls itself once (50) and sleeps in schedule (120 of 150).
fn reads() -> Trace {
    Trace::new(2)
        .calls("__x64_sys_pread64", &[100, 300], 70)
        .calls("__x64_sys_pread64;vfs_read", &[80, 250], 130)
        .calls("__x64_sys_pread64;vfs_read;vfs_read", &[50], 50)
        .calls("__x64_sys_pread64;vfs_read;schedule", &[150], 30)
        .spent("__x64_sys_pread64;vfs_read;schedule", 120, State::Disk)
        .calls("[interrupt];__sysvec_apic_timer_interrupt", &[40], 40)
}

#[test]
fn the_parts_of_calls_add_up_and_interrupts_are_none_of_them() {
    let report = look(&reads().source(), DiveView::Summary).expect("a trace");
    assert_eq!(report.calls.len(), 1, "an interrupt is no call");
    let call = &report.calls[0];
    assert_eq!(
        (
            call.durations.histogram.count(),
            call.durations.histogram.sum_ns()
        ),
        (2, 400)
    );
    assert_eq!(
        (call.durations.min_ns, call.durations.histogram.max_ns()),
        (Some(100), 300)
    );
    assert_eq!(call.states, [(State::Kernel, 280), (State::Disk, 120)]);
    assert_eq!(report.interrupts_ns, 40);
    let layers: u128 = report.layers.iter().map(|part| part.ns).sum();
    assert_eq!(layers, 400);
    let of = |layer: &str| {
        report
            .layers
            .iter()
            .find(|part| part.layer == layer)
            .map(|part| part.ns)
    };
    assert_eq!(
        [of("system call"), of("VFS"), of("scheduler"), of("off CPU")],
        [Some(70), Some(180), Some(30), Some(120)]
    );
}

#[test]
fn recursion_counts_once_in_the_total_of_a_function() {
    let report = look(&reads().source(), DiveView::Functions).expect("a trace");
    let DiveAnswer::Functions(functions) = report.answer else {
        panic!("functions")
    };
    let of = functions
        .iter()
        .find(|of| of.function == "vfs_read")
        .expect("it is there");
    assert_eq!((of.total_ns, of.own_ns, of.off_ns), (330, 180, 0));
    assert_eq!(of.durations.histogram.count(), 3, "all calls of it");
    assert!(
        functions.iter().all(|of| of.function != "[interrupt]"),
        "it is no function"
    );
}

#[test]
fn children_and_what_is_left_are_all_of_a_function() {
    let source = reads().source();
    let report = look(&source, DiveView::Children("vfs_read".into())).expect("a trace");
    let DiveAnswer::Children(of) = report.answer else {
        panic!("children")
    };
    let children: Vec<(&str, u128)> = of
        .children
        .iter()
        .map(|child| (child.function.as_str(), child.durations.histogram.sum_ns()))
        .collect();
    assert_eq!(children, [("schedule", 150), ("vfs_read", 50)]);
    let all: u128 = of.own_ns + of.off_ns + children.iter().map(|(_, ns)| ns).sum::<u128>();
    assert_eq!(all, of.durations.histogram.sum_ns());
    assert_eq!(
        look(&source, DiveView::Children("vfs_write".into())).map(|_| ()),
        Err(ReportError::NoSuchFunction("vfs_write".into()))
    );
}

#[test]
fn callers_stand_above_what_they_called() {
    let report = look(&reads().source(), DiveView::Tree).expect("a trace");
    let DiveAnswer::Tree(tree) = report.answer else {
        panic!("a tree")
    };
    let lines: Vec<(usize, &str, u128)> = tree
        .paths
        .iter()
        .map(|path| (path.depth, path.function.as_str(), path.total_ns))
        .collect();
    assert_eq!(
        lines,
        [
            (0, "__x64_sys_pread64", 400),
            (1, "vfs_read", 330),
            (2, "schedule", 150),
            (2, "vfs_read", 50),
            (0, "[interrupt]", 40),
            (1, "__sysvec_apic_timer_interrupt", 40),
        ]
    );
}

#[test]
fn the_slowest_the_median_and_any_call_can_be_seen_whole() {
    let source = Trace::new(3)
        .span(1, "__x64_sys_pread64", 0, 1_000, 300)
        .span(1, "__x64_sys_pread64;vfs_read", 1, 1_010, 250)
        .span(2, "__x64_sys_pread64", 0, 2_000, 100)
        .span(3, "__x64_sys_pread64", 0, 3_000, 200)
        .source();
    let call = |choice| match look(&source, DiveView::Call(choice)).map(|report| report.answer) {
        Ok(DiveAnswer::Call(call)) => Some((call.number, call.ns, call.spans.len())),
        _ => None,
    };
    assert_eq!(call(CallChoice::Slowest), Some((1, 300, 2)));
    assert_eq!(call(CallChoice::Median), Some((3, 200, 1)));
    assert_eq!(call(CallChoice::Number(2)), Some((2, 100, 1)));
    assert_eq!(call(CallChoice::Number(4)), None);
    let Ok(DiveAnswer::Call(slowest)) =
        look(&source, DiveView::Call(CallChoice::Slowest)).map(|report| report.answer)
    else {
        panic!("a call")
    };
    assert_eq!((slowest.spans[1].from_ns, slowest.spans[1].depth), (10, 1));
}

#[test]
fn a_function_that_is_known_of_stacks_only_is_on_both_sides_of_a_trace_and_itself() {
    // Time below a function without any counted call, as in traces of tracepoints.
    let source = || {
        Trace::new(2)
            .calls("__x64_sys_pread64", &[100, 100], 180)
            .calls("__x64_sys_pread64;vfs_read", &[], 20)
            .source()
    };
    let filter = Filter::default();
    let diff = dive_diff((&source(), &filter), (&source(), &filter), 10).expect("two traces");
    assert_eq!(diff.only, [Vec::new(), Vec::new()]);
    assert!(diff.functions.iter().any(|change| change.path == ["vfs_read"]));
}

#[test]
fn functions_of_one_side_only_are_told_and_all_is_per_call() {
    let huge = Trace::new(2)
        .calls("__x64_sys_pread64", &[100, 100], 180)
        .calls("__x64_sys_pread64;folio_mark_dirty", &[10, 10], 20)
        .source();
    let small = Trace::new(1)
        .calls("__x64_sys_pread64", &[160], 90)
        .calls("__x64_sys_pread64;folio_mark_dirty", &[10, 10, 10, 10], 40)
        .calls("__x64_sys_pread64;kmem_cache_alloc", &[30], 30)
        .calls("[interrupt];irq_exit_rcu", &[500], 500)
        .source();
    let filter = Filter::default();
    let diff = dive_diff((&huge, &filter), (&small, &filter), 10).expect("two traces");
    assert_eq!([diff.sides[0].call_ns, diff.sides[1].call_ns], [100.0, 160.0]);
    assert!(diff.only[0].is_empty());
    let only: Vec<&str> = diff.only[1]
        .iter()
        .map(|change| change.path[0].as_str())
        .collect();
    assert_eq!(only, ["kmem_cache_alloc"], "interrupts are not the work of calls");
    let first = &diff.functions[0];
    assert_eq!(
        (first.path[0].as_str(), first.calls, first.own_ns),
        ("folio_mark_dirty", [1.0, 4.0], [10.0, 40.0])
    );
    let own: f64 = diff.paths.iter().map(|change| change.own_more_ns()).sum();
    assert_eq!(own, 60.0, "the paths' differences are the calls'");
}
