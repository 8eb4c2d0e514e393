/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define _GNU_SOURCE /* fopencookie */
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

/* Descriptors of a queue, and buffers of a pool: enough for a queue and the caches. */
#define DESCRIPTORS 1024
#define BUFFERS 8191
#define CACHE 256
#define BATCH 32
/* The queue of a PTP frame that is to be stamped. */
#define PROBE_QUEUE 1

/* Where a frame has the card's stamp of its arrival, and the flag that says so; 0 while nobody asked. */
static int stamp_offset;
static uint64_t stamp_flag;

static char log_text[4096];
static size_t log_length;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t registered;

static ssize_t keep(void *unused, const char *text, size_t size)
{
	size_t room;

	(void)unused;
	pthread_mutex_lock(&log_lock);
	room = sizeof(log_text) - 1 - log_length;
	memcpy(log_text + log_length, text, size < room ? size : room);
	log_length += size < room ? size : room;
	pthread_mutex_unlock(&log_lock);
	return size;
}

static void prepend(const char *text, size_t size)
{
	size_t kept;

	pthread_mutex_lock(&log_lock);
	kept = sizeof(log_text) - 1 - size < log_length ? sizeof(log_text) - 1 - size : log_length;
	memmove(log_text + size, log_text, kept);
	memcpy(log_text, text, size);
	log_length = size + kept;
	pthread_mutex_unlock(&log_lock);
}

void usect_dpdk_log(char *text, uint32_t size)
{
	pthread_mutex_lock(&log_lock);
	log_text[log_length] = 0;
	snprintf(text, size, "%s", log_text);
	log_length = 0;
	pthread_mutex_unlock(&log_lock);
}

/* Libraries that net_af_xdp brings along report on standard error whatever they do. */
static void silence(const char *library, const char *setter)
{
	void *loaded = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
	void *(*set)(void *) = loaded ? (void *(*)(void *))dlsym(loaded, setter) : NULL;

	if (set)
		set(NULL);
}

static void unregister(void *unused)
{
	(void)unused;
	rte_thread_unregister();
}

/* Sends what is written to a descriptor elsewhere; returns what puts it back. */
static int divert(int descriptor, int elsewhere)
{
	int kept = dup(descriptor);

	if (kept >= 0 && elsewhere >= 0)
		dup2(elsewhere, descriptor);
	return kept;
}

static void restore(int descriptor, int kept)
{
	if (kept < 0)
		return;
	dup2(kept, descriptor);
	close(kept);
}

/* It prints its usage on standard output, and what it dislikes on standard error too: the first is lost, the
 * second comes before what was logged. */
static int initialise(int argc, char **argv)
{
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC), complaints = memfd_create("complaints", MFD_CLOEXEC);
	int output = divert(STDOUT_FILENO, nowhere), error = divert(STDERR_FILENO, complaints);
	int failed = rte_eal_init(argc, argv) < 0 ? -(rte_errno ? rte_errno : EINVAL) : 0;
	char text[1024];
	ssize_t length = complaints < 0 ? 0 : pread(complaints, text, sizeof(text), 0);

	fflush(stdout);
	restore(STDOUT_FILENO, output);
	restore(STDERR_FILENO, error);
	if (failed && length > 0)
		prepend(text, length);
	if (nowhere >= 0)
		close(nowhere);
	if (complaints >= 0)
		close(complaints);
	return failed;
}

int usect_dpdk_init(int argc, char **argv)
{
	FILE *log = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = keep });
	int failed;

	if (!log || setvbuf(log, NULL, _IOLBF, 0) || rte_openlog_stream(log))
		return -ENOMEM;
	if (pthread_key_create(&registered, unregister))
		return -ENOMEM;
	failed = initialise(argc, argv);
	silence("libbpf.so.1", "libbpf_set_print");
	silence("libxdp.so.1", "libxdp_set_print");
	return failed;
}

