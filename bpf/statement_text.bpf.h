/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Statements to which the database gives no id: their texts are read where it shows them, and have a fingerprint instead. */
#ifndef STATEMENT_TEXT_BPF_H
#define STATEMENT_TEXT_BPF_H

#include "fingerprint.h"

/* Bytes of a text that are read at a time. */
#define TEXT_PIECE 64

struct dbt_text_reader {
	struct dbt_fingerprint fingerprint;
	struct task_struct *task; /* as in read_memory() */
	__u64 address;
	__u8 piece[TEXT_PIECE];
	__u32 is_over;
	__u32 has_failed;
};

/* Not static, so that the verifier looks at it once and for itself, whatever it is called with. */
__noinline int take_byte(struct dbt_fingerprint *fingerprint, __u32 byte)
{
	if (fingerprint)
		fingerprint_next(fingerprint, byte);
	return 0;
}

static long read_byte(__u32 i, struct dbt_text_reader *reader)
{
	__u8 byte = reader->piece[i & (TEXT_PIECE - 1)];

	if (!byte) {
		reader->is_over = 1;
		return 1;
	}
	take_byte(&reader->fingerprint, byte);
	return 0;
}

static __always_inline long read_piece(struct task_struct *task, __u32 i, struct dbt_text_reader *reader)
{
	if (read_memory(task, reader->piece, TEXT_PIECE, reader->address + i * TEXT_PIECE)) {
		reader->has_failed = 1;
		return 1;
	}
	/* What a text is cut to in other servers is no multiple of a piece. */
	if (i == FINGERPRINT_BYTES / TEXT_PIECE)
		reader->piece[FINGERPRINT_BYTES % TEXT_PIECE] = 0;
	bpf_loop(TEXT_PIECE, read_byte, reader, 0);
	return reader->is_over ? 1 : 0;
}

static long read_own_piece(__u32 i, struct dbt_text_reader *reader)
{
	return read_piece(0, i, reader);
}

static long read_other_piece(__u32 i, struct dbt_text_reader *reader)
{
	return read_piece(reader->task, i, reader);
}

/* The fingerprint of the text at this address; 0 = there is none, or it cannot be read. */
static __always_inline __u64 fingerprint_at(struct task_struct *task, __u64 address)
{
	struct dbt_text_reader reader = { .task = task, .address = address };

	fingerprint_begin(&reader.fingerprint);
	if (task)
		bpf_loop(FINGERPRINT_BYTES / TEXT_PIECE + 1, read_other_piece, &reader, 0);
	else
		bpf_loop(FINGERPRINT_BYTES / TEXT_PIECE + 1, read_own_piece, &reader, 0);
	return reader.has_failed ? 0 : fingerprint_end(&reader.fingerprint);
}

/* Where the database gives no ids: puts the fingerprint of the text in the place of that of the statement. `record`: what says what
 * the session executes; `text`: what is known of its text. */
static __always_inline void name_by_record(struct task_struct *task, struct dbt_wait_source *source, __u64 record,
					   struct dbt_text *text, struct dbt_activity *activity)
{
	__u64 since = 0, address = 0;
	__u32 changes = 1;

	if (activity->statement || !source->text_offset || !record ||
	    read_memory(task, &since, sizeof(since), record + source->since_offset) || !since)
		return;
	if (since != text->since) {
		if (read_memory(task, &changes, sizeof(changes), record) || changes & 1 ||
		    read_memory(task, &address, sizeof(address), record + source->text_offset))
			return;
		text->fingerprint = fingerprint_at(task, address);
		text->since = since;
	}
	activity->statement = text->fingerprint;
}

static __always_inline void name_statement(struct task_struct *task, struct dbt_wait_source *source, struct dbt_text *text,
					   struct dbt_activity *activity)
{
	__u64 record = 0;

	if (!activity->statement && source->text_offset && !read_memory(task, &record, sizeof(record), source->statement))
		name_by_record(task, source, record, text, activity);
}

#endif
