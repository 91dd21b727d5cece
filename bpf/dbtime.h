/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* The interface between the BPF programs and user space; the skeleton has the same types in Rust. All times are CLOCK_MONOTONIC
 * nanoseconds. */
#ifndef DBTIME_H
#define DBTIME_H

#define MAX_FRAMES 127 /* of a kernel stack, and of a user stack: as in perf; a power of two minus one */
/* Sizes that user space cannot derive from the structs. */
enum dbt_size {
	RECORD_BYTES = 512, /* of what a session says about itself, read in one piece; a power of two */
	MAX_ROUTINES = 7, /* nested functions of procedural languages that a session is in; a power of two minus one */
	LATENCY_BUCKETS = 2368, /* of latency_bucket() */
};
#define MAX_NO_STACK_WAITS 8
#define MAX_SEVERAL_CALLS 4

/* A session is one task, identified by pid and start time: pids are reused. */
struct dbt_task_id {
	__u32 pid;
	__u32 pad;
	__u64 start_ns;
};

enum dbt_source_kind {
	SOURCE_NONE = 0,
	SOURCE_POINTER = 1, /* `event` is the address of a pointer to the 32-bit wait event, `statement` (0 = there is none) that of a
			     * pointer to a record with the 64-bit id of the statement at `statement_offset` and the 32-bit state of
			     * the session at `state_offset` */
	SOURCE_NUMBERS = 2, /* `event` is the address of the event's number, `on_cpu` that of a number above 0 while it does not wait */
};

/* Where a session publishes what it is doing: addresses in its own memory. */
struct dbt_wait_source {
	__u32 kind; /* enum dbt_source_kind */
	__u16 statement_offset;
	__u16 state_offset;
	__u16 process_offset; /* SOURCE_POINTER: in that record, of the 32-bit pid, 0 until it is filled in; the record begins with
			       * a 32-bit change count, odd during a write */
	__u16 type_offset;    /* of the 32-bit type of the process */
	__u16 whose_offset;   /* of 64 bits that are equal for sessions of the same user in the same database */
	__u16 text_offset;    /* of the pointer to the text, whose fingerprint replaces an id of 0; 0 = none does */
	__u16 since_offset;   /* of the 64-bit time at which it began to execute that */
	__u16 comment_offset; /* of the pointer to the text whose comment is sent; 0 = none is */
	__u32 most_text;      /* most bytes of a text that the record shows: one this long may be cut off */
	__u64 event;
	__u64 on_cpu;
	__u64 statement; /* SOURCE_NUMBERS: of the 32-bit hash of the statement it executes; 0 = there is none */
	__u64 whole_text; /* SOURCE_POINTER: of the pointer to the text as it was sent, in the session's private memory; 0 = not known */
	__u64 lock_count; /* SOURCE_POINTER: of the 32-bit number of internal locks that it holds; 0 = not known */
	__u64 lock_list;  /* of the list of them: held_locks.bpf.h */
	__u64 page_locks; /* of the first page lock, in the first buffer's descriptor; 0 = not known */
	__u32 page_lock_count; /* how many there are */
	__u16 page_lock_step;  /* bytes from one to the next */
	__u16 page_lock_offset; /* of the lock in that descriptor, which begins with the buffer's page */
	__u64 contexts;   /* SOURCE_POINTER: of a pointer to its list of error contexts: routines.bpf.h; 0 = not known */
	__u16 routine_id;        /* in a PL/pgSQL function, of its 32-bit id */
	__u16 routine_statement; /* in its execution state, of the pointer to the current statement */
	__u16 gives_ids;         /* the database assigns ids: of texts without one, only some replace it: is_named_by_text() */
	__u16 plan_offset;       /* SOURCE_POINTER: in that record, of the 64-bit id of the statement's plan; 0 = there is none */
	__u16 record_bytes;      /* SOURCE_POINTER: of that record, up to the last of these fields; 0 = it is not read in one piece */
};

/* The fingerprint of a session's latest text. */
struct dbt_text {
	__u64 since; /* 0 = none has been read */
	__u64 fingerprint;
	__u64 hash; /* of all its bytes: statement_text.bpf.h; 0 = not known */
};

