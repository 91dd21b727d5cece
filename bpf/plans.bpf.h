/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* By which plan a statement is executed, where the session says it. A statement and a plan that were seen together have a number, which
 * from then on stands in the place of the statement's id: what is told apart by statement is told apart by plan then, and no key is
 * longer for it. User space looks up here what a number stands for. */
#ifndef PLANS_BPF_H
#define PLANS_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* user space sets it */
	__type(key, __u64);
	__type(value, struct dbt_planned);
} planned SEC(".maps");

/* There is no room for more: plans that come now are not known, and nobody tries any longer. */
__u64 plans_lost = 0;

#define NO_ROOM (-7) /* -E2BIG */

/* Not static, so that the verifier looks at it once and for itself; so is with_own_plan(). */
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
		/* Else another CPU was first, or has the map in this moment. */
		known = bpf_map_lookup_elem(&planned, &number);
	}
	return known && known->statement == statement && known->plan == plan ? number : statement;
}

/* `statement`, as it was read in the record at this address, with its plan. The session may write the record meanwhile, or have been
 * interrupted while it did so: then its plan is not known. */
static __always_inline __u64 with_plan(struct task_struct *task, __u64 record, __u32 statement_offset, __u32 plan_offset,
				       __u64 statement)
{
	__u64 plan = 0, id = 0;
	__u32 before = 1, after = 1;

	/* As a rule there is none, and one look is enough. */
	if (read_memory(task, &plan, sizeof(plan), record + plan_offset) || !plan ||
	    read_memory(task, &before, sizeof(before), record) || before & 1 ||
	    read_memory(task, &id, sizeof(id), record + statement_offset) ||
	    read_memory(task, &plan, sizeof(plan), record + plan_offset) || !plan ||
	    read_memory(task, &after, sizeof(after), record) || after != before)
		return statement;
	/* Without an id it is the fingerprint of the text. */
	return id && id != statement ? statement : number_of(statement, plan);
}

/* Of the task that is running, and of those whose memory it shares. */
__noinline __u64 with_own_plan(__u64 record, __u32 statement_offset, __u32 plan_offset, __u64 statement)
{
	return with_plan(0, record, statement_offset, plan_offset, statement);
}

/* A function of its own, so that what it reads is on the stack only as long as it reads. */
static __noinline __u64 with_other_plan(struct task_struct *task, struct dbt_wait_source *source, __u64 statement)
{
	__u64 record = 0;

	if (!task || read_memory(task, &record, sizeof(record), source->statement) || !record)
		return statement;
	return with_plan(task, record, source->statement_offset, source->plan_offset, statement);
}

/* Adds the plan to what a session executes, after its statement has its id. `record`: what says that, in memory that can be read here. */
static __always_inline void add_own_plan(struct dbt_wait_source *source, __u64 record, struct dbt_activity *activity)
{
	if (source->plan_offset && record && activity->statement)
		activity->statement = with_own_plan(record, source->statement_offset, source->plan_offset, activity->statement);
}

/* The same of another task. */
static __always_inline void add_other_plan(struct task_struct *task, struct dbt_wait_source *source, struct dbt_activity *activity)
{
	if (source->plan_offset && activity->statement)
		activity->statement = with_other_plan(task, source, activity->statement);
}

/* The same of the task that is running, where it has not been read where its record is. */
static __always_inline void find_own_plan(struct dbt_wait_source *source, struct dbt_activity *activity)
{
	__u64 record = 0;

	if (source->plan_offset && !read_memory(0, &record, sizeof(record), source->statement))
		add_own_plan(source, record, activity);
}

#endif
