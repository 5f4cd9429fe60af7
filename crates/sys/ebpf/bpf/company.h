/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Beside whom the tasks of the victims run, and how much they get done there.
 *
 * Each victim has a clock that goes as fast as it has CPUs: count * now - since, where `count` CPUs
 * run its tasks, `since` being the sum of the moments from which they do (less the time of those
 * that ended). Beside it is counted how often it sent something, which stands for its answers. When
 * a CPU turns to another task, what these two grew by since it turned to the last one is put down
 * to the group of the task that leaves: so long, and so many answers, the victim ran on other CPUs
 * while that group ran here. Nothing is looked at but the CPU that turns.
 *
 * The scheduler thereby makes experiments all the time that cost nobody anything: a victim that
 * gets less done for its CPU time beside one group than beside others is slowed by that group.
 */
#pragma once
#include "bpf.h"

/* Of one victim. CPUs change it by atomic additions; a difference that cannot be (read between the
 * two additions of another CPU) is dropped. */
struct clock {
	__u64 count;
	__u64 since;
	__u64 sends;
};

struct clocks { struct clock of[VICTIMS]; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct clocks);
} rq_clocks SEC(".maps");

/* What a victim's clock and count said when a CPU turned to the task that it runs. */
struct mark {
	__u64 ran;
	__u64 sends;
};

static __always_inline struct clocks *clocks_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&rq_clocks, &zero);
}

/* One more CPU runs the victim's tasks from now on, or (`more` is -1) one less. */
static __always_inline void wind(struct clocks *clocks, __u32 victim, __u64 now, __s64 more)
{
	struct clock *clock = &clocks->of[victim & (VICTIMS - 1)];

	__sync_fetch_and_add(&clock->since, more * now);
	__sync_fetch_and_add(&clock->count, more);
}
