/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* User stacks: from the registers of a task to the addresses of its frames, by tables made from each module's .eh_frame, and by
 * frame pointers where a module has none. For the task's own context and for another task that is not running.
 *
 * This file is also compiled for user space, where tests run it over recorded registers and memory: it may use no kernel types,
 * and no helpers but those for which bpf/unwind_in_user_space.c has stand-ins. */
#ifndef UNWIND_BPF_H
#define UNWIND_BPF_H

#include "unwind_rows.h"

#define STACK_COPY 4096 /* of another task: one copy of this size costs less than reading frame by frame */
#define FRAME_SEARCH_STEPS 9   /* a block has at most 257 rows */
#define MAPPING_SEARCH_STEPS 8 /* of MAX_MAPPINGS */
#define REMEMBERED_ROWS 1024 /* a power of two */
#define JIT_REGION 0x1000000   /* code without a module calls code at most this far away */

/* How far above the stack pointer of a signal trampoline the interrupted registers are: uc_mcontext of struct ucontext
 * (arch/x86/include/uapi/asm/sigcontext.h), from rbp to rip. */
#define SIGNAL_REGISTERS 0x78
#define SIGNAL_WORDS 7
#define SIGNAL_BP 0
#define SIGNAL_SP 5
#define SIGNAL_IP 6

struct dbt_unwind_table {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_INNER_MAP); /* each has its own size */
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct dbt_unwind_row));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_TABLES);
	__type(key, __u32);
	__array(values, struct dbt_unwind_table);
} unwind_tables SEC(".maps");

/* Where targets have their code. The first one is empty. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SPACES);
	__type(key, __u32);
	__type(value, struct dbt_space);
} unwind_spaces SEC(".maps");

/* A row that was found recently. Samples are milliseconds apart: by then the tables have left the caches, and the cost of
 * unwinding is how much memory it touches. Rows of the same stack are remembered side by side, and each leads to its caller's;
 * whether that is the right one is always checked. */
struct dbt_remembered {
	__u64 address : 48;
	__u64 caller : 16; /* where the caller's row was the last time */
	__u32 version;     /* of the space */
	__s16 cfa;
	__s8 bp;
	__u8 kind;
};

/* The state of an unwinding. It is in a map, so that the verifier does not follow its values. */
struct dbt_unwind {
	__u64 ip, sp, bp;
	__u64 start, end, code; /* of the mapping that was found last */
	__u32 size, table;
	__u32 next, limit; /* where the next address goes in the sample's frames, and where they end */
	__u32 copied; /* bytes of the stack that are in `stack`, from `stack_begin` upwards */
	__u64 stack_begin;
	__u8 is_call;  /* `ip` is a return address: the call is the instruction before it */
	__u8 outcome;  /* enum dbt_unwind_end */
	__u8 new_code; /* an address was in no known mapping */
	__u8 pad[5];
	__u64 words[SIGNAL_WORDS + 1]; /* read from the stack */
	__u32 row;        /* that of the previous frame; 0 = it is not remembered */
	__u32 remembered; /* last */
	__u16 first_guess[REMEMBERED_ROWS]; /* where the row of an address was, by its lowest bits */
	struct dbt_remembered rows[REMEMBERED_ROWS];
	__u8 stack[STACK_COPY];
};

struct dbt_unwind_context {
	struct dbt_unwind *unwind;
	struct dbt_space *space;
	struct task_struct *task; /* whose memory is read, if not the current one's */
	struct dbt_sample *sample;
};

/* Reads words of the stack into `words`. False = it cannot be read. */
static __always_inline bool read_words(struct dbt_unwind_context *context, __u64 address, __u32 count, bool other)
{
	struct dbt_unwind *unwind = context->unwind;
	__u64 offset;

	if (address & 7)
		return false;
	if (!other)
		return !bpf_probe_read_user(unwind->words, count * sizeof(__u64), (void *)address);
	offset = address - unwind->stack_begin;
	if (offset + count * sizeof(__u64) <= unwind->copied && offset <= STACK_COPY - sizeof(unwind->words)) {
		for (__u32 i = 0; i < count; i++)
			unwind->words[i] = *(__u64 *)&unwind->stack[offset + i * sizeof(__u64)];
		return true;
	}
	return !bpf_copy_from_user_task(unwind->words, count * sizeof(__u64), (void *)address, context->task, 0);
}

