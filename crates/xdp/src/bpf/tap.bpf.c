/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Passive taps: the wire into the DUT and the wire out of it are each cut open by a pair of interfaces
 * that pass every frame on to the other, as an optical tap would, and stamp those of the flow. Nothing
 * of a frame is changed, and every hook of the DUT's own interfaces stays free.
 */
#include "stamps.bpf.h"

struct config {
	struct flow in_flow, out_flow; /* the same, or reversed where `out` sees the way back */
	__u32 in, out;                 /* interfaces at which frames come that enter and that left the DUT */
	__u32 near_left, near_right, far_left, far_right; /* the two pairs */
	__u32 key_is_id; /* 1: IP identification, 2 bytes; 0: the signature's sequence number, 4 bytes */
	__u32 pad;
	__u64 measure_from;
};

const volatile struct config config = {};

struct {
	struct stamps stamps;
	__u64 next_departure; /* unwraps the key */
} state = {};

/* The signature's sequence number: payload at 42, number at 6 (core/src/signature.rs). */
#define SEQUENCE_AT (HEADERS + 6)

static __always_inline __u32 key_of(const __u8 *frame)
{
	if (config.key_is_id)
		return bpf_ntohs(*(const __u16 *)(frame + 18));
	return *(const __u16 *)(frame + SEQUENCE_AT) | (__u32) * (const __u16 *)(frame + SEQUENCE_AT + 2) << 16;
}

static __always_inline void into_dut(const __u8 *frame)
{
	struct flow flow = config.in_flow;
	__u64 next = state.next_departure, sequence;
	__u32 key = key_of(frame);

	if (!owns(&flow, frame))
		return;
	/* The number nearest to the one expected that ends in the key. */
	if (config.key_is_id)
		sequence = next + (__s16)(key - (__u32)next);
	else
		sequence = next + (__s32)(key - (__u32)next);
	state.next_departure = sequence + 1;
	/* The last thing before the frame goes on. */
	depart(&state.stamps, sequence, bpf_ktime_get_ns(), 0);
}

static __always_inline void out_of_dut(const __u8 *frame, __u64 now)
{
	struct flow flow = config.out_flow;

	if (owns(&flow, frame))
		arrive(&state.stamps, key_of(frame), config.key_is_id ? 0xffff : 0xffffffff, now, config.measure_from);
}

static __always_inline int pass_on(__u32 ifindex)
{
	if (ifindex == config.near_left)
		return bpf_redirect(config.near_right, 0);
	if (ifindex == config.near_right)
		return bpf_redirect(config.near_left, 0);
	if (ifindex == config.far_left)
		return bpf_redirect(config.far_right, 0);
	if (ifindex == config.far_right)
		return bpf_redirect(config.far_left, 0);
	return XDP_PASS;
}

SEC("xdp")
int tap(struct xdp_md *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u8 *frame = (void *)(long)ctx->data;

	if (frame + SEQUENCE_AT + 4 <= (__u8 *)(long)ctx->data_end) {
		if (ctx->ingress_ifindex == config.out)
			out_of_dut(frame, now);
		if (ctx->ingress_ifindex == config.in)
			into_dut(frame);
	}
	return pass_on(ctx->ingress_ifindex);
}

char _license[] SEC("license") = "Dual MIT/GPL";
