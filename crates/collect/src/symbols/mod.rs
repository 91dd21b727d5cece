//! Turns addresses into named frames, on the host and while the process lives; every stack becomes an id and one row.

mod debug_package;
mod debuginfod;
mod elf_names;
mod functions;
mod jit;
pub(crate) mod maps;
mod module;
mod namer;
mod reader;
mod room;
pub(crate) mod routines;
mod structure;
mod waiting;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::rc::Rc;
use std::time::{Duration, Instant};

use blazesym::symbolize::source::{Kernel, Source};
use blazesym::symbolize::{Input, Symbolized};
use blazesym::{MaybeDefault, symbolize};
use dbtime_model::{Frame, NO_STACK, Rows, StackId, StackRow, stack_id};

use crate::bpf::thread_cpu_ns;
use crate::database::RawRoutine;
use crate::ending::Ending;
use crate::{privilege, process};
use debuginfod::Debuginfod;
use elf_names::AtPlace;
use functions::Functions;
use jit::CompiledCode;
use maps::Mapping;
use module::{KernelCode, KernelModules, Modules};
use reader::Reader;
use room::Room;
use routines::{RoutineNames, with_routines};
pub(crate) use structure::Member;
use waiting::{Key, Placed, Stack, Ticketed, Waiting};

/// A map of a process is read again for an address it does not have, but not more often than this.
const MAPS_AGE: Duration = Duration::from_secs(1);
/// The same, if there is more to read of what its compilers say; and how much of that is read at a time once recording has begun, in bytes:
/// some 20 ms.
const COMPILED_AGE: Duration = Duration::from_millis(100);
const COMPILED_AT_ONCE: u64 = 4 << 20;
/// Maximum number of distinct raw stacks remembered, of distinct frames, and bytes of these; beyond that the memory starts over. Together
/// they are under 120 MB.
const RAW_STACKS: usize = 50_000;
const FRAMES: usize = 200_000;
const FRAME_BYTES: usize = 64 << 20;
/// Maximum number of files whose code was on a stack; beyond that they are read again. A process can keep mapping new ones.
const MODULES: usize = 10_000;
/// Memory for the names of compiled code of all processes; beyond that no more is read.
const COMPILED_BYTES: usize = 128 << 20;
/// Stacks that are known to have a row; beyond that some get a second one, with the same id. Under 20 MB.
const KNOWN_STACKS: usize = 1_000_000;
/// Maximum bytes of stacks that wait to be taken. They are asked for well before ([`Symbolizer::new_stack_bytes`]).
const NEW_BYTES: usize = 128 << 20;
/// How long stacks that waited for names are given theirs in one go: others wait for whoever does it.
const NAMING_AT_ONCE: Duration = Duration::from_millis(20);
/// Stands for a stack for which there is no room: see [`room`].
const NO_ROOM: &str = "[more stacks than are kept]";

/// Where these members of a structure are, according to the debug information of a process's executable or its debug file. None: it does
/// not say, or cannot be read within the limits for reading names.
pub(crate) fn members_of<const N: usize>(
    pid: u32,
    structure: &str,
    wanted: [&str; N],
) -> Option<[Option<Member>; N]> {
    let executable = fs::metadata(process::path(pid, "exe")).ok()?;
    let maps = maps::read(pid).ok()?;
    let mapping = maps.iter().find(|mapping| mapping.is_file(&executable))?;
    let mut modules = Modules::default();
    let number = modules.open(mapping, pid);
    modules.members(number, structure, &wanted)?.try_into().ok()
}

/// Where a frame's name is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Kernel(u64),
    /// Offset in the file of a module, by its number.
    File(usize, u64),
    /// In no file.
    Nowhere,
}

struct Space {
    maps: Vec<Mapping>,
    compiled: CompiledCode,
    read: Instant,
}

