// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* For one task and one system call: when each call begins, which wait event the session is in, and what it executes. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "dbtime.h"
#include "one_wait_source.bpf.h"
#include "statement_text.bpf.h"

const volatile __u32 task_id = 0;
const volatile __s32 call = 0;
/* The beginning of a call. */
struct dbt_call_wait {
	__u64 time_ns;
	__u64 statement;
	__u32 wait;
	__u32 session_state;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} call_waits SEC(".maps");

/* Calls for which there was no room. */
__u64 calls_lost = 0;

/* The task's latest text and its fingerprint. */
struct dbt_text last_text = {};

SEC("tp_btf/sys_enter")
int BPF_PROG(on_call, struct pt_regs *regs, long id)
{
	struct dbt_wait_source *source = source_of_all();
	struct dbt_activity activity;
	struct dbt_call_wait *row;
	__u64 now;

	if ((__u32)bpf_get_current_pid_tgid() != task_id || id != call)
		return 0;
	now = bpf_ktime_get_ns();
	activity = own_activity(source);
	name_statement(0, source, &last_text, &activity, false);
	row = bpf_ringbuf_reserve(&call_waits, sizeof(*row), 0);
	if (!row) {
		__sync_fetch_and_add(&calls_lost, 1);
		return 0;
	}
	row->time_ns = now;
	row->statement = activity.statement;
	row->wait = activity.wait;
	row->session_state = activity.session_state;
	bpf_ringbuf_submit(row, 0);
	return 0;
}

/* Not in any map: named here so that the skeleton has its type. */
struct dbt_call_wait call_wait_type = {};

char LICENSE[] SEC("license") = "Dual BSD/GPL";
