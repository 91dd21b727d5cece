/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Histograms of latencies, kept in the kernel and read by user space every second: no event goes to user space.
 *
 * What a session does often has a histogram of its own: its task adds to it without a lock, and 600 buckets in use fill
 * no more than some lines of a CPU's cache. All else goes to a map with one element per key and bucket, where an
 * addition costs five times as much. */
#ifndef LATENCY_BPF_H
#define LATENCY_BPF_H

/* Two maps: while one is filled, the other is emptied, so that nothing is added to what is being taken away. */
struct latency_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536); /* user space sets it */
	__type(key, struct dbt_latency_key);
	__type(value, struct dbt_latency);
} latency_even SEC(".maps"), latency_odd SEC(".maps");

/* Which of the two is filled: user space counts it up, in a map of its own so that it writes nothing else. */
__u64 latency_epoch SEC(".data.epoch") = 0;

/* Latencies for which there was no room. */
__u64 latency_lost = 0;

#define LONGEST_LATENCY ((1ULL << 41) - 1)

/* Buckets as those of crates/model/src/latency.rs: 64 to a power of two. */
static __always_inline __u16 latency_bucket(__u64 ns)
{
	__u64 v, power = 0, bigger;

	if (ns > LONGEST_LATENCY)
		ns = LONGEST_LATENCY;
	if (ns < 64)
		return ns;
	/* Logarithm without a branch: the verifier would follow each. */
	v = ns;
	bigger = (v > 0xffffffffULL) << 5; v >>= bigger; power |= bigger;
	bigger = (v > 0xffff) << 4; v >>= bigger; power |= bigger;
	bigger = (v > 0xff) << 3; v >>= bigger; power |= bigger;
	bigger = (v > 0xf) << 2; v >>= bigger; power |= bigger;
	bigger = (v > 0x3) << 1; v >>= bigger; power |= bigger;
	power |= v >> 1;
	return (power - 5) * 64 + ((ns >> (power - 6)) & 63);
}

/* Adds one latency; `key` is complete but for the bucket. */
static __always_inline void add_latency(struct dbt_latency_key *key, __u64 ns)
{
	struct dbt_latency first = { .count = 1, .sum_ns = ns, .max_ns = ns }, *latency;
	void *map = latency_epoch & 1 ? (void *)&latency_odd : (void *)&latency_even;

	key->bucket = latency_bucket(ns);
	latency = bpf_map_lookup_elem(map, key);
	if (!latency) {
		if (!bpf_map_update_elem(map, key, &first, BPF_NOEXIST))
			return;
		/* Full, or another CPU was first. */
		latency = bpf_map_lookup_elem(map, key);
		if (!latency) {
			__sync_fetch_and_add(&latency_lost, 1);
			return;
		}
	}
	__sync_fetch_and_add(&latency->count, 1);
	__sync_fetch_and_add(&latency->sum_ns, ns);
	/* Two CPUs at the same moment: the smaller of their two maxima may win; it is at most the width of a bucket less. */
	if (ns > latency->max_ns)
		latency->max_ns = ns;
}

/* Read by user space through shared memory. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* user space sets it */
	__type(key, __u32);
	__type(value, struct dbt_histogram);
} histograms SEC(".maps");

/* Numbers of those that nobody uses. User space fills it, and gives back those of sessions that have ended. */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 1); /* as many */
	__type(value, __u32);
} free_histograms SEC(".maps");

#define OWN_HISTOGRAMS 64 /* of a session; a power of two */
#define PROBES 4

/* Which histograms a session has. */
struct dbt_own_histograms {
	struct {
		struct dbt_latency_key key;
		__u32 number; /* counted from 1; 0 = free */
		__u32 pad;
	} own[OWN_HISTOGRAMS];
};

static __always_inline bool same_key(struct dbt_latency_key *a, struct dbt_latency_key *b)
{
	return a->name == b->name && a->call == b->call && a->inode == b->inode && a->bytes == b->bytes &&
	       a->kind == b->kind && a->source == b->source && a->device == b->device &&
	       a->file_system == b->file_system;
}

/* Adds a latency of the task that the histograms belong to, in its own context; `key` is complete but for the bucket. */
static __noinline void add_own_latency(struct dbt_own_histograms *mine, struct dbt_latency_key *key, __u64 ns)
{
	__u32 place = (key->name ^ key->name >> 21) * 31 + key->call * 7 + key->kind * 13 + key->source * 3 +
		      (__u32)key->inode * 5 + (key->bytes >> 9);
	struct dbt_histogram *histogram;
	__u32 number, i;
	__u64 bucket;

	for (i = 0; i < PROBES; i++, place++) {
		place &= OWN_HISTOGRAMS - 1;
		if (!mine->own[place].number) {
			if (bpf_map_pop_elem(&free_histograms, &number))
				break;
			histogram = bpf_map_lookup_elem(&histograms, &number);
			if (!histogram)
				break;
			mine->own[place].key = *key;
			mine->own[place].number = number + 1;
			histogram->key = *key;
		} else if (!same_key(&mine->own[place].key, key)) {
			continue;
		}
		number = mine->own[place].number - 1;
		histogram = bpf_map_lookup_elem(&histograms, &number);
		if (!histogram)
			break;
		bucket = latency_bucket(ns);
		asm volatile("" : "+r"(bucket)); /* the verifier is to see the comparison with what is used */
		if (bucket >= LATENCY_BUCKETS)
			break;
		histogram->buckets[bucket]++;
		histogram->sum_ns += ns;
		if (ns > histogram->max_ns)
			histogram->max_ns = ns;
		histogram->count++;
		return;
	}
	add_latency(key, ns);
}

#endif
