/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* One pass of the sampler thread: samples the targets that are not on a CPU.
 *
 * Another task may start to run while it is being read. So its context switches are compared before and after: if they are equal, and it
 * is off CPU at the end, it has not run in between, and state, wait event and stacks are of one instant. A row whose state and wait event
 * fail this test is read again, and in the end dropped and counted; one where only the stacks fail is kept without them. */
#ifndef WAITING_BPF_H
#define WAITING_BPF_H

struct dbt_waiting_scratch {
	struct dbt_sample sample;
	struct dbt_unwind unwind;
	struct dbt_record record;
	struct dbt_execution execution;
	struct dbt_totals totals;
};

/* Only the sampler thread runs the program: one scratch is enough. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dbt_waiting_scratch);
} waiting_scratch SEC(".maps");

/* Argument of the iterator, which cannot take one itself. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dbt_pass);
} current_pass SEC(".maps");

/* Length of `slots_to_take`. */
__u32 slots_to_take_count = 0;

/* Moments are in the scheduler's clock. */
struct dbt_visit {
	__u32 totals;
	__u64 moment; /* whose states are wanted */
	__u64 begin;  /* of the pass */
	__u32 ran;    /* sessions that have run since the pass before */
	__u32 pass;   /* its number */
	__u64 announced; /* the moment that notes are of, CLOCK_MONOTONIC; 0 = none was announced */
};

/* Bits in the count of a kernel lock: a writer holds it, somebody waits for it, and it will be handed off to a waiter
 * (kernel/locking/rwsem.c). A reader that comes then waits too. */
#define RWSEM_READERS_WAIT 7

/* True while the task's address space is being changed, or is about to be. Reading it would wait for that to end, and all other sessions
 * would then wait to be sampled: the lock's holder may get no CPU for a tenth of a second. */
static __always_inline bool is_memory_busy(struct task_struct *task)
{
	return BPF_CORE_READ(task, mm, mmap_lock.count.counter) & RWSEM_READERS_WAIT;
}

static __always_inline bool is_of_no_stack_class(__u32 wait)
{
	__u32 zero = 0;
	struct dbt_config *config = bpf_map_lookup_elem(&configuration, &zero);

	return config && wait >> 24 < 64 && config->no_stack_classes & (1ULL << (wait >> 24 & 63));
}

/* True in the individual waits in which sessions have nothing to do, such as that for the next command. */
static __always_inline bool is_no_stack_wait(__u32 wait)
{
	__u32 zero = 0;
	struct dbt_config *config = bpf_map_lookup_elem(&configuration, &zero);

	if (!config)
		return false;
	for (int i = 0; i < MAX_NO_STACK_WAITS; i++)
		if (wait && config->no_stack_waits[i] == wait)
			return true;
	return false;
}

static __always_inline bool needs_no_stack(__u32 wait)
{
	return is_of_no_stack_class(wait) || is_no_stack_wait(wait);
}

/* The user stack of a task, after `kernel` frames. Returns the number of its frames. */
static __always_inline __u64 user_stack(struct task_struct *task, struct dbt_waiting_scratch *scratch, struct dbt_target *target,
					__u64 kernel)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u64 ip = BPF_CORE_READ(regs, ip), sp = BPF_CORE_READ(regs, sp), top = BPF_CORE_READ(task, mm, start_stack);
	struct dbt_unwind *unwind = &scratch->unwind;
	__u32 copied = STACK_COPY;
	struct dbt_unwind_context context = {
		.unwind = unwind,
		.task = task,
		.sample = &scratch->sample,
	};

	if (!ip)
		return 0;
	context.space = bpf_map_lookup_elem(&unwind_spaces, &target->space);
	if (!context.space)
		return 0;
	begin_unwind(&context, kernel, ip, sp, BPF_CORE_READ(regs, bp));
	/* A copy that crosses the end of the stack fails as a whole. */
	if (sp < top && top - sp < STACK_COPY)
		copied = (top - sp) & ~7ULL;
	if (copied <= STACK_COPY && !bpf_copy_from_user_task(unwind->stack, copied, (void *)sp, task, 0))
		unwind->copied = copied;
	bpf_loop(MAX_FRAMES, unwind_other_frame, &context, 0);
	return end_unwind(&context, kernel);
}

/* name_statement() for another task. A separate function, so that what it reads is on the stack only while it reads. */
static __noinline void name_other(struct task_struct *task, struct dbt_wait_source *source, struct dbt_text *text,
				  struct dbt_activity *activity)
{
	name_statement(task, source, text, activity, false);
}

/* Opens the account of a task that does not run and may not for a long time. A running task opens its own at its next event. True =
 * open. */
