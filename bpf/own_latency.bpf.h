/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* What a session does often has a histogram of its own: its task adds to it without a lock, and 600 buckets in use fill only
 * some lines of a CPU's cache. Everything else goes to the map of latency.bpf.h, where an addition costs five times as much. */
#ifndef OWN_LATENCY_BPF_H
#define OWN_LATENCY_BPF_H

/* Read by user space through shared memory. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* user space sets it */
	__type(key, __u32);
	__type(value, struct dbt_histogram);
} histograms SEC(".maps");

/* Numbers of unused histograms. User space fills it, and returns those of sessions that have ended. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1); /* as many */
	__type(value, __u32);
} free_histograms SEC(".maps");

#define OWN_HISTOGRAMS 64 /* of a session; a power of two */
#define OWN_OF_STATEMENTS 56 /* of these, for statements: a session of many keeps the rest for what it does in none */
#define PROBES 4

/* Which histograms a session has. */
struct dbt_own_histograms {
	struct {
		struct dbt_latency_key key;
		__u32 number; /* counted from 1; 0 = free */
		__u32 pad;
	} own[OWN_HISTOGRAMS];
	__u64 of_statements; /* how many of them belong to a statement */
};

static __always_inline bool same_key(struct dbt_latency_key *a, struct dbt_latency_key *b)
{
	return a->name == b->name && a->call == b->call && a->statement == b->statement && a->inode == b->inode &&
	       a->bytes == b->bytes && a->kind == b->kind && a->source == b->source && a->device == b->device &&
	       a->file_system == b->file_system;
}

/* Adds to a histogram; numbers count from 1. */
static __always_inline bool add_to_histogram(__u32 number, __u64 ns)
{
	__u32 index = number - 1;
	struct dbt_histogram *histogram = bpf_map_lookup_elem(&histograms, &index);
	__u64 bucket = latency_bucket(ns);

	same_register(bucket);
	if (!histogram || bucket >= LATENCY_BUCKETS)
		return false;
	if (latencies_are_over)
		return true;
	histogram->buckets[bucket]++;
	histogram->sum_ns += ns;
	if (ns > histogram->max_ns)
		histogram->max_ns = ns;
	histogram->count++;
	return true;
}

/* Adds a latency of the task that the histograms belong to, in its own context; `key` is on the stack, and complete except for
 * the bucket. Returns the number of the histogram, 0 if none was available. */
static __always_inline __u32 add_own_latency(struct dbt_own_histograms *mine, struct dbt_latency_key *key, __u64 ns)
{
	__u32 place = (key->name ^ key->name >> 21) * 31 + key->call * 7 + key->kind * 13 + key->source * 3 +
		      (__u32)key->inode * 5 + (key->bytes >> 9) + (__u32)(key->statement >> 32);
	struct dbt_histogram *histogram;
	__u32 number, i;

	for (i = 0; i < PROBES; i++, place++) {
		place &= OWN_HISTOGRAMS - 1;
		if (!mine->own[place].number) {
			if (key->statement && mine->of_statements >= OWN_OF_STATEMENTS)
				break;
			if (bpf_map_pop_elem(&free_histograms, &number))
				break;
			histogram = bpf_map_lookup_elem(&histograms, &number);
			if (!histogram)
				break;
			mine->own[place].key = *key;
			mine->own[place].number = number + 1;
			mine->of_statements += !!key->statement;
			histogram->key = *key;
		} else if (!same_key(&mine->own[place].key, key)) {
			continue;
		}
		number = mine->own[place].number;
		if (!add_to_histogram(number, ns))
			break;
		return number;
	}
	add_latency(key, ns);
	return 0;
}

/* The same, where the caller keeps the number for the next time. */
static __always_inline void add_known_latency(struct dbt_own_histograms *mine, __u32 *number, struct dbt_latency_key *key,
					      __u64 ns)
{
	if (!*number || !add_to_histogram(*number, ns))
		*number = add_own_latency(mine, key, ns);
}

/* As add_own_latency(), verified once (commands.bpf.h). */
__noinline __u32 add_latency_of(struct dbt_own_histograms *mine, struct dbt_latency_key *key, __u64 ns)
{
	struct dbt_latency_key own;

	if (!mine || !key)
		return 0;
	/* Linux 6.1 takes map keys only from the stack or from maps. */
	own = *key;
	return add_own_latency(mine, &own, ns);
}

#endif
