//! The BPF unwinder, compiled for user space, over recorded registers and memory.

use std::ffi::c_void;
use std::fs::File;
use std::os::unix::fs::FileExt;

use super::modules::Modules;
use super::table::{BP_AT_BP, BP_LOST, Kind, Row, Rule, Table};
use crate::bpf::{Sample, Space, dbt_sample_flag, dbt_unwind_end};

/// `struct recorded_table` in bpf/unwind_in_user_space.c.
#[repr(C)]
struct RecordedTable {
    elements: *const u64,
    count: u64,
}

/// `struct recorded`.
#[repr(C)]
struct RecordedInput {
    tables: *const RecordedTable,
    table_count: u64,
    read: extern "C" fn(*mut u8, u64, u64, *const c_void) -> i64,
    memory: *const c_void,
}

#[link(name = "unwind_in_user_space", kind = "static")]
unsafe extern "C" {
    fn unwind_recorded(
        input: *const RecordedInput,
        space: *const Space,
        unwind: *mut u64,
        registers: *const u64,
        other: bool,
        sample: *mut Sample,
    ) -> u64;
}

/// More than `struct dbt_unwind` needs, in words.
const UNWIND_WORDS: usize = 8_192;

const COMPLETE: u32 = dbt_unwind_end::UNWIND_COMPLETE.0;
const TRUNCATED: u32 = dbt_unwind_end::UNWIND_TRUNCATED.0;
const BROKEN: u32 = dbt_unwind_end::UNWIND_BROKEN.0;
const NEW_CODE: u32 = dbt_sample_flag::SAMPLE_NEW_CODE.0;

/// Where memory is read from.
enum Memory {
    /// Words from this address on.
    Words(u64, Vec<u64>),
    /// This process's own.
    Own(File),
}

extern "C" fn read_memory(to: *mut u8, size: u64, from: u64, memory: *const c_void) -> i64 {
    // SAFETY: the unwinder passes on the pointer that it was given, and a buffer of its own.
    let (memory, to) = unsafe {
        (
            &*memory.cast::<Memory>(),
            std::slice::from_raw_parts_mut(to, size as usize),
        )
    };
    let read = match memory {
        Memory::Words(begin, words) => {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let offset = from.wrapping_sub(*begin) as usize;
            let found = offset
                .checked_add(to.len())
                .and_then(|end| bytes.get(offset..end));
            found.map(|found| to.copy_from_slice(found)).is_some()
        }
        Memory::Own(file) => file.read_exact_at(to, from).is_ok(),
    };
    if read { 0 } else { -14 }
}

/// What the kernel would know.
struct Recorded {
    tables: Vec<Vec<u64>>,
    space: Space,
    memory: Memory,
    unwind: Vec<u64>,
}

#[derive(Debug, PartialEq, Eq)]
struct Stack {
    addresses: Vec<u64>,
    end: u32,
    new_code: bool,
}

impl Recorded {
    fn new(tables: Vec<Vec<u64>>, mappings: &[(u64, u64, u64, u32, u32)], memory: Memory) -> Recorded {
        let mut space = Space {
            version: 1,
            ..Space::default()
        };
        for (place, &(start, end, code, size, table)) in space.mappings.iter_mut().zip(mappings) {
            (place.start, place.end, place.code, place.size, place.table) = (start, end, code, size, table);
            space.count += 1;
        }
        Recorded {
            tables,
            space,
            memory,
            unwind: vec![0; UNWIND_WORDS],
        }
    }

    /// One module with these rows at 0x10000, code without a module at 0x90000, and a stack from 0x7000 on.
    fn of_rows(rows: &[(u64, Rule)], stack: Vec<u64>) -> Recorded {
        let rows = rows
            .iter()
            .map(|&(address, rule)| Row { address, rule })
            .collect();
        let table = Table::of_rows(rows).expect("there are rows");
        let code = CODE + table.begin;
        let (begin, end) = (CODE, CODE + 0x80000);
        Recorded::new(
            vec![table.elements],
            &[(begin, end, code, table.size, 1), (0x90000, 0x91000, 0, 0, 0)],
            Memory::Words(STACK, stack),
        )
    }

    fn unwind(&mut self, ip: u64, sp: u64, bp: u64, other: bool) -> Stack {
        let tables: Vec<RecordedTable> = self
            .tables
            .iter()
            .map(|table| RecordedTable {
                elements: table.as_ptr(),
                count: table.len() as u64,
            })
            .collect();
        let input = RecordedInput {
            tables: tables.as_ptr(),
            table_count: tables.len() as u64,
            read: read_memory,
            memory: std::ptr::from_ref(&self.memory).cast(),
        };
        let mut sample = Sample::default();
        // SAFETY: all pointers are to values that live through the call, and of the size that it expects.
        let frames = unsafe {
            unwind_recorded(
                &raw const input,
                &raw const self.space,
                self.unwind.as_mut_ptr(),
                [ip, sp, bp].as_ptr(),
                other,
                &raw mut sample,
            )
        };
        Stack {
            addresses: sample.frames[..frames as usize].to_vec(),
            end: sample.user_end,
            new_code: sample.flags & NEW_CODE != 0,
        }
    }