static __always_inline bool open_sleeper(struct task_struct *task, struct dbt_slot *slot)
{
	struct dbt_account *account = bpf_task_storage_get(&accounts, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	__u64 switches = switches_of(task);

	if (!account)
		return false;
	/* A new session, or another one in a process that had one before. */
	if (account->status == ACCOUNT_NEW || account->source.event != slot->source.event) {
		account->source = slot->source;
		ordered();
		if (account->status == ACCOUNT_NEW)
			account->status = ACCOUNT_READY;
	}
	if (account->status == ACCOUNT_OPEN)
		return true;
	if (task_field(task, on_cpu) || is_memory_busy(task) ||
	    __sync_val_compare_and_swap(&account->status, ACCOUNT_READY, ACCOUNT_BUSY) != ACCOUNT_READY)
		return false;
	account->activity = activity_of(task, &slot->source);
	name_other(task, &slot->source, &account->text, &account->activity);
	add_other_plan(task, &slot->source, &account->activity);
	account->mode = MODE_OFF;
	account->off_state = exact_state(task_field(task, __state), BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait));
	open_account(account, task, bpf_ktime_get_ns());
	account->off_cell = own_cell_of(account, account->activity.wait);
	account->left_cpu = 1;
	/* A sleeping task is in a system call, except for the rare page fault that reads from disk. */
	account->in_call = account->off_state != EXACT_RUNNABLE;
	account->call_cell = account->off_cell;
	ordered();
	account->status = has_run(task, switches) ? ACCOUNT_READY : ACCOUNT_OPEN;
	return account->status == ACCOUNT_OPEN;
}

static __always_inline void read_totals(struct task_struct *task, struct dbt_totals *totals, struct dbt_visit *visit)
{
	__u64 queued = task_field(task, sched_info.last_queued);

	totals->event.time_ns = bpf_ktime_get_ns();
	totals->on_cpu_ns = task_field(task, se.sum_exec_runtime);
	if (task_field(task, on_cpu))
		totals->on_cpu_ns = on_cpu_time(task, totals->event.time_ns);
	totals->run_queue_ns = task_field(task, sched_info.run_delay);
	/* The kernel adds a wait for a CPU when it ends; the part that has passed counts already. */
	if (queued && queued < visit->begin)
		totals->run_queue_ns += visit->begin - queued;
}

/* Copies the used part of an account and reads the totals of the same moment. False = the task changed it meanwhile. */
static __always_inline bool copy_account(struct task_struct *task, struct dbt_account *account,
					 struct dbt_account *copy, struct dbt_totals *totals, struct dbt_visit *visit)
{
	__u64 sequence = *(volatile __u64 *)&account->sequence, used, size;

	ordered();
	used = *(volatile __u32 *)&account->sums.used;
	/* Usually little is used, and the less is copied, the less often the task gets in between. */
	size = offsetof(struct dbt_account, sums.waits) + (used & (2 * MAX_WAITS - 1)) * sizeof(struct dbt_wait_sums);
	if (sequence & 1 || size > offsetof(struct dbt_account, histograms) ||
	    bpf_probe_read_kernel(copy, size, account))
		return false;
	read_totals(task, totals, visit);
	if (task_field(task, on_cpu))
		totals->on_cpu_ns = run_time_of(copy, task, totals->event.time_ns);
	ordered();
	return *(volatile __u64 *)&account->sequence == sequence;
}

enum dbt_reported {
	NOT_REPORTED,
	REPORTED,
	ASKED_FOR, /* the task sends the sums itself, at its next boundary */
};

/* Completes the totals with the exact sums as of now, from a copy of the task's account, if there is one. A task that keeps changing it,
 * by making call after call, is asked to send them itself. */
static __always_inline enum dbt_reported report_sums(struct task_struct *task, struct dbt_totals *totals, struct dbt_visit *visit)
{
	struct dbt_account *account = bpf_task_storage_get(&accounts, task, 0, 0), *copy;
	__u32 zero = 0;
	int attempts;

	copy = bpf_map_lookup_elem(&account_scratch, &zero);
	if (!account || !copy || account->status != ACCOUNT_OPEN)
		return NOT_REPORTED;
	for (attempts = 0; attempts < READ_ATTEMPTS; attempts++)
		if (copy_account(task, account, copy, totals, visit))
			break;
	if (attempts == READ_ATTEMPTS) {
		account->wanted = 1;
		return ASKED_FOR;
	}
	if (trace_calls) {
		/* What it executes is noted only at its boundaries, and it may have begun something else since. */
		if (!copy->in_call && copy->source.kind != SOURCE_NONE && !is_memory_busy(task)) {
			copy->activity = activity_of(task, &copy->source);
			name_other(task, &copy->source, &copy->text, &copy->activity);
			add_other_plan(task, &copy->source, &copy->activity);
		}
		settle_copy(copy, &(struct dbt_boundary){
			.now = totals->event.time_ns,
			.task = task,
			.run_delay = totals->run_queue_ns,
			.switches = switches_of(task),
		});
	} else {
		settle_switches(copy, totals->event.time_ns, totals->on_cpu_ns, totals->run_queue_ns, false);
	}
	copy->sums.totals = *totals;
	emit(&copy->sums, sums_size(&copy->sums), BPF_RB_NO_WAKEUP);
	return REPORTED;
}

