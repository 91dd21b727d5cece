/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* The timer: samples a target that is on a CPU, in its own context. */
#ifndef RUNNING_BPF_H
#define RUNNING_BPF_H

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dbt_sample);
} running_scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct dbt_unwind);
} running_unwind SEC(".maps");

/* Samples of targets, and the time spent taking them. */
__u64 running_samples = 0;
__u64 running_ns = 0;

/* Index of the code segment in `struct pt_regs` as user space sees it (arch/x86/include/uapi/asm/ptrace.h): the context
 * keeps this layout, whatever the kernel's own struct has become. Its low two bits are the privilege level. */
#define CODE_SEGMENT 17

/* Exact tier: whether it is in a system call. If it is in user code, which may be inside a wait event, the account is
 * settled: there is no better moment. (Kernel code that this interrupts may be writing the account.) An account that is not
 * open is opened, which nobody else does meanwhile: user code is in no call, and where calls are not traced it does not
 * matter. */
static __always_inline bool is_in_call(struct task_struct *task, struct dbt_sample *sample)
{
	struct dbt_account *account = bpf_task_storage_get(&accounts, task, 0, 0);
	__u64 now = bpf_ktime_get_ns();

	if (!account)
		return false;
	if (trace_calls && !(sample->flags & SAMPLE_USER_MODE))
		return account->in_call;
	if (account->status != ACCOUNT_OPEN && !open_own(account, task, now))
		return false;
	if (trace_calls) {
		begin_write(account);
		account->activity = sample->activity;
		if (sample->activity.wait)
			settle_own(account, &(struct dbt_boundary){
				.now = now,
				.task = task,
				.run_delay = task->sched_info.run_delay,
				.switches = switches_of(task),
				.user_wait = sample->activity.wait,
			});
		end_write(account);
	}
	return account->in_call;
}

/* The user stack of the current task, after `kernel` frames. Returns the number of its frames. */
static __always_inline __u64 own_user_stack(struct task_struct *task, struct dbt_target *target,
					    struct dbt_sample *sample, __u64 kernel)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	__u32 zero = 0;
	struct dbt_unwind_context context = {
		.unwind = bpf_map_lookup_elem(&running_unwind, &zero),
		.space = bpf_map_lookup_elem(&unwind_spaces, &target->space),
		.sample = sample,
	};

	if (!context.unwind || !context.space || !task->mm)
		return 0;
	begin_unwind(&context, kernel, regs->ip, regs->sp, regs->bp);
	bpf_loop(MAX_FRAMES, unwind_own_frame, &context, 0);
	return end_unwind(&context, kernel);
}

SEC("perf_event")
int sample_running(struct bpf_perf_event_data *ctx)
{
	__u32 pid = (__u32)bpf_get_current_pid_tgid(), zero = 0;
	struct dbt_target *target = bpf_map_lookup_elem(&targets, &pid);
	struct task_struct *task = bpf_get_current_task_btf();
	struct dbt_sample *sample;
	__u64 kernel = 0, user = 0, routines = 0, cs;

	if (!target) {
		count_other(task);
		return 0;
	}
	sample = bpf_map_lookup_elem(&running_scratch, &zero);
	if (!sample)
		return 0;
	fill_event(&sample->event, EVENT_RUNNING, pid, task->start_time);
	cs = ((volatile __u64 *)ctx)[CODE_SEGMENT];
	sample->flags = (cs & 3) ? SAMPLE_USER_MODE : 0;
	sample->state = 0;
	sample->repeats = 0;
	sample->user_end = UNWIND_NO_STACK;
	sample->activity = own_activity(&target->source);
	name_statement(0, &target->source, &target->text, &sample->activity, false);
	find_own_plan(&target->source, &sample->activity);
	if (sample->activity.wait == WAIT_NOT_READ)
		sample->flags |= SAMPLE_WAIT_NOT_READ;
	sample->comment = own_comment(target, &sample->event.task, sample->activity.session_state);
	sample->locks.count = 0;
	if (target->source.lock_count)
		read_own_locks(&target->source, &sample->locks);
	if (exact && is_in_call(task, sample))
		sample->flags |= SAMPLE_IN_CALL;

	if (take_stacks) {
		if (!(sample->flags & SAMPLE_USER_MODE))
			kernel = frames_in(bpf_get_stack(ctx, sample->frames, MAX_FRAMES * sizeof(__u64), 0));
		user = own_user_stack(task, target, sample, kernel);
		routines = own_routines(target, sample, kernel, user);
	}
	emit_sample(sample, kernel, user, routines);
	__sync_fetch_and_add(&running_samples, 1);
	__sync_fetch_and_add(&running_ns, bpf_ktime_get_ns() - sample->event.time_ns);
	return 0;
}

#endif
