/* A program whose stack is known: main calls first, first calls second, second calls third, and third does what the first
 * argument says. Built without frame pointers. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define FRAME __attribute__((noinline, noclone))

static volatile unsigned long work;
static const char *what, *library;

static void spin(void)
{
	for (int i = 0; i < 1000; i++)
		work++;
}

static int compare(const void *a, const void *b)
{
	spin();
	return *(const int *)a - *(const int *)b;
}

static FRAME void on_signal(int signal)
{
	(void)signal;
	for (;;)
		spin();
}

static FRAME unsigned long deeper(unsigned long depth)
{
	if (depth == 0)
		for (;;)
			spin();
	return deeper(depth - 1) + work;
}

static void wait_for_signal(int flags)
{
	static char other_stack[1 << 16];
	stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof(other_stack)};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
	struct itimerval soon = {.it_value = {.tv_usec = 1000}};

	sigaltstack(&stack, NULL);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	for (;;)
		spin();
}

static FRAME void third(void)
{
	if (!strcmp(what, "sort")) {
		int numbers[256];

		for (;;) {
			for (int i = 0; i < 256; i++)
				numbers[i] = (i * 7919) % 256;
			qsort(numbers, 256, sizeof(int), compare);
		}
	} else if (!strcmp(what, "nanosleep")) {
		struct timespec long_time = {.tv_sec = 100};

		nanosleep(&long_time, NULL);
	} else if (!strcmp(what, "read")) {
		char byte;
		int ends[2];

		if (!pipe(ends) && read(ends[0], &byte, 1))
			work++;
	} else if (!strcmp(what, "condition")) {
		pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
		pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

		pthread_mutex_lock(&mutex);
		for (;;)
			pthread_cond_wait(&condition, &mutex);
	} else if (!strcmp(what, "copy")) {
		static char from[4096], to[4096];

		for (;;) {
			memcpy(to, from, 4000 + (work & 1));
			work++;
		}
	} else if (!strcmp(what, "clock")) {
		struct timespec now;

		for (;;)
			work += clock_gettime(CLOCK_MONOTONIC, &now) + (unsigned long)now.tv_nsec;
	} else if (!strcmp(what, "signal")) {
		wait_for_signal(0);
	} else if (!strcmp(what, "signal on another stack")) {
		wait_for_signal(SA_ONSTACK);
	} else if (!strcmp(what, "deep")) {
		work += deeper(300);
	} else if (!strcmp(what, "large")) {
		/* The caller's frame lies beyond any copy of the stack. */
		volatile char large[50000];

		large[0] = 1;
		for (;;) {
			struct timespec short_time = {.tv_nsec = 50000000};

			nanosleep(&short_time, NULL);
			work += (unsigned long)large[0];
		}
	} else if (!strcmp(what, "later")) {
		struct timespec a_moment = {.tv_sec = 1, .tv_nsec = 500000000};
		void (*in_library)(void);
		void *handle;

		nanosleep(&a_moment, NULL);
		handle = dlopen(library, RTLD_NOW);
		in_library = handle ? (void (*)(void))dlsym(handle, "in_library") : NULL;
		if (!in_library)
			abort();
		in_library();
		work++;
	} else {
		for (;;)
			spin();
	}
	work++;
}

static FRAME void second(void)
{
	third();
	work++;
}

static FRAME void first(void)
{
	second();
	work++;
}

int main(int argc, char **argv)
{
	what = argc > 1 ? argv[1] : "";
	library = argc > 2 ? argv[2] : "";
	first();
	return work != 0;
}
