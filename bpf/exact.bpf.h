/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* The exact tier: time is cut at every switch and, on request, at the beginning and end of every system call.
 *
 * A session's account is in its task's own storage, and only the task itself writes it: a task runs on one CPU at a time. The sampler
 * reads it once a second using a sequence count, adds the interval that is still open to its copy, and sends that. Nothing goes to user
 * space at a switch. A missed event only lengthens the interval that the next one closes: the error repairs itself, and is counted. */
#ifndef EXACT_BPF_H
#define EXACT_BPF_H

#include "interrupt.bpf.h"

/* System calls are traced too. Set before loading. */
const volatile bool trace_calls = false;

/* Who ends each sleep is noted. Set before loading. */
const volatile bool trace_wakers = false;

enum dbt_account_status {
	ACCOUNT_NEW = 0,   /* not yet, or no longer, in use */
	ACCOUNT_READY = 1, /* whoever comes first opens it: the task at its next event, the sampler when it sleeps */
	ACCOUNT_BUSY = 2,
	ACCOUNT_OPEN = 3,
};

enum dbt_mode {
	MODE_OUTSIDE, /* on a CPU, in no system call */
	MODE_CALL,    /* on a CPU, in a system call */
	MODE_OFF,     /* not on a CPU */
};

enum dbt_call_flag {
	CALL_SUBMITTED = 1, /* it sent a read request to a block device */
	CALL_IOWAIT = 2,    /* it slept for block I/O */
	CALL_LEFT_CPU = 4,
};

/* enum dbt_call_use by number of the system call, which depends on the architecture. Set before loading. */
#define MAX_CALLS 512 /* a power of two */
const volatile __u8 call_uses[MAX_CALLS] = {};

#include "commands.bpf.h"

#define CALL_HISTOGRAMS 128 /* a power of two */

/* Number of the histogram of a system call in a wait event. */
struct dbt_call_histogram {
	__u32 call;
	__u32 cell;
	__u32 number;
};

/* The wait event that the session is in, from its first call on: waits.bpf.h. */
struct dbt_open_wait {
	__u64 statement; /* in which it began */
	__u32 wait; /* 0 = none */
	__u32 cell; /* of `sums` when it began */
	__u32 flags;
	__u32 pad;
	__u64 begin;
	__u64 end; /* when the last call in it returned; 0 = none has */
};

struct dbt_account {
	__u64 sequence; /* odd while it is written */
	__u64 status;
	__u32 mode;
	__u32 left_cpu;  /* `run_time` is from a moment when it was off CPU */
	struct dbt_wait_source source;
	__u64 since;     /* all time before is in `sums` */
	__u64 arrival;   /* MODE_OFF: when it came onto a CPU again, if it has */
	__u64 run_time;  /* the kernel's, at `since`; where calls are traced: at the last switch-out */
	__u64 ahead;     /* runtime booked by the kernel for which no time had passed yet */
	__u64 run_delay; /* the kernel's, at `since` */
	__s64 owed_delay; /* run delay booked by the kernel beyond what was charged */
	__u64 on_cpu;    /* where calls are traced: charged as on a CPU since the last switch-out */
	__s64 owed;      /* runtime booked by the kernel beyond that; below 0: short of it */
	__u64 switches;  /* the kernel's, at the last switch seen */
	__u32 off_state; /* MODE_OFF: enum dbt_exact_state */
	__u32 off_cell;  /* MODE_OFF: cell of the wait event it went off CPU in */
	__u32 in_call;   /* the task is in a system call, on a CPU or not */
	__u32 call;
	__u32 call_cell;
	__u32 call_flags;
	__u64 call_begin;
	__u64 call_cpu; /* on a CPU in this call so far */
	__u32 call_fd;
	__u32 device; /* that the call sent a request to */
	__u64 woken;     /* MODE_OFF: when it was woken, if it has been; written by the waker's CPU, as is `waker` */
	__u32 waker;     /* pid of the task that woke it; 0 = an interrupt */
	__u32 wanted;    /* the sampler wants the sums and could not copy them: the task is to send them itself */
	__u64 scarce_since; /* start of the second in which cells became scarce `scarce` times */
	__u32 scarce;
	__u32 pools;     /* too often: further statements are STATEMENT_POOLED until the second is over */
	struct dbt_activity activity; /* when it was last read */
	__u64 wait_pointer; /* SOURCE_POINTER: what it points to, once that is settled; 0 = not yet */
	__u64 record;       /* the same for the record that says what it executes */
	__u32 changes;      /* its change count when `activity` was read from it, plus 1; 0 = to be read again */
	__u32 changes_now;  /* the change count at the last look; here because stack is scarce */
	struct dbt_text text;
	struct dbt_sums sums;
	struct dbt_own_histograms histograms; /* from here on: the sampler does not copy it */
	__u32 wait_histograms[MAX_WAITS];     /* by cell, as the next */
	__u32 sched_histograms[MAX_WAITS];
	struct dbt_call_histogram calls[CALL_HISTOGRAMS];
	struct dbt_open_wait open_wait;
	struct dbt_open_wait left_wait; /* a signal interrupted it, and it may go on */
	struct dbt_command command;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct dbt_account);
} accounts SEC(".maps");

