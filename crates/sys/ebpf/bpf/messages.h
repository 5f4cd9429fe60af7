/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Does one segment hold several requests? TCP does not tell, so a sample of the segments is
 * looked into: exactly for RESP arrays (redis) and memcached's binary protocol, by the return
 * of the first four bytes at the start of a line for protocols in text.
 */
#pragma once
#include "bpf.h"

#define SCAN_BYTES 256
#define MAX_ARGUMENTS 8
#define HTTP2_PREFACE 0x20495250 /* "PRI " */
#define MEMCACHED_REQUEST 0x80
#define MEMCACHED_HEADER 24

enum verdict { ONE_REQUEST, SEVERAL_REQUESTS, MULTIPLEXED };

struct scan { __u8 bytes[SCAN_BYTES]; };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scan);
} scans SEC(".maps");

/*
 * The decimal number at `at`, ended by CR LF: where the next line begins in the high half, the
 * number in the low half; 0 if there is none. A global function, so that the verifier looks at
 * it once and not once for every path that leads here.
 */
__noinline __u64 resp_number(struct __sk_buff *skb, __u32 at, __u32 end)
{
	__u8 text[8] = {};
	__u32 left = end - at, number = 0, digits = 0;

	if (at >= end || left < 3)
		return 0;
	if (left > sizeof(text))
		left = sizeof(text);
	if (bpf_skb_load_bytes(skb, at, text, left))
		return 0;
#pragma unroll
	for (int i = 0; i < 7; i++) {
		__u8 digit = text[i] - '0';

		if (digit > 9)
			break;
		number = number * 10 + digit;
		digits++;
	}
	return digits ? (__u64)(at + digits + 2) << 32 | number : 0;
}

/* Where the RESP array that begins at `at` ends; 0 if that cannot be told. */
static __always_inline __u32 resp_end(struct __sk_buff *skb, __u32 at, __u32 end)
{
	__u64 line = resp_number(skb, at + 1, end);
	__u32 arguments = (__u32)line;

	if (!line || arguments > MAX_ARGUMENTS)
		return 0;
	at = line >> 32;
	for (__u32 i = 0; i < MAX_ARGUMENTS; i++) {
		if (i >= arguments || at >= end)
			break;
		line = resp_number(skb, at + 1, end);
		if (!line)
			return 0;
		at = (line >> 32) + (__u32)line + 2;
	}
	return at;
}

/* Whether `head` comes again right after a line feed within `have` bytes. */
static __always_inline int head_returns(struct scan *scan, __u32 have)
{
	__u64 wanted = '\n', window = 0;
	__u32 hits = 0;

	for (int i = 0; i < 4; i++)
		wanted = wanted << 8 | scan->bytes[i];
	for (__u32 i = 0; i < SCAN_BYTES; i++) {
		if (i >= have)
			break;
		window = (window << 8 | scan->bytes[i]) & 0xffffffffff;
		hits |= window == wanted;
	}
	return hits;
}

/* The first four bytes in the low half, the verdict in the high half. */
__noinline __u64 look_into(struct __sk_buff *skb, __u32 at, __u32 length)
{
	__u32 zero = 0, end = at + length, head;
	__u64 have = length;
	struct scan *scan = bpf_map_lookup_elem(&scans, &zero);
	enum verdict verdict = ONE_REQUEST;

	if (!scan)
		return 0;
	if (have > SCAN_BYTES)
		have = SCAN_BYTES;
	/* Once more behind the compiler's back: older verifiers lose sight of the bounds. */
	barrier_var(have);
	if (have < 4 || have > SCAN_BYTES || bpf_skb_load_bytes(skb, at, scan->bytes, have))
		return 0;
	head = scan->bytes[0] | scan->bytes[1] << 8 | scan->bytes[2] << 16 |
	       (__u32)scan->bytes[3] << 24;
	if (head == HTTP2_PREFACE) {
		verdict = MULTIPLEXED;
	} else if (scan->bytes[0] == '*') {
		__u32 first = resp_end(skb, at, end);

		if (first ? first < end : head_returns(scan, have))
			verdict = SEVERAL_REQUESTS;
	} else if (scan->bytes[0] == MEMCACHED_REQUEST) {
		__u32 body = (__u32)scan->bytes[8] << 24 | scan->bytes[9] << 16 |
			     scan->bytes[10] << 8 | scan->bytes[11];

		if (have >= MEMCACHED_HEADER && length > MEMCACHED_HEADER + body)
			verdict = SEVERAL_REQUESTS;
	} else if (head_returns(scan, have)) {
		verdict = SEVERAL_REQUESTS;
	}
	return (__u64)verdict << 32 | head;
}

/* Heads of one protocol look alike; in RESP the digit behind '*' is the number of arguments. */
static __always_inline __u32 comparable(__u32 head)
{
	return (head & 0xff) == '*' ? head & 0xffff00ff : head;
}
