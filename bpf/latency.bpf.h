/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Histograms of latencies, kept in the kernel and read by user space every second: no event goes to user space. A map has
 * one element per key and bucket. */
#ifndef LATENCY_BPF_H
#define LATENCY_BPF_H

/* Makes the bounds check visible to the verifier in the register that is used: the compiler likes to compare a copy. */
#define same_register(variable) asm volatile("" : "+r"(variable))

/* Two maps: while one is filled, the other is emptied, so that nothing is added to what is being taken out. */
struct latency_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536); /* user space sets it */
	__type(key, struct dbt_latency_key);
	__type(value, struct dbt_latency);
} latency_even SEC(".maps"), latency_odd SEC(".maps");

/* Which of the two is filled: user space increments it, in a map of its own so that it writes nothing else. */
__u64 latency_epoch SEC(".data.epoch") = 0;

/* Latencies for which there was no room. */
__u64 latency_lost = 0;

/* Set by the sampler's last pass, in its own object: what ends later is not of the recording. It takes user space a while to read what was
 * added, on a busy host tenths of a second. */
__u32 latencies_are_over = 0;

/* Shares of the room that a map has for individual statements: many different ones must not crowd out everything else, nor their
 * individual events the commands, by which statements are counted. */
enum dbt_latency_share {
	SHARE_EVENTS,       /* of latency_even and latency_odd */
	SHARE_COMMANDS,     /* of the same */
	SHARE_COMMAND_SUMS, /* of commands_even and commands_odd */
	LATENCY_SHARES,
};

/* How many elements of a share may be of individual statements. Any further ones are STATEMENT_POOLED. Set before loading. */
const volatile __u32 latency_room[LATENCY_SHARES] = {};

/* Elements of a share added in an epoch. Slightly off if two CPUs begin an epoch, or add the same element, at the same time. */
struct latency_elements {
	__u64 epoch;
	__u64 count;
} latency_elements[LATENCY_SHARES] = {};

/* Another element is to be added. False = not for an individual statement. Inline: one more frame would not fit on the stack of
 * every caller. */
static __always_inline bool take_room(enum dbt_latency_share share)
{
	struct latency_elements *elements = &latency_elements[share];
	__u64 epoch = latency_epoch;

	if (elements->epoch != epoch) {
		elements->epoch = epoch;
		elements->count = 0;
	}
	return __sync_fetch_and_add(&elements->count, 1) < latency_room[share];
}

#define LONGEST_LATENCY ((1ULL << 41) - 1)

/* The buckets of crates/model/src/latency.rs: 64 to a power of two. */
static __always_inline __u16 latency_bucket(__u64 ns)
{
	__u64 v, power = 0, bigger;

	if (ns > LONGEST_LATENCY)
		ns = LONGEST_LATENCY;
	if (ns < 64)
		return ns;
	/* Logarithm without branches: the verifier would follow each. */
	v = ns;
	bigger = (v > 0xffffffffULL) << 5; v >>= bigger; power |= bigger;
	bigger = (v > 0xffff) << 4; v >>= bigger; power |= bigger;
	bigger = (v > 0xff) << 3; v >>= bigger; power |= bigger;
	bigger = (v > 0xf) << 2; v >>= bigger; power |= bigger;
	bigger = (v > 0x3) << 1; v >>= bigger; power |= bigger;
	power |= v >> 1;
	return (power - 5) * 64 + ((ns >> (power - 6)) & 63);
}

/* Adds one latency; `key` is complete except for the bucket. */
static __always_inline void add_latency(struct dbt_latency_key *key, __u64 ns)
{
	struct dbt_latency first = { .count = 1, .sum_ns = ns, .max_ns = ns }, *latency;
	void *map = latency_epoch & 1 ? (void *)&latency_odd : (void *)&latency_even;

	if (latencies_are_over)
		return;
	key->bucket = latency_bucket(ns);
	latency = bpf_map_lookup_elem(map, key);
	if (!latency && !take_room(key->kind == LATENCY_COMMAND ? SHARE_COMMANDS : SHARE_EVENTS) && key->statement) {
		key->statement = STATEMENT_POOLED;
		latency = bpf_map_lookup_elem(map, key);
	}
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
	/* Two CPUs at the same moment: the smaller of their maxima may win; it is at most the width of a bucket too low. */
	if (ns > latency->max_ns)
		latency->max_ns = ns;
}

#endif
