/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Tables for unwinding user stacks, as user space makes them (crates/collect/src/unwind/table.rs) and bpf/unwind.bpf.h
 * reads them. */
#ifndef UNWIND_ROWS_H
#define UNWIND_ROWS_H

#define MAX_TABLES 1024 /* modules with tables */
#define MAX_SPACES 512  /* different address spaces */

enum dbt_unwind_number {
	UNWIND_BP_LOST = -128,
	UNWIND_BP_AT_BP = 127,
	UNWIND_BLOCK_BITS = 8, /* the index has an entry for every 256 bytes of code */
	MAX_MAPPINGS = 256,    /* of a process; a power of two */
};

/* How the caller's frame is found. CFA = the stack pointer of the caller when it is returned to. */
enum dbt_unwind_kind {
	UNWIND_NONE,      /* no information: code without a description */
	UNWIND_END,       /* the outermost function: nobody called it */
	UNWIND_SP,        /* CFA = stack pointer + 8 * cfa */
	UNWIND_BP,        /* CFA = frame pointer + 8 * cfa */
	UNWIND_BP_DEREF,  /* CFA = the word at frame pointer + 8 * cfa: a function that aligned its stack */
	UNWIND_SP_DEREF,  /* CFA = 8 + the word at stack pointer + 8 * cfa: OpenSSL's assembly */
	UNWIND_PLT,       /* a stub of 16 bytes that pushes a word before byte cfa */
	UNWIND_SIGNAL,    /* a signal handler's caller: all registers are on the stack */
	UNWIND_UNKNOWN,   /* a rule that is not supported */
	UNWIND_SEARCH,    /* an entry of the index: rows pc … pc + cfa hold for this block */
};

/* What holds from `pc` on, relative to the start of the table's code. A table is an array of these: first the index, with
 * an entry for each block of code (its only row, or where its rows are), then the rows by pc. */
struct dbt_unwind_row {
	__u32 pc;
	__s16 cfa;
	__s8 bp; /* the caller's frame pointer is at CFA + 8 * bp; 0 = it is unchanged, UNWIND_BP_LOST = not known,
		  * UNWIND_BP_AT_BP = where this one points to */
	__u8 kind;
};

/* Code of a module in an address space. */
struct dbt_mapping {
	__u64 start;
	__u64 end;
	__u64 code;  /* address where the table's code begins */
	__u32 size;  /* of the table's code, bytes */
	__u32 table; /* in the map `unwind_tables`, counted from 1; 0 = none: frame pointers are followed */
};

/* Element of the map `unwind_spaces`. */
struct dbt_space {
	__u32 count;
	__u32 version; /* unique among all that were ever written */
	__u64 interpreter_start; /* code of the interpreter of a procedural language: routines.bpf.h */
	__u64 interpreter_end;   /* 0 = it is not there */
	struct dbt_mapping mappings[MAX_MAPPINGS]; /* by address */
};

enum dbt_unwind_end {
	UNWIND_NO_STACK,
	UNWIND_COMPLETE,
	UNWIND_TRUNCATED, /* more frames than are kept */
	UNWIND_BROKEN,
};

#endif
