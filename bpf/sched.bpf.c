// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* dbtime sched: every turn of the tasks of interest, and who ran instead.
 *
 * A turn is sent when it ends, at switch-out. The kernel itself accounts for how long the task ran and was in the run queue,
 * so a missed switch merges two turns into one and loses no time. To tell who ran instead, each CPU remembers the tasks it
 * last switched to: a few words written at every switch of the host, read only for tasks of interest. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "dbtime.h"
#include "sched.h"
#include "events.bpf.h"
#include "wait_source.bpf.h"
#include "statement_text.bpf.h"
#include "interrupt.bpf.h"

/* A task of interest. Written only by its own task, except for what its waker and whoever moves it write while it is off
 * CPU. */
struct dbt_sched_task {
	struct dbt_wait_source source;
	struct dbt_text text; /* its latest text */
	__u32 is_parent;   /* its children are of interest too */
	__u32 is_off;      /* it is off CPU, or was when it was last seen */
	__u64 since;       /* its last switch-out; 0 = none was seen */
	__u64 run_time;    /* the kernel's, then */
	__u64 run_delay;   /* the kernel's, then */
	__u64 switches;    /* the kernel's count of them, then */
	__u64 ahead;       /* runtime booked by the kernel for which no time had passed yet */
	__s64 owed_delay;  /* run delay booked by the kernel beyond what was reported */
	__u64 queued;      /* since when it has been queued on the CPU that it was last seen on; 0 = not known */
	__u64 moved;       /* when it was last moved while it was queued; 0 = it was not */
	__u32 last_cpu;
	__u32 pad;
	struct dbt_turn turn; /* being filled */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct dbt_sched_task);
} sched_tasks SEC(".maps");

#define STAYS 64 /* that a CPU remembers; a power of two */

struct dbt_stay {
	__u64 since;
	__u32 pid;
	__u32 pad;
	char comm[COMM];
};

