/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What usect measures of a host's parts, measured by the shortest program that does it: the median, in nanoseconds, on standard output.
 *
 *   parts tsc CORE SECONDS                 gaps between readings of the counter
 *   parts ipc CORE OTHER SECONDS           there and back between two processes over a datagram socket, 32 bytes
 *   parts memcached PORT CORE SECONDS      gets of one key, back to back, over the loopback, spinning
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define MOST (1 << 24)
#define ROW (1 << 15)

static uint64_t *samples;
static size_t count;

static void failed(const char *what)
{
	perror(what);
	exit(1);
}

static void pin(const char *core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(atoi(core), &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		failed("sched_setaffinity");
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Ticks of the counter in a nanosecond. */
static double ticks_per_ns(void)
{
	double begun = now_s();
	uint64_t ticks = __rdtsc();

	while (now_s() - begun < 0.2)
		;
	return (__rdtsc() - ticks) / ((now_s() - begun) * 1e9);
}

static void keep(uint64_t ticks)
{
	if (count < MOST)
		samples[count++] = ticks;
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void tell(void)
{
	if (!count) {
		fprintf(stderr, "nothing was measured\n");
		exit(1);
	}
	qsort(samples, count, sizeof(*samples), ascending);
	printf("%.1f\n", samples[count / 2] / ticks_per_ns());
}

static void tsc(const char *core, double seconds)
{
	static uint64_t row[ROW];
	double end;

	pin(core);
	memset(row, 1, sizeof(row));
	for (end = now_s() + seconds; now_s() < end;) {
		for (size_t i = 0; i < ROW; i++)
			row[i] = __rdtsc();
		for (size_t i = 1; i < ROW; i++)
			keep(row[i] - row[i - 1]);
	}
}

static void ipc(const char *core, const char *other, double seconds)
{
	char message[32] = { 0 };
	int pair[2], child;
	double end;

	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair))
		failed("socketpair");
	child = fork();
	if (child < 0)
		failed("fork");
	if (!child) {
		close(pair[0]);
		pin(other);
		while (read(pair[1], message, sizeof(message)) > 0)
			if (write(pair[1], message, sizeof(message)) < 0)
				break;
		_exit(0);
	}
	close(pair[1]);
	pin(core);
	for (end = now_s() + seconds; now_s() < end;) {
		for (int i = 0; i < 64; i++) {
			uint64_t begun = __rdtsc();

			if (write(pair[0], message, sizeof(message)) < 0 || read(pair[0], message, sizeof(message)) < 0)
				failed("the other process");
			keep(__rdtsc() - begun);
		}
	}
	/* A datagram socket doesn't tell that its other end is gone. */
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void ask(int server, const char *request, const char *end_of_answer)
{
	char answer[256];
	size_t length = 0;

	if (write(server, request, strlen(request)) < 0)
		failed("write");
	while (length < strlen(end_of_answer) || memcmp(answer + length - strlen(end_of_answer), end_of_answer, strlen(end_of_answer))) {
		ssize_t more = read(server, answer + length, sizeof(answer) - length);

		if (more > 0)
			length += more;
		else if (!more || errno != EAGAIN || length == sizeof(answer))
			failed("memcached");
	}
}

static void memcached(const char *port, const char *core, double seconds)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(atoi(port)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int server = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	double end;

	pin(core);
	if (server < 0 || connect(server, (struct sockaddr *)&to, sizeof(to)))
		failed("connect");
	setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	fcntl(server, F_SETFL, O_NONBLOCK);
	ask(server, "set peer 0 0 32\r\nuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu\r\n", "STORED\r\n");
	for (end = now_s() + seconds; now_s() < end;) {
		uint64_t begun = __rdtsc();

		ask(server, "get peer\r\n", "\r\nEND\r\n");
		keep(__rdtsc() - begun);
	}
}

int main(int argc, char **argv)
{
	samples = malloc(MOST * sizeof(*samples));
	if (!samples)
		failed("malloc");
	memset(samples, 1, MOST * sizeof(*samples));
	if (argc == 4 && !strcmp(argv[1], "tsc"))
		tsc(argv[2], atof(argv[3]));
	else if (argc == 5 && !strcmp(argv[1], "ipc"))
		ipc(argv[2], argv[3], atof(argv[4]));
	else if (argc == 5 && !strcmp(argv[1], "memcached"))
		memcached(argv[2], argv[3], atof(argv[4]));
	else
		return 2;
	tell();
	return 0;
}