/* True = exact sums are among them, or will follow. */
static __always_inline bool report_totals(struct task_struct *task, struct dbt_slot *slot, struct dbt_visit *visit)
{
	struct dbt_waiting_scratch *scratch;
	struct dbt_totals *totals;
	enum dbt_reported sums;
	__u64 switches;
	__u32 zero = 0;

	scratch = bpf_map_lookup_elem(&waiting_scratch, &zero);
	if (!scratch)
		return false;
	totals = &scratch->totals;
	__builtin_memset(totals, 0, sizeof(*totals));
	/* Those of a task that has not run are what they were. */
	if (count_tasks && has_run(task, slot->counted_switches)) {
		switches = task_field(task, on_cpu) ? 0 : switches_of(task);
		emit_counts(task, slot->task.pid, slot->task.start_ns, task_field(task, se.sum_exec_runtime));
		slot->counted_switches = switches;
	}
	fill_event(&totals->event, EVENT_TOTALS, slot->task.pid, slot->task.start_ns);
	totals->repeats = slot->repeats;
	totals->torn = slot->torn;
	totals->torn_stacks = slot->torn_stacks;
	totals->displaced = slot->displaced;
	totals->stood_in = slot->stood_in;
	slot->repeats = slot->torn = slot->torn_stacks = slot->displaced = slot->stood_in = 0;
	sums = exact ? report_sums(task, totals, visit) : NOT_REPORTED;
	if (sums == REPORTED)
		return true;
	read_totals(task, totals, visit);
	emit(totals, sizeof(*totals), BPF_RB_NO_WAKEUP);
	return sums == ASKED_FOR;
}

/* Reads the locks that a session holds, to go with the activity in its slot; at once, since it may be about to leave its wait. They are of
 * the same moment if it has not run since; usually also if it is in the same wait: a waiting session neither acquires nor releases such a
 * lock, but it may have left the wait and come back. */
static __always_inline void take_locks(struct task_struct *task, struct dbt_slot *slot)
{
	__u32 wait;

	slot->locks.count = 0;
	if (!slot->source.lock_count)
		return;
	slot->locks.count = LOCKS_NOT_READ;
	if (is_memory_busy(task))
		return;
	read_other_locks(task, &slot->source, &slot->locks);
	if (!slot->has_run_since && !has_run(task, slot->switches))
		return;
	wait = pointed_wait(task, &slot->source, 0);
	if (!wait || wait == WAIT_NOT_READ || wait != slot->activity.wait)
		slot->locks.count = LOCKS_NOT_READ;
}

/* What a session says about itself now, and where: through its own pointers, field by field. */
static __always_inline struct dbt_activity read_fields(struct task_struct *task, struct dbt_slot *slot)
{
	struct dbt_shared *shared = &slot->shared;
	struct dbt_activity activity = activity_at(task, &slot->source, shared);

	if (!shared->stack)
		shared->stack = BPF_CORE_READ(task, mm, start_stack);
	name_statement(task, &slot->source, &slot->text, &activity, true);
	add_other_plan(task, &slot->source, &activity);
	slot->since_now = since_of(task, &slot->source, shared->record, activity.session_state);
	shared->process = 0;
	if (slot->source.record_bytes && shared->wait && shared->record)
		read_memory(task, &shared->process, sizeof(shared->process), shared->record + slot->source.process_offset);
	return activity;
}

/* The same from the known addresses, in two reads: each read of another process's memory takes the kernel one to two microseconds. A
 * session that ends removes its pid from the record before it gives back the place of its wait event (what is registered last with
 * on_shmem_exit() is called first), so a record that still shows the pid, read after the wait event, vouches for both. False = it does
 * not, or the addresses are not known. */
static __always_inline bool read_known(struct task_struct *task, struct dbt_slot *slot, struct dbt_activity *activity)
{
	struct dbt_wait_source *source = &slot->source;
	struct dbt_shared *shared = &slot->shared;
	struct dbt_waiting_scratch *scratch;
	struct dbt_record *record;
	__u32 zero = 0;
	__u64 since;

	scratch = bpf_map_lookup_elem(&waiting_scratch, &zero);
	if (!scratch || !shared->process)
		return false;
	record = &scratch->record;
	if (read_memory(task, &activity->wait, sizeof(activity->wait), shared->wait) ||
	    read_memory(task, record, source->record_bytes & (RECORD_BYTES - 1), shared->record) ||
	    int_at(record, source->process_offset) != shared->process)
		return false;
	activity->statement = long_at(record, source->statement_offset);
	activity->session_state = int_at(record, source->state_offset);
	since = long_at(record, source->since_offset);
	if (!activity->statement && activity->session_state && source->text_offset && since && since == slot->text.since)
		activity->statement = slot->text.fingerprint;
	if (source->plan_offset && long_at(record, source->plan_offset))
		add_other_plan(task, source, activity);
	slot->since_now = read_comments && source->comment_offset && activity->session_state ? since : COMMENT_NONE;
	return true;
}

static __always_inline struct dbt_activity read_activity(struct task_struct *task, struct dbt_slot *slot)
{
	struct dbt_activity activity = { .wait = WAIT_NOT_READ };

	slot->since_now = COMMENT_NOT_READ;
	if (slot->source.kind != SOURCE_NONE && is_memory_busy(task))
		return activity;
	return read_known(task, slot, &activity) ? activity : read_fields(task, slot);
}

/* Whether the text that was read last is of another execution than the row that was found; false if it is not known when that began. */
static __always_inline bool began_another(struct dbt_slot *slot)
{
	return slot->since != COMMENT_NONE && slot->since != COMMENT_NOT_READ && slot->since != slot->text.since;
}

/* Marks it now, while it sleeps: short sleeps are over before the second look. Who sends a session its next command is not of interest;
 * who gives a background process its work is. */
static __always_inline void mark_sampled_sleep(struct task_struct *task, __u64 switches, __u32 state, __u32 wait)
{
	if (state != TASK_RUNNING && state != TASK_WAKING && !is_no_stack_wait(wait))
		mark_sleep(task, switches);
}

