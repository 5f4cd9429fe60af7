/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* For the tests only: gives the slot of the number in the first eight bytes of a packet. */
#include "histogram.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("classifier") int slot_test(struct __sk_buff *skb)
{
	__u64 value = 0;

	if (bpf_skb_load_bytes(skb, 14, &value, sizeof(value)))
		return -1;
	return slot_of(value);
}
