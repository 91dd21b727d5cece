/* Makes a known number of system calls and ends: CALL COUNT [FILE [BYTES [NAME]]]. It stops itself first, so that a tracer has time
 * to begin. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static char small[8192];
	size_t size = argc > 4 ? (size_t)atol(argv[4]) : sizeof(small);
	char *block = argc > 4 ? malloc(size) : small;
	int file = -1;

	if (argc < 3 || !block)
		return 2;
	if (argc > 3) {
		file = open(argv[3], O_RDONLY);
		/* The page cache holds it from now on. */
		if (file < 0 || pread(file, block, size, 0) < 0) {
			perror(argv[3]);
			return 1;
		}
	}
	if (argc > 5)
		prctl(PR_SET_NAME, argv[5]);
	raise(SIGSTOP);
	for (long left = atol(argv[2]); left > 0; left--) {
		struct timespec millisecond = { 0, 1000000 };

		/* By number: the C library may make another call instead. */
		if (!strcmp(argv[1], "nanosleep"))
			syscall(SYS_nanosleep, &millisecond, NULL);
		else if (!strcmp(argv[1], "pread64"))
			syscall(SYS_pread64, file, block, size, 0L);
		else
			return 2;
	}
	return 0;
}
