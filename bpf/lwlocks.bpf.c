// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* dbtime latch --exact: every time a session of one server acquires or releases one of its internal locks (LWLocks).
 *
 * Probes are in the server's functions that do it: where a lock is requested, where the session sleeps for it, where it is released. The
 * kernel keeps which locks a session holds and since when; at a release, all that is known about that hold is added to a sum. Nothing is
 * sent. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "dbtime.h"
#include "one_wait_source.bpf.h"
#include "page_locks.bpf.h"
#include "statement_text.bpf.h"

/* What counts. Written by user space, before and while programs run. */
struct dbt_lock_window {
	__u64 begin; /* CLOCK_MONOTONIC nanoseconds: what is before it, or after the end, does not count */
	__u64 end;
	__u64 epoch;  /* which of two maps is filled: as in latency.bpf.h */
	__u32 server; /* the first process of the server: it and its children count */
	__u32 only;   /* the one process that counts; 0 = all of them */
};

struct dbt_lock_window lock_window SEC(".data.window") = { .begin = ~0ULL, .end = ~0ULL };

/* The server is built with frame pointers. Set before loading. */
const volatile bool keeps_frames = false;

/* What is told apart. */
struct dbt_lock_key {
	__u64 start_ns; /* of the task */
	__u64 lock;     /* its address; 0 = all of its kind, for lack of room */
	__u64 caller;   /* return address of the requesting call; 0 = any, for lack of room */
	__u64 outer;    /* return address one frame up; 0 = not known */
	__u64 statement; /* executed when it was requested; 0 = not known, or any, for lack of room */
	__u32 pid;
	__u16 kind;
	__u16 mode; /* 0 = exclusive, 1 = shared */
	struct dbt_page page; /* none: not a page's lock, or not known */
	__u32 pad;
};

struct dbt_lock_sums {
	__u64 gets;
	__u64 waited;      /* of these, those that slept; and those that waited and did not get it */
	__u64 wait_ns;     /* from request to acquisition */
	__u64 max_wait_ns;
	__u64 refused;     /* requested only if free, and it was not */
	__u64 holds;
	__u64 hold_ns;
	__u64 max_hold_ns;
};

/* A lock that a session holds or requests. How much of it counts is decided at its release: by then another time may count. */
struct dbt_hold {
	__u64 lock;
	__u64 caller;
	__u64 outer;
	__u64 statement;
	__u64 asked; /* when it was requested */
	__u64 since; /* when the session got it, if it has it */
	__u16 kind;
	__u16 mode;
	__u16 waited; /* in between */
	__u16 waits;  /* it does not have it yet */
	struct dbt_page page; /* as in struct dbt_lock_key */
	__u32 pad;
};

#define MAX_HELD 32 /* a power of two */

struct dbt_lock_task {
	__u64 start_ns;
	__u32 pid;
	__u32 count;
	__u32 newest; /* the last one is that which LWLockAcquire is acquiring, or acquired last */
	__u32 pad;
	struct dbt_text text;
	struct dbt_hold asked; /* a request whose outcome is known only at its end; lock 0 = none */
	struct dbt_hold held[MAX_HELD];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct dbt_lock_task);
} lock_tasks SEC(".maps");

struct lock_sums_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, struct dbt_lock_key);
	__type(value, struct dbt_lock_sums);
} lock_sums_even SEC(".maps"), lock_sums_odd SEC(".maps");

/* Where these have no room: by session, kind and mode. */
struct lock_kinds_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct dbt_lock_key);
	__type(value, struct dbt_lock_sums);
} lock_kinds_even SEC(".maps"), lock_kinds_odd SEC(".maps");

enum dbt_hit {
	HIT_OWN,   /* in the observed server */
	HIT_OTHER, /* in another process of the same executable */
	HITS,
};

/* How often programs ran. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, HITS);
	__type(key, __u32);
	__type(value, __u64);
} lock_hits SEC(".maps");

__u64 uses_lost = 0;           /* for which there was no room at all */
__u64 releases_without_get = 0; /* in the time that counts, of locks acquired before they were observed */
__u64 holds_without_room = 0;  /* a session held more locks than are kept: such a hold has no end */

static __always_inline void count_hit(__u32 whose)
{
	__u64 *hits = bpf_map_lookup_elem(&lock_hits, &whose);

	/* It is this CPU's own, but another task may come in between. */
	if (hits)
		__sync_fetch_and_add(hits, 1);
}

/* The running task, if it is a session that counts. */
static __always_inline struct dbt_lock_task *own_task(void)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct dbt_lock_task *task = bpf_task_storage_get(&lock_tasks, current, 0, 0);
	__u32 server = lock_window.server, only = lock_window.only, tgid = current->tgid;

	if (!task && (only ? tgid == only : tgid == server || current->real_parent->tgid == server)) {
		task = bpf_task_storage_get(&lock_tasks, current, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (task) {
			task->start_ns = current->start_time;
			task->pid = current->pid;
		} else {
			__sync_fetch_and_add(&uses_lost, 1);
		}
	}
	count_hit(task ? HIT_OWN : HIT_OTHER);
	return task;
}

