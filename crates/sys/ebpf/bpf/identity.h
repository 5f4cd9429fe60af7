/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Whose socket is it? */
#pragma once
#include "packets.h"

#define AF_INET 2
#define MAPPED 0xffff0000 /* third word of ::ffff:a.b.c.d in network order */

struct ns_common { unsigned int inum; } CORE;
struct net { struct ns_common ns; } CORE;
typedef struct { struct net *net; } possible_net_t;
struct sock_common { possible_net_t skc_net; } CORE;
struct sock { struct sock_common __sk_common; } CORE;
struct inet_sock { struct sock sk; } CORE;
struct inet_connection_sock { struct inet_sock icsk_inet; } CORE;
struct tcp_sock { struct inet_connection_sock inet_conn; } CORE;

/* The inode of the socket's network namespace, as /proc/PID/ns/net shows it. */
static __always_inline __u32 netns_of(struct bpf_sock *sk)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

	return tcp ? tcp->inet_conn.icsk_inet.sk.__sk_common.skc_net.net->ns.inum : 0;
}

static __always_inline __u32 *find_in(struct listener *key, __u32 netns)
{
	__u32 *service;

	key->netns = netns;
	service = bpf_map_lookup_elem(&listeners, key);
	if (service)
		return service;
	key->netns = 0;
	return bpf_map_lookup_elem(&listeners, key);
}

/* Index + 1 of the service that listens where this socket is bound; 0 if there is none. */
static __noinline __u32 service_by_listener(struct bpf_sock *sk)
{
	struct listener key = { .port = sk->src_port };
	__u32 netns = netns_of(sk), *service, v4;

	if (sk->family == AF_INET) {
		key.address[2] = MAPPED;
		key.address[3] = sk->src_ip4;
	} else {
		key.address[0] = sk->src_ip6[0];
		key.address[1] = sk->src_ip6[1];
		key.address[2] = sk->src_ip6[2];
		key.address[3] = sk->src_ip6[3];
	}
	v4 = !key.address[0] && !key.address[1] && key.address[2] == MAPPED;
	service = find_in(&key, netns);
	if (!service && v4) {
		key.address[3] = 0;
		service = find_in(&key, netns);
	}
	if (!service) {
		key.address[0] = key.address[1] = key.address[2] = key.address[3] = 0;
		service = find_in(&key, netns);
	}
	return service ? *service : 0;
}

/* Index + 1 of the service in whose cgroup, or below, the packet's socket was born. */
static __noinline __u32 service_by_cgroup(struct __sk_buff *skb)
{
	__u32 *service, found = 0;

	for (int level = 0; level < MAX_DEPTH; level++) {
		__u64 id = bpf_skb_ancestor_cgroup_id(skb, level);

		if (!id)
			break;
		service = bpf_map_lookup_elem(&service_cgroups, &id);
		if (service)
			found = *service;
	}
	return found;
}

static __always_inline int is_service_port(__u32 port)
{
	__u32 word = (port >> 6) & 1023;
	__u64 *bits = bpf_map_lookup_elem(&ports, &word);

	return bits && (*bits >> (port & 63) & 1);
}

static __always_inline struct service *service_at(__u8 service)
{
	__u32 index = service - 1;

	return bpf_map_lookup_elem(&services, &index);
}

/*
 * The state of a socket on a service's port. It is asked for its namespace and address once; the
 * answer holds until the services change.
 */
static __always_inline struct connection *bound(struct bpf_sock *sk, __u32 generation)
{
	struct connection *connection =
		bpf_sk_storage_get(&connections, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	if (connection && connection->generation != generation) {
		connection->service = service_by_listener(sk);
		connection->generation = generation;
	}
	return connection;
}

/*
 * The state of a socket that inherited its listener's mark; asked for its cgroup again when the
 * services have changed.
 */
static __always_inline struct connection *inherited(struct __sk_buff *skb, struct bpf_sock *sk,
						    __u32 generation)
{
	struct connection *connection = bpf_sk_storage_get(&connections, sk, 0, 0);

	if (connection && connection->generation != generation) {
		connection->service = service_by_cgroup(skb);
		connection->generation = generation;
	}
	return connection;
}

/*
 * A call arrives at a listener: if its cgroup is a service's, mark the listener, and the sockets
 * that it accepts inherit the mark. Sockets with which the service itself calls others never
 * get one.
 */
static __noinline int mark_listener(struct __sk_buff *skb, __u32 generation)
{
	struct bpf_sock *sk = skb->sk;
	struct connection *connection;
	__u32 service;

	if (!sk)
		return 0;
	connection = bpf_sk_storage_get(&connections, sk, 0, 0);
	if (connection && connection->generation == generation)
		return 0;
	service = service_by_cgroup(skb);
	if (!service)
		return 0;
	connection = bpf_sk_storage_get(&connections, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!connection)
		return 0;
	connection->service = service;
	connection->generation = generation;
	return 0;
}
