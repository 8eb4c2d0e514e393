/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Reads the time stamp counter again and again on a processor that runs nothing else: no operating system, no interrupts, one core
 * (paper 002 §2.2, experiment 1a). What it found goes out over the first serial line, in lines that `usect dissect --cold-start` reads.
 */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define MARK "usect-cold "
#define READINGS 4096 /* in a row */
#define ROWS 1024
#define SHORT 65536 /* ticks; longer gaps are kept one by one */
#define LONG 4096

#define COM1 0x3f8
#define PIT_HZ 1193182 /* of the interval timer, on every PC */
#define PIT_TICKS 59659 /* 50 ms of it */

static u64 readings[READINGS];
static u32 counts[SHORT];
static u64 longs[LONG];
static u32 long_count, long_lost;

static void out(u32 port, u8 value)
{
	__asm__ volatile("outb %b0, %w1" : : "a"(value), "d"(port));
}

static u8 in(u32 port)
{
	u8 value;

	__asm__ volatile("inb %w1, %b0" : "=a"(value) : "d"(port));
	return value;
}

static u64 tsc(void)
{
	u64 now;

	__asm__ volatile("rdtsc" : "=A"(now));
	return now;
}

static void cpuid(u32 leaf, u32 *a, u32 *b, u32 *c, u32 *d)
{
	__asm__ volatile("cpuid" : "=a"(*a), "=b"(*b), "=c"(*c), "=d"(*d) : "a"(leaf), "c"(0));
}

static void serial_up(void)
{
	out(COM1 + 1, 0x00); /* no interrupts */
	out(COM1 + 3, 0x80); /* the divisor: */
	out(COM1 + 0, 0x01); /* 115,200 baud */
	out(COM1 + 1, 0x00);
	out(COM1 + 3, 0x03); /* 8 bits, no parity, one stop bit */
	out(COM1 + 2, 0xc7); /* queues on */
	out(COM1 + 4, 0x03); /* ready */
}

static void put(char c)
{
	/* A machine without a serial line says that it is always ready; one whose line hangs is not waited for for ever. */
	for (u32 patience = 0; !(in(COM1 + 5) & 0x20) && patience < 1000000; patience++)
		;
	out(COM1, (u8)c);
}

static void puts(const char *text)
{
	for (; *text; text++)
		put(*text);
}

/* Divides without a library: the processor divides 64 by 32 bits where the quotient has 32. */
static u64 divided(u64 number, u32 by, u32 *rest)
{
	u32 high = (u32)(number >> 32), low = (u32)number, quotient_high = high / by, quotient_low, remainder;

	__asm__("divl %4" : "=a"(quotient_low), "=d"(remainder) : "a"(low), "d"(high % by), "r"(by));
	if (rest)
		*rest = remainder;
	return (u64)quotient_high << 32 | quotient_low;
}

static void put_number(u64 number)
{
	char digits[21];
	u32 at = sizeof(digits), digit;

	digits[--at] = 0;
	do {
		number = divided(number, 10, &digit);
		digits[--at] = (char)('0' + digit);
	} while (number);
	puts(digits + at);
}

static void put_line(const char *name, u64 number)
{
	puts(MARK);
	puts(name);
	put(' ');
	put_number(number);
	puts("\r\n");
}

static void put_processor(void)
{
	u32 name[13] = { 0 }, most, unused;

	cpuid(0x80000000, &most, &unused, &unused, &unused);
	for (u32 i = 0; most >= 0x80000004 && i < 3; i++)
		cpuid(0x80000002 + i, name + 4 * i, name + 4 * i + 1, name + 4 * i + 2, name + 4 * i + 3);
	puts(MARK "processor ");
	puts(name[0] ? (const char *)name : "unknown");
	puts("\r\n");
}

/* Ticks of the counter while the interval timer counts down. */
static u64 ticks_of_timer(void)
{
	u64 before;

	out(0x61, (u8)((in(0x61) & ~0x02) | 0x01)); /* its gate is open, the speaker is off */
	out(0x43, 0xb0); /* channel 2, both bytes, once */
	out(0x42, PIT_TICKS & 0xff);
	out(0x42, PIT_TICKS >> 8);
	before = tsc();
	/* Where the timer is switched off, as on some newer machines, it never ends: no counter is that fast. */
	while (!(in(0x61) & 0x20))
		if (tsc() - before > 1ull << 36)
			return 0;
	return tsc() - before;
}

static void tally(void)
{
	for (u32 i = 1; i < READINGS; i++) {
		u64 gap = readings[i] - readings[i - 1];

		if (gap < SHORT)
			counts[gap]++;
		else if (long_count < LONG)
			longs[long_count++] = gap;
		else
			long_lost++;
	}
}

static void put_gaps(void)
{
	for (u32 gap = 0; gap < SHORT; gap++) {
		if (!counts[gap])
			continue;
		puts(MARK "gap ");
		put_number(gap);
		put(' ');
		put_number(counts[gap]);
		puts("\r\n");
	}
	for (u32 i = 0; i < long_count; i++) {
		puts(MARK "gap ");
		put_number(longs[i]);
		puts(" 1\r\n");
	}
}

void main(void)
{
	u64 ticks;

	serial_up();
	put_processor();
	ticks = ticks_of_timer();
	if (!ticks) {
		puts(MARK "error this machine's interval timer is off\r\n");
		return;
	}
	for (u32 i = 0; i < READINGS; i++) /* touched before it is measured */
		readings[i] = 0;
	for (u32 row = 0; row < ROWS; row++) {
		for (u32 i = 0; i < READINGS; i++)
			readings[i] = tsc();
		tally();
	}
	put_line("tsc-hz", divided(ticks * PIT_HZ, PIT_TICKS, 0));
	put_line("gaps", (u64)ROWS * (READINGS - 1));
	put_gaps();
	put_line("lost", long_lost);
	puts(MARK "end\r\n");
}