#define COMMENT_NONE 0      /* in place of a statement's start time: its text has none, or there is no text */
#define COMMENT_NOT_READ ~0ULL /* what the session executed, or its text, could not be read */

/* The comment of a session's latest text. */
struct dbt_known_comment {
	__u64 since;   /* 0 = none has been read */
	__u64 comment; /* the same once the comment has been sent; or one of the above */
};

/* What the database says about a session at one moment. */
struct dbt_activity {
	__u32 wait;
	__u32 session_state; /* as the database numbers it; 0 = not known */
	__u64 statement;     /* 0 = not known; if its plan is known, the number of both: plans.bpf.h */
};

/* A statement and the plan it is executed with. */
struct dbt_planned {
	__u64 statement;
	__u64 plan;
};

/* In place of a wait event. */
enum dbt_wait_mark {
	WAIT_NO_NUMBER = 0x7ffffffe, /* in the lower bits of WAIT_NUMBERED: the number is too large */
	WAIT_NUMBERED = 0x80000000,  /* SOURCE_NUMBERS: it waits, in the event numbered by the other bits */
	WAIT_NOT_READ = 0xffffffff,
};

/* In place of a statement. */
enum dbt_statement_mark {
	STATEMENT_POOLED = 1, /* more came at a time than can be told apart */
};

/* Which page, as PostgreSQL's BufferTag has it: tablespace, database, number of the relation's files (0 = no page), fork, block. */
struct dbt_page {
	__u32 numbers[5];
};

#define MAX_LOCKS 8
#define MAX_PAGES 4 /* for the first this many of them the page is read, too */
#define LOCKS_NOT_READ 0xffffffff /* in place of their number */
/* Bits of a lock; those in between are its address. */
enum dbt_lock_bits {
	LOCK_MODE = 3,        /* how it is held: 0 = exclusive, 1 = shared */
	LOCK_KIND_SHIFT = 48, /* its kind */
};
#define LOCK_ADDRESS (((1ULL << LOCK_KIND_SHIFT) - 1) & ~(__u64)LOCK_MODE)

/* The internal locks that a session holds at one moment. */
struct dbt_locks {
	__u32 count; /* may exceed MAX_LOCKS */
	__u32 pad;
	__u64 locks[MAX_LOCKS];
	struct dbt_page pages[MAX_PAGES]; /* none: not a page's lock, or it could not be read */
};

/* Value of the map `targets`: the tasks that are sampled. */
struct dbt_target {
	struct dbt_wait_source source;
	struct dbt_text text; /* written by the task itself when the timer hits it, as is the next one */
	struct dbt_known_comment comment;
	__u32 is_parent;    /* its children become targets too: a postmaster */
	__u32 slot;         /* the sampler's slot for it, counted from 1; 0 = not yet assigned */
	__u32 space;        /* its address space in `unwind_spaces`; 0 = not known */
	__u32 pad;
};

/* Where a session publishes what it does, in the memory that all sessions of its server share. */
struct dbt_shared {
	__u64 wait;   /* 0 = not known */
	__u64 record; /* 0 = not known, or there is none */
	__u64 stack;  /* where its stack begins: the same in all sessions of a server */
	__u32 process; /* pid that the record shows while it is this session's; 0 = not known: the record may be another session's */
	__u32 pad;
};

/* What a session was doing at the moment drawn for a pass, noted by a kernel timer. */
struct dbt_note {
	__u64 moment;   /* CLOCK_MONOTONIC; written last */
	__u64 switches; /* context switches */
	struct dbt_activity activity;
	__u64 since;    /* when the statement of `activity` began, according to the database; COMMENT_NOT_READ if that could not be read */
	__u32 state;    /* raw __state, or one of those that moment.bpf.h adds */
	__u32 in_iowait;
	__u32 woken_by_session; /* since then, by a session of its server */
	__u32 has_come;         /* it was blocked in this state, but already had a CPU when this was noted */
	__u32 was_pushed_off;   /* it was in the run queue, and certainly not woken from a sleep */
	__u32 pad;
	__u64 woken_ns; /* end of the sleep that it was in, or from which it came into the run queue; 0 = not seen, or it had been
			 * preempted */
	struct dbt_task_id waker; /* who woke it */
	__u64 waker_stack; /* the waker's stack, as in dbt_shared; 0 = it has none */
};