/// Module of code that was compiled at run time.
const COMPILED: &str = "[jit]";
/// Names what the kernel makes at run time: BPF programs, those of this recorder among them, and trampolines.
const MADE_AT_RUN_TIME: &str = "bpf_prog_or_trampoline";
/// What an inlined function's name ends in, as in the field's other tools.
const INLINED: &str = "_[i]";

/// Names frames and numbers stacks.
pub(crate) struct Symbolizer {
    blazesym: symbolize::Symbolizer,
    kernel_modules: KernelModules,
    modules: Reader,
    module_of_file: HashMap<(u64, u64), usize>,
    spaces: HashMap<u32, Space>,
    /// Process whose map is tried first: children share their parent's.
    parent: u32,
    frames: HashMap<Place, Rc<[Frame]>>,
    functions: Functions,
    /// By addresses, and functions of a procedural language.
    raw: HashMap<Key, StackId>,
    waiting: Waiting,
    routine_names: RoutineNames,
    known: HashSet<StackId>,
    new: Vec<StackRow>,
    new_bytes: usize,
    /// None: no limit, the caller has few.
    room: Option<Room>,
    /// CPU time of reading names that is accounted for, nanoseconds.
    names_cpu_ns: u64,
    ending: Ending,
    frame_bytes: usize,
    /// The first process that had more compiled functions than there is room for.
    compiled_without_room: Option<u32>,
    named: u64,
    unresolved: u64,
}

impl Symbolizer {
    /// Starts the process that reads names, best while this one has no threads yet. `ending`: when it has no more time.
    pub(crate) fn new(ending: &Ending) -> Symbolizer {
        let mut modules = Modules::default();
        modules.start(ending);
        Symbolizer {
            modules: Reader::of(modules),
            ending: ending.clone(),
            room: Some(Room::new(Instant::now())),
            ..Symbolizer::of_kernel()
        }
    }

    /// For stacks of the kernel only.
    pub(crate) fn of_kernel() -> Symbolizer {
        Symbolizer {
            modules: Reader::of(Modules::default()),
            blazesym: symbolize::Symbolizer::builder()
                .enable_code_info(false)
                .enable_auto_reload(false)
                .build(),
            kernel_modules: KernelModules::read(),
            module_of_file: HashMap::new(),
            spaces: HashMap::new(),
            parent: 0,
            frames: HashMap::new(),
            functions: Functions::default(),
            raw: HashMap::new(),
            waiting: Waiting::default(),
            routine_names: RoutineNames::default(),
            known: HashSet::new(),
            new: Vec::new(),
            new_bytes: 0,
            room: None,
            names_cpu_ns: 0,
            ending: Ending::default(),
            frame_bytes: 0,
            compiled_without_room: None,
            named: 0,
            unresolved: 0,
        }
    }

    /// Sets the process whose children are recorded.
    pub(crate) fn set_parent(&mut self, pid: u32) {
        self.parent = pid;
        self.spaces.clear();
        self.raw.clear();
        self.routine_names = RoutineNames::default();
        self.read_maps(pid, u64::MAX);
    }

