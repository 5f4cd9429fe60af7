/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the programs need of the kernel's BPF interface, and nothing else: so that building them
 * takes clang alone, and the objects do not depend on the version of any installed header.
 * Numbers and layouts are user-space ABI (include/uapi/linux/bpf.h).
 */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;

#define SEC(name) __attribute__((section(name), used))
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define CORE __attribute__((preserve_access_index))

/* Map definitions are read from BTF: numbers travel as array lengths. */
#define __uint(name, value) int(*name)[value]
#define __type(name, value) typeof(value) *name

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_SK_STORAGE = 24,
};
enum { BPF_ANY = 0 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_CLONE = 1 << 9 };
enum { BPF_SK_STORAGE_GET_F_CREATE = 1 };

struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
	__u32 mark;
	__u32 priority;
	__u32 src_ip4;    /* network order */
	__u32 src_ip6[4]; /* network order */
	__u32 src_port;   /* host order */
};

struct bpf_tcp_sock {
	__u32 snd_cwnd;
	__u32 srtt_us;
	__u32 rtt_min;
	__u32 snd_ssthresh;
	__u32 rcv_nxt;
};

struct __sk_buff {
	__u32 len;
	__u32 pkt_type;
	__u32 mark;
	__u32 queue_mapping;
	__u32 protocol;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 vlan_proto;
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 tc_index;
	__u32 cb[5];
	__u32 hash;
	__u32 tc_classid;
	__u32 data;
	__u32 data_end;
	__u32 napi_id;
	__u32 family;
	__u32 remote_ip4;
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 data_meta;
	union { void *flow_keys; __u64 : 64; } __attribute__((aligned(8)));
	__u64 tstamp;
	__u32 wire_len;
	__u32 gso_segs;
	union { struct bpf_sock *sk; __u64 : 64; } __attribute__((aligned(8)));
};

struct tcp_sock;

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value,
					 __u64 flags) = (void *)2;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static __u32 (*const bpf_get_prandom_u32)(void) = (void *)7;
static __u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static __u64 (*const bpf_get_current_pid_tgid)(void) = (void *)14;
static long (*const bpf_skb_load_bytes)(const void *skb, __u32 offset, void *to,
					__u32 len) = (void *)26;
static __u64 (*const bpf_skb_cgroup_id)(struct __sk_buff *skb) = (void *)79;
static __u64 (*const bpf_skb_ancestor_cgroup_id)(struct __sk_buff *skb, int level) = (void *)83;
static struct bpf_tcp_sock *(*const bpf_tcp_sock)(struct bpf_sock *sk) = (void *)96;
static void *(*const bpf_sk_storage_get)(void *map, void *sk, void *value,
					 __u64 flags) = (void *)107;
static struct tcp_sock *(*const bpf_skc_to_tcp_sock)(void *sk) = (void *)137;

/* Makes the compiler forget what it knows of a variable. */
#define barrier_var(v) asm volatile("" : "+r"(v))

#define bpf_ntohs(x) __builtin_bswap16(x)
#define bpf_htons(x) __builtin_bswap16(x)
#define bpf_ntohl(x) __builtin_bswap32(x)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the objects are little-endian");
