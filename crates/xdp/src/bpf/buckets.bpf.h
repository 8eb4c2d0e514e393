/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * HdrHistogram's buckets, 3 significant digits, 1 ns to 60 s: the twin of core/src/buckets.rs, held to
 * it by a test of `probe_bucket` in kernel.bpf.c.
 */
#pragma once

#define HALF 1024
#define BUCKETS (27 * HALF)
#define HIGHEST_NS 60000000000ULL

static __always_inline __u32 bucket(__u64 value)
{
	__u32 exponent = 0;
	__u64 v;

	if (value > HIGHEST_NS)
		value = HIGHEST_NS;
	/* The position of the highest bit above the 11 that are kept, by halving: eBPF has no clz. */
	v = value >> 11;
	if (v >> 16) { exponent += 16; v >>= 16; }
	if (v >> 8) { exponent += 8; v >>= 8; }
	if (v >> 4) { exponent += 4; v >>= 4; }
	if (v >> 2) { exponent += 2; v >>= 2; }
	if (v >> 1) { exponent += 1; v >>= 1; }
	exponent += v;
	return (exponent + 1) * HALF + (__u32)(value >> exponent) - HALF;
}
