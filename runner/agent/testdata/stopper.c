/* stopper: stop every process that it may, for ever. */
#include <signal.h>
#include <unistd.h>

int main(void)
{
	if (write(1, "ready", 5) != 5)
		return 1;
	for (;;)
		kill(-1, SIGSTOP);
}
