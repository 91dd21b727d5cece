/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Statements to which the database gives no id: their texts are read where it shows them, and have a fingerprint instead. */
#ifndef STATEMENT_TEXT_BPF_H
#define STATEMENT_TEXT_BPF_H

#include "fingerprint.h"

/* Bytes that are read at a time, beginning at a multiple of them: none of these crosses the end of a page, behind which a program
 * that may not sleep may be unable to read. */
#define TEXT_PIECE 64
#define TEXT_PIECES (FINGERPRINT_BYTES / TEXT_PIECE + 2) /* of a text that begins anywhere */

/* Fingerprints by a hash of the whole text as it stands there: a fingerprint is made byte by byte, some 20 ns each, and most texts are
 * those of statements that have been executed before. The least recently used make room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} fingerprints SEC(".maps");

/* Of that hash; a random number, so that nobody can make texts that share it. */
const volatile __u64 text_seed = 0;

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

struct dbt_hash_reader {
	__u64 address;
	__u64 hash; /* of the bytes so far */
	__u64 piece[TEXT_PIECE / sizeof(__u64)];
	__u32 is_over;
	__u32 has_failed;
};

/* Eight bytes at a time, up to a byte of 0, and as many as a fingerprint is made of. */
static long hash_piece(__u32 i, struct dbt_hash_reader *reader)
{
	const __u64 ones = 0x0101010101010101, tops = 0x8080808080808080;
	__u64 word, end;

	if (bpf_probe_read_user(reader->piece, TEXT_PIECE, (void *)(reader->address + i * TEXT_PIECE))) {
		reader->has_failed = 1;
		return 1;
	}
	for (int at = 0; at < TEXT_PIECE / sizeof(word); at++) {
		word = reader->piece[at];
		if (i * TEXT_PIECE + (at + 1) * sizeof(word) > FINGERPRINT_BYTES) {
			word &= ~0ULL >> 8;
			reader->is_over = 1;
		}
		/* The top bit of each byte that is 0, and perhaps of higher ones. */
		end = (word - ones) & ~word & tops;
		if (end) {
			word &= ((end & -end) >> 7) - 1;
			reader->is_over = 1;
		}
		reader->hash = (reader->hash ^ word) * 0x9e3779b97f4a7c15;
		reader->hash ^= reader->hash >> 32;
		if (reader->is_over)
			return 1;
	}
	return 0;
}

/* A hash of all bytes of the text of the task that is running. False = it cannot be read, or does not lie as servers lay it. */
static __noinline bool hash_own_text(__u64 address, __u64 *hash)
{
	struct dbt_hash_reader reader = { .address = address, .hash = text_seed };

	if (address & (TEXT_PIECE - 1))
		return false;
	bpf_loop(TEXT_PIECES, hash_piece, &reader, 0);
	*hash = reader.hash;
	return !reader.has_failed;
}

/* As own_fingerprint(), but what was read before, by this session last of all, is not read byte by byte again. `hash`: that of the text,
 * 0 where it has none. */
