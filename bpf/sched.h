/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* What `dbtime sched` sends to user space. All times are CLOCK_MONOTONIC nanoseconds. */
#ifndef SCHED_H
#define SCHED_H

#define COMM 16         /* TASK_COMM_LEN */
#define MAX_OCCUPANTS 8 /* who had the CPU during one delay; a power of two; the last one is all others together */

enum dbt_sched_event {
	SCHED_TURN = 1,  /* struct dbt_turn: a task of interest left its CPU */
	SCHED_BEGIN = 2, /* struct dbt_sched_life: a child of one was forked */
	SCHED_END = 3,   /* struct dbt_sched_life: one exits */
};

enum dbt_turn_flag {
	TURN_PUSHED_OFF = 1,        /* it was preempted */
	TURN_IN_IOWAIT = 2,         /* it goes to sleep for block I/O */
	TURN_WAIT_PUSHED_OFF = 4,   /* the same for the switch-out before */
	TURN_WAIT_IN_IOWAIT = 8,
	TURN_MOVED = 16,            /* it came back on another CPU than the one it had left, or was moved meanwhile */
	TURN_WOKEN = 32,            /* `waker` is valid */
};

/* In place of a pid. */
enum dbt_nobody {
	OTHER_TASKS = 0xffffffff,
};

struct dbt_occupant {
	__u64 ns;
	__u32 pid; /* 0 = the CPU was idle */
	__u32 pad;
	char comm[COMM];
};

struct dbt_sched_life {
	__u32 kind;
	__u32 pad;
	struct dbt_task_id task;
};

/* From a switch-out to the next one: off CPU, then on it. */
struct dbt_turn {
	__u32 kind;
	__u32 cpu;
	struct dbt_task_id task;
	__u64 since_ns;   /* the switch-out before */
	__u64 time_ns;    /* this one */
	__u64 run_ns;     /* of that, on a CPU: the kernel's sum_exec_runtime */
	__u64 delay_ns;   /* in the run queue: the kernel's run_delay */
	__u32 wait;       /* wait event at the switch-out before */
	__u32 wait_state; /* raw __state then */
	__u32 state;      /* and now */
	__u32 flags;      /* enum dbt_turn_flag */
	__s32 priority;
	__u32 migrations;
	__u32 waker;      /* pid; 0 = an interrupt */
	__u32 occupants;  /* of `who` */
	__u32 missed;     /* switches in between that were not seen */
	__u32 wait_session_state; /* as the database numbers it, at the switch-out before */
	__u64 wait_statement; /* what it executed at the switch-out before: an id, or a fingerprint */
	__u64 statement;      /* at this one */
	char waker_comm[COMM];
	char comm[COMM];
	struct dbt_occupant who[MAX_OCCUPANTS]; /* truncated to what is used */
};

#endif
