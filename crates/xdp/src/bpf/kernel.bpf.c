/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * The in-kernel client: `generate` is run by BPF_PROG_TEST_RUN with live frames, once per frame, waits
 * until the frame is due, stamps it out of band and sends it; `receive` sits at the receiver's interface
 * and reads the stamps; `reflect` sits there instead in round-trip mode; `pass` makes the far end of a veth take what
 * is sent here.
 * Of the payload, the first four bytes are the frame's number.
 */
#include "stamps.bpf.h"

#define STALLS 65536
/* Behind the headers: the frame's number, big endian. The identification alone would come round. */
#define NUMBER 4
/* Turns of the wait, about 25 ns each; user space sleeps through longer gaps. */
#define PATIENCE (1 << 20)

struct config {
	struct flow sent, expected;
	__u8 header[HEADERS + 2]; /* of every frame; identification and checksum zero */
	__u32 checksum;           /* folded sum of the IP header so far */
	__u32 length;             /* of a whole frame, without FCS */
	__u64 gap_ns, gap_rest, gap_parts; /* between departures: gap_ns + gap_rest/gap_parts */
	__u64 measure_from, frames;        /* warm-up frames, and all */
};

const volatile struct config config = {};

struct {
	struct stamps stamps;
	__u64 lateness[BUCKETS];
	struct span stalls[STALLS];
	__u64 stall_count;
	__u64 busy_count, busy_total, busy_longest; /* gaps in which a frame was sent */
	__u64 observed; /* time between looks, since the measured part began */
	__u64 last;     /* when the generator was last seen; 0 after a sleep */
	__u64 sent_since; /* whether a frame left since then */
	__u64 due, due_rest;
	__u64 index;
	__u64 first_departure, last_departure; /* of the measured part */
	__u32 stop;
	__u32 probe_index;
	__u64 probe_value;
} state = {};

/* The receiver behind this one at the same interface, which takes the frames of another sender. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} behind SEC(".maps");

static __always_inline void stalled(__u64 from, __u64 to)
{
	__u64 i = state.stall_count++;

	if (i < STALLS) {
		state.stalls[i].from = from;
		state.stalls[i].to = to;
	}
}

static __always_inline void busy(__u64 gap)
{
	state.busy_count++;
	state.busy_total += gap;
	if (gap > state.busy_longest)
		state.busy_longest = gap;
}

/* The gap since the last look. Behind a departure the kernel runs the frame's path right here, so what the
 * path takes and what the platform takes can't be told apart. */
static __always_inline void watch(__u64 now)
{
	__u64 gap = state.last ? now - state.last : 0;

	state.observed += gap;
	if (gap > STALL_NS && state.sent_since)
		busy(gap);
	else if (gap > STALL_NS)
		stalled(state.last, now);
	state.last = now;
	state.sent_since = 0;
}

static __always_inline void begin_watch(void)
{
	state.stall_count = 0;
	state.busy_count = 0;
	state.busy_total = 0;
	state.busy_longest = 0;
	state.observed = 0;
}

static long wait_turn(__u32 turn, void *unused)
{
	__u64 now = bpf_ktime_get_ns();

	watch(now);
	return now >= state.due || state.stop;
}

static __always_inline __u16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return ~((sum & 0xffff) + (sum >> 16));
}

/* Frames are recycled with what the last path did to them: every byte of the headers is set. */
static __always_inline int write_headers(struct xdp_md *ctx, __u32 number)
{
	__u8 *frame = (void *)(long)ctx->data;
	__u16 id = number;

	if (frame + HEADERS + NUMBER > (__u8 *)(long)ctx->data_end)
		return -1;
#pragma unroll
	for (int i = 0; i < HEADERS; i += 2)
		*(__u16 *)(frame + i) = *(const volatile __u16 *)(config.header + i);
	*(__u16 *)(frame + 18) = bpf_htons(id);
	*(__u16 *)(frame + 24) = bpf_htons(fold(config.checksum + id));
	*(__u16 *)(frame + HEADERS) = bpf_htons(number >> 16);
	*(__u16 *)(frame + HEADERS + 2) = bpf_htons(id);
	return 0;
}