#define READ_ATTEMPTS 16

/* Where the sampler makes its copy. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dbt_account);
} account_scratch SEC(".maps");

/* The order of writes is all that a reader on another CPU needs, and x86 keeps it. */
#define ordered() asm volatile("" ::: "memory")

static __always_inline void begin_write(struct dbt_account *account)
{
	account->sequence++;
	ordered();
}

static __always_inline void end_write(struct dbt_account *account)
{
	ordered();
	account->sequence++;
}

/* Notes what the running task executes. Its record has a change count, so of two calls in the same statement the second reads only that:
 * most calls do. */
static __always_inline void read_own_record(struct dbt_account *account)
{
	if (!account->record ||
	    bpf_probe_read_user(&account->changes_now, sizeof(account->changes_now), (void *)account->record))
		account->changes_now = 1;
	else if (!(account->changes_now & 1) && account->changes == account->changes_now + 1)
		return;
	/* Once it has been read, the record is the session's own until it ends. */
	if (account->changes)
		read_filled_record(0, &account->source, account->record, &account->activity);
	else
		read_record(0, &account->source, account->record, &account->activity);
	name_by_record(0, &account->source, account->record, &account->text, &account->activity, false);
	add_own_plan(&account->source, account->record, &account->activity);
	account->changes = account->activity.statement && !(account->changes_now & 1) ? account->changes_now + 1 : 0;
}

/* A process starts with its wait event next to the pointer to it, gets one in shared memory, and ends with the first again. While it is
 * in shared memory the pointer need not be read each time: a process leaves it with calls that are not among those it works with. */
static __always_inline __u32 wait_by_pointer(struct dbt_account *account, __u32 is_settled)
{
	__u64 address = account->source.event, pointer = account->wait_pointer;
	__u32 wait = 0;

	/* A session gets its record a little later than its wait event in shared memory. */
	if (!pointer || !is_settled || (account->source.statement && !account->record)) {
		if (bpf_probe_read_user(&pointer, sizeof(pointer), (void *)address))
			return WAIT_NOT_READ;
		account->wait_pointer = pointer - address + SAME_MODULE > 2ULL * SAME_MODULE ? pointer : 0;
		if (!account->source.statement ||
		    bpf_probe_read_user(&account->record, sizeof(account->record), (void *)account->source.statement))
			account->record = 0;
		account->changes = 0;
	}
	if (bpf_probe_read_user(&wait, sizeof(wait), (void *)pointer))
		wait = WAIT_NOT_READ;
	account->activity.wait = wait;
	read_own_record(account);
	if (account->record && !account->sums.type)
		read_own_kind(&account->source, account->record, &account->sums);
	return wait;
}

/* Reads the wait event of the running task, and notes what it executes. */
__noinline __u32 read_wait(struct dbt_account *account, __u32 is_settled)
{
	if (!account)
		return WAIT_NOT_READ;
	if (account->source.kind == SOURCE_POINTER)
		return wait_by_pointer(account, is_settled);
	account->activity = own_activity(&account->source);
	return account->activity.wait;
}

