/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Which plan a statement is executed with, where the session says so. A statement and a plan seen together get a number that replaces the
 * statement's id from then on: whatever is keyed by statement is then keyed by plan too, without longer keys. User space looks up here
 * what a number stands for. */
#ifndef PLANS_BPF_H
#define PLANS_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* user space sets it */
	__type(key, __u64);
	__type(value, struct dbt_planned);
} planned SEC(".maps");

/* There is no room for more: further plans stay unknown, and no more inserts are tried. */
__u64 plans_lost = 0;

#define NO_ROOM (-7) /* -E2BIG */

/* Not static, so that the verifier checks it once, on its own; likewise with_own_plan(). */
__noinline __u64 number_of(__u64 statement, __u64 plan)
{
	struct dbt_planned both = { .statement = statement, .plan = plan }, *known;
	__u64 number = (statement ^ text_seed) * 0x9e3779b97f4a7c15;

	number = (number ^ number >> 32 ^ plan) * 0x9e3779b97f4a7c15;
	number ^= number >> 32;
	if (number <= STATEMENT_POOLED)
		number = ~number;
	known = bpf_map_lookup_elem(&planned, &number);
	if (!known) {
		long error;

		if (plans_lost)
			return statement;
		error = bpf_map_update_elem(&planned, &number, &both, BPF_NOEXIST);
		if (!error)
			return number;
		if (error == NO_ROOM)
			plans_lost = 1;
		/* Otherwise another CPU was first, or holds the map's lock right now. */
		known = bpf_map_lookup_elem(&planned, &number);
	}
	return known && known->statement == statement && known->plan == plan ? number : statement;
}

/* `statement`, as read from the record at this address, with its plan. If the session writes the record meanwhile, or was interrupted
 * while writing it, the plan is not known. */
static __always_inline __u64 with_plan(struct task_struct *task, __u64 record, __u32 statement_offset, __u32 plan_offset,
				       __u64 statement)
{
	__u64 plan = 0, id = 0;
	__u32 before = 1, after = 1;

	/* Usually there is none, and one read is enough. */
	if (read_memory(task, &plan, sizeof(plan), record + plan_offset) || !plan ||
	    read_memory(task, &before, sizeof(before), record) || before & 1 ||
	    read_memory(task, &id, sizeof(id), record + statement_offset) ||
	    read_memory(task, &plan, sizeof(plan), record + plan_offset) || !plan ||
	    read_memory(task, &after, sizeof(after), record) || after != before)
		return statement;
	/* Without an id, `statement` is the fingerprint of the text. */
	return id && id != statement ? statement : number_of(statement, plan);
}

/* For the running task, and for those whose memory it shares. */
__noinline __u64 with_own_plan(__u64 record, __u32 statement_offset, __u32 plan_offset, __u64 statement)
{
	return with_plan(0, record, statement_offset, plan_offset, statement);
}

/* A separate function, so that what it reads is on the stack only while it reads. */
static __noinline __u64 with_other_plan(struct task_struct *task, struct dbt_wait_source *source, __u64 statement)
{
	__u64 record = 0;

	if (!task || read_memory(task, &record, sizeof(record), source->statement) || !record)
		return statement;
	return with_plan(task, record, source->statement_offset, source->plan_offset, statement);
}

/* Adds the plan to what a session executes, once its statement has its id. `record`: where it says so, in memory readable here. */
static __always_inline void add_own_plan(struct dbt_wait_source *source, __u64 record, struct dbt_activity *activity)
{
	if (source->plan_offset && record && activity->statement)
		activity->statement = with_own_plan(record, source->statement_offset, source->plan_offset, activity->statement);
}

/* The same for another task. */
static __always_inline void add_other_plan(struct task_struct *task, struct dbt_wait_source *source, struct dbt_activity *activity)
{
	if (source->plan_offset && activity->statement)
		activity->statement = with_other_plan(task, source, activity->statement);
}

/* The same for the running task, if the address of its record has not been read yet. */
static __always_inline void find_own_plan(struct dbt_wait_source *source, struct dbt_activity *activity)
{
	__u64 record = 0;

	if (source->plan_offset && !read_memory(0, &record, sizeof(record), source->statement))
		add_own_plan(source, record, activity);
}

#endif
