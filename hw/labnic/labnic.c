// SPDX-License-Identifier: GPL-2.0
/*
 * labnic: pairs of pretend network cards with hardware timestamps, joined by a
 * wire of known length.  For tests: what a program should find is known exactly.
 *
 *   insmod labnic.ko [pairs=N] [PARAMETER=VALUE]...
 *
 * makes lab0 and lab1, joined, lab2 and lab3, joined, ...  Each card has a clock
 * of its own (/dev/ptpN, ethtool -T) that clock_settime and clock_adjtime set and
 * steer; at first they all agree.  SIOCSHWTSTAMP turns the timestamps on, as on a
 * real card.
 *
 * A packet's transmit time is the sender's clock when the driver gets it, and its
 * receive time the receiver's clock DELAY later, to the nanosecond, however late
 * the kernel comes to deliver it.  So with both clocks on one time base
 * (rx - tx) is DELAY; that is the truth a measurement is held against.
 *
 * Parameters, all also under /sys/module/labnic/parameters at any time:
 *   delay=A,B    ns over the wire, from the even card to the odd, and back (10000,10000)
 *   offset=A,B   ns by which the even cards' clocks, and the odd ones', are ahead at first (0,0; when it is loaded)
 *   ppm=A,B      parts per million by which they are fast (0,0; when it is loaded)
 *   rx_all=0     a card like Intel's 82576, that timestamps received PTP events only
 *   tx_late=NS   report transmit timestamps so much later (0: at once)
 *   tx_lose=N    never report every N-th transmit timestamp (0: report all)
 *   rx_lose=N    leave out every N-th receive timestamp (0: none)
 *   drop=N       lose every N-th packet on the wire (0: none)
 *
 * Kernel 6.12.
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/net_tstamp.h>
#include <linux/netdevice.h>
#include <linux/ptp_classify.h>
#include <linux/ptp_clock_kernel.h>

#define MAX_PAIRS 8

static uint pairs = 1;
module_param(pairs, uint, 0444);
static ulong delay[2] = { 10000, 10000 };
module_param_array(delay, ulong, NULL, 0644);
static long offset[2], ppm[2];
module_param_array(offset, long, NULL, 0444);
module_param_array(ppm, long, NULL, 0444);
static bool rx_all = true;
module_param(rx_all, bool, 0644);
static ulong tx_late;
module_param(tx_late, ulong, 0644);
static uint tx_lose, rx_lose, drop;
module_param(tx_lose, uint, 0644);
module_param(rx_lose, uint, 0644);
module_param(drop, uint, 0644);

/* Packets waiting for their time, soonest first. */
struct pipe {
	struct sk_buff_head queue;
	struct hrtimer timer;
};

struct waiting {			/* in skb->cb */
	ktime_t due;			/* CLOCK_MONOTONIC */
	u64 stamp;			/* CLOCK_MONOTONIC_RAW */
};

struct card {
	struct net_device *dev;
	struct card *peer;
	uint end;			/* 0 even, 1 odd */
	struct kernel_hwtstamp_config config;
	uint sent, tx_stamps, rx_stamps;
	struct pipe wire;		/* from this card to its peer */
	struct pipe reports;		/* transmit timestamps not yet reported */

	struct ptp_clock *clock;
	struct ptp_clock_info info;
	spinlock_t lock;		/* the three below */
	u64 raw0, time0;		/* the clock read time0 at raw0 */
	s64 rate;			/* off by so many 2^-16 ppm */
};

static struct card *cards[2 * MAX_PAIRS];

/* --- the clock ------------------------------------------------------------- */

static u64 clock_at(struct card *c, u64 raw)
{
	u64 t, ran, off;
	ulong flags;

	spin_lock_irqsave(&c->lock, flags);
	ran = raw - c->raw0;
	off = mul_u64_u64_div_u64(ran, abs(c->rate), 1000000ULL << 16);
	t = c->time0 + ran + (c->rate < 0 ? -off : off);
	spin_unlock_irqrestore(&c->lock, flags);
	return t;
}

