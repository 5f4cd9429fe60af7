/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Whether this CPU's accesses are held back just now, and who runs on others meanwhile.
 *
 * A split or bus lock of any CPU holds back whatever the others' cores ask of any cache but their
 * first. No counter is needed to see that: now and then, where a CPU turns to another task anyway,
 * sixteen lines are read one after the other that lie in one set of the first cache, so that it
 * cannot hold all of them, and were read just before, so that they are in the second. They take as
 * long as the second cache takes, whatever others do to shared caches and to memory, unless a bus
 * lock holds them back: then ten times as long. Multiplications, which wait for no cache, take the
 * clock out of it: what is kept is how many times as long as these the lines took.
 *
 * Each sample is put down once to each group that has one of the other CPUs at its end.
 */
#pragma once
#include "bpf.h"

#define LINES 16
/* The sets of a first cache repeat from page to page on x86-64, and nobody else has split locks. */
#define APART 4096
#define REACH (LINES * APART)
#define MULTIPLICATIONS 32
/* Ratios are kept in eighths, two slots to each power of two. */
#define EIGHTHS 8
#define GAUGE_SLOTS 32
/* At most so many other CPUs are looked at for a sample. */
#define LOOKED_AT 16

/* Time between two samples of a CPU; 0: none are taken. */
const volatile __u64 gauge_ns = 0;

struct lines { __u8 bytes[REACH]; };

/* What no group has, all samples are put down to. */
struct gauge {
	__u64 last; /* the sample that was put down last */
	__u32 slots[GAUGE_SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the loader asks for as many as there are CPUs */
	__type(key, __u32);
	__type(value, struct lines);
} rq_lines SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_GROUPS + SLOT_0); /* the loader asks for as many as it wants */
	__type(key, __u32);
	__type(value, struct gauge);
} rq_gauge SEC(".maps");

/* Reads all lines; where the next one lies the one before says, by the 0 that it holds. */
static __always_inline __u64 read_lines(struct lines *lines, __u64 at)
{
	for (int i = 0; i < LINES; i++) {
		at = (at + APART) & (REACH - APART);
		at += *(volatile __u64 *)(lines->bytes + at);
	}
	return at;
}

static __always_inline __u64 multiply(__u64 value)
{
	for (int i = 0; i < MULTIPLICATIONS; i++) {
		value *= value;
		barrier_var(value);
	}
	return value;
}

/* How many times as long as multiplications the lines took, as a slot. */
static __always_inline __u32 slot_of_ratio(__u64 lines_ns, __u64 multiplications_ns)
{
	__u64 ratio = EIGHTHS * lines_ns / (multiplications_ns | 1);
	__u32 bit = highest_bit(ratio), slot;

	slot = bit ? 2 * bit + ((ratio >> (bit - 1)) & 1) : 0;
	return slot < GAUGE_SLOTS ? slot : GAUGE_SLOTS - 1;
}

/* Puts a sample down to a row, once. */
static __always_inline void put_down(__u32 row, __u32 slot, __u64 sample)
{
	struct gauge *gauge = bpf_map_lookup_elem(&rq_gauge, &row);

	if (!gauge || gauge->last == sample)
		return;
	gauge->last = sample;
	barrier_var(slot);
	if (slot < GAUGE_SLOTS)
		__sync_fetch_and_add(&gauge->slots[slot], 1);
}
