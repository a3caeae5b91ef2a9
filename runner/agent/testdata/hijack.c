/* hijack PID | hijack child: try to reach into a process in every way a job could
 * think of, and print "probe yes" or "probe no" for each. "child" is the control:
 * an unprotected process of the same user, where all of it must work. The target
 * may be dead afterwards. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[64];

static void say(const char *probe, int worked)
{
	printf("%s %s\n", probe, worked ? "yes" : "no");
	fflush(stdout);
}

static int can_open(pid_t pid, const char *name, int flags)
{
	snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
	return open(path, flags | O_NONBLOCK);
}

/* A pong that nobody asked for ends the connection, if the host ever sees it. */
static int forge_frame(pid_t pid)
{
	static const char frame[] = "\x00\x00\x00\x02\x40\x09";
	int wrote = 0;
	char name[32];
	for (int fd = 0; fd < 1024; fd++) {
		snprintf(name, sizeof name, "fd/%d", fd);
		int f = can_open(pid, name, O_WRONLY);
		if (f >= 0 && write(f, frame, sizeof frame - 1) > 0)
			wrote = 1;
		if (f >= 0)
			close(f);
	}
	return wrote;
}

static int steal_fd(pid_t pid)
{
	int p = syscall(SYS_pidfd_open, pid, 0);
	for (int fd = 0; p >= 0 && fd < 1024; fd++)
		if (syscall(SYS_pidfd_getfd, p, fd, 0) >= 0)
			return 1;
	return 0;
}

static int read_some(pid_t pid, const char *name)
{
	char c;
	int f = can_open(pid, name, O_RDONLY);
	int ok = f >= 0 && read(f, &c, 1) == 1;
	if (f >= 0)
		close(f);
	return ok;
}

/* The stack of the control is where ours is; of the agent any page would do. */
static int mem(pid_t pid, int write_it)
{
	int word = 0;
	int f = can_open(pid, "mem", write_it ? O_RDWR : O_RDONLY);
	if (f < 0)
		return 0;
	int ok = write_it ? pwrite(f, &word, sizeof word, (off_t)&word) > 0 : pread(f, &word, sizeof word, (off_t)&word) > 0;
	close(f);
	return ok;
}

static int vm_read(pid_t pid)
{
	char mine[4];
	struct iovec to = {mine, sizeof mine}, from = {path, sizeof mine};
	return process_vm_readv(pid, &to, 1, &from, 1, 0) > 0 || errno == EFAULT;
}

static int trace(pid_t pid, int how)
{
	if (ptrace(how, pid, 0, 0) != 0)
		return 0;
	if (how == PTRACE_SEIZE && ptrace(PTRACE_INTERRUPT, pid, 0, 0) != 0)
		return 1;
	waitpid(pid, NULL, __WALL);
	ptrace(PTRACE_DETACH, pid, 0, 0);
	return 1;
}

static int signal_by_pidfd(pid_t pid)
{
	int p = syscall(SYS_pidfd_open, pid, 0);
	return p >= 0 && syscall(SYS_pidfd_send_signal, p, SIGCONT, NULL, 0) == 0;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	pid_t pid = atoi(argv[1]);
	if (strcmp(argv[1], "child") == 0) {
		int p[2];
		if (pipe(p) != 0)
			return 2;
		pid = fork();
		if (pid == 0) {
			for (int fd = 0; fd < 3; fd++)
				close(fd);
			for (;;)
				pause();
		}
	}
	struct rlimit limit;
	say("forge-frame", forge_frame(pid));
	say("steal-fd", steal_fd(pid));
	say("read-environ", read_some(pid, "environ"));
	say("read-mem", mem(pid, 0));
	say("write-mem", mem(pid, 1));
	say("vm-read", vm_read(pid));
	say("see-root", can_open(pid, "root", O_RDONLY | O_DIRECTORY) >= 0);
	say("see-cwd", can_open(pid, "cwd", O_RDONLY | O_DIRECTORY) >= 0);
	say("see-exe", can_open(pid, "exe", O_RDONLY) >= 0);
	say("set-limits", prlimit(pid, RLIMIT_NOFILE, NULL, &limit) == 0 && prlimit(pid, RLIMIT_NOFILE, &limit, NULL) == 0);
	say("set-priority", setpriority(PRIO_PROCESS, pid, 19) == 0);
	say("attach", trace(pid, PTRACE_ATTACH));
	say("seize", trace(pid, PTRACE_SEIZE));
	say("signal-0", kill(pid, 0) == 0);
	say("signal-by-pidfd", signal_by_pidfd(pid));
	say("stop", kill(pid, SIGSTOP) == 0);
	say("cont", kill(pid, SIGCONT) == 0);
	say("term", kill(pid, SIGTERM) == 0);
	say("kill", kill(pid, SIGKILL) == 0);
	say("kill-thread", syscall(SYS_tgkill, pid, pid, SIGKILL) == 0);
	return 0;
}
