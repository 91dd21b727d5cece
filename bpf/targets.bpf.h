/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Which tasks are sampled; they come and go by themselves. */
#ifndef TARGETS_BPF_H
#define TARGETS_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* user space sets it */
	__type(key, __u32);
	__type(value, struct dbt_target);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16384); /* user space sets it */
	__type(key, __u32);
	__type(value, struct dbt_slot);
} slots SEC(".maps");

/* By the same numbers. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16384); /* user space sets it */
	__type(key, __u32);
	__type(value, struct dbt_rest);
} rests SEC(".maps");

/* The n-th slot of a list, and its number. */
static __always_inline struct dbt_slot *listed_slot(void *list, __u32 n, __u32 *number)
{
	__u32 *found = bpf_map_lookup_elem(list, &n);

	if (!found)
		return 0;
	*number = *found;
	return bpf_map_lookup_elem(&slots, number);
}

/* Slots for future sessions: user space keeps some ready, so that the sampler visits a session from its first moment on.
 * Many live no longer than it takes user space to hear of them. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1); /* user space sets it */
	__type(value, __u32);
} free_slots SEC(".maps");

#define NO_ROW (~0ULL) /* in `switches` of a slot */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dbt_config);
} configuration SEC(".maps");

/* The kernel accepts a timer that notes what sessions do at the moment of a pass. Set before loading. */
const volatile bool note_moments = false;
/* Stacks are wanted. Set before loading. */
const volatile bool take_stacks = false;

#include "exact.bpf.h"

/* Children for which `targets` had no room. */
__u64 targets_full = 0;

/* Gives the child a slot. Returns its number, counted from 1; 0 = there is none, user space will give it one. */
static __always_inline __u32 take_free_slot(struct task_struct *child, struct dbt_wait_source *source)
{
	struct dbt_slot *slot;
	__u32 index;

	if (bpf_map_pop_elem(&free_slots, &index))
		return 0;
	slot = bpf_map_lookup_elem(&slots, &index);
	if (!slot)
		return 0;
	slot->task.start_ns = child->start_time;
	slot->source = *source;
	slot->switches = NO_ROW;
	ordered();
	slot->task.pid = child->pid; /* the sampler takes it from now on */
	return index + 1;
}

/* A child of the postmaster is a session from its first instruction on. It has a copy of its parent's address space, so
 * its wait event is at the same address. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 parent_pid = parent->tgid, pid = child->pid;
	struct dbt_target *of_parent, *of_child, target = {};
	struct dbt_begin begin = {};

	if (child->tgid != child->pid) /* a thread, not a process */
		return 0;
	of_parent = bpf_map_lookup_elem(&targets, &parent_pid);
	if (!of_parent || !of_parent->is_parent)
		return 0;
	target.source = of_parent->source;
	target.space = of_parent->space;
	if (bpf_map_update_elem(&targets, &pid, &target, BPF_ANY)) {
		__sync_fetch_and_add(&targets_full, 1);
		return 0;
	}
	of_child = bpf_map_lookup_elem(&targets, &pid);
	if (of_child)
		of_child->slot = begin.slot = take_free_slot(child, &target.source);
	if (exact)
		open_child(child, &target.source);
	fill_event(&begin.event, EVENT_BEGIN, pid, child->start_time);
	begin.source = target.source;
	emit(&begin, sizeof(begin), BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* Last totals, in the context of the task itself. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	__u32 pid = task->pid;
	struct dbt_totals totals = {};

	if (!bpf_map_lookup_elem(&targets, &pid))
		return 0;
	read_last_transaction(pid);
	fill_event(&totals.event, EVENT_END, pid, task->start_time);
	totals.on_cpu_ns = on_cpu_time(task, totals.event.time_ns);
	totals.run_queue_ns = task->sched_info.run_delay;
	if (count_tasks)
		emit_counts(task, pid, task->start_time, totals.on_cpu_ns);
	bpf_map_delete_elem(&targets, &pid);
	if (!exact || !close_account(task, &totals))
		emit(&totals, sizeof(totals), BPF_RB_FORCE_WAKEUP);
	return 0;
}

#endif
