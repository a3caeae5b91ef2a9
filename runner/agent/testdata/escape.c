/* escape FILE: leave by a double fork into a session of one's own, ignore SIGTERM
 * and keep all descriptors, then append a dot to FILE every 10 ms for ever. The
 * caller's process ends once the file is there. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	int p[2];
	char c;
	if (pipe(p) != 0)
		return 1;
	if (fork() == 0) {
		setsid();
		if (fork() != 0)
			_exit(0);
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		int f = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0666);
		if (write(p[1], "!", 1) != 1)
			_exit(1);
		while (write(f, ".", 1) == 1)
			usleep(10000);
		_exit(1);
	}
	close(p[1]);
	if (read(p[0], &c, 1) != 1)
		return 1;
	wait(NULL);
	return 0;
}