/* The same, if it was seen before. */
static __always_inline struct dbt_lock_task *known_task(void)
{
	struct dbt_lock_task *task = bpf_task_storage_get(&lock_tasks, bpf_get_current_task_btf(), 0, 0);

	count_hit(task ? HIT_OWN : HIT_OTHER);
	return task;
}

/* How much of this time counts. */
static __always_inline __u64 that_counts(__u64 from, __u64 to)
{
	__u64 begin = lock_window.begin, end = lock_window.end;

	if (from < begin)
		from = begin;
	if (to > end)
		to = end;
	return to > from ? to - from : 0;
}

static __always_inline bool counts(__u64 now)
{
	return now >= lock_window.begin && now < lock_window.end;
}

static __always_inline struct dbt_lock_sums *element_of(void *map, struct dbt_lock_key *key)
{
	struct dbt_lock_sums none = {}, *sums = bpf_map_lookup_elem(map, key);

	if (sums)
		return sums;
	bpf_map_update_elem(map, key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, key);
}

/* The sums for this session's uses of a lock. Only the session itself adds to them. */
static __always_inline struct dbt_lock_sums *sums_of(struct dbt_lock_task *task, struct dbt_hold *hold)
{
	struct dbt_lock_key key = {
		.start_ns = task->start_ns,
		.lock = hold->lock,
		.caller = hold->caller,
		.outer = hold->outer,
		.statement = hold->statement,
		.pid = task->pid,
		.kind = hold->kind,
		.mode = hold->mode,
		.page = hold->page,
	};
	bool is_odd = lock_window.epoch & 1;
	struct dbt_lock_sums *sums = element_of(is_odd ? (void *)&lock_sums_odd : (void *)&lock_sums_even, &key);

	if (!sums) {
		key.lock = key.caller = key.outer = key.statement = 0;
		__builtin_memset(&key.page, 0, sizeof(key.page));
		sums = element_of(is_odd ? (void *)&lock_kinds_odd : (void *)&lock_kinds_even, &key);
	}
	if (!sums)
		__sync_fetch_and_add(&uses_lost, 1);
	return sums;
}

/* Adds what came before the session got it, or did not. */
static __always_inline void add_wait(struct dbt_lock_sums *sums, struct dbt_hold *hold)
{
	__u64 ns = hold->waited ? that_counts(hold->asked, hold->since) : 0;

	sums->waited += hold->waited && counts(hold->since) ? 1 : 0;
	sums->wait_ns += ns;
	if (ns > sums->max_wait_ns)
		sums->max_wait_ns = ns;
}

/* What the session executes. */
static __always_inline __u64 own_statement(struct dbt_text *text)
{
	struct dbt_wait_source *source = source_of_all();
	struct dbt_activity activity = {};
	__u64 record = 0;

	if (!source->statement || bpf_probe_read_user(&record, sizeof(record), (void *)source->statement) || !record)
		return 0;
	read_record(0, source, record, &activity);
	name_by_record(0, source, record, text, &activity, false);
	return activity.statement;
}

/* Reads what the lock says about itself. */
static __always_inline void read_lock(struct dbt_hold *hold)
{
	struct dbt_wait_source *source = source_of_all();

	hold->kind = 0;
	bpf_probe_read_user(&hold->kind, sizeof(hold->kind), (void *)hold->lock);
	read_page(0, source, hold->lock, &hold->page);
}

/* A lock is being requested: (lock, mode). */
static __always_inline void ask(struct pt_regs *ctx, struct dbt_lock_task *task, struct dbt_hold *asked)
{
	asked->lock = PT_REGS_PARM1(ctx);
	asked->mode = PT_REGS_PARM2(ctx);
	asked->caller = 0;
	asked->outer = 0;
	asked->waited = 0;
	asked->waits = 0;
	bpf_probe_read_user(&asked->caller, sizeof(asked->caller), (void *)PT_REGS_SP(ctx));
	if (keeps_frames)
		bpf_probe_read_user(&asked->outer, sizeof(asked->outer), (void *)(PT_REGS_FP(ctx) + 8));
	read_lock(asked);
	asked->statement = own_statement(&task->text);
	/* Last, so that the cost of observing is not part of it. */
	asked->asked = asked->since = bpf_ktime_get_ns();
}

/* A page of shared memory may not have been mapped for this process before the request. */
static __always_inline void read_lock_again(struct dbt_hold *hold)
{
	if (!hold->kind)
		read_lock(hold);
}

/* The entry of LWLockAcquire. It always gets the lock, some nanoseconds from now if it does not wait. */
SEC("uprobe")
int on_acquire(struct pt_regs *ctx)
{
	struct dbt_lock_task *task = own_task();
	struct dbt_lock_sums *sums;
	__u32 count;

	if (!task)
		return 0;
	count = task->count;
	if (count < MAX_HELD) {
		ask(ctx, task, &task->held[count & (MAX_HELD - 1)]);
		task->count = count + 1;
		task->newest = 1;
		return 0;
	}
	task->newest = 0;
	ask(ctx, task, &task->asked);
	if (counts(task->asked.since)) {
		__sync_fetch_and_add(&holds_without_room, 1);
		sums = sums_of(task, &task->asked);
		if (sums)
			sums->gets++;
	}
	task->asked.lock = 0;
	return 0;
}

