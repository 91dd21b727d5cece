/* Runs `in_library` of every library that it is given, each for a few milliseconds, again and again. */
#include <dlfcn.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	void (**functions)(void) = calloc((size_t)argc, sizeof(*functions));

	for (int n = 1; n < argc; n++) {
		void *library = dlopen(argv[n], RTLD_NOW | RTLD_LOCAL);

		functions[n] = library ? (void (*)(void))dlsym(library, "for_a_moment") : NULL;
		if (!functions[n])
			abort();
	}
	for (;;)
		for (int n = 1; n < argc; n++)
			functions[n]();
}
