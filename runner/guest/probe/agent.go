package probe

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// agentPid is the agent's, the first process of every sandbox.
const agentPid = 1

// agentHijack tries to reach the agent: with its stream a job could forge its
// results, with its memory do whatever it can.
func agentHijack(c *Context) {
	c.Try("pid", func() (string, error) {
		data, err := os.ReadFile("/proc/1/status")
		return statusField(string(data), "Uid"), err
	})
	for _, fd := range []string{"0", "1", "2"} {
		c.TryErr("fd-"+fd, func() error { return openWrite("/proc/1/fd/" + fd) })
	}
	for _, name := range []string{"fd", "task/1/fd"} {
		c.Try("list-"+strings.ReplaceAll(name, "/", "-"), func() (string, error) {
			entries, err := os.ReadDir("/proc/1/" + name)
			return strconv.Itoa(len(entries)), err
		})
	}
	for _, name := range []string{"environ", "maps", "auxv", "io"} {
		c.Try("read-"+name, func() (string, error) {
			data, err := os.ReadFile("/proc/1/" + name)
			return strconv.Itoa(len(data)), err
		})
	}
	c.TryErr("mem", func() error { return openWrite("/proc/1/mem") })
	c.TryErr("root", func() error { _, err := os.ReadDir("/proc/1/root/"); return err })
	c.TryErr("cwd", func() error { _, err := os.ReadDir("/proc/1/cwd/"); return err })
	eachInChild("vm-read", "vm-write", "seize", "stop", "pidfd", "rlimit", "directory")(c)
}

// openWrite opens for writing, and never writes.
func openWrite(path string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func hijack(_ *Context, args []string) (string, error) {
	switch args[0] {
	case "vm-read", "vm-write":
		return "", vmAccess(args[0] == "vm-write")
	case "seize": // unlike attaching it stops nobody, and ends with this process
		return "", unix.PtraceSeize(agentPid)
	case "stop":
		return "", unix.Kill(agentPid, 0) // asks for the right alone
	case "pidfd":
		fd, err := unix.PidfdOpen(agentPid, 0)
		if err != nil {
			return "open", err
		}
		got, err := unix.PidfdGetfd(fd, 1, 0)
		if err != nil {
			return "getfd", err
		}
		return "", unix.Close(got)
	case "rlimit":
		var old unix.Rlimit
		return "", unix.Prlimit(agentPid, unix.RLIMIT_NOFILE, nil, &old)
	case "directory":
		_, err := os.ReadDir("/.quavon")
		return "", err
	}
	return "", unix.ENOTSUP
}

// vmAccess reads or writes a byte of the agent's memory, at the start of its code:
// the program is the same, so the address is.
func vmAccess(write bool) error {
	var b [1]byte
	addr := uintptr(0x400000)
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(1)
	remote := []unix.RemoteIovec{{Base: addr, Len: 1}}
	var err error
	if write {
		_, err = unix.ProcessVMWritev(agentPid, local, remote, 0)
	} else {
		_, err = unix.ProcessVMReadv(agentPid, local, remote, 0)
	}
	return err
}