static __always_inline void schedule_next(void)
{
	state.due += config.gap_ns;
	state.due_rest += config.gap_rest;
	if (state.due_rest >= config.gap_parts) {
		state.due_rest -= config.gap_parts;
		state.due++;
	}
}

SEC("xdp")
int generate(struct xdp_md *ctx)
{
	__u64 index = state.index, now, lateness;

	if (state.stop || index >= config.frames)
		return XDP_DROP;
	if (index == 0 && state.due == 0)
		state.due = bpf_ktime_get_ns() + 1000;
	bpf_loop(PATIENCE, wait_turn, NULL, 0);
	if (write_headers(ctx, index))
		return XDP_ABORTED;
	now = bpf_ktime_get_ns();
	if (now < state.due)
		return XDP_DROP;
	lateness = now - state.due;
	if (index == config.measure_from) {
		begin_watch();
		state.first_departure = now;
	}
	if (index >= config.measure_from) {
		count_bucket(state.lateness, lateness);
		state.last_departure = now;
	}
	schedule_next();
	state.index = index + 1;
	state.sent_since = 1;
	depart(&state.stamps, index, now, lateness > 0xffffffff ? 0xffffffff : lateness);
	return XDP_TX;
}

/* The number and the identification are one. */
static __always_inline int whole(const __u8 *frame, __u32 length)
{
	__u32 sum = 0;

#pragma unroll
	for (int i = 14; i < 34; i += 2)
		sum += *(const __u16 *)(frame + i);
	return length == config.length && fold(sum) == 0 &&
	       *(const __u16 *)(frame + HEADERS + 2) == *(const __u16 *)(frame + 18);
}

SEC("xdp")
int receive(struct xdp_md *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u8 *frame = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct flow expected = config.expected;
	__u32 number;

	if (frame + HEADERS + NUMBER > end || !owns(&expected, frame)) {
		bpf_tail_call(ctx, &behind, 0);
		return XDP_PASS;
	}
	if (!whole(frame, end - frame)) {
		count(&state.stamps.arrivals);
		count(&state.stamps.corrupted);
		return XDP_DROP;
	}
	number = (__u32)bpf_ntohs(*(__u16 *)(frame + HEADERS)) << 16 | bpf_ntohs(*(__u16 *)(frame + HEADERS + 2));
	arrive(&state.stamps, number, 0xffffffff, now, config.measure_from);
	return XDP_DROP;
}

static __always_inline void swap2(__u8 *a, __u8 *b)
{
	__u16 t = *(__u16 *)a;

	*(__u16 *)a = *(__u16 *)b;
	*(__u16 *)b = t;
}

/* Sends frames of the flow back to where they came from. Sums don't depend on the order of words, so
 * no checksum changes. */
SEC("xdp")
int reflect(struct xdp_md *ctx)
{
	__u8 *frame = (void *)(long)ctx->data;
	struct flow sent = config.sent;

	if (frame + HEADERS > (__u8 *)(long)ctx->data_end || !owns(&sent, frame))
		return XDP_PASS;
#pragma unroll
	for (int i = 0; i < 6; i += 2)
		swap2(frame + i, frame + 6 + i);
	swap2(frame + 26, frame + 30);
	swap2(frame + 28, frame + 32);
	swap2(frame + 34, frame + 36);
	return XDP_TX;
}

/* A veth drops what its peer sends by XDP unless it polls by NAPI (veth_xdp_xmit), which any program makes it do. */
SEC("xdp")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/* For the test that holds bucket() to its twin in Rust. */
SEC("xdp")
int probe_bucket(struct xdp_md *ctx)
{
	state.probe_index = bucket(state.probe_value);
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";