    /// Reads the large symbol tables now: the kernel's and those of the parent's executable and C library. All others are read by a thread
    /// of their own from then on, while their stacks wait. Returns what cannot be named, and why.
    pub(crate) fn warm_up(&mut self) -> Vec<String> {
        self.kernel_frame(0);
        let maps = self
            .spaces
            .get(&self.parent)
            .map(|space| space.maps.clone())
            .unwrap_or_default();
        let executable = fs::metadata(process::path(self.parent, "exe"));
        let mut readable = false;
        let mut is_stripped = false;
        let (servers, mut asked) = (Debuginfod::from_environment(&self.ending), HashSet::new());
        let mut missing = Vec::new();
        for mapping in &maps {
            let is_executable = executable.as_ref().is_ok_and(|file| mapping.is_file(file));
            let is_libc = mapping.name.contains("/libc.so") || mapping.name.contains("/libc-");
            if (is_executable || is_libc)
                && let Some(module) = self.module(mapping, self.parent)
                && let Some(modules) = self.modules.here()
            {
                readable |= modules.is_readable(module);
                if let (Some(servers), false) = (&servers, modules.has_symbols(module))
                    && asked.insert(module)
                {
                    let name = mapping.file_name();
                    missing.push(match modules.fetch(module, servers) {
                        Ok(()) => format!(
                            "functions of {name} are named from a debug file that was fetched (debuginfod)"
                        ),
                        Err(why) => format!("no debug file for {name} could be fetched (debuginfod): {why}"),
                    });
                }
                if is_executable && !modules.has_symbols(module) && !is_stripped {
                    is_stripped = true;
                    let path =
                        process::executable(self.parent).unwrap_or_else(|| mapping.name.clone().into());
                    let unnamed = modules.unnamed(module);
                    let build_id = modules.build_id(module);
                    missing.push(debug_package::advice(self.parent, &path, build_id, unnamed));
                }
                self.file_frames(module, mapping.offset);
            }
        }
        if self.parent != 0 && !readable {
            missing.push("user functions have no names: the server's executable cannot be read".to_string());
        }
        if !privilege::can_open_deleted_files() {
            missing.push(
                "files that have been deleted or replaced since they were mapped cannot be read (it needs \
                CAP_CHECKPOINT_RESTORE): stacks through them break off, and their functions have no names"
                    .to_string(),
            );
        }
        if self.kernel_modules.addresses_are_hidden() {
            missing.push(
                "kernel functions have no names: /proc/kallsyms hides its addresses (it needs CAP_SYSLOG)"
                    .to_string(),
            );
        }
        self.names_cpu_ns = self.modules.usage().cpu_ns();
        if let Err(e) = self.modules.go_on_in_thread() {
            missing.push(format!("names that are read later delay the recording: {e}"));
        }
        missing
    }

    /// The process is gone; its pid may come back as another one.
    pub(crate) fn forget(&mut self, pid: u32) {
        if self.spaces.remove(&pid).is_some() {
            self.routine_names.forget(pid);
            self.raw.retain(|(owner, _), _| *owner != pid);
        }
    }

    /// Id of a kernel stack, leaf first.
    pub(crate) fn kernel_stack(&mut self, addresses: &[u64]) -> StackId {
        self.stack((0, 0), addresses, &[], |_| None)
    }

    /// Id of a stack whose frames have their names already, leaf first.
    pub(crate) fn named_stack(&mut self, mut frames: Vec<Frame>) -> StackId {
        if frames.is_empty() {
            return NO_STACK;
        }
        frames.reverse();
        if !self.has_room(0) {
            return self.no_room();
        }
        let id = stack_id(&frames);
        self.note(0, id, || frames);
        id
    }

    /// Id of a user stack of a process, leaf first, with the procedural-language functions in it. `name` reads the name of one.
    pub(crate) fn user_stack(
        &mut self,
        pid: u32,
        addresses: &[u64],
        routines: &[RawRoutine],
        name: impl Fn(RawRoutine) -> Option<String>,
    ) -> StackId {
        // A stack whose frames are all in the parent's map means the same in all its children; but each has its own functions.
        let owner = if routines.is_empty()
            && addresses
                .iter()
                .all(|&a| self.find(self.parent, a.saturating_sub(1)).is_some())
        {
            self.parent
        } else {
            pid
        };
        self.stack((owner, pid), addresses, routines, name)
    }

    /// A stack of a process (0: the kernel's) that is not known becomes a row.
    fn note(&mut self, process: u32, id: StackId, frames: impl FnOnce() -> Vec<Frame>) {
        if self.known.len() >= KNOWN_STACKS {
            self.known.clear();
        }
        if self.known.insert(id) {
            if let Some(room) = &mut self.room {
                room.take(process);
            }
            let frames = frames();
            self.new_bytes += bytes_of(&frames);
            self.new.push(StackRow { id, frames });
        }
    }