    /// The same on and off CPU, and from what is remembered.
    fn always(&mut self, ip: u64, sp: u64, bp: u64) -> Stack {
        let first = self.unwind(ip, sp, bp, false);
        for other in [false, true] {
            assert_eq!(self.unwind(ip, sp, bp, other), first);
        }
        first
    }
}

const CODE: u64 = 0x10000;
const STACK: u64 = 0x7000;

const fn rule(kind: Kind, cfa: i16, bp: i8) -> Rule {
    Rule { kind, cfa, bp }
}

/// Outermost function, a function with a frame pointer, one without.
fn three_functions() -> [(u64, Rule); 5] {
    [
        (0x100, rule(Kind::End, 0, 0)),
        (0x200, rule(Kind::Sp, 1, 0)),
        (0x201, rule(Kind::Bp, 2, -2)),
        (0x300, rule(Kind::Sp, 3, 0)),
        (0x400, rule(Kind::None, 0, 0)),
    ]
}

#[test]
fn frames_are_followed_by_stack_pointer_and_frame_pointer_to_the_outermost() {
    // Leaf's two words, its return address; the middle one's saved frame pointer and return address.
    let stack = vec![1, 2, CODE + 0x250, 0, CODE + 0x150, 0];
    let mut recorded = Recorded::of_rows(&three_functions(), stack);
    let found = recorded.always(CODE + 0x310, STACK, STACK + 24);
    assert_eq!(found.addresses, [CODE + 0x310, CODE + 0x250, CODE + 0x150]);
    assert_eq!((found.end, found.new_code), (COMPLETE, false));
    // On the first instruction of the middle one, its frame is not set up yet.
    let mut recorded = Recorded::of_rows(&three_functions(), vec![CODE + 0x150]);
    let found = recorded.always(CODE + 0x200, STACK, 0xdead);
    assert_eq!((found.addresses.len(), found.end), (2, COMPLETE));
    // A call that does not return is the last instruction of its function: what follows is another one.
    let mut recorded = Recorded::of_rows(&three_functions(), vec![1, 2, CODE + 0x200]);
    let found = recorded.always(CODE + 0x310, STACK, 0);
    assert_eq!(
        (found.addresses, found.end),
        (vec![CODE + 0x310, CODE + 0x200], COMPLETE)
    );
}

#[test]
fn the_rarer_rules() {
    let end = (0x100, rule(Kind::End, 0, 0));
    let ends = |found: Stack| {
        assert_eq!(
            (found.addresses.last(), found.end),
            (Some(&(CODE + 0x150)), COMPLETE)
        )
    };
    // An aligned stack: the CFA is the word at bp - 8; the caller's frame pointer is where bp points to.
    let rows = [
        end,
        (0x200, rule(Kind::BpDeref, -1, BP_AT_BP)),
        (0x300, rule(Kind::None, 0, 0)),
    ];
    let mut recorded = Recorded::of_rows(&rows, vec![STACK + 32, 77, 0, CODE + 0x150]);
    ends(recorded.always(CODE + 0x210, STACK, STACK + 8));
    // OpenSSL's: the word at sp + 8, plus 8.
    let rows = [
        end,
        (0x200, rule(Kind::SpDeref, 1, 0)),
        (0x300, rule(Kind::None, 0, 0)),
    ];
    let mut recorded = Recorded::of_rows(&rows, vec![0, STACK + 16, CODE + 0x150]);
    ends(recorded.always(CODE + 0x210, STACK, 0));
    // A stub that pushes a word before its byte 11.
    let rows = [
        end,
        (0x200, rule(Kind::Plt, 11, 0)),
        (0x300, rule(Kind::None, 0, 0)),
    ];
    let mut recorded = Recorded::of_rows(&rows, vec![CODE + 0x150, CODE + 0x150]);
    ends(recorded.always(CODE + 0x20a, STACK, 0));
    let mut recorded = Recorded::of_rows(&rows, vec![5, CODE + 0x150]);
    ends(recorded.always(CODE + 0x20b, STACK, 0));
    // A signal: rbp, four others, rsp, rip from byte 0x78 on; the interrupted instruction is no call.
    let rows = [
        end,
        (0x200, rule(Kind::Signal, 0, 0)),
        (0x300, rule(Kind::Sp, 1, 0)),
        (0x400, rule(Kind::None, 0, 0)),
    ];
    let mut stack = vec![0; 32];
    (stack[15], stack[20], stack[21]) = (9, STACK + 31 * 8, CODE + 0x300);
    stack[31] = CODE + 0x150;
    let mut recorded = Recorded::of_rows(&rows, stack);
    ends(recorded.always(CODE + 0x210, STACK, 0));
}