/* The row of a session that has run since the moment. `since`: when the statement of `activity` began. */
static __always_inline void take_note(struct dbt_slot *slot, __u32 state, __u32 in_iowait, struct dbt_activity *activity, __u64 since)
{
	slot->looked_ns = bpf_ktime_get_ns();
	slot->activity = *activity;
	slot->since = since;
	slot->in_iowait = in_iowait;
	slot->switches = NO_ROW;
	slot->state = state;
	slot->is_new = 1;
	slot->has_run_since = 1;
	slot->locks.count = slot->source.lock_count ? LOCKS_NOT_READ : 0;
}

/* A session that has got a CPU since the moment, but has not left its wait yet: the database usually does so some microseconds later. */
static __always_inline void look_at_runner(struct task_struct *task, struct dbt_slot *slot)
{
	struct dbt_activity activity = read_activity(task, slot);

	if (!activity.wait || activity.wait == WAIT_NOT_READ)
		return;
	take_note(slot, TASK_RAN_SINCE, 0, &activity, slot->since_now);
	slot->ended_switches = (__u32)switches_of(task) + 1;
	take_locks(task, slot);
}

/* First look, if no timer has noted the moment: in which state was the session then, and in which wait event? Quick, so that all sessions
 * are looked at within microseconds. One that runs in between is looked at again.
 *
 * The moment was drawn at random. The sampler comes later: by its timer's latency, which is largest if the CPU sleeps, and together with
 * other interrupts of that CPU, which wake sessions. So the states that it finds are not random. What happened since the moment is undone,
 * as far as the kernel's records allow. */
static __always_inline void look_for_state(struct task_struct *task, struct dbt_slot *slot, struct dbt_visit *visit)
{
	for (int looks = 0; looks < LOOKS; looks++) {
		struct dbt_activity activity;
		__u64 switches = switches_of(task);
		__u32 state = state_at(task, slot, visit->moment);

		if (state == TASK_ON_A_CPU || (state == TASK_CAME && task_field(task, on_cpu)))
			return;
		if (state == TASK_DISPLACED || state == TASK_CAME) {
			slot->displaced++;
			return;
		}
		if (state == TASK_RAN_SINCE) {
			look_at_runner(task, slot);
			return;
		}
		/* Nobody noted which wait it was in then. Its current one stands in for it: waits begin as often as they end. Otherwise
		 * naps would be lost that are not much longer than the look is late. */
		if (state == TASK_SLEPT_AGAIN)
			state = task_field(task, __state);
		if (switches == slot->switches && state == slot->state) {
			slot->repeats++; /* it has not run since the last row: the row still holds */
			return;
		}
		slot->in_iowait = BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait);
		activity = read_activity(task, slot);
		slot->looked_ns = bpf_ktime_get_ns();
		mark_sampled_sleep(task, switches, state, activity.wait);
		if (has_run(task, switches))
			continue;
		slot->activity = activity;
		slot->since = slot->since_now;
		slot->switches = switches;
		slot->state = state;
		slot->is_new = 1;
		take_locks(task, slot);
		return;
	}
	slot->torn++;
	slot->switches = NO_ROW;
}

static __always_inline __u32 ended_in(__u32 state, __u32 in_iowait)
{
	if (state == TASK_RUNNING || state == TASK_CAME)
		return ENDED_RUNNABLE;
	if (!is_off_cpu(state))
		return ENDED_STATES;
	if (state & TASK_WAKING)
		return in_iowait ? ENDED_DISK : ENDED_SLEEP;
	if (state & TASK_INTERRUPTIBLE)
		return ENDED_SLEEP;
	return state & TASK_UNINTERRUPTIBLE ? ENDED_DISK : ENDED_STATES;
}

static __always_inline bool is_wait_for_client(__u32 wait)
{
	__u32 zero = 0;
	struct dbt_config *config = bpf_map_lookup_elem(&configuration, &zero);

	return config && config->client_wait && wait >> 24 == config->client_wait >> 24;
}

/* By how it got into the run queue. */
static __always_inline __u64 ended_in_run_queue(struct dbt_slot *slot)
{
	struct dbt_note *note = &slot->note;

	if (!note->woken_ns)
		return ENDED_PREEMPTED;
	if (!note->waker_stack)
		return ENDED_WOKEN_BY_INTERRUPT;
	return note->waker_stack == slot->shared.stack ? ENDED_WOKEN_BY_SERVER : ENDED_WOKEN_BY_OTHER;
}

/* A sleep that a process of the same server ended was no wait for the client; one that another process ended was. Interrupts and kernel
 * threads end both. */
static __always_inline __u64 ended_in_sleep(struct dbt_slot *slot)
{
	struct dbt_note *note = &slot->note;

	if (!note->woken_ns || !note->waker_stack || !slot->shared.stack)
		return ENDED_SLEEP;
	return note->waker_stack == slot->shared.stack ? ENDED_SLEEP_FOR_SERVER : ENDED_SLEEP_FOR_CLIENT;
}

/* Which kind of ended wait can stand in for the one in which a session was noted. */
static __always_inline __u64 ended_as_noted(struct dbt_slot *slot)
{
	__u64 kind = ended_in(slot->note.state, slot->note.in_iowait);

	if (kind == ENDED_RUNNABLE)
		return ended_in_run_queue(slot);
	return kind == ENDED_SLEEP ? ended_in_sleep(slot) : kind;
}

