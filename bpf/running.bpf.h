/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* The timer: takes a target that is on a CPU, in its own context. */
#ifndef RUNNING_BPF_H
#define RUNNING_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dbt_sample);
} running_scratch SEC(".maps");

/* Place of the code segment in `struct pt_regs` as user space sees it (arch/x86/include/uapi/asm/ptrace.h), which is
 * what the context is whatever the kernel's own struct has become. Its low two bits are the privilege level. */
#define CODE_SEGMENT 17

/* Exact tier: whether it is in a system call. Found in user code, which may be inside a wait event, the account is cut,
 * or opened: there is no better moment. (Kernel code that this interrupts may be writing the account.) */
static __always_inline bool is_in_call(struct task_struct *task, struct dbt_sample *sample)
{
	struct dbt_account *account = bpf_task_storage_get(&accounts, task, 0, 0);
	__u64 now = bpf_ktime_get_ns();

	if (!account)
		return false;
	if (sample->flags & SAMPLE_USER_MODE) {
		if (account->status != ACCOUNT_OPEN && !open_own(account, task, now))
			return false;
		if (trace_calls && sample->wait) {
			begin_write(account);
			account->statement = sample->statement;
			settle_calls(account, task, now, task->sched_info.run_delay, sample->wait, switches_of(task),
				     true);
			end_write(account);
		}
	}
	return account->in_call;
}

SEC("perf_event")
int sample_running(struct bpf_perf_event_data *ctx)
{
	__u32 pid = (__u32)bpf_get_current_pid_tgid(), zero = 0;
	struct dbt_target *target = bpf_map_lookup_elem(&targets, &pid);
	struct task_struct *task = bpf_get_current_task_btf();
	struct dbt_activity activity;
	struct dbt_sample *sample;
	__u64 kernel = 0, user, cs;

	if (!target)
		return 0;
	sample = bpf_map_lookup_elem(&running_scratch, &zero);
	if (!sample)
		return 0;
	fill_event(&sample->event, EVENT_RUNNING, pid, task->start_time);
	cs = ((volatile __u64 *)ctx)[CODE_SEGMENT];
	sample->flags = (cs & 3) ? SAMPLE_USER_MODE : 0;
	sample->state = 0;
	sample->repeats = 0;
	activity = own_activity(&target->source);
	sample->wait = activity.wait;
	sample->statement = activity.statement;
	if (sample->wait == WAIT_NOT_READ)
		sample->flags |= SAMPLE_WAIT_NOT_READ;
	if (exact && is_in_call(task, sample))
		sample->flags |= SAMPLE_IN_CALL;

	if (!(sample->flags & SAMPLE_USER_MODE))
		kernel = frames_in(bpf_get_stack(ctx, sample->frames, MAX_FRAMES * sizeof(__u64), 0));
	user = frames_in(bpf_get_stack(ctx, &sample->frames[kernel & MAX_FRAMES], MAX_FRAMES * sizeof(__u64),
				       BPF_F_USER_STACK));
	emit_sample(sample, kernel, user);
	return 0;
}

#endif
