/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* The one way to user space: a ring buffer of variable-length events, in order. */
#ifndef EVENTS_BPF_H
#define EVENTS_BPF_H

#include "unwind_rows.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 * 1024 * 1024); /* user space sets it by rate and CPUs */
} events SEC(".maps");

/* The exact tier is on. Set before loading. */
const volatile bool exact = false;

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

/* Frames that a helper wrote, from the bytes it returned. A mask is a bound that the verifier follows. */
static __always_inline __u64 frames_in(long bytes)
{
	return bytes > 0 ? ((__u64)bytes / sizeof(__u64)) & MAX_FRAMES : 0;
}

/* Sends a sample without the room it does not use. Nobody is woken, user space looks by itself, unless a stack could not be
 * followed into code that is new: the next ones can, once user space has read what is mapped there. */
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

/* A field of a task, read each time that it stands in the code. The verifier knows what a task is, so that no call is needed, of which a
 * visit of a session that sleeps would make ten. */
#define task_field(task, field) (*(volatile typeof((task)->field) *)&(task)->field)

/* The scheduler's clock, in which it notes when a task came onto its CPU, minus nothing but a constant and a slow drift is
 * CLOCK_MONOTONIC. The sampler's thread finds the difference anew every second; 0 = not known. */
__u64 arrival_clock_offset = 0;

#define LONGEST_TICK 20000000ULL

/* sum_exec_runtime of a task that is on a CPU, with what has passed since the kernel last brought it up to date (at ticks and
 * switches): the kernel notes when the task came onto its CPU, and what it was then. A session of some milliseconds has no
 * tick, or one. */
static __always_inline __u64 on_cpu_time(struct task_struct *task, __u64 now)
{
	__u64 booked = task_field(task, se.sum_exec_runtime), before = task_field(task, se.prev_sum_exec_runtime);
	__u64 open = before + (now - arrival_clock_offset - task_field(task, sched_info.last_arrival)) - booked;

	/* Below 0 too: time was stolen, or went to interrupts. */
	return arrival_clock_offset && open < LONGEST_TICK ? booked + open : booked;
}

#endif
