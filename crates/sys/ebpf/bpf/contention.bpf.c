/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Behind whom the tasks of a few watched cgroups (the victims) stand.
 *
 * A task that could run and does not stands in the queue of one CPU, and there another task runs.
 * For each CPU and victim it is kept how many of its tasks stand there, and the sum of the moments
 * since which they do. When the CPU turns to another task, what they stood since it turned to the
 * last one, count * now - sum, is put down to the group of the task that leaves. Whoever stops
 * standing in between takes its moment out of the sum, so its part is in the difference all the
 * same: no task is looked at but the two that change places.
 *
 * A task begins to stand when it is woken, when it is put off the CPU while it could go on, and
 * when it is moved to another queue. It stops when it gets the CPU, and when it is moved away.
 *
 * All that changes a CPU's counts holds that CPU's queue lock, but for moving a task there. So
 * counts are changed by atomic additions; a difference that cannot be (read between the two
 * additions of a move) is dropped and the sum set right. A CPU that goes idle has nobody standing:
 * its counts begin a new turn, and a task that was counted in an older one is not counted out.
 *
 * Who never sleeps may make a victim stand without ever having its CPU: it has another one, and those
 * whose CPU that could be are on the victim's. So while a victim's tasks stand behind somebody else, it
 * is counted too who has the other CPUs: whenever what was stood is put down, it is put down once more to
 * who has just one of the others, drawn by lot, so that it costs as much on many CPUs as on two. Tasks
 * that may not use all CPUs do not tell whether they could have had that one, so nothing is put down
 * while one of those stands.
 */
#include "bpf.h"
#include "groups.h"
#include "histogram.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define TASKS 65536
#define VICTIMS 8
/* Rows of blame: everybody who is not tracked, an idle CPU, then the slots. */
#define OTHERS 0
#define NOBODY 1
#define SLOT_0 2
/* A group's value in rq_groups: its slot below, one more than its number as a victim above. */
#define SLOT_BITS 16
#define SLOT_MASK 0xffff
/* Of a count: how many stand below, the turn above. */
#define COUNT_BITS 16
#define COUNT_MASK 0xffff
/* Moments are this late, so that one that is missing from a sum, or in it once too often, is far
 * greater than any true difference. */
#define BIAS (1ULL << 52)
#define MOST (1ULL << 40)

/* CPUs that are online, if they are the first ones; else 0, and nothing is told of others. */
const volatile __u32 online = 0;

#include "company.h"
#include "gauge.h"
#include "kept.h"
#include "passes.h"
#include "pauses.h"

struct task {
	__u64 cgroup;
	__u64 turn;     /* of the count that it is in */
	__u32 pid;
	__u32 generation;
	__u32 group;    /* as in rq_groups, or UNTRACKED */
	__u32 cpu;      /* on whose queue it stands, and 1; 0 if on none */
	__u32 victim;   /* for which it is counted there */
	__u32 narrow;   /* 1 if it stands and may not use all CPUs */
	__u32 slept;    /* 1 if it left its CPU of itself, and has not come back */
};

struct line {
	__u64 count;
	__u64 since;
	__u64 narrow; /* of those who stand, how many may not use all CPUs */
};

struct cpu {
	__u32 pid; /* of the task that runs */
	__u32 runs; /* one more than the number of the victim that it belongs to */
	__u64 gauged; /* when a sample was taken here last */
	__u64 ticked; /* when its timer came last; 0 if it was idle since */
	__u32 far; /* the line of memory that it read last */
	struct keeper keeper;
	struct line lines[VICTIMS];
	struct mark marks[VICTIMS];
};

/* Of one group on one CPU, by victim. */
struct blame {
	__u64 ns[VICTIMS];        /* stood behind it */
	__u64 beside_ns[VICTIMS]; /* ran elsewhere in stretches that began while it ran here */
	__u64 sends[VICTIMS];     /* of these */
	__u64 elsewhere_ns[VICTIMS]; /* stood behind others while it ran on the CPU that was drawn */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TASKS);
	__type(key, __u32);
	__type(value, struct task);
} rq_tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the loader asks for as many as there are CPUs */
	__type(key, __u32);
	__type(value, struct cpu);
} rq_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_GROUPS + SLOT_0); /* the loader asks for as many as it wants */
	__type(key, __u32);
	__type(value, struct blame);
} rq_blame SEC(".maps");