/* Cell of a wait event in what is executed, if need be a new one of the first `room`; MAX_WAITS = there is none. */
__noinline __u32 find_cell(struct dbt_sums *sums, __u32 wait, __u32 session_state, __u64 statement, __u32 room)
{
	struct dbt_activity *of;
	__u32 i;

	if (!sums)
		return 0;
	for (i = 0; i < MAX_WAITS - 1; i++) {
		of = &sums->waits[i].activity;
		if (i >= sums->used) {
			if (i >= room)
				break;
			sums->waits[i] = (struct dbt_wait_sums){
				.activity = { .wait = wait, .session_state = session_state, .statement = statement },
			};
			sums->used = i + 1;
			return i;
		}
		if (of->statement == statement && of->wait == wait && of->session_state == session_state)
			return i;
	}
	return MAX_WAITS;
}

/* Cell of a wait event in what the session executed when that was last read. Where statements are pooled, individual ones get half of the
 * cells. The last cell takes everything for which there is no room, as not read. */
static __always_inline __u32 own_cell_of(struct dbt_account *account, __u32 wait)
{
	struct dbt_activity *activity = &account->activity;
	struct dbt_sums *sums = &account->sums;
	bool pools = account->pools && activity->statement;
	__u32 cell = find_cell(sums, wait, activity->session_state, activity->statement, pools ? MAX_WAITS / 2 : MAX_WAITS);

	if (cell >= MAX_WAITS && pools)
		cell = find_cell(sums, wait, activity->session_state, STATEMENT_POOLED, MAX_WAITS);
	if (cell < MAX_WAITS)
		return cell;
	sums->waits[MAX_WAITS - 1].activity.wait = WAIT_NOT_READ;
	sums->used = MAX_WAITS;
	return MAX_WAITS - 1;
}

static __always_inline __u64 sums_size(struct dbt_sums *sums)
{
	__u64 used = sums->used;

	if (used > MAX_WAITS)
		used = MAX_WAITS;
	return sizeof(*sums) - sizeof(sums->waits) + used * sizeof(sums->waits[0]);
}

static __always_inline void charge(struct dbt_account *account, __u32 cell, __u32 state, __u64 ns)
{
	struct dbt_wait_sums *sums = &account->sums.waits[cell & (MAX_WAITS - 1)];
	__u64 index = state;

	same_register(index);
	if (index < EXACT_STATES)
		sums->ns[index] += ns;
	if (trace_calls)
		charge_command(&account->command, cell, sums->activity.wait, state, ns);
}

static __always_inline void count(struct dbt_account *account, __u32 cell, __u32 state)
{
	struct dbt_wait_sums *sums = &account->sums.waits[cell & (MAX_WAITS - 1)];
	__u64 index = state;

	same_register(index);
	if (index < EXACT_STATES)
		sums->count[index]++;
}

static __always_inline __u32 wait_in(struct dbt_account *account, __u32 cell)
{
	return account->sums.waits[cell & (MAX_WAITS - 1)].activity.wait;
}

static __always_inline __u64 statement_in(struct dbt_account *account, __u32 cell)
{
	return account->sums.waits[cell & (MAX_WAITS - 1)].activity.statement;
}

/* What a latency is of; what `name` means depends on the kind. */
struct dbt_subject {
	__u64 statement;
	__u32 name;
	__u32 kind; /* enum dbt_latency_kind */
};

/* A separate function, so that the key is on the stack only while it adds. `number`: as in add_known_latency(). */
__noinline int latency_of(struct dbt_account *account, __u32 *number, struct dbt_subject *of, __u64 ns)
{
	struct dbt_latency_key key = {};

	if (!account || !number || !of)
		return 0;
	key.kind = of->kind;
	key.name = of->name;
	key.statement = of->statement;
	key.start_ns = account->sums.totals.event.task.start_ns;
	key.pid = account->sums.totals.event.task.pid;
	add_known_latency(&account->histograms, number, &key, ns);
	return 0;
}