    fn has_room(&mut self, process: u32) -> bool {
        let is_full = self.new_bytes >= NEW_BYTES;
        self.room
            .as_mut()
            .is_none_or(|room| room.is_there(process, is_full, Instant::now()))
    }

    /// The stack that stands for those without room.
    fn no_room(&mut self) -> StackId {
        let frames = vec![Frame {
            symbol: NO_ROOM.to_string(),
            module: String::new(),
            build_id: String::new(),
            offset: 0,
        }];
        let id = stack_id(&frames);
        self.note(0, id, || frames);
        id
    }

    /// Stacks for which there was no room.
    pub(crate) fn stacks_without_room(&self) -> u64 {
        self.room.as_ref().map_or(0, Room::refused)
    }

    /// The first process that had more compiled functions than there is room for.
    pub(crate) fn compiled_without_room(&self) -> Option<u32> {
        self.compiled_without_room
    }

    /// How many stacks there are that were not seen before.
    pub(crate) fn new_stacks(&self) -> usize {
        self.new.len()
    }

    /// Memory that they take, in bytes.
    pub(crate) fn new_stack_bytes(&self) -> usize {
        self.new_bytes
    }

    /// Stacks that were not seen before.
    pub(crate) fn take_new_stacks(&mut self) -> Vec<StackRow> {
        self.new_bytes = 0;
        std::mem::take(&mut self.new)
    }

    /// From now on every stack counts as not seen before.
    pub(crate) fn describe_again(&mut self) {
        self.raw.clear();
        self.known.clear();
    }

    /// CPU time of the process that reads names, in nanoseconds, and its memory, in bytes.
    pub(crate) fn cost(&self) -> (u64, u64) {
        self.modules.usage().cost()
    }

    /// Distinct frames, and those of them that have no name.
    pub(crate) fn frame_counts(&self) -> (u64, u64) {
        (self.named, self.unresolved)
    }

    /// `owner`: whose map says what the addresses mean; `process`: whose stack it is.
    fn stack(
        &mut self,
        (owner, process): (u32, u32),
        addresses: &[u64],
        routines: &[RawRoutine],
        name: impl Fn(RawRoutine) -> Option<String>,
    ) -> StackId {
        if addresses.is_empty() {
            return NO_STACK;
        }
        if self.raw.len() >= RAW_STACKS {
            self.raw.clear();
        }
        let words = routines.iter().flat_map(|routine| {
            [
                routine.function,
                u64::from(routine.id) << 32 | u64::from(routine.line),
            ]
        });
        let key = (owner, addresses.iter().copied().chain(words).collect());
        if let Some(&id) = self.raw.get(&key) {
            return id;
        }
        if let Some(ticket) = self.waiting.ticket(&key) {
            return ticket;
        }
        if !self.has_room(process) {
            return self.no_room();
        }
        self.make_room_for_modules(addresses.len());
        let cpu_at_begin_ns = thread_cpu_ns();
        let places = addresses
            .iter()
            .enumerate()
            .rev()
            .map(|(depth, &address)| {
                // Callers are known by their return address, which may be past the end of a function that ends with a call: the
                // instruction before it is meant.
                self.placed(owner, address.saturating_sub(u64::from(depth > 0)))
            })
            .collect();
        let routines = routines
            .iter()
            .map(|&routine| (routine, self.routine_names.name(process, routine, &name)))
            .collect();
        let stack = Stack {
            key,
            process,
            places,
            routines,
        };
        let id = match self.frames_of(&stack.places) {
            Some(frames) => self.number(stack, &frames),
            None => match self.waiting.add(stack, Instant::now()) {
                Some(ticket) => ticket,
                None => {
                    if let Some(room) = &mut self.room {
                        room.refuse();
                    }
                    self.no_room()
                }
            },
        };
        let names_cpu_ns = self.modules.usage().cpu_ns();
        if let Some(room) = &mut self.room {
            room.use_cpu(thread_cpu_ns().saturating_sub(cpu_at_begin_ns));
            room.use_cpu(names_cpu_ns.saturating_sub(self.names_cpu_ns));
        }
        self.names_cpu_ns = names_cpu_ns;
        id
    }

