//! Call paths and what was measured at each: a tree, so that a call costs one look-up.
//!
//! Memory depends on how many distinct paths there are; beyond [`MOST_PATHS`] new ones count for their caller.

use dbtime_model::latency::{bounds_of, bucket_of, kind};
use dbtime_model::{ActivityRow, Fidelity, Frame, LatencyRow, SessionId, StackId, State, Wait};
use xxhash_rust::xxh3::xxh3_64;

use crate::Import;
use crate::samples::Table;

/// Most paths kept apart: about 200 MB.
const MOST_PATHS: usize = 1_000_000;

/// States that time at a path may be in.
pub(super) const STATES: [State; 6] = [
    State::Kernel,
    State::Runnable,
    State::Disk,
    State::Sleep,
    State::Stopped,
    State::Unknown,
];

/// A function by its number in [`Paths`].
pub(super) type Function = u32;

/// A path by its number in [`Paths`].
pub(super) type Path = u32;

/// All paths of a file.
#[derive(Debug, Default)]
pub(super) struct Paths {
    names: Vec<Name>,
    numbers: Table<u64, Function>,
    roots: Vec<Root>,
    root_numbers: Table<Root, u32>,
    nodes: Vec<Node>,
    children: Table<(Path, Function), Path>,
    /// Paths at which something was measured since rows were handed on.
    touched: Vec<Path>,
    is_full: bool,
}

#[derive(Debug)]
struct Name {
    symbol: String,
    module: String,
    role: super::role::Role,
}

/// Whose paths, in which wait and which statement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Root {
    session: SessionId,
    wait: Wait,
    /// 0 = none, or not known.
    statement: u64,
}

/// What a node is below.
#[derive(Debug, Clone, Copy)]
enum Parent {
    Root(u32),
    Node(Path),
}

#[derive(Debug)]
struct Node {
    parent: Parent,
    function: Function,
    stack: Option<StackId>,
    sums: Sums,
}

/// What was measured at a path since rows were handed on.
#[derive(Debug, Default)]
struct Sums {
    calls: u64,
    /// By [`STATES`]: time of its own, and how many stays.
    own: [(u64, u64); STATES.len()],
    /// Timer samples.
    samples: u64,
    /// By bucket, in order.
    durations: Vec<(u16, Bucket)>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    count: u64,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

impl Paths {
    /// The number of a function: its name as it stands in the file, `NAME` or `NAME [MODULE]`.
    pub(super) fn function(&mut self, name: &[u8]) -> Function {
        let hash = xxh3_64(name);
        if let Some(number) = self.numbers.get(&hash) {
            return *number;
        }
        let (symbol, module) = match memchr::memmem::find(name, b" [") {
            Some(at) => (&name[..at], name[at + 2..].strip_suffix(b"]").unwrap_or(b"")),
            None => (name, &b"kernel"[..]),
        };
        self.names.push(Name {
            symbol: String::from_utf8_lossy(symbol).into_owned(),
            module: String::from_utf8_lossy(module).into_owned(),
            role: super::role::Role::of(symbol),
        });
        let number = (self.names.len() - 1) as Function;
        self.numbers.insert(hash, number);
        number
    }

    /// What a function is, to a reader of traces.
    pub(super) fn role(&self, function: Function) -> super::role::Role {
        self.names[function as usize].role
    }

    /// Name of a function.
    pub(super) fn symbol(&self, function: Function) -> &str {
        &self.names[function as usize].symbol
    }

    /// A root below which paths are this session's, in this wait and this statement.
    pub(super) fn root(&mut self, session: SessionId, wait: Wait, statement: u64) -> u32 {
        let root = Root {
            session,
            wait,
            statement,
        };
        if let Some(number) = self.root_numbers.get(&root) {
            return *number;
        }
        let number = self.roots.len() as u32;
        self.roots.push(root.clone());
        self.root_numbers.insert(root, number);
        number
    }

    /// The path of a function whose caller is not traced.
    pub(super) fn first(&mut self, root: u32, function: Function) -> Path {
        // Numbers of nodes are smaller: they never get this far.
        self.find(u32::MAX - root, Parent::Root(root), function)
    }

    /// The path of a function called at another path.
    pub(super) fn below(&mut self, path: Path, function: Function) -> Path {
        self.find(path, Parent::Node(path), function)
    }

    fn find(&mut self, key: u32, parent: Parent, function: Function) -> Path {
        if let Some(path) = self.children.get(&(key, function)) {
            return *path;
        }
        if self.nodes.len() >= MOST_PATHS {
            self.is_full = true;
            if let Parent::Node(path) = parent {
                return path;
            }
        }
        self.nodes.push(Node {
            parent,
            function,
            stack: None,
            sums: Sums::default(),
        });
        let path = (self.nodes.len() - 1) as Path;
        self.children.insert((key, function), path);
        path
    }

