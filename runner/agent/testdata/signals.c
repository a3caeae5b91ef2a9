/* signals: print the signals that this process was started to ignore or block. */
#include <signal.h>
#include <stdio.h>

int main(void)
{
	sigset_t blocked;
	sigprocmask(SIG_SETMASK, NULL, &blocked);
	for (int s = 1; s <= 64; s++) {
		struct sigaction a;
		if (sigaction(s, NULL, &a) == 0 && a.sa_handler != SIG_DFL)
			printf("%d ignored\n", s);
		if (sigismember(&blocked, s) == 1)
			printf("%d blocked\n", s);
	}
	puts("done");
	return 0;
}
