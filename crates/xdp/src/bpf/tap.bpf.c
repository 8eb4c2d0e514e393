/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Passive taps: every frame of a flow is stamped at the moment its veth driver puts it on the wire, on
 * the way into the DUT and on the way out of it. Nothing of the frame is changed, and no hook of the
 * interfaces is used up: whatever the DUT attaches there (XDP, tc, a bridge) stays free.
 *
 * The programs sit at the entry of the driver's two transmit functions: veth_xmit for socket buffers,
 * veth_xdp_xmit for bulks of XDP frames.
 */
#include "stamps.bpf.h"
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* The parts of the kernel's types that are read; CO-RE finds their offsets. */
struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct net {
	struct ns_common ns;
} __attribute__((preserve_access_index));

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} __attribute__((preserve_access_index));

struct sk_buff {
	unsigned int len, data_len;
	unsigned char *data;
} __attribute__((preserve_access_index));

struct xdp_frame {
	void *data;
} __attribute__((preserve_access_index));

/* veth sends at most VETH_XDP_TX_BULK_SIZE or DEV_MAP_BULK_SIZE frames at once: 16. */
#define BULK 64
#define KEY_MAX 4

struct point {
	__u32 ifindex, netns;
};

struct {
	struct point in, out;       /* the interfaces that transmit into and out of the DUT */
	struct flow in_flow, out_flow; /* the same, or reversed where `out` sees the way back */
	__u32 key_at;               /* where the key of a frame stands */
	__u32 key_is_id;            /* 1: IP identification, 2 bytes; 0: sequence number, 4 bytes */
	__u64 measure_from;
} const volatile config = {};

struct {
	struct stamps stamps;
	__u64 next_departure; /* unwraps the identification */
} state = {};

struct head {
	__u8 bytes[HEADERS + 16];
};

static __always_inline int at(const struct net_device *dev, __u32 ifindex, __u32 netns)
{
	return (__u32)dev->ifindex == ifindex && dev->nd_net.net->ns.inum == netns;
}

static __always_inline __u32 key_of(const struct head *head)
{
	if (config.key_is_id)
		return bpf_ntohs(*(const __u16 *)(head->bytes + 18));
	/* The signature's sequence number: payload at 42, number at 6 (core/src/signature.rs). */
	return *(const __u16 *)(head->bytes + 48) | (__u32) * (const __u16 *)(head->bytes + 50) << 16;
}

static __always_inline void into_dut(const struct head *head, __u64 now)
{
	struct flow flow = config.in_flow;
	__u32 key = key_of(head);

	if (!owns(&flow, head->bytes))
		return;
	if (config.key_is_id)
		key = state.next_departure + (__s16)(key - (__u16)state.next_departure);
	state.next_departure = (__u64)key + 1;
	depart(&state.stamps, key, now, 0);
}

static __always_inline void out_of_dut(const struct head *head, __u64 now)
{
	struct flow flow = config.out_flow;

	if (owns(&flow, head->bytes))
		arrive(&state.stamps, key_of(head), config.key_is_id ? 0xffff : 0xffffffff, now, config.measure_from);
}

static __always_inline void tap(struct net_device *dev, void *data, __u64 now)
{
	struct head head;
	int in = at(dev, config.in.ifindex, config.in.netns);
	int out = at(dev, config.out.ifindex, config.out.netns);

	if ((!in && !out) || bpf_probe_read_kernel(&head, sizeof(head), data))
		return;
	if (in)
		into_dut(&head, now);
	if (out)
		out_of_dut(&head, now);
}

SEC("fentry/veth_xmit")
int BPF_PROG(tap_skb, struct sk_buff *skb, struct net_device *dev)
{
	if (skb->len - skb->data_len >= sizeof(struct head))
		tap(dev, skb->data, bpf_ktime_get_ns());
	return 0;
}

SEC("fentry/veth_xdp_xmit")
int BPF_PROG(tap_xdp, struct net_device *dev, int n, struct xdp_frame **frames)
{
	__u64 now = bpf_ktime_get_ns();

	for (int i = 0; i < BULK && i < n; i++) {
		struct xdp_frame *frame;

		if (bpf_probe_read_kernel(&frame, sizeof(frame), frames + i))
			return 0;
		tap(dev, BPF_CORE_READ(frame, data), now);
	}
	return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
