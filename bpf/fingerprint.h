/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* One number for all texts of an SQL statement, whatever its literals are: used in place of the database's own id where it gives
 * none. Computed byte by byte, so that the kernel can do it; user space is compiled from the same source.
 *
 * Ignored: comments, white space that separates nothing, the case of letters outside quotes, a final semicolon. Literals and
 * parameters are all the same, and several separated by commas are one; a sign before a literal is part of it if an operator, a
 * parenthesis or a word like AND comes before. Words in double quotes, and all that is not a literal, are taken as they are.
 *
 * It is the 64-bit FNV-1a hash of what remains of the first FINGERPRINT_BYTES bytes: what a server keeps of a text by default
 * (track_activity_query_size minus the zero). 0 = there is no text. */
#ifndef FINGERPRINT_H
#define FINGERPRINT_H

#define FINGERPRINT_BYTES 1023
#define FNV_OFFSET 0xcbf29ce484222325ULL
#define FNV_PRIME 0x100000001b3ULL

enum fingerprint_state {
	FINGERPRINT_PLAIN,
	FINGERPRINT_NUMBER,
	FINGERPRINT_PARAMETER,     /* the number after a dollar */
	FINGERPRINT_STRING,        /* in '…' */
	FINGERPRINT_STRING_END,    /* after a quote that ends it, or is doubled */
	FINGERPRINT_NAME,          /* in "…" */
	FINGERPRINT_DOLLAR,        /* after a dollar: a parameter, or the tag of a string */
	FINGERPRINT_DOLLAR_STRING, /* in $tag$…$tag$ */
	FINGERPRINT_DOLLAR_END,    /* after a dollar in it */
	FINGERPRINT_LINE,          /* after two dashes */
	FINGERPRINT_COMMENT,       /* between slash and star */
};

struct dbt_fingerprint {
	__u64 hash;
	__u64 word_hash; /* FNV-1a of the word that was read last, outside of quotes */
	__u64 tag;       /* the same for the tag of a dollar-quoted string */
	__u64 end_tag;   /* and for the word after a dollar in it */
	__u32 state;     /* enum fingerprint_state */
	__u32 comments;  /* open now, nested in each other */
	__u8 before;     /* the byte before this one */
	__u8 last;       /* the byte that was hashed last; 0 = none, '?' = a literal */
	__u8 held;       /* these four are hashed in this order, once it is known that they count: a comma or semicolon; 0 = none */
	__u8 sign;       /* a plus or minus */
	__u8 slash;
	__u8 dot;
	__u8 word;       /* bytes of the current word: 0, 1, 2 = more */
	__u8 has_space;  /* since the byte that was hashed last */
	__u8 escapes;    /* in the current string, a backslash escapes the next byte */
	__u8 escaped;
	__u8 is_hex;     /* the current number */
	__u8 pad[5];
};

static __always_inline void fingerprint_begin(struct dbt_fingerprint *of)
{
	__builtin_memset(of, 0, sizeof(*of));
	of->hash = FNV_OFFSET;
}

static __always_inline __u64 fnv(__u64 hash, __u8 byte)
{
	return (hash ^ byte) * FNV_PRIME;
}

static __always_inline _Bool is_digit(__u8 byte)
{
	return byte >= '0' && byte <= '9';
}

/* Part of a name or a number: letters, digits, _, and all that is not ASCII. */
static __always_inline _Bool is_word(__u8 byte)
{
	return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || is_digit(byte) || byte == '_' || byte >= 0x80;
}

/* Ends an operand: a sign after it is an operator. */
static __always_inline _Bool ends_operand(__u8 byte)
{
	return is_word(byte) || byte == '?' || byte == ')' || byte == ']' || byte == '"';
}

