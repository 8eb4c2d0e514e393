/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Hands the frames of an interface to AF_XDP sockets, by queue: all of them, or those of a pattern. If it is told to,
 * it leaves stamps before them (Documentation/networking/af_xdp.rst, "XDP metadata").
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "pattern.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

const volatile struct pattern wanted = {};

const volatile __u32 stamp = 0; /* 1: leave stamps before the frame */

/* afxdp.rs reads it. */
struct stamps {
	__u64 driver; /* CLOCK_MONOTONIC, first thing in this program */
	__u64 card;   /* the card's clock; 0: none */
};

/* By the driver, from the descriptor of the frame; in programs that are bound to a device only. */
extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx, __u64 *timestamp) __ksym __weak;

static __always_inline int hand_over(struct xdp_md *ctx, struct stamps found)
{
	struct stamps *stamps;

	if (!agrees(&wanted, (void *)(long)ctx->data, (void *)(long)ctx->data_end))
		return XDP_PASS;
	if (stamp) {
		/* A frame that can't be stamped is dropped: its reader would take what is there for a stamp. */
		if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*stamps)))
			return XDP_DROP;
		stamps = (void *)(long)ctx->data_meta;
		if ((void *)(stamps + 1) > (void *)(long)ctx->data)
			return XDP_DROP;
		*stamps = found;
	}
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

SEC("xdp")
int to_socket(struct xdp_md *ctx)
{
	struct stamps found = { .driver = stamp ? bpf_ktime_get_ns() : 0 };

	return hand_over(ctx, found);
}

SEC("xdp")
int to_socket_by_card(struct xdp_md *ctx)
{
	struct stamps found = { .driver = bpf_ktime_get_ns() };

	if (bpf_xdp_metadata_rx_timestamp(ctx, &found.card))
		found.card = 0;
	return hand_over(ctx, found);
}

char _license[] SEC("license") = "Dual MIT/GPL";
