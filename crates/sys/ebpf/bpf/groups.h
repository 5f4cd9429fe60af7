/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Which tracked cgroup a task belongs to: what the programs on the scheduler share.
 */
#pragma once
#include "bpf.h"

#define MAX_GROUPS 64 /* the loader asks for as many as it wants */
#define MAX_DEPTH 16
#define UNTRACKED 0xffffffff
#define ENUM_VALUE 1 /* ask CO-RE for the value, not for its existence */

struct kernfs_node { __u64 id; } CORE;
struct cgroup;
struct cgroup_subsys_state { struct cgroup *cgroup; struct cgroup_subsys_state *parent; } CORE;
struct cgroup { struct cgroup_subsys_state self; struct kernfs_node *kn; } CORE;
struct css_set { struct cgroup_subsys_state *subsys[1]; struct cgroup *dfl_cgrp; } CORE;
struct sched_info { unsigned long pcount; unsigned long long run_delay; } CORE;
struct thread_info { __u32 cpu; } CORE;
struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	int pid;
	int nr_cpus_allowed;
	int on_cpu;
	int on_rq;
	struct css_set *cgroups;
	struct sched_info sched_info;
} CORE;
enum cgroup_subsys_id { cpuset_cgrp_id, cpu_cgrp_id };

/* Whether the ids are those of the v1 cpu hierarchy; else those of v2. */
const volatile __u32 v1_cpu = 0;

struct config {
	__u32 generation; /* changes with the tracked groups: older answers are void */
	__u32 groups;     /* how many are tracked */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct config);
} rq_config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_GROUPS);
	__type(key, __u64);
	__type(value, __u32);
} rq_groups SEC(".maps");

static __always_inline struct cgroup *cgroup_of(struct task_struct *task)
{
	struct css_set *set = task->cgroups;

	if (v1_cpu)
		return set->subsys[__builtin_preserve_enum_value(
			*(typeof(enum cgroup_subsys_id) *)cpu_cgrp_id, ENUM_VALUE)]->cgroup;
	return set->dfl_cgrp;
}

/* What is kept of the nearest tracked group at or above `group`. */
static __always_inline __u32 find_slot(struct cgroup *group)
{
	for (int depth = 0; depth < MAX_DEPTH; depth++) {
		__u64 id = group->kn->id;
		__u32 *slot = bpf_map_lookup_elem(&rq_groups, &id);
		struct cgroup_subsys_state *parent;

		if (slot)
			return *slot;
		parent = group->self.parent;
		if (!parent)
			break;
		group = parent->cgroup;
	}
	return UNTRACKED;
}
