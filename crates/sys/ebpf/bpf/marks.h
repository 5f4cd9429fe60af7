/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Pods: a packet loses its socket and priority when it crosses a veth pair, but keeps a mark
 * that is set behind it. So the host's end of a pod's veth is marked on ingress, and the NIC
 * turns the mark into the HTB class on egress. A mark is a tag and the index of a class, so
 * that the marks of others are left alone.
 */
#pragma once
#include "bpf.h"

#define MARK_TAG 0x51550000
#define MARK_CLASSES 256
#define TCX_NEXT (-1)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32); /* ifindex */
	__type(value, __u32);
} veth_marks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MARK_CLASSES);
	__type(key, __u32);
	__type(value, __u32);
} mark_classes SEC(".maps");

SEC("classifier") int quell_veth(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;
	__u32 *mark = bpf_map_lookup_elem(&veth_marks, &ifindex);

	if (mark && !skb->mark)
		skb->mark = MARK_TAG | *mark;
	return TCX_NEXT;
}

SEC("classifier") int quell_nic(struct __sk_buff *skb)
{
	__u32 mark = skb->mark, index = mark & (MARK_CLASSES - 1), *classid;

	if ((mark & ~(MARK_CLASSES - 1)) != MARK_TAG)
		return TCX_NEXT;
	classid = bpf_map_lookup_elem(&mark_classes, &index);
	if (classid && *classid)
		skb->priority = *classid;
	skb->mark = 0;
	return TCX_NEXT;
}
