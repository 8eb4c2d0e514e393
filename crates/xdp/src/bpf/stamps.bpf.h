/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * One stamp array per sender, keyed by what identifies a frame, written where frames depart and read
 * where they arrive (paper 001 §2). Every arrival ends in exactly one class. `stamps.rs` mirrors the
 * structures.
 */
#pragma once

#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "buckets.bpf.h"

#define SLOTS (1 << 16)
#define SLOW (1 << 18)
#define STALL_NS 10000

struct slot {
	__u64 departure;
	__u64 sequence;
	__u32 lateness;
	__u32 state; /* 0: never used or being written, 1: in flight, 2: arrived */
	__u64 arrival; /* the first, while the state is 2 */
};

struct span {
	__u64 from, to;
};

struct stamps {
	struct slot slots[SLOTS];
	__u64 latency[BUCKETS];
	__u64 scheduled[BUCKETS];
	struct span slow[SLOW];
	__u64 slow_count; /* may exceed SLOW: the rest was not kept */
	__u64 departed;   /* warm-up included */
	__u64 arrivals;
	__u64 received;
	__u64 reordered;
	__u64 duplicates;
	__u64 corrupted;
	__u64 stale;   /* its place in the table went to a later frame meanwhile */
	__u64 foreign; /* of the flow by its headers, but nothing departed under its number */
	__u64 warmup_arrivals;
	__u64 stamped;
	__u64 next; /* one past the highest sequence that arrived */
	__u64 overwritten; /* not in yet when a later frame took their place: lost, or very late */
};

/* The identity of the flow, as it stands in a frame; network byte order. */
struct flow {
	__u32 source, destination;
	__u16 source_port, destination_port;
};

#define HEADERS 42

/* Ethernet without tags, IPv4 without options, UDP. */
static __always_inline int owns(const struct flow *flow, const __u8 *frame)
{
	return *(const __u16 *)(frame + 12) == bpf_htons(0x0800) && frame[14] == 0x45 && frame[23] == 17 &&
	       *(const __u16 *)(frame + 26) == (__u16)flow->source &&
	       *(const __u16 *)(frame + 28) == (__u16)(flow->source >> 16) &&
	       *(const __u16 *)(frame + 30) == (__u16)flow->destination &&
	       *(const __u16 *)(frame + 32) == (__u16)(flow->destination >> 16) &&
	       *(const __u16 *)(frame + 34) == flow->source_port &&
	       *(const __u16 *)(frame + 36) == flow->destination_port;
}

static __always_inline void count(__u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

static __always_inline void count_bucket(__u64 *buckets, __u64 value)
{
	__u32 i = bucket(value);

	if (i < BUCKETS)
		count(&buckets[i]);
}

static __always_inline void depart(struct stamps *s, __u64 sequence, __u64 now, __u32 lateness)
{
	struct slot *slot = &s->slots[sequence & (SLOTS - 1)];

	if (slot->state == 1)
		s->overwritten++;
	slot->state = 0;
	barrier();
	slot->departure = now;
	slot->lateness = lateness;
	slot->sequence = sequence;
	barrier();
	slot->state = 1;
	s->departed++;
}

/* `known` has a bit set for each bit of `key` that the frame carries: 0xffff for a number of two bytes,
 * all ones for one of four. */
static __always_inline void arrive(struct stamps *s, __u32 key, __u32 known, __u64 now, __u64 measure_from)
{
	struct slot *slot = &s->slots[key & (SLOTS - 1)];
	__u64 sequence = slot->sequence, latency;

	count(&s->arrivals);
	if (slot->state == 0) {
		count(&s->foreign);
		return;
	}
	if (((__u32)sequence ^ key) & known) {
		__s32 later = key - (__u32)sequence;

		/* The number is that of no frame that departed, so it is a damaged one; or of an earlier frame. */
		if (later > 0 || sequence < -(__s64)later)
			count(&s->foreign);
		else
			count(&s->stale);
		return;
	}
	if (slot->state == 1) {
		slot->arrival = now;
		barrier();
	}
	if (sequence < measure_from) {
		slot->state = 2;
		count(&s->warmup_arrivals);
		return;
	}
	if (slot->state == 2) {
		count(&s->duplicates);
		return;
	}
	slot->state = 2;
	count(&s->received);
	if (sequence < s->next)
		count(&s->reordered);
	else
		s->next = sequence + 1;
	if (now < slot->departure)
		return;
	latency = now - slot->departure;
	count(&s->stamped);
	count_bucket(s->latency, latency);
	count_bucket(s->scheduled, latency + slot->lateness);
	if (latency >= STALL_NS) {
		__u64 i = __sync_fetch_and_add(&s->slow_count, 1);

		if (i < SLOW) {
			s->slow[i].from = slot->departure;
			s->slow[i].to = now;
		}
	}
}
