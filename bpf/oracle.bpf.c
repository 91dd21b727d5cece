// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Probes in Oracle's own functions: where a wait begins, where it ends, and how long the database itself says it took. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "dbtime.h"
#include "latency.bpf.h"

/* The wait that a session is in, or was in last. */
struct dbt_oracle_wait {
	__u64 begin_ns; /* 0 = it is in none */
	__u32 event;
	__u32 pad;
};

/* By pid. User space inserts the sessions, with their first wait. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct dbt_oracle_wait);
} oracle_waits SEC(".maps");

/* Ends of waits whose beginning was not seen. */
__u64 ends_without_begin = 0;

static __always_inline struct dbt_oracle_wait *wait_of_current(__u32 *pid)
{
	*pid = bpf_get_current_pid_tgid() >> 32;
	return bpf_map_lookup_elem(&oracle_waits, pid);
}

static __always_inline __u32 numbered(__u32 event)
{
	return WAIT_NUMBERED | (event < WAIT_NO_NUMBER ? event : WAIT_NO_NUMBER);
}

static __always_inline void add(__u8 kind, __u32 pid, __u32 event, __u64 ns)
{
	struct dbt_latency_key key = {
		.start_ns = bpf_get_current_task_btf()->start_time,
		.pid = pid,
		.kind = kind,
		.name = numbered(event),
	};

	add_latency(&key, ns);
}

/* kskthbwt: the third argument is the number of the event. */
SEC("uprobe")
int on_begin_wait(struct pt_regs *ctx)
{
	__u32 pid;
	struct dbt_oracle_wait *wait = wait_of_current(&pid);

	if (!wait)
		return 0;
	wait->event = PT_REGS_PARM3(ctx);
	wait->begin_ns = bpf_ktime_get_ns();
	return 0;
}

/* kskthewt: the second argument is the number of the event. */
SEC("uprobe")
int on_end_wait(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 pid, event = PT_REGS_PARM2(ctx);
	struct dbt_oracle_wait *wait = wait_of_current(&pid);

	if (!wait)
		return 0;
	if (wait->begin_ns && wait->event == event)
		add(LATENCY_ORACLE_WAIT, pid, event, now - wait->begin_ns);
	else
		__sync_fetch_and_add(&ends_without_begin, 1);
	wait->begin_ns = 0;
	return 0;
}

/* kews_update_wait_time: the second argument is the wait time in microseconds of the event that began last. */
SEC("uprobe")
int on_wait_time(struct pt_regs *ctx)
{
	__u32 pid;
	struct dbt_oracle_wait *wait = wait_of_current(&pid);

	if (wait && wait->event)
		add(LATENCY_ORACLE_WAIT_DB, pid, wait->event, (__u64)PT_REGS_PARM2(ctx) * 1000);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
