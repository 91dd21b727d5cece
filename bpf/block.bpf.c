// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* `dbtime iolat`: latencies of block requests by device and operation, and their bytes. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "dbtime.h"
#include "latency.bpf.h"

/* What is counted; set before loading. */
const volatile __u32 wanted_operations = ~0U; /* bit n: enum dbt_operation n */
const volatile __u32 filter_devices = 0;      /* those in wanted_devices only */
const volatile __u32 filter_pids = 0;         /* those in wanted_pids only */
const volatile __u32 with_queue = 0;          /* from queueing until done, not from issue */

/* dev_t of disks. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u8);
} wanted_devices SEC(".maps");

/* Processes that submit requests. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u8);
} wanted_pids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct dbt_block_volume_key);
	__type(value, __u64);
} block_volume SEC(".maps");

/* Requests of any process are counted: their statements are not known. */
static __always_inline __u64 statement_of_request(struct task_struct *task)
{
	return 0;
}

#include "block.bpf.h"

static __always_inline void add_volume(struct dbt_request *request)
{
	struct dbt_block_volume_key key = {
		.device = request->device,
		.operation = request->operation,
		.odd = latency_epoch & 1,
	};
	__u64 none = 0, *bytes = bpf_map_lookup_elem(&block_volume, &key);

	if (!bytes) {
		bpf_map_update_elem(&block_volume, &key, &none, BPF_NOEXIST);
		bytes = bpf_map_lookup_elem(&block_volume, &key);
	}
	if (bytes)
		__sync_fetch_and_add(bytes, request->bytes);
}

static __always_inline void block_request_done(struct dbt_request *request, __u64 now)
{
	__u64 begin_ns = with_queue && request->insert_ns ? request->insert_ns : request->issue_ns;
	struct dbt_latency_key key = {
		.kind = LATENCY_BLOCK,
		.name = request->operation,
		.device = request->device,
	};

	if (!(wanted_operations & (1U << (request->operation & 31))) ||
	    (filter_devices && !bpf_map_lookup_elem(&wanted_devices, &key.device)) ||
	    (filter_pids && !bpf_map_lookup_elem(&wanted_pids, &request->pid)))
		return;
	add_volume(request);
	add_latency(&key, now - begin_ns);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