#[test]
fn code_without_a_table_is_followed_by_frame_pointers_that_hold() {
    let stack = vec![STACK + 16, 0x90100, 0, CODE + 0x150];
    let mut recorded = Recorded::of_rows(&three_functions(), stack);
    // Mapped, but without a table.
    let found = recorded.always(0x90200, STACK, STACK);
    assert_eq!(found.addresses, [0x90200, 0x90100, CODE + 0x150]);
    assert_eq!((found.end, found.new_code), (COMPLETE, false));
    // In no mapping: compiled code. Its caller must be code that is known.
    let found = recorded.always(0xfff_ff00, STACK, STACK);
    assert_eq!(
        (found.addresses.len(), found.end, found.new_code),
        (3, COMPLETE, true)
    );
    let mut recorded = Recorded::of_rows(&three_functions(), vec![STACK + 16, 0x4_0000_0000]);
    let found = recorded.always(0xfff_ff00, STACK, STACK);
    assert_eq!(
        (found.addresses.len(), found.end, found.new_code),
        (1, BROKEN, true)
    );
}

#[test]
fn what_cannot_be_followed_is_broken_and_never_runs_away() {
    let rows = three_functions();
    // Unreadable; a frame pointer below the stack; one that points to itself; a lost one; no code at all.
    for (ip, bp, stack) in [
        (0x310, 0, vec![1]),
        (0x250, STACK - 64, vec![1, 2, 3]),
        (0x250, STACK + 1, vec![1, 2, 3]),
        (0x7777, 0, vec![1, 2, 3]),
    ] {
        let found = Recorded::of_rows(&rows, stack).always(CODE + ip, STACK, bp);
        assert_eq!((found.addresses.len(), found.end), (1, BROKEN), "{ip:#x}");
    }
    let rows = [
        (0x100, rule(Kind::Sp, 1, BP_LOST)),
        (0x200, rule(Kind::Bp, 2, -2)),
        (0x300, rule(Kind::None, 0, 0)),
    ];
    let found = Recorded::of_rows(&rows, vec![CODE + 0x250, 0, 0]).always(CODE + 0x110, STACK, STACK + 8);
    assert_eq!((found.addresses.len(), found.end), (2, BROKEN));
}

#[test]
fn more_frames_than_are_kept_are_truncated() {
    let rows = [(0x100, rule(Kind::Sp, 1, 0)), (0x200, rule(Kind::None, 0, 0))];
    let found = Recorded::of_rows(&rows, vec![CODE + 0x150; 500]).always(CODE + 0x150, STACK, 0);
    assert_eq!((found.addresses.len(), found.end), (127, TRUNCATED));
}

/// Registers of the caller of this macro: where it is, its stack pointer, its frame pointer.
macro_rules! registers {
    () => {{
        let (ip, sp, bp): (u64, u64, u64);
        // SAFETY: registers are read only.
        unsafe {
            std::arch::asm!(
                "lea {}, [rip]", "mov {}, rsp", "mov {}, rbp",
                out(reg) ip, out(reg) sp, out(reg) bp, options(nostack, nomem)
            );
        }
        (ip, sp, bp)
    }};
}

#[repr(C)]
struct UnwindOfLibgcc(c_void);

unsafe extern "C" {
    fn _Unwind_Backtrace(
        callback: extern "C" fn(*mut UnwindOfLibgcc, *mut c_void) -> i32,
        argument: *mut c_void,
    ) -> i32;
    fn _Unwind_GetIP(context: *mut UnwindOfLibgcc) -> usize;
}

extern "C" fn note_address(context: *mut UnwindOfLibgcc, addresses: *mut c_void) -> i32 {
    // SAFETY: libgcc passes on the vector that it was given, and its own context.
    unsafe { (*addresses.cast::<Vec<u64>>()).push(_Unwind_GetIP(context) as u64) };
    0
}

type Both = (Vec<u64>, Stack, Stack);

/// The callers of this function, by libgcc's unwinder and by the kernel's, on CPU and as if of another task.
#[inline(never)]
fn by_both(recorded: &mut Recorded) -> Both {
    let mut by_libgcc = Vec::<u64>::new();
    // SAFETY: the callback pushes to the vector, which lives through the call.
    unsafe { _Unwind_Backtrace(note_address, std::ptr::from_mut(&mut by_libgcc).cast()) };
    let (ip, sp, bp) = registers!();
    let own = recorded.unwind(ip, sp, bp, false);
    let other = recorded.unwind(ip, sp, bp, true);
    (by_libgcc, own, other)
}

