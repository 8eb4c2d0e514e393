/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * A port forwarder in the kernel: whatever arrives at one interface leaves by the other.
 */
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

const volatile __u32 left = 0, right = 0;

SEC("xdp")
int forward(struct xdp_md *ctx)
{
	if (ctx->ingress_ifindex == left)
		return bpf_redirect(right, 0);
	if (ctx->ingress_ifindex == right)
		return bpf_redirect(left, 0);
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";
