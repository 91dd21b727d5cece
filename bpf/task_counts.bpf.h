/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* What the kernel counts for every task (switches, faults, calls, bytes), sent along with the totals of a session. */
#ifndef TASK_COUNTS_BPF_H
#define TASK_COUNTS_BPF_H

#include "events.bpf.h"

/* These counts are wanted. Set before loading. */
const volatile bool count_tasks = false;

/* Written straight into the ring buffer: the stack has no room for them. */
static __always_inline void emit_counts(struct task_struct *task, __u32 pid, __u64 start_ns, __u64 on_cpu_ns)
{
	struct dbt_task_counts *counts;
	struct task_delay_info *delays;

	counts = bpf_ringbuf_reserve(&events, sizeof(*counts), 0);
	if (!counts) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	__builtin_memset(counts, 0, sizeof(*counts));
	fill_event(&counts->event, EVENT_COUNTS, pid, start_ns);
	counts->on_cpu_ns = on_cpu_ns;
	counts->user_ns = BPF_CORE_READ(task, utime);
	counts->kernel_ns = BPF_CORE_READ(task, stime);
	counts->voluntary_switches = BPF_CORE_READ(task, nvcsw);
	counts->involuntary_switches = BPF_CORE_READ(task, nivcsw);
	counts->minor_faults = BPF_CORE_READ(task, min_flt);
	counts->major_faults = BPF_CORE_READ(task, maj_flt);
	if (bpf_core_field_exists(task->ioac.rchar)) {
		counts->counted |= COUNTED_CALLS;
		counts->rchar = BPF_CORE_READ(task, ioac.rchar);
		counts->wchar = BPF_CORE_READ(task, ioac.wchar);
		counts->syscr = BPF_CORE_READ(task, ioac.syscr);
		counts->syscw = BPF_CORE_READ(task, ioac.syscw);
	}
	if (bpf_core_field_exists(task->ioac.read_bytes)) {
		counts->counted |= COUNTED_BYTES;
		counts->read_bytes = BPF_CORE_READ(task, ioac.read_bytes);
		counts->write_bytes = BPF_CORE_READ(task, ioac.write_bytes);
		counts->cancelled_write_bytes = BPF_CORE_READ(task, ioac.cancelled_write_bytes);
	}
	if (bpf_core_field_exists(task->delays)) {
		/* A task has this if delays were counted when it was forked. */
		delays = BPF_CORE_READ(task, delays);
		if (delays) {
			counts->counted |= COUNTED_BLKIO_DELAY;
			counts->blkio_delay_ns = BPF_CORE_READ(delays, blkio_delay);
		}
	}
	bpf_ringbuf_submit(counts, BPF_RB_NO_WAKEUP);
}

#endif
