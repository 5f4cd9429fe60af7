/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Beside whom the tasks of the victims run, and how much they get done there.
 *
 * Each victim has a clock that goes as fast as it has CPUs: count * now - since, where `count` CPUs
 * run its tasks, `since` being the sum of the moments from which they do (less the time of those
 * that ended). Beside it is counted how often it sent something, which stands for its answers.
 *
 * The scheduler makes experiments all the time that cost nobody anything: a victim that gets less
 * done for its CPU time beside one group than beside others is slowed by that group. But where turns
 * of a CPU begin and end at certain places of a request, since a neighbour wakes with the victim or
 * follows it on a CPU, the parts of requests at the two ends would look like its doing. So a request
 * is put down, as a whole, to whom another CPU had when it *began*: how long it takes is not known
 * then, so it cannot have chosen its neighbour (Wald's identity: what is counted until an end that
 * does not look ahead is right on average).
 *
 * A request begins when the victim sends something, and when a task of it comes to run that has done
 * next to nothing since. What the clock said then is kept in a ring for the latest of them. A CPU that
 * turns looks up the first request that began since it turned before: until there all goes to whom it
 * had earlier, and from there on to who leaves now. Nothing is written but the CPU that turns, and the
 * ring by who begins.
 */
#pragma once
#include "bpf.h"

/* Requests whose begin is known, a power of 2. More in one turn: its ends hardly matter. */
#define BEGINS 64
/* What a victim does after it has sent is the end of that, as long as it takes less. */
#define TAIL_NS 30000

/* What a victim's clock and count said when its request of this number began. */
struct request {
	__u64 number;
	__u64 ran;
	__u64 sends;
};

/* Of one victim. CPUs change it by atomic additions; a difference that cannot be (read between the
 * two additions of another CPU) is dropped. */
struct clock {
	__u64 count;
	__u64 since;
	__u64 sends;
	__u64 begun; /* requests */
	struct request requests[BEGINS];
};

struct clocks { struct clock of[VICTIMS]; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct clocks);
} rq_clocks SEC(".maps");

/* What a CPU knows of one victim. */
struct mark {
	/* When it turned to the task that it runs: requests begun, the clock, the count of sends. */
	__u64 begun;
	__u64 turned_ran;
	__u64 turned_sends;
	/* Whose requests go on, as one more than a row, and what was said when the first of them began;
	 * of nobody's if it is 0. */
	__u64 whose;
	__u64 ran;
	__u64 sends;
};

static __always_inline struct clocks *clocks_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&rq_clocks, &zero);
}

static __always_inline __u64 ran_until(struct clock *clock, __u64 now)
{
	return clock->count * now - clock->since;
}

/* One more CPU runs the victim's tasks from now on, or (`more` is -1) one less. */
static __always_inline void wind(struct clocks *clocks, __u32 victim, __u64 now, __s64 more)
{
	struct clock *clock = &clocks->of[victim & (VICTIMS - 1)];

	__sync_fetch_and_add(&clock->since, more * now);
	__sync_fetch_and_add(&clock->count, more);
}

/* A request of the victim begins. */
static __always_inline void begin_request(struct clock *clock, __u64 now)
{
	__u64 number = __sync_fetch_and_add(&clock->begun, 1) + 1;
	struct request *request = &clock->requests[number & (BEGINS - 1)];

	request->ran = ran_until(clock, now);
	request->sends = clock->sends;
	/* Until here the number is an old one, and nobody takes it for this request. */
	__sync_lock_test_and_set(&request->number, number);
}

/* A task of the victim comes to run: a request begins if nothing was done for it yet. */
static __always_inline void may_begin_request(struct clocks *clocks, __u32 victim, __u64 now)
{
	struct clock *clock = &clocks->of[victim & (VICTIMS - 1)];
	struct request *last = &clock->requests[clock->begun & (BEGINS - 1)];

	if (ran_until(clock, now) - last->ran < TAIL_NS)
		begin_request(clock, now);
}

/* Sets what was said when the first request began since this CPU turned to who leaves it now. */
static __always_inline void first_request(struct clock *clock, struct mark *mark, __u64 *ran,
					  __u64 *sends)
{
	__u64 number = mark->begun + 1;
	struct request *first = &clock->requests[number & (BEGINS - 1)];

	*ran = mark->turned_ran;
	*sends = mark->turned_sends;
	if (clock->begun - mark->begun <= BEGINS / 2 && first->number == number) {
		*ran = first->ran;
		*sends = first->sends;
	}
}
