/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Hands the frames of an interface to AF_XDP sockets, by queue: all of them, or those to one UDP port. If it is told
 * to, it leaves stamps before them (Documentation/networking/af_xdp.rst, "XDP metadata").
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

const volatile __u32 udp_port = 0; /* host byte order; 0: every frame */

const volatile __u32 stamp = 0; /* 1: leave stamps before the frame */

/* afxdp.rs reads it. */
struct stamps {
	__u64 driver; /* CLOCK_MONOTONIC, first thing in this program */
	__u64 card;   /* the card's clock; 0: none */
};

/* By the driver, from the descriptor of the frame; in programs that are bound to a device only. */
extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx, __u64 *timestamp) __ksym __weak;

static __always_inline int wanted(struct xdp_md *ctx)
{
	__u8 *frame = (void *)(long)ctx->data;

	if (!udp_port)
		return 1;
	if (frame + 42 > (__u8 *)(long)ctx->data_end)
		return 0;
	return *(__u16 *)(frame + 12) == bpf_htons(0x0800) && frame[14] == 0x45 && frame[23] == 17 &&
	       *(__u16 *)(frame + 36) == bpf_htons(udp_port);
}

static __always_inline int hand_over(struct xdp_md *ctx, struct stamps found)
{
	struct stamps *stamps;

	if (!wanted(ctx))
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