#[track_caller]
fn assert_same((by_libgcc, own, other): Both, least: usize) {
    // The first frame is at two different instructions of this file's function; libgcc ends with a frame of address 0.
    let truth: Vec<u64> = by_libgcc.into_iter().filter(|&ip| ip != 0).skip(1).collect();
    assert!(truth.len() >= least, "{truth:x?}");
    for stack in [own, other] {
        assert_eq!(stack.addresses[1..], truth[..], "{stack:x?}\n{truth:x?}");
        assert_eq!((stack.end, stack.new_code), (COMPLETE, false));
    }
}

/// This process as the recorder would see it.
fn this_process() -> Recorded {
    let mut modules = Modules::default();
    let mappings = modules
        .of_process(std::process::id())
        .expect("this process can be read");
    let mappings: Vec<_> = mappings
        .iter()
        .map(|(mapping, module)| {
            let module = modules.get(*module);
            let code = module.code_in(mapping);
            let table = code.and(module.table).map_or(0, |number| number + 1);
            (
                mapping.start,
                mapping.end,
                code.unwrap_or_default(),
                module.size,
                table,
            )
        })
        .collect();
    let memory = Memory::Own(File::open("/proc/self/mem").expect("one's own memory can be read"));
    let tables = modules
        .new_tables
        .drain(..)
        .map(|(_, elements)| elements)
        .collect();
    Recorded::new(tables, &mappings, memory)
}

#[test]
fn this_threads_stack_is_the_same_as_by_libgccs_unwinder() {
    let mut recorded = this_process();
    assert_same(by_both(&mut recorded), 5);
    // Deeper, and from what is remembered.
    fn deeper(depth: u32, recorded: &mut Recorded) -> Both {
        let both = if depth == 0 {
            by_both(recorded)
        } else {
            deeper(depth - 1, recorded)
        };
        std::hint::black_box(both)
    }
    for depth in [1, 30, 30] {
        assert_same(deeper(depth, &mut recorded), depth as usize + 5);
    }
}

thread_local! {
    static IN_CALLBACK: std::cell::RefCell<(Option<Recorded>, Option<Both>)> = const { std::cell::RefCell::new((None, None)) };
}

extern "C" fn compare(_: *const c_void, _: *const c_void) -> i32 {
    IN_CALLBACK.with_borrow_mut(|(recorded, both)| {
        if let Some(recorded) = recorded {
            *both = Some(by_both(recorded));
        }
    });
    0
}

extern "C" fn on_signal(_: i32) {
    compare(std::ptr::null(), std::ptr::null());
}

/// Through the C library, which has no frame pointers, and through a signal handler.
#[test]
fn callbacks_of_the_c_library_and_signal_handlers_are_the_same_as_by_libgccs_unwinder() {
    IN_CALLBACK.set((Some(this_process()), None));
    let mut numbers = [3u64, 1, 2];
    // SAFETY: the array has as many elements of that size; the callback reads none of them.
    unsafe { libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 8, Some(compare)) };
    assert_same(IN_CALLBACK.take().1.expect("it was called"), 7);

    IN_CALLBACK.set((Some(this_process()), None));
    // SAFETY: the signal is raised by this thread for itself: the handler runs at a moment when nothing is borrowed.
    unsafe {
        libc::signal(
            libc::SIGUSR2,
            on_signal as extern "C" fn(i32) as libc::sighandler_t,
        );
        libc::raise(libc::SIGUSR2);
    }
    assert_same(IN_CALLBACK.take().1.expect("it was called"), 7);
}

/// For every address, the index finds what a search from the first row on would.
#[test]
fn every_address_of_a_table_has_its_row() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..200 {
        let mut address = random.u64(1..600);
        let rows: Vec<(u64, Rule)> = (0..random.usize(2..400))
            .map(|n| {
                address += if random.bool() {
                    random.u64(1..4)
                } else {
                    random.u64(1..900)
                };
                (address, rule(Kind::Sp, n as i16 % 5 + 1, 0))
            })
            .collect();
        let (first, last) = (rows[0], rows[rows.len() - 1]);
        // Each rule leads to another word of the stack.
        let stack: Vec<u64> = (0..5).map(|n| 0x4_0000_0000 + n).collect();
        let mut recorded = Recorded::of_rows(&rows, stack);
        for _ in 0..50 {
            let address = random.u64(first.0..last.0);
            let truth = rows
                .iter()
                .rev()
                .find(|row| row.0 <= address)
                .expect("not before the first")
                .1;
            let found = recorded.unwind(CODE + address, STACK, 0, false);
            let word = 0x4_0000_0000 + truth.cfa.cast_unsigned() as u64 - 1;
            assert_eq!(found.addresses[1], word, "{address:#x}");
        }
    }
}