#include "waits.bpf.h"

/* Ends the stay off CPU: what the kernel calls run delay was spent in the run queue, the rest in the state that the task left its CPU in.
 * `final` = it is on a CPU again; otherwise this is a copy that is being read.
 *
 * The kernel's timestamp of a switch is some hundred nanoseconds before its tracepoint: in between it picks the next task, and charges
 * that to it. It subtracts stolen time, and a switch may be missed. What it has booked above or below an interval is made up for in the
 * next one. */
static __always_inline void settle_off(struct dbt_account *account, __u64 until, __u64 run_delay, bool final)
{
	__u64 off = until > account->since ? until - account->since : 0;
	__s64 booked = account->owed_delay + (__s64)(run_delay - account->run_delay), delay = booked;
	__u32 cell = account->off_cell & (MAX_WAITS - 1), state = account->off_state, nowhere = 0;
	struct dbt_subject of = { statement_in(account, cell), wait_in(account, cell), LATENCY_WAIT };

	if (state == EXACT_RUNNABLE || delay > (__s64)off)
		delay = off;
	if (delay < 0)
		delay = 0;
	account->owed_delay = booked - delay;
	charge(account, cell, state, off - delay);
	if (trace_calls && final && state == EXACT_SLEEP)
		command_at_wakeup(&account->command, &account->activity, wait_in(account, cell), until - delay);
	charge(account, cell, EXACT_RUNNABLE, delay);
	if (final) {
		if (state != EXACT_RUNNABLE) {
			count(account, cell, state);
			if (!trace_calls)
				latency_of(account, &account->wait_histograms[cell], &of, off);
			if (trace_wakers && account->woken > account->since) {
				of = (struct dbt_subject){ of.statement, account->waker, LATENCY_WAKER };
				latency_of(account, &nowhere, &of, account->woken - account->since);
			}
		}
		count(account, cell, EXACT_RUNNABLE);
		of = (struct dbt_subject){ of.statement, wait_in(account, cell), LATENCY_SCHED };
		latency_of(account, &account->sched_histograms[cell], &of, delay);
	}
	account->since = until;
	account->run_delay = run_delay;
}

/* The kernel's runtime of a task that is on a CPU. It is updated only at ticks and switches; what has passed since is the time since the
 * task got its CPU, minus the part already booked. */
static __always_inline __u64 run_time_of(struct dbt_account *account, struct task_struct *task, __u64 now)
{
	__u64 booked = BPF_CORE_READ(task, se.sum_exec_runtime), arrival = BPF_CORE_READ(task, sched_info.last_arrival);
	__u64 open = account->run_time + (now - arrival_clock_offset - arrival) - booked;

	/* Excludes negative values too: a switch was missed, or time was stolen. */
	return arrival_clock_offset && account->left_cpu && open < LONGEST_TICK ? booked + open : booked;
}

static __always_inline __u64 switches_of(struct task_struct *task)
{
	return task_field(task, nvcsw) + task_field(task, nivcsw);
}

/* A moment at which an account is settled, and what the kernel says about the task then. */
struct dbt_boundary {
	__u64 now;
	struct task_struct *task;
	__u64 run_delay;
	__u64 switches;  /* before this moment */
	__u64 user_wait; /* the wait event in which user code has run since the last boundary; 0 = in none */
};

/* Where calls are traced: how long the task ran since the last boundary according to the kernel, although no switch was seen. */
static __always_inline __u64 ran_unseen(struct dbt_account *account, struct dbt_boundary *at)
{
	__u64 elapsed = at->now > account->since ? at->now - account->since : 0;
	__s64 run = (__s64)(run_time_of(account, at->task, at->now) - account->run_time - account->on_cpu);

	if (run < 0)
		return 0;
	return run > (__s64)elapsed ? elapsed : run;
}

/* Where calls are traced: the task was off its CPU since the last boundary, and that was not seen. The kernel says how long it ran; it is
 * assumed to have slept first. */
