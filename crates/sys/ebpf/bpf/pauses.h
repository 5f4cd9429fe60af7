/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Whether this CPU is there all the time.
 *
 * A hypervisor that gives a virtual CPU less than it asks for calls that steal, or does not: a guest that is
 * held to a quota is stopped for some milliseconds in each period, and sees nothing of it but that its clock
 * has jumped. A CPU that is busy has a tick at least every 1 / HZ seconds. One that comes later was not
 * there meanwhile. What is lost between two ticks is not seen, so this is a lower bound.
 */
#pragma once
#include "bpf.h"

/* Longer than this nobody is stopped by a quota: the machine was, or slept. */
#define PAUSE_MOST_NS 1000000000ULL

/* Time from one tick to the next; 0: that is not to be known here. */
const volatile __u64 tick_ns = 0;

struct pauses {
	__u64 timed_ns; /* between ticks */
	__u64 lost_ns;  /* of these, beyond tick_ns */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pauses);
} rq_pauses SEC(".maps");

/* A timer comes where the last one came at `ticked`; 0 if this CPU was idle since. */
static __always_inline void see_pause(__u64 ticked, __u64 now)
{
	__u64 passed = now - ticked;
	struct pauses *pauses;
	__u32 zero = 0;

	if (!tick_ns || !ticked || passed >= PAUSE_MOST_NS)
		return;
	pauses = bpf_map_lookup_elem(&rq_pauses, &zero);
	if (!pauses)
		return;
	pauses->timed_ns += passed;
	if (passed > tick_ns + tick_ns / 4)
		pauses->lost_ns += passed - tick_ns;
}