/* Makes the mapping that contains an address that of `unwind`; 0 = there is none. Not static: the verifier checks it once. */
__noinline int find_mapping(struct dbt_unwind *unwind, struct dbt_space *space, __u64 address)
{
	struct dbt_mapping *mapping;
	__u32 low = 0, high;

	if (!unwind || !space)
		return false;
	if (address >= unwind->start && address < unwind->end)
		return true;
	high = space->count;
	/* The first mapping that ends after the address is in low … high. */
	for (int i = 0; i <= MAPPING_SEARCH_STEPS; i++) {
		__u32 middle = (low + high) / 2;

		if (low >= high)
			break;
		if (space->mappings[middle & (MAX_MAPPINGS - 1)].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low >= space->count || low >= MAX_MAPPINGS)
		return false;
	mapping = &space->mappings[low & (MAX_MAPPINGS - 1)];
	if (address < mapping->start || address >= mapping->end)
		return false;
	unwind->start = mapping->start;
	unwind->end = mapping->end;
	unwind->code = mapping->code;
	unwind->size = mapping->size;
	unwind->table = mapping->table;
	return true;
}

/* The row that holds at an offset in the code of a table. */
static __always_inline struct dbt_unwind_row *find_row(__u32 number, __u64 offset)
{
	struct dbt_unwind_row *row;
	__u32 index = offset >> UNWIND_BLOCK_BITS, low, high;
	void *table = bpf_map_lookup_elem(&unwind_tables, &number);

	if (!table)
		return 0;
	row = bpf_map_lookup_elem(table, &index);
	if (!row || row->kind != UNWIND_SEARCH)
		return row;
	low = row->pc;
	high = low + (__u16)row->cfa;
	for (int i = 0; i < FRAME_SEARCH_STEPS; i++) {
		__u32 middle = (low + high + 1) / 2;

		if (low >= high)
			break;
		row = bpf_map_lookup_elem(table, &middle);
		if (!row)
			return 0;
		if (row->pc <= offset)
			low = middle;
		else
			high = middle - 1;
	}
	return bpf_map_lookup_elem(table, &low);
}

/* Finds the row that holds at an address. False = there is none. */
static __always_inline bool find_rule(struct dbt_unwind_context *context, struct dbt_remembered *rule, __u64 address)
{
	struct dbt_unwind *unwind = context->unwind;
	struct dbt_unwind_row *row = 0;

	rule->address = 0;
	if (!find_mapping(unwind, context->space, address)) {
		unwind->new_code = 1;
		return false;
	}
	if (unwind->table && address - unwind->code < unwind->size)
		row = find_row(unwind->table - 1, address - unwind->code);
	if (!row)
		return false;
	rule->cfa = row->cfa;
	rule->bp = row->bp;
	rule->kind = row->kind;
	rule->version = context->space->version;
	rule->address = address;
	return true;
}

static __always_inline bool is_rule_of(struct dbt_remembered *rule, struct dbt_unwind_context *context, __u64 address)
{
	return rule->address == address && rule->version == context->space->version;
}

/* The row that holds at an address, remembered or found. */
static __always_inline struct dbt_remembered *rule_of(struct dbt_unwind_context *context, __u64 address)
{
	struct dbt_unwind *unwind = context->unwind;
	struct dbt_remembered *callee = &unwind->rows[unwind->row & (REMEMBERED_ROWS - 1)], *rule;
	__u32 place = callee->caller & (REMEMBERED_ROWS - 1);
	__u16 *guess;

	rule = &unwind->rows[place];
	if (!is_rule_of(rule, context, address)) {
		guess = &unwind->first_guess[address & (REMEMBERED_ROWS - 1)];
		place = *guess & (REMEMBERED_ROWS - 1);
		rule = &unwind->rows[place];
		if (!is_rule_of(rule, context, address)) {
			place = (unwind->remembered + 1) & (REMEMBERED_ROWS - 1);
			rule = &unwind->rows[place];
			if (!find_rule(context, rule, address)) {
				unwind->row = 0;
				return 0;
			}
			*guess = place;
			unwind->remembered = place;
		}
		callee->caller = place;
	}
	unwind->row = place;
	return rule;
}

/* To the caller by the frame pointer. Code without a table may use the register for anything: the frame must be above, and
 * contain an address of code. */
static __always_inline bool follow_frame_pointer(struct dbt_unwind_context *context, bool other)
{
	struct dbt_unwind *unwind = context->unwind;
	__u64 address, bp = unwind->bp, here = unwind->ip;

	if (!bp && unwind->is_call) {
		unwind->outcome = UNWIND_COMPLETE; /* this is how the ABI marks the outermost frame */
		return false;
	}
	if (bp < unwind->sp || !read_words(context, bp, 2, other))
		return false;
	address = unwind->words[1];
	if (!find_mapping(unwind, context->space, address - 1) && address - here + JIT_REGION > 2 * JIT_REGION)
		return false;
	unwind->bp = unwind->words[0];
	unwind->sp = bp + 2 * sizeof(__u64);
	unwind->ip = address;
	return true;
}

/* To what a signal interrupted. */
static __always_inline bool follow_signal(struct dbt_unwind_context *context, bool other)
{
	struct dbt_unwind *unwind = context->unwind;

	if (!read_words(context, unwind->sp + SIGNAL_REGISTERS, SIGNAL_WORDS, other))
		return false;
	unwind->bp = unwind->words[SIGNAL_BP];
	unwind->sp = unwind->words[SIGNAL_SP];
	unwind->ip = unwind->words[SIGNAL_IP];
	unwind->is_call = 0;
	return unwind->ip != 0;
}

static __always_inline bool follow_row(struct dbt_unwind_context *context, struct dbt_remembered *row, bool other)
{
	struct dbt_unwind *unwind = context->unwind;
	__u64 cfa = unwind->sp, bp;

	switch (row->kind) {
	case UNWIND_SP:
		cfa += row->cfa * 8;
		break;
	case UNWIND_BP:
		cfa = unwind->bp + row->cfa * 8;
		break;
	case UNWIND_BP_DEREF:
		if (!read_words(context, unwind->bp + row->cfa * 8, 1, other))
			return false;
		cfa = unwind->words[0];
		break;
	case UNWIND_SP_DEREF:
		if (!read_words(context, unwind->sp + row->cfa * 8, 1, other))
			return false;
		cfa = unwind->words[0] + 8;
		break;
	case UNWIND_PLT:
		cfa += (__s16)(unwind->ip & 15) >= row->cfa ? 16 : 8;
		break;
	default:
		return false;
	}
	if (cfa <= unwind->sp) /* callers lie above */
		return false;
	if (row->bp == -2) { /* pushed first, as nearly everywhere */
		if (!read_words(context, cfa - 16, 2, other))
			return false;
		unwind->bp = unwind->words[0];
		unwind->ip = unwind->words[1];
	} else {
		if (!read_words(context, cfa - 8, 1, other))
			return false;
		unwind->ip = unwind->words[0];
		bp = row->bp == UNWIND_BP_AT_BP ? unwind->bp : cfa + row->bp * 8;
		if (row->bp == UNWIND_BP_LOST) {
			unwind->bp = 1; /* no frame is there */
		} else if (row->bp) {
			if (!read_words(context, bp, 1, other))
				return false;
			unwind->bp = unwind->words[0];
		}
	}
	unwind->sp = cfa;
	return true;
}

/* One frame: from the registers in a function to those in its caller. */
static __always_inline long unwind_frame(struct dbt_unwind_context *context, bool other)
{
	struct dbt_unwind *unwind = context->unwind;
	__u64 address = unwind->ip - (unwind->is_call ? 1 : 0);
	struct dbt_remembered *row = rule_of(context, address);
	__u32 next = unwind->next;
	bool followed;

	unwind->outcome = UNWIND_BROKEN;
	if (row && row->kind == UNWIND_END) {
		unwind->outcome = UNWIND_COMPLETE;
		return 1;
	}
	if (row && row->kind == UNWIND_SIGNAL) {
		followed = follow_signal(context, other);
	} else {
		if (row && row->kind != UNWIND_NONE)
			followed = follow_row(context, row, other);
		else
			followed = follow_frame_pointer(context, other);
		unwind->is_call = 1;
	}
	if (!followed)
		return 1;
	if (!unwind->ip) {
		unwind->outcome = UNWIND_COMPLETE;
		return 1;
	}
	if (next >= unwind->limit || next >= 2 * MAX_FRAMES) {
		unwind->outcome = UNWIND_TRUNCATED;
		return 1;
	}
	context->sample->frames[next] = unwind->ip;
	unwind->next = next + 1;
	return 0;
}

static long unwind_own_frame(__u32 i, struct dbt_unwind_context *context)
{
	return unwind_frame(context, false);
}

static long unwind_other_frame(__u32 i, struct dbt_unwind_context *context)
{
	return unwind_frame(context, true);
}

/* The first frame, after `kernel` others. */
static __always_inline void begin_unwind(struct dbt_unwind_context *context, __u64 kernel, __u64 ip, __u64 sp, __u64 bp)
{
	struct dbt_unwind *unwind = context->unwind;

	kernel &= MAX_FRAMES;
	unwind->ip = ip;
	unwind->sp = sp;
	unwind->bp = bp;
	unwind->start = unwind->end = 0;
	unwind->copied = 0;
	unwind->stack_begin = sp;
	unwind->is_call = 0;
	unwind->row = 0;
	unwind->outcome = UNWIND_TRUNCATED;
	unwind->new_code = 0;
	context->sample->frames[kernel] = ip;
	unwind->next = kernel + 1;
	unwind->limit = kernel + MAX_FRAMES;
}

/* Notes in the sample how it ended. Returns the number of frames. */
static __always_inline __u64 end_unwind(struct dbt_unwind_context *context, __u64 kernel)
{
	struct dbt_unwind *unwind = context->unwind;

	context->sample->user_end = unwind->outcome;
	if (unwind->new_code)
		context->sample->flags |= SAMPLE_NEW_CODE;
	return unwind->next - (kernel & MAX_FRAMES);
}

#endif
