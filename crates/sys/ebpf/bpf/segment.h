/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* TCP packets as the meter sees them. */
#pragma once
#include "bpf.h"

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define IPPROTO_HOPOPTS 0
#define IPPROTO_TCP 6

#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

struct tcp_header {
	__u16 source, dest;
	__u32 seq, ack;
	__u8 offset, flags;
	__u16 window;
};

/* What matters of a TCP packet, in host order. */
struct segment {
	__u32 seq, ack;
	__u32 payload; /* where it begins */
	__s32 length;  /* of the payload */
	__u8 flags;
};

/* False if it is no TCP packet. Its length is skb->len: with BIG TCP that in the header is 0. */
static __always_inline int parse(struct __sk_buff *skb, struct segment *segment)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct tcp_header *tcp;
	__u8 *ip = data;
	__u32 header;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (data + 20 > end || ip[9] != IPPROTO_TCP)
			return 0;
		header = (ip[0] & 15) * 4;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (data + 48 > end)
			return 0;
		/* BIG TCP puts its length into a hop-by-hop option of eight bytes. */
		header = ip[6] == IPPROTO_HOPOPTS && !ip[41] ? 48 : 40;
		if ((header == 48 ? ip[40] : ip[6]) != IPPROTO_TCP)
			return 0;
	} else {
		return 0;
	}
	tcp = data + header;
	if ((void *)(tcp + 1) > end)
		return 0;
	segment->seq = bpf_ntohl(tcp->seq);
	segment->ack = bpf_ntohl(tcp->ack);
	segment->flags = tcp->flags;
	segment->payload = header + (tcp->offset >> 4) * 4;
	segment->length = (__s32)(skb->len - segment->payload);
	return 1;
}