/* Gives the calling thread a number of its own, so that pools keep a cache for it, until it ends. */
static inline void enrol(void)
{
	if (likely(rte_lcore_id() != LCORE_ID_ANY))
		return;
	if (rte_thread_register() == 0)
		pthread_setspecific(registered, &registered);
}

static struct rte_mempool *pool(const char *role, uint16_t id, uint32_t largest)
{
	char name[RTE_MEMPOOL_NAMESIZE];

	snprintf(name, sizeof(name), "usect-%s-%u", role, id);
	/* No less than drivers are used to: net_af_packet refuses smaller ones. */
	return rte_pktmbuf_pool_create(name, BUFFERS, CACHE, 0,
				       RTE_PKTMBUF_HEADROOM + RTE_MAX(largest + RTE_ETHER_CRC_LEN, 2048U),
				       SOCKET_ID_ANY);
}

/* net_pcap stamps what arrives without offering it. */
static int stamps_unasked(const struct rte_eth_dev_info *info)
{
	return strcmp(info->driver_name, "net_pcap") == 0;
}

/* What DPDK calls the receive-timestamp offload. */
static int ask_for_stamps(const struct rte_eth_dev_info *info, struct rte_eth_conf *conf)
{
	if (!stamps_unasked(info)) {
		conf->rxmode.offloads |= info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP;
		if (!conf->rxmode.offloads)
			return 0;
	}
	return rte_mbuf_dyn_rx_timestamp_register(&stamp_offset, &stamp_flag);
}

static void find_clocks(uint16_t id, const struct rte_eth_dev_info *info, int offload, struct usect_device *out)
{
	uint64_t ticks;
	int synced = rte_eth_timesync_enable(id) == 0;

	out->timesync = synced && info->max_tx_queues > PROBE_QUEUE;
	if (stamps_unasked(info))
		out->arrivals = USECT_WALL_US;
	else if (offload && usect_dpdk_clock(id, USECT_DEVICE_CLOCK, &ticks) == 0)
		out->arrivals = USECT_DEVICE_CLOCK;
	else if (offload && synced)
		out->arrivals = USECT_TIMESYNC;
}

static int start(uint16_t id, uint32_t largest, int stamps, struct usect_device *out)
{
	struct rte_eth_conf conf = { 0 };
	struct rte_eth_dev_info info;
	uint16_t descriptors = DESCRIPTORS, tx_descriptors = DESCRIPTORS, tx_queues = 1;
	int failed = rte_eth_dev_info_get(id, &info);

	if (!failed && stamps)
		failed = ask_for_stamps(&info, &conf);
	if (failed)
		return failed;
	if (stamps && info.max_tx_queues > PROBE_QUEUE) {
		tx_queues = PROBE_QUEUE + 1;
		/* Without an offload many drivers take a path that passes over requests for stamps. */
		conf.txmode.offloads |= info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	}
	if (largest > RTE_ETHER_MAX_LEN - RTE_ETHER_CRC_LEN)
		conf.rxmode.mtu = largest - RTE_ETHER_HDR_LEN;
	failed = rte_eth_dev_configure(id, 1, tx_queues, &conf);
	if (!failed)
		failed = rte_eth_dev_adjust_nb_rx_tx_desc(id, &descriptors, &tx_descriptors);
	if (!failed)
		failed = rte_eth_rx_queue_setup(id, 0, descriptors, SOCKET_ID_ANY, NULL, out->rx_pool);
	for (uint16_t queue = 0; queue < tx_queues && !failed; queue++)
		failed = rte_eth_tx_queue_setup(id, queue, tx_descriptors, SOCKET_ID_ANY, NULL);
	if (!failed)
		failed = rte_eth_dev_start(id);
	if (failed)
		return failed;
	/* Frames are addressed to it in most uses; where a driver can't, that has to do. */
	rte_eth_promiscuous_enable(id);
	if (stamps)
		find_clocks(id, &info, conf.rxmode.offloads != 0, out);
	snprintf(out->driver, sizeof(out->driver), "%s", info.driver_name);
	return 0;
}

