/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Follows block requests from the queue to the device and back: when each was queued, inserted, issued and done, on which
 * device, for whom. What is done with that is up to the including file, which defines block_request_done().
 *
 * Every program but on_block_issue and on_block_complete may be left out (not loaded, or not attached): fields that only
 * it fills are then 0. Attach on_block_complete before on_block_issue, so that every request seen to begin is seen to end.
 * Tracepoints as they are since Linux 5.11. */
#ifndef BLOCK_BPF_H
#define BLOCK_BPF_H

/* A request as far as it is known. What is not known is 0. */
struct dbt_request {
	__u64 queue_ns;  /* its first bio reached the block layer (on_block_queue) */
	__u64 insert_ns; /* first inserted into the queue (on_block_insert); requests that find the device free are not */
	__u64 issue_ns;  /* last issued to the device */
	__u64 start_ns;  /* start of the process that submitted the first bio (on_block_queue) */
	__u64 statement; /* that this process executed */
	__u32 pid;       /* of that process */
	__u32 device;    /* dev_t of the disk */
	__u32 operation; /* enum dbt_operation */
	__u32 bytes;     /* completed so far */
	__u32 requeued;  /* the device did not accept it at first; its device time was restarted */
	__u32 pad;
};

/* Called once for each request when all of it is done, failed or not; `issue_ns` is never 0. Defined by the including
 * file. */
static __always_inline void block_request_done(struct dbt_request *request, __u64 now);

/* What the running task, which submits a bio, executes; 0 = not known. Defined by the including file, before. */
static __always_inline __u64 statement_of_request(struct task_struct *task);

/* By address of the struct request. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768); /* requests in flight */
	__type(key, __u64);
	__type(value, struct dbt_request);
} block_requests SEC(".maps");

struct dbt_bio {
	__u64 queue_ns;
	__u64 start_ns;
	__u64 statement;
	__u32 pid;
	__u32 pad;
};

/* By address of the struct bio. Nothing is removed: an entry is valid until its address is queued again, and the oldest
 * make room for new ones. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, __u64);
	__type(value, struct dbt_bio);
} block_bios SEC(".maps");

__u64 block_lost = 0;          /* requests for which there was no room, or whose end was not seen */
__u64 block_without_begin = 0; /* requests that were done but not seen to be issued: in flight at the start */

/* Layouts of older kernels. */
struct request___before_5_17 {
	struct gendisk *rq_disk;
} __attribute__((preserve_access_index));

struct request_queue___since_5_17 {
	struct gendisk *disk;
} __attribute__((preserve_access_index));

#define OPERATION_MASK 0xff /* REQ_OP_MASK */
#define FIRST_DRIVER_OPERATION 34 /* REQ_OP_DRV_IN: these have no bio from the block layer's queue */
#define MINOR_BITS 20

/* The kernel's operation numbers are not part of any interface, but these four have never changed. */
static __always_inline __u32 operation_of(__u32 cmd_flags)
{
	__u32 operation = cmd_flags & OPERATION_MASK;

	return operation <= 3 ? OPERATION_READ + operation : OPERATION_OTHER;
}

static __always_inline __u32 device_of(struct request *rq)
{
	struct request_queue___since_5_17 *queue;
	struct gendisk *disk;

	if (bpf_core_field_exists(struct request_queue___since_5_17, disk)) {
		queue = (void *)BPF_CORE_READ(rq, q);
		disk = BPF_CORE_READ(queue, disk);
	} else {
		disk = BPF_CORE_READ((struct request___before_5_17 *)rq, rq_disk);
	}
	return disk ? BPF_CORE_READ(disk, major) << MINOR_BITS | BPF_CORE_READ(disk, first_minor) : 0;
}