static __always_inline void learn(struct dbt_slot *slot, __u64 kind, struct dbt_activity *activity, bool by_chance)
{
	if (!by_chance && slot->ended_by_chance & 1 << kind)
		return;
	slot->ended[kind] = *activity;
	slot->ended_known |= 1 << kind;
	slot->ended_by_chance |= by_chance << kind;
}

/* Learns from what a session did at the moment and no longer does. Which waits end between moments and looks depends on their number, not
 * their length, and one may have to stand in for another. `activity`: what it did, if that is known; `by_chance`: it would be known
 * whatever it was. */
__noinline int learn_from_end(struct dbt_slot *slot, struct dbt_activity *activity, bool by_chance)
{
	__u32 kind;

	if (!slot || !activity)
		return 0;
	kind = ended_in(slot->note.state, slot->note.in_iowait);
	if (kind >= ENDED_STATES)
		return 0;
	if (activity->wait == WAIT_NOT_READ)
		return 0;
	learn(slot, kind, activity, by_chance);
	if (kind == ENDED_RUNNABLE)
		learn(slot, ended_in_run_queue(slot), activity, by_chance);
	else if (kind == ENDED_SLEEP)
		learn(slot, is_wait_for_client(activity->wait) ? ENDED_SLEEP_FOR_CLIENT : ENDED_SLEEP_FOR_SERVER, activity,
		      by_chance);
	return 0;
}

/* It is not known which wait it was in. Another one that ended stands in for it. `now`: what the session says by now. */
__noinline int stand_in(struct dbt_slot *slot, struct dbt_activity *now)
{
	struct dbt_activity activity;
	__u32 state, kind;

	if (!slot || !now)
		return 0;
	state = slot->note.state == TASK_CAME ? TASK_RUNNING : slot->note.state;
	kind = ended_as_noted(slot);
	if (kind < ENDED_SLEEP && !(slot->ended_known & 1 << kind))
		kind = ENDED_RUNNABLE;
	if (kind >= ENDED_STATES || !(slot->ended_known & 1 << kind))
		return 0;
	activity = slot->ended[kind];
	/* Usually it still executes the same statement. */
	if (now->wait != WAIT_NOT_READ && now->session_state == activity.session_state)
		activity.statement = now->statement;
	/* Which execution that was is not known. */
	take_note(slot, state, slot->note.in_iowait, &activity, COMMENT_NOT_READ);
	/* For disk waits it does not matter which one stands in: the waker is that of the noted one. */
	if (kind == ENDED_DISK)
		slot->ender_is_noted = slot->note.woken_ns != 0;
	slot->stood_in++;
	return 0;
}

/* Whether a wait event that a session was in after it got a CPU is the one in which it was noted. From a network or lock sleep it gets to
 * its next wait about as quickly as to its next look; a disk wait is followed by work in the kernel, and a preempted session goes on where
 * it was. */
static __always_inline bool is_of_note(struct dbt_slot *slot, struct dbt_activity *now)
{
	__u32 kind = ended_as_noted(slot);

	if (slot->note.was_pushed_off || kind == ENDED_DISK || kind >= ENDED_STATES)
		return true;
	if (!(slot->ended_known & 1 << kind))
		return kind < ENDED_SLEEP;
	return slot->ended[kind].wait == now->wait;
}

/* First look, if a timer has noted the moment: the state is known. So is the wait event if the session has not run since, or if it could
 * be read before that. A session that had got a CPU by the time of the note may have left its wait: then having no wait event says
 * nothing, unless it had been preempted. */
static __always_inline void look_by_note(struct task_struct *task, struct dbt_slot *slot)
{
	struct dbt_note *note = &slot->note;
	struct dbt_activity now;
	__u64 switches = note->switches;
	__u32 state = note->state;
	bool had_come = note->has_come || !is_off_cpu(state);
	bool had_left = had_come && !note->activity.wait && !note->was_pushed_off;
	bool is_still_in_it;

	if (state == TASK_ON_A_CPU)
		return;
	if (state == TASK_DISPLACED) {
		slot->displaced++;
		return;
	}
	if (switches == slot->switches && state == slot->state) {
		slot->repeats++;
		if (has_run(task, switches))
			learn_from_end(slot, &slot->activity, false);
		return;
	}
	now = read_activity(task, slot);
	is_still_in_it = !had_left && switches_of(task) == switches && now.wait != WAIT_NOT_READ &&
			 (now.wait || note->was_pushed_off);
	if (is_off_cpu(state) && !has_run(task, switches)) {
		slot->looked_ns = bpf_ktime_get_ns();
		mark_sampled_sleep(task, switches, state, now.wait);
		slot->activity = now;
		slot->since = slot->since_now;
		slot->in_iowait = note->in_iowait;
		slot->switches = switches;
		slot->state = state;
		slot->is_new = 1;
		/* Not in the run queue: the sampler itself pushes sessions there, and they leave it at once. */
		if (state != TASK_RUNNING)
			learn_from_end(slot, &now, false);
		take_locks(task, slot);
	} else if (note->activity.wait != WAIT_NOT_READ && !had_left &&
		   (!had_come || is_of_note(slot, &note->activity))) {
		/* Those that it may have to stand in for are no longer in a wait, and no session woke them. */
		learn_from_end(slot, &note->activity,
			       note->was_pushed_off || (!is_still_in_it && (!note->woken_by_session || note->in_iowait)));
		take_note(slot, state == TASK_CAME ? TASK_RUNNING : state, note->in_iowait, &note->activity, note->since);
		if (is_off_cpu(state) && state != TASK_RUNNING) {
			slot->ender_is_noted = note->woken_ns != 0;
			slot->ended_switches = (__u32)switches + 1;
		}
		take_locks(task, slot);
	} else if (is_still_in_it && is_of_note(slot, &now)) {
		/* It has got a CPU, but has not left the wait yet. */
		learn_from_end(slot, &now, false);
		take_note(slot, state == TASK_CAME ? TASK_RUNNING : state, note->in_iowait, &now, slot->since_now);
		slot->ended_switches = (__u32)switches + 1;
		take_locks(task, slot);
	} else {
		stand_in(slot, &now);
	}
}