/* Kinds of waits that have ended: one can stand in for another of its kind. */
enum dbt_ended {
	ENDED_RUNNABLE,           /* in the run queue, however it got there */
	ENDED_PREEMPTED,          /* of these: pushed off its CPU */
	ENDED_WOKEN_BY_INTERRUPT, /* woken, by an interrupt or the kernel */
	ENDED_WOKEN_BY_SERVER,    /* by a process of its server */
	ENDED_WOKEN_BY_OTHER,     /* by another process */
	ENDED_SLEEP,
	ENDED_SLEEP_FOR_CLIENT,   /* of these: waits for the client */
	ENDED_SLEEP_FOR_SERVER,   /* of these: other waits */
	ENDED_DISK,
	ENDED_STATES
};

/* Element of the map `rests`: all that a pass reads for a resting session. There are many of them, and the CPU's caches do not keep much
 * from one pass to the next: what is not needed for that is in `slots`. */
struct dbt_rest {
	__u32 rests;           /* looks since its wakeups are counted, all of which found it asleep in the same row, up to RESTS */
	__u32 wakings;         /* its wakeups, while they are counted: written only by its wakers */
	__u32 wakings_seen;    /* at the first of these looks */
	__u32 repeats;         /* passes since the last look, in all of which it rested */
};

/* Element of the map `slots`: one target as the sampler thread visits it. pid 0 = empty. A slot is filled when a session begins (by
 * the fork probe if `free_slots` has one, otherwise by user space; start_ns 0 = whatever task has the pid now), and user space
 * empties it when the session has ended; in between, only the sampler's programs write it. */
struct dbt_slot {
	struct dbt_task_id task;
	__u64 switches;        /* context switches at the last row; ~0 = no row can still hold */
	__u64 counted_switches; /* at the last EVENT_COUNTS, which were of a task off its CPU; 0 = none were */
	__u32 repeats;         /* passes since the last event in which that row still held */
	__u32 code_is_new;     /* the last row's stack went through code that was unknown in the address space of that time */
	__u32 stack_space;     /* that address space */
	__u32 is_new;          /* this pass found a state that the last row does not cover */
	__u32 was_awake;       /* it ran between the last two looks */
	struct dbt_wait_source source;
	__u64 turns;           /* on a CPU, up to the last look */
	__u64 run_delay;       /* in the run queue, up to then */
	__u64 looked_ns;       /* when this pass found the row */
	struct dbt_text text;
	struct dbt_known_comment comment;
	struct dbt_activity activity; /* of the row that this pass found, as are the next four */
	__u64 since;           /* when its statement began, as in struct dbt_note */
	struct dbt_locks locks;
	__u32 in_iowait;       /* it went to sleep for block I/O */
	__u32 state;           /* raw __state at the last row */
	__u32 torn;            /* since the last totals, like the following */
	__u32 torn_stacks;
	__u32 displaced;
	__u32 has_account;     /* exact tier: its account is open, and sums of it were sent */
	__u32 stood_in;        /* since the last totals */
	__u32 has_run_since;   /* the row that this pass found is of the moment, and the session has run since */
	struct dbt_note note;
	struct dbt_shared shared;
	__u64 since_now;       /* as `since`, when the session's activity was last read */
	__u32 ended_switches;  /* lower half of the context switches, plus 1, at which the last waker is the one that ended the wait
				* of the row that this pass found; 0 = another may have */
	__u32 ender_is_noted;  /* the note says who ended the wait of the row that this pass found */
	struct dbt_activity ended[ENDED_STATES]; /* by state: the last one seen, which may have to stand in for another */
	__u32 ended_known;     /* bit n: ended[n] is valid */
	__u32 ended_by_chance; /* bit n: and would have been known whatever it was */
};