static __always_inline void repair(struct dbt_account *account, struct dbt_boundary *at, __u64 missed)
{
	__u64 run = ran_unseen(account, at);

	account->sums.missed += missed;
	account->off_cell = account->mode == MODE_CALL ? account->call_cell : 0;
	account->off_state = account->mode == MODE_CALL ? EXACT_SLEEP : EXACT_RUNNABLE;
	account->call_flags |= CALL_LEFT_CPU;
	settle_off(account, at->now - run, at->run_delay, false);
}

/* Where calls are traced: brings the account up to this boundary. `final` = the task is on a CPU; otherwise this is a copy being read. */
static __always_inline void settle_calls(struct dbt_account *account, struct dbt_boundary *at, bool final)
{
	__u64 begin, seen, now;

	/* There are no switches since it got its CPU, if none was missed. */
	if (account->mode != MODE_OFF && account->switches && at->switches > account->switches) {
		repair(account, at, at->switches - account->switches);
		account->switches = at->switches;
	}
	begin = account->since;
	now = at->now;
	if (account->mode == MODE_OFF) {
		seen = account->arrival ? account->arrival : now;
		if (!account->arrival && final) {
			/* Without this, the time on the CPU would count as run queue. */
			seen = now - ran_unseen(account, at);
			account->sums.missed++;
		}
		/* When it got its CPU according to the kernel, to the extent that its books were off until now. */
		begin = seen - account->owed;
		if ((__s64)(begin - account->since) < 0)
			begin = account->since;
		if (begin > now)
			begin = now;
		account->owed -= (__s64)(seen - begin);
		account->on_cpu -= seen - begin;
		settle_off(account, begin, at->run_delay, final);
		account->arrival = 0;
		account->mode = account->in_call ? MODE_CALL : MODE_OUTSIDE;
	}
	seen = now > begin ? now - begin : 0;
	account->on_cpu += seen;
	if (account->mode == MODE_CALL) {
		charge(account, account->call_cell, EXACT_CALL, seen);
		account->call_cpu += seen;
	} else {
		charge(account, own_cell_of(account, at->user_wait), EXACT_OUTSIDE, seen);
	}
	account->since = now;
}

/* For a task that is on a CPU. Verified once, like the next one: commands.bpf.h. */
__noinline int settle_own(struct dbt_account *account, struct dbt_boundary *at)
{
	if (account && at)
		settle_calls(account, at, true);
	return 0;
}

__noinline int settle_copy(struct dbt_account *copy, struct dbt_boundary *at)
{
	if (copy && at)
		settle_calls(copy, at, false);
	return 0;
}

/* The same if user code has run in no wait event since the last boundary. */
static __always_inline void settle_own_calls(struct dbt_account *account, struct task_struct *task, __u64 now)
{
	struct dbt_boundary at = {
		.now = now,
		.task = task,
		.run_delay = task->sched_info.run_delay,
		.switches = switches_of(task),
	};

	settle_own(account, &at);
}

/* Where only switches are traced: an interval is from switch-out to switch-out: a stay off CPU, then one on a CPU, whose length the
 * kernel knows. */
static __always_inline void settle_switches(struct dbt_account *account, __u64 now, __u64 run_time, __u64 run_delay,
					    bool final)
{
	__u64 elapsed = now > account->since ? now - account->since : 0;
	__u64 run = account->ahead + (run_time > account->run_time ? run_time - account->run_time : 0);

	/* The two clocks are some nanoseconds apart: any excess belongs to the next interval. */
	account->ahead = run > elapsed ? run - elapsed : 0;
	run -= account->ahead;
	settle_off(account, now - run, run_delay, final);
	account->sums.cpu_ns += run;
	account->since = now;
	account->run_time = run_time;
}

#define ROOM 8 /* cells that may come into use between two checks of how many are left */

/* How often sums may be sent in a second because their cells are scarce, by one session and by all. More would fill the ring, and leave
 * no room for the last sums of sessions that end: user space can take some 40,000 cells a second. */
#define SCARCE_SECOND 1000000000ULL
#define MAX_SCARCE 8
#define MAX_SCARCE_OF_ALL 128

