/* spawn N PROGRAM: start and wait for PROGRAM N times, as fast as the kernel
 * allows, and print the mean in nanoseconds. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	int n = atoi(argv[1]);
	char *args[] = {argv[2], NULL}, *env[] = {NULL};
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < n; i++) {
		pid_t pid = vfork();
		if (pid == 0) {
			execve(argv[2], args, env);
			_exit(127);
		}
		int status;
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			return 1;
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%lld\n", ((b.tv_sec - a.tv_sec) * 1000000000LL + (b.tv_nsec - a.tv_nsec)) / n);
	return 0;
}
