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
 * A service that wakes answers all that has come for it, and to wake, to look what has come, and to find its caches
 * cold is dear: of fifty answers in a row the first costs several times as much as the others. Beside whom a request
 * begins that is the first is not by chance: it is he who has the other CPU while the victim sleeps. So what is put down
 * as a whole is a *stretch*, all that is done from one waking to the next, and its cost is that of all its answers. A
 * victim that never sleeps begins one with an answer that is a while after the first of the last one.
 *
 * A stretch begins when a task of the victim that has slept comes to run and next to nothing was done since the last
 * answer: else it goes on with a request that it waited in. What the clock said then is kept in a ring for the latest of
 * them. A CPU that turns looks up the first stretch that began since it turned before: until there all goes to whom it
 * had earlier, and from there on to who leaves now. Nothing is written but the CPU that turns, and the
 * ring by who begins.
 */
#pragma once
#include "bpf.h"

/* Stretches whose begin is known, a power of 2. More in one turn: its ends hardly matter. */
#define BEGINS 64
/* What a victim does after it has sent is the end of that, as long as it takes less. */
#define TAIL_NS 30000
/* Who does not sleep begins another stretch with an answer that is so much after the first of this one. */
#define STRETCH_NS 1000000

/* What a victim's clock and count said when its stretch of this number began. */
struct stretch {
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
	__u64 sent_ran; /* what it said at the last of these */
	__u64 first_sent_ran; /* at the first of this stretch */
	__u64 begun; /* stretches */
	struct stretch stretches[BEGINS];
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
	/* When it turned to the task that it runs: stretches begun, the clock, the count of sends. */
	__u64 begun;
	__u64 turned_ran;
	__u64 turned_sends;
	/* Whose stretches go on, as one more than a row, and what was said when the first of them began;
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

/* A stretch of the victim begins. */
static __always_inline void begin_stretch(struct clock *clock, __u64 ran)
{
	__u64 number = __sync_fetch_and_add(&clock->begun, 1) + 1;
	struct stretch *stretch = &clock->stretches[number & (BEGINS - 1)];

	stretch->ran = ran;
	stretch->sends = clock->sends;
	/* Until here the number is an old one, and nobody takes it for this stretch. */
	__sync_lock_test_and_set(&stretch->number, number);
}

/* A task of the victim has sent something. */
static __always_inline void count_send(struct clock *clock, __u64 now)
{
	struct stretch *last = &clock->stretches[clock->begun & (BEGINS - 1)];
	__u64 ran = ran_until(clock, now);

	if (clock->sends == last->sends)
		clock->first_sent_ran = ran;
	__sync_fetch_and_add(&clock->sends, 1);
	clock->sent_ran = ran;
	if (ran - clock->first_sent_ran >= STRETCH_NS)
		begin_stretch(clock, ran);
}

/* A task of the victim that has slept comes to run. */
static __always_inline void woke(struct clocks *clocks, __u32 victim, __u64 now)
{
	struct clock *clock = &clocks->of[victim & (VICTIMS - 1)];
	__u64 ran = ran_until(clock, now);

	if (ran - clock->sent_ran < TAIL_NS)
		begin_stretch(clock, ran);
}

/* Sets what was said when the first stretch began since this CPU turned to who leaves it now. */
static __always_inline void first_stretch(struct clock *clock, struct mark *mark, __u64 *ran,
					  __u64 *sends)
{
	__u64 number = mark->begun + 1;
	struct stretch *first = &clock->stretches[number & (BEGINS - 1)];

	*ran = mark->turned_ran;
	*sends = mark->turned_sends;
	if (clock->begun - mark->begun <= BEGINS / 2 && first->number == number) {
		*ran = first->ran;
		*sends = first->sends;
	}
}
