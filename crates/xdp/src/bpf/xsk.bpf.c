/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Hands the frames of an interface to AF_XDP sockets, by queue: all of them, or those to one UDP port.
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

SEC("xdp")
int to_socket(struct xdp_md *ctx)
{
	__u8 *frame = (void *)(long)ctx->data;

	if (udp_port) {
		if (frame + 42 > (__u8 *)(long)ctx->data_end)
			return XDP_PASS;
		if (*(__u16 *)(frame + 12) != bpf_htons(0x0800) || frame[14] != 0x45 || frame[23] != 17 ||
		    *(__u16 *)(frame + 36) != bpf_htons(udp_port))
			return XDP_PASS;
	}
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

char _license[] SEC("license") = "Dual MIT/GPL";
