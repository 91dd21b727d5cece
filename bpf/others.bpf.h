/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* What else has a CPU when the timer fires: whom a session waits for that waits for a CPU. */
#ifndef OTHERS_BPF_H
#define OTHERS_BPF_H

/* Name of a process as the kernel keeps it (TASK_COMM_LEN), filled up with zeros. */
struct dbt_process_name {
	char bytes[16];
};

/* Samples of processes that are no targets, by their name. User space takes them out once a second: of so many processes in a
 * second there are not so many samples. */
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

	if (!task->pid) /* nobody has this CPU */
		return;
	bpf_probe_read_kernel_str(name.bytes, sizeof(name.bytes), task->group_leader->comm);
	samples = bpf_map_lookup_elem(&others, &name);
	if (samples)
		__sync_fetch_and_add(samples, 1);
	else
		bpf_map_update_elem(&others, &name, &one, BPF_NOEXIST);
}

#endif