static __always_inline void look(struct task_struct *task, struct dbt_slot *slot, struct dbt_visit *visit)
{
	__u64 turns = task_field(task, sched_info.pcount);

	slot->is_new = slot->has_run_since = slot->ended_switches = slot->ender_is_noted = 0;
	if (note_moments && visit->announced && slot->note.moment == visit->announced)
		look_by_note(task, slot);
	else
		look_for_state(task, slot, visit);
	slot->was_awake = turns != slot->turns || task_field(task, on_cpu);
	visit->ran += slot->was_awake;
	slot->turns = turns;
	slot->run_delay = task_field(task, sched_info.run_delay);
}

/* Reads what a session says about the text of its current execution: the record in one piece if its address is known. */
static __always_inline void read_execution(struct task_struct *task, struct dbt_slot *slot, struct dbt_waiting_scratch *scratch)
{
	struct dbt_execution *execution = &scratch->execution;
	struct dbt_wait_source *source = &slot->source;
	struct dbt_record *record = &scratch->record;
	struct dbt_shared *shared = &slot->shared;
	__u32 text = source->comment_offset ? source->comment_offset : source->text_offset;

	execution->since = 0;
	execution->changes = 1;
	if (!shared->record || !text)
		return;
	if (shared->process) {
		if (read_memory(task, record, source->record_bytes & (RECORD_BYTES - 1), shared->record) ||
		    int_at(record, source->process_offset) != shared->process)
			return;
		execution->changes = int_at(record, 0);
		execution->since = long_at(record, source->since_offset);
		execution->text = long_at(record, text);
	} else if (read_memory(task, &execution->changes, sizeof(execution->changes), shared->record) ||
		   read_memory(task, &execution->since, sizeof(execution->since), shared->record + source->since_offset) ||
		   read_memory(task, &execution->text, sizeof(execution->text), shared->record + text)) {
		execution->changes = 1;
	}
}

/* Where the execution has no id: uses its fingerprint. A separate function, so that what it reads is on the stack only while it reads. */
static __noinline bool take_name(struct task_struct *task, struct dbt_slot *slot, struct dbt_waiting_scratch *scratch)
{
	struct dbt_execution *execution = &scratch->execution;
	struct dbt_activity *activity = &scratch->sample.activity;
	struct dbt_text *text = &slot->text;

	if (!execution->since ||
	    (!is_found(text, execution->since, activity->wait) &&
	     !learn_text(task, &slot->source, slot->shared.record, text, activity->wait, execution)))
		return false;
	activity->statement = text->fingerprint;
	return true;
}

/* What a sample says of the execution: its name and its comment. Both are read once for each execution. */
static __always_inline void take_execution(struct task_struct *task, struct dbt_slot *slot, struct dbt_waiting_scratch *scratch)
{
	struct dbt_activity *activity = &scratch->sample.activity;
	bool needs_name = !activity->statement && activity->session_state && slot->source.text_offset;

	scratch->sample.comment = slot->since == COMMENT_NONE ? COMMENT_NONE : COMMENT_NOT_READ;
	if (is_memory_busy(task))
		return;
	forget_copy();
	if (needs_name || needs_comment(slot))
		read_execution(task, slot, scratch);
	if (needs_name && take_name(task, slot, scratch))
		add_other_plan(task, &slot->source, activity);
	scratch->sample.comment = other_comment(task, slot, &scratch->execution);
}