    /// Gives stacks that wait for names their ids, as far as the names are there. Call it often.
    pub(crate) fn name_waiting(&mut self) {
        let begin = Instant::now();
        while let Some(first) = self.waiting.take_first() {
            let frames = if first.is_overdue(begin) || self.ending.is_over() {
                Some(self.frames_without_names(&first.stack.places))
            } else if self.modules.is_busy() || begin.elapsed() >= NAMING_AT_ONCE {
                None
            } else {
                self.frames_of(&first.stack.places)
            };
            let Some(frames) = frames else {
                self.waiting.put_back(first);
                return;
            };
            self.redeem(first, &frames);
        }
    }

    /// A stack has waited for these frames.
    fn redeem(&mut self, first: Ticketed, frames: &[Rc<[Frame]>]) {
        let id = self.number(first.stack, frames);
        self.waiting.set_id(first.ticket, id);
    }

    /// Stacks that wait are described without the names that are not there yet.
    fn give_up_names(&mut self) {
        while let Some(first) = self.waiting.take_first() {
            let frames = self.frames_without_names(&first.stack.places);
            self.redeem(first, &frames);
        }
    }

    /// The same for all that wait: it takes as long as reading the names does, or until there is no more time for that.
    pub(crate) fn name_all(&mut self) {
        while !self.waiting.is_empty() {
            self.modules.wait(NAMING_AT_ONCE);
            self.name_waiting();
        }
    }

    /// The id of a stack, if it has waited for its names; otherwise as it is.
    pub(crate) fn id_of(&self, stack: StackId) -> StackId {
        self.waiting.id(stack)
    }

    /// Completes rows with the ids of stacks that have waited. Returns those whose stacks still do.
    pub(crate) fn settle(&self, rows: &mut Rows) -> Rows {
        self.waiting.settle(rows)
    }

    /// Frames at these places; None: reading the names of one takes longer.
    fn frames_of(&mut self, places: &[Placed]) -> Option<Vec<Rc<[Frame]>>> {
        let frames = places.iter().map(|place| match place {
            Placed::Known(frames) => Some(Rc::clone(frames)),
            Placed::File(module, offset) => self.file_frames(*module, *offset),
        });
        frames.collect()
    }

    fn frames_without_names(&self, places: &[Placed]) -> Vec<Rc<[Frame]>> {
        let frames = places.iter().map(|place| match place {
            Placed::Known(frames) => Rc::clone(frames),
            Placed::File(module, offset) => self.frames_in_file(*module, vec![String::new()], *offset),
        });
        frames.collect()
    }

    /// Id of a stack with these frames, root first. Most belong to a stack that is known from other addresses: they are copied for a new
    /// one only.
    fn number(&mut self, stack: Stack, frames: &[Rc<[Frame]>]) -> StackId {
        let Stack {
            key,
            process,
            routines,
            ..
        } = stack;
        let frames = frames.iter().flat_map(|frames| frames.iter());
        let with_routines = match routines[..] {
            [] => None,
            _ => Some(with_routines(frames.clone().cloned().collect(), &routines)),
        };
        let id = match &with_routines {
            Some(frames) => stack_id(frames),
            None => stack_id(frames.clone()),
        };
        // An address in no file may be in one that was mapped a moment ago, and what was compiled there may be replaced: it is looked up
        // again next time.
        let mut all = frames.clone();
        if all.all(|frame| !frame.module.is_empty() && frame.module != COMPILED) {
            self.raw.insert(key, id);
        }
        self.note(process, id, || {
            with_routines.unwrap_or_else(|| frames.cloned().collect())
        });
        id
    }

