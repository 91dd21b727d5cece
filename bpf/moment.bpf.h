/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* What every session does at the moment drawn for a pass, noted by a kernel timer.
 *
 * The sampler thread has to get a CPU before it can look, and sessions go on meanwhile. This timer's interrupt is handled at once,
 * whatever is running, and no session gets that CPU because of it. An interrupt cannot read another process's memory. But sessions of one
 * server share the memory with their wait events, at the same address: whichever is interrupted shows those of all. */
#ifndef MOMENT_BPF_H
#define MOMENT_BPF_H

/* States that are not the kernel's. */
#define TASK_RAN_SINCE 0x80000000 /* blocked at the moment, but on a CPU or in the run queue again when it was looked at */
#define TASK_ON_A_CPU 0x80000001  /* sampled by the timer */
#define TASK_DISPLACED 0x80000002 /* was on a CPU at the moment, and no longer is */
#define TASK_CAME 0x80000003      /* in the run queue at the moment, and has got a CPU since */
#define TASK_SLEPT_AGAIN 0x80000004 /* blocked at the moment, ran since, and is blocked again */
#define TASK_RUNNING 0
#define TASK_INTERRUPTIBLE 1
#define TASK_UNINTERRUPTIBLE 2
#define TASK_WAKING 0x200
#define PF_EXITING 0x00000004 /* include/linux/sched.h */

/* How often a session is looked at in one pass before its row counts as torn. */
#define LOOKS 3

#define CLOCK_MONOTONIC 1 /* include/uapi/linux/time.h */

/* Since Linux 6.2. */
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym __weak;
extern void bpf_task_release(struct task_struct *task) __ksym __weak;

struct dbt_announced {
	struct bpf_timer timer;
	__u64 moment;
	__u32 is_ready;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dbt_announced);
} announced SEC(".maps");

/* Lists that a pass builds while it looks: sessions that ran between the last two looks at them, and those with something to sample. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16384); /* user space sets it */
	__type(key, __u32);
	__type(value, __u32);
} awake_slots SEC(".maps"), slots_to_take SEC(".maps");

/* Length of `awake_slots`. */
__u32 awake_count = 0;

/* Moments that were noted, and how long that took. */
__u64 notes = 0;
__u64 notes_ns = 0;

static __always_inline bool is_off_cpu(__u32 state)
{
	return state < TASK_RAN_SINCE;
}

static __always_inline bool has_run(struct task_struct *task, __u64 switches)
{
	return task_field(task, on_cpu) || switches_of(task) != switches;
}

/* The same task as when the session began, and alive: what it does while exiting is no longer accounted for. */
static __always_inline bool is_session(struct task_struct *task, struct dbt_slot *slot)
{
	__u64 start_ns = task_field(task, start_time);

	if (!slot->task.start_ns)
		slot->task.start_ns = start_ns;
	return start_ns == slot->task.start_ns && !(task_field(task, flags) & PF_EXITING);
}

/* When a task that is off CPU left its CPU, in the scheduler's clock: the kernel records when it got the CPU, and how long it then ran.
 * Too early by what interrupts and the hypervisor took meanwhile. */
static __always_inline __u64 departure_of(struct task_struct *task)
{
	return task_field(task, sched_info.last_arrival) + task_field(task, se.sum_exec_runtime) -
	       task_field(task, se.prev_sum_exec_runtime);
}

/* Whether a task that got a CPU `since` nanoseconds after the moment was blocked at the moment, rather than already in the run queue.
 * `switches`: how many it had made before that. A task woken on another CPU is in no queue until that CPU has handled the waker's
 * interrupt, and the kernel counts it as blocked until then. How long it was queued in this turn is not recorded: the mean of its turns
 * since the last look is assumed. */
static __always_inline bool was_blocked(struct task_struct *task, struct dbt_slot *slot, __u64 moment, __u64 since, __u64 switches)
{
	struct dbt_mark *mark = bpf_task_storage_get(&marks, task, 0, 0);
	__u64 turns = task_field(task, sched_info.pcount) - slot->turns;
	__u64 queued = task_field(task, sched_info.run_delay) - slot->run_delay;

	if (mark && mark->woken_ns) {
		if (mark->slept_switches != switches)
			return false; /* it did not come from a sleep: it had been preempted */
		if ((__s64)(mark->woken_ns - arrival_clock_offset - moment) >= 0)
			return true;
	}
	return turns && since > queued / turns;
}

