/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Whether this CPU's accesses are held back just now, how long memory takes, and who runs on others
 * meanwhile.
 *
 * A split or bus lock of any CPU holds back whatever the others' cores ask of any cache but their
 * first. No counter is needed to see that: now and then, where a CPU turns to another task anyway,
 * sixteen lines are read one after the other that lie in one set of the first cache, so that it
 * cannot hold all of them, and were read just before, so that they are in the second. They take as
 * long as the second cache takes, whatever others do to shared caches and to memory, unless a bus
 * lock holds them back: then ten times as long. Multiplications, which wait for no cache, take the
 * clock out of it: what is kept is how many times as long as these the lines took.
 *
 * How loaded memory is, some reads at random of a region tell that is too large for anybody to come back
 * to a line before it is gone from all caches; each waits for the one before. Their time is kept as sums of
 * eighths of powers of two, so that means are of logarithms.
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
/* 8 MiB, of which a sample reads so many lines. */
#define FAR_PAGES 2048
#define PAGE_LINES 64
#define FAR_LINES (FAR_PAGES * PAGE_LINES)
#define FAR_READS 4
/* Times are kept from 128 ns on, as the slots of a histogram. */
#define FAR_FROM 40
#define FAR_MOST 63
/* At most so many other CPUs are looked at for a sample. */
#define LOOKED_AT 16

/* Time between two samples of a CPU; 0: none are taken. */
const volatile __u64 gauge_ns = 0;

struct lines { __u8 bytes[REACH]; };
struct page { __u8 bytes[PAGE_LINES * 64]; };

/* Samples of its own turns: see kept.h. */
struct kept {
	__u64 samples;
	__u64 took; /* sum over them of what lines took */
	__u64 ns;   /* and of how long these were left */
};

/* What a row's samples read; the row of idle CPUs (NOBODY) has all samples. */
struct gauge {
	__u64 last; /* the sample that was put down last */
	__u32 slots[GAUGE_SLOTS];
	__u64 far;         /* sum over samples of what memory took */
	__u64 far_squares; /* and of its squares */
	struct kept kept;
};

/* A sample is of one kind: of what a task leaves in the caches, or of who has other CPUs. */
struct sample {
	__u64 number;
	__u32 slot; /* KEPT where it is of the former */
	__u32 took; /* by these, or by memory */
	__u64 passed_ns; /* how long these were left */
};
#define KEPT GAUGE_SLOTS

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

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FAR_PAGES);
	__type(key, __u32);
	__type(value, struct page);
} rq_far SEC(".maps");

/* Reads lines of the region, each where a generator of full period and the line before say (0). */
static __always_inline __u32 read_far(__u32 at)
{
	for (int i = 0; i < FAR_READS; i++) {
		struct page *page;
		__u32 number;

		at = (at * 1664525 + 1013904223) & (FAR_LINES - 1);
		number = at / PAGE_LINES;
		page = bpf_map_lookup_elem(&rq_far, &number);
		if (!page)
			break;
		at += *(volatile __u32 *)(page->bytes + at % PAGE_LINES * 64);
	}
	return at;
}

/* Reads all lines; where the next one lies the one before says, by the 0 that it holds. */
static __always_inline __u64 read_lines(struct lines *lines, __u64 at, __u64 place)
{
	for (int i = 0; i < LINES; i++) {
		at = (at + APART) & (REACH - APART);
		at += *(volatile __u64 *)(lines->bytes + at + place);
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
	__u32 slot = halves_of(ratio);

	return slot < GAUGE_SLOTS ? slot : GAUGE_SLOTS - 1;
}

/* A time in eighths of powers of two. */
static __always_inline __u32 eighths_of(__u64 ns)
{
	__u64 slot = slot_of(ns);

	if (slot < FAR_FROM)
		return 0;
	return slot - FAR_FROM < FAR_MOST ? slot - FAR_FROM : FAR_MOST;
}

/* Puts a sample down to a row, once. */
static __always_inline void put_down(__u32 row, struct sample *sample)
{
	struct gauge *gauge = bpf_map_lookup_elem(&rq_gauge, &row);
	__u32 slot = sample->slot;
	__u64 took = sample->took;

	if (!gauge || gauge->last == sample->number)
		return;
	gauge->last = sample->number;
	if (slot == KEPT) {
		__sync_fetch_and_add(&gauge->kept.samples, 1);
		__sync_fetch_and_add(&gauge->kept.took, took);
		__sync_fetch_and_add(&gauge->kept.ns, sample->passed_ns);
		return;
	}
	__sync_fetch_and_add(&gauge->far, took);
	__sync_fetch_and_add(&gauge->far_squares, took * took);
	barrier_var(slot);
	if (slot < GAUGE_SLOTS)
		__sync_fetch_and_add(&gauge->slots[slot], 1);
}