static int own_netns(void)
{
	return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

/* In the namespace in which it was opened. */
static void release(struct usect_device *device)
{
	struct rte_eth_dev_info info;

	enrol();
	if (rte_eth_dev_info_get(device->id, &info) == 0) {
		rte_eth_dev_stop(device->id);
		rte_eth_dev_close(device->id);
		/* So that its name can be used again. */
		rte_dev_remove(info.device);
	}
	close(device->netns);
	rte_mempool_free(device->tx_pool);
	rte_mempool_free(device->rx_pool);
}

int usect_dpdk_open(const char *devargs, uint32_t largest, int stamps, struct usect_device *out)
{
	char name[RTE_DEV_NAME_MAX_LEN];
	struct rte_ether_addr mac;
	uint16_t id;
	int failed;

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(devargs, ","), devargs);
	enrol();
	if (rte_eth_dev_get_port_by_name(name, &id)) {
		failed = rte_dev_probe(devargs);
		if (failed)
			return failed;
		if (rte_eth_dev_get_port_by_name(name, &id))
			return -ENODEV;
	}
	memset(out, 0, sizeof(*out));
	out->id = id;
	out->netns = own_netns();
	if (out->netns < 0)
		return -errno;
	out->tx_pool = pool("tx", id, largest);
	out->rx_pool = pool("rx", id, largest);
	failed = out->tx_pool && out->rx_pool ? start(id, largest, stamps, out) : -(rte_errno ? rte_errno : ENOMEM);
	if (failed) {
		release(out);
		return failed;
	}
	if (rte_eth_macaddr_get(id, &mac) == 0)
		memcpy(out->mac, mac.addr_bytes, sizeof(out->mac));
	return 0;
}

int usect_dpdk_close(struct usect_device *device)
{
	/* net_af_xdp takes its program off an interface by number: elsewhere that is another interface. */
	if (setns(device->netns, CLONE_NEWNET))
		return -errno;
	release(device);
	return 0;
}

struct template {
	const uint8_t *bytes;
	uint32_t length;
};

static void fill_one(struct rte_mempool *mp, void *opaque, void *object, unsigned int index)
{
	struct rte_mbuf *mbuf = object;
	struct template *template = opaque;

	(void)mp;
	(void)index;
	memcpy((uint8_t *)mbuf->buf_addr + RTE_PKTMBUF_HEADROOM, template->bytes, template->length);
}

int usect_dpdk_fill(void *pool, const uint8_t *bytes, uint32_t length)
{
	struct template template = { bytes, length };

	if (length + RTE_PKTMBUF_HEADROOM > rte_pktmbuf_data_room_size(pool))
		return -EMSGSIZE;
	rte_mempool_obj_iter(pool, fill_one, &template);
	return 0;
}

int usect_dpdk_alloc(void *pool, struct usect_frame *frames, uint16_t count)
{
	struct rte_mbuf *mbufs[BATCH];
	int failed;

	enrol();
	failed = rte_mempool_get_bulk(pool, (void **)mbufs, count);
	if (failed)
		return failed;
	/* Free buffers have one segment and one owner (rte_mbuf_raw_alloc); what else a frame of ours needs is in
	 * their first cache line, so that the second is not touched. */
	for (uint16_t i = 0; i < count; i++) {
		mbufs[i]->data_off = RTE_PKTMBUF_HEADROOM;
		mbufs[i]->ol_flags = 0;
		frames[i].mbuf = mbufs[i];
		frames[i].data = (uint8_t *)mbufs[i]->buf_addr + RTE_PKTMBUF_HEADROOM;
		frames[i].room = mbufs[i]->buf_len - RTE_PKTMBUF_HEADROOM;
		frames[i].length = 0;
	}
	return 0;
}

void usect_dpdk_free(struct usect_frame *frames, uint16_t count)
{
	struct rte_mbuf *mbufs[BATCH];

	enrol();
	for (uint16_t i = 0; i < count; i++)
		mbufs[i] = frames[i].mbuf;
	rte_pktmbuf_free_bulk(mbufs, count);
}