static __always_inline __u64 clock(void)
{
	return bpf_ktime_get_ns() + BIAS;
}

/* A task begins to stand on a CPU. */
static __always_inline void begin(struct task *task, struct cpu *cpu, __u32 number, __u32 victim,
				  __u32 narrow, __u64 now)
{
	struct line *line = &cpu->lines[victim & (VICTIMS - 1)];

	if (narrow)
		__sync_fetch_and_add(&line->narrow, 1);
	task->narrow = narrow;
	__sync_fetch_and_add(&line->since, now);
	task->turn = __sync_fetch_and_add(&line->count, 1) >> COUNT_BITS;
	task->victim = victim;
	task->cpu = number + 1;
}

/* It stops, wherever it stands. */
static __always_inline void end(struct task *task, __u64 now)
{
	__u32 number = task->cpu - 1;
	struct cpu *cpu = bpf_map_lookup_elem(&rq_cpus, &number);
	struct line *line;

	task->cpu = 0;
	if (!cpu)
		return;
	line = &cpu->lines[task->victim & (VICTIMS - 1)];
	if (line->count >> COUNT_BITS != task->turn || !(line->count & COUNT_MASK))
		return;
	if (task->narrow && line->narrow)
		__sync_fetch_and_add(&line->narrow, -1);
	__sync_fetch_and_add(&line->since, -now);
	__sync_fetch_and_add(&line->count, -1);
}

/* Whether a task may not use all CPUs. */
static __always_inline __u32 is_narrow(struct task_struct *of)
{
	return (__u32)of->nr_cpus_allowed < online;
}

/* Nobody stands here any more. */
static __always_inline void wipe(struct cpu *cpu)
{
	for (int i = 0; i < VICTIMS; i++) {
		struct line *line = &cpu->lines[i];

		if (line->count & COUNT_MASK)
			line->count = ((line->count >> COUNT_BITS) + 1) << COUNT_BITS;
		line->since = 0;
		line->narrow = 0;
	}
}

/* The entry of a task; one that belonged to another task is taken over. */
static __always_inline struct task *entry_of(struct task_struct *of, struct config *config)
{
	__u32 pid = of->pid, at = pid & (TASKS - 1);
	struct task *task = bpf_map_lookup_elem(&rq_tasks, &at);
	struct cgroup *group;
	__u64 id;

	if (!task)
		return 0;
	if (task->pid != pid && task->cpu)
		end(task, clock());
	group = cgroup_of(of);
	id = group->kn->id;
	if (task->pid != pid || task->cgroup != id || task->generation != config->generation) {
		task->pid = pid;
		task->cgroup = id;
		task->generation = config->generation;
		task->group = find_slot(group);
	}
	return task;
}

/* One more than the number of a task's group as a victim; 0 if it is none. */
static __always_inline __u32 victim_of(struct task *task)
{
	return task->group == UNTRACKED ? 0 : task->group >> SLOT_BITS;
}

/* The row of a group, as kept of its tasks. */
static __always_inline __u32 row_of(struct task *task)
{
	return !task || task->group == UNTRACKED ? OTHERS : (task->group & SLOT_MASK) + SLOT_0;
}

/* The row of who has a CPU. */
static __always_inline __u32 row_on(__u32 number)
{
	struct cpu *cpu = bpf_map_lookup_elem(&rq_cpus, &number);
	struct task *task;
	__u32 at;

	if (!cpu || !cpu->pid)
		return NOBODY;
	at = cpu->pid & (TASKS - 1);
	task = bpf_map_lookup_elem(&rq_tasks, &at);
	return task && task->pid == cpu->pid ? row_of(task) : OTHERS;
}

/* One of the other CPUs, drawn by lot. */
static __always_inline __u32 another(__u32 number)
{
	__u32 other = number + 1;

	if (online > 2)
		other += bpf_get_prandom_u32() % (online - 1);
	return other >= online ? other - online : other;
}

