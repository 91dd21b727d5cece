/* COUNT …: makes so many processes that sleep; what follows makes their titles long. They end with it. */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	for (long left = atol(argv[1]); left > 0; left--) {
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	}
	for (;;)
		pause();
}