uint16_t usect_dpdk_send(uint16_t id, struct usect_frame *frames, uint16_t count)
{
	struct rte_mbuf *mbufs[BATCH];

	for (uint16_t i = 0; i < count; i++) {
		mbufs[i] = frames[i].mbuf;
		mbufs[i]->data_len = frames[i].length;
		mbufs[i]->pkt_len = frames[i].length;
	}
	return rte_eth_tx_burst(id, 0, mbufs, count);
}

uint16_t usect_dpdk_receive(uint16_t id, struct usect_frame *frames, uint16_t count)
{
	struct rte_mbuf *mbufs[BATCH];
	uint16_t received;

	enrol();
	received = rte_eth_rx_burst(id, 0, mbufs, count);
	for (uint16_t i = 0; i < received; i++) {
		frames[i].mbuf = mbufs[i];
		frames[i].data = rte_pktmbuf_mtod(mbufs[i], uint8_t *);
		frames[i].length = rte_pktmbuf_data_len(mbufs[i]);
		frames[i].room = 0;
		frames[i].stamp = 0;
		if (unlikely(mbufs[i]->ol_flags & stamp_flag))
			frames[i].stamp = *RTE_MBUF_DYNFIELD(mbufs[i], stamp_offset, rte_mbuf_timestamp_t *);
	}
	return received;
}

int usect_dpdk_probe(const struct usect_device *device, const uint8_t *bytes, uint32_t length)
{
	struct rte_mbuf *mbuf;
	uint8_t *data;

	enrol();
	/* Not of the sender's pool, whose buffers keep a frame's bytes from one use to the next. */
	mbuf = rte_pktmbuf_alloc(device->rx_pool);
	data = mbuf ? (uint8_t *)rte_pktmbuf_append(mbuf, length) : NULL;
	if (data) {
		memcpy(data, bytes, length);
		mbuf->ol_flags |= RTE_MBUF_F_TX_IEEE1588_TMST;
		if (rte_eth_tx_burst(device->id, PROBE_QUEUE, &mbuf, 1) == 1)
			return 0;
	}
	rte_pktmbuf_free(mbuf);
	return -ENOBUFS;
}

static int in_ns(int failed, const struct timespec *time, uint64_t *ns)
{
	*ns = (uint64_t)time->tv_sec * 1000000000 + time->tv_nsec;
	return failed;
}

int usect_dpdk_probe_left(uint16_t id, uint64_t *ns)
{
	struct timespec time = { 0 };

	return in_ns(rte_eth_timesync_read_tx_timestamp(id, &time), &time, ns);
}

int usect_dpdk_probe_arrived(uint16_t id, const struct usect_frame *frame, uint64_t *ns)
{
	const struct rte_mbuf *mbuf = frame->mbuf;
	struct timespec time = { 0 };

	/* Where a driver has several registers, the buffer says which. */
	return in_ns(rte_eth_timesync_read_rx_timestamp(id, &time, mbuf->timesync), &time, ns);
}

int usect_dpdk_clock(uint16_t id, int clock, uint64_t *ticks)
{
	struct timespec time = { 0 };
	int failed;

	switch (clock) {
	case USECT_TIMESYNC:
		return in_ns(rte_eth_timesync_read_time(id, &time), &time, ticks);
	case USECT_DEVICE_CLOCK:
		return rte_eth_read_clock(id, ticks);
	case USECT_WALL_US:
		failed = in_ns(clock_gettime(CLOCK_REALTIME, &time), &time, ticks);
		*ticks /= 1000;
		return failed;
	default:
		return -ENOTSUP;
	}
}

int usect_dpdk_counters(uint16_t id, struct usect_counters *out)
{
	struct rte_eth_stats stats;
	int failed = rte_eth_stats_get(id, &stats);

	if (!failed)
		*out = (struct usect_counters){ stats.imissed, stats.ierrors + stats.oerrors };
	return failed;
}
