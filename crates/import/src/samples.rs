//! Stack samples on their way to rows: what importers of stacks have in common.
//!
//! Frames, stacks, waits and sessions are known by small numbers while a file is read, so that a sample costs a few
//! look-ups and no memory; samples that agree in everything become one row.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::Path;

use dbtime_model::recording::{Clock, ImportedFile, Unit};
use dbtime_model::{ActivityRow, BackendType, Fidelity, Frame, SessionId, SessionRow, StackId, State, Wait};
use foldhash::fast::FixedState;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::{Import, Measure, Options};

/// Microseconds of a second.
const SECOND_US: i64 = 1_000_000;

/// A stack by its number in [`Samples`]; 0 = none.
pub(crate) type Stack = u32;

/// A frame by its number in [`Samples`].
pub(crate) type FrameNumber = u32;

/// Where a sample belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub session: u32,
    /// Whole seconds of the file's clock; 0 when it has none.
    pub second: i64,
    pub wait: u32,
    pub state: State,
    pub user: Stack,
    pub kernel: Stack,
}

/// What is added there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub ns: u64,
    pub count: u64,
    pub samples: u64,
}

impl Weight {
    /// This many samples, each of which stands for the interval that the caller knows, if any.
    pub(crate) fn samples(samples: u64, options: &Options) -> Weight {
        Weight {
            ns: samples.saturating_mul(options.interval_ns.unwrap_or(0)),
            count: 0,
            samples,
        }
    }

    /// This many of something that the file does not name.
    pub(crate) fn counts(count: u64, options: &Options) -> Weight {
        Weight {
            ns: count.saturating_mul(options.interval_ns.unwrap_or(0)),
            count,
            samples: 0,
        }
    }
}

/// Whose samples these are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    /// 0 = not known.
    pub pid: u32,
    /// Process of a thread that is not its first one; otherwise 0.
    pub leader_pid: u32,
    /// Its name.
    pub title: String,
    pub backend_type: &'static str,
}

impl Process {
    /// A session of an Oracle database, of which only the file is known.
    pub(crate) fn oracle(path: &Path) -> Process {
        let title = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Process {
            pid: 0,
            leader_pid: 0,
            title,
            backend_type: BackendType::CLIENT,
        }
    }

    /// Any process.
    pub(crate) fn named(title: &[u8], pid: u32) -> Process {
        Process {
            pid,
            leader_pid: 0,
            title: String::from_utf8_lossy(title).into_owned(),
            backend_type: BackendType::PROCESS,
        }
    }
}

/// A table whose order never shows, with a hash that is fast on short keys.
pub(crate) type Table<K, V> = HashMap<K, V, FixedState>;

/// Values stored once, known by their number.
#[derive(Debug)]
struct Numbered<T> {
    numbers: Table<T, u32>,
    all: Vec<T>,
}

impl<T: Clone + Eq + Hash> Numbered<T> {
    fn new() -> Numbered<T> {
        Numbered {
            numbers: Table::default(),
            all: Vec::new(),
        }
    }

    fn number(&mut self, value: T) -> u32 {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        // No file that fits on a disk has so many distinct ones.
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(value.clone());
        self.numbers.insert(value, number);
        number
    }
}

/// All samples of a file.
#[derive(Debug)]
pub(crate) struct Samples {
    frames: Vec<Frame>,
    // Keyed by a hash of both texts, as the model identifies stacks by one.
    frame_numbers: Table<u64, FrameNumber>,
    // Frames leaf first; the stack 0 is empty.
    stacks: Table<Box<[FrameNumber]>, Stack>,
    waits: Numbered<Wait>,
    processes: Numbered<Process>,
    cells: Table<Place, Weight>,
}

