/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Who ends the sleeps in which the sampler found a session. A sleep is marked when it is sampled, and its end sends one event: so
 * there are no more of them than samples, however often sessions sleep. */
#ifndef WAKEUPS_BPF_H
#define WAKEUPS_BPF_H

#include "interrupt.bpf.h"

/* Of a task. */
struct dbt_mark {
	__u64 switches; /* its context switches while it sleeps, and 1: a sleep is known by them; 0 = none is marked */
	__u64 noted;    /* the same of the sleep in which it was noted at a moment */
	__u32 slot;     /* then: where the sampler keeps it, counted from 1 */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct dbt_mark);
} marks SEC(".maps");

/* A task that is off CPU was found asleep when it had made so many switches. It may have been woken since: then another sleep has
 * other switches, and this mark is of none. */
static __always_inline void mark_sleep(struct task_struct *task, __u64 switches)
{
	struct dbt_mark *mark = bpf_task_storage_get(&marks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (mark)
		mark->switches = switches + 1;
}

/* moment.bpf.h */
static __always_inline void note_waking(struct task_struct *task, struct task_struct *waker, struct dbt_mark *mark);

/* In the context of whoever wakes, or of the interrupt. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking_sampled, struct task_struct *task)
{
	struct dbt_mark *mark = bpf_task_storage_get(&marks, task, 0, 0);
	struct task_struct *waker = bpf_get_current_task_btf();
	struct dbt_woken woken = {};
	__u64 switches;

	if (!mark)
		return 0;
	if (note_moments && mark->noted)
		note_waking(task, waker, mark);
	if (!mark->switches)
		return 0;
	switches = mark->switches - 1;
	mark->switches = 0;
	if (switches != switches_of(task))
		return 0;
	fill_event(&woken.event, EVENT_WOKEN, task->pid, task->start_time);
	if (!in_interrupt(ctx, waker)) {
		woken.waker.pid = waker->tgid;
		woken.waker.start_ns = BPF_CORE_READ(waker, group_leader, start_time);
	}
	emit(&woken, sizeof(woken), BPF_RB_NO_WAKEUP);
	return 0;
}

#endif
