/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Whether the host runs two CPUs on cores that share a cache just now.
 *
 * A host that moves its guest's CPUs about tells the guest of one common cache all the time. But what another
 * CPU wrote a moment ago takes four to six times as long to read from a core with another cache. So with each
 * sample a CPU writes some lines of its own, and reads those of another one, if they were written so lately that
 * hardly anybody has driven them out of all caches. Each read waits for the one before; how long all took is
 * kept as counts by slot.
 */
#pragma once
#include "bpf.h"
#include "histogram.h"

#define PASS_LINES 4
/* Far enough apart that no line comes along with the one before. */
#define PASS_APART 512
#define PASS_REACH ((PASS_LINES + 1) * PASS_APART)
/* Two slots to each power of two, from 64 ns on. */
#define PASS_SLOTS 16
#define PASS_FROM 12
#define PASS_MOST_NS 1000000

/* When they were written, and the lines, which hold 0. */
struct passed { __u8 bytes[PASS_REACH]; };
struct passes { __u32 slots[PASS_SLOTS]; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the loader asks for as many as there are CPUs */
	__type(key, __u32);
	__type(value, struct passed);
} rq_passed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct passes);
} rq_passes SEC(".maps");

/* A time as a slot. */
static __always_inline __u32 pass_slot(__u64 ns)
{
	__u32 slot = halves_of(ns);

	slot = slot < PASS_FROM ? 0 : slot - PASS_FROM;
	barrier_var(slot);
	return slot < PASS_SLOTS ? slot : PASS_SLOTS - 1;
}

/* Reads the lines of another CPU. */
static __always_inline void read_passed(__u32 other, __u64 now)
{
	struct passed *theirs = bpf_map_lookup_elem(&rq_passed, &other);
	struct passes *passes;
	__u32 zero = 0, slot;
	__u64 written, from, at = 0;

	if (!theirs)
		return;
	written = *(volatile __u64 *)theirs->bytes;
	if (!written || now - written > PASS_MOST_NS)
		return;
	passes = bpf_map_lookup_elem(&rq_passes, &zero);
	if (!passes)
		return;
	from = bpf_ktime_get_ns();
	for (int i = 1; i <= PASS_LINES; i++)
		at = *(volatile __u64 *)(theirs->bytes + i * PASS_APART + (at & 8));
	slot = pass_slot(bpf_ktime_get_ns() - from + (at & 8));
	if (slot < PASS_SLOTS)
		passes->slots[slot] += 1;
}

/* Writes those of this CPU. */
static __always_inline void write_passed(__u32 number, __u64 now)
{
	struct passed *mine = bpf_map_lookup_elem(&rq_passed, &number);

	if (!mine)
		return;
	for (int i = 1; i <= PASS_LINES; i++)
		*(volatile __u64 *)(mine->bytes + i * PASS_APART) = 0;
	*(volatile __u64 *)mine->bytes = now;
}
