/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Comments that applications put at the end of a statement's text, or at its beginning (sqlcommenter): they say which request it is for,
 * and differ in every execution. So the text is read along with the sample, from the same execution, or the comment is not known.
 *
 * An execution is identified by its start time according to the database, which is read with the wait event. A text is read once for each;
 * one without a comment costs no more than that, and is not sent. Parsing the comment is up to user space. */
#ifndef COMMENT_BPF_H
#define COMMENT_BPF_H

/* Set before loading. */
const volatile bool read_comments = false;

/* Bytes read at a time to find the end of a text, aligned to their number: as TEXT_PIECE. */
#define COMMENT_PIECE COPY_ALIGNMENT
#define COMMENT_WORDS (COMMENT_PIECE / sizeof(__u64))
#define COMMENT_PIECES 129 /* of a text of 64 KB: longer ones are not read */
/* Blanks and semicolons after a comment, or before it. */
#define COMMENT_BLANKS 16

struct dbt_comment_reader {
	struct dbt_comment told;
	__u64 address; /* of the piece */
	__u64 piece[COMMENT_WORDS];
	__u32 from;    /* bytes of this piece that are before the text */
	__u32 length;  /* of the text, so far */
	__u32 is_over;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dbt_comment_reader);
} own_comment_scratch SEC(".maps");

/* Only the sampler thread reads other tasks: one is enough. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dbt_comment_reader);
} other_comment_scratch SEC(".maps");

/* Pieces that the sampler may still read in this pass: long texts of many sessions at once must not make it late. */
#define MOST_PIECES 2048
__u32 room_for_pieces = 0;

struct dbt_comment_context {
	struct dbt_comment_reader *reader;
	struct task_struct *task; /* as in read_memory() */
};

/* Looks for the end of the text in the piece. Not static, like the next ones: the verifier checks it once. */
__noinline int end_in_piece(struct dbt_comment_reader *reader)
{
	const __u64 ones = 0x0101010101010101, tops = 0x8080808080808080;
	__u64 word, end;
	__u32 from;

	if (!reader)
		return 0;
	for (int at = 0; at < COMMENT_WORDS; at++) {
		word = reader->piece[at];
		from = *(volatile __u32 *)&reader->from;
		if (from >= (at + 1) * sizeof(word))
			continue;
		if (from > at * sizeof(word)) /* a zero before the text does not end it */
			word |= (1ULL << ((from & 7) * 8)) - 1;
		end = (word - ones) & ~word & tops;
		if (end) {
			end &= -end; /* the top bit of the first byte that is 0 */
			reader->length += at * sizeof(word) - from;
			for (int byte = 0; byte < 7 && !(end & 0xff); byte++) {
				reader->length++;
				end >>= 8;
			}
			reader->is_over = 1;
			return 0;
		}
	}
	reader->length += COMMENT_PIECE - *(volatile __u32 *)&reader->from;
	reader->from = 0;
	return 0;
}

static __always_inline bool is_blank(__u8 byte)
{
	return byte == ' ' || (byte >= '\t' && byte <= '\r') || byte == ';';
}

/* A byte of the end of a text. The mask is a bound for the verifier, which the compiler would drop where it knows one already. */
static __always_inline __u8 end_byte(struct dbt_comment *told, __u64 at)
{
	asm volatile("%0 &= %1" : "+r"(at) : "i"(COMMENT_BYTES - 1));
	return told->end[at];
}

/* Whether the text ends with a comment, except for blanks. */
__noinline int ends_with_comment(struct dbt_comment *told)
{
	__u32 last;

	if (!told)
		return 0;
	last = told->end_bytes - 1;
	for (int i = 0; i < COMMENT_BLANKS && last && last < COMMENT_BYTES; i++, last--)
		if (!is_blank(end_byte(told, last)))
			return end_byte(told, last) == '/' && end_byte(told, last - 1) == '*';
	return 0;
}