static void clock_restart(struct card *c, u64 raw, u64 time, s64 rate)
{
	ulong flags;

	spin_lock_irqsave(&c->lock, flags);
	c->raw0 = raw;
	c->time0 = time;
	c->rate = rate;
	spin_unlock_irqrestore(&c->lock, flags);
}

static int clock_adjfine(struct ptp_clock_info *info, long scaled_ppm)
{
	struct card *c = container_of(info, struct card, info);
	u64 raw = ktime_get_raw_ns();

	clock_restart(c, raw, clock_at(c, raw), scaled_ppm);
	return 0;
}

static int clock_adjtime(struct ptp_clock_info *info, s64 delta)
{
	struct card *c = container_of(info, struct card, info);
	u64 raw = ktime_get_raw_ns();

	clock_restart(c, raw, clock_at(c, raw) + delta, c->rate);
	return 0;
}

static int clock_gettimex(struct ptp_clock_info *info, struct timespec64 *ts,
			  struct ptp_system_timestamp *sys)
{
	struct card *c = container_of(info, struct card, info);

	ptp_read_system_prets(sys);
	*ts = ns_to_timespec64(clock_at(c, ktime_get_raw_ns()));
	ptp_read_system_postts(sys);
	return 0;
}

static int clock_settime(struct ptp_clock_info *info, const struct timespec64 *ts)
{
	struct card *c = container_of(info, struct card, info);

	clock_restart(c, ktime_get_raw_ns(), timespec64_to_ns(ts), c->rate);
	return 0;
}

static const struct ptp_clock_info clock_info = {
	.owner = THIS_MODULE,
	.name = "labnic",
	.max_adj = 100000000,
	.adjfine = clock_adjfine,
	.adjtime = clock_adjtime,
	.gettimex64 = clock_gettimex,
	.settime64 = clock_settime,
};

/* --- packets --------------------------------------------------------------- */

static void deliver(struct card *from, struct sk_buff *skb)
{
	struct card *to = from->peer;
	u64 stamp = ((struct waiting *)skb->cb)->stamp;
	int filter = READ_ONCE(to->config.rx_filter);
	bool stamped = filter == HWTSTAMP_FILTER_ALL ||
		(filter != HWTSTAMP_FILTER_NONE && ptp_classify_raw(skb) != PTP_CLASS_NONE);

	if (__dev_forward_skb(to->dev, skb)) {	/* frees it on failure */
		to->dev->stats.rx_dropped++;
		return;
	}
	to->dev->stats.rx_packets++;
	to->dev->stats.rx_bytes += skb->len;
	if (stamped && !(rx_lose && ++to->rx_stamps % rx_lose == 0))
		skb_hwtstamps(skb)->hwtstamp = ns_to_ktime(clock_at(to, stamp));
	netif_rx(skb);
}

static void report(struct card *c, struct sk_buff *skb)
{
	struct skb_shared_hwtstamps h = {
		.hwtstamp = ns_to_ktime(clock_at(c, ((struct waiting *)skb->cb)->stamp)),
	};

	skb_tstamp_tx(skb, &h);
	consume_skb(skb);
}

static void pipe_put(struct pipe *p, struct sk_buff *skb, ktime_t due)
{
	ulong flags;

	((struct waiting *)skb->cb)->due = due;
	spin_lock_irqsave(&p->queue.lock, flags);
	__skb_queue_tail(&p->queue, skb);
	if (skb_queue_len(&p->queue) == 1)
		hrtimer_start(&p->timer, due, HRTIMER_MODE_ABS_SOFT);
	spin_unlock_irqrestore(&p->queue.lock, flags);
}

static enum hrtimer_restart pipe_run(struct pipe *p, struct card *c,
				     void (*use)(struct card *, struct sk_buff *))
{
	struct sk_buff *skb;
	ulong flags;
	ktime_t due;

	for (;;) {
		spin_lock_irqsave(&p->queue.lock, flags);
		skb = skb_peek(&p->queue);
		if (!skb) {
			spin_unlock_irqrestore(&p->queue.lock, flags);
			return HRTIMER_NORESTART;
		}
		due = ((struct waiting *)skb->cb)->due;
		if (due > ktime_get()) {
			/* Under the lock, for pipe_put may start it too. */
			bool again = !hrtimer_is_queued(&p->timer);

			if (again)
				hrtimer_set_expires(&p->timer, due);
			spin_unlock_irqrestore(&p->queue.lock, flags);
			return again ? HRTIMER_RESTART : HRTIMER_NORESTART;
		}
		__skb_unlink(skb, &p->queue);
		spin_unlock_irqrestore(&p->queue.lock, flags);
		use(c, skb);
	}
}