    /// Where an address of a stack belongs. `owner`: as in [`Symbolizer::stack`].
    fn placed(&mut self, owner: u32, address: u64) -> Placed {
        if owner == 0 {
            return Placed::Known(self.frames_elsewhere(Some(address)));
        }
        match self.place_in_file(owner, address) {
            Some((module, offset)) => Placed::File(module, offset),
            None => Placed::Known(match self.compiled_frame(owner, address) {
                Some(frame) => [frame].into(),
                None => self.frames_elsewhere(None),
            }),
        }
    }

    /// The number of the module that a process has mapped there, and the offset in its file.
    fn place_in_file(&mut self, pid: u32, address: u64) -> Option<(usize, u64)> {
        let stale = |space: &Space| {
            let age = match space.compiled.has_more() {
                true => COMPILED_AGE,
                false => MAPS_AGE,
            };
            space.read.elapsed() > age
        };
        if self.find(pid, address).is_none() && self.spaces.get(&pid).is_none_or(stale) {
            self.read_maps(pid, COMPILED_AT_ONCE);
        }
        let mapping = self.find(pid, address)?.clone();
        let offset = address - mapping.start + mapping.offset;
        Some((self.module(&mapping, pid)?, offset))
    }

    /// Forgets all modules if a stack of this many frames could be in too many. Not while it is looked at: its places have their numbers.
    fn make_room_for_modules(&mut self, frames: usize) {
        if self.module_of_file.len() + frames > MODULES {
            self.give_up_names();
            self.modules.clear();
            self.module_of_file.clear();
            self.forget_frames();
        }
    }

    /// Number of the module that is mapped there; None if the process ended before it could be opened.
    fn module(&mut self, mapping: &Mapping, pid: u32) -> Option<usize> {
        if let Some(&module) = self.module_of_file.get(&mapping.file()) {
            return Some(module);
        }
        if !process::path(pid, "maps").exists() {
            return None;
        }
        let module = self.modules.open(mapping, pid);
        self.module_of_file.insert(mapping.file(), module);
        Some(module)
    }

    /// Reads the map of a process, and up to this many bytes of each file in which it lists code compiled at run time.
    fn read_maps(&mut self, pid: u32, most: u64) {
        let mut maps = maps::read(pid).unwrap_or_default();
        let mut compiled = self
            .spaces
            .remove(&pid)
            .map(|space| space.compiled)
            .unwrap_or_default();
        let others: usize = self.spaces.values().map(|space| space.compiled.bytes()).sum();
        let has_room = others + compiled.bytes() < COMPILED_BYTES;
        if has_room {
            compiled.read(pid, &maps, most);
        }
        if !has_room || compiled.is_full() {
            self.compiled_without_room.get_or_insert(pid);
        }
        maps.retain(Mapping::is_module);
        self.spaces.insert(
            pid,
            Space {
                maps,
                compiled,
                read: Instant::now(),
            },
        );
    }

    /// The executable file mapping that contains an address, as far as it is known.
    fn find(&self, pid: u32, address: u64) -> Option<&Mapping> {
        let maps = &self.spaces.get(&pid)?.maps;
        let after = maps.partition_point(|m| m.start <= address);
        maps[..after].last().filter(|m| address < m.end)
    }

    /// The function that was compiled to an address in no file, if its compiler has said so.
    fn compiled_frame(&self, owner: u32, address: u64) -> Option<Frame> {
        let symbol = self.spaces.get(&owner)?.compiled.find(address)?.to_string();
        Some(Frame {
            symbol,
            module: COMPILED.to_string(),
            build_id: String::new(),
            offset: 0,
        })
    }

    /// The function of the kernel that has this address, or the frame for an address in no file.
    fn frames_elsewhere(&mut self, kernel: Option<u64>) -> Rc<[Frame]> {
        let place = kernel.map_or(Place::Nowhere, Place::Kernel);
        if let Some(frames) = self.frames.get(&place) {
            return Rc::clone(frames);
        }
        let frame = match kernel {
            Some(address) => self.kernel_frame(address),
            None => Frame {
                symbol: String::new(),
                module: String::new(),
                build_id: String::new(),
                offset: 0,
            },
        };
        let frames: Rc<[Frame]> = [frame].into();
        self.count(&frames);
        self.frames.insert(place, Rc::clone(&frames));
        frames
    }