/* Whether it begins with one: looks at its beginning, or at its end if that is the whole text. */
__noinline int begins_with_comment(struct dbt_comment *told, bool is_whole)
{
	__u8 byte, next;

	if (!told)
		return 0;
	for (int i = 0; i < COMMENT_BLANKS; i++) {
		byte = is_whole ? told->end[i] : told->begin[i];
		next = is_whole ? told->end[i + 1] : told->begin[i + 1];
		if (!is_blank(byte))
			return byte == '/' && next == '*';
	}
	return 0;
}

static __always_inline long measure_piece(struct task_struct *task, struct dbt_comment_context *context)
{
	struct dbt_comment_reader *reader = context->reader;

	if (read_text(task, reader->piece, COMMENT_PIECE, reader->address))
		return 1;
	end_in_piece(reader);
	reader->address += COMMENT_PIECE;
	return reader->is_over ? 1 : 0;
}

static long measure_own_piece(__u32 i, struct dbt_comment_context *context)
{
	return measure_piece(0, context);
}

static long measure_other_piece(__u32 i, struct dbt_comment_context *context)
{
	if (!room_for_pieces)
		return 1;
	room_for_pieces--;
	return measure_piece(context->task, context);
}

/* Measures the text at this address. False = it cannot be read, or it is too long. */
static __always_inline bool measure_text(struct task_struct *task, struct dbt_comment_reader *reader, __u64 address)
{
	struct dbt_comment_context context = { .reader = reader, .task = task };

	reader->address = address & ~(COMMENT_PIECE - 1ULL);
	reader->from = address & (COMMENT_PIECE - 1);
	reader->length = reader->is_over = 0;
	if (is_other(task))
		bpf_loop(COMMENT_PIECES, measure_other_piece, &context, 0);
	else
		bpf_loop(COMMENT_PIECES, measure_own_piece, &context, 0);
	return reader->is_over;
}

/* Reads both ends of the text at this address, or all of it, and sends it if it has a comment there. Returns COMMENT_NONE,
 * COMMENT_NOT_READ, or `since`. */
static __always_inline __u64 tell_comment(struct task_struct *task, struct dbt_comment_reader *reader, __u64 address,
					  struct dbt_task_id *id, __u64 since)
{
	struct dbt_comment *told = &reader->told;
	__u64 length = reader->length, bytes = length;
	bool has_comment;

	if (!length)
		return COMMENT_NONE;
	if (bytes > COMMENT_BYTES)
		bytes = COMMENT_BYTES;
	told->end_bytes = bytes;
	told->begin_bytes = 0;
	address += length - bytes;
	/* A bound for the verifier, as above: so much room there is, together with that of `begin`. */
	asm volatile("%0 &= %1" : "+r"(bytes) : "i"(2 * COMMENT_BYTES - 1));
	if (read_text(task, told->end, bytes, address))
		return COMMENT_NOT_READ;
	address += bytes - length;
	has_comment = ends_with_comment(told);
	if (length > COMMENT_BYTES) {
		if (read_text(task, told->begin, COMMENT_BYTES, address))
			return COMMENT_NOT_READ;
		if (begins_with_comment(told, false)) {
			told->begin_bytes = COMMENT_BYTES;
			has_comment = true;
		}
	} else if (begins_with_comment(told, true)) {
		has_comment = true;
	}
	if (!has_comment)
		return COMMENT_NONE;
	fill_event(&told->event, EVENT_COMMENT, id->pid, id->start_ns);
	told->since = since;
	if (told->begin_bytes)
		emit(told, sizeof(*told), BPF_RB_NO_WAKEUP);
	else
		emit(told, offsetof(struct dbt_comment, begin), BPF_RB_NO_WAKEUP);
	return since;
}

/* The same for the text that a record shows, if that is still of the execution that began at `since`. A text that may have been cut off
 * there is read from the session's private memory. */
