//! What the kernel needs to unwind user stacks: tables of the modules, and where each process has them mapped.
//!
//! Tables are built by a thread of their own: only the first sample waits for them, at the start and for a second at most.

mod modules;
#[cfg(test)]
mod recorded;
mod table;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::bpf::{CodeMapping, KernelTable, MAX_MAPPINGS, TABLES_AT_ONCE, UnwindMaps};
use crate::database::Member;
use crate::symbols::routines::is_interpreter;
use crate::{CollectError, priority, privilege};
use modules::Modules;

/// Code that was unknown when a sample was taken may have been mapped since: the process's map is read again, but not more often
/// than this, and less and less often as long as nothing new is found in it (code compiled at run time).
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long the first sample waits for the first tables: on an idle host they are there by then.
const PATIENCE: Duration = Duration::from_secs(1);

/// What was built, and what found no room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct UnwindStatistics {
    /// Kernel memory of the tables.
    pub(crate) table_bytes: u64,
    /// Time that building them took.
    pub(crate) build_ns: u64,
    /// Modules whose tables found no room, address spaces, and mappings.
    pub(crate) without_room: u64,
}

enum Request {
    /// Read the map of this process; from now on it is the one whose children are recorded.
    Parent(u32),
    /// It is recorded from now on, and has its code where its parent has it.
    Begin(u32),
    /// Read its map.
    Map(u32),
    /// It has ended.
    End(u32),
    /// Report when everything before is done.
    Tell(Sender<()>),
}

/// Whether [`Request::Map`] is answered, for which process, and the number of its address space.
type Mapped = (bool, u32, Option<u32>);

/// Handle of the thread, which ends when this is dropped.
pub(crate) struct Unwinding {
    requests: Sender<Request>,
    maps: Option<Sender<UnwindMaps>>,
    /// Results of requests.
    mapped: Receiver<Mapped>,
    /// 0 = none.
    parent: u32,
    parent_space: u32,
    /// Maps that are being read.
    pending: usize,
    statistics: Arc<Mutex<UnwindStatistics>>,
    /// When a process may be looked at again, and the pause after that.
    looked: HashMap<u32, (Instant, Duration)>,
}

impl Unwinding {
    /// Starts building tables before the kernel has anything to put them into: for the process whose children are recorded or, if
    /// there is none, for the first of those that are.
    pub(crate) fn start(parent: Option<u32>, members: &[Member]) -> Result<Unwinding, CollectError> {
        let first = parent.or(members.first().map(|member| member.pid)).unwrap_or(0);
        let (requests, of_thread) = channel();
        let (maps, maps_of_thread) = channel();
        let (tell_mapped, mapped) = channel();
        let statistics = Arc::new(Mutex::new(UnwindStatistics::default()));
        let told = Arc::clone(&statistics);
        std::thread::Builder::new()
            .name("dbtime-unwind".to_string())
            .spawn(move || work(first, &maps_of_thread, &of_thread, &tell_mapped, &told))
            .map_err(|e| {
                CollectError::Kernel(format!("the thread for unwinding tables cannot be started: {e}"))
            })?;
        let mut unwinding = Unwinding {
            requests,
            maps: Some(maps),
            mapped,
            parent: 0,
            parent_space: 0,
            pending: 0,
            statistics,
            looked: HashMap::new(),
        };
        if let Some(parent) = parent {
            unwinding.set_parent(parent);
        }
        Ok(unwinding)
    }

    /// Hands over the kernel's maps and waits until the first tables are there.
    pub(crate) fn attach(&mut self, maps: UnwindMaps) {
        let (tell, told) = channel();
        if let Some(sender) = self.maps.take()
            && sender.send(maps).is_ok()
            && self.requests.send(Request::Tell(tell)).is_ok()
        {
            // After that, samples are taken anyway; until the tables are there, only the leaf of a user stack is known.
            let _ = told.recv_timeout(PATIENCE);
        }
        self.mapped();
    }

