/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
 *
 * Readings of the clock in the kernel, one right after the other, with the core's interrupts off where the kernel lets a
 * program do that (6.14).
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define READINGS 1024

extern void bpf_local_irq_save(unsigned long *flags) __ksym __weak;
extern void bpf_local_irq_restore(unsigned long *flags) __ksym __weak;

struct {
	__u64 uninterrupted; /* whether interrupts were off */
	__u64 readings[READINGS];
} state = {};

static __always_inline void read_again_and_again(void)
{
	for (__u32 i = 0; i < READINGS; i++)
		state.readings[i] = bpf_ktime_get_ns();
}

SEC("syscall")
int gaps(void *context)
{
	unsigned long flags;

	if (!bpf_local_irq_save || !bpf_local_irq_restore) {
		read_again_and_again();
		return 0;
	}
	bpf_local_irq_save(&flags);
	read_again_and_again();
	bpf_local_irq_restore(&flags);
	state.uninterrupted = 1;
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
