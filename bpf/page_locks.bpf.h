/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Which page a buffer's lock is for: each buffer has a descriptor in an array in shared memory, which begins with its page and contains
 * the lock (BufferDesc in PostgreSQL's src/include/storage/buf_internals.h). */
#ifndef PAGE_LOCKS_BPF_H
#define PAGE_LOCKS_BPF_H

/* Reads the page, or notes that there is none. Whoever holds or requests such a lock has pinned the page: until it unpins that too, the
 * buffer keeps its page. `task` as in read_memory(). */
static __always_inline void read_page(struct task_struct *task, const struct dbt_wait_source *source, __u64 lock, struct dbt_page *page)
{
	__u64 behind = lock - source->page_locks;

	*page = (struct dbt_page){};
	if (source->page_locks && behind < (__u64)source->page_lock_count * source->page_lock_step &&
	    !(behind % source->page_lock_step))
		read_memory(task, page, sizeof(*page), lock - source->page_lock_offset);
}

#endif
