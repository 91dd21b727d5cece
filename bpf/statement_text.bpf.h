/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Statements to which the database gives no id: their texts are read where it shows them, and have a fingerprint instead. */
#ifndef STATEMENT_TEXT_BPF_H
#define STATEMENT_TEXT_BPF_H

#include "fingerprint.h"

/* Bytes that are read at a time, beginning at a multiple of them: none of these crosses the end of a page, behind which a program
 * that may not sleep may be unable to read. */
#define TEXT_PIECE 64
#define TEXT_PIECES (FINGERPRINT_BYTES / TEXT_PIECE + 2) /* of a text that begins anywhere */

struct dbt_text_reader {
	struct dbt_fingerprint fingerprint;
	__u64 address; /* of the first piece */
	__u8 piece[TEXT_PIECE];
	__u32 from; /* bytes of this piece that are before the text */
	__u32 left; /* bytes of the text that count */
	__u32 is_over;
	__u32 has_failed;
};

/* Programs have 512 bytes of stack, and those that look at other tasks need them. Only the sampler thread runs these: one is enough. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dbt_text_reader);
} text_scratch SEC(".maps");

struct dbt_text_context {
	struct dbt_text_reader *reader;
	struct task_struct *task; /* as in read_memory() */
};

/* Not static, so that the verifier looks at it once and for itself, whatever it is called with. */
__noinline int take_byte(struct dbt_fingerprint *fingerprint, __u32 byte)
{
	if (fingerprint)
		fingerprint_next(fingerprint, byte);
	return 0;
}

static long read_byte(__u32 i, struct dbt_text_context *context)
{
	struct dbt_text_reader *reader = context->reader;
	__u8 byte = reader->piece[(reader->from + i) & (TEXT_PIECE - 1)];

	if (!byte || !reader->left) {
		reader->is_over = 1;
		return 1;
	}
	reader->left--;
	take_byte(&reader->fingerprint, byte);
	return 0;
}

static __always_inline long read_piece(struct task_struct *task, __u32 i, struct dbt_text_context *context)
{
	struct dbt_text_reader *reader = context->reader;

	if (read_memory(task, reader->piece, TEXT_PIECE, reader->address + i * TEXT_PIECE)) {
		reader->has_failed = 1;
		return 1;
	}
	bpf_loop((TEXT_PIECE - reader->from) & (2 * TEXT_PIECE - 1), read_byte, context, 0);
	reader->from = 0;
	return reader->is_over ? 1 : 0;
}

static long read_own_piece(__u32 i, struct dbt_text_context *context)
{
	return read_piece(0, i, context);
}

static long read_other_piece(__u32 i, struct dbt_text_context *context)
{
	return read_piece(context->task, i, context);
}

static __always_inline void begin_reading(struct dbt_text_reader *reader, __u64 address)
{
	__builtin_memset(reader, 0, sizeof(*reader));
	reader->address = address & ~(TEXT_PIECE - 1ULL);
	reader->from = address & (TEXT_PIECE - 1);
	reader->left = FINGERPRINT_BYTES;
	fingerprint_begin(&reader->fingerprint);
}

/* The fingerprint of the text at this address. False = it cannot be read. A function of its own, so that the reader is on the stack
 * only as long as it reads. */
static __noinline bool own_fingerprint(__u64 address, __u64 *fingerprint)
{
	struct dbt_text_reader reader;
	struct dbt_text_context context = { .reader = &reader };

	begin_reading(&reader, address);
	bpf_loop(TEXT_PIECES, read_own_piece, &context, 0);
	*fingerprint = fingerprint_end(&reader.fingerprint);
	return !reader.has_failed;
}

/* The same of another task. */
static __always_inline bool other_fingerprint(struct task_struct *task, __u64 address, __u64 *fingerprint)
{
	__u32 zero = 0;
	struct dbt_text_reader *reader = bpf_map_lookup_elem(&text_scratch, &zero);
	struct dbt_text_context context = { .reader = reader, .task = task };

	if (!reader)
		return false;
	begin_reading(reader, address);
	bpf_loop(TEXT_PIECES, read_other_piece, &context, 0);
	*fingerprint = fingerprint_end(&reader->fingerprint);
	return !reader->has_failed;
}

/* Where the database gives no ids: puts the fingerprint of the text in the place of the statement's id. `record`: what says what the
 * session executes; `text`: what is known of its text; `only_known`: the text itself is not read. */
static __always_inline void name_by_record(struct task_struct *task, struct dbt_wait_source *source, __u64 record,
					   struct dbt_text *text, struct dbt_activity *activity, bool only_known)
{
	__u64 since = 0, address = 0, fingerprint;
	__u32 before = 1, after = 1;

	if (activity->statement || !source->text_offset || !record ||
	    read_memory(task, &since, sizeof(since), record + source->since_offset) || !since)
		return;
	if (since != text->since) {
		/* The session may write another one meanwhile. */
		if (only_known || read_memory(task, &before, sizeof(before), record) || before & 1 ||
		    read_memory(task, &address, sizeof(address), record + source->text_offset) ||
		    !(task ? other_fingerprint(task, address, &fingerprint) : own_fingerprint(address, &fingerprint)) ||
		    read_memory(task, &after, sizeof(after), record) || after != before)
			return;
		text->fingerprint = fingerprint;
		text->since = since;
	}
	activity->statement = text->fingerprint;
}

static __always_inline void name_statement(struct task_struct *task, struct dbt_wait_source *source, struct dbt_text *text,
					   struct dbt_activity *activity, bool only_known)
{
	__u64 record = 0;

	if (!activity->statement && source->text_offset && !read_memory(task, &record, sizeof(record), source->statement))
		name_by_record(task, source, record, text, activity, only_known);
}

#endif