__u64 scarce_second = 0; /* number of the second of `scarce_sent` */
__u64 scarce_sent = 0;

/* Sums were sent because cells are scarce: should further statements be pooled? */
static __always_inline __u32 are_too_many(struct dbt_account *account, __u64 now)
{
	__u64 second = now / SCARCE_SECOND;

	if (now - account->scarce_since >= SCARCE_SECOND) {
		account->scarce_since = now;
		account->scarce = 0;
	}
	if (scarce_second != second) {
		scarce_second = second;
		scarce_sent = 0;
	}
	__sync_fetch_and_add(&scarce_sent, 1);
	return ++account->scarce >= MAX_SCARCE || scarce_sent >= MAX_SCARCE_OF_ALL;
}

/* Otherwise send_sums() has nothing to do. */
static __always_inline bool may_send(struct dbt_account *account)
{
	return account->wanted || account->pools || account->sums.used >= MAX_WAITS - ROOM;
}

/* Sends the sums when the sampler wants them. Also, where statements are told apart, more cells are needed in the long run than there is
 * room for: when it becomes scarce, all that was counted is sent, and counting starts again. The account is settled up to `now`, and is
 * being written. */
__noinline int send_sums(struct dbt_account *account, __u64 now, __u64 on_cpu, __u64 run_delay)
{
	struct dbt_totals *totals;
	bool is_scarce;
	__u32 i;

	if (!account)
		return 0;
	if (account->pools && now - account->scarce_since >= SCARCE_SECOND)
		account->pools = 0;
	is_scarce = account->source.statement && !account->pools && account->sums.used >= MAX_WAITS - ROOM;
	if (!is_scarce && !account->wanted)
		return 0;
	totals = &account->sums.totals;
	totals->event.kind = EVENT_TOTALS;
	totals->event.time_ns = now;
	totals->on_cpu_ns = on_cpu;
	totals->run_queue_ns = run_delay;
	if (bpf_ringbuf_output(&events, &account->sums, sums_size(&account->sums), BPF_RB_NO_WAKEUP))
		return 0; /* no room there either: tried again at the next boundary */
	account->wanted = 0;
	if (!is_scarce)
		return 0;
	account->pools = are_too_many(account, now);
	/* The barrier keeps the compiler from making the loop a call of memset(), which does not exist here. */
	for (i = 0; i < MAX_WAITS; i++) {
		account->wait_histograms[i] = 0;
		account->sched_histograms[i] = 0;
		asm volatile("" ::: "memory");
	}
	for (i = 0; i < CALL_HISTOGRAMS; i++) {
		account->calls[i].number = 0;
		asm volatile("" ::: "memory");
	}
	forget_cells(&account->command);
	account->sums.used = 0;
	account->sums.epoch++;
	find_cell(&account->sums, 0, 0, 0, MAX_WAITS);
	return 0;
}

static __always_inline __u32 exact_state(__u32 state, bool in_iowait)
{
	if (!state || state & 0x800) /* TASK_NEW */
		return EXACT_RUNNABLE;
	if (state & 0x200) /* TASK_WAKING: it has been woken before it was off its CPU */
		return in_iowait ? EXACT_DISK : EXACT_SLEEP;
	if (state & 0x1)
		return EXACT_SLEEP;
	return state & (0x4 | 0x8 | 0x8000) ? EXACT_STOPPED : EXACT_DISK;
}

static __always_inline void open_account(struct dbt_account *account, struct task_struct *task, __u64 since)
{
	account->since = since;
	account->run_time = BPF_CORE_READ(task, se.sum_exec_runtime);
	account->run_delay = BPF_CORE_READ(task, sched_info.run_delay);
	account->switches = BPF_CORE_READ(task, nvcsw) + BPF_CORE_READ(task, nivcsw);
	account->sums.totals.event.task.pid = BPF_CORE_READ(task, pid);
	account->sums.totals.event.task.start_ns = BPF_CORE_READ(task, start_time);
	find_cell(&account->sums, 0, 0, 0, MAX_WAITS);
}