/* What the waits of a database are like. Filled by user space: which are idle, or for locks, is not decided here. */
struct dbt_config {
	__u64 no_stack_classes; /* bit n: waits whose top byte is n */
	__u32 no_stack_waits[MAX_NO_STACK_WAITS];
	__u64 resumed_classes; /* bit n: waits whose top byte is n go on after a signal: waits.bpf.h */
	__u32 several_calls[MAX_SEVERAL_CALLS]; /* events in which one wait makes several calls */
	__u32 client_wait;      /* in which a session waits for a command; 0 = there is none */
	__u32 executing_state;  /* the state of a session that is executing one */
};

/* Argument of one pass of the sampler. */
struct dbt_pass {
	__u32 slots;  /* slots in use */
	__u32 totals; /* non-zero to report the totals of every session */
	__u64 moment; /* whose states are wanted */
	__u64 clock_offset; /* how far the scheduler's clock is behind CLOCK_MONOTONIC; 0 = not known */
	__u64 announced; /* the moment that notes are about; 0 = none was announced */
	__u64 number; /* of the pass */
	__u64 is_last; /* non-zero: the recording ends with it */
};

enum dbt_event_kind {
	EVENT_RUNNING = 1, /* struct dbt_sample: the timer found the task on a CPU */
	EVENT_WAITING = 2, /* struct dbt_sample: the sampler found it off CPU, with a new row */
	EVENT_TOTALS = 3,  /* struct dbt_totals: a second has passed */
	EVENT_BEGIN = 4,   /* struct dbt_begin: a target's child was forked */
	EVENT_END = 5,     /* struct dbt_totals: the task exits */
	EVENT_WOKEN = 6,   /* struct dbt_woken: a task is woken from a sleep in which the sampler found it */
	EVENT_COMMENT = 8, /* struct dbt_comment: before the first sample of a statement with a comment */
	EVENT_COUNTS = 7,  /* struct dbt_task_counts: before EVENT_TOTALS and EVENT_END, if wanted; a task that has not run has none */
};

struct dbt_event {
	__u32 kind;
	__u32 pad;
	struct dbt_task_id task;
	__u64 time_ns;
};

enum dbt_sample_flag {
	SAMPLE_USER_MODE = 1,      /* EVENT_RUNNING: the timer hit user code */
	SAMPLE_WAIT_NOT_READ = 2,  /* `wait` has no meaning */
	SAMPLE_STACK_TORN = 4,     /* the task ran while its stacks were read: what is not of the same instant was dropped */
	SAMPLE_STACK_SKIPPED = 8,  /* a wait that needs no stack */
	SAMPLE_IN_IOWAIT = 16,     /* EVENT_WAITING: it went to sleep for block I/O */
	SAMPLE_IN_CALL = 32,       /* EVENT_RUNNING: in a system call; known where calls are traced */
	SAMPLE_NEW_CODE = 64,      /* an address of the user stack was in no known mapping */
	SAMPLE_RAN_SINCE = 128,    /* EVENT_WAITING: it was blocked in this wait, but on a CPU when looked at: its state is not known */
};

struct dbt_sample {
	struct dbt_event event;
	struct dbt_activity activity;
	__u32 flags;
	__u32 state;         /* EVENT_WAITING: raw __state */
	__u32 repeats;       /* EVENT_WAITING: passes in which the previous row still held */
	__u16 kernel_frames;
	__u16 user_frames;
	__u32 user_end;      /* enum dbt_unwind_end */
	__u32 pass;          /* EVENT_WAITING: its number */
	__u32 routines;      /* after the frames */
	__u32 routines_pad;
	__u64 comment;       /* of the statement: `since` of a comment that was sent, or COMMENT_NONE, COMMENT_NOT_READ */
	struct dbt_locks locks;
	/* Kernel, then user, leaf first. Then two for each function of a procedural language, innermost first: its address; its id,
	 * with the current line in the lower half, 0 = none. Truncated to what is used. */
	__u64 frames[2 * MAX_FRAMES + 2 * MAX_ROUTINES];
};