/* A word after which an operand begins. */
static __always_inline _Bool is_keyword(__u64 word)
{
	switch (word) {
	case 0xe6f09b190519daa4ULL: /* all */
	case 0xe6f79719051ff286ULL: /* and */
	case 0xe6f7b419052023cdULL: /* any */
	case 0x13f5793e33ebda4fULL: /* between */
	case 0x08a64b07b54df8d4ULL: /* by */
	case 0xb55e6190e8792fd1ULL: /* case */
	case 0xebada5168620c5feULL: /* default */
	case 0x65a59df633133c8dULL: /* distinct */
	case 0x7f2b6c605332dd30ULL: /* else */
	case 0x9c68c3ffbacc25dcULL: /* having */
	case 0x0073427d9c2d46c7ULL: /* ilike */
	case 0x08b73807b55c4bbeULL: /* in */
	case 0x08b74507b55c61d5ULL: /* is */
	case 0xbf5c99ad695db7d6ULL: /* like */
	case 0x760d7da9ffd99754ULL: /* limit */
	case 0x215ad619258e9f4aULL: /* not */
	case 0x0268b0f8129435caULL: /* offset */
	case 0x08b05807b5566370ULL: /* on */
	case 0x08b05407b5565ca4ULL: /* or */
	case 0xc5c7b983377cad5fULL: /* return */
	case 0xa8522ce8e79d8979ULL: /* returning */
	case 0xbd76100bd58c9c0dULL: /* select */
	case 0x823b87195ce20e23ULL: /* set */
	case 0x2579c7ef323d0d96ULL: /* then */
	case 0x08c83907b56ac0a4ULL: /* to */
	case 0x21277bcf1a4d67fbULL: /* values */
	case 0x9bf6bff64f32f639ULL: /* when */
	case 0x379d6b8893e8fc78ULL: /* where */
	case 0xa66b06f655a0c2e9ULL: /* with */
		return 1;
	}
	return 0;
}

/* A literal may begin here: a sign or dot before it is part of it. */
static __always_inline _Bool begins_operand(struct dbt_fingerprint *of)
{
	return of->held || of->slash || !ends_operand(of->last) || (is_word(of->last) && is_keyword(of->word_hash));
}

static __always_inline void fingerprint_held(struct dbt_fingerprint *of, __u8 byte)
{
	if (byte)
		of->hash = fnv(of->hash, of->last = byte);
}

/* What was held back counts. */
static __always_inline void fingerprint_release(struct dbt_fingerprint *of)
{
	fingerprint_held(of, of->held);
	fingerprint_held(of, of->sign);
	fingerprint_held(of, of->slash);
	fingerprint_held(of, of->dot);
	of->held = of->sign = of->slash = of->dot = 0;
}

static __always_inline void fingerprint_add(struct dbt_fingerprint *of, __u8 byte)
{
	fingerprint_release(of);
	if (of->has_space && is_word(of->last) && is_word(byte))
		of->hash = fnv(of->hash, ' ');
	of->hash = fnv(of->hash, byte);
	of->last = byte;
	of->has_space = 0;
}

static __always_inline void fingerprint_literal(struct dbt_fingerprint *of)
{
	of->dot = of->is_hex = 0;
	if (begins_operand(of) && !of->slash)
		of->sign = 0; /* the literal's own */
	if (of->held == ',' && of->last == '?' && !of->sign && !of->slash)
		of->held = 0; /* one more in a list */
	else
		fingerprint_add(of, '?');
}

/* A byte outside literals, comments and quotes. */
static __always_inline void fingerprint_plain(struct dbt_fingerprint *of, __u8 byte)
{
	__u8 before = of->before, word = of->word;

	of->state = FINGERPRINT_PLAIN;
	of->before = byte;
	of->word = 0;
	if (byte == ' ' || (byte >= '\t' && byte <= '\r')) {
		of->has_space = 1;
	} else if (is_digit(byte) && !word) {
		fingerprint_literal(of);
		of->state = FINGERPRINT_NUMBER;
	} else if (is_word(byte)) {
		if (byte >= 'A' && byte <= 'Z')
			byte += 'a' - 'A';
		of->word_hash = fnv(word ? of->word_hash : FNV_OFFSET, byte);
		fingerprint_add(of, byte);
		of->word = word ? 2 : 1;
	} else if (byte == '\'') {
		of->escapes = word == 1 && (before == 'e' || before == 'E');
		fingerprint_literal(of);
		of->state = FINGERPRINT_STRING;
	} else if (byte == '"') {
		fingerprint_add(of, byte);
		of->state = FINGERPRINT_NAME;
	} else if (byte == '$' && word) {
		of->word_hash = fnv(of->word_hash, byte);
		fingerprint_add(of, byte); /* in a name */
		of->word = 2;
	} else if (byte == '$') {
		of->tag = FNV_OFFSET;
		of->state = FINGERPRINT_DOLLAR;
	} else if (byte == '-' && before == '-' && of->sign == '-') {
		of->sign = 0;
		of->has_space = 1;
		of->state = FINGERPRINT_LINE;
	} else if (byte == '*' && before == '/' && of->slash) {
		of->slash = 0;
		of->has_space = 1;
		of->before = 0; /* a slash after it ends nothing */
		of->comments = 1;
		of->state = FINGERPRINT_COMMENT;
	} else if (byte == '-' || byte == '+') {
		if (of->sign || of->slash || of->dot)
			fingerprint_release(of);
		of->sign = byte;
	} else if (byte == '/') {
		if (of->slash || of->dot)
			fingerprint_release(of);
		of->slash = byte;
	} else if (byte == '.' && !of->dot && begins_operand(of)) {
		of->dot = byte;
	} else if (byte == ',' || byte == ';') {
		fingerprint_release(of);
		of->held = byte;
	} else {
		fingerprint_add(of, byte);
	}
}

