/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Maps and layouts that the packet programs share with src/abi.rs. */
#pragma once
#include "bpf.h"
#include "histogram.h"

#define MAX_SERVICES 16 /* the loader asks for as many as it wants, up to 255 */
#define MAX_GROUPS 64
#define MAX_LISTENERS 1024
#define MAX_DEPTH 16
#define NO_SLOT 0xffffffff

struct config {
	__u32 service_generation; /* changes with the services: sockets are asked anew */
	__u32 services;           /* how many are metered */
	__u32 cgroup_services;    /* how many of the keys are cgroups */
	__u32 group_generation;   /* changes with the groups */
	__u32 groups;             /* how many groups are accounted or marked */
	__u32 count_loopback;     /* whether bytes sent to this very machine count */
};

/* A listening address; port and netns 0 mean any, an unspecified address any of its family. */
struct listener {
	__u32 netns;
	__u32 port;
	__u32 address[4]; /* network order, IPv4 mapped into IPv6 */
};

/* What is remembered of a socket. Bytes of their own where both directions write. */
struct connection {
	__u64 last_in_ns;     /* arrival of the last payload of the request */
	__u32 in_end;         /* sequence number behind the last payload in */
	__u32 out_end;        /* the same of payload out */
	__u32 head;           /* first four bytes of a request that was looked into */
	__u32 generation;
	__u8 service;         /* index + 1; 0: not one of ours */
	__u8 seen_in;
	__u8 seen_out;
	__u8 waiting;         /* a request is not answered yet */
	__u8 untold;          /* requests cannot be told apart for now */
	__u8 multiplexed;     /* ... nor ever on this connection */
	__u8 unseen_requests; /* until the next one is looked into */
	__u8 pad;
	__u32 group_generation; /* of what follows; 0: not asked yet */
	__u32 group_slot;       /* as in struct group: a socket stays where it was born */
	__u32 classid;
};

/*
 * Of one service on one CPU. Requests answered = all slots + untold. The ingress program writes
 * the first part and the egress program the second: one may interrupt the other.
 */
struct service {
	__u64 bytes_in;
	__u64 segments_in;
	__u64 pieces;         /* payload in while a request waited */
	__u64 duplicates_in;
	__u64 batches;        /* segments found to hold several requests */
	__u64 overlaps;       /* requests sent before the last answer had arrived */
	__u64 multiplexed_in; /* segments on HTTP/2 connections */
	__u64 connections;
	__u64 bytes_out;
	__u64 segments_out;
	__u64 duplicates_out;
	__u64 unasked_out;    /* payload out where nothing was ever asked */
	__u64 more_out;       /* further payload of an answer, or pushed */
	__u64 untold;         /* answers on connections whose requests cannot be told apart */
	__u64 multiplexed_out;
	__u64 slots[SLOTS];
};

struct group {
	__u32 generation;
	__u32 slot;     /* NO_SLOT: not accounted */
	__u32 classid;  /* 0: not marked */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct config);
} config SEC(".maps");

/* One bit a port: whether some service listens on it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} ports SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_LISTENERS);
	__type(key, struct listener);
	__type(value, __u32);
} listeners SEC(".maps");

/* Services that are known by a cgroup. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_LISTENERS);
	__type(key, __u64);
	__type(value, __u32);
} service_cgroups SEC(".maps");

/* What a listening socket holds, the sockets that it accepts inherit. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct connection);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_SERVICES);
	__type(key, __u32);
	__type(value, struct service);
} services SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct group);
} groups SEC(".maps");

/* For any cgroup that sends, the nearest entry of `groups` at or above it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct group);
} group_cache SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_GROUPS);
	__type(key, __u32);
	__type(value, __u64);
} group_bytes SEC(".maps");
