/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * DPDK in some functions over plain structures. `ffi.rs` mirrors this file. Functions return 0 or more,
 * or a negative errno.
 */
#pragma once
#include <stdint.h>

struct usect_frame {
	void *mbuf;
	uint8_t *data;
	uint32_t length;
	uint32_t room; /* that data has */
	uint64_t stamp; /* of the card, as it arrived, or 0 */
};

/* The clock of a card's stamps. */
enum {
	USECT_NO_CLOCK,
	USECT_TIMESYNC, /* of IEEE 1588, in nanoseconds */
	USECT_DEVICE_CLOCK, /* rte_eth_read_clock, in ticks */
	USECT_WALL_US, /* CLOCK_REALTIME, in microseconds: net_pcap's */
};

struct usect_device {
	uint16_t id;
	uint8_t mac[6];
	char driver[32];
	void *tx_pool, *rx_pool;
	int netns; /* in which it was opened, and has to be closed */
	/* Where stamps were asked for: whether PTP's frames are stamped both ways, one at a time, through a send queue
	 * of their own; and the clock of arrivals, where all of them are stamped. */
	uint8_t timesync, arrivals;
};

/* Once per process. What DPDK logs is kept from here on. */
int usect_dpdk_init(int argc, char **argv);
/* Takes what DPDK has logged since the last call, terminated, as much as fits. */
void usect_dpdk_log(char *text, uint32_t size);

/* Probes a device (`net_ring0`, `0000:01:00.0,key=value`), unless it is there, and starts it with one queue each way,
 * and with what it has of the card's stamps if they are asked for. */
int usect_dpdk_open(const char *devargs, uint32_t largest, int stamps, struct usect_device *out);
/* Leaves the calling thread in the namespace in which the device was opened. Where that can't be entered, the device stays as
 * it is. */
int usect_dpdk_close(struct usect_device *device);

/* Writes the same bytes into every buffer of a pool, which must have room for them. */
int usect_dpdk_fill(void *pool, const uint8_t *bytes, uint32_t length);

/* All `count` or none. */
int usect_dpdk_alloc(void *pool, struct usect_frame *frames, uint16_t count);
void usect_dpdk_free(struct usect_frame *frames, uint16_t count);
/* Returns how many were taken; the others stay the caller's. */
uint16_t usect_dpdk_send(uint16_t id, struct usect_frame *frames, uint16_t count);
uint16_t usect_dpdk_receive(uint16_t id, struct usect_frame *frames, uint16_t count);

/* Sends a frame of PTP that is to be stamped as it leaves. */
int usect_dpdk_probe(const struct usect_device *device, const uint8_t *bytes, uint32_t length);
/* The stamp of the last such frame, sent or received; an error where there is none (any more). Some drivers give an
 * old one, or none at all, and call it success: it has to be checked against the clock. */
int usect_dpdk_probe_left(uint16_t id, uint64_t *ns);
int usect_dpdk_probe_arrived(uint16_t id, const struct usect_frame *frame, uint64_t *ns);
/* Reads a card's clock, in its ticks. */
int usect_dpdk_clock(uint16_t id, int clock, uint64_t *ticks);

/* Counters of the device. */
struct usect_counters {
	uint64_t missed, errors;
};
int usect_dpdk_counters(uint16_t id, struct usect_counters *out);
