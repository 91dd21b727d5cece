/* What the tests of context switches need: a task that takes a CPU, one that works and sleeps in turns, two that wake each
 * other. Each is bound to the CPU of its second argument; the third is a priority: a nice value, or `rt`. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void work(long ns)
{
	long end = now() + ns;

	while (now() < end)
		;
}

static void doze(long ns)
{
	struct timespec t = { 0, ns };

	nanosleep(&t, NULL);
}

static void wake_each_other(void)
{
	int there[2], back[2];
	char c = 0;

	if (pipe(there) || pipe(back))
		exit(1);
	/* Each keeps only its own ends: when one is killed the other ends too. */
	if (!fork()) {
		close(there[1]);
		close(back[0]);
		while (read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1)
			;
	} else {
		close(there[0]);
		close(back[1]);
		while (write(there[1], &c, 1) == 1 && read(back[0], &c, 1) == 1)
			doze(200000);
	}
}

int main(int count, char **arguments)
{
	struct sched_param real_time = { .sched_priority = 10 };
	cpu_set_t cpus;

	if (count < 4)
		return 2;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(arguments[2]), &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		return 1;
	if (!strcmp(arguments[3], "rt")) {
		if (sched_setscheduler(0, SCHED_RR, &real_time))
			return 1;
	} else if (setpriority(PRIO_PROCESS, 0, atoi(arguments[3]))) {
		return 1;
	}
	if (!strcmp(arguments[1], "burn"))
		for (;;)
			work(1000000);
	if (!strcmp(arguments[1], "nap"))
		for (;;) {
			work(6000000);
			doze(2000000);
		}
	if (!strcmp(arguments[1], "pair"))
		wake_each_other();
	return 2;
}
