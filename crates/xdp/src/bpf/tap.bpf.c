/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Passive taps: the wire into the DUT and the wire out of it are each cut open by a pair of interfaces
 * that pass every frame on to the other, as an optical tap would, and stamp those of the flow. Nothing
 * of a frame is changed, and every hook of the DUT's own interfaces stays free.
 */
#include "pattern.bpf.h"
#include "stamps.bpf.h"

struct config {
	struct pattern in_flow, out_flow; /* the same, or reversed where `out` sees the way back */
	__u32 in, out;                    /* interfaces at which frames come that enter and that left the DUT */
	__u32 near_left, near_right, far_left, far_right; /* the two pairs */
	__u32 key_at, key_width;          /* where a frame's number is: 2 or 4 bytes */
	__u32 key_is_little;              /* little endian, as in the signature */
	__u32 pad;
	__u64 measure_from, until;
};

const volatile struct config config = {};

struct {
	struct stamps stamps;
	__u64 next_departure; /* unwraps the key */
} state = {};

static __always_inline int key_of(const __u8 *frame, const __u8 *end, __u32 *key)
{
	__u32 at = config.key_at, width = config.key_width;
	__u32 low;

	if (frame + at + width > end)
		return 0;
	low = *(const __u16 *)(frame + at);
	if (width == 2)
		*key = bpf_ntohs(low);
	else if (config.key_is_little)
		*key = low | (__u32) * (const __u16 *)(frame + at + 2) << 16;
	else
		*key = bpf_ntohl(low | (__u32) * (const __u16 *)(frame + at + 2) << 16);
	return 1;
}

static __always_inline void into_dut(const __u8 *frame, const __u8 *end)
{
	__u64 next = state.next_departure, sequence;
	__u32 key;

	if (!agrees(&config.in_flow, frame, end) || !key_of(frame, end, &key))
		return;
	/* The number nearest to the one expected that ends in the key. */
	if (config.key_width == 2)
		sequence = next + (__s16)(key - (__u32)next);
	else
		sequence = next + (__s32)(key - (__u32)next);
	/* Nobody sends such a number, or one below 0: believed, it would shift those that follow. */
	if (sequence >= config.until) {
		state.stamps.departed++;
		return;
	}
	if (sequence >= next)
		state.next_departure = sequence + 1;
	/* The last thing before the frame goes on. */
	depart(&state.stamps, sequence, bpf_ktime_get_ns(), 0);
}

static __always_inline void out_of_dut(const __u8 *frame, const __u8 *end, __u64 now)
{
	__u32 key;

	if (agrees(&config.out_flow, frame, end) && key_of(frame, end, &key))
		arrive(&state.stamps, key, config.key_width == 2 ? 0xffff : 0xffffffff, now, config.measure_from);
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
	__u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	if (ctx->ingress_ifindex == config.out)
		out_of_dut(frame, end, now);
	if (ctx->ingress_ifindex == config.in)
		into_dut(frame, end);
	return pass_on(ctx->ingress_ifindex);
}

char _license[] SEC("license") = "Dual MIT/GPL";
