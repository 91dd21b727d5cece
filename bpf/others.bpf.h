/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* What else has a CPU when the timer fires: this is what sessions in the run queue wait for. */
#ifndef OTHERS_BPF_H
#define OTHERS_BPF_H

/* Name of a process as the kernel keeps it (TASK_COMM_LEN), padded with zeros. */
struct dbt_process_name {
	char bytes[16];
};

/* Samples of processes that are not targets, by name. User space takes them out once a second: in one second, fewer names
 * than this are sampled. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct dbt_process_name);
	__type(value, __u64);
} others SEC(".maps");

static __always_inline void count_other(struct task_struct *task)
{
	struct dbt_process_name name = {};
	__u64 one = 1, *samples;

	if (!task->pid) /* this CPU is idle */
		return;
	bpf_probe_read_kernel_str(name.bytes, sizeof(name.bytes), task->group_leader->comm);
	samples = bpf_map_lookup_elem(&others, &name);
	if (samples)
		__sync_fetch_and_add(samples, 1);
	else
		bpf_map_update_elem(&others, &name, &one, BPF_NOEXIST);
}

#endif