impl Samples {
    pub(crate) fn new() -> Samples {
        let mut stacks = Table::default();
        stacks.insert(Box::default(), 0);
        Samples {
            frames: Vec::new(),
            frame_numbers: Table::default(),
            stacks,
            waits: Numbered::new(),
            processes: Numbered::new(),
            cells: Table::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The number of a frame; both texts as in the file.
    pub(crate) fn frame(&mut self, symbol: &[u8], module: &[u8]) -> FrameNumber {
        let hash = xxh3_64_with_seed(symbol, xxh3_64(module));
        *self.frame_numbers.entry(hash).or_insert_with(|| {
            self.frames.push(Frame {
                symbol: String::from_utf8_lossy(symbol).into_owned(),
                module: String::from_utf8_lossy(module).into_owned(),
                build_id: String::new(),
                offset: 0,
            });
            // No file that fits on a disk has so many distinct ones.
            u32::try_from(self.frames.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// The number of a stack, leaf first.
    pub(crate) fn stack(&mut self, leaf_first: &[FrameNumber]) -> Stack {
        if let Some(stack) = self.stacks.get(leaf_first) {
            return *stack;
        }
        let stack = u32::try_from(self.stacks.len()).unwrap_or(u32::MAX);
        self.stacks.insert(leaf_first.into(), stack);
        stack
    }

    pub(crate) fn wait(&mut self, wait: Wait) -> u32 {
        self.waits.number(wait)
    }

    pub(crate) fn process(&mut self, process: Process) -> u32 {
        self.processes.number(process)
    }

    pub(crate) fn add(&mut self, place: Place, weight: Weight) {
        let sum = self.cells.entry(place).or_default();
        sum.ns = sum.ns.saturating_add(weight.ns);
        sum.count = sum.count.saturating_add(weight.count);
        sum.samples = sum.samples.saturating_add(weight.samples);
    }

    /// Turns all into rows.
    pub(crate) fn finish(self, measure: Measure, file: ImportedFile, into: &mut Import) {
        into.set_measure(measure);
        let mut ids = vec![StackId(0); self.stacks.len()];
        let mut stacks: Vec<_> = self.stacks.into_iter().collect();
        // In the order of the file: a hash table has none.
        stacks.sort_unstable_by_key(|(_, stack)| *stack);
        for (leaf_first, stack) in stacks {
            let frames = leaf_first
                .iter()
                .rev()
                .map(|frame| self.frames[*frame as usize].clone())
                .collect();
            ids[stack as usize] = into.stack(frames);
        }
        let mut cells: Vec<_> = self.cells.into_iter().collect();
        cells.sort_unstable_by_key(|(place, _)| {
            (
                place.session,
                place.second,
                place.wait,
                place.state,
                place.user,
                place.kernel,
            )
        });
        let fidelity = if measure.sampled {
            Fidelity::Sampled
        } else {
            Fidelity::Exact
        };
        for of_session in cells.chunk_by(|(a, _), (b, _)| a.session == b.session) {
            let process = &self.processes.all[of_session[0].0.session as usize];
            let row = |(place, weight): &(Place, Weight)| {
                let wait = &self.waits.all[place.wait as usize];
                ActivityRow {
                    time: place.second.saturating_mul(SECOND_US),
                    session: SessionId(0),
                    statement: 0,
                    plan: 0,
                    wait_class: wait.class.clone(),
                    wait_event: wait.event.clone(),
                    idle: wait.idle,
                    state: place.state,
                    kernel_stack: ids[place.kernel as usize],
                    user_stack: ids[place.user as usize],
                    comment: 0,
                    ns: weight.ns,
                    count: weight.count,
                    samples: weight.samples,
                    fidelity,
                    pooled: false,
                    session_state: dbtime_model::SessionState::None,
                }
            };
            let first = of_session.iter().map(|(place, _)| place.second).min();
            let session = SessionRow {
                pid: process.pid,
                started: first.unwrap_or(0).saturating_mul(SECOND_US),
                backend_type: process.backend_type.into(),
                leader_pid: process.leader_pid,
                title: process.title.clone(),
                ..SessionRow::default()
            };
            let session = into.session(&identity(process, &file.path), session);
            for row in of_session.iter().map(row) {
                into.activity(ActivityRow { session, ..row });
            }
        }
        into.file(file);
    }
}

/// What makes processes of different files the same.
pub(crate) fn identity(process: &Process, path: &str) -> String {
    // A process without a number belongs to the file.
    let of_file = if process.pid == 0 { path } else { "" };
    format!("{} {} {of_file}", process.pid, process.title)
}

/// Samples, as time if the file or the caller says how far apart they are.
pub(crate) fn sampled(unit_of_file: Unit, clock: Clock, options: &Options) -> Measure {
    Measure {
        sampled: true,
        unit: match options.interval_ns {
            Some(_) => Unit::Time,
            None => unit_of_file,
        },
        clock,
    }
}