    /// Sets the process whose children are recorded.
    pub(crate) fn set_parent(&mut self, pid: u32) {
        self.parent = pid;
        self.parent_space = 0;
        self.request(Request::Parent(pid));
    }

    /// A process that has just begun is recorded. Returns its address space, as far as that is known: its parent's.
    pub(crate) fn begin(&self, pid: u32) -> u32 {
        self.request(Request::Begin(pid));
        self.parent_space
    }

    /// A process that exists is recorded: it may have loaded more than its parent. Returns as [`Unwinding::begin`].
    pub(crate) fn adopt(&mut self, pid: u32) -> u32 {
        self.pending += 1;
        self.request(Request::Map(pid));
        self.parent_space
    }

    /// A sample of the process had an address in no known mapping.
    pub(crate) fn look_again(&mut self, pid: u32, now: Instant) {
        let (due, pause) = self.looked.entry(pid).or_insert((now, SHORTEST_PAUSE));
        if now < *due {
            return;
        }
        *due = now + *pause;
        *pause = (*pause * 2).min(LONGEST_PAUSE);
        self.pending += 1;
        self.request(Request::Map(pid));
    }

    /// The process has ended.
    pub(crate) fn end(&mut self, pid: u32) {
        self.looked.remove(&pid);
        self.request(Request::End(pid));
    }

    /// True while the map of a process is being read: its samples wait for [`Unwinding::mapped`].
    pub(crate) fn is_reading(&self) -> bool {
        self.pending > 0
    }

    /// Processes whose address space has become known since the last call, with its number.
    pub(crate) fn mapped(&mut self) -> Vec<(u32, u32)> {
        let mut known = Vec::new();
        for (request_was_map, pid, space) in self.mapped.try_iter() {
            self.pending -= usize::from(request_was_map);
            let Some(space) = space else { continue };
            if pid == self.parent {
                self.parent_space = space;
            }
            known.push((pid, space));
        }
        known
    }

    /// Statistics so far.
    pub(crate) fn statistics(&self) -> UnwindStatistics {
        self.statistics.lock().map(|s| *s).unwrap_or_default()
    }

    fn request(&self, request: Request) {
        // The thread ends only with this value.
        let _ = self.requests.send(request);
    }
}

fn work(
    first: u32,
    maps: &Receiver<UnwindMaps>,
    requests: &Receiver<Request>,
    mapped: &Sender<Mapped>,
    told: &Mutex<UnwindStatistics>,
) {
    let begin = Instant::now();
    let mut modules = Modules::default();
    // Done again with the first request, then from what is remembered.
    let _ = modules.of_process(first);
    let tables = new_tables(&mut modules);
    let mut build_time = begin.elapsed();
    let Ok(maps) = maps.recv() else { return };
    // It reads what others wrote. If privileges cannot be given up here, the rest works as before.
    let _ = privilege::keep_only(privilege::READS_PROCESSES);
    let mut spaces = Spaces {
        modules,
        numbers: HashMap::new(),
        of_process: HashMap::new(),
        free: Vec::new(),
        used: 1,
        parent: first,
        without_room: tables.add_to(&maps),
        maps,
    };
    for request in requests {
        let begin = Instant::now();
        let known = match request {
            Request::Parent(pid) => {
                spaces.parent = pid;
                Some((false, pid, spaces.map(pid)))
            }
            Request::Map(pid) => Some((true, pid, spaces.map(pid))),
            Request::Begin(pid) => Some((false, pid, spaces.begin(pid))),
            Request::End(pid) => {
                spaces.end(pid);
                None
            }
            Request::Tell(sender) => {
                // The first tables are there: later ones must not take precedence over the database. Nothing is lost if it fails.
                let _ = priority::give_up();
                let _ = sender.send(());
                None
            }
        };
        build_time += begin.elapsed();
        if let Ok(mut told) = told.lock() {
            *told = UnwindStatistics {
                table_bytes: spaces.modules.bytes as u64,
                build_ns: build_time.as_nanos() as u64,
                without_room: spaces.modules.without_room + spaces.without_room,
            };
        }
        if let Some(known) = known
            && mapped.send(known).is_err()
        {
            return;
        }
    }
}