/* The row of who has one of the other CPUs, drawn by lot. */
static __always_inline struct blame *elsewhere(__u32 number)
{
	__u32 row = row_on(another(number));

	return bpf_map_lookup_elem(&rq_blame, &row);
}

/* Takes a sample on this CPU. */
static __always_inline int take_sample(struct cpu *cpu, __u32 number, struct sample *sample)
{
	struct lines *lines = bpf_map_lookup_elem(&rq_lines, &number);
	__u64 from, read, again, done, at;

	if (!lines)
		return 0;
	from = bpf_ktime_get_ns();
	cpu->far = read_far(cpu->far);
	sample->took = eighths_of(bpf_ktime_get_ns() - from);
	at = read_lines(lines, 0, 0);
	read = bpf_ktime_get_ns();
	at = read_lines(lines, at & (REACH - APART), 0);
	again = bpf_ktime_get_ns();
	multiply((again + at) | 1);
	done = bpf_ktime_get_ns();
	sample->slot = slot_of_ratio(again - read, done - again);
	sample->number = done;
	return 1;
}

/* Puts a sample down to who has that CPU. A global function, as the next one: the verifier looks at such a one
 * once, whatever is known where it is called. In a loop over CPUs, of which each may be in four states, it would
 * else give up where there are more than a few. */
__noinline int put_down_on(__u32 other, __u64 number, __u32 slot, __u32 took)
{
	struct sample sample = { .number = number, .slot = slot, .took = took };
	__u32 row = row_on(other);

	if (row != NOBODY)
		put_down(row, &sample);
	return 0;
}

/* Puts a sample of this CPU down to those who have other CPUs, from one on that is drawn by lot. */
__noinline int put_down_beside(__u32 cpu, __u64 number, __u32 slot, __u32 took)
{
	struct sample sample = { .number = number, .slot = slot, .took = took };
	__u32 first = bpf_get_prandom_u32(), others = online - 1;

	put_down(NOBODY, &sample);
	for (__u32 i = 0; i < LOOKED_AT && i < others; i++) {
		__u32 other = (first + i) % others;

		put_down_on(other + (other >= cpu), number, slot, took);
	}
	return 0;
}

/* A sample, if the last one here is long enough ago, for those who have other CPUs. */
static __always_inline void gauge(struct cpu *cpu, __u32 number, __u64 now)
{
	struct sample sample;

	if (!gauge_ns || online < 2 || now - cpu->gauged < gauge_ns)
		return;
	/* CPUs read in one order: none shall come right after another. */
	if (!cpu->gauged)
		cpu->far = number * 7919;
	cpu->gauged = now;
	read_passed(another(number), now);
	write_passed(number, now);
	if (take_sample(cpu, number, &sample))
		put_down_beside(number, sample.number, sample.slot, sample.took);
}

/* What the task of this row, which has had this CPU, left of lines that were read in its turn. */
static __always_inline void judge_kept(struct cpu *cpu, __u32 number, __u32 row, __u64 now)
{
	struct sample sample;

	if (!read_kept(&cpu->keeper, number, now, &sample))
		return;
	put_down(NOBODY, &sample);
	put_down(row, &sample);
}

/* Puts what was stood here down to the row of who ran, and that behind `others` of who ran elsewhere. */
static __always_inline void charge(struct cpu *cpu, struct blame *blame, __u32 number,
				   __u32 others, __u64 now)
{
	struct blame *drawn = 0;

	for (int i = 0; i < VICTIMS; i++) {
		struct line *line = &cpu->lines[i];
		__u64 stood = (line->count & COUNT_MASK) * now - line->since;

		if (!stood)
			continue;
		__sync_fetch_and_add(&line->since, stood);
		if (stood >= MOST)
			continue;
		blame->ns[i] += stood;
		if (!others || cpu->runs == i + 1 || line->narrow)
			continue;
		if (!drawn)
			drawn = elsewhere(number);
		if (drawn)
			drawn->elsewhere_ns[i] += stood;
	}
}

/* Puts what a victim did elsewhere down to whose stretches went on here until one began beside who
 * leaves now, whose row this is. What runs here itself is beside nobody here. */