/* Inside a comment, which may have others in it. */
static __always_inline void fingerprint_comment(struct dbt_fingerprint *of, __u8 byte)
{
	__u8 before = of->before;

	of->before = byte;
	if (before == '/' && byte == '*') {
		of->comments++;
		of->before = 0;
	} else if (before == '*' && byte == '/') {
		of->comments--;
		of->before = 0;
	}
	if (!of->comments)
		of->state = FINGERPRINT_PLAIN;
}

/* After a dollar that is in no name and no string. */
static __always_inline void fingerprint_dollar(struct dbt_fingerprint *of, __u8 byte)
{
	if (byte == '$') {
		fingerprint_literal(of);
		of->state = FINGERPRINT_DOLLAR_STRING;
	} else if (is_digit(byte) && of->tag == FNV_OFFSET) {
		fingerprint_literal(of);
		of->state = FINGERPRINT_PARAMETER;
	} else if (is_word(byte)) {
		of->tag = fnv(of->tag, byte);
	} else {
		fingerprint_plain(of, byte);
	}
}

/* Takes the next byte of the text, which is not 0. */
static __always_inline void fingerprint_next(struct dbt_fingerprint *of, __u8 byte)
{
	switch (of->state) {
	case FINGERPRINT_NUMBER:
		if (byte == 'x' || byte == 'X')
			of->is_hex = 1;
		if (is_word(byte) || byte == '.' ||
		    ((byte == '-' || byte == '+') && !of->is_hex && (of->before == 'e' || of->before == 'E')))
			of->before = byte;
		else
			fingerprint_plain(of, byte);
		break;
	case FINGERPRINT_PARAMETER:
		if (!is_digit(byte))
			fingerprint_plain(of, byte);
		break;
	case FINGERPRINT_STRING:
		if (of->escaped)
			of->escaped = 0;
		else if (of->escapes && byte == '\\')
			of->escaped = 1;
		else if (byte == '\'')
			of->state = FINGERPRINT_STRING_END;
		break;
	case FINGERPRINT_STRING_END:
		if (byte == '\'')
			of->state = FINGERPRINT_STRING;
		else
			fingerprint_plain(of, byte);
		break;
	case FINGERPRINT_NAME:
		of->hash = fnv(of->hash, of->last = byte);
		if (byte == '"')
			of->state = FINGERPRINT_PLAIN;
		break;
	case FINGERPRINT_DOLLAR:
		fingerprint_dollar(of, byte);
		break;
	case FINGERPRINT_DOLLAR_STRING:
		if (byte == '$') {
			of->end_tag = FNV_OFFSET;
			of->state = FINGERPRINT_DOLLAR_END;
		}
		break;
	case FINGERPRINT_DOLLAR_END:
		if (byte == '$' && of->end_tag == of->tag)
			of->state = FINGERPRINT_PLAIN;
		else if (byte == '$')
			of->end_tag = FNV_OFFSET; /* it may be the one that begins the end */
		else if (is_word(byte))
			of->end_tag = fnv(of->end_tag, byte);
		else
			of->state = FINGERPRINT_DOLLAR_STRING;
		break;
	case FINGERPRINT_LINE:
		if (byte == '\n' || byte == '\r')
			of->state = FINGERPRINT_PLAIN;
		break;
	case FINGERPRINT_COMMENT:
		fingerprint_comment(of, byte);
		break;
	default:
		fingerprint_plain(of, byte);
	}
}

/* What is still held back does not count: a semicolon, or the end of a text that was cut off. */
static __always_inline __u64 fingerprint_end(struct dbt_fingerprint *of)
{
	if (!of->last)
		return 0;
	/* 0 stands for no statement. */
	return of->hash ? of->hash : 1;
}

#endif
