/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* The only path to user space: a ring buffer of variable-length events, in order. */
#ifndef EVENTS_BPF_H
#define EVENTS_BPF_H

#include "unwind_rows.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 * 1024 * 1024); /* user space sets it by rate and CPUs */
} events SEC(".maps");

/* The exact tier is on. Set before loading. */
const volatile bool exact = false;
/* Who ends the sleeps in which sessions are found is wanted. Set before loading. */
const volatile bool follow_sleeps = false;

/* Events that found no room. */
__u64 lost = 0;

static __always_inline void emit(void *event, __u64 size, __u64 flags)
{
	if (bpf_ringbuf_output(&events, event, size, flags))
		__sync_fetch_and_add(&lost, 1);
}

static __always_inline void fill_event(struct dbt_event *event, __u32 kind, __u32 pid, __u64 start_ns)
{
	event->kind = kind;
	event->pad = 0;
	event->task.pid = pid;
	event->task.pad = 0;
	event->task.start_ns = start_ns;
	event->time_ns = bpf_ktime_get_ns();
}

/* Number of frames that a helper wrote, from the bytes it returned. A mask is a bound that the verifier understands. */
static __always_inline __u64 frames_in(long bytes)
{
	return bytes > 0 ? ((__u64)bytes / sizeof(__u64)) & MAX_FRAMES : 0;
}

/* Sends a sample without its unused space. User space polls and is not woken, unless a stack could not be followed into new code: the
 * next ones can be once user space has read what is mapped there. */
static __always_inline void emit_sample(struct dbt_sample *sample, __u64 kernel, __u64 user, __u32 routines)
{
	bool wanted = sample->flags & SAMPLE_NEW_CODE && sample->user_end == UNWIND_BROKEN;

	kernel &= MAX_FRAMES;
	user &= MAX_FRAMES;
	routines &= MAX_ROUTINES;
	sample->kernel_frames = kernel;
	sample->user_frames = user;
	sample->routines = routines;
	emit(sample, sizeof(*sample) - sizeof(sample->frames) + (kernel + user + 2 * routines) * sizeof(__u64),
	     wanted ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

/* A field of a task, read each time it appears in the code. The verifier knows the type, so no helper call is needed; a visit to a
 * sleeping session would make ten. */
#define task_field(task, field) (*(volatile typeof((task)->field) *)&(task)->field)

/* The scheduler's clock, in which it records when a task got its CPU, differs from CLOCK_MONOTONIC only by a constant and a slow
 * drift. The sampler thread measures the difference every second; 0 = not known. */
__u64 arrival_clock_offset = 0;

#define LONGEST_TICK 20000000ULL

/* sum_exec_runtime of a task that is on a CPU, plus what has passed since the kernel last updated it (at ticks and switches): the
 * kernel records when the task got its CPU, and the value at that time. A session of a few milliseconds has one tick or none. */
static __always_inline __u64 on_cpu_time(struct task_struct *task, __u64 now)
{
	__u64 booked = task_field(task, se.sum_exec_runtime), before = task_field(task, se.prev_sum_exec_runtime);
	__u64 open = before + (now - arrival_clock_offset - task_field(task, sched_info.last_arrival)) - booked;

	/* Excludes negative values too: time was stolen, or went to interrupts. */
	return arrival_clock_offset && open < LONGEST_TICK ? booked + open : booked;
}

#endif