static __always_inline void accompany_one(struct clock *clock, struct mark *mark, __u32 victim,
					  __u64 row)
{
	__u64 ran, sends, more;
	__u32 whose = mark->whose - 1;
	struct blame *blame;

	if (clock->begun == mark->begun)
		return;
	first_stretch(clock, mark, &ran, &sends);
	more = ran - mark->ran;
	blame = mark->whose ? bpf_map_lookup_elem(&rq_blame, &whose) : 0;
	if (blame && more < MOST) {
		blame->beside_ns[victim & (VICTIMS - 1)] += more;
		blame->sends[victim & (VICTIMS - 1)] += sends - mark->sends;
	}
	mark->whose = row;
	mark->ran = ran;
	mark->sends = sends;
}

/* The same for all victims, where this CPU turns from who has this row. */
static __always_inline void accompany(struct cpu *cpu, __u32 row, struct clocks *clocks, __u64 now)
{
	for (int i = 0; i < VICTIMS; i++) {
		struct clock *clock = &clocks->of[i];
		struct mark *mark = &cpu->marks[i];

		accompany_one(clock, mark, i, cpu->runs == i + 1 ? 0 : row + 1);
		mark->begun = clock->begun;
		mark->turned_ran = ran_until(clock, now);
		mark->turned_sends = clock->sends;
	}
}

/* This CPU turns to a task of the victim of this number, less one; of none if it is 0. */
static __always_inline void turn(struct cpu *cpu, struct clocks *clocks, __u32 victim, __u64 now)
{
	if (cpu->runs == victim)
		return;
	if (cpu->runs)
		wind(clocks, cpu->runs - 1, now, -1);
	cpu->runs = victim;
	if (victim)
		wind(clocks, victim - 1, now, 1);
}

static __always_inline struct config *config_here(void)
{
	__u32 zero = 0;
	struct config *config = bpf_map_lookup_elem(&rq_config, &zero);

	return config && config->groups ? config : 0;
}

SEC("tp_btf/sched_switch") int quell_wait_run(__u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1];
	struct task_struct *next = (struct task_struct *)ctx[2];
	struct config *config = config_here();
	__u32 number = bpf_get_smp_processor_id(), row = NOBODY, at = next->pid & (TASKS - 1);
	struct cpu *cpu = bpf_map_lookup_elem(&rq_cpus, &number);
	struct clocks *clocks = clocks_here();
	struct blame *blame;
	struct task *task = 0;
	__u64 now;

	if (!config || !cpu || !clocks)
		return 0;
	now = clock();
	gauge(cpu, number, now);
	if (prev->pid) {
		task = entry_of(prev, config);
		row = row_of(task);
	}
	blame = bpf_map_lookup_elem(&rq_blame, &row);
	if (!blame)
		return 0; /* never: there is a row for each slot */
	if (row != NOBODY)
		judge_kept(cpu, number, row, now);
	stop_keeping(&cpu->keeper, now);
	charge(cpu, blame, number, online > 1 && row != NOBODY, now);
	accompany(cpu, row, clocks, now);
	if (task && victim_of(task)) {
		task->slept = !(ctx[0] & 0xff) && prev->__state;
		if (!task->slept && !task->cpu)
			begin(task, cpu, number, victim_of(task) - 1, is_narrow(prev), now);
	}
	cpu->pid = next->pid;
	if (!next->pid) {
		cpu->ticked = 0;
		turn(cpu, clocks, 0, now);
		wipe(cpu);
		return 0;
	}
	task = bpf_map_lookup_elem(&rq_tasks, &at);
	if (task && task->pid != next->pid)
		task = 0;
	turn(cpu, clocks, task ? victim_of(task) : 0, now);
	if (task && victim_of(task) && task->slept) {
		task->slept = 0;
		woke(clocks, victim_of(task) - 1, now);
	}
	if (task && task->cpu)
		end(task, now);
	keep(&cpu->keeper, number, 0, now);
	return 0;
}

