// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* The unwinder compiled for user space, with stand-ins for the kernel's maps and helpers over tables, mappings, registers
 * and memory that a test has recorded. (crates/collect/src/unwind/recorded.rs calls it.) */
#include <linux/types.h>
#include <stdbool.h>
#include <string.h>

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, type) type *name
#define __array(name, type) type *name[]

/* include/uapi/linux/bpf.h */
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_ARRAY_OF_MAPS 12
#define BPF_F_INNER_MAP 0x1000

struct task_struct;

static void *bpf_map_lookup_elem(void *map, const void *key);
static long bpf_probe_read_user(void *to, __u32 size, const void *from);
static long bpf_copy_from_user_task(void *to, __u32 size, const void *from, struct task_struct *task, __u64 flags);

#include "dbtime.h"
#include "unwind.bpf.h"

struct recorded_table {
	const struct dbt_unwind_row *elements;
	__u64 count;
};

/* Reads recorded memory; not 0 = it was not recorded. */
typedef long (*read_memory)(void *to, __u64 size, __u64 from, void *recorded);

struct recorded {
	const struct recorded_table *tables;
	__u64 table_count;
	read_memory read;
	void *memory;
};

static __thread const struct recorded *recorded;

static void *bpf_map_lookup_elem(void *map, const void *key)
{
	__u32 index = *(const __u32 *)key;
	const struct recorded_table *table = map;

	if (map == &unwind_tables)
		return index < recorded->table_count ? (void *)&recorded->tables[index] : 0;
	return index < table->count ? (void *)&table->elements[index] : 0;
}

static long bpf_probe_read_user(void *to, __u32 size, const void *from)
{
	return recorded->read(to, size, (__u64)from, recorded->memory);
}

static long bpf_copy_from_user_task(void *to, __u32 size, const void *from, struct task_struct *task, __u64 flags)
{
	(void)task;
	(void)flags;
	return recorded->read(to, size, (__u64)from, recorded->memory);
}

/* Unwinds from these registers; `other` as if for another task, with a copy of the top of its stack. `unwind` is kept by the
 * caller, as the kernel keeps it from sample to sample. Returns the number of frames. */
__u64 unwind_recorded(const struct recorded *input, struct dbt_space *space, struct dbt_unwind *unwind,
		      const __u64 registers[3], bool other, struct dbt_sample *sample);
__u64 unwind_recorded(const struct recorded *input, struct dbt_space *space, struct dbt_unwind *unwind,
		      const __u64 registers[3], bool other, struct dbt_sample *sample)
{
	struct dbt_unwind_context context = {.unwind = unwind, .space = space, .sample = sample};

	recorded = input;
	begin_unwind(&context, 0, registers[0], registers[1], registers[2]);
	if (other && !bpf_copy_from_user_task(unwind->stack, STACK_COPY, (void *)registers[1], 0, 0))
		unwind->copied = STACK_COPY;
	for (__u32 i = 0; i < MAX_FRAMES; i++)
		if (other ? unwind_other_frame(i, &context) : unwind_own_frame(i, &context))
			break;
	return end_unwind(&context, 0);
}
