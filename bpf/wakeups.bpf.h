/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Who ends the sleeps in which the sampler found a session. A sleep is marked when it is sampled, and its end sends one event: so
 * there are no more events than samples, however often sessions sleep. A sleep that was over just before the sampler came cannot
 * be marked: so for each session that sleeps its last waker is noted. */
#ifndef WAKEUPS_BPF_H
#define WAKEUPS_BPF_H

#include "interrupt.bpf.h"

/* One per task. */
struct dbt_mark {
	__u64 switches; /* its context switches while it sleeps, plus 1: they identify a sleep; 0 = none is marked */
	__u64 slept_switches; /* its context switches in the sleep that ended last */
	__u64 woken_ns; /* when it was woken last, CLOCK_MONOTONIC; 0 = not seen yet */
	struct dbt_task_id waker; /* by whom; pid 0 = an interrupt */
	__u64 waker_stack; /* where the waker's stack begins: the same in all processes of a server; 0 = it has none */
	__u64 noted;    /* as `switches`, of the sleep in which it was noted at a moment */
	__u32 slot;     /* its slot then, counted from 1 */
	__u32 state;    /* raw __state of the sleep that ended last */
	__u32 in_iowait; /* it slept for block I/O then */
	__u32 rests_in; /* its slot, counted from 1, if the sampler has to learn when it is woken; 0 = it has not */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct dbt_mark);
} marks SEC(".maps");

/* A task that is off CPU was found asleep after this many switches. It may have been woken since: its next sleep has another
 * count, so this mark then belongs to none. */
static __always_inline void mark_sleep(struct task_struct *task, __u64 switches)
{
	struct dbt_mark *mark = bpf_task_storage_get(&marks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (mark)
		mark->switches = switches + 1;
}

static __always_inline void tell_waker(struct task_struct *task, __u64 woken_ns, struct dbt_task_id *waker)
{
	struct dbt_woken woken = {};

	if (!follow_sleeps)
		return;
	fill_event(&woken.event, EVENT_WOKEN, task_field(task, pid), task_field(task, start_time));
	woken.event.time_ns = woken_ns;
	woken.waker = *waker;
	emit(&woken, sizeof(woken), BPF_RB_NO_WAKEUP);
}

/* For a task that was found on a CPU, or in the run queue, and has got there from a sleep. */
static __always_inline void tell_last_waker(struct task_struct *task)
{
	struct dbt_mark *mark = bpf_task_storage_get(&marks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (mark && mark->woken_ns)
		tell_waker(task, mark->woken_ns, &mark->waker);
}

/* The sampler looks at it again. */
static __always_inline void end_rest(struct task_struct *task, struct dbt_mark *mark)
{
	__u32 index = mark->rests_in - 1;
	struct dbt_slot *slot = bpf_map_lookup_elem(&slots, &index);
	struct dbt_rest *rest = bpf_map_lookup_elem(&rests, &index);

	mark->rests_in = 0;
	if (slot && rest && slot->task.pid == task->pid)
		rest->wakings++;
}

/* moment.bpf.h */
static __always_inline void note_waking(struct task_struct *task, struct task_struct *current, struct dbt_mark *mark);

/* In the context of the waker, or of the interrupt. */
SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking_sampled, struct task_struct *task)
{
	struct dbt_mark *mark = bpf_task_storage_get(&marks, task, 0, 0);
	struct task_struct *waker = bpf_get_current_task_btf();
	__u64 marked;

	if (!mark)
		return 0;
	if (mark->rests_in)
		end_rest(task, mark);
	marked = mark->switches;
	mark->switches = 0;
	mark->waker.pid = 0;
	mark->waker.start_ns = mark->waker_stack = 0;
	if (!in_interrupt(ctx, waker)) {
		mark->waker.pid = waker->tgid;
		mark->waker.start_ns = waker->group_leader->start_time;
		mark->waker_stack = waker->mm->start_stack;
	}
	mark->slept_switches = switches_of(task);
	mark->state = task_field(task, __state);
	mark->in_iowait = BPF_CORE_READ_BITFIELD(task, in_iowait);
	mark->woken_ns = bpf_ktime_get_ns();
	if (note_moments && mark->noted)
		note_waking(task, waker, mark);
	if (marked && marked - 1 == mark->slept_switches)
		tell_waker(task, mark->woken_ns, &mark->waker);
	return 0;
}

#endif
