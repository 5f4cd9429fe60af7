/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The slots of quell_types::LogHistogram: eight to each power of two. A test runs this very
 * function in the kernel and compares it with the one in Rust.
 */
#pragma once
#include "bpf.h"

#define SUB_BITS 3
#define SUB_BUCKETS (1 << SUB_BITS)
#define SLOTS (SUB_BUCKETS * 36)

/* Position of the highest set bit; this instruction set has none of its own. */
static __always_inline __u32 highest_bit(__u64 value)
{
	__u32 bit = 0;

	if (value >> 32) { bit += 32; value >>= 32; }
	if (value >> 16) { bit += 16; value >>= 16; }
	if (value >> 8) { bit += 8; value >>= 8; }
	if (value >> 4) { bit += 4; value >>= 4; }
	if (value >> 2) { bit += 2; value >>= 2; }
	if (value >> 1) { bit += 1; }
	return bit;
}

/* A value in halves of powers of two: two slots to each. */
static __always_inline __u32 halves_of(__u64 value)
{
	__u32 bit = highest_bit(value);

	return bit ? 2 * bit + ((value >> (bit - 1)) & 1) : 0;
}

/* The caller shall check it against SLOTS: verifiers before Linux 6.3 do not see that it fits. */
static __always_inline __u64 slot_of(__u64 value)
{
	__u32 exponent = highest_bit(value);
	__u64 slot;

	if (exponent < SUB_BITS)
		slot = value & (SUB_BUCKETS - 1);
	else
		slot = (exponent - SUB_BITS + 1) * SUB_BUCKETS +
		       ((value >> (exponent - SUB_BITS)) & (SUB_BUCKETS - 1));
	if (slot >= SLOTS)
		slot = SLOTS - 1;
	barrier_var(slot);
	return slot;
}
