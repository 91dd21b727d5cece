/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Which internal locks a session holds: its own list of them, which it alone writes. It adds a lock just
 * after acquiring it, and removes it just before releasing it. */
#ifndef HELD_LOCKS_BPF_H
#define HELD_LOCKS_BPF_H

#include "page_locks.bpf.h"

/* An entry of the list, as PostgreSQL has it (LWLockHandle in src/backend/storage/lmgr/lwlock.c). */
struct dbt_lock_handle {
	__u64 lock; /* begins with its 16-bit kind */
	__u32 mode;
	__u32 pad;
};

#define MOST_LOCKS 200 /* MAX_SIMUL_LWLOCKS: a session cannot have more */

/* `task` as in read_memory(). */
static __always_inline void read_locks(struct task_struct *task, struct dbt_wait_source *source, struct dbt_locks *locks)
{
	struct dbt_lock_handle handle = {};
	__u32 count = 0;
	__u16 kind = 0;

	locks->count = LOCKS_NOT_READ;
	if (read_memory(task, &count, sizeof(count), source->lock_count) || count > MOST_LOCKS)
		return;
	for (__u32 i = 0; i < MAX_LOCKS && i < count; i++) {
		if (read_memory(task, &handle, sizeof(handle), source->lock_list + i * sizeof(handle)) ||
		    read_memory(task, &kind, sizeof(kind), handle.lock))
			return;
		locks->locks[i] = (__u64)kind << LOCK_KIND_SHIFT | (handle.lock & LOCK_ADDRESS) | (handle.mode & LOCK_MODE);
		if (i < MAX_PAGES)
			read_page(task, source, handle.lock, &locks->pages[i]);
	}
	locks->count = count;
}

/* Separate functions, to save stack in their callers. */
static __noinline int read_own_locks(struct dbt_wait_source *source, struct dbt_locks *locks)
{
	read_locks(0, source, locks);
	return 0;
}

static __noinline int read_other_locks(struct task_struct *task, struct dbt_wait_source *source, struct dbt_locks *locks)
{
	read_locks(task, source, locks);
	return 0;
}

#endif
