// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* For one task: its kernel stack whenever a timer on its CPU time fires in the kernel. User space finds out by time which
 * call that was in. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "dbtime.h"

struct dbt_call_sample {
	__u64 time_ns;
	/* Of frames, leaf first; 0 or less: the stack could not be read. */
	__s64 bytes;
	__u64 frames[MAX_FRAMES];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} call_samples SEC(".maps");

/* Descriptor of the timer in the process that loads this. */
const volatile __u32 timer_descriptor = 0;

/* Samples for which there was no room. */
__u64 samples_lost = 0;
/* Address of the kernel's struct hrtimer that triggers the samples. */
__u64 timer_address = 0;

/* The timer itself passes tracepoints when it fires; they identify it by its address. Run by the reader of the
 * iterator. */
SEC("iter/task_file")
int find_timer(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct perf_event *event;

	if (!task || !file || ctx->fd != timer_descriptor)
		return 0;
	if ((__u32)task->tgid != (__u32)(bpf_get_current_pid_tgid() >> 32))
		return 0;
	event = file->private_data;
	timer_address = (__u64)&event->hw.hrtimer;
	return 0;
}

SEC("perf_event")
int on_timer(struct bpf_perf_event_data *ctx)
{
	struct dbt_call_sample *row = bpf_ringbuf_reserve(&call_samples, sizeof(*row), 0);

	if (!row) {
		__sync_fetch_and_add(&samples_lost, 1);
		return 0;
	}
	row->time_ns = bpf_ktime_get_ns();
	row->bytes = bpf_get_stack(ctx, row->frames, sizeof(row->frames), 0);
	/* User space polls: no need to wake it. */
	bpf_ringbuf_submit(row, BPF_RB_NO_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
