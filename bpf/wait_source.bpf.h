/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Where a database says what its session is doing: the wait event and, where there is one, the number of the statement. A new
 * kind of database is a new kind of source here, and nowhere else. */
#ifndef WAIT_SOURCE_BPF_H
#define WAIT_SOURCE_BPF_H

/* What the database says of a session at one moment. */
struct dbt_activity {
	__u32 wait;
	__u64 statement;
};

/* A number of an event, of a session whose other number says whether it is on a CPU (above 0) or waits. Waiting with number 0
 * is not the same as not waiting: it stays visible. */
static __always_inline __u32 numbered_wait(__u32 event, __s32 on_cpu)
{
	if (on_cpu > 0)
		return 0;
	return WAIT_NUMBERED | (event < WAIT_NO_NUMBER ? event : WAIT_NO_NUMBER);
}

/* Id of the statement in the record at this address. The session alone writes it, in one piece. */
static __always_inline __u64 own_statement_at(struct dbt_wait_source *source, __u64 record)
{
	__u64 statement = 0;

	if (!record || bpf_probe_read_user(&statement, sizeof(statement), (void *)(record + source->statement_offset)))
		return 0;
	return statement;
}

/* Of the task that is running. */
static __always_inline struct dbt_activity own_activity(struct dbt_wait_source *source)
{
	struct dbt_activity activity = {};
	__u64 pointer = 0;
	__u32 event = 0, hash = 0;
	__s32 on_cpu = 0;

	if (source->kind == SOURCE_POINTER) {
		if (bpf_probe_read_user(&pointer, sizeof(pointer), (void *)source->event) ||
		    bpf_probe_read_user(&activity.wait, sizeof(activity.wait), (void *)pointer))
			activity.wait = WAIT_NOT_READ;
		if (source->statement && !bpf_probe_read_user(&pointer, sizeof(pointer), (void *)source->statement))
			activity.statement = own_statement_at(source, pointer);
	} else if (source->kind == SOURCE_NUMBERS) {
		if (bpf_probe_read_user(&event, sizeof(event), (void *)source->event) ||
		    bpf_probe_read_user(&on_cpu, sizeof(on_cpu), (void *)source->on_cpu))
			activity.wait = WAIT_NOT_READ;
		else
			activity.wait = numbered_wait(event, on_cpu);
		if (!bpf_probe_read_user(&hash, sizeof(hash), (void *)source->statement))
			activity.statement = hash;
	}
	return activity;
}

/* The same of another task, in a program that may sleep. */
static __always_inline struct dbt_activity activity_of(struct task_struct *task, struct dbt_wait_source *source)
{
	struct dbt_activity activity = {};
	__u64 pointer = 0;
	__u32 event = 0, hash = 0;
	__s32 on_cpu = 0;

	if (source->kind == SOURCE_POINTER) {
		if (bpf_copy_from_user_task(&pointer, sizeof(pointer), (void *)source->event, task, 0) ||
		    bpf_copy_from_user_task(&activity.wait, sizeof(activity.wait), (void *)pointer, task, 0))
			activity.wait = WAIT_NOT_READ;
		if (source->statement &&
		    !bpf_copy_from_user_task(&pointer, sizeof(pointer), (void *)source->statement, task, 0) && pointer &&
		    bpf_copy_from_user_task(&activity.statement, sizeof(activity.statement),
					    (void *)(pointer + source->statement_offset), task, 0))
			activity.statement = 0;
	} else if (source->kind == SOURCE_NUMBERS) {
		if (bpf_copy_from_user_task(&event, sizeof(event), (void *)source->event, task, 0) ||
		    bpf_copy_from_user_task(&on_cpu, sizeof(on_cpu), (void *)source->on_cpu, task, 0))
			activity.wait = WAIT_NOT_READ;
		else
			activity.wait = numbered_wait(event, on_cpu);
		if (!bpf_copy_from_user_task(&hash, sizeof(hash), (void *)source->statement, task, 0))
			activity.statement = hash;
	}
	return activity;
}

#endif
