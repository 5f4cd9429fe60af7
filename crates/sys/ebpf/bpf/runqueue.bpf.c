/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How long the tasks of tracked cgroups waited for a CPU.
 *
 * The scheduler itself keeps the sum of a task's waits (task_struct.sched_info.run_delay, the
 * second figure of /proc/PID/schedstat), moves between CPUs and preemptions included. When a
 * task leaves its CPU, the growth of that sum since it last left is the wait before this very
 * run. So one program on sched_switch is enough: no program on wake-ups, no clock to read, and
 * only the task that leaves is looked at.
 *
 * What was learnt of a task is kept in an array by the low bits of its pid. An entry that
 * belongs to another task is taken over and that one wait is not counted: two tasks that share
 * an entry lose waits, never give wrong ones.
 */
#include "bpf.h"
#include "groups.h"
#include "histogram.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define TASKS 65536

struct task {
	__u64 cgroup;
	__u64 run_delay;
	__u32 pid;
	__u32 generation;
	__u32 slot;
	__u32 arrivals;
};

struct waits { __u64 slots[SLOTS]; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TASKS);
	__type(key, __u32);
	__type(value, struct task);
} rq_tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_GROUPS);
	__type(key, __u32);
	__type(value, struct waits);
} rq_waits SEC(".maps");

static __always_inline void count_wait(__u32 slot, __u64 wait)
{
	struct waits *waits = bpf_map_lookup_elem(&rq_waits, &slot);
	__u64 at = slot_of(wait);

	if (waits && at < SLOTS)
		waits->slots[at]++;
}

SEC("tp_btf/sched_switch") int quell_switch(__u64 *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx[1];
	__u32 pid = prev->pid, zero = 0, at = pid & (TASKS - 1), arrivals;
	struct config *config = bpf_map_lookup_elem(&rq_config, &zero);
	struct task *task = bpf_map_lookup_elem(&rq_tasks, &at);
	struct cgroup *group;
	__u64 id, run_delay;
	int known;

	if (!pid || !config || !config->groups || !task)
		return 0;
	group = cgroup_of(prev);
	id = group->kn->id;
	known = task->pid == pid;
	if (!known || task->cgroup != id || task->generation != config->generation) {
		task->pid = pid;
		task->cgroup = id;
		task->generation = config->generation;
		task->slot = find_slot(group);
		if (!known)
			task->arrivals = 0;
	}
	if (task->slot == UNTRACKED)
		return 0;
	arrivals = prev->sched_info.pcount;
	run_delay = prev->sched_info.run_delay;
	if (arrivals == 1 && task->arrivals != 1)
		count_wait(task->slot, run_delay);
	else if (known && arrivals == task->arrivals + 1)
		count_wait(task->slot, run_delay - task->run_delay);
	task->arrivals = arrivals;
	task->run_delay = run_delay;
	return 0;
}