/* Second look, at new rows: the stacks. They belong to the first look as long as the task has not run since; it may have been woken. */
static __always_inline void take(struct task_struct *task, struct dbt_slot *slot, struct dbt_visit *visit)
{
	__u64 switches = slot->switches, kernel = 0, user = 0;
	__u32 routines = 0, pid = slot->task.pid;
	struct dbt_target *target;
	struct dbt_waiting_scratch *scratch;
	struct dbt_sample *sample;
	__u32 zero = 0;

	scratch = bpf_map_lookup_elem(&waiting_scratch, &zero);
	if (!scratch)
		return;
	sample = &scratch->sample;
	fill_event(&sample->event, EVENT_WAITING, slot->task.pid, slot->task.start_ns);
	/* Whoever ended the sleep meanwhile did so after this. */
	sample->event.time_ns = slot->looked_ns;
	sample->flags = slot->in_iowait ? SAMPLE_IN_IOWAIT : 0;
	if (slot->state == TASK_RAN_SINCE)
		sample->flags |= SAMPLE_RAN_SINCE;
	sample->state = slot->state;
	sample->pass = visit->pass;
	sample->user_end = UNWIND_NO_STACK;
	sample->activity = slot->activity;
	take_execution(task, slot, scratch);
	/* By now it may execute another statement. */
	if (slot->has_run_since ? began_another(slot) : has_run(task, switches))
		sample->activity.statement = slot->activity.statement;
	if (sample->activity.wait == WAIT_NOT_READ)
		sample->flags |= SAMPLE_WAIT_NOT_READ;

	sample->locks = slot->locks;

	if (!(sample->flags & SAMPLE_WAIT_NOT_READ) && needs_no_stack(sample->activity.wait)) {
		sample->flags |= SAMPLE_STACK_SKIPPED;
	} else if (slot->has_run_since) {
		sample->flags |= SAMPLE_STACK_TORN;
	} else if (!take_stacks) {
		sample->flags |= SAMPLE_STACK_SKIPPED;
	} else {
		kernel = frames_in(bpf_get_task_stack(task, sample->frames, MAX_FRAMES * sizeof(__u64), 0));
		if (has_run(task, switches)) {
			kernel = 0;
			sample->flags |= SAMPLE_STACK_TORN;
		} else if (!is_memory_busy(task)) {
			target = bpf_map_lookup_elem(&targets, &pid);
			if (target) {
				user = user_stack(task, scratch, target, kernel);
				routines = other_routines(task, target, sample, kernel, user);
				slot->stack_space = target->space;
			}
			if (has_run(task, switches)) {
				user = routines = 0;
				sample->user_end = UNWIND_NO_STACK;
				sample->flags |= SAMPLE_STACK_TORN;
			}
		}
	}
	slot->code_is_new = (sample->flags & SAMPLE_NEW_CODE) != 0;
	if (sample->flags & SAMPLE_STACK_TORN) {
		slot->torn_stacks++;
		slot->switches = NO_ROW; /* the task has run: the row no longer holds */
	}
	sample->repeats = slot->repeats;
	slot->repeats = 0;
	emit_sample(sample, kernel, user, routines);
	/* Not if another sleep stands in, or the session has slept again: who ended that wait is not known. */
	if (slot->state == TASK_WAKING && !slot->has_run_since)
		slot->ended_switches = (__u32)slot->switches + 1;
	if (slot->ender_is_noted)
		tell_waker(task, slot->note.woken_ns, &slot->note.waker);
	else if (slot->ended_switches == (__u32)switches_of(task) + 1)
		tell_last_waker(task);
}

static __always_inline bool needs_account(struct dbt_slot *slot)
{
	return exact && !slot->has_account;
}

/* A session's time is accounted for from its first sums on: they are sent as soon as they are available. */
static __always_inline void begin_account(struct task_struct *task, struct dbt_slot *slot, struct dbt_visit *visit)
{
	if (open_sleeper(task, slot))
		slot->has_account = report_totals(task, slot, visit);
}

/* A wakeup that is under way becomes visible within nanoseconds. */
#define RESTS 3

/* A session found asleep in the same row, look after look, is not looked at until it is woken, or totals are due: most sessions of most
 * servers have nothing to do. A wakeup is signalled before the kernel changes the task's state, so one that came just before its wakeups
 * were counted is seen in one of the next looks. For totals all are looked at, whatever was missed. */
static __always_inline void note_rest(struct task_struct *task, struct dbt_slot *slot, struct dbt_rest *rest, __u32 i)
{
	__u32 state = task_field(task, __state);
	struct dbt_mark *mark;

	if (slot->is_new || slot->was_awake || slot->code_is_new || state != slot->state || switches_of(task) != slot->switches ||
	    !(state & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)) || rest->wakings != rest->wakings_seen) {
		rest->rests = 0;
		rest->wakings_seen = rest->wakings;
	} else if (rest->rests) {
		rest->rests += rest->rests < RESTS;
	} else {
		mark = bpf_task_storage_get(&marks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!mark)
			return;
		mark->rests_in = i + 1;
		rest->rests = 1;
	}
}

static __always_inline bool is_resting(struct dbt_rest *rest)
{
	return rest->rests == RESTS && rest->wakings == rest->wakings_seen;
}

/* A sleeping session keeps its row, and so its stack. Once more is known about its mappings, both are sampled again. This and
 * list_looked_at() are verified on their own: inlined, they would give a session's part of a pass more paths than the verifier follows. */
__noinline int look_again_at_stack(struct dbt_slot *slot)
{
	struct dbt_target *target;
	__u32 pid;

	if (!slot || !slot->code_is_new)
		return 0;
	pid = slot->task.pid;
	target = bpf_map_lookup_elem(&targets, &pid);
	if (target && target->space != slot->stack_space) {
		slot->code_is_new = 0;
		slot->switches = NO_ROW;
	}
	return 0;
}

/* Appends to a list of `count`. */
static __always_inline void list_slot(void *list, __u32 *count, __u32 number)
{
	__u32 n = *count, *place = bpf_map_lookup_elem(list, &n);

	if (place) {
		*place = number;
		*count = n + 1;
	}
}