/* In the task's own context. */
static __always_inline bool open_own(struct dbt_account *account, struct task_struct *task, __u64 now)
{
	if (__sync_val_compare_and_swap(&account->status, ACCOUNT_READY, ACCOUNT_BUSY) != ACCOUNT_READY)
		return false;
	account->mode = MODE_OUTSIDE;
	account->off_state = EXACT_RUNNABLE;
	open_account(account, task, now);
	ordered();
	account->status = ACCOUNT_OPEN;
	return true;
}

/* A child is forked: its account has its time from the first moment on. It has not run yet, so nobody else writes. */
static __always_inline void open_child(struct task_struct *child, struct dbt_wait_source *source)
{
	struct dbt_account *account = bpf_task_storage_get(&accounts, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!account)
		return;
	account->source = *source;
	account->mode = MODE_OFF;
	account->off_state = EXACT_RUNNABLE;
	account->left_cpu = 1;
	expect_client(&account->command);
	open_account(account, child, child->start_time);
	account->status = ACCOUNT_OPEN;
}

/* The task goes off its CPU. */
static __always_inline void switch_out(struct task_struct *task, bool preempted, __u64 now)
{
	struct dbt_account *account = bpf_task_storage_get(&accounts, task, 0, 0);
	__u64 run_time, run_delay, switches;
	bool in_iowait;
	__u32 wait;

	if (!account)
		return;
	if (account->status != ACCOUNT_OPEN && !open_own(account, task, now))
		return;
	run_time = task->se.sum_exec_runtime;
	run_delay = task->sched_info.run_delay;
	switches = switches_of(task);
	in_iowait = BPF_CORE_READ_BITFIELD(task, in_iowait);
	begin_write(account);
	if (trace_calls) {
		wait = account->in_call ? 0 : read_wait(account, 1);
		settle_own(account, &(struct dbt_boundary){
			.now = now,
			.task = task,
			.run_delay = run_delay,
			.switches = switches - 1,
			.user_wait = wait,
		});
		account->owed += (__s64)(run_time - account->run_time) - (__s64)account->on_cpu;
		account->run_time = run_time;
		account->on_cpu = 0;
		if (!account->in_call && may_send(account))
			send_sums(account, now, run_time, run_delay);
		account->off_cell = account->in_call ? account->call_cell : own_cell_of(account, wait);
		if (!account->in_call)
			wait_at_switch(account, wait, account->off_cell, now);
	} else {
		if (account->switches && switches > account->switches + 1)
			account->sums.missed += switches - account->switches - 1;
		settle_switches(account, now, run_time, run_delay, true);
		if (may_send(account))
			send_sums(account, now, run_time, run_delay);
		/* Not each time: a stale pointer would last for some switches at the very end of a process. */
		wait = read_wait(account, switches & 15);
		account->off_cell = own_cell_of(account, wait);
	}
	account->switches = switches;
	account->off_state = preempted ? EXACT_RUNNABLE : exact_state(task->__state, in_iowait);
	if (in_iowait)
		account->call_flags |= CALL_IOWAIT;
	account->call_flags |= CALL_LEFT_CPU;
	account->mode = MODE_OFF;
	account->left_cpu = 1;
	account->arrival = 0;
	account->woken = 0;
	account->run_delay = run_delay;
	end_write(account);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempted, struct task_struct *prev, struct task_struct *next)
{
	__u64 now = bpf_ktime_get_ns();
	struct dbt_account *account;

	switch_out(prev, preempted, now);
	if (!trace_calls)
		return 0;
	account = bpf_task_storage_get(&accounts, next, 0, 0);
	if (account && account->status == ACCOUNT_OPEN) {
		begin_write(account);
		account->arrival = now;
		end_write(account);
	}
	return 0;
}

