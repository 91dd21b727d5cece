/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Statements that the database gives no id: their text is read where it is published, and its fingerprint is used instead. */
#ifndef STATEMENT_TEXT_BPF_H
#define STATEMENT_TEXT_BPF_H

#include "fingerprint.h"

/* Bytes read at a time, aligned to their number: no read crosses the end of a page, beyond which a program that may not sleep may be
 * unable to read. */
#define TEXT_PIECE 64
#define TEXT_PIECES (FINGERPRINT_BYTES / TEXT_PIECE + 2) /* of a text of any alignment */

/* Fingerprints by a hash of the whole raw text: a fingerprint is computed byte by byte, some 20 ns each, and most texts are those of
 * statements that have been executed before. The least recently used make room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} fingerprints SEC(".maps");

/* Seed of that hash; random, so that nobody can craft texts that collide. */
const volatile __u64 text_seed = 0;

struct dbt_text_reader {
	struct dbt_fingerprint fingerprint;
	__u64 address; /* of the first piece */
	__u8 piece[TEXT_PIECE];
	__u32 from; /* bytes of this piece that are before the text */
	__u32 left; /* bytes of the text that still count */
	__u32 is_over;
	__u32 has_failed;
};

struct dbt_hash_reader {
	__u64 address;
	__u64 hash; /* of the bytes so far */
	__u64 piece[TEXT_PIECE / sizeof(__u64)];
	__u32 is_over;
	__u32 has_failed;
};

/* Another task's text is copied in one read, each of which takes the kernel a microsecond or more: all that a fingerprint is made of,
 * whatever its alignment. */
#define COPY_ALIGNMENT 512
#define COPY_BYTES (3 * COPY_ALIGNMENT)
#define COPY_ROOM 2048 /* a power of two, for the verifier */
struct dbt_text_copy {
	__u64 address; /* where it begins in the task's memory; 0 = there is none */
	__u8 bytes[COPY_ROOM];
};

/* Programs have 512 bytes of stack, and those that look at other tasks need them all. Only the sampler thread runs these: one is
 * enough. */
struct dbt_text_scratch {
	struct dbt_text_reader reader;
	struct dbt_hash_reader hash;
	struct dbt_text_copy copy;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dbt_text_scratch);
} text_scratch SEC(".maps");

struct dbt_text_context {
	struct dbt_text_reader *reader;
	struct task_struct *task; /* as in read_memory() */
};

struct dbt_hash_context {
	struct dbt_hash_reader *reader;
	struct task_struct *task; /* as in read_memory() */
};

/* What was copied is of another session, or may have changed since. */
static __always_inline void forget_copy(void)
{
	__u32 zero = 0;
	struct dbt_text_scratch *scratch = bpf_map_lookup_elem(&text_scratch, &zero);

	if (scratch)
		scratch->copy.address = 0;
}

/* Copies the beginning of another task's text. If it cannot be read as a whole, as at the end of a mapping, it is read piece by piece. */
static __always_inline void copy_text(struct task_struct *task, __u64 address)
{
	__u32 zero = 0;
	struct dbt_text_scratch *scratch = bpf_map_lookup_elem(&text_scratch, &zero);

	if (!scratch)
		return;
	address &= ~(COPY_ALIGNMENT - 1ULL);
	if (scratch->copy.address == address)
		return;
	scratch->copy.address = read_memory(task, scratch->copy.bytes, COPY_BYTES, address) ? 0 : address;
}

/* Reads `size` bytes of a text; `task` as in read_memory(). */
static __always_inline long read_text(struct task_struct *task, void *to, __u32 size, __u64 address)
{
	__u32 zero = 0;
	struct dbt_text_scratch *scratch;
	__u64 at;

	if (!is_other(task))
		return read_memory(0, to, size, address);
	scratch = bpf_map_lookup_elem(&text_scratch, &zero);
	if (!scratch)
		return -1;
	at = address - scratch->copy.address;
	if (!scratch->copy.address || at >= COPY_BYTES || at + size > COPY_BYTES)
		return read_memory(task, to, size, address);
	/* A bound for the verifier, which the compiler would drop, as it knows one already. */
	asm volatile("%0 &= %1" : "+r"(at) : "i"(COPY_ROOM - 1));
	return bpf_probe_read_kernel(to, size, scratch->copy.bytes + at);
}

