/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Bytes that cgroups send, and the HTB class of their packets. */
#pragma once
#include "packets.h"
#include "segment.h"

#define LOOPBACK_IFINDEX 1

/* The nearest entry of `groups` at or above the packet's cgroup, kept for the next packet. */
static __noinline int find_group(struct __sk_buff *skb, __u64 id, __u32 generation)
{
	struct group found, *group;

	found.generation = generation;
	found.slot = NO_SLOT;
	found.classid = 0;
	found.pad = 0;
	for (int level = 0; level < MAX_DEPTH; level++) {
		__u64 ancestor = bpf_skb_ancestor_cgroup_id(skb, level);

		if (!ancestor)
			break;
		group = bpf_map_lookup_elem(&groups, &ancestor);
		if (!group)
			continue;
		if (group->slot != NO_SLOT)
			found.slot = group->slot;
		if (group->classid)
			found.classid = group->classid;
	}
	bpf_map_update_elem(&group_cache, &id, &found, BPF_ANY);
	return 0;
}

/* Bytes on the wire above Ethernet: a super-packet is cut up and its headers are repeated. */
static __always_inline __u64 wire_bytes(struct __sk_buff *skb)
{
	__u32 segments = skb->gso_segs;
	struct segment segment;

	if (segments < 2 || !parse(skb, &segment))
		return skb->len;
	return skb->len + (__u64)(segments - 1) * segment.payload;
}

/* The same for one packet; none only if it could not be kept. */
static __always_inline struct group *group_of(struct __sk_buff *skb, __u32 generation)
{
	__u64 id = bpf_skb_cgroup_id(skb);
	struct group *group = bpf_map_lookup_elem(&group_cache, &id);

	if (group && group->generation == generation)
		return group;
	find_group(skb, id, generation);
	return bpf_map_lookup_elem(&group_cache, &id);
}

/* A socket that the meter knows remembers its group, which saves it the way through the cache. */
static __always_inline void account(struct __sk_buff *skb, struct config *config,
				    struct connection *connection)
{
	__u32 generation = config->group_generation, slot, classid;
	__u64 *bytes;

	if (connection && connection->group_generation == generation) {
		slot = connection->group_slot;
		classid = connection->classid;
	} else {
		struct group *group = group_of(skb, generation);

		if (!group)
			return;
		slot = group->slot;
		classid = group->classid;
		if (connection) {
			connection->group_slot = slot;
			connection->classid = classid;
			connection->group_generation = generation;
		}
	}
	if (classid)
		skb->priority = classid;
	if (slot == NO_SLOT || (skb->ifindex == LOOPBACK_IFINDEX && !config->count_loopback))
		return;
	bytes = bpf_map_lookup_elem(&group_bytes, &slot);
	if (bytes)
		__sync_fetch_and_add(bytes, wire_bytes(skb));
}