/* A session was looked at: lists what is left to do for it in this pass, and at the next moment. */
__noinline int list_looked_at(struct dbt_slot *slot, __u32 number)
{
	if (!slot)
		return 0;
	if (slot->was_awake)
		list_slot(&awake_slots, &awake_count, number);
	if (slot->is_new || needs_account(slot))
		list_slot(&slots_to_take, &slots_to_take_count, number);
	return 0;
}

static long look_at_slot(__u32 i, struct dbt_visit *visit)
{
	struct dbt_rest *rest = bpf_map_lookup_elem(&rests, &i);
	struct task_struct *task;
	struct dbt_slot *slot;

	if (!rest)
		return 0;
	if (is_resting(rest) && !visit->totals) {
		rest->repeats++;
		return 0;
	}
	slot = bpf_map_lookup_elem(&slots, &i);
	if (!slot || !slot->task.pid)
		return 0;
	slot->repeats += rest->repeats;
	rest->repeats = 0;
	look_again_at_stack(slot);
	task = bpf_task_from_pid(slot->task.pid);
	if (!task)
		return 0;
	if (is_session(task, slot)) {
		look(task, slot, visit);
		note_rest(task, slot, rest, i);
		list_looked_at(slot, i);
		/* Here, where nothing sleeps: no session's totals wait for another one's memory. */
		if (visit->totals && !needs_account(slot))
			report_totals(task, slot, visit);
	}
	bpf_task_release(task);
	return 0;
}

/* If the pass has come before the timer. */
static long note_slot_now(__u32 n, struct dbt_visit *visit)
{
	struct dbt_noting nobody = {
		.moment = visit->announced,
		.since = visit->moment,
	};
	__u32 i;
	struct dbt_slot *slot = listed_slot(&awake_slots, n, &i);

	if (slot && slot->task.pid && slot->was_awake && slot->note.moment != visit->announced)
		note_slot(slot, i, &nobody);
	return 0;
}

static long take_slot(__u32 n, struct dbt_visit *visit)
{
	__u32 i;
	struct dbt_slot *slot = listed_slot(&slots_to_take, n, &i);
	struct task_struct *task;

	if (!slot || !slot->task.pid)
		return 0;
	task = bpf_task_from_pid(slot->task.pid);
	if (!task)
		return 0;
	if (is_session(task, slot)) {
		if (needs_account(slot))
			begin_account(task, slot, visit);
		if (slot->is_new)
			take(task, slot, visit);
	}
	slot->is_new = 0;
	bpf_task_release(task);
	return 0;
}

/* If the difference of the clocks is not known, nothing that happened since the moment is undone. */
static __always_inline struct dbt_visit visit_of(struct dbt_pass *pass, struct task_struct *sampler)
{
	struct dbt_visit visit = {
		.totals = pass->totals,
		.pass = pass->number,
		.announced = pass->announced,
		.moment = ~0ULL,
		.begin = sampler->sched_info.last_arrival,
	};

	if (arrival_clock_offset) {
		visit.moment = pass->moment - arrival_clock_offset;
		visit.begin = bpf_ktime_get_ns() - arrival_clock_offset;
	}
	return visit;
}

/* One pass over the list of targets. */
SEC("syscall")
int sampler_pass(struct dbt_pass *pass)
{
	struct task_struct *sampler = bpf_get_current_task_btf();
	struct dbt_visit visit;

	arrival_clock_offset = pass->clock_offset;
	room_for_pieces = MOST_PIECES;
	visit = visit_of(pass, sampler);
	if (note_moments && visit.announced && arrival_clock_offset)
		bpf_loop(awake_count, note_slot_now, &visit, 0);
	awake_count = slots_to_take_count = 0;
	bpf_loop(pass->slots, look_at_slot, &visit, 0);
	bpf_loop(slots_to_take_count, take_slot, &visit, 0);
	if (pass->is_last)
		latencies_are_over = 1;
	return visit.ran;
}

/* The same for kernels that cannot look up a task by pid: a pass over all tasks of the host. */
SEC("iter.s/task")
int sampler_iterate(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task, *sampler = bpf_get_current_task_btf();
	struct dbt_visit visit;
	__u32 pid, index, zero = 0;
	struct dbt_target *target;
	struct dbt_pass *pass = bpf_map_lookup_elem(&current_pass, &zero);
	struct dbt_slot *slot;

	if (!pass)
		return 0;
	if (!task) { /* all have been visited */
		latencies_are_over = pass->is_last != 0;
		return 0;
	}
	arrival_clock_offset = pass->clock_offset;
	if (task == sampler)
		room_for_pieces = MOST_PIECES;
	pid = task->pid;
	target = bpf_map_lookup_elem(&targets, &pid);
	if (!target || !target->slot)
		return 0;
	index = target->slot - 1;
	slot = bpf_map_lookup_elem(&slots, &index);
	if (!slot || slot->task.pid != pid || !pass->slots)
		return 0;
	visit = visit_of(pass, sampler);
	if (!is_session(task, slot))
		return 0;
	look_again_at_stack(slot);
	look(task, slot, &visit);
	if (needs_account(slot))
		begin_account(task, slot, &visit);
	else if (visit.totals)
		report_totals(task, slot, &visit);
	if (slot->is_new)
		take(task, slot, &visit);
	return 0;
}

#endif