/* The task exits: closes its account and sends it. False = it has none. */
static __always_inline bool close_account(struct task_struct *task, struct dbt_totals *totals)
{
	struct dbt_account *account = bpf_task_storage_get(&accounts, task, 0, 0);
	__u64 now = totals->event.time_ns;

	if (!account || account->status != ACCOUNT_OPEN)
		return false;
	totals->on_cpu_ns = run_time_of(account, task, now);
	begin_write(account);
	if (trace_calls) {
		settle_own_calls(account, task, now);
		close_wait(account, &account->left_wait);
		close_wait(account, &account->open_wait);
	} else {
		settle_switches(account, now, totals->on_cpu_ns, totals->run_queue_ns, true);
	}
	account->status = ACCOUNT_NEW;
	account->sums.totals = *totals;
	end_write(account);
	emit(&account->sums, sums_size(&account->sums), BPF_RB_FORCE_WAKEUP);
	return true;
}

/* Since Linux 6.13 a program at a system call may be preempted, as the tracepoint may fault, and the switch would find the account half
 * written. Before that it could not. These kfuncs are older, but at first forbade what is done here while preemption is off. */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

static __always_inline bool may_lose_cpu(void)
{
	return bpf_core_field_exists(struct tracepoint_ext, faultable);
}

static __always_inline void hold_cpu(void)
{
	if (may_lose_cpu() && bpf_ksym_exists(bpf_preempt_disable))
		bpf_preempt_disable();
}

static __always_inline void release_cpu(void)
{
	if (may_lose_cpu() && bpf_ksym_exists(bpf_preempt_enable))
		bpf_preempt_enable();
}

/* In the context of the waker, or of the interrupt. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct dbt_account *account = bpf_task_storage_get(&accounts, task, 0, 0);

	if (!account || account->status != ACCOUNT_OPEN || account->mode != MODE_OFF || account->woken)
		return 0;
	account->waker = in_interrupt(ctx, bpf_get_current_task_btf()) ? 0 : bpf_get_current_pid_tgid() >> 32;
	account->woken = bpf_ktime_get_ns();
	return 0;
}

#include "reads.bpf.h"

static __always_inline void begin_call(struct dbt_account *account, struct task_struct *task, struct pt_regs *regs,
				       long id)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 wait;

	if (account->status != ACCOUNT_OPEN && !open_own(account, task, now))
		return;
	begin_write(account);
	wait = read_wait(account, is_work(id));
	settle_own_calls(account, task, now);
	if (may_send(account))
		send_sums(account, now, run_time_of(account, task, now), task->sched_info.run_delay);
	account->call_cell = own_cell_of(account, wait);
	count(account, account->call_cell, EXACT_CALL);
	wait_at_call(account, wait, account->call_cell, id, now);
	command_at_call(&account->histograms, &account->command, &account->sums.totals.event.task, &account->activity, wait, id,
			now);
	account->in_call = 1;
	account->mode = MODE_CALL;
	account->call = id;
	account->call_flags = 0;
	account->call_begin = now;
	account->call_cpu = 0;
	account->device = 0;
	account->call_fd = regs->di;
	end_write(account);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_call, struct pt_regs *regs, long id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct dbt_account *account = bpf_task_storage_get(&accounts, task, 0, 0);

	if (!account)
		return 0;
	hold_cpu();
	begin_call(account, task, regs, id);
	release_cpu();
	return 0;
}

static __always_inline void return_from_call(struct dbt_account *account, struct task_struct *task, long result)
{
	__u64 now = bpf_ktime_get_ns(), begin = account->call_begin;

	if (account->status != ACCOUNT_OPEN && !open_own(account, task, now))
		return;
	begin_write(account);
	settle_own_calls(account, task, now);
	account->in_call = 0;
	account->mode = MODE_OUTSIDE;
	account->call_begin = 0;
	if (begin)
		wait_at_return(account, result, now);
	else
		wait_at_unseen_return(account);
	command_at_return(&account->command, wait_in(account, account->call_cell), account->call, result, now);
	end_write(account);
	if (begin)
		end_call(account, task, now - begin, result);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_return, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct dbt_account *account = bpf_task_storage_get(&accounts, task, 0, 0);

	if (!account)
		return 0;
	hold_cpu();
	return_from_call(account, task, result);
	release_cpu();
	return 0;
}

#endif
