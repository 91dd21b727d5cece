// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* The recorder. The sampled tier: a timer for what runs, a sampler thread for what does not, no probe in the database's
 * path. The exact tier adds probes at context switches and, on request, at system calls. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "dbtime.h"
#include "events.bpf.h"
#include "latency.bpf.h"
#include "own_latency.bpf.h"
#include "wait_source.bpf.h"
#include "held_locks.bpf.h"
#include "statement_text.bpf.h"
#include "plans.bpf.h"
#include "comment.bpf.h"
#include "task_counts.bpf.h"
#include "transactions.bpf.h"
#include "targets.bpf.h"
#include "unwind.bpf.h"
#include "routines.bpf.h"
#include "others.bpf.h"
#include "running.bpf.h"
#include "wakeups.bpf.h"
#include "moment.bpf.h"
#include "waiting.bpf.h"

/* Events that are in no map: named here so that the skeleton has their types. */
struct dbt_totals totals_type = {};
struct dbt_task_counts task_counts_type = {};
struct dbt_begin begin_type = {};
struct dbt_woken woken_type = {};
struct dbt_comment comment_type = {};
struct dbt_sums sums_type = {};

/* The same for enums. */
struct dbt_enums {
	enum dbt_size size;
	enum dbt_source_kind source_kind;
	enum dbt_wait_mark wait_mark;
	enum dbt_statement_mark statement_mark;
	enum dbt_lock_bits lock_bits;
	enum dbt_event_kind event_kind;
	enum dbt_sample_flag sample_flag;
	enum dbt_counted counted;
	enum dbt_call_use call_use;
	enum dbt_exact_state exact_state;
	enum dbt_latency_kind latency_kind;
	enum dbt_latency_share latency_share;
	enum dbt_read_source read_source;
	enum dbt_unwind_kind unwind_kind;
	enum dbt_unwind_end unwind_end;
	enum dbt_unwind_number unwind_number;
} enums_type = {};

char LICENSE[] SEC("license") = "Dual BSD/GPL";
