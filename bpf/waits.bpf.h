/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Waits as the database means them: each from its first system call to its last, whatever happens in between. Only where
 * calls are traced. Included by exact.bpf.h.
 *
 * The wait event is seen at boundaries only. If two in a row show the same event, it may be one wait or two; the calls tell
 * which:
 *
 *   a call that transfers, syncs or truncates (pread64, fdatasync …) is a wait by itself, except in events that are known to
 *   make several;
 *   a call that sleeps for somebody else (epoll_wait, futex …) ends its wait when it returns what was waited for. One that
 *   a signal interrupted does not, nor do the calls of the signal's handler. epoll_wait and poll may be followed by a read()
 *   of the descriptor that woke them: that is still the same wait. If they did not even sleep, what they found was left over
 *   (a latch's signal), and the wait goes on;
 *   lock waits go on after a signal, although the database leaves the wait event to check for deadlocks: the next wait in
 *   the same event is taken for the same one.
 *
 * What remains: two waits in a row are taken for one if the second begins without any call in between and after a call that
 * did not sleep. */
#ifndef WAITS_BPF_H
#define WAITS_BPF_H

enum dbt_open_wait_flag {
	OPEN_SLEEPS = 1,      /* a call that sleeps was made in it */
	OPEN_OVER = 2,        /* the last of these returned what it waited for */
	OPEN_SLEPT = 4,       /* and had left its CPU */
	OPEN_INTERRUPTED = 8, /* the last of these was interrupted by a signal */
	OPEN_UNSEEN = 16,     /* its beginning was not seen: it is not counted */
};

/* How long a deadlock check may take, including what is logged about it. */
#define RESUMED_WITHIN_NS 100000000ULL

#define CALL_EINTR 4
#define CALL_EAGAIN 11
/* ERESTARTSYS … ERESTART_RESTARTBLOCK: results of calls interrupted by a signal, before user space sees EINTR. */
#define CALL_RESTART_FIRST 512
#define CALL_RESTART_LAST 516

static __always_inline bool was_interrupted(long result)
{
	return result == -CALL_EINTR || (result <= -CALL_RESTART_FIRST && result >= -CALL_RESTART_LAST);
}

static __always_inline bool goes_on_after_signals(__u32 wait)
{
	__u32 zero = 0;
	struct dbt_config *config = bpf_map_lookup_elem(&configuration, &zero);

	return config && wait >> 24 < 64 && config->resumed_classes & (1ULL << (wait >> 24 & 63));
}

__noinline int makes_several_calls(__u32 wait)
{
	__u32 zero = 0;
	struct dbt_config *config = bpf_map_lookup_elem(&configuration, &zero);

	for (int i = 0; i < MAX_SEVERAL_CALLS; i++)
		if (config && config->several_calls[i] == wait)
			return 1;
	return 0;
}

/* Counts a wait, if a call was made in it. */
__noinline int close_wait(struct dbt_account *account, struct dbt_open_wait *of)
{
	struct dbt_subject subject;
	__u32 cell, nowhere = 0;
	__u64 ns;

	if (!account || !of)
		return 0;
	cell = of->cell & (MAX_WAITS - 1);
	ns = of->end - of->begin;
	if (of->wait && of->end > of->begin && !(of->flags & OPEN_UNSEEN)) {
		subject = (struct dbt_subject){ of->statement, of->wait, LATENCY_WAIT };
		/* The cell may have been reused meanwhile. */
		if (wait_in(account, cell) == of->wait && statement_in(account, cell) == of->statement)
			latency_of(account, &account->wait_histograms[cell], &subject, ns);
		else
			latency_of(account, &nowhere, &subject, ns);
	}
	of->wait = 0;
	return 0;
}

/* The task is seen outside the open wait: that is over, or may be resumed. */
static __always_inline void leave_wait(struct dbt_account *account)
{
	struct dbt_open_wait *open = &account->open_wait;

	if (!(open->flags & OPEN_INTERRUPTED) || !goes_on_after_signals(open->wait)) {
		close_wait(account, open);
		return;
	}
	close_wait(account, &account->left_wait);
	account->left_wait = *open;
	open->wait = 0;
}

/* No wait is open; the task is seen in this wait event. */
static __always_inline void open_wait(struct dbt_account *account, __u32 wait, __u32 cell, __u64 now)
{
	if (account->left_wait.wait == wait) {
		account->open_wait = account->left_wait;
		account->left_wait.wait = 0;
		return;
	}
	account->open_wait = (struct dbt_open_wait){
		.statement = statement_in(account, cell),
		.wait = wait,
		.cell = cell,
		.begin = now,
	};
}

static __always_inline void forget_left_wait(struct dbt_account *account, __u64 now)
{
	if (account->left_wait.wait && now - account->left_wait.end > RESUMED_WITHIN_NS)
		close_wait(account, &account->left_wait);
}

/* A call begins, in this wait event (0 = none). */
static __always_inline void wait_at_call(struct dbt_account *account, __u32 wait, __u32 cell, __u32 call, __u64 now)
{
	struct dbt_open_wait *open = &account->open_wait;
	__u32 uses = call_uses[call & (MAX_CALLS - 1)];

	if (wait == WAIT_NOT_READ)
		return;
	forget_left_wait(account, now);
	if (open->wait && open->wait != wait)
		leave_wait(account);
	else if (open->wait && open->flags & OPEN_OVER && uses & CALL_SLEEPS)
		close_wait(account, open);
	else if (open->flags & OPEN_OVER && !(open->flags & OPEN_SLEPT))
		open->flags &= ~OPEN_OVER;
	if (!wait)
		return;
	if (!open->wait && !(uses & CALL_OF_SIGNAL))
		open_wait(account, wait, cell, now);
	if (uses & CALL_SLEEPS)
		open->flags |= OPEN_SLEEPS;
}

/* The task loses its CPU outside of a call, in this wait event. */
static __always_inline void wait_at_switch(struct dbt_account *account, __u32 wait, __u32 cell, __u64 now)
{
	struct dbt_open_wait *open = &account->open_wait;

	if (wait == WAIT_NOT_READ || open->wait == wait)
		return;
	forget_left_wait(account, now);
	if (open->wait)
		leave_wait(account);
	if (wait)
		open_wait(account, wait, cell, now);
}

/* A call has returned whose entry was not seen: the session was in it when its account was opened. */
static __always_inline void wait_at_unseen_return(struct dbt_account *account)
{
	struct dbt_open_wait *open = &account->open_wait;
	__u32 wait = read_wait(account, 0);

	if (wait && wait != WAIT_NOT_READ)
		*open = (struct dbt_open_wait){ .wait = wait, .flags = OPEN_SLEEPS | OPEN_OVER | OPEN_SLEPT | OPEN_UNSEEN };
}

/* The call has returned. */
static __always_inline void wait_at_return(struct dbt_account *account, long result, __u64 now)
{
	struct dbt_open_wait *open = &account->open_wait;
	__u32 uses = call_uses[account->call & (MAX_CALLS - 1)];

	if (!open->wait)
		return;
	open->end = now;
	if (uses & CALL_SLEEPS) {
		if (was_interrupted(result)) {
			open->flags = (open->flags & ~OPEN_OVER) | OPEN_INTERRUPTED;
		} else if (result != -CALL_EAGAIN || uses & CALL_ENDS_WAIT) {
			open->flags = (open->flags & ~(OPEN_INTERRUPTED | OPEN_SLEPT)) | OPEN_OVER;
			if (account->call_flags & CALL_LEFT_CPU)
				open->flags |= OPEN_SLEPT;
			if (uses & CALL_ENDS_WAIT)
				close_wait(account, open);
		}
	} else if (!(uses & CALL_OF_SIGNAL) && !(open->flags & OPEN_SLEEPS) && !was_interrupted(result) &&
		   !makes_several_calls(open->wait)) {
		close_wait(account, open);
	}
}

#endif