/* A CPU's timer, its tick for one: who does not leave the CPU is seen here. */
SEC("tp_btf/local_timer_entry") int quell_wait_tick(__u64 *ctx)
{
	struct config *config = config_here();
	__u32 number = bpf_get_smp_processor_id();
	struct cpu *cpu = bpf_map_lookup_elem(&rq_cpus, &number);
	__u64 now;

	if (!config || !cpu || !cpu->pid)
		return 0;
	now = clock();
	see_pause(cpu->ticked, now);
	cpu->ticked = now;
	judge_kept(cpu, number, row_on(number), now);
	keep(&cpu->keeper, number, 1, now);
	return 0;
}

/* A task was woken. It may be running still: then it had not yet gone to sleep. */
static __always_inline int woken(struct task_struct *of)
{
	struct config *config = config_here();
	__u32 number = of->thread_info.cpu;
	struct cpu *cpu = bpf_map_lookup_elem(&rq_cpus, &number);
	struct task *task;

	if (!config || !cpu || cpu->pid == of->pid)
		return 0;
	task = entry_of(of, config);
	if (!task || !victim_of(task))
		return 0;
	if (task->cpu)
		end(task, clock());
	begin(task, cpu, number, victim_of(task) - 1, is_narrow(of), clock());
	return 0;
}

SEC("tp_btf/sched_wakeup") int quell_wait_wake(__u64 *ctx)
{
	return woken((struct task_struct *)ctx[0]);
}

SEC("tp_btf/sched_wakeup_new") int quell_wait_new(__u64 *ctx)
{
	return woken((struct task_struct *)ctx[0]);
}

SEC("tp_btf/sched_migrate_task") int quell_wait_move(__u64 *ctx)
{
	struct task_struct *of = (struct task_struct *)ctx[0];
	__u32 number = ctx[1], pid = of->pid, at = pid & (TASKS - 1);
	struct task *task = bpf_map_lookup_elem(&rq_tasks, &at);
	struct cpu *cpu = bpf_map_lookup_elem(&rq_cpus, &number);
	__u64 now;

	if (!task || task->pid != pid || !task->cpu)
		return 0;
	now = clock();
	end(task, now);
	if (cpu)
		begin(task, cpu, number, task->victim, is_narrow(of), now);
	return 0;
}

/* Whether a task could run and does not. */
static __always_inline int stands(struct task_struct *of)
{
	return !of->__state && of->on_rq && !of->on_cpu;
}

/* Each task, once (ctx: struct bpf_iter__task). Who stood already when its group began to be watched is woken by
 * nobody: as long as others starve it, nothing else here would ever see it. */
SEC("iter/task") int quell_wait_begun(__u64 *ctx)
{
	struct task_struct *of = (struct task_struct *)ctx[1];
	struct config *config = config_here();
	struct cpu *cpu;
	struct task *task;
	__u32 number;

	if (!of || !config || !stands(of))
		return 0;
	number = of->thread_info.cpu;
	cpu = bpf_map_lookup_elem(&rq_cpus, &number);
	task = entry_of(of, config);
	if (!cpu || !task || !victim_of(task) || task->cpu)
		return 0;
	begin(task, cpu, number, victim_of(task) - 1, is_narrow(of), clock());
	/* It may have had its turn in between, before it could be counted out. */
	if (!stands(of) && task->cpu)
		end(task, clock());
	return 0;
}

/* The task that runs here has sent something. */
static __always_inline int sent(void)
{
	__u32 pid = (__u32)bpf_get_current_pid_tgid(), at = pid & (TASKS - 1), victim;
	struct task *task = bpf_map_lookup_elem(&rq_tasks, &at);
	struct clocks *clocks = clocks_here();
	struct clock *of;

	if (!task || task->pid != pid || !clocks)
		return 0;
	victim = victim_of(task);
	if (!victim)
		return 0;
	of = &clocks->of[(victim - 1) & (VICTIMS - 1)];
	count_send(of, clock());
	return 0;
}

/* Since Linux 6.3: on any socket, so many bytes or an error. */
SEC("tp_btf/sock_send_length") int quell_wait_send(__u64 *ctx)
{
	return (__s32)ctx[1] > 0 ? sent() : 0;
}

/* Before: on TCP. */
SEC("fentry/tcp_sendmsg") int quell_wait_tcp(__u64 *ctx)
{
	return sent();
}
