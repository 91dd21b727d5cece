/* Runs `before` of a library until it gets SIGUSR1, truncates the library's file to what is loaded, which removes its symbols, and runs
 * `after`. Usage: shortens LIBRARY */
#include <dlfcn.h>
#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int told, never;

static void on_signal(int signal)
{
	told = signal;
}

int main(int argc, char **argv)
{
	Elf64_Ehdr header;
	off_t end = 0;
	FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void (*before)(volatile int *) = library ? (void (*)(volatile int *))dlsym(library, "before") : NULL;
	void (*after)(volatile int *) = library ? (void (*)(volatile int *))dlsym(library, "after") : NULL;

	if (!file || !before || !after || fread(&header, sizeof(header), 1, file) != 1)
		abort();
	for (int n = 0; n < header.e_phnum; n++) {
		Elf64_Phdr segment;

		if (fseek(file, (long)(header.e_phoff + n * sizeof(segment)), SEEK_SET) ||
		    fread(&segment, sizeof(segment), 1, file) != 1)
			abort();
		if (segment.p_type == PT_LOAD && (off_t)(segment.p_offset + segment.p_filesz) > end)
			end = (off_t)(segment.p_offset + segment.p_filesz);
	}
	signal(SIGUSR1, on_signal);
	before(&told);
	if (truncate(argv[1], end))
		abort();
	after(&never);
}