/* The tasks that a CPU last switched to: only that CPU writes it. */
struct dbt_cpu {
	__u64 next; /* counts up */
	struct dbt_stay stays[STAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* user space sets it to the number of CPUs */
	__type(key, __u32);
	__type(value, struct dbt_cpu);
} cpus SEC(".maps");

/* One scan of a CPU's stays. */
struct dbt_look {
	struct dbt_sched_task *account;
	struct dbt_cpu *cpu;
	__u64 next; /* of the CPU, when the scan began */
	__u64 from; /* stays are wanted from here … */
	__u64 to;
	__u64 end; /* of the current stay */
	__u32 self;
};

static __always_inline void add_occupant(struct dbt_sched_task *account, struct dbt_stay *stay, __u64 ns)
{
	struct dbt_turn *turn = &account->turn;
	struct dbt_occupant *who;
	__u32 i;

	for (i = 0; i < MAX_OCCUPANTS; i++) {
		who = &turn->who[i];
		if (i >= turn->occupants) {
			who->ns = 0;
			who->pad = 0;
			who->pid = i < MAX_OCCUPANTS - 1 ? stay->pid : OTHER_TASKS;
			__builtin_memcpy(who->comm, stay->comm, COMM);
			turn->occupants = i + 1;
		}
		if (who->pid == stay->pid || i == MAX_OCCUPANTS - 1) {
			who->ns += ns;
			return;
		}
	}
}

/* Visits a stay; the newest comes first. */
static long look_at_stay(__u32 index, void *context)
{
	struct dbt_look *look = context;
	struct dbt_stay *stay = &look->cpu->stays[(look->next - 1 - index) & (STAYS - 1)];
	__u64 begin = stay->since > look->from ? stay->since : look->from;
	__u64 end = look->end < look->to ? look->end : look->to;

	if (!stay->since)
		return 1;
	if (begin < end && stay->pid != look->self)
		add_occupant(look->account, stay, end - begin);
	look->end = stay->since;
	return stay->since <= look->from;
}

/* Adds who had this CPU from `from` to `to`. */
static __always_inline void look_at_cpu(struct dbt_sched_task *account, __u32 number, __u32 self, __u64 from, __u64 to)
{
	struct dbt_look look = {
		.account = account,
		.cpu = bpf_map_lookup_elem(&cpus, &number),
		.from = from,
		.to = to,
		.end = ~0ULL,
		.self = self,
	};

	if (!look.cpu || from >= to)
		return;
	look.next = look.cpu->next;
	bpf_loop(STAYS, look_at_stay, &look, 0);
}

/* Records the kernel's counters at a switch-out, from which the next turn counts. */
static __always_inline void open_turn(struct dbt_sched_task *account, struct task_struct *task, __u64 now)
{
	account->since = now;
	account->run_time = task->se.sum_exec_runtime;
	account->run_delay = task->sched_info.run_delay;
	account->switches = task->nvcsw + task->nivcsw;
}

static __always_inline void end_turn(struct dbt_sched_task *account, struct task_struct *task, __u64 now, __u32 cpu)
{
	struct dbt_turn *turn = &account->turn;
	__u64 elapsed = now > account->since ? now - account->since : 0;
	__u64 run = account->ahead + task->se.sum_exec_runtime - account->run_time, off, size, arrived, from;
	__s64 booked = account->owed_delay + (__s64)(task->sched_info.run_delay - account->run_delay), delay = booked;

	/* The two clocks are some nanoseconds apart: any excess belongs to the next turn. */
	account->ahead = run > elapsed ? run - elapsed : 0;
	run -= account->ahead;
	off = elapsed - run;
	if (!turn->wait_state || turn->flags & TURN_WAIT_PUSHED_OFF || delay > (__s64)off)
		delay = off;
	if (delay < 0)
		delay = 0;
	account->owed_delay = booked - delay;
	arrived = now - run;
	from = arrived - delay;
	if (account->moved > from)
		from = account->moved;
	look_at_cpu(account, cpu, task->pid, from, arrived);

	turn->kind = SCHED_TURN;
	turn->cpu = cpu;
	turn->task.pid = task->pid;
	turn->task.pad = 0;
	turn->task.start_ns = task->start_time;
	turn->since_ns = account->since;
	turn->time_ns = now;
	turn->run_ns = run;
	turn->delay_ns = delay;
	turn->missed = task->nvcsw + task->nivcsw - account->switches - 1;
	turn->priority = task->prio;
	if (account->last_cpu != cpu || turn->migrations)
		turn->flags |= TURN_MOVED;
	bpf_probe_read_kernel_str(turn->comm, COMM, task->comm);
	size = turn->occupants;
	if (size > MAX_OCCUPANTS)
		size = MAX_OCCUPANTS;
	/* No wakeup: user space polls, and would only be one more task that runs instead. */
	emit(turn, sizeof(*turn) - sizeof(turn->who) + size * sizeof(turn->who[0]), BPF_RB_NO_WAKEUP);
}

static __always_inline void leave(struct task_struct *task, bool preempted, __u64 now, __u32 cpu)
{
	struct dbt_sched_task *account = bpf_task_storage_get(&sched_tasks, task, 0, 0);
	struct dbt_activity activity;
	struct dbt_turn *turn;
	__u32 state = task->__state;
	bool in_iowait;

	if (!account)
		return;
	activity = own_activity(&account->source);
	name_statement(0, &account->source, &account->text, &activity, false);
	turn = &account->turn;
	in_iowait = BPF_CORE_READ_BITFIELD(task, in_iowait);
	turn->state = state;
	turn->statement = activity.statement;
	turn->flags |= (preempted ? TURN_PUSHED_OFF : 0) | (in_iowait ? TURN_IN_IOWAIT : 0);
	if (account->since)
		end_turn(account, task, now, cpu);
	/* The next turn. */
	open_turn(account, task, now);
	turn->wait = activity.wait;
	turn->wait_state = state;
	turn->wait_statement = activity.statement;
	turn->wait_session_state = activity.session_state;
	turn->flags = (preempted ? TURN_WAIT_PUSHED_OFF : 0) | (in_iowait ? TURN_WAIT_IN_IOWAIT : 0);
	turn->migrations = 0;
	turn->waker = 0;
	turn->occupants = 0;
	account->last_cpu = cpu;
	account->moved = 0;
	account->queued = preempted || !state ? now : 0;
	account->is_off = 1;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempted, struct task_struct *prev, struct task_struct *next)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 number = bpf_get_smp_processor_id();
	struct dbt_sched_task *account;
	struct dbt_cpu *cpu;
	struct dbt_stay *stay;

