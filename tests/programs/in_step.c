/* Runs two functions in turn, each for half of the period, by the clock. The first argument is the period in nanoseconds. */
#include <stdlib.h>
#include <time.h>

#define FRAME __attribute__((noinline, noclone))

static volatile unsigned long work;

static unsigned long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static FRAME void first_half(unsigned long long period)
{
	while (now() % period < period / 2)
		work++;
}

static FRAME void second_half(unsigned long long period)
{
	while (now() % period >= period / 2)
		work--;
}

int main(int count, char **arguments)
{
	unsigned long long period = count > 1 ? strtoull(arguments[1], 0, 10) : 1;

	for (;;) {
		first_half(period);
		second_half(period);
	}
}
