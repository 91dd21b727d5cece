/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Where a database says what its session is doing: the wait event and, where they are known, the number of the statement and
 * the session's own state. A new kind of database is a new kind of source here, and nowhere else. */
#ifndef WAIT_SOURCE_BPF_H
#define WAIT_SOURCE_BPF_H

/* The wait of a session that has the number of an event, and another one that says whether it is on a CPU (above 0) or waits. Waiting in
 * event 0 is not the same as not waiting: it stays visible. */
static __always_inline __u32 numbered_wait(__u32 event, __s32 on_cpu)
{
	if (on_cpu > 0)
		return 0;
	return WAIT_NUMBERED | (event < WAIT_NO_NUMBER ? event : WAIT_NO_NUMBER);
}

/* Whether a task is another one and not the running one, which is 0. It is known at compile time: programs that may not sleep must not
 * contain the call that reads another task's memory, and on older kernels the stack of code that never runs counts, too. */
#define is_other(task) (!(__builtin_constant_p((task) == 0) && (task) == 0))

/* Reads `size` bytes of a task's memory; 0 = success. `task` 0 = the running one; only a program that may sleep can read another task's. */
static __always_inline long read_memory(struct task_struct *task, void *to, __u32 size, __u64 address)
{
	return is_other(task) ? bpf_copy_from_user_task(to, size, (void *)address, task, 0) :
		      bpf_probe_read_user(to, size, (void *)address);
}

/* As read_record(), for a record that is known to be filled in. */
static __always_inline void read_filled_record(struct task_struct *task, struct dbt_wait_source *source, __u64 record,
					       struct dbt_activity *activity)
{
	/* The kernel fills what cannot be read with zeros: without a branch here the verifier has fewer paths to follow. */
	read_memory(task, &activity->statement, sizeof(activity->statement), record + source->statement_offset);
	read_memory(task, &activity->session_state, sizeof(activity->session_state), record + source->state_offset);
}

/* Notes what the session executes according to the record at this address. Only the session writes it, each number in one piece. A new
 * session gets the record of one that has ended, which shows what that one executed last until the new one enters its pid: pgstat_beinit
 * and pgstat_bestart in src/backend/utils/activity/backend_status.c, between which a connection spends most of its start-up. Until then,
 * and as long as it has reported nothing, it has no state of its own. */
static __always_inline void read_record(struct task_struct *task, struct dbt_wait_source *source, __u64 record,
					struct dbt_activity *activity)
{
	activity->statement = activity->session_state = 0;
	/* The pid is read to where the state will be: programs that call each other share little stack. */
	if (!record ||
	    read_memory(task, &activity->session_state, sizeof(activity->session_state), record + source->process_offset) ||
	    !activity->session_state)
		return;
	read_filled_record(task, source, record, activity);
}

/* What the record says about the text of the current execution. */
struct dbt_execution {
	__u64 since; /* when that began, by the database; 0 = it is not known */
	__u64 text;  /* the address of its text */
	__u32 changes; /* the change count, read before these; odd: the session was writing */
	__u32 changes_now; /* the same, read after the text */
};

/* The record, or as much of it as is used, in one piece. Its numbers are aligned to their sizes. */
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

/* Notes the type of the process, and whose it is, once the record at this address says so. */
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

/* A wait event nearer to its pointer than this is the process's own, not in shared memory. */
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

/* What a task says; `task` as in read_memory(). SOURCE_POINTER: notes in `at`, if that is not 0, where it was read. */
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

/* What the running task says. */
static __always_inline struct dbt_activity own_activity(struct dbt_wait_source *source)
{
	return activity_of(0, source);
}

#endif
