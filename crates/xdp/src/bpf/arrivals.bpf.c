/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Times between packets of a load where they arrive, as the host sees them behind its offloads: the filter of a packet
 * socket, which lets none of them in. Nothing is copied, and nothing wakes up.
 */
#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "buckets.bpf.h"

#define ETHERNET 14
#define PROTOCOL 9 /* of an IPv4 header */

const volatile struct config {
	__u32 port; /* at either end */
} config = {};

struct {
	__u64 on;       /* whether anything is counted yet */
	__u64 gaps[BUCKETS];
	__u64 last;     /* when the one before came; 0: none did */
	__u64 packets;  /* as the host sees them */
	__u64 segments; /* of which so many came over the wire, where an offload put them together */
} state = {};

SEC("socket")
int arrivals(struct __sk_buff *skb)
{
	__u64 now = bpf_ktime_get_ns(), before;
	__u8 head, protocol;
	__u16 ports[2];
	__u32 i;

	if (!state.on)
		return 0;
	if (bpf_skb_load_bytes(skb, ETHERNET, &head, 1) || bpf_skb_load_bytes(skb, ETHERNET + PROTOCOL, &protocol, 1))
		return 0;
	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
		return 0;
	if (bpf_skb_load_bytes(skb, ETHERNET + (head & 15) * 4, ports, sizeof(ports)))
		return 0;
	if (ports[0] != bpf_htons(config.port) && ports[1] != bpf_htons(config.port))
		return 0;
	__sync_fetch_and_add(&state.packets, 1);
	__sync_fetch_and_add(&state.segments, skb->gso_segs ? skb->gso_segs : 1);
	/* Queues of an interface may run on several cores at once. */
	before = __sync_lock_test_and_set(&state.last, now);
	if (!before)
		return 0;
	i = bucket(now > before ? now - before : 0);
	if (i < BUCKETS)
		__sync_fetch_and_add(&state.gaps[i], 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
