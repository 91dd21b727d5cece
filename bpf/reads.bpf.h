/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Where the data of a read came from, judged in the task's own context by whether the call sent a request to a device,
 * and whether it slept for block I/O. Included by exact.bpf.h. */
#ifndef READS_BPF_H
#define READS_BPF_H

/* What the running task executes, as it said when it made the system call; 0 = not known. */
static __always_inline __u64 statement_of_request(struct task_struct *task)
{
	struct dbt_account *account = bpf_task_storage_get(&accounts, task, 0, 0);

	return account && account->status == ACCOUNT_OPEN && account->in_call ? statement_in(account, account->call_cell) : 0;
}

#include "block.bpf.h"

#define S_IFMT 0170000
#define S_IFREG 0100000
#define S_IFBLK 0060000

static __always_inline bool is_read(__u32 call)
{
	return call_uses[call & (MAX_CALLS - 1)] & CALL_READS;
}

static __always_inline bool is_work(__u32 call)
{
	return call < MAX_CALLS && call_uses[call & (MAX_CALLS - 1)] & CALL_WORKS;
}

/* The file behind a descriptor of the running task. False = not one on a device. */
static __always_inline bool name_file(struct task_struct *task, __u32 fd, struct dbt_latency_key *key)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd), *file = NULL;
	struct inode *inode;
	__u16 mode;

	if (fd >= BPF_CORE_READ(table, max_fds) || bpf_probe_read_kernel(&file, sizeof(file), &files[fd]) || !file)
		return false;
	inode = BPF_CORE_READ(file, f_inode);
	mode = BPF_CORE_READ(inode, i_mode);
	if ((mode & S_IFMT) != S_IFREG && (mode & S_IFMT) != S_IFBLK)
		return false;
	key->inode = BPF_CORE_READ(inode, i_ino);
	key->file_system = BPF_CORE_READ(inode, i_sb, s_dev);
	return true;
}

/* The requests that a session's latest read call sent: when the first one reached the block layer and the device, when
 * the last one was done, and how many bytes were queued and done. Written where these happen; read by the task when its
 * call ends. */
struct dbt_read_requests {
	__u64 first_queue;
	__u64 first_issue;
	__u64 last_done;
	__u64 queued_bytes;
	__u64 done_bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* user space sets it */
	__type(key, __u32);
	__type(value, struct dbt_read_requests);
} read_requests SEC(".maps");

/* The running task sends a request to a block device. */
SEC("tp_btf/block_bio_queue")
int BPF_PROG(on_bio, struct bio *bio)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct dbt_account *account = bpf_task_storage_get(&accounts, task, 0, 0);
	struct dbt_read_requests first = { .first_queue = bpf_ktime_get_ns() }, *requests;
	__u32 pid = task->pid;

	/* REQ_OP_READ is 0 in the low eight bits. */
	if (!account || account->status != ACCOUNT_OPEN || !account->in_call || bio->bi_opf & OPERATION_MASK)
		return 0;
	if (!(account->call_flags & CALL_SUBMITTED))
		bpf_map_update_elem(&read_requests, &pid, &first, BPF_ANY);
	requests = bpf_map_lookup_elem(&read_requests, &pid);
	if (requests)
		requests->queued_bytes += bio->bi_iter.bi_size;
	hold_cpu();
	account->call_flags |= CALL_SUBMITTED;
	/* Where devices are stacked, the lowest comes last. */
	account->device = bio->bi_bdev->bd_dev;
	release_cpu();
	return 0;
}

static __always_inline void block_request_done(struct dbt_request *request, __u64 now)
{
	struct dbt_latency_key key = {
		.start_ns = request->start_ns,
		.pid = request->pid,
		.kind = LATENCY_BLOCK,
		.statement = request->statement,
		.name = request->operation,
		.device = request->device,
		.bytes = request->bytes,
	};
	__u64 begin_ns = request->insert_ns ? request->insert_ns : request->queue_ns;
	struct dbt_read_requests *requests;

	if (!bpf_map_lookup_elem(&targets, &key.pid))
		return;
	add_latency(&key, now - request->issue_ns);
	if (begin_ns && begin_ns < request->issue_ns) {
		key.kind = LATENCY_BLOCK_QUEUE;
		add_latency(&key, request->issue_ns - begin_ns);
	}
	if (request->operation != OPERATION_READ)
		return;
	requests = bpf_map_lookup_elem(&read_requests, &key.pid);
	if (!requests || request->queue_ns < requests->first_queue)
		return; /* of an earlier call: read ahead */
	if (!requests->first_issue || request->issue_ns < requests->first_issue)
		requests->first_issue = request->issue_ns;
	requests->last_done = now;
	__sync_fetch_and_add(&requests->done_bytes, request->bytes);
}

/* Whether all that the call requested was there before it ended, so that it need not have slept for it: the device was
 * fast, or something else held the call up. */
static __always_inline bool has_got_all(__u32 pid)
{
	struct dbt_read_requests *requests = bpf_map_lookup_elem(&read_requests, &pid);

	return requests && requests->done_bytes >= requests->queued_bytes;
}

/* Adds the parts of a read that slept for its requests. */
static __always_inline void add_parts(struct dbt_account *account, struct dbt_latency_key *key)
{
	struct dbt_read_requests *requests = bpf_map_lookup_elem(&read_requests, &key->pid);

	if (!requests || !requests->first_issue || requests->first_issue < requests->first_queue ||
	    requests->last_done < requests->first_issue)
		return;
	key->kind = LATENCY_READ_QUEUE;
	add_latency_of(&account->histograms, key, requests->first_issue - requests->first_queue);
	key->kind = LATENCY_READ_DEVICE;
	add_latency_of(&account->histograms, key, requests->last_done - requests->first_issue);
}

/* A system call has ended. */
static __always_inline void end_call(struct dbt_account *account, struct task_struct *task, __u64 ns, long result)
{
	struct dbt_latency_key key = {
		.start_ns = account->sums.totals.event.task.start_ns,
		.pid = account->sums.totals.event.task.pid,
		.kind = LATENCY_CALL,
		.name = wait_in(account, account->call_cell),
		.statement = statement_in(account, account->call_cell),
		.call = account->call,
	};
	struct dbt_call_histogram *slot;
	__u32 flags = account->call_flags;

	if (result <= 0 || !is_read(account->call) || !name_file(task, account->call_fd, &key)) {
		slot = &account->calls[(account->call * 5 + account->call_cell) & (CALL_HISTOGRAMS - 1)];
		if (slot->call != account->call || slot->cell != account->call_cell)
			slot->number = 0;
		slot->call = account->call;
		slot->cell = account->call_cell;
		add_known_latency(&account->histograms, &slot->number, &key, ns);
		return;
	}
	key.kind = flags & CALL_LEFT_CPU ? LATENCY_READ : LATENCY_READ_ON_CPU;
	key.bytes = result;
	key.device = account->device;
	if (flags & CALL_SUBMITTED)
		key.source = flags & CALL_IOWAIT || has_got_all(key.pid) ? READ_DEVICE : READ_AHEAD;
	else
		key.source = flags & CALL_IOWAIT ? READ_OTHER_TASK : READ_PAGE_CACHE;
	add_latency_of(&account->histograms, &key, ns);
	if (key.kind == LATENCY_READ) {
		key.kind = LATENCY_READ_CPU;
		add_latency_of(&account->histograms, &key, account->call_cpu);
	}
	if (key.source == READ_DEVICE)
		add_parts(account, &key);
}

#endif