    /// Counts frames that will be remembered.
    fn count(&mut self, frames: &[Frame]) {
        self.named += frames.len() as u64;
        self.unresolved += frames.iter().filter(|frame| frame.symbol.is_empty()).count() as u64;
        if self.frames.len() + self.functions.len() >= FRAMES || self.frame_bytes >= FRAME_BYTES {
            self.forget_frames();
        }
        self.frame_bytes += bytes_of(frames);
    }

    fn forget_frames(&mut self) {
        self.frames.clear();
        self.functions.clear();
        self.frame_bytes = 0;
    }

    fn kernel_frame(&mut self, address: u64) -> Frame {
        let source = Source::Kernel(Kernel {
            // The running kernel's own list: vmlinux files may be another kernel's.
            vmlinux: MaybeDefault::None,
            debug_syms: false,
            ..Kernel::default()
        });
        let symbol = || match self.blazesym.symbolize_single(&source, Input::AbsAddr(address)) {
            Ok(Symbolized::Sym(sym)) => sym.name.into_owned(),
            _ => String::new(),
        };
        let (symbol, module) = match self.kernel_modules.at(address, KernelModules::read) {
            KernelCode::Known(module) => (symbol(), module),
            KernelCode::NewModule(module) => (String::new(), module),
            KernelCode::MadeAtRunTime => (MADE_AT_RUN_TIME.to_string(), KernelModules::CORE),
        };
        Frame {
            symbol,
            module: module.to_string(),
            build_id: String::new(),
            offset: 0,
        }
    }

    /// The function at an offset of a file, and those that were inlined there, the innermost last. None: as in
    /// [`Symbolizer::frames_of`].
    fn file_frames(&mut self, module: usize, offset: u64) -> Option<Rc<[Frame]>> {
        let place = Place::File(module, offset);
        if let Some(frames) = self.frames.get(&place) {
            return Some(Rc::clone(frames));
        }
        let found = match self.functions.at(module, offset) {
            Some(Some(frames)) => return Some(frames),
            Some(None) => AtPlace::nothing(offset),
            None => self.modules.name(module, offset)?,
        };
        let (names, begin) = match found.named {
            Some(named) => (named.names, named.offset),
            // It is known by its place.
            None => (vec![String::new()], offset),
        };
        let is_function = !names[0].is_empty();
        let frames = self.frames_in_file(module, names, begin);
        self.count(&frames);
        if is_function {
            self.functions
                .insert(module, found.same, Some(Rc::clone(&frames)));
        } else {
            self.frames.insert(place, Rc::clone(&frames));
            if self.functions.at(module, offset).is_none() {
                self.functions.insert(module, found.same, None);
            }
        }
        Some(frames)
    }

    /// Frames with these names, the innermost last, for what begins at an offset of a file.
    fn frames_in_file(&self, module: usize, names: Vec<String>, begin: u64) -> Rc<[Frame]> {
        let (name, build_id) = self.modules.identity(module);
        let frames = names.into_iter().enumerate().map(|(depth, symbol)| Frame {
            symbol: if depth == 0 { symbol } else { symbol + INLINED },
            module: name.to_string(),
            build_id: build_id.to_string(),
            offset: begin,
        });
        frames.collect()
    }
}

/// Approximate memory of frames, in bytes.
fn bytes_of(frames: &[Frame]) -> usize {
    /// Of an allocation, beyond what is asked for.
    const BEYOND: usize = 16;
    let of_frame = |frame: &Frame| {
        let texts = [&frame.symbol, &frame.module, &frame.build_id];
        size_of::<Frame>() + texts.map(|text| text.len() + BEYOND).iter().sum::<usize>()
    };
    frames.iter().map(of_frame).sum()
}

#[cfg(test)]
mod tests {
    use dbtime_model::LatencyRow;

