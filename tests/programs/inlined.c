// A function that is inlined into its caller, and code that is made while the program runs.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile unsigned long work;

static inline __attribute__((always_inline)) void inner(void)
{
	for (;;)
		work++;
}

__attribute__((noinline)) void outer(void)
{
	inner();
}

/* push %rbp; mov %rsp,%rbp; 1: jmp 1b: a function with a frame pointer that never returns. */
static const unsigned char made[] = {0x55, 0x48, 0x89, 0xe5, 0xeb, 0xfe};

static void run_made_code(void)
{
	char path[64];
	FILE *map;
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(code, made, sizeof(made));
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	map = fopen(path, "w");
	fprintf(map, "%lx %zx made_while_running\n", (unsigned long)code, sizeof(made));
	fclose(map);
	((void (*)(void))code)();
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "made"))
		run_made_code();
	outer();
	return 0;
}
