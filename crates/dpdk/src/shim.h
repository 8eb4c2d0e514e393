/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * DPDK in ten functions over plain structures. `ffi.rs` mirrors this file. Functions return 0 or more,
 * or a negative errno.
 */
#pragma once
#include <stdint.h>

struct usect_frame {
	void *mbuf;
	uint8_t *data;
	uint32_t length;
	uint32_t room; /* that data has */
};

struct usect_device {
	uint16_t id;
	uint8_t mac[6];
	char driver[32];
	void *tx_pool, *rx_pool;
	int netns; /* in which it was opened, and has to be closed */
};

/* Once per process. What DPDK logs is kept from here on. */
int usect_dpdk_init(int argc, char **argv);
/* Takes what DPDK has logged since the last call, terminated, as much as fits. */
void usect_dpdk_log(char *text, uint32_t size);

/* Probes a device (`net_ring0`, `0000:01:00.0,key=value`), unless it is there, and starts it with one queue each way. */
int usect_dpdk_open(const char *devargs, uint32_t largest, struct usect_device *out);
void usect_dpdk_close(struct usect_device *device);

/* Writes the same bytes into every buffer of a pool. */
void usect_dpdk_fill(void *pool, const uint8_t *bytes, uint32_t length);

/* All `count` or none. */
int usect_dpdk_alloc(void *pool, struct usect_frame *frames, uint16_t count);
void usect_dpdk_free(struct usect_frame *frames, uint16_t count);
/* Returns how many were taken; the others stay the caller's. */
uint16_t usect_dpdk_send(uint16_t id, struct usect_frame *frames, uint16_t count);
uint16_t usect_dpdk_receive(uint16_t id, struct usect_frame *frames, uint16_t count);

/* Counters of the device. */
struct usect_counters {
	uint64_t missed, errors;
};
int usect_dpdk_counters(uint16_t id, struct usect_counters *out);
