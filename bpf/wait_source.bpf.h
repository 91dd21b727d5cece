/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Where a database says what its session is doing: the wait event and, where they are known, the number of the statement and
 * the session's own state. A new kind of database is a new kind of source here, and nowhere else. */
#ifndef WAIT_SOURCE_BPF_H
#define WAIT_SOURCE_BPF_H

/* A number of an event, of a session whose other number says whether it is on a CPU (above 0) or waits. Waiting with number 0
 * is not the same as not waiting: it stays visible. */
static __always_inline __u32 numbered_wait(__u32 event, __s32 on_cpu)
{
	if (on_cpu > 0)
		return 0;
	return WAIT_NUMBERED | (event < WAIT_NO_NUMBER ? event : WAIT_NO_NUMBER);
}

/* Reads so many bytes from an address of a task's memory; 0 = done. Of another task only a program that may sleep reads, `task` 0 =
 * the one that is running: known when this is compiled, so that other programs have no trace of the call that sleeps. */
static __always_inline long read_memory(struct task_struct *task, void *to, __u32 size, __u64 address)
{
	return task ? bpf_copy_from_user_task(to, size, (void *)address, task, 0) :
		      bpf_probe_read_user(to, size, (void *)address);
}

/* Notes what a record says that is filled in: as read_record(). */
static __always_inline void read_filled_record(struct task_struct *task, struct dbt_wait_source *source, __u64 record,
					       struct dbt_activity *activity)
{
	/* What cannot be read the kernel fills with zeros: without a branch here the verifier has fewer ways to follow. */
	read_memory(task, &activity->statement, sizeof(activity->statement), record + source->statement_offset);
	read_memory(task, &activity->session_state, sizeof(activity->session_state), record + source->state_offset);
}

/* Notes what the record at this address says the session executes. The session alone writes it, each number in one piece. One that
 * begins has the record of a session that has ended, which shows what that one executed last until the new one says which process it is:
 * pgstat_beinit and pgstat_bestart in src/backend/utils/activity/backend_status.c, between which a connection spends most of its
 * beginning. Till then, and as long as it has reported nothing, it has no state of its own. */
static __always_inline void read_record(struct task_struct *task, struct dbt_wait_source *source, __u64 record,
					struct dbt_activity *activity)
{
	activity->statement = activity->session_state = 0;
	/* The process is read to where the state will be: the stack of programs that call each other is short. */
	if (!record ||
	    read_memory(task, &activity->session_state, sizeof(activity->session_state), record + source->process_offset) ||
	    !activity->session_state)
		return;
	read_filled_record(task, source, record, activity);
}

/* The record, or as much of it as is used, in one piece. Its numbers lie at multiples of their sizes. */
struct dbt_record {
	__u8 bytes[RECORD_BYTES];
};

static __always_inline __u32 int_at(struct dbt_record *record, __u32 offset)
{
	return *(__u32 *)&record->bytes[offset & (RECORD_BYTES - sizeof(__u32))];
}

static __always_inline __u64 long_at(struct dbt_record *record, __u32 offset)
{
	return *(__u64 *)&record->bytes[offset & (RECORD_BYTES - sizeof(__u64))];
}

/* Notes what kind of process it is, and whose, once the record at this address says so. */
static __always_inline void read_own_kind(struct dbt_wait_source *source, __u64 record, struct dbt_sums *sums)
{
	__u32 changes = 1, process = 0, type = 0;
	__u64 whose = 0;

	if (bpf_probe_read_user(&changes, sizeof(changes), (void *)record) || changes & 1 ||
	    bpf_probe_read_user(&process, sizeof(process), (void *)(record + source->process_offset)) || !process ||
	    bpf_probe_read_user(&type, sizeof(type), (void *)(record + source->type_offset)) ||
	    bpf_probe_read_user(&whose, sizeof(whose), (void *)(record + source->whose_offset)))
		return;
	sums->type = type;
	sums->whose = whose;
}

/* What is nearer to the pointer than that is the process's own, and not in shared memory. */
#define SAME_MODULE (64 << 20)

/* SOURCE_POINTER: the wait event of a task. Notes in `at`, if that is not 0, where it was read. */
static __always_inline __u32 pointed_wait(struct task_struct *task, struct dbt_wait_source *source, struct dbt_shared *at)
{
	__u64 pointer = 0;
	__u32 wait = 0;

	if (read_memory(task, &pointer, sizeof(pointer), source->event) || read_memory(task, &wait, sizeof(wait), pointer))
		wait = WAIT_NOT_READ;
	if (at)
		at->wait = pointer - source->event + SAME_MODULE > 2ULL * SAME_MODULE ? pointer : 0;
	return wait;
}

/* Of a task; `task` as in read_memory(). SOURCE_POINTER: notes in `at`, if that is not 0, where it was read. */
static __always_inline struct dbt_activity activity_at(struct task_struct *task, struct dbt_wait_source *source, struct dbt_shared *at)
{
	struct dbt_activity activity = {};
	__u64 pointer = 0;
	__u32 event = 0, hash = 0;
	__s32 on_cpu = 0;

	if (source->kind == SOURCE_POINTER) {
		activity.wait = pointed_wait(task, source, at);
		if (source->statement)
			read_memory(task, &pointer, sizeof(pointer), source->statement);
		read_record(task, source, pointer, &activity);
		if (at)
			at->record = pointer;
	} else if (source->kind == SOURCE_NUMBERS) {
		if (read_memory(task, &event, sizeof(event), source->event) ||
		    read_memory(task, &on_cpu, sizeof(on_cpu), source->on_cpu))
			activity.wait = WAIT_NOT_READ;
		else
			activity.wait = numbered_wait(event, on_cpu);
		read_memory(task, &hash, sizeof(hash), source->statement);
		activity.statement = hash;
	}
	return activity;
}

static __always_inline struct dbt_activity activity_of(struct task_struct *task, struct dbt_wait_source *source)
{
	return activity_at(task, source, 0);
}

/* Of the task that is running. */
static __always_inline struct dbt_activity own_activity(struct dbt_wait_source *source)
{
	return activity_of(0, source);
}

#endif