/* In which state was it at the moment? What happened since is undone, as far as the kernel's records allow. */
static __always_inline __u32 state_at(struct task_struct *task, struct dbt_slot *slot, __u64 moment)
{
	__u64 since = task_field(task, sched_info.last_arrival) - moment;
	bool has_come = (__s64)since >= 0 && since <= LONGEST_TICK;
	__u32 state;

	if (task_field(task, on_cpu)) {
		if (!has_come)
			return TASK_ON_A_CPU;
		return was_blocked(task, slot, moment, since, switches_of(task)) ? TASK_RAN_SINCE : TASK_CAME;
	}
	state = task_field(task, __state);
	if (state == TASK_RUNNING && task_field(task, sched_info.last_queued) >= moment)
		state = TASK_WAKING; /* since the moment */
	if (departure_of(task) < moment)
		return state;
	/* It ran at the moment, or since. */
	if (!has_come)
		return TASK_DISPLACED;
	if (!was_blocked(task, slot, moment, since, switches_of(task) - 1))
		return TASK_CAME;
	return state == TASK_RUNNING || state == TASK_WAKING ? TASK_RAN_SINCE : TASK_SLEPT_AGAIN;
}

/* One look at all sessions by the timer. */
struct dbt_noting {
	__u64 moment;    /* CLOCK_MONOTONIC */
	__u64 since;     /* the same in the scheduler's clock */
	__u64 event;     /* where the interrupted session has the pointer to its wait event; 0 = it is not a session */
	__u64 stack;     /* where its stack begins: the same in all sessions of a server, different in another server */
};

/* How many more sessions may be noted in this interrupt: it must be short. (A global, so that the verifier does not track it.) */
#define MOST_NOTED 128
__u32 room_for_notes = 0;

/* Finds out whose memory can be read here. */
static __always_inline void look_at_interrupted(struct dbt_noting *noting, struct task_struct *interrupted)
{
	__u32 pid = (__u32)bpf_get_current_pid_tgid();
	struct dbt_target *target = bpf_map_lookup_elem(&targets, &pid);

	if (!target || target->source.kind != SOURCE_POINTER)
		return;
	noting->event = target->source.event;
	noting->stack = BPF_CORE_READ(interrupted, mm, start_stack);
}

static __always_inline bool is_of_its_server(struct dbt_slot *slot, struct dbt_noting *noting)
{
	return noting->event && noting->event == slot->source.event && noting->stack == slot->shared.stack;
}

/* Notes what the session says about itself, through the memory that it shares with the interrupted one. */
static __always_inline void note_activity(struct dbt_slot *slot, struct dbt_noting *noting)
{
	struct dbt_note *note = &slot->note;
	__u32 wait;

	note->activity.wait = WAIT_NOT_READ;
	note->since = COMMENT_NOT_READ;
	if (!slot->shared.wait || !is_of_its_server(slot, noting) ||
	    read_memory(0, &wait, sizeof(wait), slot->shared.wait))
		return;
	note->activity = (struct dbt_activity){ .wait = wait };
	if (slot->shared.record) {
		read_record(0, &slot->source, slot->shared.record, &note->activity);
		name_by_known_text(&slot->source, slot->shared.record, &slot->text, &note->activity);
		add_own_plan(&slot->source, slot->shared.record, &note->activity);
	}
	note->since = since_of(0, &slot->source, slot->shared.record, note->activity.session_state);
}

static __always_inline void note_ender(struct dbt_note *note, struct dbt_mark *mark)
{
	note->waker = mark->waker;
	note->waker_stack = mark->waker_stack;
	note->woken_ns = mark->woken_ns;
}

/* Whether a task that was in the run queue had got there from the sleep that the mark is about. */
static __always_inline bool was_woken(struct task_struct *task, struct dbt_note *note, struct dbt_mark *mark)
{
	bool has_left = note->state == TASK_CAME && !task_field(task, on_cpu);

	return mark->woken_ns && mark->slept_switches == note->switches - has_left;
}

/* Whether it sleeps again as before, in a disk wait or not. Then its current wait stands in for the last one: waits begin as often as
 * they end. */
static __always_inline bool sleeps_alike(struct task_struct *task, struct dbt_mark *mark)
{
	return !mark->woken_ns || !((mark->state ^ task_field(task, __state)) & TASK_UNINTERRUPTIBLE);
}

/* The kernel forgets what a task slept in as soon as it wakes; the mark does not. */
static __always_inline void note_sleep(struct task_struct *task, struct dbt_note *note, struct dbt_mark *mark, __u32 i)
{
	if (note->state == TASK_RUNNING || note->state == TASK_CAME) {
		if (was_woken(task, note, mark))
			note_ender(note, mark);
		else
			note->was_pushed_off = mark->woken_ns != 0;
		return;
	}
	if (note->state == TASK_SLEPT_AGAIN)
		note->state = sleeps_alike(task, mark) ? task_field(task, __state) : TASK_RAN_SINCE;
	if (note->state == TASK_RAN_SINCE && mark->woken_ns) {
		note->has_come = 1;
		note->state = mark->state;
		note->in_iowait = mark->in_iowait;
		note_ender(note, mark);
		/* It has left its CPU since, and what it says about itself now is about what came after. */
		if (note->switches != mark->slept_switches) {
			note->switches = mark->slept_switches;
			note->activity.wait = 0;
		}
	} else if (note->state == TASK_WAKING && mark->woken_ns) {
		note->in_iowait = mark->in_iowait || mark->state & TASK_UNINTERRUPTIBLE;
		note_ender(note, mark);
	} else if (is_off_cpu(note->state)) {
		mark->slot = i + 1;
		mark->noted = note->switches + 1;
	}
}