/// Some tables, created in the kernel.
struct NewTables {
    made: Vec<KernelTable>,
    /// How many the kernel did not create.
    refused: usize,
}

fn new_tables(modules: &mut Modules) -> NewTables {
    let count = modules.new_tables.len().min(TABLES_AT_ONCE);
    let made: Vec<KernelTable> = modules
        .new_tables
        .drain(..count)
        .filter_map(|(number, elements)| KernelTable::make(number, &elements).ok())
        .collect();
    NewTables {
        refused: count - made.len(),
        made,
    }
}

impl NewTables {
    /// Returns how many there is no room for.
    fn add_to(&self, maps: &UnwindMaps) -> u64 {
        (self.refused + maps.add_tables(&self.made)) as u64
    }
}

/// Address spaces in the kernel: processes whose code is at the same places share one.
struct Spaces {
    maps: UnwindMaps,
    modules: Modules,
    /// By what they map: number, and how many processes have it.
    numbers: HashMap<Rc<[CodeMapping]>, (u32, usize)>,
    of_process: HashMap<u32, Rc<[CodeMapping]>>,
    free: Vec<u32>,
    used: u32,
    parent: u32,
    without_room: u64,
}

impl Spaces {
    /// Reads the map of a process. Returns the number of its address space; None if there is none, or no room for it.
    fn map(&mut self, pid: u32) -> Option<u32> {
        // It has ended, or may not be looked at: nothing is known about it.
        let mappings = self.modules.of_process(pid).ok()?;
        while !self.modules.new_tables.is_empty() {
            self.without_room += new_tables(&mut self.modules).add_to(&self.maps);
        }
        let code: Rc<[CodeMapping]> = mappings
            .iter()
            .map(|(mapping, module)| {
                let module = self.modules.get(*module);
                let code = module.code_in(mapping);
                CodeMapping {
                    start: mapping.start,
                    end: mapping.end,
                    code: code.unwrap_or_default(),
                    size: code.map_or(0, |_| module.size),
                    table: code.and(module.table),
                    is_interpreter: is_interpreter(&mapping.name),
                }
            })
            .collect();
        if code.len() > MAX_MAPPINGS {
            self.without_room += 1;
        }
        self.give(pid, code)
    }

    /// A new process has what its parent has.
    fn begin(&mut self, pid: u32) -> Option<u32> {
        if pid == self.parent {
            return None;
        }
        let code = Rc::clone(self.of_process.get(&self.parent)?);
        self.give(pid, code)
    }

    fn give(&mut self, pid: u32, code: Rc<[CodeMapping]>) -> Option<u32> {
        let number = match self.numbers.get_mut(&code) {
            Some((number, processes)) => {
                *processes += 1;
                *number
            }
            None => {
                let Some(number) = self.take_number() else {
                    self.without_room += 1;
                    return None;
                };
                if self.maps.set_space(number, &code).is_err() {
                    self.free.push(number);
                    return None;
                }
                self.numbers.insert(Rc::clone(&code), (number, 1));
                number
            }
        };
        self.end(pid);
        self.of_process.insert(pid, code);
        Some(number)
    }

    fn take_number(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let number = self.used;
            (number < self.maps.max_spaces()).then(|| {
                self.used += 1;
                number
            })
        })
    }

    /// The process no longer has its address space. One that no process has is free for another.
    fn end(&mut self, pid: u32) {
        let Some(code) = self.of_process.remove(&pid) else {
            return;
        };
        if let Some((number, processes)) = self.numbers.get_mut(&code) {
            *processes -= 1;
            if *processes == 0 {
                self.free.push(*number);
                self.numbers.remove(&code);
            }
        }
    }
}
