// Command probe runs inside a sandbox and does what a shell can't: use up a
// resource in a known way, or attack the agent.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

var commands = map[string]func(arg string, in io.Reader, out io.Writer) error{
	"alloc":  alloc,
	"spin":   spin,
	"procs":  procs,
	"emit":   emit,
	"ptrace": ptrace,
	"poke":   poke,
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) != 2 || commands[args[0]] == nil {
		return errors.New("usage: probe alloc MIB | spin DURATION | procs N | emit BYTES | ptrace PID | poke PATH")
	}
	return commands[args[0]](args[1], in, out)
}

// alloc touches MIB of memory and says so.
func alloc(arg string, _ io.Reader, out io.Writer) error {
	mib, err := strconv.Atoi(arg)
	if err != nil {
		return err
	}
	var all [][]byte
	for range mib {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		all = append(all, block)
	}
	fmt.Fprintln(out, "allocated", len(all))
	return nil
}

// spin counts how often it gets round in a time, on one processor.
func spin(arg string, _ io.Reader, out io.Writer) error {
	d, err := time.ParseDuration(arg)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	n := 0
	for end := time.Now().Add(d); time.Now().Before(end); n++ {
		for i := 0; i < 10_000; i++ {
			n ^= i & 1
		}
	}
	fmt.Fprintln(out, n)
	return nil
}

// procs starts N processes that wait for the end of their stdin, and says when
// all of them are there.
func procs(arg string, in io.Reader, out io.Writer) error {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return err
	}
	for i := range n {
		p, err := os.StartProcess("/bin/cat", []string{"cat"}, &os.ProcAttr{Files: []*os.File{os.Stdin, nil, nil}})
		if err != nil {
			return fmt.Errorf("process %d: %w", i, err)
		}
		defer func() { _, _ = p.Wait() }()
	}
	fmt.Fprintln(out, "started", n)
	_, err = io.Copy(io.Discard, in)
	return err
}

// emit writes BYTES bytes of a pattern, as many at a time as a pipe takes.
func emit(arg string, _ io.Reader, out io.Writer) error {
	n, err := strconv.ParseInt(arg, 10, 64)
	if err != nil {
		return err
	}
	block := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	for n > 0 {
		w, err := out.Write(block[:min(n, int64(len(block)))])
		if err != nil {
			return err
		}
		n -= int64(w)
	}
	return nil
}

// ptrace succeeds when PID lets itself be traced.
func ptrace(arg string, _ io.Reader, _ io.Writer) error {
	pid, err := strconv.Atoi(arg)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	return syscall.PtraceAttach(pid)
}

// poke succeeds when PATH takes bytes.
func poke(path string, _ io.Reader, _ io.Writer) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte{0, 0, 0, 4, 'e', 'v', 'i', 'l'})
	return err
}
