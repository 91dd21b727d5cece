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

#include "exact.bpf.h"

/* Children for which `targets` had no room. */
__u64 targets_full = 0;

/* A child of the postmaster is a session from its first instruction on. It has its parent's address space, so
 * its wait event lies at the same address. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 parent_pid = parent->tgid, pid = child->pid;
	struct dbt_target *of_parent, target = {};
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
	fill_event(&totals.event, EVENT_END, pid, task->start_time);
	totals.on_cpu_ns = on_cpu_time(task->se.sum_exec_runtime, task->se.exec_start, totals.event.time_ns);
	totals.run_queue_ns = task->sched_info.run_delay;
	bpf_map_delete_elem(&targets, &pid);
	if (!exact || !close_account(task, &totals))
		emit(&totals, sizeof(totals), BPF_RB_FORCE_WAKEUP);
	return 0;
}

#endif
