// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
/*
 * Reads the time stamp counter in the kernel with interrupts off (paper 002 §2.2, experiment 1b). Whoever reads /proc/usect_tsc gets
 * readings made one right after the other on the core that it runs on.
 */
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/timex.h>
#include <linux/uaccess.h>

#define READINGS 1024 /* as module.rs has it */

static u64 readings[READINGS];
static DEFINE_MUTEX(one_at_a_time);

static ssize_t usect_tsc_read(struct file *file, char __user *to, size_t size, loff_t *at)
{
	ssize_t done = sizeof(readings);
	unsigned long flags;
	int i;

	/* Readings are at its beginning; whoever reads on finds its end. */
	if (*at)
		return 0;
	if (size < sizeof(readings))
		return -EINVAL;
	if (mutex_lock_interruptible(&one_at_a_time))
		return -ERESTARTSYS;
	local_irq_save(flags);
	for (i = 0; i < READINGS; i++)
		readings[i] = get_cycles();
	local_irq_restore(flags);
	if (copy_to_user(to, readings, sizeof(readings)))
		done = -EFAULT;
	else
		*at = sizeof(readings);
	mutex_unlock(&one_at_a_time);
	return done;
}

static const struct proc_ops usect_tsc_ops = {
	.proc_read = usect_tsc_read,
};

static int __init usect_tsc_init(void)
{
	return proc_create("usect_tsc", 0400, NULL, &usect_tsc_ops) ? 0 : -ENOMEM;
}

static void __exit usect_tsc_exit(void)
{
	remove_proc_entry("usect_tsc", NULL);
}

module_init(usect_tsc_init);
module_exit(usect_tsc_exit);
MODULE_DESCRIPTION("Reads the time stamp counter with interrupts off");
MODULE_LICENSE("Dual MIT/GPL");
