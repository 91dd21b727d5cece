// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* For one task and one of its system calls: entry and return of some kernel functions inside it, and when the task left
 * its CPU and came back. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "dbtime.h"

const volatile __u32 task_id = 0;

/* What a row is about. */
enum dbt_row_kind {
	ROW_ENTRY = 1,
	ROW_RETURN = 2,
	ROW_LEFT_CPU = 3,
	ROW_BACK_ON_CPU = 4,
};

struct dbt_function_row {
	__u64 time_ns;
	__u32 what;  /* number of the function; for a switch, pid of the other task */
	__u32 state; /* of the task when it left the CPU: raw, 0 = still runnable */
	__u32 cpu;
	__u32 kind;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} rows SEC(".maps");

/* Rows for which there was no room. */
__u64 rows_lost = 0;
/* The task is inside the call. There is only one task, so this is written by one CPU at a time. */
__u32 in_call = 0;

static __always_inline void add_row(__u32 kind, __u32 what, __u32 state)
{
	struct dbt_function_row *row = bpf_ringbuf_reserve(&rows, sizeof(*row), 0);

	if (!row) {
		__sync_fetch_and_add(&rows_lost, 1);
		return;
	}
	row->time_ns = bpf_ktime_get_ns();
	row->what = what;
	row->state = state;
	row->cpu = bpf_get_smp_processor_id();
	row->kind = kind;
	/* User space polls: no need to wake it. */
	bpf_ringbuf_submit(row, BPF_RB_NO_WAKEUP);
}

/* Function 0 is the call itself. */
static __always_inline int entered(void *ctx)
{
	__u32 function;

	if ((__u32)bpf_get_current_pid_tgid() != task_id)
		return 0;
	function = bpf_get_attach_cookie(ctx);
	if (function == 0)
		in_call = 1;
	if (in_call)
		add_row(ROW_ENTRY, function, 0);
	return 0;
}

static __always_inline int returned(void *ctx)
{
	__u32 function;

	if ((__u32)bpf_get_current_pid_tgid() != task_id || !in_call)
		return 0;
	function = bpf_get_attach_cookie(ctx);
	add_row(ROW_RETURN, function, 0);
	if (function == 0)
		in_call = 0;
	return 0;
}

/* For one function: user space loads these again for each. The kernel calls them directly, so they cost least, and see
 * every return, however many tasks are in the function. */
SEC("fentry")
int on_call(void *ctx)
{
	return entered(ctx);
}

SEC("fexit")
int on_exit(void *ctx)
{
	return returned(ctx);
}

/* All functions at once, where the kernel supports it. */
SEC("kprobe.multi")
int on_entry(struct pt_regs *ctx)
{
	return entered(ctx);
}

SEC("kretprobe.multi")
int on_return(struct pt_regs *ctx)
{
	return returned(ctx);
}

/* One by one. */
SEC("kprobe")
int on_single_entry(struct pt_regs *ctx)
{
	return entered(ctx);
}

SEC("kretprobe")
int on_single_return(struct pt_regs *ctx)
{
	return returned(ctx);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	/* Outside calls too: a trace without any switch would not show that switches are traced. */
	if (prev->pid == task_id)
		add_row(ROW_LEFT_CPU, next->pid, preempt ? 0 : prev->__state);
	else if (next->pid == task_id)
		add_row(ROW_BACK_ON_CPU, prev->pid, 0);
	return 0;
}

/* Not in any map: named here so that the skeleton has these types. */
struct dbt_function_row row_type = {};
struct dbt_enums {
	enum dbt_row_kind row_kind;
} enums_type = {};

char LICENSE[] SEC("license") = "Dual BSD/GPL";