static __always_inline bool own_fingerprint_by_hash(__u64 address, struct dbt_text *last, __u64 *hash, __u64 *fingerprint)
{
	__u64 *known;

	if (!hash_own_text(address, hash)) {
		*hash = 0;
		return own_fingerprint(address, fingerprint);
	}
	if (*hash && *hash == last->hash) {
		*fingerprint = last->fingerprint;
		return true;
	}
	known = bpf_map_lookup_elem(&fingerprints, hash);
	if (known) {
		*fingerprint = *known;
		return true;
	}
	if (!own_fingerprint(address, fingerprint))
		return false;
	bpf_map_update_elem(&fingerprints, hash, fingerprint, BPF_ANY);
	return true;
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

/* True for the text of a utility statement. PostgreSQL gives the others an id as soon as it has parsed them; pg_stat_statements takes
 * the id of a utility statement away when it is first executed (pgss_ProcessUtility), and one that was prepared has none from then on:
 * `COMMIT` of a driver, above all. A text that begins with a comment is not looked at. */
static __always_inline bool is_utility(struct task_struct *task, __u64 address)
{
	__u32 begin = 0;

	if (read_memory(task, &begin, sizeof(begin), address))
		return false;
	begin |= 0x20202020; /* small letters */
	switch (begin) {
	case 0x656c6573: /* sele(ct), and so on */
	case 0x65736e69: /* inse */
	case 0x61647075: /* upda */
	case 0x656c6564: /* dele */
	case 0x6772656d: /* merg */
	case 0x68746977: /* with */
	case 0x756c6176: /* valu */
	case 0x6c626174: /* tabl */
		return false;
	}
	return (begin & 0xff) >= 'a' && (begin & 0xff) <= 'z';
}

/* The fingerprint that stands for an id; 0 where none does. False = the text cannot be read. */
static __always_inline bool id_of_text(struct task_struct *task, struct dbt_wait_source *source, __u64 address, struct dbt_text *last,
				       __u64 *hash, __u64 *fingerprint)
{
	if (source->gives_ids && !is_utility(task, address)) {
		*fingerprint = 0;
		return true;
	}
	return task ? other_fingerprint(task, address, fingerprint) : own_fingerprint_by_hash(address, last, hash, fingerprint);
}

/* Where the database gives no id: puts the fingerprint of the text in the place of the statement's id. `record`: what says what the
 * session executes; `text`: what is known of its text; `only_known`: the text itself is not read. */
static __always_inline void name_by_record(struct task_struct *task, struct dbt_wait_source *source, __u64 record,
					   struct dbt_text *text, struct dbt_activity *activity, bool only_known)
{
	__u64 since = 0, address = 0, hash = 0, fingerprint;
	__u32 before = 1, after = 1;

	/* What has no state has reported no text either. */
	if (activity->statement || !activity->session_state || !source->text_offset || !record ||
	    read_memory(task, &since, sizeof(since), record + source->since_offset) || !since)
		return;
	if (since != text->since) {
		/* The session may write another one meanwhile. */
		if (only_known || read_memory(task, &before, sizeof(before), record) || before & 1 ||
		    read_memory(task, &address, sizeof(address), record + source->text_offset) ||
		    !id_of_text(task, source, address, text, &hash, &fingerprint) ||
		    read_memory(task, &after, sizeof(after), record) || after != before)
			return;
		text->fingerprint = fingerprint;
		text->hash = hash;
		text->since = since;
	}
	activity->statement = text->fingerprint;
}

/* The same in an interrupt, by the memory that the session shares with the task that was interrupted: of a text that was read before, by
 * its hash, which takes half a microsecond at most. */
static __always_inline void name_by_known_text(struct dbt_wait_source *source, __u64 record, struct dbt_text *text,
					       struct dbt_activity *activity)
{
	__u64 since = 0, address = 0, hash = 0, *known;
	__u32 before = 1, after = 1;

	if (activity->statement || !activity->session_state || !source->text_offset || !record ||
	    read_memory(0, &since, sizeof(since), record + source->since_offset) || !since)
		return;
	if (since == text->since) {
		activity->statement = text->fingerprint;
		return;
	}
	if (read_memory(0, &before, sizeof(before), record) || before & 1 ||
	    read_memory(0, &address, sizeof(address), record + source->text_offset) ||
	    (source->gives_ids && !is_utility(0, address)) || !hash_own_text(address, &hash))
		return;
	known = bpf_map_lookup_elem(&fingerprints, &hash);
	if (known && !read_memory(0, &after, sizeof(after), record) && after == before)
		activity->statement = *known;
}

static __always_inline void name_statement(struct task_struct *task, struct dbt_wait_source *source, struct dbt_text *text,
					   struct dbt_activity *activity, bool only_known)
{
	__u64 record = 0;

	if (!activity->statement && activity->session_state && source->text_offset &&
	    !read_memory(task, &record, sizeof(record), source->statement))
		name_by_record(task, source, record, text, activity, only_known);
}

#endif
