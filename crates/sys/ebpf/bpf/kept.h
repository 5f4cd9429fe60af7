/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Who drives out what lies in the caches: whether lines that were read at one moment of a task's turn are
 * still there later in it.
 *
 * Sixteen lines are read where a CPU turns to a task or its tick comes, and so lie in the CPU's second
 * cache. Who computes, or has a table that fits in there, leaves them there, whatever others do elsewhere.
 * Who runs through more than that drives them out into the shared cache, and who fills that one, too, out
 * of it: then they come from memory when they are read again, at the next tick or at the turn's end. Each
 * read waits for the one before; what they took, as eighths of powers of two, and how long they were left
 * is put down to the group of the task.
 */
#pragma once
#include "gauge.h"

/* They are read again after so long, or not at all: a tick is 1 to 10 ms. */
#define KEPT_LEAST_NS 300000
#define KEPT_MOST_NS 12000000
/* Lines that a turn was too short for are read anew after so long, for another turn. A tick that ends a turn
 * has read them just before for nothing: then it is done at once. */
#define KEPT_ANEW_NS 5000000
/* A line of each page; at 0 lie those that the other gauge reads. */
#define KEPT_PLACES 64
#define LINE 64

/* Time between two such samples of a CPU; 0: none are taken. */
const volatile __u64 kept_ns = 0;

/* When a CPU read lines, which are to be read again; and when it did so last. */
struct keeper {
	__u64 since; /* 0: nothing is to be read again */
	__u64 last;
	__u32 ticked; /* whether that was at a tick */
	__u32 place;  /* of the lines in their pages */
};

/* A task gets, or goes on to have, this CPU. Other lines are read each time: a cache holds on to those that it was
 * asked for again and again, whoever runs through it meanwhile. */
static __always_inline void keep(struct keeper *keeper, __u32 cpu, __u64 ticked, __u64 now)
{
	struct lines *lines;
	__u32 place;

	if (!kept_ns || keeper->since || now - keeper->last < kept_ns)
		return;
	lines = bpf_map_lookup_elem(&rq_lines, &cpu);
	if (!lines)
		return;
	place = keeper->place + 1 < KEPT_PLACES ? keeper->place + 1 : 1;
	keeper->place = place;
	for (int i = 0; i < LINES; i++)
		*(volatile __u64 *)(lines->bytes + i * APART + place * LINE);
	keeper->since = keeper->last = now;
	keeper->ticked = ticked;
}

/* A task has left this CPU; if lines are still to be read again, it was here too briefly. */
static __always_inline void stop_keeping(struct keeper *keeper, __u64 now)
{
	if (keeper->since)
		keeper->last = keeper->ticked ? 0 : now - kept_ns + KEPT_ANEW_NS;
	keeper->since = 0;
}

/* Reads lines again that its task has had time to drive out; whether it did. */
static __always_inline int read_kept(struct keeper *keeper, __u32 cpu, __u64 now,
				     struct sample *sample)
{
	__u64 passed = now - keeper->since, from;
	struct lines *lines;

	if (!keeper->since || passed < KEPT_LEAST_NS)
		return 0;
	keeper->since = 0;
	lines = bpf_map_lookup_elem(&rq_lines, &cpu);
	if (passed > KEPT_MOST_NS || !lines)
		return 0;
	from = bpf_ktime_get_ns();
	read_lines(lines, 0, (keeper->place & (KEPT_PLACES - 1)) * LINE);
	sample->number = bpf_ktime_get_ns();
	sample->slot = KEPT;
	sample->passed_ns = passed;
	sample->took = eighths_of(sample->number - from);
	return 1;
}
