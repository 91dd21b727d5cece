/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Commands: each from when the session has, or is woken for, what the client sends until it asks for more, if it answered in
 * between. It then waits for the client, unless the next command is there already. A command's time is added up by wait event and
 * state, and at its end added to the sums of all commands of the same statement that took about as long. Only where calls are
 * traced. Included by exact.bpf.h. */
#ifndef COMMANDS_BPF_H
#define COMMANDS_BPF_H

/* Commands that differ by less are summed together: 8 buckets of latency_bucket(), an eighth of a power of two. */
#define COMMAND_BUCKETS 8

struct dbt_command {
	__u64 begin;     /* 0 = none is under way, or its beginning was not seen */
	__u64 statement; /* the last one that it was seen to execute; 0 = not known */
	__u16 answered;   /* it has sent something */
	__u16 has_client; /* what it receives is commands: it has waited for a client, or was forked and has connected to nobody */
	__u32 used;       /* of `parts` */
	__u8 part_of[MAX_WAITS]; /* by cell of `sums`, counted from 1; 0 = not looked up yet */
	struct dbt_command_part parts[COMMAND_PARTS];
};

/* Non-static functions are verified once, not again for each path that leads to them: this keeps the programs small enough for all
 * kernels (Linux 6.1: a million steps of the verifier). */

/* Part of a wait event. */
__noinline int command_part_of(struct dbt_command *command, __u32 wait)
{
	__u64 name = (__u64)wait + 1;
	__u32 i;

	if (!command)
		return 0;
	for (i = 0; i < COMMAND_PARTS - 1; i++) {
		if (i >= command->used) {
			command->parts[i] = (struct dbt_command_part){ .wait = name };
			command->used = i + 1;
			return i;
		}
		if (command->parts[i].wait == name)
			return i;
	}
	if (command->used < COMMAND_PARTS) {
		command->parts[COMMAND_PARTS - 1] = (struct dbt_command_part){ .wait = (__u64)WAIT_NOT_READ + 1 };
		command->used = COMMAND_PARTS;
	}
	return COMMAND_PARTS - 1;
}

/* Charges time of the session in this cell of its sums, which belongs to this wait event. */
static __always_inline void charge_command(struct dbt_command *command, __u32 cell, __u32 wait, __u32 state, __u64 ns)
{
	__u64 index = state;
	__u32 part;

	if (!command->begin || !ns)
		return;
	cell &= MAX_WAITS - 1;
	part = command->part_of[cell];
	if (!part) {
		part = command_part_of(command, wait) + 1;
		command->part_of[cell] = part;
	}
	same_register(index);
	if (index < EXACT_STATES)
		command->parts[(part - 1) & (COMMAND_PARTS - 1)].ns[index] += ns;
}

/* The cells of the session's sums are reassigned. */
static __always_inline void forget_cells(struct dbt_command *command)
{
	__u64 *places = (__u64 *)command->part_of;
	__u32 i;

	for (i = 0; i < MAX_WAITS / 8; i++) {
		places[i] = 0;
		asm volatile("" ::: "memory");
	}
}

/* The session was forked. */
static __always_inline void expect_client(struct dbt_command *command)
{
	__u32 zero = 0;
	struct dbt_config *config = bpf_map_lookup_elem(&configuration, &zero);

	command->has_client = config && config->client_wait;
}

static __always_inline bool is_client_wait(__u32 wait)
{
	__u32 zero = 0;
	struct dbt_config *config = bpf_map_lookup_elem(&configuration, &zero);

	return wait && config && config->client_wait == wait;
}

/* A session that reads the rows of a COPY waits for its client in the middle of a command. */
static __always_inline bool is_executing(struct dbt_activity *activity)
{
	__u32 zero = 0;
	struct dbt_config *config = bpf_map_lookup_elem(&configuration, &zero);

	return config && activity->session_state && activity->session_state == config->executing_state;
}

__noinline int begin_command(struct dbt_command *command, __u64 begin)
{
	if (!command)
		return 0;
	command->begin = begin;
	command->statement = 0;
	command->answered = 0;
	command->used = 0;
	forget_cells(command);
	return 0;
}

/* The session was woken at this moment in this wait event: for a command, if it then gets one. Whatever it does from then on,
 * starting with waiting for a CPU, is part of that command. */
static __always_inline void command_at_wakeup(struct dbt_command *command, struct dbt_activity *activity, __u32 wait, __u64 woken)
{
	if (!is_client_wait(wait))
		return;
	command->has_client = 1;
	if (!is_executing(activity))
		begin_command(command, woken);
}