static __always_inline void note_session(struct task_struct *task, struct dbt_slot *slot, __u32 i, struct dbt_noting *noting)
{
	struct dbt_note *note = &slot->note;
	struct dbt_mark *mark;
	bool is_torn = true;

	for (int looks = 0; looks < LOOKS && is_torn; looks++) {
		note->switches = switches_of(task);
		note->woken_by_session = note->has_come = note->was_pushed_off = 0;
		note->woken_ns = 0;
		note->state = state_at(task, slot, noting->since);
		note->in_iowait = BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait);
		note_activity(slot, noting);
		is_torn = switches_of(task) != note->switches || (is_off_cpu(note->state) && task_field(task, on_cpu));
	}
	if (is_torn)
		return; /* it is looked at as if there were no timer */
	mark = bpf_task_storage_get(&marks, task, 0, 0);
	if (mark)
		note_sleep(task, note, mark, i);
	else if (note->state == TASK_SLEPT_AGAIN)
		note->state = task_field(task, __state);
	ordered();
	note->moment = noting->moment;
}

static __always_inline void note_slot(struct dbt_slot *slot, __u32 i, struct dbt_noting *noting)
{
	struct task_struct *task = bpf_task_from_pid(slot->task.pid);

	if (!task)
		return;
	if (is_session(task, slot))
		note_session(task, slot, i, noting);
	bpf_task_release(task);
}

/* One of the sessions that ran between the last two looks at them: few of many. */
static long note_slot_in_time(__u32 n, struct dbt_noting *noting)
{
	__u32 i;
	struct dbt_slot *slot = listed_slot(&awake_slots, n, &i);

	if (!slot || !slot->task.pid || !slot->was_awake || slot->note.moment == noting->moment)
		return 0;
	if (!room_for_notes)
		return 1;
	room_for_notes--;
	note_slot(slot, i, noting);
	return 0;
}

/* A session that was noted is being woken, and the mark already says by whom: the last chance to learn what it waits for. If a session of
 * its server wakes it, they share that memory. */
static __always_inline void note_waking(struct task_struct *task, struct task_struct *current, struct dbt_mark *mark)
{
	__u32 index = mark->slot - 1;
	struct dbt_slot *slot = bpf_map_lookup_elem(&slots, &index);
	__u64 switches = mark->noted - 1;
	struct dbt_noting noting = {};

	mark->noted = 0;
	if (!slot || slot->task.pid != task->pid || switches != switches_of(task))
		return;
	note_ender(&slot->note, mark);
	look_at_interrupted(&noting, current);
	if (!is_of_its_server(slot, &noting))
		return;
	slot->note.woken_by_session = 1;
	if (slot->note.activity.wait == WAIT_NOT_READ)
		note_activity(slot, &noting);
}

/* In the interrupt. A session that slept through the last period usually sleeps on: it can be looked at later. */
static int note_moment(void *map, int *key, struct dbt_announced *pass)
{
	struct dbt_noting noting = {
		.moment = pass->moment,
		.since = pass->moment - arrival_clock_offset,
	};
	__u64 begin = bpf_ktime_get_ns();

	if (!arrival_clock_offset)
		return 0;
	room_for_notes = MOST_NOTED;
	look_at_interrupted(&noting, bpf_get_current_task_btf());
	bpf_loop(awake_count, note_slot_in_time, &noting, 0);
	notes++;
	notes_ns += bpf_ktime_get_ns() - begin;
	return 0;
}

/* The sampler announces when its next pass will be. */
SEC("syscall")
int announce_moment(struct dbt_pass *pass)
{
	__u32 zero = 0;
	struct dbt_announced *next = bpf_map_lookup_elem(&announced, &zero);

	if (!next)
		return 1;
	if (!next->is_ready) {
		if (bpf_timer_init(&next->timer, &announced, CLOCK_MONOTONIC) ||
		    bpf_timer_set_callback(&next->timer, note_moment))
			return 1;
		next->is_ready = 1;
	}
	next->moment = pass->moment;
	return bpf_timer_start(&next->timer, pass->moment, BPF_F_TIMER_ABS) ? 1 : 0;
}

#endif