/* What is known when a request is first seen. */
static __always_inline void describe(struct dbt_request *request, struct request *rq)
{
	__u32 cmd_flags = BPF_CORE_READ(rq, cmd_flags);
	struct dbt_bio *queued;
	__u64 bio, parent;

	request->device = device_of(rq);
	request->operation = operation_of(cmd_flags);
	bio = (__u64)BPF_CORE_READ(rq, bio);
	if (!bio || (cmd_flags & OPERATION_MASK) >= FIRST_DRIVER_OPERATION)
		return;
	/* A part split off from a bio is a bio of its own that was never queued. It points to the original; its own
	 * address may have a stale entry. In a bio that is whole, the pointer leads to whatever waits for it. */
	parent = (__u64)BPF_CORE_READ((struct bio *)bio, bi_private);
	queued = bpf_map_lookup_elem(&block_bios, &parent);
	if (!queued)
		queued = bpf_map_lookup_elem(&block_bios, &bio);
	if (queued) {
		request->queue_ns = queued->queue_ns;
		request->start_ns = queued->start_ns;
		request->statement = queued->statement;
		request->pid = queued->pid;
	}
}

static __always_inline void begin_request(struct request *rq, __u64 insert_ns, __u64 issue_ns)
{
	struct dbt_request request = { .insert_ns = insert_ns, .issue_ns = issue_ns };
	__u64 key = (__u64)rq;

	describe(&request, rq);
	if (bpf_map_update_elem(&block_requests, &key, &request, BPF_ANY))
		__sync_fetch_and_add(&block_lost, 1);
}

/* In the context of the task that wants the data, or writes it. */
SEC("tp_btf/block_bio_queue")
int BPF_PROG(on_block_queue, struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct dbt_bio queued = {
		.queue_ns = bpf_ktime_get_ns(),
		.start_ns = task->group_leader->start_time,
		.statement = statement_of_request(task),
		.pid = task->tgid,
	};
	__u64 key = (__u64)bio;

	bpf_map_update_elem(&block_bios, &key, &queued, BPF_ANY);
	return 0;
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(on_block_insert, struct request *rq)
{
	__u64 key = (__u64)rq;
	struct dbt_request *request = bpf_map_lookup_elem(&block_requests, &key);

	if (request && request->requeued && !request->issue_ns)
		return 0; /* it comes back from the device: it has been in the queue all the time */
	if (request && request->issue_ns)
		__sync_fetch_and_add(&block_lost, 1); /* the address is reused, so the old request has ended */
	begin_request(rq, bpf_ktime_get_ns(), 0);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_block_issue, struct request *rq)
{
	__u64 key = (__u64)rq, now = bpf_ktime_get_ns();
	struct dbt_request *request = bpf_map_lookup_elem(&block_requests, &key);

	if (request && !request->issue_ns) {
		request->issue_ns = now;
		return 0;
	}
	if (request)
		__sync_fetch_and_add(&block_lost, 1);
	begin_request(rq, 0, now);
	return 0;
}

SEC("tp_btf/block_rq_requeue")
int BPF_PROG(on_block_requeue, struct request *rq)
{
	__u64 key = (__u64)rq;
	struct dbt_request *request = bpf_map_lookup_elem(&block_requests, &key);

	if (request) {
		request->issue_ns = 0;
		request->requeued = 1;
	}
	return 0;
}

/* The request was merged into its neighbour in the queue. */
SEC("tp_btf/block_rq_merge")
int BPF_PROG(on_block_merge, struct request *rq)
{
	__u64 key = (__u64)rq;

	bpf_map_delete_elem(&block_requests, &key);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_block_complete, struct request *rq, int error, unsigned int nr_bytes)
{
	__u64 key = (__u64)rq, now = bpf_ktime_get_ns();
	struct dbt_request *request = bpf_map_lookup_elem(&block_requests, &key);
	bool is_last = nr_bytes >= BPF_CORE_READ(rq, __data_len); /* that is what was left before this part */

	if (!request) {
		/* A write with a flush completes once more, with 0 bytes, after its data: that is no request. */
		if (is_last && nr_bytes)
			__sync_fetch_and_add(&block_without_begin, 1);
		return 0;
	}
	request->bytes += nr_bytes;
	if (!is_last)
		return 0; /* a part: the rest will follow */
	if (request->issue_ns)
		block_request_done(request, now);
	else if (nr_bytes)
		__sync_fetch_and_add(&block_without_begin, 1);
	bpf_map_delete_elem(&block_requests, &key);
	return 0;
}

#endif