#define COMMENT_BYTES 1024 /* of the beginning and of the end of a text; a power of two */

/* Text that begins or ends with a comment. Long text is sent without its middle. */
struct dbt_comment {
	struct dbt_event event;
	__u64 since; /* when the statement began, according to the database */
	__u32 end_bytes;
	__u32 begin_bytes; /* 0 = the text is as long as its end, or it does not begin with a comment */
	__u8 end[COMMENT_BYTES];
	__u8 begin[COMMENT_BYTES]; /* omitted if there is none */
};

struct dbt_totals {
	struct dbt_event event;
	__u64 on_cpu_ns;    /* since the task began */
	__u64 run_queue_ns; /* the same, including the interval that is still open */
	__u32 repeats;      /* as in struct dbt_sample */
	__u32 torn;
	__u32 torn_stacks;
	__u32 displaced;
	__u32 stood_in;
	__u32 pad;
};

enum dbt_counted {
	COUNTED_CALLS = 1,       /* `rchar` to `syscw` */
	COUNTED_BYTES = 2,       /* `read_bytes` to `cancelled_write_bytes` */
	COUNTED_BLKIO_DELAY = 4, /* `blkio_delay_ns` */
};

/* What the kernel counts for every task, since it began; named as in /proc/PID/io and /proc/PID/status. */
struct dbt_task_counts {
	struct dbt_event event;
	__u64 counted; /* enum dbt_counted: which of the following this kernel counts; not all do */
	__u64 on_cpu_ns;
	__u64 user_ns;   /* by ticks: shows how CPU time is divided, as does the next one */
	__u64 kernel_ns;
	__u64 voluntary_switches;
	__u64 involuntary_switches;
	__u64 minor_faults;
	__u64 major_faults;
	__u64 rchar;
	__u64 wchar;
	__u64 syscr;
	__u64 syscw;
	__u64 read_bytes;
	__u64 write_bytes;
	__u64 cancelled_write_bytes;
	__u64 blkio_delay_ns;
};

/* What a system call is for. */
enum dbt_call_use {
	CALL_READS = 1,      /* from a file, as pread64 */
	CALL_WORKS = 2,      /* what sessions do all the time: read, write, send, receive, wait, sync */
	CALL_SLEEPS = 4,     /* until somebody else does something: epoll_wait, futex */
	CALL_ENDS_WAIT = 8,  /* of these, those that nothing follows in the same wait: futex */
	CALL_OF_SIGNAL = 16, /* what signal handlers do: kill, rt_sigreturn */
	CALL_SENDS = 32,     /* what an answer is sent with: sendto, write */
	CALL_RECEIVES = 64,  /* what a command is received with: recvfrom */
	CALL_CONNECTS = 128, /* to a peer that is no client: connect */
};

/* What exact cells tell apart besides the wait event. */
enum dbt_exact_state {
	EXACT_OUTSIDE,  /* on a CPU outside of system calls: user code, page faults, interrupts */
	EXACT_CALL,     /* on a CPU inside a system call */
	EXACT_RUNNABLE, /* in the run queue */
	EXACT_DISK,
	EXACT_SLEEP,
	EXACT_STOPPED,
	EXACT_STATES
};

#define MAX_WAITS 64 /* distinct wait events (where statements are known: per statement and state) of a session; a power of two */

/* All time that a session has spent in one wait event of one statement and state of the session. It only grows. */
struct dbt_wait_sums {
	struct dbt_activity activity;
	__u64 ns[EXACT_STATES];
	__u64 count[EXACT_STATES];
};

/* In the exact tier, totals are extended by these. */
struct dbt_sums {
	struct dbt_totals totals;
	__u64 cpu_ns; /* on a CPU; 0 where calls are traced: then it is in `waits` */
	__u64 missed; /* switches that were not seen */
	__u32 used;   /* of `waits` */
	__u32 epoch;  /* how often `waits` was restarted, because it was full and had been sent */
	__u64 whose;  /* SOURCE_POINTER: from its record, as is the next one */
	__u32 type;   /* 0 = not known */
	__u32 pad;
	struct dbt_wait_sums waits[MAX_WAITS]; /* cut to what is used */
};

