/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Whether it is the current task that does something, or an interrupt in its context. */
#ifndef INTERRUPT_BPF_H
#define INTERRUPT_BPF_H

#define LARGEST_KERNEL_STACK 65536
#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */

/* Whether an interrupt (or a page fault in user code) runs in the context of this task. One that hit the kernel has its own
 * stack, and the program's arguments are on the stack of whoever runs it. One that hit user code uses the task's stack, but
 * the saved user registers are not from a system call. (A program cannot learn the address of the CPU's own interrupt count
 * if the kernel's symbol table has functions only.) */
static __always_inline bool in_interrupt(void *context, struct task_struct *current)
{
	__u64 here = (char *)context - (char *)current;
	struct pt_regs *regs;

	/* The verifier allows two pointers to be subtracted, and nothing else: hence this order. */
	asm volatile("" : "+r"(here));
	here += bpf_get_current_task();
	if (here - (__u64)current->stack >= LARGEST_KERNEL_STACK)
		return true;
	regs = (struct pt_regs *)bpf_task_pt_regs(current);
	return !(current->flags & PF_KTHREAD) && (long)regs->orig_ax < 0;
}

#endif
