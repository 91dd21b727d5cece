/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* PL/pgSQL functions that a session is in, and at which line. PostgreSQL keeps a list, innermost first, of callbacks that add a line to
 * the context of an error (ErrorContextCallback in src/include/utils/elog.h). The interpreter is in it once for each function that it
 * executes, with the state of that execution (plpgsql_exec_error_callback, PLpgSQL_execstate in src/pl/plpgsql/src). */
#ifndef ROUTINES_BPF_H
#define ROUTINES_BPF_H

#define MOST_CONTEXTS 32 /* that are read: the list may be damaged */

struct dbt_error_context {
	__u64 previous;
	__u64 callback;
	__u64 argument;
};

struct dbt_routine_walk {
	struct task_struct *task; /* as in read_memory() */
	struct dbt_wait_source *source;
	struct dbt_sample *sample;
	__u64 next;
	__u64 start, end; /* the interpreter's code */
	__u32 place;      /* in the frames of the sample */
	__u32 count;
};

/* Reads one entry of the list. 0 = go on. */
static __always_inline long read_context(struct task_struct *task, struct dbt_routine_walk *walk)
{
	struct dbt_error_context entry = {};
	__u64 function = 0, statement = 0;
	__u32 id = 0, line = 0, place = walk->place;

	if (!walk->next || read_memory(task, &entry, sizeof(entry), walk->next))
		return 1;
	walk->next = entry.previous;
	if (entry.callback < walk->start || entry.callback >= walk->end)
		return 0;
	/* The function is the first field of its state. There is no statement where it begins and ends. */
	if (read_memory(task, &function, sizeof(function), entry.argument) || !function ||
	    read_memory(task, &id, sizeof(id), function + walk->source->routine_id) ||
	    read_memory(task, &statement, sizeof(statement), entry.argument + walk->source->routine_statement))
		return 1;
	/* Its line follows its 32-bit kind (PLpgSQL_stmt). */
	if (statement && read_memory(task, &line, sizeof(line), statement + 4))
		return 1;
	if (place > 2 * MAX_FRAMES + 2 * (MAX_ROUTINES - 1))
		return 1;
	walk->sample->frames[place] = function;
	walk->sample->frames[place + 1] = (__u64)id << 32 | line;
	walk->place = place + 2;
	walk->count++;
	return walk->count >= MAX_ROUTINES;
}

static long read_own_context(__u32 i, struct dbt_routine_walk *walk)
{
	return read_context(0, walk);
}

static long read_other_context(__u32 i, struct dbt_routine_walk *walk)
{
	return read_context(walk->task, walk);
}

/* Appends them to the frames of a sample. Returns their number. */
static __always_inline __u32 read_routines(struct task_struct *task, struct dbt_wait_source *source, __u32 space,
					   struct dbt_sample *sample, __u64 kernel, __u64 user)
{
	struct dbt_space *mapped = bpf_map_lookup_elem(&unwind_spaces, &space);
	struct dbt_routine_walk walk = {
		.task = task,
		.source = source,
		.sample = sample,
		.place = (kernel & MAX_FRAMES) + (user & MAX_FRAMES),
	};

	if (!source->contexts || !mapped || !mapped->interpreter_end ||
	    read_memory(task, &walk.next, sizeof(walk.next), source->contexts) || !walk.next)
		return 0;
	walk.start = mapped->interpreter_start;
	walk.end = mapped->interpreter_end;
	bpf_loop(MOST_CONTEXTS, task ? (void *)read_other_context : (void *)read_own_context, &walk, 0);
	return walk.count;
}

/* Separate functions, to save stack in their callers. */
static __noinline __u32 own_routines(struct dbt_target *target, struct dbt_sample *sample, __u64 kernel, __u64 user)
{
	return read_routines(0, &target->source, target->space, sample, kernel, user);
}

static __noinline __u32 other_routines(struct task_struct *task, struct dbt_target *target, struct dbt_sample *sample, __u64 kernel,
				       __u64 user)
{
	return read_routines(task, &target->source, target->space, sample, kernel, user);
}

#endif