    /// True if there were more paths than are kept apart.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// A call at this path: how long it was, and how much of that was its own on a CPU.
    pub(super) fn add_call(&mut self, path: Path, ns: u64, own_ns: u64, state: State) {
        let sums = self.touch(path);
        sums.calls += 1;
        let own = &mut sums.own[place_of(state)];
        own.0 = own.0.saturating_add(own_ns);
        own.1 += 1;
        let bucket = bucket_of(ns);
        match sums
            .durations
            .binary_search_by_key(&bucket, |(bucket, _)| *bucket)
        {
            Ok(at) => {
                let known = &mut sums.durations[at].1;
                known.count += 1;
                known.sum_ns = known.sum_ns.saturating_add(ns);
                known.min_ns = known.min_ns.min(ns);
                known.max_ns = known.max_ns.max(ns);
            }
            Err(at) => {
                let first = Bucket {
                    count: 1,
                    sum_ns: ns,
                    min_ns: ns,
                    max_ns: ns,
                };
                sums.durations.insert(at, (bucket, first));
            }
        }
    }

    /// A stay in another state at this path.
    pub(super) fn add_stay(&mut self, path: Path, ns: u64, state: State) {
        let own = &mut self.touch(path).own[place_of(state)];
        own.0 = own.0.saturating_add(ns);
        own.1 += 1;
    }

    /// A timer sample at this path: a moment, so that no time is added.
    pub(super) fn add_sample(&mut self, path: Path) {
        self.touch(path).samples += 1;
    }

    fn touch(&mut self, path: Path) -> &mut Sums {
        let sums = &mut self.nodes[path as usize].sums;
        if sums.calls == 0 && sums.samples == 0 && sums.own.iter().all(|(_, count)| *count == 0) {
            self.touched.push(path);
        }
        sums
    }

    /// The stack of a path, known to the import from now on.
    pub(super) fn stack(&mut self, path: Path, into: &mut Import) -> StackId {
        if let Some(stack) = self.nodes[path as usize].stack {
            return stack;
        }
        let mut frames = Vec::new();
        let mut at = Parent::Node(path);
        while let Parent::Node(path) = at {
            let node = &self.nodes[path as usize];
            let name = &self.names[node.function as usize];
            frames.push(Frame {
                symbol: name.symbol.clone(),
                module: format!("[{}]", name.module),
                build_id: String::new(),
                offset: 0,
            });
            at = node.parent;
        }
        frames.reverse();
        let stack = into.stack(frames);
        self.nodes[path as usize].stack = Some(stack);
        stack
    }

    /// The wait in which a path was taken.
    pub(super) fn wait_of(&self, path: Path) -> &Wait {
        &self.root_of(path).wait
    }

    /// The statement in which a path was taken; 0 = none, or not known.
    pub(super) fn statement_of(&self, path: Path) -> u64 {
        self.root_of(path).statement
    }

    fn root_of(&self, path: Path) -> &Root {
        let mut at = Parent::Node(path);
        loop {
            match at {
                Parent::Node(path) => at = self.nodes[path as usize].parent,
                Parent::Root(root) => return &self.roots[root as usize],
            }
        }
    }

    /// Hands on what was measured, as rows of the second that begins at `time` (microseconds).
    pub(super) fn hand_on(&mut self, time: i64, into: &mut Import) {
        for path in std::mem::take(&mut self.touched) {
            let stack = self.stack(path, into);
            let sums = std::mem::take(&mut self.nodes[path as usize].sums);
            let name = self.symbol(self.nodes[path as usize].function).to_string();
            let Root {
                session,
                wait,
                statement,
            } = self.root_of(path);
            let row = |state, ns, count| ActivityRow {
                time,
                session: *session,
                statement: *statement,
                plan: 0,
                wait_class: wait.class.clone(),
                wait_event: wait.event.clone(),
                idle: wait.idle,
                state,
                kernel_stack: stack,
                user_stack: StackId(0),
                comment: 0,
                ns,
                count,
                samples: 0,
                fidelity: Fidelity::Exact,
                pooled: false,
                session_state: dbtime_model::SessionState::None,
            };
            for (state, (ns, count)) in STATES.into_iter().zip(sums.own).filter(|(_, own)| own.1 > 0) {
                into.activity(row(state, ns, count));
            }
            if sums.samples > 0 {
                into.activity(ActivityRow {
                    samples: sums.samples,
                    fidelity: Fidelity::Sampled,
                    ..row(State::Kernel, 0, 0)
                });
            }
            for (bucket, durations) in sums.durations {
                let (from_ns, to_ns) = bounds_of(bucket);
                into.latency(LatencyRow {
                    time,
                    session: *session,
                    statement: *statement,
                    kind: kind::FUNCTION.into(),
                    name: name.as_str().into(),
                    from_ns,
                    to_ns,
                    count: durations.count,
                    sum_ns: durations.sum_ns,
                    max_ns: durations.max_ns,
                    min_ns: durations.min_ns,
                    stack,
                    ..LatencyRow::default()
                });
            }
        }
    }
}

fn place_of(state: State) -> usize {
    // A state that a kernel trace cannot tell counts as unknown.
    STATES
        .iter()
        .position(|known| *known == state)
        .unwrap_or(STATES.len() - 1)
}