/* The lock that LWLockAcquire is acquiring, in a session that sleeps in it: nothing has come since. */
static __always_inline struct dbt_hold *wanted_by(struct dbt_lock_task *task)
{
	if (!task || !task->newest || !task->count)
		return 0;
	return &task->held[(task->count - 1) & (MAX_HELD - 1)];
}

/* LWLockAcquire calls the function that sleeps. */
SEC("uprobe")
int on_sleep(struct pt_regs *ctx)
{
	struct dbt_hold *hold = wanted_by(known_task());

	if (hold)
		hold->waits = 1;
	return 0;
}

/* And returns from it. It then checks whether it got the lock, and may sleep again. */
SEC("uprobe")
int on_awake(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct dbt_hold *hold = wanted_by(known_task());

	if (hold) {
		hold->waits = 0;
		hold->waited = 1;
		hold->since = now;
	}
	return 0;
}

/* The entry of LWLockConditionalAcquire, LWLockAcquireOrWait: only at their end is it known whether the session got the lock. */
SEC("uprobe")
int on_try(struct pt_regs *ctx)
{
	struct dbt_lock_task *task = own_task();

	if (task)
		ask(ctx, task, &task->asked);
	return 0;
}

/* It has got the lock now, or it has not. */
static __always_inline void tried_until(struct dbt_lock_task *task, bool got, bool waited, __u64 now)
{
	struct dbt_hold *asked = &task->asked, *hold;
	struct dbt_lock_sums *sums;
	__u32 count = task->count;

	/* The beginning was not seen. */
	if (!asked->lock)
		return;
	read_lock_again(asked);
	asked->since = now;
	asked->waited = waited;
	if (got && count < MAX_HELD) {
		hold = &task->held[count & (MAX_HELD - 1)];
		*hold = *asked;
		task->count = count + 1;
		task->newest = 0;
		asked->lock = 0;
		/* The cost of observing is not part of it. */
		hold->since = bpf_ktime_get_ns();
		return;
	}
	if (counts(now) || that_counts(asked->asked, now)) {
		if (got)
			__sync_fetch_and_add(&holds_without_room, 1);
		sums = sums_of(task, asked);
		if (sums) {
			add_wait(sums, asked);
			sums->gets += got && counts(now) ? 1 : 0;
			sums->refused += !got && !waited && counts(now) ? 1 : 0;
		}
	}
	asked->lock = 0;
}

/* The end of LWLockConditionalAcquire: true = it got the lock. */
SEC("uprobe")
int on_tried(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct dbt_lock_task *task = known_task();

	if (task)
		tried_until(task, PT_REGS_RC(ctx) & 0xff, false, now);
	return 0;
}

/* The end of LWLockAcquireOrWait: true = it got the lock; otherwise it has waited until that was free. */
SEC("uprobe")
int on_got_or_waited(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct dbt_lock_task *task = known_task();
	bool got = PT_REGS_RC(ctx) & 0xff;

	if (task)
		tried_until(task, got, !got, now);
	return 0;
}

/* The entry of LWLockRelease and LWLockDisown: (lock). */
SEC("uprobe")
int on_release(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns(), lock = PT_REGS_PARM1(ctx), ns;
	struct dbt_lock_task *task = own_task();
	struct dbt_lock_sums *sums;
	struct dbt_hold hold = {};
	__u32 count, at = 0, i;

	if (!task)
		return 0;
	count = task->count;
	/* The latest one first: most are released in that order. */
	for (i = 0; i < MAX_HELD; i++) {
		if (i >= count)
			break;
		at = (count - 1 - i) & (MAX_HELD - 1);
		if (task->held[at].lock == lock) {
			hold = task->held[at];
			break;
		}
	}
	if (!hold.lock) {
		if (counts(now))
			__sync_fetch_and_add(&releases_without_get, 1);
		return 0;
	}
	task->held[at & (MAX_HELD - 1)] = task->held[(count - 1) & (MAX_HELD - 1)];
	task->count = count - 1;
	task->newest = 0;
	read_lock_again(&hold);
	ns = that_counts(hold.since, now);
	if (!ns && !that_counts(hold.asked, hold.since))
		return 0;
	sums = sums_of(task, &hold);
	if (!sums)
		return 0;
	add_wait(sums, &hold);
	sums->gets += counts(hold.since) ? 1 : 0;
	if (!ns)
		return 0;
	sums->holds++;
	sums->hold_ns += ns;
	if (ns > sums->max_hold_ns)
		sums->max_hold_ns = ns;
	return 0;
}

/* Not in any map: named here so that the skeleton has its type. */
struct dbt_enums {
	enum dbt_hit hit;
} enums_type = {};

char LICENSE[] SEC("license") = "Dual BSD/GPL";
