// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* The fingerprint of a text that user space has read: crates/collect/src/fingerprint.rs calls it. */
#include <linux/types.h>
#include <string.h>

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))

#include "fingerprint.h"

/* Of `length` bytes, or up to the first zero. */
__u64 dbtime_fingerprint(const __u8 *text, __u64 length)
{
	struct dbt_fingerprint fingerprint;
	__u64 i;

	fingerprint_begin(&fingerprint);
	for (i = 0; i < length && i < FINGERPRINT_BYTES && text[i]; i++)
		fingerprint_next(&fingerprint, text[i]);
	return fingerprint_end(&fingerprint);
}

/* Whether an operand begins after this word of `length` bytes. */
_Bool dbtime_operand_follows(const __u8 *word, __u64 length)
{
	__u64 hash = FNV_OFFSET, i;

	for (i = 0; i < length; i++)
		hash = fnv(hash, word[i] >= 'A' && word[i] <= 'Z' ? word[i] + 'a' - 'A' : word[i]);
	return is_keyword(hash);
}
