/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* For programs whose sessions all publish what they do in the same places, known before loading. */
#ifndef ONE_WAIT_SOURCE_BPF_H
#define ONE_WAIT_SOURCE_BPF_H

#include "wait_source.bpf.h"

/* Set before loading. */
const volatile struct dbt_wait_source wait_source = {};

static __always_inline struct dbt_wait_source *source_of_all(void)
{
	struct dbt_wait_source *source = (void *)&wait_source;

	/* Otherwise the compiler would assume the zeros that it has now. */
	asm volatile("" : "+r"(source));
	return source;
}

#endif