    use super::*;

    #[inline(never)]
    extern "C" fn a_function_of_this_test() {
        std::hint::black_box(());
    }

    fn frames(symbolizer: &mut Symbolizer, addresses: &[u64]) -> Vec<Frame> {
        let id = symbolizer.user_stack(std::process::id(), addresses, &[], |_| None);
        symbolizer
            .take_new_stacks()
            .into_iter()
            .find(|row| row.id == id)
            .unwrap()
            .frames
    }

    #[test]
    fn a_function_of_this_process_is_named_with_its_module_and_build_id() {
        let mut symbolizer = Symbolizer::new(&Ending::default());
        let address = a_function_of_this_test as *const () as u64;
        // The leaf is at the function's first byte; the caller's return address is looked up one byte before it.
        let frames = frames(&mut symbolizer, &[address, address + 1]);
        assert_eq!(frames.len(), 2);
        for frame in &frames {
            assert!(frame.symbol.contains("a_function_of_this_test"), "{frame:?}");
            assert!(frame.module.starts_with("dbtime_collect"), "{frame:?}");
        }
        assert_eq!(frames[0].offset, frames[1].offset);
        assert_eq!(symbolizer.frame_counts().1, 0);
    }

    #[test]
    fn an_address_in_no_file_is_unknown_and_counted() {
        let mut symbolizer = Symbolizer::new(&Ending::default());
        let frames = frames(&mut symbolizer, &[0x10]);
        assert_eq!(frames[0].label(), "[unknown]");
        assert_eq!(symbolizer.frame_counts(), (1, 1));
    }

    #[test]
    fn a_stack_waits_while_its_names_are_read_and_whoever_takes_events_does_not() {
        let mut symbolizer = Symbolizer::new(&Ending::default());
        symbolizer.set_parent(std::process::id());
        symbolizer.warm_up();
        let reading = symbolizer.modules.usage().running().expect("it has been started");
        // SAFETY: a signal to a child that nobody has waited for.
        let send = |signal| unsafe { libc::kill(reading, signal) };
        assert_eq!(send(libc::SIGSTOP), 0);
        // An instruction of the function that was not looked up yet: nothing is known of the place where it is.
        let address = a_function_of_this_test as *const () as u64;
        let begin = Instant::now();
        let ticket = symbolizer.user_stack(std::process::id(), &[address], &[], |_| None);
        let kernel = symbolizer.kernel_stack(&[0xffff_ffff_8100_0000]);
        assert!(begin.elapsed() < MAPS_AGE, "it took {:?}", begin.elapsed());
        assert_eq!(
            symbolizer.user_stack(std::process::id(), &[address], &[], |_| None),
            ticket
        );
        let row = |stack| LatencyRow {
            stack,
            ..LatencyRow::default()
        };
        let mut rows = Rows {
            latency: vec![row(ticket), row(kernel)],
            ..Rows::default()
        };
        symbolizer.name_waiting();
        let mut waits = symbolizer.settle(&mut rows);
        assert_eq!(
            (&rows.latency[..], &waits.latency[..]),
            (&[row(kernel)][..], &[row(ticket)][..])
        );

        assert_eq!(send(libc::SIGCONT), 0);
        symbolizer.name_all();
        assert!(symbolizer.settle(&mut waits).is_empty());
        let id = waits.latency[0].stack;
        assert_ne!(id, ticket);
        let stacks = symbolizer.take_new_stacks();
        let frames = &stacks.iter().find(|row| row.id == id).expect("its row").frames;
        assert!(frames[0].symbol.contains("a_function_of_this_test"), "{frames:?}");
        // From now on it is known.
        assert_eq!(
            symbolizer.user_stack(std::process::id(), &[address], &[], |_| None),
            id
        );
    }

    #[test]
    fn an_empty_stack_is_no_stack() {
        assert_eq!(Symbolizer::new(&Ending::default()).kernel_stack(&[]), NO_STACK);
    }
}
