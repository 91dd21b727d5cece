/* Programs whose stacks are all different, for as long as they run: "recursion" takes a new random path through eight functions each
 * time; "compiled" runs code at ever new addresses, which a growing perf map names; "files" runs code of ever new files (copies of the
 * second argument, in the folder that is the third). */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FRAME __attribute__((noinline, noclone))

static volatile unsigned long work;
static uint64_t random_state = 88172645463325252u;

static uint64_t draw(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	return random_state ^= random_state << 17;
}

typedef unsigned long function(unsigned long depth);
static function *const functions[8];

/* Each calls one of the eight, from one of two places. */
#define FUNCTION(name)                                                                             \
	static FRAME unsigned long name(unsigned long depth)                                       \
	{                                                                                          \
		uint64_t drawn;                                                                    \
		if (depth == 0) {                                                                  \
			for (int i = 0; i < 20000; i++)                                            \
				work++;                                                            \
			return work;                                                               \
		}                                                                                  \
		drawn = draw();                                                                    \
		if (drawn & 8)                                                                     \
			return functions[drawn & 7](depth - 1) + 1;                                \
		return functions[drawn & 7](depth - 1) + work;                                     \
	}
FUNCTION(alpha)
FUNCTION(beta)
FUNCTION(gamma_)
FUNCTION(delta)
FUNCTION(epsilon)
FUNCTION(zeta)
FUNCTION(eta)
FUNCTION(theta)
static function *const functions[8] = {alpha, beta, gamma_, delta, epsilon, zeta, eta, theta};

/* push %rbp; mov %rsp,%rbp; mov %rdi,%rax; 1: dec %rax; jnz 1b; pop %rbp; ret: a loop of so many turns, with a frame pointer. */
static const unsigned char loop[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0x5d, 0xc3};

static void compile(void)
{
	const size_t size = 64 << 20;
	char path[64], name[200];
	unsigned char *code = mmap(NULL, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FILE *map;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	map = fopen(path, "w");
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	for (unsigned long n = 0;; n++) {
		unsigned char *at = code + n * 64 % size;

		memcpy(at, loop, sizeof(loop));
		fprintf(map, "%lx %zx compiled_%lu_%s\n", (unsigned long)at, sizeof(loop), n, name);
		if (n % 64 == 0)
			fflush(map);
		((void (*)(unsigned long))at)(100000);
	}
}

static void load(const char *library, const char *folder)
{
	char copy[4096], command[9000];

	for (unsigned long n = 0;; n++) {
		void *loaded;

		snprintf(copy, sizeof(copy), "%s/%lu.so", folder, n);
		snprintf(command, sizeof(command), "cp %s %s", library, copy);
		if (system(command))
			exit(1);
		loaded = dlopen(copy, RTLD_NOW);
		if (!loaded)
			exit(1);
		((void (*)(void))dlsym(loaded, "for_a_moment"))();
		dlclose(loaded);
		unlink(copy);
	}
}

int main(int argc, char **argv)
{
	if (argc > 3 && !strcmp(argv[1], "files"))
		load(argv[2], argv[3]);
	if (argc > 1 && !strcmp(argv[1], "compiled"))
		compile();
	for (;;)
		work += functions[draw() & 7](40 + draw() % 80);
}