/* Who ended a sleep: `waker` is the task that did, pid 0 an interrupt. */
struct dbt_woken {
	struct dbt_event event;
	struct dbt_task_id waker;
};

struct dbt_begin {
	struct dbt_event event;
	struct dbt_wait_source source;
	__u32 slot; /* as in struct dbt_target */
	__u32 pad;
};

/* One cell of the histograms: latencies of one kind that fell into one bucket. What does not apply is 0. */
struct dbt_latency_key {
	__u64 start_ns; /* of the session's task: pids are reused */
	__u64 statement; /* that the session executed; 0 = not known */
	__u64 inode;    /* of the file that was read, and the device number of its file system */
	__u32 file_system;
	__u32 pid;
	__u32 name;   /* by kind: wait event, number of the system call, operation, pid of the waker */
	__u32 device; /* dev_t of a block device */
	__u32 bytes;
	__u16 bucket; /* of latency_bucket() */
	__u8 kind;    /* enum dbt_latency_kind */
	__u8 source;  /* enum dbt_read_source */
	__u32 call;   /* number of the system call */
	__u32 pad;
};

/* A dedicated histogram for one key of one session. It only grows; user space computes differences. */
struct dbt_histogram {
	struct dbt_latency_key key; /* without a bucket */
	__u64 count;                /* written last */
	__u64 sum_ns;
	__u64 max_ns;
	__u32 buckets[LATENCY_BUCKETS];
};

struct dbt_latency {
	__u64 count;
	__u64 sum_ns;
	__u64 max_ns;
};

/* crates/model/src/latency.rs says what they mean. */
enum dbt_latency_kind {
	LATENCY_WAIT = 1,
	LATENCY_CALL = 2,  /* a system call, and, if one is named, a wait */
	LATENCY_SCHED = 3,
	LATENCY_READ = 4,  /* a system call that read from a file, and, if one is named, a wait */
	LATENCY_READ_ON_CPU = 5, /* the same, never off CPU: CPU time is elapsed time */
	LATENCY_READ_CPU = 6,
	LATENCY_READ_QUEUE = 7,
	LATENCY_READ_DEVICE = 8,
	LATENCY_BLOCK = 9,
	LATENCY_BLOCK_QUEUE = 10,
	LATENCY_WAKER = 11,
	LATENCY_ORACLE_WAIT = 12,
	LATENCY_ORACLE_WAIT_DB = 13,
	LATENCY_COMMAND = 14,
};

/* What a block request does; `name` in the key of LATENCY_BLOCK and LATENCY_BLOCK_QUEUE. */
enum dbt_operation {
	OPERATION_READ = 1,
	OPERATION_WRITE = 2,
	OPERATION_FLUSH = 3,
	OPERATION_DISCARD = 4,
	OPERATION_OTHER = 5, /* zones, secure erase, write zeroes, commands other than reads and writes of blocks */
};

enum dbt_read_source {
	READ_PAGE_CACHE = 1,
	READ_DEVICE = 2,
	READ_AHEAD = 3,
	READ_OTHER_TASK = 4,
};

/* Element of the map `block_volume`: bytes of the requests that were counted. */
struct dbt_block_volume_key {
	__u32 device;
	__u16 operation;
	__u16 odd; /* of the epoch, as for the latency maps */
};

/* Commands of one statement that took about the same time, over all sessions. */
struct dbt_command_key {
	__u64 statement; /* 0 = not known */
	__u32 bucket;    /* of latency_bucket(), the first of COMMAND_BUCKETS */
	__u32 pad;
};

#define COMMAND_PARTS 16 /* wait events of commands that are told apart; a power of two */

/* Time in a wait event, by state. */
struct dbt_command_part {
	__u64 wait; /* plus 1; 0 = not in use */
	__u64 ns[EXACT_STATES];
};

/* What they did. Whatever finds no room goes to the last part, as not read. */
struct dbt_command_sums {
	__u64 count;
	__u64 sum_ns;
	struct dbt_command_part parts[COMMAND_PARTS];
};

#endif
