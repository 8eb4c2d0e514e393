/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * What frames are known by: words of 16 bits, of which all must agree. `pattern.rs` fills it in.
 */
#pragma once

#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define WORDS 40

struct word {
	__u16 at, mask, value; /* mask and value in network byte order */
};

struct pattern {
	__u32 count; /* 0: every frame */
	struct word words[WORDS];
};

/* A pattern is constant, so that the verifier knows every offset. */
static __always_inline int agrees(const volatile struct pattern *pattern, const __u8 *frame, const __u8 *end)
{
	for (__u32 i = 0; i < WORDS; i++) {
		__u16 at = pattern->words[i].at;

		if (i >= pattern->count)
			break;
		if (frame + at + 2 > end)
			return 0;
		if ((*(const __u16 *)(frame + at) ^ pattern->words[i].value) & pattern->words[i].mask)
			return 0;
	}
	return 1;
}