	leave(prev, preempted, now, number);
	account = bpf_task_storage_get(&sched_tasks, next, 0, 0);
	if (account)
		account->is_off = 0;
	cpu = bpf_map_lookup_elem(&cpus, &number);
	if (!cpu)
		return 0;
	stay = &cpu->stays[cpu->next & (STAYS - 1)];
	stay->since = now;
	stay->pid = next->pid;
	bpf_probe_read_kernel_str(stay->comm, COMM, next->comm);
	cpu->next++;
	return 0;
}

/* In the context of the waker, or of the interrupt. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	struct dbt_sched_task *account = bpf_task_storage_get(&sched_tasks, task, 0, 0);
	struct dbt_turn *turn;

	if (!account || !account->is_off || account->queued)
		return 0;
	turn = &account->turn;
	account->queued = bpf_ktime_get_ns();
	turn->flags |= TURN_WOKEN;
	turn->waker = 0;
	turn->waker_comm[0] = 0;
	if (!in_interrupt(ctx, bpf_get_current_task_btf())) {
		turn->waker = bpf_get_current_pid_tgid();
		bpf_get_current_comm(turn->waker_comm, COMM);
	}
	return 0;
}

/* Called before the move. While the task was queued, others had the CPU that it leaves. */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_move, struct task_struct *task, int to)
{
	struct dbt_sched_task *account = bpf_task_storage_get(&sched_tasks, task, 0, 0);
	__u64 now, from;

	if (!account)
		return 0;
	account->turn.migrations++;
	if (!account->is_off || !account->queued)
		return 0;
	now = bpf_ktime_get_ns();
	from = account->moved ? account->moved : account->queued;
	look_at_cpu(account, BPF_CORE_READ(task, thread_info.cpu), task->pid, from, now);
	account->moved = now;
	return 0;
}

static __always_inline void tell_life(__u32 kind, struct task_struct *task)
{
	struct dbt_sched_life life = {
		.kind = kind,
		.task.pid = task->pid,
		.task.start_ns = task->start_time,
	};

	emit(&life, sizeof(life), BPF_RB_FORCE_WAKEUP);
}

/* A child of a parent of interest is of interest itself from its first instruction on. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct dbt_sched_task *of_parent, *account;

	if (child->tgid != child->pid) /* a thread, not a process */
		return 0;
	of_parent = bpf_task_storage_get(&sched_tasks, parent, 0, 0);
	if (!of_parent || !of_parent->is_parent)
		return 0;
	account = bpf_task_storage_get(&sched_tasks, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!account) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	account->source = of_parent->source;
	open_turn(account, child, child->start_time);
	account->queued = bpf_ktime_get_ns();
	account->last_cpu = bpf_get_smp_processor_id();
	account->is_off = 1;
	tell_life(SCHED_BEGIN, child);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	if (bpf_task_storage_get(&sched_tasks, task, 0, 0))
		tell_life(SCHED_END, task);
	return 0;
}

/* Events that are in no map: named here so that the skeleton has their types. */
struct dbt_sched_life life_type = {};
struct dbt_turn turn_type = {};

/* The same for enums. */
struct dbt_enums {
	enum dbt_sched_event event;
	enum dbt_turn_flag turn_flag;
	enum dbt_nobody nobody;
	enum dbt_wait_mark wait_mark;
} enums_type = {};

char LICENSE[] SEC("license") = "Dual BSD/GPL";