static enum hrtimer_restart wire_run(struct hrtimer *t)
{
	struct card *c = container_of(t, struct card, wire.timer);

	return pipe_run(&c->wire, c, deliver);
}

static enum hrtimer_restart reports_run(struct hrtimer *t)
{
	struct card *c = container_of(t, struct card, reports.timer);

	return pipe_run(&c->reports, c, report);
}

static netdev_tx_t card_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct card *c = *(struct card **)netdev_priv(dev);
	ktime_t now = ktime_get();
	u64 raw = ktime_get_raw_ns();
	ulong length = READ_ONCE(delay[c->end]), late = READ_ONCE(tx_late);
	bool stamped = (skb_shinfo(skb)->tx_flags & SKBTX_HW_TSTAMP) &&
		READ_ONCE(c->config.tx_type) == HWTSTAMP_TX_ON;
	struct sk_buff *copy;

	dev->stats.tx_packets++;
	dev->stats.tx_bytes += skb->len;
	if (stamped)
		skb_shinfo(skb)->tx_flags |= SKBTX_IN_PROGRESS;
	skb_tx_timestamp(skb);

	copy = drop && ++c->sent % drop == 0 ? NULL : skb_copy(skb, GFP_ATOMIC);
	if (copy && !netif_running(c->peer->dev)) {
		kfree_skb(copy);
		copy = NULL;
	}
	if (copy) {
		skb_shinfo(copy)->tx_flags = 0;
		((struct waiting *)copy->cb)->stamp = raw + length;
		pipe_put(&c->wire, copy, ktime_add_ns(now, length));
	}

	if (!stamped || (tx_lose && ++c->tx_stamps % tx_lose == 0)) {
		consume_skb(skb);
		return NETDEV_TX_OK;
	}
	((struct waiting *)skb->cb)->stamp = raw;
	if (late)
		pipe_put(&c->reports, skb, ktime_add_ns(now, late));
	else
		report(c, skb);
	return NETDEV_TX_OK;
}

/* --- the card -------------------------------------------------------------- */

static int card_open(struct net_device *dev)
{
	struct card *c = *(struct card **)netdev_priv(dev);

	if (netif_running(c->peer->dev)) {
		netif_carrier_on(dev);
		netif_carrier_on(c->peer->dev);
	}
	return 0;
}

static int card_stop(struct net_device *dev)
{
	struct card *c = *(struct card **)netdev_priv(dev);

	netif_carrier_off(dev);
	netif_carrier_off(c->peer->dev);
	return 0;
}

static int card_hwtstamp_get(struct net_device *dev, struct kernel_hwtstamp_config *config)
{
	*config = (*(struct card **)netdev_priv(dev))->config;
	return 0;
}

static int card_hwtstamp_set(struct net_device *dev, struct kernel_hwtstamp_config *config,
			     struct netlink_ext_ack *extack)
{
	struct card *c = *(struct card **)netdev_priv(dev);

	if (config->tx_type != HWTSTAMP_TX_OFF && config->tx_type != HWTSTAMP_TX_ON)
		return -ERANGE;
	switch (config->rx_filter) {
	case HWTSTAMP_FILTER_NONE:
		break;
	case HWTSTAMP_FILTER_PTP_V2_L4_EVENT ... HWTSTAMP_FILTER_PTP_V2_DELAY_REQ:
		config->rx_filter = rx_all ? HWTSTAMP_FILTER_ALL : HWTSTAMP_FILTER_PTP_V2_EVENT;
		break;
	default:
		if (!rx_all)
			return -ERANGE;
		config->rx_filter = HWTSTAMP_FILTER_ALL;
	}
	c->config = *config;
	return 0;
}