/* Not static, so that the verifier checks it once, on its own, whatever its arguments. */
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

	if (read_text(task, reader->piece, TEXT_PIECE, reader->address + i * TEXT_PIECE)) {
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

/* The fingerprint of the text at this address. False = it cannot be read. A separate function, so that the reader is on the stack only
 * while it reads. */
static __noinline bool own_fingerprint(__u64 address, __u64 *fingerprint)
{
	struct dbt_text_reader reader;
	struct dbt_text_context context = { .reader = &reader };

	begin_reading(&reader, address);
	bpf_loop(TEXT_PIECES, read_own_piece, &context, 0);
	*fingerprint = fingerprint_end(&reader.fingerprint);
	return !reader.has_failed;
}

/* The same for another task. */
static __always_inline bool other_fingerprint(struct task_struct *task, __u64 address, __u64 *fingerprint)
{
	__u32 zero = 0;
	struct dbt_text_scratch *scratch = bpf_map_lookup_elem(&text_scratch, &zero);
	struct dbt_text_context context = { .task = task };

	if (!scratch)
		return false;
	context.reader = &scratch->reader;
	begin_reading(context.reader, address);
	bpf_loop(TEXT_PIECES, read_other_piece, &context, 0);
	*fingerprint = fingerprint_end(&scratch->reader.fingerprint);
	return !scratch->reader.has_failed;
}

/* Eight bytes at a time, up to a zero byte, and no more than go into a fingerprint. */
static __always_inline long hash_piece(struct task_struct *task, __u32 i, struct dbt_hash_reader *reader)
{
	const __u64 ones = 0x0101010101010101, tops = 0x8080808080808080;
	__u64 word, end;

	if (read_text(task, reader->piece, TEXT_PIECE, reader->address + i * TEXT_PIECE)) {
		reader->has_failed = 1;
		return 1;
	}
	for (int at = 0; at < TEXT_PIECE / sizeof(word); at++) {
		word = reader->piece[at];
		if (i * TEXT_PIECE + (at + 1) * sizeof(word) > FINGERPRINT_BYTES) {
			word &= ~0ULL >> 8;
			reader->is_over = 1;
		}
		/* The top bit of each zero byte, and perhaps of higher ones. */
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

static long hash_own_piece(__u32 i, struct dbt_hash_reader *reader)
{
	return hash_piece(0, i, reader);
}

static long hash_other_piece(__u32 i, struct dbt_hash_context *context)
{
	return hash_piece(context->task, i, context->reader);
}

/* Whether a text begins where servers let it begin; only then it is hashed. */
static __always_inline bool begin_hash(struct dbt_hash_reader *reader, __u64 address)
{
	reader->address = address;
	reader->hash = text_seed;
	reader->is_over = reader->has_failed = 0;
	return !(address & (TEXT_PIECE - 1));
}

/* A hash of all bytes of the running task's text. False = it cannot be read, or is not aligned as servers align it. */
static __noinline bool hash_own_text(__u64 address, __u64 *hash)
{
	struct dbt_hash_reader reader;

	if (!begin_hash(&reader, address))
		return false;
	bpf_loop(TEXT_PIECES, hash_own_piece, &reader, 0);
	*hash = reader.hash;
	return !reader.has_failed;
}

/* The same for another task, whose text must be copied: it may change between two reads, and a hash would get the fingerprint of another
 * text. */
static __always_inline bool hash_other_text(struct task_struct *task, __u64 address, __u64 *hash)
{
	__u32 zero = 0;
	struct dbt_text_scratch *scratch = bpf_map_lookup_elem(&text_scratch, &zero);
	struct dbt_hash_context context = { .task = task };

	if (!scratch || !scratch->copy.address || !begin_hash(&scratch->hash, address))
		return false;
	context.reader = &scratch->hash;
	bpf_loop(TEXT_PIECES, hash_other_piece, &context, 0);
	*hash = scratch->hash.hash;
	return !scratch->hash.has_failed;
}

static __always_inline bool hash_text(struct task_struct *task, __u64 address, __u64 *hash)
{
	return is_other(task) ? hash_other_text(task, address, hash) : hash_own_text(address, hash);
}

static __always_inline bool fingerprint_text(struct task_struct *task, __u64 address, __u64 *fingerprint)
{
	return is_other(task) ? other_fingerprint(task, address, fingerprint) : own_fingerprint(address, fingerprint);
}

/* The fingerprint of the text at this address. A text that was seen before, or is this session's last one, is not read byte by byte again.
 * `hash`: that of the text, 0 if it has none. False = it cannot be read. */
static __always_inline bool fingerprint_by_hash(struct task_struct *task, __u64 address, struct dbt_text *last, __u64 *hash,
						__u64 *fingerprint)
{
	__u64 *known;

	if (!hash_text(task, address, hash)) {
		*hash = 0;
		return fingerprint_text(task, address, fingerprint);
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
	if (!fingerprint_text(task, address, fingerprint))
		return false;
	bpf_map_update_elem(&fingerprints, hash, fingerprint, BPF_ANY);
	return true;
}

/* True for the text of a utility statement. PostgreSQL gives the others an id as soon as it has parsed them; pg_stat_statements clears
 * the id of a utility statement when it is first executed (pgss_ProcessUtility), and a prepared one has none from then on: above all, a
 * driver's `COMMIT`. False for a text that begins with a comment. */
static __always_inline bool is_utility(struct task_struct *task, __u64 address)
{
	__u32 begin = 0;

	if (read_text(task, &begin, sizeof(begin), address))
		return false;
	begin |= 0x20202020; /* lower case */
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

/* Whether a text without an id gets one from its fingerprint. A statement that waits and has none is still being parsed, and may be for
 * long: parsing takes locks on the relations that the statement names, and behind an ALTER TABLE all others wait there. */
static __always_inline bool is_named_by_text(struct task_struct *task, struct dbt_wait_source *source, __u32 wait, __u64 address)
{
	return !source->gives_ids || wait || is_utility(task, address);
}

/* What was found for this text holds: that it is not named by it does not, once the statement waits. */
static __always_inline bool is_found(struct dbt_text *text, __u64 since, __u32 wait)
{
	return since == text->since && (text->fingerprint || !wait);
}

/* The fingerprint used in place of an id; 0 = none is. False = the text cannot be read. */
static __always_inline bool id_of_text(struct task_struct *task, struct dbt_wait_source *source, __u32 wait, __u64 address,
				       struct dbt_text *last, __u64 *hash, __u64 *fingerprint)
{
	if (is_other(task)) {
		forget_copy();
		copy_text(task, address);
	}
	if (!is_named_by_text(task, source, wait, address)) {
		*fingerprint = 0;
		return true;
	}
	return fingerprint_by_hash(task, address, last, hash, fingerprint);
}

/* Notes the fingerprint of an execution's text. False = it is not known, or the session has changed its record meanwhile. */
static __always_inline bool learn_text(struct task_struct *task, struct dbt_wait_source *source, __u64 record, struct dbt_text *text,
				       __u32 wait, struct dbt_execution *execution)
{
	__u64 hash = 0, fingerprint;

	if (execution->changes & 1 || !id_of_text(task, source, wait, execution->text, text, &hash, &fingerprint) ||
	    read_memory(task, &execution->changes_now, sizeof(execution->changes_now), record) ||
	    execution->changes_now != execution->changes)
		return false;
	text->fingerprint = fingerprint;
	text->hash = hash;
	text->since = execution->since;
	return true;
}

/* Where the database gives no id: uses the fingerprint of the text as the statement's id. `record`: where the session says what it
 * executes; `text`: what is known about its text; `only_known`: the text itself is not read. `activity` has the wait event already. */
static __always_inline void name_by_record(struct task_struct *task, struct dbt_wait_source *source, __u64 record,
					   struct dbt_text *text, struct dbt_activity *activity, bool only_known)
{
	struct dbt_execution execution = {};

	/* A session without a state has reported no text either. */
	if (activity->statement || !activity->session_state || !source->text_offset || !record ||
	    read_memory(task, &execution.since, sizeof(execution.since), record + source->since_offset) || !execution.since)
		return;
	if (!is_found(text, execution.since, activity->wait) &&
	    (only_known || read_memory(task, &execution.changes, sizeof(execution.changes), record) ||
	     read_memory(task, &execution.text, sizeof(execution.text), record + source->text_offset) ||
	     !learn_text(task, source, record, text, activity->wait, &execution)))
		return;
	activity->statement = text->fingerprint;
}

/* The same in an interrupt, through the memory that the session shares with the interrupted task: only for a text that was read before,
 * by its hash, which takes half a microsecond at most. */
static __always_inline void name_by_known_text(struct dbt_wait_source *source, __u64 record, struct dbt_text *text,
					       struct dbt_activity *activity)
{
	__u64 since = 0, address = 0, hash = 0, *known;
	__u32 before = 1, after = 1;

	if (activity->statement || !activity->session_state || !source->text_offset || !record ||
	    read_memory(0, &since, sizeof(since), record + source->since_offset) || !since)
		return;
	if (is_found(text, since, activity->wait)) {
		activity->statement = text->fingerprint;
		return;
	}
	if (read_memory(0, &before, sizeof(before), record) || before & 1 ||
	    read_memory(0, &address, sizeof(address), record + source->text_offset) ||
	    !is_named_by_text(0, source, activity->wait, address) || !hash_own_text(address, &hash))
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
