/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Times requests on the sockets of services, counts the bytes that cgroups send and marks them
 * with their HTB class. Attached to one cgroup2 directory, usually the root.
 *
 * A request's time is from its last payload byte in to the first payload byte of its answer
 * out: a client that sends slowly is not blamed on the service. Packets of other sockets cost a
 * look at one bit (is the local port one that a service listens on?) and, if some service is
 * known by its cgroup only, a look for the mark that its sockets inherited from their listener.
 */
#include "egress.h"
#include "identity.h"
#include "marks.h"
#include "messages.h"
#include "packets.h"
#include "segment.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define CHECK_EVERY 32 /* requests of a connection between two looks into one */
#define CHECK_SUSPECT 8

static __always_inline void distrust(struct connection *connection)
{
	connection->untold = 1;
	connection->unseen_requests = CHECK_SUSPECT;
}

/* Looks into a request now and then; until the next look its verdict holds. */
static __always_inline void check_request(struct __sk_buff *skb, struct segment *segment,
					  struct connection *connection, struct service *service)
{
	__u64 found;

	if (connection->unseen_requests) {
		connection->unseen_requests--;
		return;
	}
	found = look_into(skb, segment->payload, segment->length);
	connection->head = comparable((__u32)found);
	connection->untold = 0;
	connection->unseen_requests = CHECK_EVERY - 1;
	if (found >> 32 == SEVERAL_REQUESTS) {
		service->batches++;
		distrust(connection);
	} else if (found >> 32 == MULTIPLEXED) {
		connection->multiplexed = 1;
	}
}

/* Payload in while a request waits: more of it, or another one sent without waiting. */
static __always_inline void check_piece(struct __sk_buff *skb, struct segment *segment,
					struct connection *connection, struct service *service)
{
	__u32 head;

	service->pieces++;
	if (segment->length < 4 || !connection->head)
		return;
	if (bpf_skb_load_bytes(skb, segment->payload, &head, sizeof(head)))
		return;
	if (comparable(head) != connection->head)
		return;
	service->overlaps++;
	distrust(connection);
}

/* Whether a segment below the highest seen brings bytes that were missing after all. */
static __always_inline int fills_a_hole(struct bpf_sock *sk, __u32 end)
{
	struct bpf_tcp_sock *tcp = bpf_tcp_sock(sk);

	return tcp && (__s32)(end - tcp->rcv_nxt) > 0;
}

/*
 * Bytes are counted by how far the sequence advances, not by packet: the socket may yet drop what
 * passes here (its buffer is full), and the same bytes then pass again.
 */
static __always_inline void payload_in(struct __sk_buff *skb, struct bpf_sock *sk,
				       struct segment *segment, struct connection *connection,
				       struct service *service)
{
	__u32 end = segment->seq + segment->length;
	__s32 fresh = connection->seen_in ? (__s32)(end - connection->in_end) : segment->length;

	if (!connection->seen_in)
		service->connections++;
	if (fresh > 0) {
		connection->in_end = end;
		service->bytes_in += fresh;
	} else if (!fills_a_hole(sk, end)) {
		service->duplicates_in++;
		return;
	}
	connection->seen_in = 1;
	service->segments_in++;
	if (connection->multiplexed) {
		service->multiplexed_in++;
		return;
	}
	connection->last_in_ns = bpf_ktime_get_ns();
	if (connection->waiting) {
		/* The head of a request that comes again is no second request. */
		if (fresh > 0)
			check_piece(skb, segment, connection, service);
		return;
	}
	check_request(skb, segment, connection, service);
	if (connection->seen_out && (__s32)(segment->ack - connection->out_end) < 0) {
		service->overlaps++;
		distrust(connection);
	}
	connection->waiting = !connection->multiplexed;
}

static __always_inline void count_answer(struct connection *connection, struct service *service)
{
	__u64 slot;

	connection->waiting = 0;
	if (connection->untold) {
		__sync_fetch_and_add(&service->untold, 1);
		return;
	}
	slot = slot_of(bpf_ktime_get_ns() - connection->last_in_ns);
	if (slot < SLOTS)
		__sync_fetch_and_add(&service->slots[slot], 1);
}

static __always_inline void payload_out(struct segment *segment, struct connection *connection,
					struct service *service)
{
	__u32 end = segment->seq + segment->length;
	__s32 fresh = connection->seen_out ? (__s32)(end - connection->out_end) : segment->length;

	if (fresh <= 0) {
		service->duplicates_out++;
		return;
	}
	connection->seen_out = 1;
	connection->out_end = end;
	__sync_fetch_and_add(&service->bytes_out, fresh);
	service->segments_out++;
	if (connection->multiplexed)
		service->multiplexed_out++;
	else if (connection->waiting)
		count_answer(connection, service);
	else if (connection->seen_in)
		service->more_out++;
	else
		service->unasked_out++;
}

/* The state of the packet's socket, if it carries payload of one that may be a service's. */
static __always_inline struct connection *meter(struct __sk_buff *skb, struct config *config,
						int in)
{
	struct bpf_sock *sk = skb->sk;
	struct connection *connection;
	struct service *service;
	struct segment segment;
	int by_port;

	if (!config->services || !sk)
		return 0;
	by_port = is_service_port(sk->src_port);
	if ((!by_port && !config->cgroup_services) || !parse(skb, &segment))
		return 0;
	if (segment.flags & (TCP_SYN | TCP_RST)) {
		if (in && !by_port && (segment.flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
			mark_listener(skb, config->service_generation);
		return 0;
	}
	if (segment.length <= 0)
		return 0;
	connection = by_port ? bound(sk, config->service_generation)
			     : inherited(skb, sk, config->service_generation);
	if (!connection || !connection->service)
		return connection;
	service = service_at(connection->service);
	if (!service)
		return connection;
	if (in)
		payload_in(skb, sk, &segment, connection, service);
	else
		payload_out(&segment, connection, service);
	return connection;
}

SEC("cgroup_skb/ingress") int quell_ingress(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct config *settings = bpf_map_lookup_elem(&config, &zero);

	if (settings)
		meter(skb, settings, 1);
	return 1;
}

SEC("cgroup_skb/egress") int quell_egress(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct config *settings = bpf_map_lookup_elem(&config, &zero);
	struct connection *connection;

	if (!settings)
		return 1;
	connection = meter(skb, settings, 0);
	if (settings->groups)
		account(skb, settings, connection);
	return 1;
}