static __always_inline __u64 read_comment(struct task_struct *task, struct dbt_comment_reader *reader, struct dbt_wait_source *source,
					  __u64 record, struct dbt_task_id *id, __u64 since, struct dbt_execution *execution)
{
	__u64 address = execution->text, comment;

	if (execution->changes & 1 || execution->since != since || !measure_text(task, reader, address))
		return COMMENT_NOT_READ;
	if (reader->length >= source->most_text &&
	    (!source->whole_text || read_memory(task, &address, sizeof(address), source->whole_text) || !address ||
	     !measure_text(task, reader, address) || reader->length < source->most_text))
		return COMMENT_NOT_READ;
	comment = tell_comment(task, reader, address, id, since);
	/* The session may have written another text meanwhile: then what was sent belongs to no execution. */
	if (read_memory(task, &execution->changes_now, sizeof(execution->changes_now), record) ||
	    execution->changes_now != execution->changes)
		return COMMENT_NOT_READ;
	return comment;
}

/* Comment of the running task. `session_state`: as in read_record(). */
static __noinline __u64 own_comment(struct dbt_target *target, struct dbt_task_id *id, __u32 session_state)
{
	struct dbt_wait_source *source = &target->source;
	struct dbt_execution execution = { .changes = 1 };
	struct dbt_comment_reader *reader;
	__u64 record = 0;
	__u32 zero = 0;

	if (!read_comments || !source->comment_offset || !session_state)
		return COMMENT_NONE;
	reader = bpf_map_lookup_elem(&own_comment_scratch, &zero);
	if (!reader || read_memory(0, &record, sizeof(record), source->statement))
		return COMMENT_NOT_READ;
	if (!record)
		return COMMENT_NONE;
	if (read_memory(0, &execution.since, sizeof(execution.since), record + source->since_offset))
		return COMMENT_NOT_READ;
	if (!execution.since)
		return COMMENT_NONE;
	if (execution.since != target->comment.since) {
		/* The task itself is interrupted here: nothing changes from one read to the next. */
		if (read_memory(0, &execution.changes, sizeof(execution.changes), record) ||
		    read_memory(0, &execution.text, sizeof(execution.text), record + source->comment_offset))
			return COMMENT_NOT_READ;
		target->comment.comment = read_comment(0, reader, source, record, id, execution.since, &execution);
		target->comment.since = target->comment.comment == COMMENT_NOT_READ ? 0 : execution.since;
		return target->comment.comment;
	}
	return target->comment.comment;
}

/* When the statement shown by the record at this address began. `session_state`: as in read_record(). */
static __always_inline __u64 since_of(struct task_struct *task, struct dbt_wait_source *source, __u64 record, __u32 session_state)
{
	__u64 since = 0;

	if (!read_comments || !source->comment_offset || !record || !session_state)
		return COMMENT_NONE;
	return read_memory(task, &since, sizeof(since), record + source->since_offset) ? COMMENT_NOT_READ : since;
}

/* Whether the comment of the row that was found for another task has yet to be read. */
static __always_inline bool needs_comment(struct dbt_slot *slot)
{
	return slot->since != COMMENT_NONE && slot->since != COMMENT_NOT_READ && slot->since != slot->comment.since;
}

/* That comment. */
static __noinline __u64 other_comment(struct task_struct *task, struct dbt_slot *slot, struct dbt_execution *execution)
{
	struct dbt_comment_reader *reader;
	__u64 since = slot->since;
	__u32 zero = 0;

	if (since == COMMENT_NONE || since == COMMENT_NOT_READ)
		return since;
	if (since == slot->comment.since)
		return slot->comment.comment;
	reader = bpf_map_lookup_elem(&other_comment_scratch, &zero);
	if (!reader || !slot->shared.record || !execution)
		return COMMENT_NOT_READ;
	copy_text(task, execution->text);
	slot->comment.comment = read_comment(task, reader, &slot->source, slot->shared.record, &slot->task, since, execution);
	slot->comment.since = slot->comment.comment == COMMENT_NOT_READ ? 0 : since;
	return slot->comment.comment;
}

#endif