/* This call, which the session made in this wait event, has returned. */
static __always_inline void command_at_return(struct dbt_command *command, __u32 wait, __u32 call, long result, __u64 now)
{
	bool has_received = command->has_client && call_uses[call & (MAX_CALLS - 1)] & CALL_RECEIVES && result > 0;

	if (!command->begin && (has_received || is_client_wait(wait)))
		begin_command(command, now);
}

/* As for the latency maps: one is filled while the other is emptied. */
struct command_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* user space sets it */
	__type(key, struct dbt_command_key);
	__type(value, struct dbt_command_sums);
} commands_even SEC(".maps"), commands_odd SEC(".maps");

static const struct dbt_command_sums no_sums = {};

/* Place of a wait event in the sums; `name` is its number plus 1. Other CPUs look for theirs at the same time. */
__noinline __u32 place_of(struct dbt_command_sums *sums, __u64 name)
{
	__u64 found;
	__u32 i;

	if (!sums)
		return 0;
	for (i = 0; i < COMMAND_PARTS - 1; i++) {
		found = sums->parts[i].wait;
		if (!found)
			found = __sync_val_compare_and_swap(&sums->parts[i].wait, 0, name);
		if (!found || found == name)
			return i;
	}
	sums->parts[COMMAND_PARTS - 1].wait = (__u64)WAIT_NOT_READ + 1;
	return COMMAND_PARTS - 1;
}

/* Adds a command that took `whole` to the sums of all that took about as long. */
__noinline int add_command(struct dbt_command *command, __u64 whole)
{
	void *map = latency_epoch & 1 ? (void *)&commands_odd : (void *)&commands_even;
	struct dbt_command_key key = { .bucket = latency_bucket(whole) & ~(COMMAND_BUCKETS - 1) };
	struct dbt_command_sums *sums;
	__u32 i, state, place;
	__u64 ns;

	if (!command || latencies_are_over)
		return 0;
	key.statement = command->statement;
	sums = bpf_map_lookup_elem(map, &key);
	if (!sums && !take_room(SHARE_COMMAND_SUMS) && key.statement) {
		key.statement = STATEMENT_POOLED;
		sums = bpf_map_lookup_elem(map, &key);
	}
	if (!sums) {
		bpf_map_update_elem(map, &key, &no_sums, BPF_NOEXIST);
		sums = bpf_map_lookup_elem(map, &key);
	}
	if (!sums) {
		__sync_fetch_and_add(&latency_lost, 1);
		return 0;
	}
	__sync_fetch_and_add(&sums->count, 1);
	__sync_fetch_and_add(&sums->sum_ns, whole);
	for (i = 0; i < COMMAND_PARTS && i < command->used; i++) {
		place = place_of(sums, command->parts[i].wait) & (COMMAND_PARTS - 1);
		for (state = 0; state < EXACT_STATES; state++) {
			ns = command->parts[i].ns[state];
			if (ns)
				__sync_fetch_and_add(&sums->parts[place].ns[state], ns);
		}
	}
	return 0;
}

/* A command of this task has ended after `whole`. */
static __noinline void count_command(struct dbt_own_histograms *mine, struct dbt_command *command, struct dbt_task_id *task,
				     __u64 whole)
{
	struct dbt_latency_key key = {
		.kind = LATENCY_COMMAND,
		.pid = task->pid,
		.start_ns = task->start_ns,
		.statement = command->statement,
	};

	add_latency_of(mine, &key, whole);
	add_command(command, whole);
}

/* The session makes a call in this wait event and with this activity. Its account is settled up to now. */
static __always_inline void command_at_call(struct dbt_own_histograms *mine, struct dbt_command *command,
					    struct dbt_task_id *task, struct dbt_activity *activity, __u32 wait, __u32 call,
					    __u64 now)
{
	__u32 uses = call_uses[call & (MAX_CALLS - 1)];
	bool sends = uses & CALL_SENDS, receives = uses & CALL_RECEIVES, executes;

	if (uses & CALL_CONNECTS)
		command->has_client = 0; /* as far as is known: a WAL receiver is one itself */
	if (!command->begin)
		return;
	/* A session without a statement still shows the id of its last one. When it sends its answer, it says already that it has
	 * none. */
	executes = is_executing(activity);
	if (activity->statement && (executes || sends))
		command->statement = activity->statement;
	if (sends)
		command->answered = 1;
	if (executes || !(is_client_wait(wait) || (receives && command->answered)))
		return;
	if (command->answered)
		count_command(mine, command, task, now - command->begin);
	command->begin = 0;
}

#endif