static int card_get_ts_info(struct net_device *dev, struct kernel_ethtool_ts_info *info)
{
	struct card *c = *(struct card **)netdev_priv(dev);

	info->so_timestamping = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE |
		SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_TX_HARDWARE |
		SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
	info->phc_index = ptp_clock_index(c->clock);
	info->tx_types = BIT(HWTSTAMP_TX_OFF) | BIT(HWTSTAMP_TX_ON);
	info->rx_filters = BIT(HWTSTAMP_FILTER_NONE) |
		(rx_all ? BIT(HWTSTAMP_FILTER_ALL) : BIT(HWTSTAMP_FILTER_PTP_V2_EVENT));
	return 0;
}

static const struct net_device_ops card_ops = {
	.ndo_open = card_open,
	.ndo_stop = card_stop,
	.ndo_start_xmit = card_xmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_hwtstamp_get = card_hwtstamp_get,
	.ndo_hwtstamp_set = card_hwtstamp_set,
};

static const struct ethtool_ops card_ethtool_ops = {
	.get_link = ethtool_op_get_link,
	.get_ts_info = card_get_ts_info,
};

static void pipe_init(struct pipe *p, enum hrtimer_restart (*run)(struct hrtimer *))
{
	skb_queue_head_init(&p->queue);
	hrtimer_init(&p->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	p->timer.function = run;
}

static struct card *card_new(uint n, u64 raw, u64 time)
{
	struct card *c = kzalloc(sizeof(*c), GFP_KERNEL);
	u8 mac[ETH_ALEN] = { 2, 0x1a, 0xb0, 0, 0, n };

	if (!c)
		return NULL;
	c->end = n & 1;
	spin_lock_init(&c->lock);
	clock_restart(c, raw, time + offset[c->end], ppm[c->end] * (1 << 16));
	pipe_init(&c->wire, wire_run);
	pipe_init(&c->reports, reports_run);
	c->info = clock_info;
	c->clock = ptp_clock_register(&c->info, NULL);
	if (IS_ERR_OR_NULL(c->clock))
		goto no_clock;
	c->dev = alloc_netdev(sizeof(c), "lab%d", NET_NAME_ENUM, ether_setup);
	if (!c->dev)
		goto no_dev;
	*(struct card **)netdev_priv(c->dev) = c;
	c->dev->netdev_ops = &card_ops;
	c->dev->ethtool_ops = &card_ethtool_ops;
	eth_hw_addr_set(c->dev, mac);
	netif_carrier_off(c->dev);
	return c;
no_dev:
	ptp_clock_unregister(c->clock);
no_clock:
	kfree(c);
	return NULL;
}

static void labnic_exit(void)
{
	uint n;

	for (n = 0; n < 2 * MAX_PAIRS; n++)
		if (cards[n] && cards[n]->dev->reg_state == NETREG_REGISTERED)
			unregister_netdev(cards[n]->dev);
	for (n = 0; n < 2 * MAX_PAIRS; n++) {
		struct card *c = cards[n];

		if (!c)
			continue;
		hrtimer_cancel(&c->wire.timer);
		hrtimer_cancel(&c->reports.timer);
		skb_queue_purge(&c->wire.queue);
		skb_queue_purge(&c->reports.queue);
		free_netdev(c->dev);
		ptp_clock_unregister(c->clock);
		kfree(c);
	}
}

static int __init labnic_init(void)
{
	u64 raw = ktime_get_raw_ns(), time = ktime_get_real_ns();
	uint n;
	int err = -ENOMEM;

	if (pairs < 1 || pairs > MAX_PAIRS)
		return -EINVAL;
	for (n = 0; n < 2 * pairs; n++) {
		cards[n] = card_new(n, raw, time);
		if (!cards[n])
			goto fail;
	}
	for (n = 0; n < 2 * pairs; n++)
		cards[n]->peer = cards[n ^ 1];
	for (n = 0; n < 2 * pairs; n++) {
		err = register_netdev(cards[n]->dev);
		if (err)
			goto fail;
	}
	return 0;
fail:
	labnic_exit();
	return err;
}

module_init(labnic_init);
module_exit(labnic_exit);
MODULE_DESCRIPTION("Pairs of pretend network cards with hardware timestamps");
MODULE_LICENSE("GPL");
