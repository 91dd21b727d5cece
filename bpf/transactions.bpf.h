/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* How many transactions a session had made when it ended. User space reads its counter once a second, but would miss those after its
 * last look: the memory is gone before user space hears of the end. */
#ifndef TRANSACTIONS_BPF_H
#define TRANSACTIONS_BPF_H

struct dbt_counter {
	__u64 address; /* of the 32-bit number of the next transaction, in the memory of the session */
	__u32 last;    /* its final value */
	__u32 has_ended;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* user space sets it */
	__type(key, __u32);
	__type(value, struct dbt_counter);
} counted_sessions SEC(".maps");

/* In the context of the session itself, which still has its memory. */
static __always_inline void read_last_transaction(__u32 pid)
{
	struct dbt_counter *counter = bpf_map_lookup_elem(&counted_sessions, &pid);

	if (counter && !counter->has_ended)
		counter->has_ended = !bpf_probe_read_user(&counter->last, sizeof(counter->last), (void *)counter->address);
}

/* For kernels before 6.16, in which sched_process_exit comes after the memory is gone: the first function called by do_exit() that
 * can be probed in all of them. */
SEC("kprobe/exit_signals")
int on_exit_signals(void *context)
{
	__u64 task = bpf_get_current_pid_tgid();
	__u32 pid = task >> 32;

	if (pid == (__u32)task) /* not a thread */
		read_last_transaction(pid);
	return 0;
}

#endif
